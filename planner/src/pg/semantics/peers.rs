//! RANGE frames without offsets, over keys of types that DataFusion cannot add to: a frame of peers, which GROUPS is too.

use super::fields;
use crate::pg::named;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::optimizer::AnalyzerRule;

#[derive(Debug)]
pub(super) struct FramesOfPeers;

impl AnalyzerRule for FramesOfPeers {
    fn name(&self) -> &str {
        "frames_of_peers"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            if !matches!(node, LogicalPlan::Window(_)) {
                return Ok(Transformed::no(node));
            }
            let schema = merge_schema(&node.inputs());
            named::map_expressions(node, |expr| expr.transform_up(|expr| rewrite(expr, &schema)))
        })
        .data()
    }
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(mut call) = expr else {
        return Ok(Transformed::no(expr));
    };
    let key = call
        .params
        .order_by
        .first()
        .map(|key| fields::data_type(&key.expr, schema))
        .transpose()?;
    let frame = &call.params.window_frame;
    let free = |bound: &WindowFrameBound| bound.is_unbounded() || *bound == WindowFrameBound::CurrentRow;
    let ranges = frame.units == WindowFrameUnits::Range && free(&frame.start_bound) && free(&frame.end_bound);
    if !ranges || key.as_ref().is_none_or(can_add) {
        return Ok(Transformed::no(Expr::WindowFunction(call)));
    }
    let (start, end) = (frame.start_bound.clone(), frame.end_bound.clone());
    call.params.window_frame = WindowFrame::new_bounds(WindowFrameUnits::Groups, start, end);
    Ok(Transformed::yes(Expr::WindowFunction(call)))
}

fn can_add(key: &DataType) -> bool {
    key.is_numeric()
        || key.is_string()
        || key.is_null()
        || matches!(
            key,
            DataType::Boolean | DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(_) | DataType::List(_)
        )
}
