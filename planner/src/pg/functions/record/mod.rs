//! Records: values with columns of their own, as Arrow structs.
//!
//! - `make`: `ROW(...)`, and records whose columns have names; `field`: `(r).column`;
//! - `compare`: `<` and `=` of records;
//! - `nulls`: whether all columns of a record are NULL; `altered`: values after ALTER TYPE;
//! - `text`: records as text; `fill`: columns of any type from texts and json; `populate`: records made of json.

mod altered;
mod compare;
mod field;
mod fill;
mod make;
mod nulls;
mod populate;
mod text;

pub(crate) use altered::as_altered;
pub(crate) use compare::{compared, has_keys};
pub(crate) use field::FIELD;
pub(crate) use make::{COMPOSITE, RECORD};
pub(crate) use nulls::{ITSELF_NULL, asked_itself, null_where, tested};
pub(crate) use text::from_text;

use crate::pg::error::Result;
use datafusion::logical_expr::{Expr, ScalarUDF, lit};
use std::sync::Arc;

/// The values in a record's text; None for NULL.
///
/// # Errors
/// 22P02 for what is none, or has another number of columns.
pub fn parse_record(text: &str, columns: usize) -> Result<Vec<Option<String>>> {
    Ok(tenon_storage::parse::parse_record(text, columns)?)
}

/// `(record).name`
pub(crate) fn field_of(record: Expr, name: &str) -> Expr {
    Arc::new(field::function()).call(vec![record, lit(name)])
}

/// A record of names and values in turn.
pub(crate) fn of_names_and_values(arguments: Vec<Expr>) -> Expr {
    Arc::new(make::record()).call(arguments)
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    let mut all = vec![
        make::row(),
        make::record(),
        make::composite(),
        field::function(),
        altered::function(),
        nulls::function(),
        nulls::itself(),
    ];
    all.extend(populate::functions());
    all
}
