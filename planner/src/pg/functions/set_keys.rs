//! Keys of grouping sets with parameters. A key's column is called as the key is written, and would be called otherwise once values
//! stand for its parameters: such keys are columns of a projection below, which keep their names.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder};
use std::sync::Arc;

/// The plan with such keys below their aggregates.
pub(super) fn below(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Aggregate(aggregate) => of_sets(aggregate),
        node => Ok(Transformed::no(node)),
    })
    .data()
}

fn of_sets(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let mut keys: Vec<Expr> = Vec::new();
    for group in &aggregate.group_expr {
        if let Expr::GroupingSet(set) = group {
            for key in set.distinct_expr() {
                let open = key.exists(|expr| Ok(matches!(expr, Expr::Placeholder(_))))?;
                if open && !keys.contains(key) {
                    keys.push(key.clone());
                }
            }
        }
    }
    if keys.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let columns = aggregate.input.schema().columns().into_iter().map(Expr::Column);
    let named = keys.iter().map(|key| key.clone().alias(key.schema_name().to_string()));
    let input = LogicalPlanBuilder::from(aggregate.input.as_ref().clone())
        .project(columns.chain(named).collect::<Vec<_>>())?
        .build()?;
    let by_column = |expr: Expr| {
        expr.transform_down(|expr| match keys.contains(&expr) {
            true => {
                let column = Expr::Column(Column::new_unqualified(expr.schema_name().to_string()));
                Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
            }
            false => Ok(Transformed::no(expr)),
        })
        .data()
    };
    let groups = aggregate.group_expr.into_iter().map(by_column);
    let groups = groups.collect::<Result<Vec<_>>>()?;
    // GROUPING names keys.
    let calls = aggregate.aggr_expr.into_iter().map(|call| {
        let names =
            call.exists(|expr| Ok(matches!(expr, Expr::AggregateFunction(call) if call.func.name() == "grouping")))?;
        if names { by_column(call) } else { Ok(call) }
    });
    let calls = calls.collect::<Result<Vec<_>>>()?;
    let aggregate = Aggregate::try_new(Arc::new(input), groups, calls)?;
    Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
}
