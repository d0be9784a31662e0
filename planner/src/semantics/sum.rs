//! `sum` over int8 that fails when it leaves int8's range. Over int4 and int2 it cannot get there.

use crate::error::{SqlError, state};
use crate::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction, WindowFunctionDefinition};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, Expr, ExprSchemable, GroupsAccumulator, Signature, Volatility,
    utils::AggregateOrderSensitivity,
};
use std::sync::{Arc, LazyLock};

static SUM: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
    let signature = Signature::exact(vec![DataType::Int64], Volatility::Immutable);
    Arc::new(AggregateUDF::new_from_impl(CheckedSum { signature }))
});

fn applies(function: &AggregateUDF, args: &[Expr], distinct: bool, schema: &DFSchema) -> Result<bool> {
    let [arg] = args else { return Ok(false) };
    if distinct || function.name() != "sum" || arg.get_type(schema)? != DataType::Int64 {
        return Ok(false);
    }
    // A widened int4 would need four billion rows.
    match arg {
        Expr::Cast(cast) => Ok(!matches!(
            cast.expr.get_type(schema)?,
            DataType::Int32 | DataType::Int16 | DataType::Int8
        )),
        _ => Ok(true),
    }
}

pub(super) fn rewrite(mut call: AggregateFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if !applies(&call.func, &call.params.args, call.params.distinct, schema)? {
        return Ok(Transformed::no(Expr::AggregateFunction(call)));
    }
    call.func = SUM.clone();
    Ok(Transformed::yes(Expr::AggregateFunction(call)))
}

pub(super) fn rewrite_window(mut call: Box<WindowFunction>, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let WindowFunctionDefinition::AggregateUDF(function) = &call.fun
        && applies(function, &call.params.args, call.params.distinct, schema)?
    {
        call.fun = WindowFunctionDefinition::AggregateUDF(SUM.clone());
        return Ok(Transformed::yes(Expr::WindowFunction(call)));
    }
    Ok(Transformed::no(Expr::WindowFunction(call)))
}

fn overflow() -> datafusion::error::DataFusionError {
    to_datafusion(SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range"))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedSum {
    signature: Signature,
}

impl AggregateUDFImpl for CheckedSum {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One::default()))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups::default()))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// One group. Sums wide, so that only the result must fit.
#[derive(Debug, Default)]
struct One {
    sum: i128,
    count: u64,
}

impl One {
    fn result(&self) -> Result<ScalarValue> {
        if self.count == 0 {
            return Ok(ScalarValue::Int64(None));
        }
        i64::try_from(self.sum)
            .map(|sum| ScalarValue::Int64(Some(sum)))
            .map_err(|_| overflow())
    }
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Int64Type>();
        self.count += (values.len() - values.null_count()) as u64;
        self.sum += values.iter().flatten().map(i128::from).sum::<i128>();
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Int64Type>();
        self.count -= (values.len() - values.null_count()) as u64;
        self.sum -= values.iter().flatten().map(i128::from).sum::<i128>();
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.result()
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.result()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

/// Many groups: a sum each, and whether it has met a value.
#[derive(Debug, Default)]
struct Groups {
    sums: Vec<i64>,
    seen: Vec<bool>,
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.sums.resize(total, 0);
        self.seen.resize(total, false);
        let values = values[0].as_primitive::<Int64Type>();
        let plain = values.null_count() == 0 && filter.is_none();
        for (row, group) in groups.iter().enumerate() {
            if !plain && (values.is_null(row) || filter.is_some_and(|f| f.is_null(row) || !f.value(row))) {
                continue;
            }
            self.sums[*group] = self.sums[*group].checked_add(values.value(row)).ok_or_else(overflow)?;
            self.seen[*group] = true;
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.sums);
        let seen = emit_to.take_needed(&mut self.seen);
        Ok(Arc::new(Int64Array::new(sums.into(), Some(NullBuffer::from(seen)))))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(values, groups, None, total)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<Int64Type>();
        let nulls = match filter {
            Some(filter) => {
                let kept: NullBuffer = filter.iter().map(|keep| keep == Some(true)).collect::<Vec<_>>().into();
                NullBuffer::union(values.nulls(), Some(&kept))
            }
            None => values.nulls().cloned(),
        };
        Ok(vec![Arc::new(Int64Array::new(values.values().clone(), nulls))])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i64>() + self.seen.capacity()
    }
}
