//! The array that a subquery makes.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, new_empty_array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// The array, or an empty one for NULL: what `ARRAY(SELECT ...)` is without a row.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct OrEmpty {
    signature: Signature,
}

/// Its name, which no client can write.
pub(crate) const OR_EMPTY: &str = "\u{1}or_empty";

impl OrEmpty {
    pub(crate) fn udf() -> ScalarUDF {
        ScalarUDF::new_from_impl(Self {
            signature: Signature::any(1, Volatility::Immutable),
        })
    }
}

impl ScalarUDFImpl for OrEmpty {
    fn name(&self) -> &str {
        OR_EMPTY
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let lists = args.args[0].to_array(args.number_rows)?;
        let DataType::List(item) = lists.data_type() else {
            return plan_err!("no array: {}", lists.data_type());
        };
        if lists.null_count() == 0 {
            return Ok(ColumnarValue::Array(lists));
        }
        let own = lists.as_list::<i32>();
        let parts: Vec<ArrayRef> = (0..own.len())
            .filter(|row| own.is_valid(*row))
            .map(|row| own.value(row))
            .collect();
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        let values = match parts.is_empty() {
            true => new_empty_array(item.data_type()),
            false => concat(&parts)?,
        };
        let lengths = (0..own.len()).map(|row| {
            if own.is_valid(row) {
                own.value_length(row) as usize
            } else {
                0
            }
        });
        Ok(ColumnarValue::Array(Arc::new(ListArray::new(
            item.clone(),
            OffsetBuffer::from_lengths(lengths),
            values,
            None,
        ))))
    }
}
