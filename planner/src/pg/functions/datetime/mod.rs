//! Functions on dates, times and intervals, as `tenon_storage::datetime` computes them.
//!
//! - `function`: what they have in common;
//! - `parts`: `extract`, `date_part`, `date_trunc`;
//! - `zones`: `timezone`, the function behind AT TIME ZONE;
//! - `operators`: `+`, `-`, `*` and `/`;
//! - `make`: values from numbers;
//! - `patterns`: `to_char`, `to_timestamp`, `to_date`;
//! - `other`: `age`, `justify_*`, `date_bin`, `isfinite`.

mod function;
mod make;
pub(crate) mod operators;
mod other;
mod parts;
mod patterns;
mod zones;

pub(crate) use function::{STAMP, STAMPTZ, TIME, TIMETZ, exact};
pub(crate) use zones::{compared_date, converted, first_date_from};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, ScalarUDF, cast};
use std::sync::{Arc, LazyLock};

/// A date as a point in time to compare with: where there is none so far away, one past all others.
pub(crate) fn comparable(date: Expr, to: DataType) -> Expr {
    static PLAIN: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(zones::comparable(false)));
    static ZONED: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(zones::comparable(true)));
    let date = cast(date, DataType::Date32);
    if to == STAMP {
        PLAIN.call(vec![date])
    } else {
        ZONED.call(vec![date])
    }
}

/// `extract(field from value)`.
pub(crate) fn extract(mut args: Vec<Expr>) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(parts::extract()));
    // A literal of the layout that the function takes: it says the type of the result.
    if let Some(Expr::Literal(field, _)) = args.first_mut()
        && let Some(text) = field.try_as_str()
    {
        *field = ScalarValue::Utf8View(text.map(|text| unquoted(text).to_string()));
    }
    FUNCTION.call(args)
}

/// A field's name that stands in quotes of either kind.
fn unquoted(text: &str) -> &str {
    let inner = |quote| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    inner('\'').or_else(|| inner('"')).unwrap_or(text)
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    let mut functions = parts::functions();
    functions.extend(zones::functions());
    functions.extend(make::functions());
    functions.extend(patterns::functions());
    functions.extend(other::functions());
    functions
}
