//! Aggregates over all rows of their partition: one value for each partition, gathered as the rows go by.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{Accumulator, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_plan::WindowExpr;
use datafusion::physical_plan::windows::PlainAggregateWindowExpr;

type Expr = Arc<dyn WindowExpr>;

/// Whether all functions are such.
pub(super) fn are_all(exprs: &[Expr]) -> bool {
    exprs.iter().all(|expr| aggregate(expr).is_some())
}

fn aggregate(expr: &Expr) -> Option<&PlainAggregateWindowExpr> {
    let plain = expr.as_any().downcast_ref::<PlainAggregateWindowExpr>()?;
    let frame = expr.get_window_frame();
    let peers_are_all = frame.units == WindowFrameUnits::Range && expr.order_by().is_empty();
    let is_open = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => peers_are_all,
        bound => bound.is_unbounded(),
    };
    (is_open(&frame.start_bound) && is_open(&frame.end_bound) && !has_filter(plain)).then_some(plain)
}

/// A FILTER is told to nobody but whoever debugs. What is not understood is taken for one.
fn has_filter(expr: &PlainAggregateWindowExpr) -> bool {
    !format!("{expr:?}").ends_with("filter: None }")
}

/// What the aggregates have seen of a partition.
pub(super) struct Gathered(Vec<(Expr, Box<dyn Accumulator>)>);

impl Gathered {
    pub fn new(exprs: &[Expr]) -> Result<Self> {
        let accumulators = exprs.iter().map(|expr| match aggregate(expr) {
            Some(plain) => Ok((Arc::clone(expr), plain.get_aggregate_expr().create_accumulator()?)),
            None => internal_err!("{} looks at its frame", expr.name()),
        });
        Ok(Self(accumulators.collect::<Result<_>>()?))
    }

    pub fn update(&mut self, batch: &RecordBatch) -> Result<()> {
        for (expr, accumulator) in &mut self.0 {
            accumulator.update_batch(&expr.evaluate_args(batch)?)?;
        }
        Ok(())
    }

    /// What the accumulators hold.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(_, accumulator)| accumulator.size()).sum()
    }

    pub fn values(mut self) -> Result<Vec<ScalarValue>> {
        self.0
            .iter_mut()
            .map(|(_, accumulator)| accumulator.evaluate())
            .collect()
    }
}

/// The values, each for so many rows.
pub(super) fn repeated(values: &[ScalarValue], rows: usize) -> Result<Vec<ArrayRef>> {
    values.iter().map(|value| value.to_array_of_size(rows)).collect()
}
