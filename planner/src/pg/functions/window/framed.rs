//! A function of each row's frame, over any frame. The call's arguments are the function's own, the FILTER, the columns of
//! ORDER BY, and the two offsets.

use super::aggregation::{Aggregation, aggregate_of};
use super::frame::{Bound, Frame, Frames, Units};
use super::{fail, range};
use crate::pg::types::type_name;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, UInt64Array, new_empty_array};
use datafusion::arrow::compute::{SortOptions, cast, take};
use datafusion::arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    AggregateUDF, Expr, ExprSchemable, PartitionEvaluator, Signature, SortExpr, Volatility, WindowFrame,
    WindowFunctionDefinition, WindowUDF, WindowUDFImpl, lit,
};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use std::ops::Range;
use std::sync::Arc;

/// What is computed of a frame.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Function {
    Aggregate(Arc<AggregateUDF>),
    FirstValue,
    LastValue,
    NthValue,
}

/// The parts of a call.
pub(crate) struct Call {
    pub function: Function,
    pub args: Vec<Expr>,
    pub filter: Option<Expr>,
    pub partition_by: Vec<Expr>,
    pub order_by: Vec<SortExpr>,
    pub frame: Frame,
    pub offsets: [Expr; 2],
}

impl Call {
    pub fn planned(self) -> Expr {
        let options = self
            .order_by
            .iter()
            .map(|key| SortOptions::new(!key.asc, key.nulls_first));
        let name = match &self.function {
            Function::Aggregate(function) => function.name(),
            Function::FirstValue => "first_value",
            Function::LastValue => "last_value",
            Function::NthValue => "nth_value",
        };
        let framed = Framed {
            name: format!("{name} [{}]", self.frame.code()),
            function: self.function,
            frame: self.frame,
            arguments: self.args.len(),
            order: options.collect(),
            signature: Signature::user_defined(Volatility::Immutable),
        };
        let mut args = self.args;
        args.push(self.filter.unwrap_or_else(|| lit(true)));
        args.extend(self.order_by.iter().map(|key| key.expr.clone()));
        args.extend(self.offsets);
        Expr::WindowFunction(Box::new(WindowFunction {
            fun: WindowFunctionDefinition::WindowUDF(Arc::new(WindowUDF::new_from_impl(framed))),
            params: WindowFunctionParams {
                args,
                partition_by: self.partition_by,
                order_by: self.order_by,
                window_frame: WindowFrame::new(None),
                filter: None,
                null_treatment: None,
                distinct: false,
            },
        }))
    }
}

/// A coerced window aggregate whose frame moves away from rows that the aggregate cannot forget again, or not exactly.
pub(crate) fn lower(call: Box<WindowFunction>, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let WindowFunctionDefinition::AggregateUDF(function) = &call.fun else {
        return Ok(Transformed::no(Expr::WindowFunction(call)));
    };
    let (frame, offsets) = Frame::of_datafusion(&call.params.window_frame);
    let forgets = match (function.name(), call.params.args.as_slice()) {
        ("count", _) => true,
        ("min" | "max", _) => true,
        ("sum" | "avg", [arg]) => {
            let data_type = arg.get_type(schema)?;
            data_type.is_integer() || data_type.is_decimal()
        }
        _ => false,
    };
    if frame.start == Bound::UnboundedPreceding || forgets || call.params.distinct {
        return Ok(Transformed::no(Expr::WindowFunction(call)));
    }
    let given = |offset: Option<ScalarValue>| -> Result<Expr> {
        Ok(match offset {
            None => lit(ScalarValue::Int64(None)),
            Some(offset) if frame.units == Units::Range => lit(offset),
            Some(offset) => lit(offset.cast_to(&DataType::Int64)?),
        })
    };
    let [from, to] = offsets;
    let offsets = [given(from)?, given(to)?];
    let params = call.params;
    let planned = Call {
        function: Function::Aggregate(Arc::clone(function)),
        args: params.args,
        filter: params.filter.map(|filter| *filter),
        partition_by: params.partition_by,
        order_by: params.order_by,
        frame,
        offsets,
    };
    Ok(Transformed::yes(planned.planned()))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Framed {
    name: String,
    function: Function,
    frame: Frame,
    /// How many arguments are the function's own.
    arguments: usize,
    order: Vec<SortOptions>,
    signature: Signature,
}

impl Framed {
    fn own<'a, T>(&self, all: &'a [T]) -> &'a [T] {
        &all[..self.arguments.min(all.len())]
    }

    /// Whether no row depends on all those before it, or after.
    pub fn moves(&self) -> bool {
        let begins = self.frame.start == Bound::UnboundedPreceding;
        let ends = self.frame.end == Bound::UnboundedFollowing;
        match self.function {
            Function::Aggregate(_) => !begins && !ends,
            // It depends on the one row that it picks, and that moves with the other end of the frame.
            Function::FirstValue | Function::NthValue => !begins,
            Function::LastValue => !ends,
        }
    }

    /// For each of some rows of a partition, those on which its value depends.
    pub fn extents(&self, values: &[ArrayRef], rows: usize) -> Result<Vec<Range<usize>>> {
        let own = self.own(values);
        let frames = frames(self.frame, &values[own.len()..], &self.order, rows)?;
        let extent = |row: usize| {
            let whole = frames.extent(row);
            Ok(match (&self.function, self.picked(own, &frames, row)?) {
                (Function::Aggregate(_), _) | (_, None) => whole,
                (Function::FirstValue | Function::NthValue, Some(picked)) => {
                    whole.start..frames.around(row, picked..picked + 1).end
                }
                (Function::LastValue, Some(picked)) if self.frame.start == Bound::UnboundedPreceding => {
                    frames.around(row, picked..picked + 1).start..whole.end
                }
                (Function::LastValue, Some(_)) => whole,
            })
        };
        (0..rows).map(extent).collect()
    }

    /// The row whose value the function gives; None where there is none.
    fn picked(&self, own: &[ArrayRef], frames: &Frames, row: usize) -> Result<Option<usize>> {
        match self.function {
            Function::Aggregate(_) => Ok(None),
            _ => picked(&self.function, own, frames, row),
        }
    }

    /// What a call of the function was planned of. Its rows may be sorted by something else that gives the same order.
    pub fn call(&self, params: &WindowFunctionParams) -> Option<Call> {
        let (own, rest) = params.args.split_at_checked(self.arguments)?;
        let [filter, keys @ .., from, to] = rest else {
            return None;
        };
        let all = *filter == lit(true);
        let keys = keys.iter().zip(&self.order);
        Some(Call {
            function: self.function.clone(),
            args: own.to_vec(),
            filter: (!all).then(|| filter.clone()),
            partition_by: params.partition_by.clone(),
            order_by: keys
                .map(|(key, options)| key.clone().sort(!options.descending, options.nulls_first))
                .collect(),
            frame: self.frame,
            offsets: [from.clone(), to.clone()],
        })
    }
}

impl WindowUDFImpl for Framed {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let own = self.own(types);
        let mut coerced: Vec<DataType> = match &self.function {
            Function::Aggregate(function) => {
                let field = |data_type: &DataType| {
                    Arc::new(datafusion::arrow::datatypes::Field::new("", data_type.clone(), true))
                };
                let fields: Vec<FieldRef> = own.iter().map(field).collect();
                let fields = fields_with_udf(&fields, function.as_ref())?;
                fields.iter().map(|field| field.data_type().clone()).collect()
            }
            Function::NthValue => match own {
                [value, number] if number.is_integer() || number.is_null() => vec![value.clone(), DataType::Int64],
                _ => return plan_err!("No function matches the given name and argument types 'nth_value'"),
            },
            _ => own.to_vec(),
        };
        coerced.push(DataType::Boolean);
        let keys = &types[coerced.len()..types.len() - 2];
        coerced.extend(keys.iter().cloned());
        for (bound, offset) in [self.frame.start, self.frame.end].iter().zip(&types[types.len() - 2..]) {
            coerced.push(match (bound.has_offset(), self.frame.units, keys) {
                (false, ..) => offset.clone(),
                (true, Units::Range, [key]) => range::offset_type(key, offset).ok_or_else(|| {
                    let message = match range::offset_type(key, &DataType::Null) {
                        None => format!(
                            "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {}",
                            type_name(key)
                        ),
                        Some(_) => format!(
                            "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {} and offset type {}",
                            type_name(key),
                            type_name(offset)
                        ),
                    };
                    fail("0A000", message)
                })?,
                _ => match offset {
                    offset if offset.is_integer() || offset.is_null() => DataType::Int64,
                    DataType::Utf8 | DataType::Utf8View => DataType::Int64,
                    other => {
                        let units = format!("{:?}", self.frame.units).to_uppercase();
                        let message = format!("argument of {units} must be type bigint, not type {}", type_name(other));
                        return Err(fail("42804", message));
                    }
                },
            });
        }
        Ok(coerced)
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let fields = self.own(args.input_fields());
        let field = match (&self.function, fields) {
            (Function::Aggregate(function), fields) => function.return_field(fields)?,
            (_, [value, ..]) => Arc::clone(value),
            _ => return plan_err!("{} has no argument", self.name),
        };
        Ok(Arc::new(
            field.as_ref().clone().with_name(args.name()).with_nullable(true),
        ))
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        let result = self.field(WindowUDFFieldArgs::new(args.input_fields(), &self.name))?;
        let aggregate = match &self.function {
            Function::Aggregate(function) => Some(aggregate_of(
                function,
                self.own(args.input_exprs()),
                self.own(args.input_fields()),
            )?),
            _ => None,
        };
        Ok(Box::new(Evaluator {
            function: self.function.clone(),
            frame: self.frame,
            arguments: self.arguments,
            order: self.order.clone(),
            result: result.data_type().clone(),
            aggregate,
        }))
    }
}

#[derive(Debug)]
struct Evaluator {
    function: Function,
    frame: Frame,
    arguments: usize,
    order: Vec<SortOptions>,
    result: DataType,
    aggregate: Option<(AggregateFunctionExpr, Vec<DataType>)>,
}

impl PartitionEvaluator for Evaluator {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        if rows == 0 {
            return Ok(new_empty_array(&self.result));
        }
        let (own, rest) = values.split_at(self.arguments);
        let frames = frames(self.frame, rest, &self.order, rows)?;
        match &self.aggregate {
            Some((aggregate, types)) => {
                let columns = own.iter().zip(types);
                let columns = columns
                    .map(|(values, wanted)| Ok(cast(values, wanted)?))
                    .collect::<Result<Vec<_>>>()?;
                Aggregation::new(aggregate, columns, rest[0].as_boolean(), rows)?.results(&frames, &self.result)
            }
            None => self.picked(own, &frames, rows),
        }
    }
}

/// The frames of some rows of a partition. `values` are those of a call's arguments that are not the function's own.
fn frames(frame: Frame, values: &[ArrayRef], order: &[SortOptions], rows: usize) -> Result<Frames> {
    match values {
        [_, keys @ .., from, to] => Frames::new(frame, rows, (keys, order), [from, to]),
        _ => plan_err!("a window call lacks its frame"),
    }
}

impl Evaluator {
    /// The first, last or n-th value of each frame.
    fn picked(&self, own: &[ArrayRef], frames: &Frames, rows: usize) -> Result<ArrayRef> {
        let places = (0..rows).map(|row| picked(&self.function, own, frames, row));
        let places = places.map(|place| Ok(place?.map(|place| place as u64)));
        let places: Vec<Option<u64>> = places.collect::<Result<_>>()?;
        Ok(take(&own[0], &UInt64Array::from(places), None)?)
    }
}

/// The first, last or n-th row of a row's frame.
fn picked(function: &Function, own: &[ArrayRef], frames: &Frames, row: usize) -> Result<Option<usize>> {
    let parts = frames.parts(row);
    let nth = match function {
        Function::NthValue => {
            let numbers = own[1].as_primitive::<Int64Type>();
            match numbers.is_valid(row).then(|| numbers.value(row)) {
                Some(number) if number > 0 => Some(number as usize - 1),
                Some(_) => return Err(fail("22016", "argument of nth_value must be greater than zero")),
                None => None,
            }
        }
        Function::LastValue => parts.iter().map(Range::len).sum::<usize>().checked_sub(1),
        _ => Some(0),
    };
    Ok(nth.and_then(|nth| nth_of(&parts, nth)))
}

fn nth_of(parts: &[Range<usize>], mut nth: usize) -> Option<usize> {
    for part in parts {
        if nth < part.len() {
            return Some(part.start + nth);
        }
        nth -= part.len();
    }
    None
}
