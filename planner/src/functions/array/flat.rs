//! What `unnest` takes: arrays of one dimension, whatever they had.

use super::construct::in_arrays;
use super::leaf;
use super::lists::{Builder, Lists, list_type};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// Its name, which no client can write.
pub(crate) const FLAT: &str = "\u{1}flat";

#[derive(Debug, PartialEq, Eq, Hash)]
struct Flat {
    signature: Signature,
}

pub(super) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Flat {
        signature: Signature::any(1, Volatility::Immutable),
    })
}

impl ScalarUDFImpl for Flat {
    fn name(&self) -> &str {
        FLAT
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match leaf(&types[0]) {
            (item, 2..) => list_type(item, 1),
            _ => types[0].clone(),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let own = &args.arg_fields[0];
        let field = own.as_ref().clone().with_name(FLAT);
        Ok(Arc::new(match leaf(own.data_type()).1 {
            0 | 1 => field,
            _ => field.with_data_type(self.return_type(&[own.data_type().clone()])?),
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (item, depth) = leaf(args.arg_fields[0].data_type());
        if depth < 2 {
            return Ok(args.args[0].clone());
        }
        in_arrays(&args.args, args.number_rows, |arrays, rows| {
            let lists = Lists::of(&arrays[0])?;
            let mut out = Builder::new(rows);
            for row in 0..rows {
                match lists.is_null(row) {
                    true => out.null(),
                    false => {
                        out.pick_all(0, lists.span(row));
                        out.row(vec![lists.span(row).len()]);
                    }
                }
            }
            out.finish(&[&lists.items], item, 1)
        })
    }
}
