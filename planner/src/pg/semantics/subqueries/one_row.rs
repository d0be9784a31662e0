//! A scalar subquery gives one row at most: it is aggregated to its only one (21000), or to its first, where it ends in LIMIT 1,
//! and may be NULL whatever its column says.

use super::{domain, windows};
use crate::pg::functions::aggregate::single::{ONLY_ROW, SINGLE_ROW, held, or_null};
use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, SortExpr};
use std::sync::Arc;

/// Whether the value may turn out to be a constant that is never NULL, where the subquery has a row.
fn may_fold(subquery: &Expr) -> Result<bool> {
    let Expr::ScalarSubquery(subquery) = subquery else {
        return Ok(false);
    };
    let Some(value) = subquery.subquery.head_output_expr()? else {
        return Ok(false);
    };
    let chooses = |expr: &Expr| match expr {
        Expr::Case(_) => true,
        Expr::ScalarFunction(call) => !call.name().starts_with("checked_"),
        _ => false,
    };
    Ok(!value.any_column_refs() || value.exists(|expr| Ok(chooses(expr)))?)
}

/// A scalar subquery that gives one row at most, or fails.
pub(super) fn of_one_row(expr: Expr, outer: Option<&LogicalPlan>, names: &AliasGenerator) -> Result<Transformed<Expr>> {
    let Expr::ScalarSubquery(subquery) = expr else {
        return Ok(Transformed::no(expr));
    };
    let plan = subquery.subquery.as_ref();
    if plan.schema().fields().len() != 1 {
        return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
    }
    if subquery.outer_ref_columns.is_empty() {
        let field = plan.schema().field(0).clone();
        let value = Expr::Column(plan.schema().columns().remove(0));
        if let Some(value) = held(value, field.data_type()) {
            let plan = LogicalPlanBuilder::from(plan.clone()).project([value.alias(field.name())])?;
            let held = Expr::ScalarSubquery(Subquery {
                subquery: Arc::new(plan.build()?),
                ..subquery
            });
            return Ok(Transformed::yes(or_null(held, &field)));
        }
        let expr = Expr::ScalarSubquery(subquery);
        return Ok(
            match field.is_nullable() && field.metadata().is_empty() && !may_fold(&expr)? {
                true => Transformed::no(expr),
                false => Transformed::yes(or_null(expr, &field)),
            },
        );
    }
    let with = |plan: LogicalPlan| {
        let plan = match outer {
            Some(outer) => domain::by_equality(plan, outer, names)?,
            None => plan,
        };
        Ok::<_, DataFusionError>(Expr::ScalarSubquery(Subquery {
            subquery: Arc::new(windows::partitioned(plan)?),
            outer_ref_columns: subquery.outer_ref_columns.clone(),
            spans: subquery.spans.clone(),
        }))
    };
    // What a join puts in its place where there is no row forgets what type it is.
    let field = plan.schema().field(0);
    let typed = |value: Expr| match field.metadata().is_empty() {
        true => value,
        false => or_null(value, field),
    };
    if gives_one_row(plan) {
        return Ok(Transformed::yes(typed(with(plan.clone())?)));
    }
    if let Some(first) = first_row(plan)? {
        return Ok(Transformed::yes(typed(with(first)?)));
    }
    let value = Expr::Column(plan.schema().columns().remove(0));
    let single = AggregateFunction::new_udf(SINGLE_ROW.clone(), vec![value], false, None, Vec::new(), None);
    let single = aggregate(plan.clone(), Expr::AggregateFunction(single))?;
    Ok(Transformed::yes(ONLY_ROW.call(vec![with(single)?])))
}

pub(super) fn aggregate(input: LogicalPlan, expr: Expr) -> Result<LogicalPlan> {
    LogicalPlanBuilder::from(input)
        .aggregate(Vec::<Expr>::new(), vec![expr])?
        .build()
}

/// Whether a plan is made of the one row that an aggregate gives, of no rows too, or of a list without FROM.
pub(crate) fn gives_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(projection) => gives_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => gives_one_row(&alias.input),
        LogicalPlan::Filter(filter) => gives_one_row(&filter.input),
        LogicalPlan::EmptyRelation(_) => true,
        _ => false,
    }
}

/// `SELECT x FROM ... ORDER BY keys LIMIT 1` as `SELECT first_value(x ORDER BY keys) FROM ...`.
fn first_row(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let (mut value, mut node) = (Expr::Column(plan.schema().columns().remove(0)), plan);
    if let LogicalPlan::Projection(projection) = node
        && let LogicalPlan::Limit(_) = projection.input.as_ref()
    {
        (value, node) = (projection.expr[0].clone(), &projection.input);
    }
    let LogicalPlan::Limit(limit) = node else {
        return Ok(None);
    };
    let one = |fetch: &Option<Box<Expr>>, wanted: i64| matches!(fetch.as_deref(), Some(Expr::Literal(ScalarValue::Int64(Some(n)), _)) if *n == wanted);
    if !one(&limit.fetch, 1) || limit.skip.is_some() && !one(&limit.skip, 0) {
        return Ok(None);
    }
    node = &limit.input;
    if let LogicalPlan::Projection(projection) = node
        && let LogicalPlan::Sort(_) = projection.input.as_ref()
    {
        (value, node) = (projection.expr[0].clone(), &projection.input);
    }
    let mut keys: Vec<SortExpr> = Vec::new();
    if let LogicalPlan::Sort(sort) = node {
        if sort.fetch.is_some() {
            return Ok(None);
        }
        keys.clone_from(&sort.expr);
        node = &sort.input;
    }
    let first = AggregateFunction::new_udf(first_value_udaf(), vec![value.unalias()], false, None, keys, None);
    aggregate(node.clone(), Expr::AggregateFunction(first)).map(Some)
}
