//! A subquery reads of a query with groups what has one value a group.

use super::correlated::{free, subquery_of};
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Aggregate, LogicalPlan};

/// 42803 for a subquery that reads another column.
pub(super) fn refuse(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        let Some(groups) = groups_below(node) else {
            return Ok(TreeNodeRecursion::Continue);
        };
        let own = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                let Some(subquery) = subquery_of(expr) else {
                    return Ok(TreeNodeRecursion::Continue);
                };
                let mut read = free(&subquery.subquery)?.into_iter().map(|(_, column)| column);
                let ungrouped = read.find(|column| !own.has_column(column) && groups.input.schema().has_column(column));
                match ungrouped {
                    Some(column) => {
                        let name = column.flat_name();
                        let message = format!("subquery uses ungrouped column \"{name}\" from outer query");
                        Err(to_datafusion(SqlError::new(state::GROUPING_ERROR, message)))
                    }
                    None => Ok(TreeNodeRecursion::Continue),
                }
            })
        })
    })?;
    Ok(())
}

/// The groups of the query that a node is part of.
fn groups_below(node: &LogicalPlan) -> Option<&Aggregate> {
    let mut node = node;
    loop {
        let [below] = node.inputs()[..] else { return None };
        match below {
            LogicalPlan::Aggregate(groups) => return Some(groups),
            LogicalPlan::Filter(_) | LogicalPlan::Projection(_) | LogicalPlan::Sort(_) | LogicalPlan::Window(_) => {
                node = below;
            }
            _ => return None,
        }
    }
}
