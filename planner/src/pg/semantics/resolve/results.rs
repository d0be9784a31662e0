//! What aggregates and window functions give of `char(n)` and `name` values: DataFusion forgets their type, and with it the
//! blanks of the first. A projection above them says it.

use super::strings::{as_type, is_blank, own_type};
use datafusion::common::{ExprSchema, Result};
use datafusion::logical_expr::expr::WindowFunctionDefinition;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use std::sync::Arc;
use tenon_storage::{ArrayType, SqlType};

/// The type of what a call gives of such values.
pub(in crate::pg::semantics) fn of_call(call: &Expr, schema: &dyn ExprSchema) -> Option<SqlType> {
    let given = given(call, schema)?;
    Some(match given {
        SqlType::CharOf(_) => SqlType::Bpchar,
        other => other,
    })
}

/// The same, with the length that is lost.
fn given(call: &Expr, schema: &dyn ExprSchema) -> Option<SqlType> {
    let (name, args) = match call {
        Expr::AggregateFunction(call) => (call.func.name(), &call.params.args),
        Expr::WindowFunction(call) => match &call.fun {
            WindowFunctionDefinition::AggregateUDF(function) => (function.name(), &call.params.args),
            WindowFunctionDefinition::WindowUDF(function) => (function.name(), &call.params.args),
        },
        _ => return None,
    };
    let first = args.first().filter(|_| gives_them(name))?;
    let own = own_type(first, schema)?;
    // The least and the greatest of names are texts.
    let is_kept = match own {
        SqlType::Name => !matches!(own_name(name), "min" | "max"),
        own => is_blank(own),
    };
    if !is_kept {
        return None;
    }
    Some(match own_name(name) {
        "array_agg" => SqlType::Array(ArrayType::of_items(own)),
        _ => own,
    })
}

/// A function's name without its frame.
fn own_name(name: &str) -> &str {
    name.split(" [").next().unwrap_or(name)
}

fn gives_them(name: &str) -> bool {
    matches!(
        own_name(name),
        "array_agg" | "min" | "max" | "first_value" | "last_value" | "nth_value" | "lag" | "lead" | "mode"
    )
}

fn may_give_them(call: &Expr) -> bool {
    match call {
        Expr::Alias(alias) => may_give_them(&alias.expr),
        Expr::AggregateFunction(call) => gives_them(call.func.name()),
        Expr::WindowFunction(call) => gives_them(call.fun.name()),
        _ => false,
    }
}

/// The node under a projection of its columns, those with their types that have such; None: there are none.
pub(super) fn with_types(node: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let (first, calls) = match node {
        LogicalPlan::Aggregate(aggregate) => (
            aggregate.schema.fields().len() - aggregate.aggr_expr.len(),
            &aggregate.aggr_expr,
        ),
        LogicalPlan::Window(window) => (
            window.schema.fields().len() - window.window_expr.len(),
            &window.window_expr,
        ),
        _ => return Ok(None),
    };
    if !calls.iter().any(may_give_them) {
        return Ok(None);
    }
    let schema = merge_schema(&node.inputs());
    let types: Vec<Option<SqlType>> = calls
        .iter()
        .map(|call| given(&call.clone().unalias(), &schema))
        .collect();
    if types.iter().all(Option::is_none) {
        return Ok(None);
    }
    let columns = node.schema().columns().into_iter().enumerate();
    let exprs = columns.map(|(at, column)| {
        let of = at.checked_sub(first).and_then(|at| types[at]);
        let (qualifier, name) = (column.relation.clone(), column.name.clone());
        match of {
            None => Expr::Column(column),
            Some(of) => {
                let given = as_type(Expr::Column(column), of);
                // Of which length they were is known here alone.
                let shown = match of {
                    SqlType::CharOf(_) => as_type(given, SqlType::Bpchar),
                    _ => given,
                };
                shown.alias_qualified(qualifier, name)
            }
        }
    });
    let projection = Projection::try_new(exprs.collect(), Arc::new(node.clone()))?;
    Ok(Some(LogicalPlan::Projection(projection)))
}
