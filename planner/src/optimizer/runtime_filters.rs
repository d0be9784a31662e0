//! Where runtime filters go: from each join whose unmatched probe rows vanish, down to the scans that give the probe
//! side's keys. On the way they pass joins (on either side, by equality of keys), filters, projections, sorts, the inputs
//! of UNION ALL, and aggregates that group by the key: the semi-join reduction that correlated aggregates need (magic sets, Mumick 1990).

use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use tenon_executor::aggregate::GroupExec;
use tenon_executor::join::JoinExec;
use tenon_executor::runtime_filter::RuntimeFilter;
use tenon_executor::scan::ScanExec;

type Plan = Arc<dyn ExecutionPlan>;

/// Places every runtime filter that has a scan to go to.
pub fn place(plan: Plan) -> Result<Plan> {
    let plan = match plan.downcast_ref::<JoinExec>() {
        Some(join) if join.spec().drops_unmatched_probe_rows() => {
            let mut probe = Arc::clone(join.probe());
            let mut filters = vec![];
            for (key, expr) in join.spec().probe_keys.iter().enumerate() {
                let Some(column) = expr.downcast_ref::<Column>() else {
                    continue;
                };
                let filter = Arc::new(RuntimeFilter::default());
                if let Some(filtered) = push(&probe, column.index(), &filter)? {
                    probe = filtered;
                    filters.push((key, filter));
                }
            }
            if filters.is_empty() {
                plan
            } else {
                Arc::new(join.with_inputs(Arc::clone(join.build()), probe).with_filters(filters))
            }
        }
        _ => plan,
    };
    let children: Vec<Plan> = plan.children().into_iter().cloned().collect();
    let placed = children.iter().cloned().map(place).collect::<Result<Vec<_>>>()?;
    if children
        .iter()
        .zip(&placed)
        .all(|(before, after)| Arc::ptr_eq(before, after))
    {
        return Ok(plan);
    }
    with_children(plan, placed)
}

fn with_children(plan: Plan, children: Vec<Plan>) -> Result<Plan> {
    plan.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// The plan with `filter` on its output column `column`, as far down as that goes; `None` if it reaches no scan.
fn push(plan: &Plan, column: usize, filter: &Arc<RuntimeFilter>) -> Result<Option<Plan>> {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        return Ok(scan
            .with_runtime_filter(column, filter)
            .map(|scan| Arc::new(scan) as Plan));
    }
    if let Some(join) = plan.downcast_ref::<JoinExec>() {
        return push_through_join(join, column, filter);
    }
    if plan.is::<UnionExec>() {
        return push_into_union(plan, column, filter);
    }
    let source = if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        position(&projection.expr()[column].expr)
    } else if let Some(node) = plan.downcast_ref::<FilterExec>() {
        match node.projection() {
            Some(projection) => projection.get(column).copied(),
            None => Some(column),
        }
    } else if let Some(group) = plan.downcast_ref::<GroupExec>() {
        // Groups by fewer keys have the rows that the filter would take.
        let keys = group
            .spec()
            .sets
            .is_empty()
            .then(|| group.spec().keys.get(column))
            .flatten();
        keys.and_then(|(key, _)| position(key))
    } else if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let keys = aggregate.group_expr();
        match keys.expr().get(column) {
            Some((expr, _)) if keys.is_single() => position(expr),
            _ => None,
        }
    } else if plan.downcast_ref::<CoalescePartitionsExec>().is_some() {
        Some(column)
    } else {
        None
    };
    let children = plan.children();
    let (Some(source), [input]) = (source, &children[..]) else {
        return Ok(None);
    };
    match push(input, source, filter)? {
        Some(input) => Ok(Some(with_children(Arc::clone(plan), vec![input])?)),
        None => Ok(None),
    }
}

/// Each input may lose its rows by itself.
fn push_into_union(union: &Plan, column: usize, filter: &Arc<RuntimeFilter>) -> Result<Option<Plan>> {
    let mut placed = false;
    let inputs = union.children().into_iter().map(|input| {
        let filtered = push(input, column, filter)?;
        placed |= filtered.is_some();
        Ok(filtered.unwrap_or_else(|| Arc::clone(input)))
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    match placed {
        true => Ok(Some(with_children(Arc::clone(union), inputs)?)),
        false => Ok(None),
    }
}

fn position(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}

/// Rows of the side that the column comes from may go; for an inner join, so may rows of the other side that could only
/// meet them.
fn push_through_join(join: &JoinExec, column: usize, filter: &Arc<RuntimeFilter>) -> Result<Option<Plan>> {
    use JoinType::*;
    let spec = join.spec();
    let source = &spec.output[column];
    let join_type = spec.join_type;
    let (build_may, probe_may) = match source.side {
        JoinSide::Left => (
            !matches!(join_type, Right | Full),
            join_type == Inner || join_type == LeftSemi,
        ),
        JoinSide::Right => (
            join_type == Inner || join_type == RightSemi,
            !matches!(join_type, Left | Full),
        ),
        JoinSide::None => (false, false),
    };
    let (own, other) = match source.side {
        JoinSide::Left => (&spec.build_keys, &spec.probe_keys),
        _ => (&spec.probe_keys, &spec.build_keys),
    };
    let twin = own
        .iter()
        .position(|key| position(key) == Some(source.index))
        .and_then(|key| position(&other[key]));
    let on = |side: JoinSide| if source.side == side { Some(source.index) } else { twin };
    let (mut build, mut probe) = (Arc::clone(join.build()), Arc::clone(join.probe()));
    let mut placed = false;
    if let Some(at) = on(JoinSide::Left).filter(|_| build_may)
        && let Some(filtered) = push(&build, at, filter)?
    {
        (build, placed) = (filtered, true);
    }
    if let Some(at) = on(JoinSide::Right).filter(|_| probe_may)
        && let Some(filtered) = push(&probe, at, filter)?
    {
        (probe, placed) = (filtered, true);
    }
    Ok(placed.then(|| Arc::new(join.with_inputs(build, probe)) as Plan))
}
