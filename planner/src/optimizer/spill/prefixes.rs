//! Frames with offsets of RANGE and GROUPS that begin or end with their partition, and `nth_value` from a partition's beginning,
//! in plans that go through files.
//!
//! A frame that begins with its partition has all rows up to some row: the function's value over it is the one that the function
//! has over all rows up to that row, which is computed as rows go by. So the rows get these values, and each picks that of its
//! frame's last row: of few rows around it. From the other end of the partition, a frame that ends with it begins with it.
//!
//! Rows are numbered, so that rows that are equal in the window's order stay in one order through all of this.

use super::turned::{UNORDERED, up_to};
use super::windows::unnamed;
use crate::pg::functions::aggregate;
use crate::pg::functions::window::frame::{Bound, Exclude, Frame, Units};
use crate::pg::functions::window::{Call, Framed, Function};
use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_window::nth_value::{first_value_udwf, nth_value_udwf};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{Sort, WindowFunction};
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Window, WindowFrame, WindowFunctionDefinition, cast, col,
    lit, when,
};
use datafusion::optimizer::OptimizerConfig;
use std::sync::Arc;

/// The node in steps that keep few rows each; None where it has no such frames.
pub(super) fn staged(window: &Window, config: &dyn OptimizerConfig) -> Result<Option<LogicalPlan>> {
    let calls: Vec<Option<Found>> = window.window_expr.iter().map(found).collect();
    if calls.iter().all(Option::is_none) {
        return Ok(None);
    }
    let mut outputs: Vec<Expr> = window.input.schema().columns().into_iter().map(Expr::Column).collect();
    let fields = window.schema.iter().skip(outputs.len());
    let mut stages = Stages {
        config,
        rows: Arc::unwrap_or_clone(Arc::clone(&window.input)),
        numbers: Vec::new(),
    };
    let mut others = Vec::new();
    for ((expr, call), (qualifier, field)) in window.window_expr.iter().zip(calls).zip(fields) {
        outputs.push(match call {
            None => {
                others.push(expr.clone());
                Expr::Column((qualifier, field).into())
            }
            Some(call) => {
                cast(stages.value(call)?, field.data_type().clone()).alias_qualified(qualifier.cloned(), field.name())
            }
        });
    }
    let (named, plain): (Vec<Expr>, Vec<Expr>) = others.into_iter().partition(|call| matches!(call, Expr::Alias(_)));
    let mut plan = LogicalPlanBuilder::window_plan(stages.rows, plain)?;
    for call in named {
        plan = LogicalPlanBuilder::from(plan).window([call])?.build()?;
    }
    LogicalPlanBuilder::from(plan).project(outputs)?.build().map(Some)
}

/// A call whose frames begin or end with their partition, and what its rows are sorted by.
struct Found {
    call: Call,
    order: Vec<Sort>,
}

/// The call, where its rows can go by.
fn found(expr: &Expr) -> Option<Found> {
    let Expr::WindowFunction(function) = unnamed(expr) else {
        return None;
    };
    let WindowFunctionDefinition::WindowUDF(udf) = &function.fun else {
        return None;
    };
    let mut call = udf.inner().downcast_ref::<Framed>()?.call(&function.params)?;
    let frame = &mut call.frame;
    // Without an order all rows are each other's peers.
    if call.order_by.is_empty() && frame.units != Units::Rows {
        if frame.start == Bound::CurrentRow {
            frame.start = Bound::UnboundedPreceding;
        }
        if frame.end == Bound::CurrentRow {
            frame.end = Bound::UnboundedFollowing;
        }
    }
    let (begins, ends) = (
        frame.start == Bound::UnboundedPreceding,
        frame.end == Bound::UnboundedFollowing,
    );
    let goes = match &call.function {
        Function::Aggregate(function) => (begins || ends) && UNORDERED.contains(&function.name()),
        Function::FirstValue => begins,
        Function::LastValue => ends,
        Function::NthValue => begins && matches!(number(&call), Some(1..)),
    };
    let plain = call.filter.is_none() || matches!(call.function, Function::Aggregate(_));
    let order = function.params.order_by.clone();
    (goes && plain && call.frame.exclude == Exclude::Nothing).then_some(Found { call, order })
}

/// Which value `nth_value` wants.
fn number(call: &Call) -> Option<i64> {
    match call.args.as_slice() {
        [_, Expr::Literal(ScalarValue::Int64(number), _)] => *number,
        _ => None,
    }
}

/// The rows, with what is computed of them.
struct Stages<'a> {
    config: &'a dyn OptimizerConfig,
    rows: LogicalPlan,
    /// Numbers of rows: by partition and order.
    numbers: Vec<(Vec<Expr>, Vec<Sort>, String)>,
}

impl Stages<'_> {
    /// What the call gives.
    fn value(&mut self, found: Found) -> Result<Expr> {
        let number = self.number(&found)?;
        let Found { mut call, order } = found;
        let mut turned: Vec<Sort> = order.iter().map(reversed).collect();
        let mut in_order = order;
        in_order.push(col(&number).sort(true, false));
        turned.push(col(&number).sort(false, true));
        let begins = call.frame.start == Bound::UnboundedPreceding;
        let is_whole = begins && call.frame.end == Bound::UnboundedFollowing;
        let counts = matches!(&call.function, Function::Aggregate(function) if function.name() == "count");
        let value = match (&call.function, is_whole) {
            (Function::Aggregate(_), true) => self.plain(&call, Vec::new(), WindowFrame::new(None))?,
            (Function::FirstValue, true) => self.plain(&call, in_order, up_to())?,
            (Function::LastValue, true) => {
                call.function = Function::FirstValue;
                self.plain(&call, turned, up_to())?
            }
            // All rows get what the last of them has.
            (Function::NthValue, true) => {
                call.args = vec![self.plain(&call, in_order, up_to())?];
                call.function = Function::FirstValue;
                self.plain(&call, turned, up_to())?
            }
            (_, false) => {
                let mut order = in_order;
                if !begins {
                    order = turned;
                    call.order_by = call.order_by.iter().map(reversed).collect();
                    call.frame = mirrored(call.frame);
                    call.offsets.reverse();
                    if call.function == Function::LastValue {
                        call.function = Function::FirstValue;
                    }
                }
                let running = self.plain(&call, order.clone(), up_to())?;
                let by_row = call.frame.units == Units::Rows && call.frame.end == Bound::CurrentRow;
                match by_row {
                    true => running,
                    false => self.last(call, running, order)?,
                }
            }
        };
        match counts {
            true => when(value.clone().is_null(), lit(0i64)).otherwise(value),
            false => Ok(value),
        }
    }

    /// The number of each row in its partition.
    fn number(&mut self, found: &Found) -> Result<String> {
        let partition_by = &found.call.partition_by;
        let known = |(partition, order, _): &&(Vec<Expr>, Vec<Sort>, String)| {
            partition == partition_by && *order == found.order
        };
        if let Some((_, _, name)) = self.numbers.iter().find(known) {
            return Ok(name.clone());
        }
        let mut numbered = WindowFunction::new(row_number_udwf(), Vec::new());
        numbered.params.partition_by = partition_by.clone();
        numbered.params.order_by = found.order.clone();
        numbered.params.window_frame = up_to();
        let name = self.column(numbered.into())?;
        self.numbers
            .push((partition_by.clone(), found.order.clone(), name.clone()));
        Ok(name)
    }

    /// The call's function as DataFusion has it, over other frames in another order.
    fn plain(&mut self, call: &Call, order: Vec<Sort>, frame: WindowFrame) -> Result<Expr> {
        let mut args = call.args.clone();
        let function = match &call.function {
            Function::Aggregate(function) => {
                let rows = self.rows.schema();
                let fields = args.iter().map(|arg| Ok(arg.to_field(rows)?.1));
                let mut fields: Vec<FieldRef> = fields.collect::<Result<_>>()?;
                let function = aggregate::for_types(function, &mut fields);
                for (arg, field) in args.iter_mut().zip(&fields) {
                    *arg = arg.clone().cast_to(field.data_type(), rows)?;
                }
                WindowFunctionDefinition::AggregateUDF(function)
            }
            Function::NthValue => nth_value_udwf().into(),
            Function::FirstValue | Function::LastValue => first_value_udwf().into(),
        };
        let mut plain = WindowFunction::new(function, args);
        plain.params.partition_by = call.partition_by.clone();
        plain.params.order_by = order;
        plain.params.window_frame = frame;
        plain.params.filter = call.filter.clone().map(Box::new);
        self.column(plain.into()).map(col)
    }

    /// Of the values of the frame's rows, that of the last.
    fn last(&mut self, call: Call, values: Expr, order: Vec<Sort>) -> Result<Expr> {
        let picked = Call {
            function: Function::LastValue,
            args: vec![values],
            filter: None,
            ..call
        };
        let mut picked = picked.planned();
        if let Expr::WindowFunction(function) = &mut picked {
            function.params.order_by = order;
        }
        self.column(picked).map(col)
    }

    fn column(&mut self, call: Expr) -> Result<String> {
        let name = self.config.alias_generator().next("__stage");
        let rows = LogicalPlanBuilder::from(self.rows.clone());
        self.rows = rows.window([call.alias(&name)])?.build()?;
        Ok(name)
    }
}

fn reversed(key: &Sort) -> Sort {
    Sort::new(key.expr.clone(), !key.asc, !key.nulls_first)
}

/// The frame, seen from the other end of the partition.
fn mirrored(frame: Frame) -> Frame {
    let bound = |bound| match bound {
        Bound::UnboundedPreceding => Bound::UnboundedFollowing,
        Bound::Preceding => Bound::Following,
        Bound::CurrentRow => Bound::CurrentRow,
        Bound::Following => Bound::Preceding,
        Bound::UnboundedFollowing => Bound::UnboundedPreceding,
    };
    Frame {
        start: bound(frame.end),
        end: bound(frame.start),
        ..frame
    }
}
