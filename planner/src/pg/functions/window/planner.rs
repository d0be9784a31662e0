//! Which window calls become Tenon's own functions.

use super::frame::{Bound, Exclude, Frame};
use super::framed::{Call, Function};
use super::{fail, shift, tiles};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{Cast, ScalarFunction, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawWindowExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, WindowFrame,
    WindowFunctionDefinition, WindowUDF, lit,
};
use std::sync::Arc;

/// The function that carries a frame clause, as an argument of the call that it belongs to: its code, and the two offsets.
pub(crate) const FRAME: &str = "tenon_frame";

pub(crate) fn planner() -> Arc<dyn ExprPlanner> {
    Arc::new(Windows)
}

pub(super) fn frame_marker() -> ScalarUDF {
    ScalarUDF::new_from_impl(Marker {
        signature: Signature::any(3, Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Marker {
    signature: Signature,
}

impl ScalarUDFImpl for Marker {
    fn name(&self) -> &str {
        FRAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Null)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        plan_err!("a frame clause stands outside of a window call")
    }
}

#[derive(Debug)]
struct Windows;

impl ExprPlanner for Windows {
    fn plan_window(&self, mut call: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        if call.distinct {
            return Err(fail("0A000", "DISTINCT is not implemented for window functions"));
        }
        if call.func_def.name() == "count" && call.args.is_empty() {
            let message = "count(*) must be used to call a parameterless aggregate function";
            return Err(fail("42809", message));
        }
        let marked = match call.args.last() {
            Some(Expr::ScalarFunction(function)) if function.func.name() == FRAME => call.args.pop(),
            _ => None,
        };
        let name = call.func_def.name().to_string();
        let is_aggregate = matches!(call.func_def, WindowFunctionDefinition::AggregateUDF(_));
        let of_frame = match (name.as_str(), is_aggregate) {
            ("first_value", _) => Some(Function::FirstValue),
            ("last_value", _) => Some(Function::LastValue),
            ("nth_value", _) => Some(Function::NthValue),
            _ => None,
        };
        if !is_aggregate && call.filter.is_some() && of_frame.is_none() {
            let message = "FILTER is not implemented for non-aggregate window functions";
            return Err(fail("0A000", message));
        }
        if let ("lag" | "lead", [_, _, default]) = (name.as_str(), call.args.as_mut_slice())
            && let Expr::Literal(ScalarValue::Int64(Some(value)), None) = default
            && let Ok(value) = i32::try_from(*value)
        {
            // A number as it is written is an integer.
            *default = lit(value);
        }
        match (name.as_str(), call.args.as_slice()) {
            ("ntile", [_]) => return Ok(PlannerResult::Planned(own(call, tiles::tiles()))),
            ("lag", [_, offset, rest @ ..]) if !rest.is_empty() || !is_constant(offset) => {
                return Ok(PlannerResult::Planned(own(call, shift::shift("lag"))));
            }
            ("lead", [_, offset, rest @ ..]) if !rest.is_empty() || !is_constant(offset) => {
                return Ok(PlannerResult::Planned(own(call, shift::shift("lead"))));
            }
            _ => {}
        }
        let (frame, offsets) = match marked {
            Some(Expr::ScalarFunction(marker)) => parts(marker)?,
            _ if of_frame == Some(Function::NthValue) => {
                let (frame, offsets) = Frame::of_datafusion(&call.window_frame);
                let offset = |value: Option<ScalarValue>| match value {
                    Some(value) => value.cast_to(&DataType::Int64).map(lit),
                    None => Ok(lit(ScalarValue::Int64(None))),
                };
                let [from, to] = offsets;
                (frame, [offset(from)?, offset(to)?])
            }
            _ => return Ok(PlannerResult::Original(call)),
        };
        let function = match (of_frame, call.func_def) {
            (Some(function), _) => function,
            (None, WindowFunctionDefinition::AggregateUDF(function)) => Function::Aggregate(function),
            // The others do not look at the frame.
            (None, func_def) => {
                call.func_def = func_def;
                call.window_frame = WindowFrame::new((!call.order_by.is_empty()).then_some(false));
                return Ok(PlannerResult::Original(call));
            }
        };
        #[expect(deprecated, reason = "DataFusion still plans count(*) so")]
        if matches!(call.args.as_slice(), [Expr::Wildcard { .. }]) || call.args.is_empty() && name == "count" {
            call.args = vec![lit(1i64)];
        }
        let planned = Call {
            function,
            args: call.args,
            filter: call.filter.map(|filter| *filter),
            partition_by: call.partition_by,
            order_by: call.order_by,
            frame,
            offsets,
        };
        Ok(PlannerResult::Planned(planned.planned()))
    }
}

/// The frame and offsets that a marker carries.
fn parts(marker: ScalarFunction) -> Result<(Frame, [Expr; 2])> {
    let mut args = marker.args.into_iter();
    let (Some(Expr::Literal(code, _)), Some(from), Some(to)) = (args.next(), args.next(), args.next()) else {
        return plan_err!("a frame clause is incomplete");
    };
    match code.try_as_str().flatten().and_then(Frame::of_code) {
        Some(frame) => Ok((frame, [from, to])),
        None => plan_err!("a frame clause cannot be read"),
    }
}

/// The same call of another function.
fn own(call: RawWindowExpr, function: WindowUDF) -> Expr {
    Expr::WindowFunction(Box::new(WindowFunction {
        fun: WindowFunctionDefinition::WindowUDF(Arc::new(function)),
        params: WindowFunctionParams {
            args: call.args,
            partition_by: call.partition_by,
            order_by: call.order_by,
            window_frame: WindowFrame::new(None),
            filter: None,
            null_treatment: call.null_treatment,
            distinct: false,
        },
    }))
}

/// Whether an offset is a number as it stands.
fn is_constant(offset: &Expr) -> bool {
    match offset {
        Expr::Literal(value, _) => !value.is_null(),
        Expr::Cast(Cast { expr, .. }) | Expr::Negative(expr) => is_constant(expr),
        _ => false,
    }
}

/// Whether DataFusion evaluates such a frame as PostgreSQL does, if its offsets are plain numbers.
pub(crate) fn is_datafusions(frame: &Frame) -> bool {
    use super::frame::Units;
    let offsets = frame.start.has_offset() || frame.end.has_offset();
    frame.exclude == Exclude::Nothing
        && match frame.units {
            Units::Rows => frame.start != Bound::UnboundedFollowing,
            Units::Range => !offsets,
            Units::Groups => false,
        }
}
