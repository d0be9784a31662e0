//! The types of parameters that stand as arguments of functions which have one type there, whatever the others are.

use super::last;
use crate::pg::functions::advisory;
use datafusion::sql::sqlparser::ast::{DataType, Expr, FunctionArg, FunctionArgExpr, ObjectName, Value};
use tenon_storage::{ArrayType, SqlType};

use SqlType::{Bool, Date, Float8, Inet, Int4, Int8, Json, Jsonb, MacAddr8, Numeric, Text, Timestamp, TimestampTz};

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
    ("json_array_elements", &[Json]),
    ("json_array_elements_text", &[Json]),
    ("json_array_length", &[Json]),
    ("json_each", &[Json]),
    ("json_each_text", &[Json]),
    ("json_extract_path", &[Json]),
    ("json_extract_path_text", &[Json]),
    ("json_object_keys", &[Json]),
    ("json_strip_nulls", &[Json]),
    ("json_to_record", &[Json]),
    ("json_to_recordset", &[Json]),
    ("json_typeof", &[Json]),
    ("jsonb_array_elements", &[Jsonb]),
    ("jsonb_array_elements_text", &[Jsonb]),
    ("jsonb_array_length", &[Jsonb]),
    ("jsonb_each", &[Jsonb]),
    ("jsonb_each_text", &[Jsonb]),
    ("jsonb_extract_path", &[Jsonb]),
    ("jsonb_extract_path_text", &[Jsonb]),
    ("jsonb_object_keys", &[Jsonb]),
    ("jsonb_path_exists", &[Jsonb, Text, Jsonb, Bool]),
    ("jsonb_path_exists_tz", &[Jsonb, Text, Jsonb, Bool]),
    ("jsonb_path_match", &[Jsonb, Text, Jsonb, Bool]),
    ("jsonb_path_match_tz", &[Jsonb, Text, Jsonb, Bool]),
    ("jsonb_path_query", &[Jsonb, Text, Jsonb, Bool]),
    ("jsonb_path_query_array", &[Jsonb, Text, Jsonb, Bool]),
    ("jsonb_path_query_array_tz", &[Jsonb, Text, Jsonb, Bool]),
    ("jsonb_path_query_first", &[Jsonb, Text, Jsonb, Bool]),
    ("jsonb_path_query_first_tz", &[Jsonb, Text, Jsonb, Bool]),
    ("jsonb_path_query_tz", &[Jsonb, Text, Jsonb, Bool]),
    ("jsonb_pretty", &[Jsonb]),
    ("jsonb_strip_nulls", &[Jsonb]),
    ("jsonb_to_record", &[Jsonb]),
    ("jsonb_to_recordset", &[Jsonb]),
    ("jsonb_typeof", &[Jsonb]),
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
    ("regexp_count", &[Text, Text, Int4, Text]),
    ("regexp_instr", &[Text, Text, Int4, Int4, Int4, Text, Int4]),
    ("regexp_substr", &[Text, Text, Int4, Int4, Text, Int4]),
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
    let numbers = SqlType::Array(ArrayType::of_items(Int4));
    let texts = SqlType::Array(ArrayType::of_items(Text));
    let behind_any: &[SqlType] = match own_name.as_str() {
        "generate_subscripts" => &[Int4, Bool],
        "trim_array" => &[Int4],
        "array_fill" => &[numbers, numbers],
        "json_populate_record" | "json_populate_recordset" => &[Json, Bool],
        "jsonb_populate_record" | "jsonb_populate_recordset" => &[Jsonb],
        _ => &[],
    };
    if let Some(at) = number.checked_sub(1)
        && !behind_any.is_empty()
    {
        return behind_any.get(at).copied();
    }
    if matches!(own_name.as_str(), "jsonb_set" | "jsonb_insert" | "jsonb_set_lax") {
        return [Jsonb, texts, Jsonb, Bool, Text].get(number).copied();
    }
    if own_name == "width_bucket" && arguments.len() == 4 {
        let is_numeric = |argument: &FunctionArg| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => is_numeric_literal(expr),
            _ => false,
        };
        return Some(match arguments[..3].iter().any(is_numeric) {
            _ if number == 3 => Int4,
            true => Numeric,
            false => Float8,
        });
    }
    if advisory::has_keys(&own_name) {
        return Some(if arguments.len() == 1 { Int8 } else { Int4 });
    }
    let (_, types) = FUNCTIONS.iter().find(|(own, _)| *own == own_name)?;
    types.get(number).copied()
}

/// Whether an expression is a number with a point in it.
fn is_numeric_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(&value.value, Value::Number(digits, _) if digits.contains('.')),
        _ => false,
    }
}

/// Whether an argument is a path, which is a text by another name.
pub(super) fn is_path(name: &ObjectName, number: usize) -> bool {
    number == 1 && last(name).starts_with("jsonb_path_")
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
