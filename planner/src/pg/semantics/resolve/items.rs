//! Arrays of `char(n)`, whose items are kept without blanks like its values: `ARRAY[...]` tells what its items are, what hands items
//! on takes them with their blanks, and what compares them without.

use super::pairs;
use super::strings::{as_type, is_blank, own_type, unify};
use crate::pg::functions::array::{bare_items, padded_items};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::ScalarFunction;
use tenon_storage::{ArrayType, SqlType};

const CONSTRUCTOR: &str = "array";

/// Functions that compare items.
const COMPARE: [&str; 10] = [
    "array_eq",
    "array_ge",
    "array_gt",
    "array_le",
    "array_lt",
    "array_ne",
    "array_position",
    "array_positions",
    "arraycontains",
    "arrayoverlap",
];

/// Functions whose array has items of the array that they take.
const HAND_ON: [&str; 3] = ["array_append", "array_cat", "array_prepend"];

/// Functions that show items.
const SHOW: [&str; 11] = [
    "array_to_json",
    "array_to_string",
    "concat",
    "concat_ws",
    "format",
    "json_build_array",
    "json_build_object",
    "jsonb_build_array",
    "jsonb_build_object",
    "to_json",
    "to_jsonb",
];

pub(super) fn is_candidate(name: &str) -> bool {
    name == CONSTRUCTOR || COMPARE.contains(&name) || HAND_ON.contains(&name) || SHOW.contains(&name)
}

/// The type of an array whose items blanks fill.
fn of_blanks(expr: &Expr, schema: &DFSchema) -> Option<ArrayType> {
    match own_type(expr, schema) {
        Some(SqlType::Array(of)) if is_blank(of.element()) => Some(of),
        _ => None,
    }
}

/// A call of such a function.
pub(super) fn call(mut call: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
    if call.name() == CONSTRUCTOR {
        return constructed(call, schema);
    }
    let arrays: Vec<Option<ArrayType>> = call.args.iter().map(|arg| of_blanks(arg, schema)).collect();
    let Some(deepest) = arrays.iter().flatten().max_by_key(|of| of.dimensions()).copied() else {
        return Transformed::no(Expr::ScalarFunction(call));
    };
    let compares = COMPARE.contains(&call.name());
    let hands_on = HAND_ON.contains(&call.name());
    for (arg, array) in call.args.iter_mut().zip(arrays) {
        let own = std::mem::take(arg);
        *arg = match array.map(ArrayType::element) {
            Some(SqlType::CharOf(width)) if !compares => padded_items(own, width),
            Some(SqlType::Bpchar) if compares => bare_items(own),
            None if compares => pairs::bare_value(own, schema),
            None if hands_on && own_type(&own, schema).is_some_and(is_blank) => as_type(own, SqlType::Bpchar),
            _ => own,
        };
    }
    let called = Expr::ScalarFunction(call);
    Transformed::yes(match hands_on {
        true => {
            let items = ArrayType::of_items(SqlType::Bpchar).with_dimensions(deepest.dimensions());
            as_type(called, SqlType::Array(items))
        }
        false => called,
    })
}

/// `ARRAY[...]` of strings, or of arrays of them, that blanks fill.
fn constructed(mut call: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
    let arrays: Vec<Option<ArrayType>> = call.args.iter().map(|arg| of_blanks(arg, schema)).collect();
    let item = match arrays.as_slice() {
        [Some(first), others @ ..] => match others.iter().all(|other| *other == Some(*first)) {
            true => Some(SqlType::Array(*first)),
            false => None,
        },
        _ => unify(call.args.iter_mut().collect(), schema),
    };
    let array = Expr::ScalarFunction(call);
    match item {
        Some(item) => Transformed::yes(as_type(array, SqlType::Array(ArrayType::of_items(item)))),
        None => Transformed::no(array),
    }
}
