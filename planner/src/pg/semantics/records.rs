//! Records beside NULL and beside each other: `r IS NULL` is true where all columns of a record are NULL, and comparing
//! takes a NULL in a column for its greatest value. So does comparing arrays.
//!
//! `IS NULL` is looked at before type coercion, so that what later rules ask of a value itself stays as it is.

use super::fields;
use crate::pg::functions::array::{comparison, extreme_of_arrays};
use crate::pg::functions::record::{asked_itself, compared, has_keys, tested};
use crate::pg::named;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, LogicalPlan, Operator, SortExpr};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use tenon_storage::composite_type::is_record;

#[derive(Debug)]
pub(super) struct RecordsOfNulls;

impl AnalyzerRule for RecordsOfNulls {
    fn name(&self) -> &str {
        "records_of_nulls"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(rewrite_node).map(|done| done.data)
    }
}

fn rewrite_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        let is_test =
            |expr: &Expr| matches!(expr, Expr::IsNull(_) | Expr::IsNotNull(_)) || asked_itself(expr).is_some();
        found = found || expr.exists(|expr| Ok(is_test(expr)))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !found {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(&plan.inputs());
    named::map_expressions(plan, |expr| {
        expr.transform_up(|expr| {
            if let Some((of, null)) = asked_itself(&expr) {
                let of = of.clone();
                return Ok(Transformed::yes(if null { of.is_null() } else { of.is_not_null() }));
            }
            let (of, null) = match &expr {
                Expr::IsNull(of) => (of, true),
                Expr::IsNotNull(of) => (of, false),
                _ => return Ok(Transformed::no(expr)),
            };
            // What has no type yet gets one by coercion, and is no record.
            match fields::data_type(of, &schema) {
                Ok(own) if is_record(&own) => Ok(Transformed::yes(tested(of.as_ref().clone(), null))),
                _ => Ok(Transformed::no(expr)),
            }
        })
    })
}

pub(super) fn is_candidate(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
    )
}

/// Equality stays what joins know, where it finds the same.
pub(super) fn rewrite(binary: BinaryExpr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let left = fields::data_type(&binary.left, schema)?;
    if !is_record(&left) || left != fields::data_type(&binary.right, schema)? {
        return Ok(Transformed::no(Expr::BinaryExpr(binary)));
    }
    if matches!(binary.op, Operator::Eq | Operator::NotEq) && !has_keys(&left) {
        return Ok(Transformed::no(Expr::BinaryExpr(binary)));
    }
    Ok(Transformed::yes(compared(*binary.left, binary.op, *binary.right)))
}

/// BETWEEN over arrays, as the two comparisons that it is.
pub(super) fn between(between: Between, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let of = fields::data_type(&between.expr, schema)?;
    let same = |end: &Expr| Ok::<_, DataFusionError>(fields::data_type(end, schema)? == of);
    if !matches!(of, DataType::List(_)) || !same(&between.low)? || !same(&between.high)? {
        return Ok(Transformed::no(Expr::Between(between)));
    }
    let functions = (comparison(&BinaryOperator::GtEq), comparison(&BinaryOperator::LtEq));
    let (Some(at_least), Some(at_most)) = functions else {
        return Ok(Transformed::no(Expr::Between(between)));
    };
    let low = at_least.call(vec![between.expr.as_ref().clone(), *between.low]);
    let within = low.and(at_most.call(vec![*between.expr, *between.high]));
    Ok(Transformed::yes(match between.negated {
        true => !within,
        false => within,
    }))
}

/// `greatest` and `least` of arrays.
pub(super) fn extreme(mut call: ScalarFunction, schema: &DFSchema) -> Result<Transformed<ScalarFunction>> {
    let Some(function) = extreme_of_arrays(call.name()) else {
        return Ok(Transformed::no(call));
    };
    let Some(first) = call.args.first() else {
        return Ok(Transformed::no(call));
    };
    if !matches!(fields::data_type(first, schema)?, DataType::List(_)) {
        return Ok(Transformed::no(call));
    }
    call.func = function;
    Ok(Transformed::yes(call))
}

/// Records and arrays that are NULL come first or last; Arrow would put NULLs within them there too, which are always the
/// greatest.
pub(super) fn nulls_apart(keys: &mut Vec<SortExpr>, schema: &DFSchema) -> Result<bool> {
    let mut changed = false;
    let mut apart = Vec::with_capacity(keys.len());
    for mut key in std::mem::take(keys) {
        let nested = |of: &DataType| is_record(of) || matches!(of, DataType::List(_));
        if key.asc == key.nulls_first && nested(&fields::data_type(&key.expr, schema)?) {
            apart.push(key.expr.clone().is_null().sort(!key.nulls_first, false));
            key.nulls_first = !key.nulls_first;
            changed = true;
        }
        apart.push(key);
    }
    *keys = apart;
    Ok(changed)
}
