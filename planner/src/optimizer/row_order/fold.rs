//! Nodes folded into one.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_expr_common::sort_expr::OrderingRequirements;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements, Partitioning,
    PhysicalExpr, PlanProperties, SendableRecordBatchStream,
};

type Plan = Arc<dyn ExecutionPlan>;

/// `top` and the nodes below it down to `input`, which gives one stream, in the order of `ordering`.
#[derive(Debug)]
pub(super) struct InOrder {
    /// What the nodes compute; their own lowest input is not looked at.
    top: Plan,
    /// How many nodes there are.
    depth: usize,
    input: Plan,
    ordering: Option<LexOrdering>,
    properties: Arc<PlanProperties>,
}

impl InOrder {
    pub fn new(top: Plan, depth: usize, input: Plan, ordering: Option<LexOrdering>) -> Result<Self> {
        // The nodes were planned over rows in another order, a scan's perhaps, which is not that of the result.
        let source = match &ordering {
            Some(ordering) => Arc::new(SortExec::new(ordering.clone(), Arc::clone(&input))),
            None => Arc::clone(&input),
        };
        let properties = rebased(&top, depth, source)?.properties().as_ref().clone();
        let properties = properties.with_partitioning(Partitioning::UnknownPartitioning(1));
        Ok(Self {
            top,
            depth,
            input,
            ordering,
            properties: Arc::new(properties),
        })
    }

    /// The nodes again, over the input of now.
    pub fn unfolded(&self) -> Result<Plan> {
        rebased(&self.top, self.depth, Arc::clone(&self.input))
    }
}

/// The `depth` uppermost nodes of `top` over another input.
pub(super) fn rebased(top: &Plan, depth: usize, input: Plan) -> Result<Plan> {
    if depth == 0 {
        return Ok(input);
    }
    let child = rebased(top.children()[0], depth - 1, input)?;
    if Arc::ptr_eq(top.children()[0], &child) {
        return Ok(Arc::clone(top));
    }
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(top).replace_children(vec![child], options)
}

impl DisplayAs for InOrder {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "InOrder: {} nodes", self.depth)
    }
}

impl ExecutionPlan for InOrder {
    fn name(&self) -> &str {
        "InOrder"
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

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let required = self.ordering.clone().map(LexRequirement::from);
        vec![required.map(OrderingRequirements::new)]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        let Ok([input]) = <[_; 1]>::try_from(children) else {
            return internal_err!("InOrder has one input");
        };
        let (top, ordering) = (Arc::clone(&self.top), self.ordering.clone());
        Ok(Arc::new(Self::new(top, self.depth, input, ordering)?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.unfolded()?.execute(partition, context)
    }
}
