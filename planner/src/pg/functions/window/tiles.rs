//! `ntile`: its argument is the first row's, must be positive, and may be NULL.

use super::fail;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int32Array, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int32Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl};
use std::sync::Arc;

pub(super) fn tiles() -> WindowUDF {
    WindowUDF::new_from_impl(Tiles {
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Tiles {
    signature: Signature,
}

impl WindowUDFImpl for Tiles {
    fn name(&self) -> &str {
        "ntile"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [one] if one.is_integer() || one.is_null() => Ok(vec![DataType::Int32]),
            _ => plan_err!("No function matches the given name and argument types 'ntile'"),
        }
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(args.name(), DataType::Int32, true)))
    }

    fn partition_evaluator(&self, _: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Tiled))
    }
}

#[derive(Debug)]
struct Tiled;

impl PartitionEvaluator for Tiled {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let wanted = values[0].as_primitive::<Int32Type>();
        if rows == 0 || wanted.is_null(0) {
            return Ok(new_null_array(&DataType::Int32, rows));
        }
        let tiles = match usize::try_from(wanted.value(0)) {
            Ok(tiles) if tiles > 0 => tiles,
            _ => return Err(fail("22014", "argument of ntile must be greater than zero")),
        };
        let (size, larger) = (rows / tiles, rows % tiles);
        let tile = |row: usize| match row < larger * (size + 1) {
            true => row / (size + 1),
            false => larger + (row - larger * (size + 1)) / size.max(1),
        };
        Ok(Arc::new(Int32Array::from_iter_values(
            (0..rows).map(|row| tile(row) as i32 + 1),
        )))
    }
}
