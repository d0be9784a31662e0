//! PostgreSQL's functions and operators on `json` and `jsonb`.
//!
//! A value of either is its text. `jsonb` has an Arrow type of its own; `json` is text whose field says so. Functions that
//! read parts give slices of the text; those that change values read them as trees.
//!
//! - `call`: functions of one row's arguments; `operators`: which operator is which function;
//! - `access`: parts and kinds; `edit`: changed values; `of_values`: SQL values as JSON, and the builders;
//! - `path`: functions with a jsonpath.

mod access;
mod assign;
mod call;
mod edit;
mod of_values;
pub(super) mod operators;
mod pairs;
mod path;
mod typed;

pub(crate) use access::{FIELD_AS_ARRAY, FIELD_AS_JSON, FIELD_AS_TEXT, subscript};
pub(crate) use assign::assigned;
pub(crate) use call::JSONPATH_OID;
pub(crate) use of_values::AGGREGATES;
pub(crate) use path::PATH;
pub(crate) use typed::{CARRIED, no_cast, ordered, scalar};

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::logical_expr::ScalarUDF;
use tenon_storage::SqlType;

pub(crate) fn is_jsonb(field: &Field) -> bool {
    *field.data_type() == DataType::LargeUtf8
}

pub(crate) fn is_json(field: &Field) -> bool {
    SqlType::from_field(field) == Some(SqlType::Json)
}

/// Functions that return sets: as ones that return arrays of their rows.
pub(super) fn sets() -> Vec<ScalarUDF> {
    let mut all = access::sets();
    all.extend(path::sets());
    all
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    let mut all = access::functions();
    all.extend(edit::functions());
    all.extend(of_values::functions());
    all.extend(path::functions());
    all.extend(typed::functions());
    all
}
