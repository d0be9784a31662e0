//! Aggregations of values that count once, as groupings: those of the CPU's `GroupExec`, and DataFusion's, in one step or two,
//! which it leaves to it.

use std::sync::Arc;

use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;

use crate::aggregate::{GroupExec, GroupSpec, of_all_values};
use crate::codegen::Translated;

/// What is grouped, of which input, and which aggregates take each value once.
pub struct Steps<'p> {
    pub spec: GroupSpec,
    pub distinct: Vec<bool>,
    pub input: &'p Arc<dyn ExecutionPlan>,
    /// How many groups are expected.
    pub estimate: Option<usize>,
}

/// Whether a `GroupExec` has values that count once.
fn counts_once(group: &GroupExec) -> bool {
    group.spec().aggregates.iter().any(|own| own.is_distinct())
}

/// The first step of an aggregation whose last step this is.
fn first_step(plan: &Arc<dyn ExecutionPlan>) -> Option<&AggregateExec> {
    let last = plan.downcast_ref::<AggregateExec>()?;
    let first = match last.mode() {
        AggregateMode::Single | AggregateMode::SinglePartitioned => last,
        AggregateMode::Final | AggregateMode::FinalPartitioned => {
            let mut below = last.input();
            while let ([input], true) = (
                &below.children()[..],
                below.is::<RepartitionExec>() || below.is::<CoalescePartitionsExec>(),
            ) {
                below = input;
            }
            let first = below.downcast_ref::<AggregateExec>();
            first.filter(|first| *first.mode() == AggregateMode::Partial)?
        }
        _ => return None,
    };
    let one_set = first.group_expr().is_single() || first.group_expr().is_empty();
    (one_set && last.limit_options().is_none() && first.limit_options().is_none()).then_some(first)
}

impl<'p> Steps<'p> {
    /// Whether a plan is an aggregation of these kinds: some of its values count once, or all are those of a group's first row.
    pub fn are_of(plan: &Arc<dyn ExecutionPlan>) -> bool {
        first_step(plan).is_some_and(|first| {
            let aggregates = first.aggr_expr();
            aggregates.iter().any(|own| own.is_distinct()) || first_values(aggregates)
        })
    }

    /// None: it is no such aggregation.
    pub fn of(plan: &'p Arc<dyn ExecutionPlan>) -> Option<Translated<Self>> {
        if let Some(group) = plan.downcast_ref::<GroupExec>().filter(|group| counts_once(group)) {
            return Some(match group.spec().sets.is_empty() {
                true => Self::of_spec(group.spec().as_ref().clone(), group.input(), group.estimate()),
                // What counts once in fine groups may be in several of them.
                false => Err("grouping sets of values that count once".into()),
            });
        }
        let first = first_step(plan)?;
        let spec = GroupSpec {
            keys: first.group_expr().expr().to_vec(),
            aggregates: first.aggr_expr().to_vec(),
            filters: first.filter_expr().to_vec(),
            sets: vec![],
            input_schema: first.input().schema(),
            schema: plan.schema(),
        };
        Some(Self::of_spec(spec, first.input(), None))
    }

    fn of_spec(mut spec: GroupSpec, input: &'p Arc<dyn ExecutionPlan>, estimate: Option<usize>) -> Translated<Self> {
        let distinct: Vec<bool> = spec.aggregates.iter().map(|own| own.is_distinct()).collect();
        for own in spec.aggregates.iter_mut().filter(|own| own.is_distinct()) {
            *own = of_all_values(own, &spec.input_schema).map_err(|error| error.to_string())?;
        }
        Ok(Self {
            spec,
            distinct,
            input,
            estimate,
        })
    }

    /// Whether each aggregate is a value of its group's first row in one order: DISTINCT ON.
    pub fn are_first_values(&self) -> bool {
        first_values(&self.spec.aggregates) && self.spec.filters.iter().all(Option::is_none)
    }

    /// Whether the host can make values of their states.
    pub fn is_supported(&self) -> bool {
        self.spec.is_supported()
    }
}

fn first_values(aggregates: &[Arc<AggregateFunctionExpr>]) -> bool {
    let Some(first) = aggregates.first() else {
        return false;
    };
    let is_first = |own: &Arc<AggregateFunctionExpr>| {
        own.fun().name() == "first_value"
            && own.expressions().len() == 1
            && !own.is_reversed()
            && !own.is_distinct()
            && !own.ignore_nulls()
            && own.order_bys() == first.order_bys()
            && !own.order_bys().is_empty()
    };
    aggregates.iter().all(is_first)
}
