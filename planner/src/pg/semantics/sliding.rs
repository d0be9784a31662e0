//! Aggregates over frames that move, without DataFusion's (55.2) claims of an order.
//!
//! It takes `max` over a frame of few rows for ascending, even where the rows come in descending order, or where the last of
//! them are null; and `count`, where rows with nulls follow those without. Where the first rows are null, it takes those of
//! `max` for first and last alike. An ORDER BY over such would sort nothing.

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, LogicalPlan, ReversedUDAF, SetMonotonicity, Signature,
    WindowFrameBound, WindowFunctionDefinition,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct SlidingFrames;

impl AnalyzerRule for SlidingFrames {
    fn name(&self) -> &str {
        "sliding_frames"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Window(_) => node.map_expressions(|expr| expr.transform_up(|expr| Ok(rewrite(expr)))),
            node => Ok(Transformed::no(node)),
        })
        .data()
    }
}

fn rewrite(mut expr: Expr) -> Transformed<Expr> {
    if let Expr::WindowFunction(call) = &mut expr
        && let WindowFunctionDefinition::AggregateUDF(function) = &call.fun
        && !function.inner().is::<Sliding>()
        && (claims_order(function, &call.params.window_frame.start_bound) || only_grows(function))
    {
        let sliding = AggregateUDF::new_from_impl(Sliding(Arc::clone(function)));
        call.fun = WindowFunctionDefinition::AggregateUDF(Arc::new(sliding));
        return Transformed::yes(expr);
    }
    Transformed::no(expr)
}

/// A count of rows that none leaves does ascend.
fn claims_order(function: &AggregateUDF, start: &WindowFrameBound) -> bool {
    let grows = matches!(start, WindowFrameBound::Preceding(_)) && start.is_unbounded();
    match function.name() {
        "min" | "max" => true,
        "count" => !grows,
        _ => false,
    }
}

/// These take no row back, and say that rows may come in the other order, in which a frame that grows would shrink.
fn only_grows(function: &AggregateUDF) -> bool {
    matches!(function.name(), "bool_and" | "bool_or" | "bit_and" | "bit_or")
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sliding(Arc<AggregateUDF>);

impl AggregateUDFImpl for Sliding {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.0.return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.0.is_nullable()
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.0.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.0.accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.0.create_sliding_accumulator(args)
    }

    fn default_value(&self, of: &DataType) -> Result<ScalarValue> {
        self.0.default_value(of)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(types)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.0.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match only_grows(&self.0) {
            true => ReversedUDAF::NotSupported,
            false => ReversedUDAF::Identical,
        }
    }

    fn set_monotonicity(&self, _: &DataType) -> SetMonotonicity {
        SetMonotonicity::NotMonotonic
    }
}
