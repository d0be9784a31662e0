//! The types of parameters that what stands beside them tells, in a plan.

use super::index;
use crate::pg::error::Result;
use crate::pg::errors::from_datafusion;
use crate::pg::functions::array::{SLICE, SUBSCRIPT};
use crate::pg::functions::array_literal::ARRAY_LITERAL;
use crate::pg::functions::json::JSONPATH_OID;
use crate::pg::semantics::fields;
use crate::pg::semantics::resolve::common_type;
use crate::pg::semantics::resolve::open::of_parameter;
use crate::pg::types::OID_KEY;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::collections::BTreeMap;
use std::sync::Arc;
use tenon_storage::{ArrayType, SqlType};

/// The types by the numbers of the parameters, from 0.
pub(super) fn types(plan: &LogicalPlan) -> Result<BTreeMap<usize, FieldRef>> {
    let mut found = quantified(plan)?;
    for more in [in_unions(plan)?, in_common(plan)?, paths(plan)?] {
        for (at, field) in more {
            found.entry(at).or_insert(field);
        }
    }
    Ok(found)
}

/// Shows each expression of a plan, with the columns that it may name.
fn each_expression(plan: &LogicalPlan, mut show: impl FnMut(&Expr, &DFSchema)) -> Result<()> {
    let walked = plan.apply_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                show(expr, &schema);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    walked.map_err(|error| from_datafusion(&error))?;
    Ok(())
}

/// Parameters beside ANY and ALL: the array that `x = ANY ($1)` compares with x, and what `$1 = ANY (array)` does.
fn quantified(plan: &LogicalPlan) -> Result<BTreeMap<usize, FieldRef>> {
    let mut found = BTreeMap::new();
    each_expression(plan, |expr, schema| {
        let Expr::ScalarFunction(call) = expr else { return };
        if !(call.name().starts_with("any_") || call.name().starts_with("all_")) {
            return;
        }
        let (open, of) = match call.args.as_slice() {
            [element, Expr::Placeholder(open)] => {
                let item = fields::field(element, schema).ok();
                let item = item.and_then(|field| SqlType::from_field(&field));
                (
                    open,
                    item.map(|item| SqlType::Array(ArrayType::of_items(of_parameter(item)))),
                )
            }
            [Expr::Placeholder(open), array] => {
                let array = fields::field(array, schema).ok();
                match array.and_then(|field| SqlType::from_field(&field)) {
                    Some(SqlType::Array(of)) => (open, Some(of.element())),
                    _ => return,
                }
            }
            _ => return,
        };
        if let (Some(of), Some(at)) = (of, index(&open.id)) {
            found.entry(at).or_insert_with(|| Arc::new(of.field("", true)));
        }
    })?;
    Ok(found)
}

/// What a parameter is that is a jsonpath: a text.
pub(super) fn path_field() -> FieldRef {
    let metadata = [(OID_KEY.to_string(), JSONPATH_OID.to_string())].into();
    Arc::new(Field::new("", DataType::Utf8View, true).with_metadata(metadata))
}

/// Parameters that are a jsonpath.
fn paths(plan: &LogicalPlan) -> Result<BTreeMap<usize, FieldRef>> {
    let mut found = BTreeMap::new();
    each_expression(plan, |expr, _| {
        let Expr::ScalarFunction(call) = expr else { return };
        if !call.name().starts_with("jsonb_path_") {
            return;
        }
        let path = call.args.get(1).map(|path| match path {
            Expr::Cast(cast) => cast.expr.as_ref(),
            path => path,
        });
        if let Some(Expr::Placeholder(open)) = path
            && let Some(at) = index(&open.id)
        {
            found.entry(at).or_insert_with(path_field);
        }
    })?;
    Ok(found)
}

/// The type of each parameter that stands as a column of a union's input: that of the same column of another.
fn in_unions(plan: &LogicalPlan) -> Result<BTreeMap<usize, FieldRef>> {
    let open = |input: &LogicalPlan, at: usize| match input {
        LogicalPlan::Projection(projection) => match projection.expr.get(at)?.clone().unalias() {
            Expr::Placeholder(open) => Some(index(&open.id)),
            _ => None,
        },
        _ => None,
    };
    let mut found = BTreeMap::new();
    let walked = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Union(union) = node {
            for at in 0..union.schema.fields().len() {
                let own = |input: &Arc<LogicalPlan>| {
                    let field = input.schema().fields().get(at)?;
                    let said =
                        open(input, at).is_none() && !matches!(field.data_type(), DataType::Null | DataType::Utf8);
                    said.then(|| field.clone())
                };
                let Some(of) = union.inputs.iter().find_map(own) else {
                    continue;
                };
                for id in union.inputs.iter().filter_map(|input| open(input, at).flatten()) {
                    found.entry(id).or_insert_with(|| of.clone());
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_err(|error| from_datafusion(&error))?;
    Ok(found)
}

/// The type of each parameter that stands where values of one type stand: arguments of COALESCE and the like, results of CASE,
/// what IN compares. It is that which the others have together.
fn in_common(plan: &LogicalPlan) -> Result<BTreeMap<usize, FieldRef>> {
    let mut found = BTreeMap::new();
    each_expression(plan, |expr, schema| {
        for together in of_one_type(expr) {
            in_group(together, schema, &mut found);
        }
        if let Expr::ScalarFunction(call) = expr
            && call.args.iter().any(|arg| matches!(arg, Expr::Placeholder(_)))
            && let Some(of) = of_arguments(expr, schema)
        {
            call.args.iter().for_each(|arg| note(arg, of, &mut found));
        }
        for (arg, of) in of_arrays(expr, schema).into_iter().chain(of_series(expr, schema)) {
            note(arg, of, &mut found);
        }
    })?;
    Ok(found)
}

fn in_group(together: Vec<&Expr>, schema: &DFSchema, found: &mut BTreeMap<usize, FieldRef>) {
    let (open, others): (Vec<&Expr>, Vec<&Expr>) = together
        .into_iter()
        .partition(|expr| matches!(expr, Expr::Placeholder(_)));
    if open.is_empty() {
        return;
    }
    let types = others
        .into_iter()
        .filter_map(|expr| match fields::field(expr, schema).ok()? {
            // Literals without a type.
            field if matches!(field.data_type(), DataType::Utf8 | DataType::Null) => None,
            field => SqlType::from_field(&field),
        });
    if let Some(Some(of)) = types.map(Some).reduce(|a, b| common_type(a?, b?)) {
        open.into_iter().for_each(|open| note(open, of, found));
    }
}

fn note(open: &Expr, of: SqlType, found: &mut BTreeMap<usize, FieldRef>) {
    if let Expr::Placeholder(open) = open
        && let Some(at) = index(&open.id)
    {
        found
            .entry(at)
            .or_insert_with(|| Arc::new(of_parameter(of).field("", true)));
    }
}

/// The operands of an expression that get one type, by groups.
fn of_one_type(expr: &Expr) -> Vec<Vec<&Expr>> {
    match expr {
        Expr::ScalarFunction(call) => match (call.name(), call.args.as_slice()) {
            (
                "coalesce" | "greatest" | "least" | "nullif" | "make_array" | "array" | ARRAY_LITERAL | "mod" | "gcd"
                | "lcm" | "age",
                args,
            ) => vec![args.iter().collect()],
            _ => vec![],
        },
        Expr::WindowFunction(call) => match (call.fun.name(), call.params.args.as_slice()) {
            ("lag" | "lead", [value, _, otherwise]) => vec![vec![value, otherwise]],
            _ => vec![],
        },
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
            let mut groups = vec![results.chain(case.else_expr.as_deref()).collect()];
            if let Some(compared) = &case.expr {
                let values = case.when_then_expr.iter().map(|(when, _)| when.as_ref());
                groups.push(std::iter::once(compared.as_ref()).chain(values).collect());
            }
            groups
        }
        Expr::InList(list) => vec![std::iter::once(list.expr.as_ref()).chain(&list.list).collect()],
        Expr::Between(between) => vec![vec![&between.expr, &between.low, &between.high]],
        _ => vec![],
    }
}

/// The type of parameters that are arguments of a function of which the others say which of several it is.
fn of_arguments(expr: &Expr, schema: &DFSchema) -> Option<SqlType> {
    let Expr::ScalarFunction(call) = expr else { return None };
    let types = call.args.iter().map(|arg| fields::field(arg, schema).ok());
    let mut types = types.filter_map(|field| SqlType::from_field(field?.as_ref()));
    let is_numeric = |of| matches!(of, SqlType::Numeric | SqlType::NumericOf(..) | SqlType::NumericWide(..));
    match call.name() {
        "div" | "log" => Some(SqlType::Numeric),
        "atan2" => Some(SqlType::Float8),
        "power" | "pow" => Some(match types.any(is_numeric) {
            true => SqlType::Numeric,
            false => SqlType::Float8,
        }),
        SUBSCRIPT | SLICE => matches!(types.next(), Some(SqlType::Array(_))).then_some(SqlType::Int4),
        _ => None,
    }
}

/// The types of the arguments of `generate_series` beside one whose type is known: that one's, and behind times an interval.
fn of_series<'e>(expr: &'e Expr, schema: &DFSchema) -> Vec<(&'e Expr, SqlType)> {
    let args = match expr {
        Expr::ScalarFunction(call) if call.name() == "generate_series" => call.args.as_slice(),
        _ => return vec![],
    };
    if !args.iter().any(|arg| matches!(arg, Expr::Placeholder(_))) {
        return vec![];
    }
    let known = |arg: &Expr| {
        let field = fields::field(arg, schema).ok()?;
        let is_literal = matches!(field.data_type(), DataType::Utf8 | DataType::Null);
        SqlType::from_field(&field)
            .filter(|_| !is_literal && !matches!(arg, Expr::Placeholder(own) if own.field.is_none()))
    };
    let is_time = |of: &SqlType| {
        matches!(
            of,
            SqlType::Timestamp | SqlType::TimestampOf(_) | SqlType::TimestampTz | SqlType::TimestampTzOf(_)
        )
    };
    let mut types = args.iter().take(2).filter_map(known);
    let of = match types.next() {
        Some(SqlType::Date) => SqlType::TimestampTz,
        Some(of) => of.unlimited(),
        None => match args.get(2).and_then(known) {
            Some(SqlType::Interval | SqlType::IntervalOf(..)) => SqlType::TimestampTz,
            Some(of) => of.unlimited(),
            None => return vec![],
        },
    };
    let third = if is_time(&of) { SqlType::Interval } else { of };
    let of_place = |(at, arg)| (arg, if at == 2 { third } else { of });
    args.iter().enumerate().map(of_place).collect()
}

/// The types of arguments beside an array: its items, and the numbers of its dimensions.
fn of_arrays<'e>(expr: &'e Expr, schema: &DFSchema) -> Vec<(&'e Expr, SqlType)> {
    let Expr::ScalarFunction(call) = expr else {
        return vec![];
    };
    let (array, others) = match (call.name(), call.args.as_slice()) {
        (
            "array_append" | "array_remove" | "array_replace" | "array_position" | "array_positions" | "array_length"
            | "array_upper" | "array_lower",
            [array, others @ ..],
        ) => (array, others),
        ("array_prepend", [item, array]) => (array, std::slice::from_ref(item)),
        _ => return vec![],
    };
    if !others.iter().any(|arg| matches!(arg, Expr::Placeholder(_))) {
        return vec![];
    }
    let field = fields::field(array, schema).ok();
    let Some(SqlType::Array(of)) = field.and_then(|field| SqlType::from_field(&field)) else {
        return vec![];
    };
    let is_dimension = matches!(call.name(), "array_length" | "array_upper" | "array_lower");
    let place = |at: usize| match call.name() {
        "array_position" if at == 1 => SqlType::Int4,
        _ if is_dimension => SqlType::Int4,
        _ => of.element(),
    };
    others.iter().enumerate().map(|(at, arg)| (arg, place(at))).collect()
}
