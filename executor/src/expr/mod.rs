//! Expressions that replace DataFusion's where it is slow.

mod like;
mod narrow;

pub use like::FastLike;
pub use narrow::{NarrowArithmetic, NarrowComparison, NarrowValues};

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::PhysicalExpr;

/// The expression as it was before `accelerate`; None for one that is as it was.
pub fn original(expr: &Arc<dyn PhysicalExpr>) -> Option<&Arc<dyn PhysicalExpr>> {
    expr.downcast_ref::<like::FastLike>()
        .map(like::FastLike::original)
        .or_else(|| narrow::original(expr))
}

/// The same expression with the faster forms put in.
pub fn accelerate(expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
    // Downwards: an arithmetic tree is taken whole.
    let expr = expr.transform_down(|e| {
        if let Some(fast) = like::FastLike::of(&e)? {
            return Ok(Transformed::yes(fast));
        }
        Ok(Transformed::no(e))
    })?;
    narrow::accelerate(expr.data)
}
