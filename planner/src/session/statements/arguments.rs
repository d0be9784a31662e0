//! The types of parameters that stand as arguments of functions which have one type there, whatever the others are.

use super::last;
use crate::pg::functions::advisory;
use datafusion::sql::sqlparser::ast::{DataType, Expr, FunctionArg, FunctionArgExpr, ObjectName, Value};
use tenon_storage::SqlType;

use SqlType::{Bool, Date, Float8, Inet, Int4, Int8, MacAddr8, Numeric, Text, Timestamp, TimestampTz};

/// Where PostgreSQL has several functions of a name, the one that it takes for arguments of unknown types.
const FUNCTIONS: &[(&str, &[SqlType])] = &[
    ("abs", &[Float8]),
    ("broadcast", &[Inet]),
    ("cbrt", &[Float8]),
    ("ceil", &[Float8]),
    ("ceiling", &[Float8]),
    ("chr", &[Int4]),
    ("cos", &[Float8]),
    ("daterange", &[Date, Date, Text]),
    ("exp", &[Float8]),
    ("family", &[Inet]),
    ("floor", &[Float8]),
    ("host", &[Inet]),
    ("hostmask", &[Inet]),
    ("inet_merge", &[Inet, Inet]),
    ("inet_same_family", &[Inet, Inet]),
    ("initcap", &[Text]),
    ("int4range", &[Int4, Int4, Text]),
    ("int8range", &[Int8, Int8, Text]),
    ("left", &[Text, Int4]),
    ("ln", &[Float8]),
    ("lpad", &[Text, Int4, Text]),
    ("macaddr8_set7bit", &[MacAddr8]),
    ("make_date", &[Int4, Int4, Int4]),
    ("make_time", &[Int4, Int4, Float8]),
    ("masklen", &[Inet]),
    ("netmask", &[Inet]),
    ("network", &[Inet]),
    ("ntile", &[Int4]),
    ("numrange", &[Numeric, Numeric, Text]),
    ("pg_cancel_backend", &[Int4]),
    ("pg_sleep", &[Float8]),
    ("pg_terminate_backend", &[Int4, Int8]),
    ("repeat", &[Text, Int4]),
    ("right", &[Text, Int4]),
    ("rpad", &[Text, Int4, Text]),
    ("set_config", &[Text, Text, Bool]),
    ("set_masklen", &[Inet, Int4]),
    ("setseed", &[Float8]),
    ("sin", &[Float8]),
    ("split_part", &[Text, Text, Int4]),
    ("sqrt", &[Float8]),
    ("substr", &[Text, Int4, Int4]),
    ("tsrange", &[Timestamp, Timestamp, Text]),
    ("tstzrange", &[TimestampTz, TimestampTz, Text]),
];

/// The type of an argument; None: it is not known by the function's name.
pub(super) fn type_of(name: &ObjectName, arguments: &[FunctionArg], number: usize) -> Option<SqlType> {
    let own_name = last(name);
    if own_name == "generate_series" {
        // An integer beside it makes it one.
        let is_integer = |argument: &FunctionArg| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => is_integer_literal(expr),
            _ => false,
        };
        return arguments.iter().any(is_integer).then_some(Int4);
    }
    // What stands before it may be of any type.
    if matches!(own_name.as_str(), "lag" | "lead" | "nth_value") {
        return (number == 1).then_some(Int4);
    }
    if matches!(own_name.as_str(), "round" | "trunc") && arguments.len() == 2 {
        return (number == 1).then_some(Int4);
    }
    if advisory::has_keys(&own_name) {
        return Some(if arguments.len() == 1 { Int8 } else { Int4 });
    }
    let (_, types) = FUNCTIONS.iter().find(|(own, _)| *own == own_name)?;
    types.get(number).copied()
}

/// Whether an expression is an integer as it is written, or as the cast that such a literal has become.
fn is_integer_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(&value.value, Value::Number(digits, _) if digits.parse::<i32>().is_ok()),
        Expr::Cast {
            expr,
            data_type: DataType::Int4(None),
            ..
        } => is_integer_literal(expr),
        _ => false,
    }
}
