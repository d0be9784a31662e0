//! Which window functions have a device form, and what they are there.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::functions_window::lead_lag::WindowShift;
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr,
};
use datafusion::physical_plan::windows::WindowUDFExpr;

use crate::codegen::Translated;

pub enum Function {
    /// A number of the row, its peers or its partition.
    Number(Number),
    /// A value of the row so many places further on.
    Shifted {
        value: PhysicalExprRef,
        by: By,
        default: Option<PhysicalExprRef>,
    },
    /// The value of a frame's first row, or its last.
    Edge {
        value: PhysicalExprRef,
        last: bool,
        frame: Frame,
    },
    Aggregate(Arc<AggregateFunctionExpr>, Frame),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Number {
    Row,
    Rank,
    DenseRank,
    /// Of the rows before the row's peers, among all others.
    PercentRank,
    /// Of the rows up to the row's last peer, among all.
    CumeDist,
}

/// How many places further on.
pub enum By {
    Constant(i64),
    /// As the row says, or back by as many.
    Row(PhysicalExprRef, Way),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Forward,
    Back,
}

/// Which rows a frame is of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    pub start: Bound,
    pub end: Bound,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The partition's first row, and its last.
    First,
    Last,
    /// So many rows from the row at hand.
    Row(i64),
    /// The first peer of the row at hand, or the last.
    Peer,
}

/// No table has so many rows.
const BEYOND: i64 = 1 << 40;

impl Function {
    pub fn of(expr: &Arc<dyn WindowExpr>) -> Translated<Self> {
        let own = expr.as_any();
        let frame = || Frame::of(expr.get_window_frame());
        if let Some(standard) = own.downcast_ref::<StandardWindowExpr>() {
            return Self::standard(expr, standard);
        }
        let aggregate = match (
            own.downcast_ref::<PlainAggregateWindowExpr>(),
            own.downcast_ref::<SlidingAggregateWindowExpr>(),
        ) {
            (Some(plain), _) => plain.get_aggregate_expr(),
            (_, Some(sliding)) => sliding.get_aggregate_expr(),
            _ => return Err(refused(expr)),
        };
        // Nothing else says so.
        if !format!("{expr:?}").ends_with("filter: None }") {
            return Err(format!("a FILTER of {}", expr.name()));
        }
        Ok(Self::Aggregate(Arc::new(aggregate.clone()), frame()?))
    }

    fn standard(expr: &Arc<dyn WindowExpr>, standard: &StandardWindowExpr) -> Translated<Self> {
        let function = standard.get_standard_func_expr();
        let udf = function.as_any().downcast_ref::<WindowUDFExpr>();
        let udf = udf.ok_or_else(|| refused(expr))?;
        // Nothing else says so.
        if format!("{udf:?}").contains("ignore_nulls: true") {
            return Err(refused(expr));
        }
        let args = udf.args();
        let edge = |last| match args {
            [value] => Ok(Self::Edge {
                value: Arc::clone(value),
                last,
                frame: Frame::of(expr.get_window_frame())?,
            }),
            _ => Err(refused(expr)),
        };
        let way = |name| if name == "lead" { Way::Forward } else { Way::Back };
        match (udf.fun().name(), args) {
            ("row_number", _) => Ok(Self::Number(Number::Row)),
            ("rank", _) => Ok(Self::Number(Number::Rank)),
            ("dense_rank", _) => Ok(Self::Number(Number::DenseRank)),
            ("percent_rank", _) => Ok(Self::Number(Number::PercentRank)),
            ("cume_dist", _) => Ok(Self::Number(Number::CumeDist)),
            ("first_value", _) => edge(false),
            ("last_value", _) => edge(true),
            ("lag" | "lead", [value, ..]) if udf.fun().inner().downcast_ref::<WindowShift>().is_some() => {
                if args.len() > 2 {
                    return Err(refused(expr));
                }
                // The evaluator knows by how many, and whether rows come in the opposite order.
                let row = BEYOND as usize;
                let told = |error: DataFusionError| error.to_string();
                let mut shift = function.create_evaluator().map_err(told)?;
                let reads = shift.get_range(row, 2 * row).map_err(told)?;
                let by = match (row - reads.start, reads.end as i64 - row as i64) {
                    // By one or by none: which, the first of two rows tells.
                    (0, 1) => {
                        let rows: ArrayRef = Arc::new(Int64Array::from(vec![0, 1]));
                        match shift.evaluate(&[rows], &(0..1)).map_err(told)? {
                            ScalarValue::Int64(Some(by)) => by,
                            _ => return Err(refused(expr)),
                        }
                    }
                    (0, ahead) => ahead,
                    (back, _) => -(back as i64),
                };
                Ok(Self::Shifted {
                    value: Arc::clone(value),
                    by: By::Constant(by),
                    default: None,
                })
            }
            (name @ ("lag" | "lead"), [value, by, rest @ ..]) => Ok(Self::Shifted {
                value: Arc::clone(value),
                by: By::Row(Arc::clone(by), way(name)),
                default: rest.first().cloned(),
            }),
            _ => Err(refused(expr)),
        }
    }

    /// Whether it tells peers apart.
    pub fn depends_on_row(&self) -> bool {
        match self {
            Self::Number(number) => *number == Number::Row,
            Self::Shifted { .. } | Self::Edge { .. } => true,
            Self::Aggregate(_, frame) => [frame.start, frame.end].iter().any(|end| matches!(end, Bound::Row(_))),
        }
    }

    /// Whether it asks which rows are peers.
    pub fn asks_for_peers(&self) -> bool {
        match self {
            Self::Number(number) => *number != Number::Row,
            Self::Shifted { .. } => false,
            Self::Edge { frame, .. } | Self::Aggregate(_, frame) => [frame.start, frame.end].contains(&Bound::Peer),
        }
    }
}

fn refused(expr: &Arc<dyn WindowExpr>) -> String {
    format!("no device form of the window function {}", expr.name())
}

impl Frame {
    fn of(frame: &WindowFrame) -> Translated<Self> {
        Ok(Self {
            start: bound(frame, &frame.start_bound)?,
            end: bound(frame, &frame.end_bound)?,
        })
    }
}

fn bound(frame: &WindowFrame, bound: &WindowFrameBound) -> Translated<Bound> {
    let rows = frame.units == WindowFrameUnits::Rows;
    let (offset, preceding) = match bound {
        WindowFrameBound::CurrentRow if rows => return Ok(Bound::Row(0)),
        WindowFrameBound::CurrentRow => return Ok(Bound::Peer),
        WindowFrameBound::Preceding(offset) if offset.is_null() => return Ok(Bound::First),
        WindowFrameBound::Following(offset) if offset.is_null() => return Ok(Bound::Last),
        WindowFrameBound::Preceding(offset) => (offset, true),
        WindowFrameBound::Following(offset) => (offset, false),
    };
    if !rows {
        return Err(format!("a frame of {} with an offset", frame.units));
    }
    let offset: Option<i64> = offset
        .cast_to(&arrow::datatypes::DataType::Int64)
        .ok()
        .and_then(|offset| i64::try_from(offset).ok());
    let offset = offset.ok_or("a frame whose offset is no number")?.clamp(0, BEYOND);
    Ok(Bound::Row(if preceding { -offset } else { offset }))
}
