//! Names of calls among columns, in time by their length.
//!
//! DataFusion makes a text of each argument, and one of those: where calls stand in calls, time by the square of the name's
//! length. Here calls write into one text.

use super::arithmetic;
use crate::pg::bounds;
use datafusion::logical_expr::{Expr, ScalarUDF};
use std::fmt::Write;

/// What DataFusion names a call.
pub(crate) fn of_call(name: &str, args: &[Expr]) -> String {
    let mut out = String::new();
    call(&mut out, name, args);
    out
}

fn call(out: &mut String, name: &str, args: &[Expr]) {
    out.push_str(name);
    out.push('(');
    for (at, arg) in args.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        match arg {
            Expr::ScalarFunction(inner) if is_named_here(&inner.func) => call(out, inner.name(), &inner.args),
            // A text takes all that is written.
            other => {
                let _ = write!(out, "{}", other.schema_name());
            }
        }
    }
    out.push(')');
}

/// The functions of operators, which make long chains.
fn is_named_here(function: &ScalarUDF) -> bool {
    arithmetic::is_checked(function) || bounds::concat::is_textcat(function)
}
