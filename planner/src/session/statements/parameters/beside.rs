//! The types of parameters that what stands beside them tells, in a plan.

use super::index;
use crate::pg::error::Result;
use crate::pg::errors::from_datafusion;
use crate::pg::semantics::fields;
use crate::pg::semantics::resolve::common_type;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use std::collections::BTreeMap;
use std::sync::Arc;
use tenon_storage::{ArrayType, SqlType};

/// The types by the numbers of the parameters, from 0.
pub(super) fn types(plan: &LogicalPlan) -> Result<BTreeMap<usize, FieldRef>> {
    let mut found = quantified(plan)?;
    for more in [in_unions(plan)?, in_common(plan)?] {
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
                let item = element.get_type(schema).ok();
                let item = item.and_then(|of| SqlType::from_data_type(&of));
                (open, item.map(|item| SqlType::Array(ArrayType::of_items(item))))
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
            let (open, others): (Vec<&Expr>, Vec<&Expr>) = together
                .into_iter()
                .partition(|expr| matches!(expr, Expr::Placeholder(_)));
            if open.is_empty() {
                continue;
            }
            let types = others
                .into_iter()
                .filter_map(|expr| match fields::field(expr, schema).ok()? {
                    // Literals without a type.
                    field if matches!(field.data_type(), DataType::Utf8 | DataType::Null) => None,
                    field => SqlType::from_field(&field),
                });
            let Some(Some(of)) = types.map(Some).reduce(|a, b| common_type(a?, b?)) else {
                continue;
            };
            let field = Arc::new(of.unlimited().field("", true));
            for expr in open {
                if let Expr::Placeholder(open) = expr
                    && let Some(at) = index(&open.id)
                {
                    found.entry(at).or_insert_with(|| Arc::clone(&field));
                }
            }
        }
    })?;
    Ok(found)
}

/// The operands of an expression that get one type, by groups.
fn of_one_type(expr: &Expr) -> Vec<Vec<&Expr>> {
    match expr {
        Expr::ScalarFunction(call) => match (call.name(), call.args.as_slice()) {
            ("coalesce" | "greatest" | "least" | "nullif" | "make_array", args) => vec![args.iter().collect()],
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
        _ => vec![],
    }
}
