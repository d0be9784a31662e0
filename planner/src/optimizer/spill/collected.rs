//! Lists of values by groups, and long beginnings of an order, in plans that go through files.
//!
//! `array_agg` and `string_agg` hold the values of all groups, and what a file has of them comes back many long values at a time.
//! So the rows are sorted by their groups, each group's in the order in which they came, and a group ends where the next begins.
//!
//! A sort that keeps its first rows alone holds these in memory. Where they are many, it sorts all of them.

use super::turned::up_to;
use crate::optimizer::many_first::first_of_all;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, create_window_expr};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, InputOrderMode, Partitioning, PhysicalExpr};
use std::sync::Arc;
use tenon_executor::options::PlanOptions;

/// The aggregates whose states are lists of values.
const LISTS: [&str; 2] = ["array_agg", "string_agg"];

/// A sort that keeps more rows than this goes through files.
const KEPT_ROWS_MAX: usize = 4096;

#[derive(Debug)]
pub(crate) struct CollectedLists;

impl PhysicalOptimizerRule for CollectedLists {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if !options.extensions.get::<PlanOptions>().is_some_and(|plan| plan.spill) {
            return Ok(plan);
        }
        plan.transform_up(|node| {
            let found = match (node.downcast_ref::<AggregateExec>(), node.downcast_ref::<SortExec>()) {
                (Some(aggregate), _) => by_groups(aggregate)?,
                (_, Some(sort)) => whole(sort),
                _ => None,
            };
            Ok(match found {
                Some(found) => Transformed::yes(found),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "tenon_collected_lists"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The aggregation in one step over sorted rows; None where it is left as it is.
fn by_groups(last: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let first = match last.mode() {
        AggregateMode::Single | AggregateMode::SinglePartitioned => Some(last),
        AggregateMode::Final | AggregateMode::FinalPartitioned => first_step(last.input()),
        _ => None,
    };
    let Some(first) = first else { return Ok(None) };
    let groups = first.group_expr();
    let lists = first.aggr_expr().iter().any(|call| LISTS.contains(&call.fun().name()));
    // The rows of a group follow each other already.
    let by_turns = *first.input_order_mode() == InputOrderMode::Sorted && std::ptr::eq(first, last);
    if !lists || by_turns || groups.is_empty() || !groups.is_single() {
        return Ok(None);
    }
    // The order of a group's rows that an aggregate asks for; others have the same, or the beginning of it.
    let orders = || first.aggr_expr().iter().map(|call| call.order_bys());
    let wanted = orders().max_by_key(|order| order.len()).unwrap_or_default();
    if !orders().all(|order| wanted.starts_with(order)) {
        return Ok(None);
    }
    let partitions = match last.mode() {
        AggregateMode::SinglePartitioned | AggregateMode::FinalPartitioned => {
            last.properties().output_partitioning().partition_count()
        }
        _ => 1,
    };
    let keys: Vec<Arc<dyn PhysicalExpr>> = groups.input_exprs();
    let mut input = numbered(Arc::clone(first.input()))?;
    let number = input.schema().fields().len() - 1;
    let number = Column::new(input.schema().field(number).name(), number);
    if partitions > 1 {
        let by_keys = Partitioning::Hash(keys.clone(), partitions);
        input = Arc::new(RepartitionExec::try_new(input, by_keys)?);
    }
    let of_key = PhysicalSortExpr::new_default;
    let mut order = promised(last, &keys);
    let known: Vec<_> = order.iter().map(|key| Arc::clone(&key.expr)).collect();
    order.extend(keys.into_iter().filter(|key| !known.contains(key)).map(of_key));
    let order = order.into_iter().chain(wanted.iter().cloned());
    let order = LexOrdering::new(order.chain([of_key(Arc::new(number))]));
    let order = order.ok_or_else(|| internal_datafusion_err!("a number of rows is missing"))?;
    let input: Arc<dyn ExecutionPlan> =
        Arc::new(SortExec::new(order, input).with_preserve_partitioning(partitions > 1));
    let mode = match partitions {
        1 => AggregateMode::Single,
        _ => AggregateMode::SinglePartitioned,
    };
    let schema = input.schema();
    let found = AggregateExec::try_new(
        mode,
        groups.clone(),
        first.aggr_expr().to_vec(),
        first.filter_expr().to_vec(),
        input,
        schema,
    )?;
    Ok((found.schema() == last.schema()).then(|| Arc::new(found) as _))
}

/// The order by group keys that what is above an aggregation may rely on.
fn promised(last: &AggregateExec, keys: &[Arc<dyn PhysicalExpr>]) -> Vec<PhysicalSortExpr> {
    let order = last.properties().output_ordering().into_iter().flatten();
    let of_key = |sorted: &PhysicalSortExpr| {
        let at = sorted.expr.downcast_ref::<Column>()?.index();
        Some(PhysicalSortExpr::new(Arc::clone(keys.get(at)?), sorted.options))
    };
    order.map_while(of_key).collect()
}

/// The first step of an aggregation in two, below what spreads its groups.
fn first_step(input: &Arc<dyn ExecutionPlan>) -> Option<&AggregateExec> {
    if let Some(first) = input.downcast_ref::<AggregateExec>() {
        return (*first.mode() == AggregateMode::Partial).then_some(first);
    }
    let spreads = input.is::<RepartitionExec>() || input.is::<CoalescePartitionsExec>();
    match (spreads, input.children().as_slice()) {
        (true, [below]) => first_step(below),
        _ => None,
    }
}

/// The rows one after the other, in their order where they have one, each with its number.
fn numbered(input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let order = input.output_ordering().cloned();
    let input: Arc<dyn ExecutionPlan> = match (input.output_partitioning().partition_count(), order) {
        (1, _) => input,
        (_, Some(order)) => Arc::new(SortPreservingMergeExec::new(order, input)),
        (_, None) => Arc::new(CoalescePartitionsExec::new(input)),
    };
    let function = row_number_udwf().into();
    let schema = input.schema();
    let frame = Arc::new(up_to());
    let number = create_window_expr(
        &function,
        "\u{1}number".into(),
        &[],
        &[],
        &[],
        frame,
        schema,
        false,
        false,
        None,
    )?;
    let mode = InputOrderMode::Linear;
    Ok(Arc::new(BoundedWindowAggExec::try_new(
        vec![number],
        input,
        mode,
        false,
    )?))
}

/// A sort of all rows, of which the first go on; None where it keeps few.
fn whole(sort: &SortExec) -> Option<Arc<dyn ExecutionPlan>> {
    let kept = sort.fetch().filter(|kept| *kept > KEPT_ROWS_MAX)?;
    Some(first_of_all(sort, kept))
}
