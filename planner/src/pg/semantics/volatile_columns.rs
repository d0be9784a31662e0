//! Volatile functions in a select list that ORDER BY does not read are called after it and DISTINCT ON, for rows in their
//! order; LIMIT goes below a projection by itself, and OFFSET must not: rows that it skips have their values too.

use crate::pg::nodes::LimitByValue;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{
    Distinct, DistinctOn, Expr, FetchType, Limit, LogicalPlan, LogicalPlanBuilder, Projection, SkipType, Sort, lit,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct VolatileColumnsLate;

impl AnalyzerRule for VolatileColumnsLate {
    fn name(&self) -> &str {
        "volatile_columns_late"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Sort(sort) => sorted(sort),
            LogicalPlan::Distinct(Distinct::On(on)) if follows_distinct(&on) => distinct(on).map(Transformed::yes),
            LogicalPlan::Limit(limit) => Ok(skipping(limit)),
            node => Ok(Transformed::no(node)),
        })
        .data()
    }
}

/// A limit takes as many rows of the projection as there are with those that OFFSET skips; skipping them is not left to a
/// limit, which would go below too.
fn skipping(limit: Limit) -> Transformed<LogicalPlan> {
    let volatile = |input: &LogicalPlan| match input {
        LogicalPlan::Projection(projection) => projection.expr.iter().any(Expr::is_volatile),
        _ => false,
    };
    let (Ok(SkipType::Literal(skip)), Ok(FetchType::Literal(fetch))) = (limit.get_skip_type(), limit.get_fetch_type())
    else {
        return Transformed::no(LogicalPlan::Limit(limit));
    };
    if skip == 0 || !volatile(&limit.input) {
        return Transformed::no(LogicalPlan::Limit(limit));
    }
    let rows = match fetch {
        Some(fetch) => LogicalPlan::Limit(Limit {
            skip: None,
            fetch: Some(Box::new(lit(skip.saturating_add(fetch) as i64))),
            input: limit.input,
        }),
        None => Arc::unwrap_or_clone(limit.input),
    };
    Transformed::yes(LimitByValue::plan(rows, Some(lit(skip as i64)), None))
}

fn sorted(sort: Sort) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = sort.input.as_ref() else {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    };
    if !projection.expr.iter().any(Expr::is_volatile) {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    }
    let mut keys = sort.expr.clone();
    for key in &mut keys {
        key.expr = below(key.expr.clone(), projection)?;
        // A volatile key is computed once, in the column that it names.
        if key.expr.is_volatile() {
            return Ok(Transformed::no(LogicalPlan::Sort(sort)));
        }
    }
    let input = LogicalPlanBuilder::from(Arc::clone(&projection.input))
        .sort_with_limit(keys, sort.fetch)?
        .build()?;
    let above =
        Projection::try_new_with_schema(projection.expr.clone(), Arc::new(input), Arc::clone(&projection.schema))?;
    Ok(Transformed::yes(LogicalPlan::Projection(above)))
}

/// Whether volatile functions are called after DISTINCT ON: ORDER BY stands there and asks for none of them.
fn follows_distinct(on: &DistinctOn) -> bool {
    let Some(keys) = &on.sort_expr else {
        return false;
    };
    let mut read = on.on_expr.iter().chain(keys.iter().map(|key| &key.expr));
    on.select_expr.iter().any(Expr::is_volatile) && !read.any(Expr::is_volatile)
}

fn distinct(on: DistinctOn) -> Result<LogicalPlan> {
    let columns = on.input.schema().columns().into_iter().map(Expr::Column);
    let rows = DistinctOn::try_new(on.on_expr, columns.collect(), on.sort_expr, on.input)?;
    let rows = Arc::new(LogicalPlan::Distinct(Distinct::On(rows)));
    Projection::try_new_with_schema(on.select_expr, rows, on.schema).map(LogicalPlan::Projection)
}

/// What an expression over a projection's columns is over those of its input.
fn below(expr: Expr, projection: &Projection) -> Result<Expr> {
    let of = |column: &Column| -> Result<Expr> {
        let at = projection.schema.index_of_column(column)?;
        Ok(projection.expr[at].clone().unalias())
    };
    expr.transform_up(|expr| match &expr {
        Expr::Column(column) => Ok(Transformed::yes(of(column)?)),
        _ => Ok(Transformed::no(expr)),
    })
    .data()
}
