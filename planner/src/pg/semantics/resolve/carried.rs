//! Values of types that Arrow types carry which DataFusion's functions take for something else: enums and bit strings.

use crate::pg::functions::enums;
use crate::pg::semantics::fields;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use tenon_storage::EnumType;
use tenon_storage::bits::BITS;

/// Whether enums are among what a node computes with.
pub(super) fn mentions_enums(node: &LogicalPlan) -> Result<bool> {
    let has = |schema: &DFSchema| schema.fields().iter().any(|own| is_apart(own.data_type()));
    let mut found = node.inputs().iter().any(|input| has(input.schema()));
    node.apply_expressions(|expr| {
        found =
            found || expr.exists(|expr| Ok(matches!(expr, Expr::Cast(cast) if is_apart(cast.field.data_type()))))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Enums and bit strings, which Arrow types carry that DataFusion's functions take for something else.
fn is_apart(of: &DataType) -> bool {
    EnumType::of(of).is_some() || *of == BITS
}

/// The functions of bit strings.
const OF_BITS: &[&str] = &[
    "bit_and",
    "bit_count",
    "bit_length",
    "bit_or",
    "bit_xor",
    "get_bit",
    "length",
    "octet_length",
    "overlay",
    "position",
    "set_bit",
    "substring",
];

/// The functions that PostgreSQL has for values of any type, or for enums; others do not see what carries an enum.
#[rustfmt::skip]
const OF_ANY_TYPE: &[&str] = &[
    "array", "array_agg", "array_append", "array_cat", "array_fill", "array_position", "array_positions",
    "array_prepend", "array_remove", "array_replace", "array_to_json", "array_to_string", "coalesce", "concat",
    "concat_ws", "count", "cume_dist", "dense_rank", "enum_adopted", "enum_late", "enum_first", "enum_last", "enum_range",
    "first_value", "format", "greatest", "grouping", "json_agg", "json_build_array", "json_build_object", "json_object_agg",
    "jsonb_agg", "jsonb_build_array", "jsonb_build_object", "jsonb_object_agg", "lag", "last_value", "lead", "least",
    "make_array", "max", "min", "mode", "nth_value", "nullif", "num_nonnulls", "num_nulls", "percent_rank",
    "percentile_disc", "pg_column_size", "pg_typeof", "quote_literal", "quote_nullable", "rank", "row", "row_to_json",
    "struct", "named_struct", "to_json", "to_jsonb", "to_text", "unnest",
];

/// Whether a function takes values of any type, or is one of the server's own that a statement does not call.
pub(in crate::pg::semantics) fn is_of_any_type(name: &str) -> bool {
    // Those that stand for operators and syntax bear other names than a statement writes.
    let is_own = !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_own || OF_ANY_TYPE.contains(&name) || name.starts_with("any_") || name.starts_with("all_")
}

/// 42883 for a function of other types over an enum.
pub(super) fn takes_enums(expr: &Expr, schema: &DFSchema) -> Result<()> {
    let (name, args) = match expr {
        Expr::ScalarFunction(call) => (call.name(), &call.args),
        Expr::AggregateFunction(call) => (call.func.name(), &call.params.args),
        Expr::WindowFunction(call) => (call.fun.name(), &call.params.args),
        _ => return Ok(()),
    };
    if is_of_any_type(name) {
        return Ok(());
    }
    let types: Vec<DataType> = args
        .iter()
        .filter_map(|own| fields::data_type(own, schema).ok())
        .collect();
    let is_bits = OF_BITS.contains(&name) && types.contains(&BITS);
    match !is_bits && types.iter().any(is_apart) {
        true => Err(enums::undefined(name, &types)),
        false => Ok(()),
    }
}
