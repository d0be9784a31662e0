//! Rows of whose order nothing is known.
//!
//! Below grouping sets: DataFusion carries what holds of the input's columns, orders and constants, over to the sets'
//! columns, which are NULL in the rows of other sets. Above a filter by `f(a) = a`: DataFusion takes the two for one
//! expression, and does not know the order by `a` again once it has put `f(a)` in its place.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_expr::{EquivalenceProperties, split_conjunction};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties, SendableRecordBatchStream,
    StatisticsArgs,
};

use super::pieces::grouping_sets;

type Plan = Arc<dyn ExecutionPlan>;

/// `plan` over an input of which nothing is known, if it groups by several sets; else `plan`.
pub(super) fn below_grouping_sets(plan: Plan) -> Result<Plan> {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else {
        return Ok(plan);
    };
    if grouping_sets(aggregate).is_none() || aggregate.input().is::<UnorderedExec>() {
        return Ok(plan);
    }
    let input = Arc::new(UnorderedExec::new(Arc::clone(aggregate.input())));
    plan.replace_children(
        vec![input],
        ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
    )
}

/// The plan whose order nothing is to be known of, without what hides it.
pub(super) fn within(plan: &Plan) -> &Plan {
    plan.downcast_ref::<UnorderedExec>()
        .map_or(plan, |hidden| &hidden.input)
}

/// `plan` with nothing known of its rows, if it is a filter by an expression's equality with a part of it; else `plan`.
pub(super) fn equal_to_parts(plan: Plan) -> Plan {
    let in_the_other = |whole: &Arc<dyn PhysicalExpr>, part: &Arc<dyn PhysicalExpr>| {
        !whole.eq(part) && whole.exists(|expr| Ok(expr.eq(part))).is_ok_and(|found| found)
    };
    let equates = |conjunct: &Arc<dyn PhysicalExpr>| {
        let binary = conjunct.downcast_ref::<BinaryExpr>();
        binary.is_some_and(|binary| {
            let (left, right) = (binary.left(), binary.right());
            *binary.op() == Operator::Eq && (in_the_other(left, right) || in_the_other(right, left))
        })
    };
    let filter = plan.downcast_ref::<FilterExec>();
    match filter.is_some_and(|filter| split_conjunction(filter.predicate()).into_iter().any(equates)) {
        true => Arc::new(UnorderedExec::new(plan)),
        false => plan,
    }
}

/// Its input's rows.
#[derive(Debug)]
struct UnorderedExec {
    input: Plan,
    properties: Arc<PlanProperties>,
}

impl UnorderedExec {
    fn new(input: Plan) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            input.properties().partitioning.clone(),
            input.properties().emission_type,
            input.properties().boundedness,
        );
        Self {
            input,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for UnorderedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "UnorderedExec")
    }
}

impl ExecutionPlan for UnorderedExec {
    fn name(&self) -> &str {
        "UnorderedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        match <[_; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(Self::new(input))),
            Err(_) => internal_err!("UnorderedExec has one input"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }
}
