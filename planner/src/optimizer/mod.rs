//! What Tenon does to a query after DataFusion's logical optimizer: join order by statistics, its own operators, and
//! runtime filters.

mod aggregates;
pub mod estimate;
mod index_joins;
mod join_order;
mod joins;
mod projections;
mod runtime_filters;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{OptimizerContext, OptimizerRule, optimize_projections::OptimizeProjections};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use tenon_executor::options::{JoinOptions, PlanOptions};

/// Orders joins, then plans as DataFusion does.
#[derive(Debug, Default)]
pub struct TenonQueryPlanner;

#[async_trait]
impl QueryPlanner for TenonQueryPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = order_joins(plan.clone())?;
        let plan = DefaultPhysicalPlanner::default()
            .create_physical_plan(&plan, session)
            .await?;
        joins::choose(plan, &JoinOptions::of(session.config()))
    }
}

/// The plan with its joins ordered, and without the columns that the new order no longer carries for nothing.
pub fn order_joins(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !plan.exists_join() {
        return Ok(plan);
    }
    let ordered = join_order::reorder(plan)?;
    let rule = OptimizeProjections::new();
    use datafusion::common::tree_node::Transformed;
    let Transformed { data, .. } = rule.rewrite(ordered, &OptimizerContext::new())?;
    Ok(data)
}

trait ExistsJoin {
    fn exists_join(&self) -> bool;
}

impl ExistsJoin for LogicalPlan {
    fn exists_join(&self) -> bool {
        use datafusion::common::tree_node::TreeNode;
        self.exists(|node| Ok(matches!(node, LogicalPlan::Join(_))))
            .unwrap_or(false)
    }
}

/// The physical rules of a session: Tenon's operators first, then what DataFusion's plans still need.
pub fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> = vec![Arc::new(TenonOperators)];
    rules.extend(PhysicalOptimizer::new().rules);
    rules
}

/// Replaces DataFusion's nodes by Tenon's where those compute the same, and places runtime filters.
#[derive(Debug)]
pub struct TenonOperators;

impl PhysicalOptimizerRule for TenonOperators {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        use datafusion::common::tree_node::{Transformed, TreeNode};
        let looks_up = options
            .extensions
            .get::<PlanOptions>()
            .is_none_or(|plan| plan.index_joins);
        let plan = plan.transform_up(|node| {
            let node = if looks_up { index_joins::replace(node)? } else { node };
            let node = joins::replace(node, options.execution.target_partitions)?;
            let node = aggregates::replace(node)?;
            Ok(Transformed::yes(projections::replace(node)?))
        })?;
        runtime_filters::place(plan.data)
    }

    fn name(&self) -> &str {
        "tenon_operators"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
