//! What `array_agg` gathers of arrays: they must be of the same sizes.

use super::build::{ARRAY_SUBSCRIPT, error};
use super::leaf;
use super::lists::Lists;
use crate::pg::error::SqlState;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Its name, which no client can write.
pub(crate) const EVEN: &str = "\u{1}even";

#[derive(Debug, PartialEq, Eq, Hash)]
struct Even {
    signature: Signature,
}

pub(super) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Even {
        signature: Signature::any(1, Volatility::Immutable),
    })
}

impl ScalarUDFImpl for Even {
    fn name(&self) -> &str {
        EVEN
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(args.arg_fields[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if leaf(args.arg_fields[0].data_type()).1 > 1 {
            check(&args.args[0].to_array(args.number_rows)?)?;
        }
        Ok(args.args[0].clone())
    }
}

fn check(array: &ArrayRef) -> Result<()> {
    if !matches!(array.data_type(), DataType::List(_)) {
        return Ok(());
    }
    let list = array.as_list::<i32>();
    let inner = Lists::of(list.values())?;
    for row in (0..list.len()).filter(|row| list.is_valid(*row)) {
        let own = list.value_offsets()[row] as usize..list.value_offsets()[row + 1] as usize;
        let mut before = None;
        for at in own {
            if inner.is_null(at) {
                return Err(error(SqlState("22004"), "cannot accumulate null arrays"));
            }
            let sizes = inner.sizes(at);
            if sizes.is_empty() {
                return Err(error(ARRAY_SUBSCRIPT, "cannot accumulate empty arrays"));
            }
            if before.as_ref().is_some_and(|before| *before != sizes) {
                let message = "cannot accumulate arrays of different dimensionality";
                return Err(error(ARRAY_SUBSCRIPT, message));
            }
            before = Some(sizes);
        }
    }
    Ok(())
}
