//! Arrays from text and to text, and the array that a subquery makes.

use crate::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, new_empty_array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{cast, concat};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::parse::{array_items, parse_column};

/// The lists that texts such as `{1,2}` stand for.
pub(crate) fn list_of_text(texts: &ArrayRef, item: SqlType) -> Result<ArrayRef> {
    let texts = cast(texts, &DataType::Utf8View)?;
    let mut items: Vec<Option<String>> = Vec::new();
    let mut lengths = Vec::new();
    for text in texts.as_string_view() {
        let own = match text {
            Some(text) => array_items(text).map_err(|error| to_datafusion(error.into()))?,
            None => Vec::new(),
        };
        lengths.push(own.len());
        items.extend(own);
    }
    let values = parse_column(item, items.iter().map(Option::as_deref));
    let values = values.map_err(|(_, error)| to_datafusion(error.into()))?;
    Ok(Arc::new(ListArray::new(
        Arc::new(item.field("item", true)),
        OffsetBuffer::from_lengths(lengths),
        values,
        texts.nulls().cloned(),
    )))
}

/// A cast of text to an array.
pub(crate) fn parse(expr: Expr, item: SqlType) -> Expr {
    let function = ParseArray {
        item,
        signature: Signature::any(1, Volatility::Immutable),
    };
    Arc::new(ScalarUDF::new_from_impl(function)).call(vec![expr])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ParseArray {
    item: SqlType,
    signature: Signature,
}

impl ScalarUDFImpl for ParseArray {
    fn name(&self) -> &str {
        "parse_array"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("parse_array({}, {})", args[0].schema_name(), self.item))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::List(Arc::new(self.item.field("item", true))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let texts = args.args[0].to_array(if scalar { 1 } else { args.number_rows })?;
        let lists = list_of_text(&texts, self.item)?;
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&lists, 0)?));
        }
        Ok(ColumnarValue::Array(lists))
    }
}

/// The array, or an empty one for NULL: what `ARRAY(SELECT ...)` is without a row.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct OrEmpty {
    signature: Signature,
}

/// Its name, which no client can write.
pub(crate) const OR_EMPTY: &str = "\u{1}or_empty";

impl OrEmpty {
    pub(super) fn udf() -> ScalarUDF {
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
