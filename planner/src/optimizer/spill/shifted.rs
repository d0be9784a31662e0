//! `lag` and `lead` by a number and with a default, in plans that go through files.
//!
//! DataFusion's functions take the row from those that go by, but know no default that is an expression. Whether there is a row at
//! that distance is what the same function says of a constant.

use crate::pg::functions::window::direction;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_window::lead_lag::{lag_udwf, lead_udwf};
use datafusion::logical_expr::expr::{NullTreatment, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{Expr, WindowFrame, WindowFunctionDefinition, lit, when};

/// Such a call.
pub(super) struct Shifted {
    forward: bool,
    distance: i64,
    value: Expr,
    default: Option<Expr>,
    params: WindowFunctionParams,
}

impl Shifted {
    /// None where it is none of these.
    pub fn of(function: &WindowFunction) -> Option<Self> {
        let params = &function.params;
        let WindowFunctionDefinition::WindowUDF(udf) = &function.fun else {
            return None;
        };
        let forward = direction(udf)?;
        let [value, Expr::Literal(ScalarValue::Int64(Some(distance)), _), rest @ ..] = params.args.as_slice() else {
            return None;
        };
        if params.null_treatment == Some(NullTreatment::IgnoreNulls) {
            return None;
        }
        Some(Self {
            forward: forward == (*distance >= 0),
            distance: distance.checked_abs()?,
            value: value.clone(),
            default: rest.first().cloned(),
            params: WindowFunctionParams {
                args: Vec::new(),
                window_frame: WindowFrame::new((!params.order_by.is_empty()).then_some(false)),
                ..params.clone()
            },
        })
    }

    /// A value of the row at that distance; NULL where there is none.
    fn at_distance(&self, value: Expr) -> Expr {
        let fun = match self.forward {
            true => lead_udwf(),
            false => lag_udwf(),
        };
        let params = WindowFunctionParams {
            args: vec![value, lit(self.distance)],
            ..self.params.clone()
        };
        WindowFunction {
            fun: fun.into(),
            params,
        }
        .into()
    }

    /// Its value, of the columns that such calls become.
    pub fn value(&self, mut column: impl FnMut(Expr) -> Expr) -> Result<Expr> {
        if self.distance == 0 {
            return Ok(self.value.clone());
        }
        let value = column(self.at_distance(self.value.clone()));
        match &self.default {
            None => Ok(value),
            Some(default) => {
                let is_there = column(self.at_distance(lit(true))).is_not_null();
                when(is_there, value).otherwise(default.clone())
            }
        }
    }
}
