//! Records: values with columns of their own, as Arrow structs.
//!
//! - `make`: `ROW(...)`, and records whose columns have names; `field`: `(r).column`;
//! - `text`: records as text; `fill`: columns of any type from texts and json; `populate`: records made of json.

mod field;
mod fill;
mod make;
mod populate;
mod text;

pub(crate) use field::FIELD;
pub(crate) use make::{COMPOSITE, RECORD};
pub(crate) use text::from_text;
pub use text::parse_record;

use datafusion::logical_expr::{Expr, ScalarUDF, lit};
use std::sync::Arc;

/// `(record).name`
pub(crate) fn field_of(record: Expr, name: &str) -> Expr {
    Arc::new(field::function()).call(vec![record, lit(name)])
}

/// A record of names and values in turn.
pub(crate) fn of_names_and_values(arguments: Vec<Expr>) -> Expr {
    Arc::new(make::record()).call(arguments)
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    let mut all = vec![make::row(), make::record(), make::composite(), field::function()];
    all.extend(populate::functions());
    all
}
