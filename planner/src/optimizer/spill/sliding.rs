//! Frames that move along their partition, in plans that go through files: the rows behind them need not be kept.

use crate::pg::functions::window::Framed;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::window::{StandardWindowExpr, WindowExpr};
use datafusion::physical_plan::windows::{WindowAggExec, WindowUDFExpr};
use std::ops::Range;
use std::sync::Arc;
use tenon_executor::window::Extents;

#[derive(Debug)]
struct Moving(Arc<dyn WindowExpr>);

/// On which rows the node's functions depend; None where one depends on all of its partition.
pub(crate) fn extents(window: &WindowAggExec) -> Option<Vec<Arc<dyn Extents>>> {
    let of = |expr: &Arc<dyn WindowExpr>| -> Option<Arc<dyn Extents>> {
        let moves = framed(expr).is_some_and(Framed::moves);
        moves.then(|| Arc::new(Moving(Arc::clone(expr))) as _)
    };
    window.window_expr().iter().map(of).collect()
}

fn framed(expr: &Arc<dyn WindowExpr>) -> Option<&Framed> {
    let standard = expr.as_any().downcast_ref::<StandardWindowExpr>()?;
    let function = standard.get_standard_func_expr().as_any();
    function.downcast_ref::<WindowUDFExpr>()?.fun().inner().downcast_ref()
}

impl Extents for Moving {
    fn of(&self, rows: &RecordBatch) -> Result<Vec<Range<usize>>> {
        match framed(&self.0) {
            Some(framed) => framed.extents(&self.0.evaluate_args(rows)?, rows.num_rows()),
            None => internal_err!("{} has no frame that moves", self.0.name()),
        }
    }
}
