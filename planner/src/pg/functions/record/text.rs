//! `(a,"b c",)`: records as text.

use super::fill::{Item, column};
use crate::pg::conventions;
use crate::pg::error::{SqlError, state};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// The values in a record's text; None for NULL.
///
/// # Errors
/// 22P02 for what is none, or has another number of columns.
pub fn parse_record(text: &str, columns: usize) -> Result<Vec<Option<String>>, SqlError> {
    let bad = |detail: &str| {
        let message = format!("malformed record literal: \"{text}\"");
        SqlError::new(state::INVALID_TEXT_REPRESENTATION, message).detail(detail.to_string())
    };
    let blank = |c: char| c.is_ascii_whitespace() || c == '\u{b}';
    let body = text.trim_start_matches(blank);
    let body = body.strip_prefix('(').ok_or_else(|| bad("Missing left parenthesis."))?;
    let mut values = Vec::with_capacity(columns);
    let mut rest = body.chars();
    let end = 'values: loop {
        if columns == 0 && rest.as_str().starts_with(')') {
            rest.next();
            break rest.as_str();
        }
        if values.len() == columns {
            return Err(bad("Too many columns."));
        }
        let (mut value, mut quoted, mut some) = (String::new(), false, false);
        loop {
            let Some(c) = rest.next() else {
                return Err(bad("Unexpected end of input."));
            };
            match c {
                ',' | ')' if !quoted => {
                    values.push(some.then_some(value));
                    if c == ')' {
                        break 'values rest.as_str();
                    }
                    break;
                }
                '\\' => match rest.next() {
                    Some(escaped) => value.push(escaped),
                    None => return Err(bad("Unexpected end of input.")),
                },
                '"' if quoted && rest.as_str().starts_with('"') => {
                    rest.next();
                    value.push('"');
                }
                '"' => quoted = !quoted,
                other => value.push(other),
            }
            some = true;
        }
    };
    if !end.trim_start_matches(blank).is_empty() {
        return Err(bad("Junk after right parenthesis."));
    }
    if values.len() < columns {
        return Err(bad("Too few columns."));
    }
    Ok(values)
}

/// Text as records of a type.
pub(crate) fn from_text(expr: Expr, to: FieldRef) -> Expr {
    let function = FromText {
        to,
        signature: Signature::any(1, Volatility::Immutable),
    };
    Arc::new(ScalarUDF::new_from_impl(function)).call(vec![expr])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FromText {
    to: FieldRef,
    signature: Signature,
}

impl ScalarUDFImpl for FromText {
    fn name(&self) -> &str {
        "record_of_text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(self.to.as_ref().clone().with_nullable(true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let rows = if scalar { 1 } else { args.number_rows };
        let texts = cast(&args.args[0].to_array(rows)?, &DataType::Utf8View)?;
        let items = texts.as_string_view().iter().map(|text| match text {
            Some(text) => Item::Text(text.to_string()),
            None => Item::Null,
        });
        let items: Vec<Item> = items.collect();
        let records = column(&self.to, &items, None, &conventions::of(&args.config_options))?;
        match scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&records, 0)?)),
            false => Ok(ColumnarValue::Array(records)),
        }
    }
}
