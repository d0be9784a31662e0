//! One logical rule over one plan, without taking apart what it leaves as it is.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion, TreeNodeRewriter};
use datafusion::logical_expr::{Distinct, Extension, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// The plan as the rule makes it, and whether the rule says that it made another. `subqueries`: whether some stand in
/// expressions, where the rule is to go too.
pub(super) fn applied(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
    subqueries: bool,
) -> Result<Transformed<LogicalPlan>> {
    match rule.apply_order() {
        Some(order) if subqueries => plan.rewrite_with_subqueries(&mut Everywhere { order, rule, config }),
        Some(order) => {
            let mut plan = plan;
            let changed = rewrite(&mut plan, order, rule, config)?;
            Ok(Transformed::new_transformed(plan, changed))
        }
        None => rule.rewrite(plan, config),
    }
}

struct Everywhere<'a> {
    order: ApplyOrder,
    rule: &'a dyn OptimizerRule,
    config: &'a dyn OptimizerConfig,
}

impl TreeNodeRewriter for Everywhere<'_> {
    type Node = LogicalPlan;

    fn f_down(&mut self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        match self.order {
            ApplyOrder::TopDown => self.rule.rewrite(node, self.config),
            ApplyOrder::BottomUp => Ok(Transformed::no(node)),
        }
    }

    fn f_up(&mut self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        match self.order {
            ApplyOrder::BottomUp => self.rule.rewrite(node, self.config),
            ApplyOrder::TopDown => Ok(Transformed::no(node)),
        }
    }
}

fn rewrite(
    plan: &mut LogicalPlan,
    order: ApplyOrder,
    rule: &dyn OptimizerRule,
    config: &dyn OptimizerConfig,
) -> Result<bool> {
    stacker::maybe_grow(RED_ZONE_BYTES, MORE_BYTES, || {
        let mut changed = false;
        if order == ApplyOrder::TopDown {
            let made = rule.rewrite(std::mem::take(plan), config)?;
            *plan = made.data;
            changed = made.transformed;
            if made.tnr == TreeNodeRecursion::Stop {
                return Ok(changed);
            }
        }
        let mut of_other_columns = false;
        changed |= each_input(plan, &mut |input| {
            let before = Arc::clone(input.schema());
            let changed = rewrite(input, order, rule, config)?;
            of_other_columns |= changed && !Arc::ptr_eq(&before, input.schema()) && before != *input.schema();
            Ok(changed)
        })?;
        if of_other_columns {
            *plan = std::mem::take(plan).recompute_schema()?;
        }
        if order == ApplyOrder::BottomUp {
            let made = rule.rewrite(std::mem::take(plan), config)?;
            *plan = made.data;
            changed |= made.transformed;
        }
        Ok(changed)
    })
}

/// Stack that a node's rule may take, and how much more there is where that is not left.
const RED_ZONE_BYTES: usize = 128 << 10;
const MORE_BYTES: usize = 2 << 20;

/// Calls `f` with each input, and says whether any was changed.
fn each_input(plan: &mut LogicalPlan, f: &mut dyn FnMut(&mut LogicalPlan) -> Result<bool>) -> Result<bool> {
    let mut of = |input: &mut Arc<LogicalPlan>| f(Arc::make_mut(input));
    match plan {
        LogicalPlan::Projection(node) => of(&mut node.input),
        LogicalPlan::Filter(node) => of(&mut node.input),
        LogicalPlan::Repartition(node) => of(&mut node.input),
        LogicalPlan::Window(node) => of(&mut node.input),
        LogicalPlan::Aggregate(node) => of(&mut node.input),
        LogicalPlan::Sort(node) => of(&mut node.input),
        LogicalPlan::Limit(node) => of(&mut node.input),
        LogicalPlan::SubqueryAlias(node) => of(&mut node.input),
        LogicalPlan::Unnest(node) => of(&mut node.input),
        LogicalPlan::Subquery(node) => of(&mut node.subquery),
        LogicalPlan::Join(node) => Ok(of(&mut node.left)? | of(&mut node.right)?),
        LogicalPlan::Union(node) => node
            .inputs
            .iter_mut()
            .try_fold(false, |any, input| Ok(any | of(input)?)),
        LogicalPlan::Distinct(Distinct::All(input)) => of(input),
        LogicalPlan::Distinct(Distinct::On(node)) => of(&mut node.input),
        LogicalPlan::RecursiveQuery(node) => Ok(of(&mut node.static_term)? | of(&mut node.recursive_term)?),
        LogicalPlan::TableScan(_) | LogicalPlan::EmptyRelation(_) | LogicalPlan::Values(_) => Ok(false),
        LogicalPlan::Extension(Extension { node }) => {
            let (mut changed, expressions) = (false, node.expressions());
            let mut inputs: Vec<LogicalPlan> = node.inputs().into_iter().cloned().collect();
            for input in &mut inputs {
                changed |= f(input)?;
            }
            if changed {
                *node = node.with_exprs_and_inputs(expressions, inputs)?;
            }
            Ok(changed)
        }
        // Nodes that give no inputs to change where they stand.
        other => {
            let made = std::mem::take(other).map_children(|mut input| {
                let changed = f(&mut input)?;
                Ok(Transformed::new_transformed(input, changed))
            })?;
            *other = made.data;
            Ok(made.transformed)
        }
    }
}
