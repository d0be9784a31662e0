//! Expressions that replace DataFusion's where it is slow.

mod like;
mod narrow;

pub use narrow::NarrowArithmetic;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::PhysicalExpr;

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
