//! Frames that reach to the end of their partition, in plans that go through files.
//!
//! Where a frame ends with its partition, no row has its value before the last one is read: DataFusion keeps whole partitions.
//! From the other end of the partition such a frame begins with it, and grows as rows go by.

use datafusion::common::{Result, ScalarValue};
use datafusion::functions_window::nth_value::{first_value_udwf, last_value_udwf};
use datafusion::logical_expr::expr::{NullTreatment, Sort, WindowFunction};
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition};
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use std::sync::Arc;

/// Aggregates that are the same whichever row comes first.
pub(super) const UNORDERED: [&str; 9] = [
    "count", "sum", "avg", "min", "max", "bool_and", "bool_or", "bit_and", "bit_or",
];

enum Kind {
    Aggregate,
    First,
    Last,
}

impl Kind {
    fn of(function: &WindowFunction) -> Option<Self> {
        let params = &function.params;
        match &function.fun {
            WindowFunctionDefinition::AggregateUDF(udaf) => {
                (UNORDERED.contains(&udaf.name()) && !params.distinct).then_some(Self::Aggregate)
            }
            _ if params.null_treatment == Some(NullTreatment::IgnoreNulls) => None,
            WindowFunctionDefinition::WindowUDF(udwf) => match udwf.name() {
                "first_value" => Some(Self::First),
                "last_value" => Some(Self::Last),
                _ => None,
            },
        }
    }
}

/// The same function by rows that go by; None where it is none of these.
pub(super) fn turned(function: &WindowFunction) -> Option<WindowFunction> {
    let frame = &function.params.window_frame;
    if !frame.end_bound.is_unbounded() || matches!(frame.end_bound, WindowFrameBound::Preceding(_)) {
        return None;
    }
    let whole = frame.start_bound.is_unbounded();
    let mut turned = function.clone();
    let grows = |units, to| WindowFrame::new_bounds(units, unbounded(frame), to);
    let params = &mut turned.params;
    match Kind::of(function)? {
        // One value for all rows of a partition goes through files as it is.
        Kind::Aggregate if whole => return None,
        Kind::First if whole => {
            params.window_frame = up_to();
            return Some(turned);
        }
        Kind::Last if whole => {
            turned.fun = first_value_udwf().into();
            params.window_frame = up_to();
        }
        kind => {
            params.window_frame = grows(frame.units, mirrored(frame)?);
            match kind {
                Kind::Aggregate => {}
                Kind::First => turned.fun = last_value_udwf().into(),
                Kind::Last => turned.fun = first_value_udwf().into(),
            }
        }
    }
    // Rows without an order have no other end.
    if params.order_by.is_empty() {
        return None;
    }
    for key in &mut params.order_by {
        *key = Sort::new(key.expr.clone(), !key.asc, !key.nulls_first);
    }
    Some(turned)
}

/// The node by rows that go by from the other end, where all its functions can; what is above may rely on the order of rows.
/// DataFusion computes functions by the order that rows have already, or by its reverse, whichever keeps whole partitions.
pub(crate) fn from_the_end(window: &WindowAggExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let turned = window.window_expr().iter().map(|expr| expr.get_reverse_expr());
    let turned = turned.filter(|expr| expr.as_ref().is_some_and(|expr| expr.uses_bounded_memory()));
    let turned: Vec<_> = turned.flatten().collect();
    let Some(first) = turned.first().filter(|_| turned.len() == window.window_expr().len()) else {
        return Ok(None);
    };
    let keys = first.partition_by().iter();
    let keys = keys.map(|key| PhysicalSortExpr::new_default(Arc::clone(key)));
    let Some(order) = LexOrdering::new(keys.chain(first.order_by().iter().cloned())) else {
        return Ok(None);
    };
    let is_parted = !window.partition_keys().is_empty();
    let sorted = |order, input| SortExec::new(order, input).with_preserve_partitioning(is_parted);
    let input = Arc::new(sorted(order, Arc::clone(window.input())));
    let found = Arc::new(BoundedWindowAggExec::try_new(
        turned,
        input,
        InputOrderMode::Sorted,
        is_parted,
    )?);
    Ok(Some(match window.properties().output_ordering() {
        Some(order) => Arc::new(sorted(order.clone(), found)),
        None => found,
    }))
}

/// All rows up to each.
pub(super) fn up_to() -> WindowFrame {
    WindowFrame::new_bounds(
        WindowFrameUnits::Rows,
        WindowFrameBound::Preceding(ScalarValue::UInt64(None)),
        WindowFrameBound::CurrentRow,
    )
}

/// Before all rows, in a frame's units.
fn unbounded(frame: &WindowFrame) -> WindowFrameBound {
    match &frame.end_bound {
        WindowFrameBound::Following(value) => WindowFrameBound::Preceding(value.clone()),
        other => other.clone(),
    }
}

/// Where the frame begins, seen from the other end.
fn mirrored(frame: &WindowFrame) -> Option<WindowFrameBound> {
    let offsets = frame.units == WindowFrameUnits::Rows;
    match &frame.start_bound {
        WindowFrameBound::CurrentRow => Some(WindowFrameBound::CurrentRow),
        WindowFrameBound::Preceding(offset) if offsets => Some(WindowFrameBound::Following(offset.clone())),
        WindowFrameBound::Following(offset) if offsets => Some(WindowFrameBound::Preceding(offset.clone())),
        _ => None,
    }
}
