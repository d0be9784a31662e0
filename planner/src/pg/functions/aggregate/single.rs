//! A scalar subquery's only row. As an aggregate, so that correlated subqueries become joins: `single_row(x)` keeps a
//! value and counts, and `only_row` of that gives the value or fails with 21000, in the rows that ask for it.

use super::collect::{GroupedRows, Order};
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BooleanArray, Int64Array, StructArray, UInt32Array, make_array,
};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Int64Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, EmitTo, Expr, GroupsAccumulator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::slice;
use std::sync::{Arc, LazyLock};
use tenon_storage::EnumType;

pub(crate) static SINGLE_ROW: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
    Arc::new(AggregateUDF::new_from_impl(SingleRow {
        signature: Signature::any(1, Volatility::Immutable),
    }))
});

pub(crate) static ONLY_ROW: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(ScalarUDF::new_from_impl(OnlyRow {
        signature: Signature::any(1, Volatility::Immutable),
    }))
});

/// The value of an uncorrelated scalar subquery: NULL where it has no row, whatever its column says, and of the column's
/// declared type, which the subquery's own expression does not carry into the physical plan.
pub(crate) fn or_null(subquery: Expr, field: &Field) -> Expr {
    let function = OrNull {
        field: field.clone().with_nullable(true),
        signature: Signature::any(1, Volatility::Immutable),
    };
    Arc::new(ScalarUDF::new_from_impl(function)).call(vec![subquery])
}

/// The value of a scalar subquery's query as it is held until it is asked for, where its own type will not do: what runs the
/// subquery writes the value into names, and no name can be written of enums within lists and records. `or_null` makes it
/// what it was.
pub(crate) fn held(value: Expr, of: &DataType) -> Option<Expr> {
    let function = Held {
        to: unmarked(of, false)?,
        signature: Signature::any(1, Volatility::Immutable),
    };
    Some(Arc::new(ScalarUDF::new_from_impl(function)).call(vec![value]))
}

/// The type with numbers for the enums that are within others; None where there are none.
fn unmarked(of: &DataType, within: bool) -> Option<DataType> {
    let item = |field: &FieldRef| {
        let of = unmarked(field.data_type(), true)?;
        Some(Arc::new(field.as_ref().clone().with_data_type(of)))
    };
    match of {
        _ if EnumType::of(of).is_some() => within.then_some(DataType::Int64),
        DataType::List(field) => item(field).map(DataType::List),
        DataType::Struct(fields) => {
            let some = fields.iter().any(|field| item(field).is_some());
            let fields = fields.iter().map(|field| item(field).unwrap_or_else(|| field.clone()));
            some.then(|| DataType::Struct(fields.collect()))
        }
        _ => None,
    }
}

/// The same bytes under another type.
fn retyped(values: &ColumnarValue, to: &DataType) -> Result<ColumnarValue> {
    fn data(of: ArrayData, to: &DataType) -> Result<ArrayData> {
        let children = of.child_data().iter().cloned();
        let children = match to {
            DataType::List(item) => children.map(|child| data(child, item.data_type())).collect(),
            DataType::Struct(fields) => children
                .zip(fields)
                .map(|(child, field)| data(child, field.data_type()))
                .collect(),
            _ => children.map(Ok).collect::<Result<Vec<_>>>(),
        };
        let made = of.into_builder().data_type(to.clone()).child_data(children?);
        Ok(made.build()?)
    }
    let array = values.to_array(1)?;
    let array = make_array(data(array.to_data(), to)?);
    Ok(match values {
        ColumnarValue::Array(_) => ColumnarValue::Array(array),
        ColumnarValue::Scalar(_) => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Held {
    to: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Held {
    fn name(&self) -> &str {
        "held"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        retyped(&args.args[0], &self.to)
    }
}

fn kept(value: &Field) -> Fields {
    let value = value.clone().with_name("value").with_nullable(true);
    vec![Field::new("rows", DataType::Int64, false), value].into()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleRow {
    signature: Signature,
}

impl AggregateUDFImpl for SingleRow {
    fn name(&self) -> &str {
        "single_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Struct(kept(&Field::new("value", types[0].clone(), true))))
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(
            self.name(),
            DataType::Struct(kept(&fields[0])),
            true,
        )))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let value = args.input_fields[0].as_ref().clone();
        Ok(vec![
            Arc::new(Field::new(format_state_name(args.name, "rows"), DataType::Int64, true)),
            Arc::new(
                value
                    .with_name(format_state_name(args.name, "value"))
                    .with_nullable(true),
            ),
        ])
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let field = args.expr_fields[0].clone();
        Ok(Box::new(Singles {
            rows: vec![],
            firsts: GroupedRows::new(vec![field.data_type().clone()], Order::default()),
            field,
        }))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let field = args.expr_fields[0].clone();
        Ok(Box::new(Single {
            rows: 0,
            value: ScalarValue::try_from(field.data_type())?,
            field,
        }))
    }
}

#[derive(Debug)]
struct Single {
    rows: i64,
    value: ScalarValue,
    field: FieldRef,
}

impl Accumulator for Single {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if self.rows == 0 && !values[0].is_empty() {
            self.value = ScalarValue::try_from_array(&values[0], 0)?;
        }
        self.rows += values[0].len() as i64;
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![self.rows])), self.value.to_array()?];
        let kept = StructArray::try_new(kept(&self.field), columns, None)?;
        Ok(ScalarValue::Struct(Arc::new(kept)))
    }

    fn size(&self) -> usize {
        size_of_val(self) - size_of_val(&self.value) + self.value.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Int64(Some(self.rows)), self.value.clone()])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for (at, rows) in states[0].as_primitive::<Int64Type>().iter().enumerate() {
            let rows = rows.unwrap_or(0);
            if self.rows == 0 && rows > 0 {
                self.value = ScalarValue::try_from_array(&states[1], at)?;
            }
            self.rows += rows;
        }
        Ok(())
    }
}

fn counts(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

/// The same of all groups.
struct Singles {
    rows: Vec<i64>,
    /// The first row of each group.
    firsts: GroupedRows,
    field: FieldRef,
}

impl Singles {
    fn add(&mut self, values: &ArrayRef, groups: &[usize], rows: impl Fn(usize) -> i64, total: usize) -> Result<()> {
        self.rows.resize(total.max(self.rows.len()), 0);
        let mut firsts = Vec::new();
        for (row, group) in groups.iter().enumerate() {
            let known = &mut self.rows[*group];
            let own = rows(row);
            if *known == 0 && own > 0 {
                firsts.push((*group as u32, row as u32));
            }
            *known += own;
        }
        self.firsts.add_picked(slice::from_ref(values), firsts, total)
    }

    /// The counts and the values, NULL of groups without rows.
    fn take(&mut self, emit_to: EmitTo) -> Result<(Int64Array, ArrayRef)> {
        let rows = emit_to.take_needed(&mut self.rows);
        let firsts = self.firsts.gather(rows.len(), false)?;
        match emit_to {
            EmitTo::All => self.firsts.clear(),
            EmitTo::First(groups) => self.firsts.forget(groups)?,
        }
        let value = match firsts.columns[0].len() == rows.len() {
            true => firsts.columns[0].clone(),
            false => {
                let places = firsts
                    .offsets
                    .windows(2)
                    .map(|ends| (ends[0] < ends[1]).then_some(ends[0] as u32));
                take(&firsts.columns[0], &places.collect::<UInt32Array>(), None)?
            }
        };
        Ok((rows.into(), value))
    }
}

impl GroupsAccumulator for Singles {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.add(&values[0], groups, |row| i64::from(counts(filter, row)), total)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        let rows = states[0].as_primitive::<Int64Type>();
        let counts = |row| if rows.is_valid(row) { rows.value(row) } else { 0 };
        self.add(&states[1], groups, counts, total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (rows, value) = self.take(emit_to)?;
        let kept = StructArray::try_new(kept(&self.field), vec![Arc::new(rows), value], None)?;
        Ok(Arc::new(kept))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (rows, value) = self.take(emit_to)?;
        Ok(vec![Arc::new(rows), value])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let counts = (0..values[0].len()).map(|row| i64::from(counts(filter, row)));
        Ok(vec![Arc::new(Int64Array::from_iter_values(counts)), values[0].clone()])
    }

    fn size(&self) -> usize {
        self.rows.capacity() * size_of::<i64>() + self.firsts.bytes()
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OnlyRow {
    signature: Signature,
}

impl ScalarUDFImpl for OnlyRow {
    fn name(&self) -> &str {
        "only_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match &types[0] {
            DataType::Struct(fields) if fields.len() == 2 => Ok(fields[1].data_type().clone()),
            other => plan_err!("only_row does not take {other}"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields[0].data_type() {
            DataType::Struct(fields) if fields.len() == 2 => Ok(Arc::new(
                fields[1].as_ref().clone().with_name(self.name()).with_nullable(true),
            )),
            other => plan_err!("only_row does not take {other}"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let kept = args.args[0].to_array(args.number_rows)?;
        let kept = kept.as_struct();
        let rows = kept.column(0).as_primitive::<Int64Type>();
        if (0..rows.len()).any(|row| kept.is_valid(row) && rows.is_valid(row) && rows.value(row) > 1) {
            return Err(to_datafusion(SqlError::new(
                state::CARDINALITY_VIOLATION,
                "more than one row returned by a subquery used as an expression",
            )));
        }
        Ok(ColumnarValue::Array(kept.column(1).clone()))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrNull {
    field: Field,
    signature: Signature,
}

impl ScalarUDFImpl for OrNull {
    fn name(&self) -> &str {
        "or_null"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(self.field.clone()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args[0].data_type() == *self.field.data_type() {
            true => Ok(args.args[0].clone()),
            false => retyped(&args.args[0], self.field.data_type()),
        }
    }
}
