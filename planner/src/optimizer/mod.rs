//! What Tenon does to a query after DataFusion's logical optimizer: join order by statistics, its own operators, and
//! runtime filters.

mod aggregates;
mod annotate;
mod apply;
mod cross_joins;
mod date_bounds;
mod deep;
mod dependencies;
mod distinct;
mod equi_joins;
pub mod estimate;
pub(crate) mod execution;
mod expressions;
pub(crate) mod few;
mod filters;
mod group_keys;
mod group_tops;
mod in_place;
mod index_joins;
mod join_order;
mod joins;
mod laterals;
mod limits;
mod many_first;
mod narrow;
mod not_in;
mod offload;
pub(crate) mod open_limits;
mod outer_joins;
pub(crate) mod parameters;
pub(crate) mod passes;
mod pieces;
mod projections;
mod repeated;
pub(crate) mod row_order;
pub mod rules;
mod runtime_filters;
mod same_windows;
mod shared_filters;
mod shared_limits;
mod simplify;
pub(crate) mod spill;
mod top_filters;
mod unions;
mod unordered;
mod value_lookups;

use crate::optimizer::spill::inputs::shielded;
use crate::optimizer::spill::loops::looks_at_all_pairs;
use crate::optimizer::spill::sliding::extents;
use crate::optimizer::spill::turned::from_the_end;
use crate::pg::nodes::{LimitPlanner, MaterializedPlanner, ProjectSetPlanner, WholeRowsPlanner};
use apply::ApplyPlanner;
use dependencies::NeededColumns;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::eliminate_join::EliminateJoin;
use datafusion::optimizer::{OptimizerContext, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use tenon_executor::options::{JoinOptions, PlanOptions};
use tenon_executor::window::{WindowExec, is_one_value};

/// Orders joins, then plans as DataFusion does.
#[derive(Debug, Default)]
pub struct TenonQueryPlanner;

#[async_trait]
impl QueryPlanner for TenonQueryPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        physical(&prepared(plan.clone())?, session).await
    }
}

/// An optimized plan with its joins ordered and estimates on its nodes.
pub fn prepared(plan: LogicalPlan) -> Result<LogicalPlan> {
    estimate::remembering(|| annotate::annotate(equi_joins::named(order_joins(plan)?)?))
}

/// The physical plan of a prepared one.
pub async fn physical(plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = DefaultPhysicalPlanner::with_extension_planners(vec![
        Arc::new(annotate::ExpectationPlanner),
        Arc::new(ProjectSetPlanner),
        Arc::new(ApplyPlanner),
        Arc::new(MaterializedPlanner),
        Arc::new(WholeRowsPlanner),
        Arc::new(LimitPlanner),
    ])
    .create_physical_plan(plan, session)
    .await?;
    let options = JoinOptions::of(session.config());
    let plan = joins::choose(plan, &options, session.config().target_partitions())?;
    let plan = top_filters::place(plan)?;
    let plan_options = session.config_options().extensions.get::<PlanOptions>();
    pieces::listed(match plan_options.is_some_and(|plan| plan.spill) {
        true => plan,
        false => offload::place(plan, &options)?,
    })
}

/// The plan with its joins ordered, and without the columns that the new order no longer carries for nothing.
pub fn order_joins(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !plan.exists_join() {
        return Ok(plan);
    }
    let ordered = join_order::reorder(plan)?;
    let context = OptimizerContext::new();
    // A side whose columns nobody reads, and that multiplies no rows, only filters.
    let ordered = NeededColumns::default().rewrite(ordered, &context)?.data;
    let eliminated = EliminateJoin::new().rewrite(dependencies::mended(ordered)?, &context)?;
    // It puts the side that stays on the left, whatever its size.
    let built = join_order::smaller_builds(eliminated.data)?;
    match eliminated.transformed || built.transformed {
        true => Ok(NeededColumns::default().rewrite(built.data, &context)?.data),
        false => Ok(built.data),
    }
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

/// A join or aggregation of DataFusion's as Tenon's. `expected` are the rows that the planner expects of it.
fn replace(
    node: Arc<dyn ExecutionPlan>,
    options: &ConfigOptions,
    expected: Option<usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let (plan_options, cores) = (
        options.extensions.get::<PlanOptions>(),
        options.execution.target_partitions,
    );
    let spills = plan_options.is_some_and(|plan| plan.spill);
    let node = if plan_options.is_none_or(|plan| plan.index_joins) {
        let setting = index_joins::Setting {
            options: plan_options.map_or_else(JoinOptions::default, PlanOptions::join_options),
            cores,
            expected,
        };
        index_joins::replace(node, &setting)?
    } else {
        node
    };
    let is_chosen = plan_options.is_none_or(|plan| plan.chosen_joins);
    let node = match spills && is_chosen && looks_at_all_pairs(&node)? {
        true => node,
        false => joins::replace(node, cores)?,
    };
    let node = match spills {
        true => shielded(node),
        false => aggregates::replace(node)?,
    };
    unordered::below_grouping_sets(unordered::equal_to_parts(node))
}

/// Replaces DataFusion's nodes by Tenon's where those compute the same, and places runtime filters.
#[derive(Debug)]
pub struct TenonOperators;

impl PhysicalOptimizerRule for TenonOperators {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        use datafusion::common::tree_node::{Transformed, TreeNode};
        let plan = plan.transform_up(|node| {
            let own = projections::replace(replace(Arc::clone(&node), options, None)?)?;
            // Nodes above what is another node now are made anew, with all that they know of it.
            let changed = !Arc::ptr_eq(&own, &node);
            Ok(Transformed::new_transformed(own, changed))
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

/// The same for window functions over whole partitions, once their input is in order.
#[derive(Debug)]
pub struct TenonWindows;

impl PhysicalOptimizerRule for TenonWindows {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
        let spills = options.extensions.get::<PlanOptions>().is_some_and(|plan| plan.spill);
        plan.transform_up(|node| match node.downcast_ref::<WindowAggExec>() {
            Some(window) => Ok(Transformed::yes(match spills {
                true if !is_one_value(window) => match from_the_end(window)? {
                    Some(turned) => turned,
                    None => Arc::new(WindowExec::new(window.clone(), spills).sliding(extents(window))),
                },
                _ => Arc::new(WindowExec::new(window.clone(), spills)),
            })),
            None => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "tenon_windows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
