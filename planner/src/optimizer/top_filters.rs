//! Where a sort that keeps its first rows tells what it still wants: down to the scan that its first key comes from, through
//! nodes whose rows each depend on one row of that scan, or on one and rows of other inputs.

use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::sync::Arc;
use tenon_executor::join::{IndexJoinExec, JoinExec};
use tenon_executor::scan::{ScanExec, TopFilter};

type Plan = Arc<dyn ExecutionPlan>;

/// Connects every sort that keeps its first rows with the scans below it that can make use of that. For each run anew: a
/// copy of a sort has a filter of its own.
pub(super) fn place(plan: Plan) -> Result<Plan> {
    let children: Vec<Plan> = plan.children().into_iter().cloned().collect();
    let mut placed = children.iter().cloned().map(place).collect::<Result<Vec<_>>>()?;
    if let Some(sort) = plan.downcast_ref::<SortExec>()
        && let (Some(rows), Some(filter)) = (sort.fetch(), sort.dynamic_expressions_produced().pop())
        && let Some(column) = sort.expr().first().expr.downcast_ref::<Column>()
    {
        let key = sort.expr().first();
        let known = sort.input().equivalence_properties();
        let (prefix, _) = known.extract_common_sort_prefix(sort.expr().clone())?;
        let top = TopFilter {
            filter,
            key: Arc::clone(&key.expr),
            options: key.options,
            rows,
            in_order: !prefix.is_empty(),
        };
        if let Some(input) = push(&placed[0], column.index(), &top)? {
            placed[0] = input;
        }
    }
    let changed = children.iter().zip(&placed).any(|(old, new)| !Arc::ptr_eq(old, new));
    match changed {
        true => with_children(plan, placed),
        false => Ok(plan),
    }
}

fn with_children(plan: Plan, children: Vec<Plan>) -> Result<Plan> {
    plan.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// The plan with the filter on its output column `column`, as far down as that goes; `None` if it reaches no scan.
fn push(plan: &Plan, column: usize, top: &TopFilter) -> Result<Option<Plan>> {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        return Ok(scan.with_top(column, top).map(|scan| Arc::new(scan) as Plan));
    }
    if let Some(join) = plan.downcast_ref::<JoinExec>() {
        // The build side is read before the sort sees a row.
        let source = &join.spec().output[column];
        let of_each_row = !matches!(join.spec().join_type, JoinType::Left | JoinType::Full);
        if source.side != JoinSide::Right || !of_each_row {
            return Ok(None);
        }
        let probe = push(join.probe(), source.index, top)?;
        return Ok(probe.map(|probe| Arc::new(join.with_inputs(Arc::clone(join.build()), probe)) as Plan));
    }
    if let Some(join) = plan.downcast_ref::<IndexJoinExec>() {
        let source = &join.spec().output[column];
        if source.side != join.spec().outer_side {
            return Ok(None);
        }
        let outer = push(join.outer(), source.index, top)?;
        return Ok(outer.map(|outer| Arc::new(join.with_outer(outer)) as Plan));
    }
    if plan.is::<UnionExec>() {
        let inputs: Vec<Plan> = plan.children().into_iter().cloned().collect();
        let pushed = inputs.iter().map(|input| push(input, column, top));
        let pushed = pushed.collect::<Result<Vec<_>>>()?;
        if pushed.iter().all(Option::is_none) {
            return Ok(None);
        }
        let inputs = pushed.into_iter().zip(inputs);
        let inputs = inputs.map(|(pushed, input)| pushed.unwrap_or(input)).collect();
        return with_children(Arc::clone(plan), inputs).map(Some);
    }
    let source = match plan.downcast_ref::<FilterExec>() {
        Some(filter) if is_volatile(filter.predicate()) => None,
        Some(filter) => match filter.projection() {
            Some(projection) => projection.get(column).copied(),
            None => Some(column),
        },
        None => same_rows(plan, column),
    };
    let children = plan.children();
    let (Some(source), [input], None) = (source, &children[..], plan.fetch()) else {
        return Ok(None);
    };
    match push(input, source, top)? {
        Some(input) => Ok(Some(with_children(Arc::clone(plan), vec![input])?)),
        None => Ok(None),
    }
}

/// The column of a node's input that its output column `column` is, where each row of the input is one of the output.
pub(super) fn same_rows(plan: &Plan, column: usize) -> Option<usize> {
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else {
        return hands_on(plan).then_some(column);
    };
    if projection.expr().iter().any(|own| is_volatile(&own.expr)) {
        return None;
    }
    let source = projection.expr()[column].expr.downcast_ref::<Column>();
    source.map(Column::index)
}

/// Whether a node gives all rows of its input, in no order that counts.
fn hands_on(plan: &Plan) -> bool {
    const NAMES: [&str; 3] = ["CoalescePartitionsExec", "CooperativeExec", "PiecesExec"];
    NAMES.contains(&plan.name()) || plan.is::<RepartitionExec>()
}
