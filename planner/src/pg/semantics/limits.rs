//! LIMIT and OFFSET: constants are computed, and what is no constant becomes `nodes::LimitByValue`.

use crate::pg::nodes::LimitByValue;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, Limit, LogicalPlan, cast};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct LimitsByValue;

impl AnalyzerRule for LimitsByValue {
    fn name(&self) -> &str {
        "limits_by_value"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Limit(limit) if !is_plain(&limit) => rewrite(limit).map(Transformed::yes),
            node => Ok(Transformed::no(node)),
        })
        .data()
    }
}

fn is_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(..) | Expr::Placeholder(_))
}

fn is_plain(limit: &Limit) -> bool {
    limit.skip.iter().chain(&limit.fetch).all(|expr| is_literal(expr))
}

fn rewrite(limit: Limit) -> Result<LogicalPlan> {
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().build());
    let constant = |expr: Option<Box<Expr>>| match expr {
        Some(expr) if is_literal(&expr) => Ok(Some(*expr)),
        Some(expr) => {
            let count = cast(*expr, DataType::Int64);
            let count = simplifier.coerce(count, &DFSchema::empty())?;
            simplifier.simplify(count).map(Some)
        }
        None => Ok(None),
    };
    let (skip, fetch) = (constant(limit.skip)?, constant(limit.fetch)?);
    if skip.iter().chain(&fetch).all(is_literal) {
        return Ok(LogicalPlan::Limit(Limit {
            skip: skip.map(Box::new),
            fetch: fetch.map(Box::new),
            input: limit.input,
        }));
    }
    Ok(LimitByValue::plan(Arc::unwrap_or_clone(limit.input), skip, fetch))
}
