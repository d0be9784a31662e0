//! Variances, covariances, correlation and regression, reckoned as PostgreSQL reckons them: of floats by the sums of Youngs
//! and Cramer (`float`), of integers and numerics exactly (`exact`).

mod exact;
mod float;

use super::fail_out_of_range;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use std::collections::HashSet;
use std::sync::Arc;

/// What is made of the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Moment {
    VarPop,
    VarSamp,
    StddevPop,
    StddevSamp,
    CovarPop,
    CovarSamp,
    Corr,
    Count,
    AvgX,
    AvgY,
    Sxx,
    Syy,
    Sxy,
    R2,
    Slope,
    Intercept,
}

pub(super) fn functions() -> Vec<AggregateUDF> {
    use Moment::*;
    let all = [
        ("var_pop", VarPop),
        ("var_samp", VarSamp),
        ("variance", VarSamp),
        ("stddev_pop", StddevPop),
        ("stddev_samp", StddevSamp),
        ("stddev", StddevSamp),
        ("covar_pop", CovarPop),
        ("covar_samp", CovarSamp),
        ("corr", Corr),
        ("regr_count", Count),
        ("regr_avgx", AvgX),
        ("regr_avgy", AvgY),
        ("regr_sxx", Sxx),
        ("regr_syy", Syy),
        ("regr_sxy", Sxy),
        ("regr_r2", R2),
        ("regr_slope", Slope),
        ("regr_intercept", Intercept),
    ];
    let function = |(name, moment)| {
        AggregateUDF::new_from_impl(Moments {
            name,
            moment,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    };
    all.into_iter().map(function).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Moments {
    name: &'static str,
    moment: Moment,
    signature: Signature,
}

impl Moment {
    fn is_of_one(self) -> bool {
        use Moment::*;
        matches!(self, VarPop | VarSamp | StddevPop | StddevSamp)
    }
}

impl Moments {
    fn groups(&self, args: &AccumulatorArgs) -> Groups {
        Groups {
            sums: Sums::new(args.expr_fields[0].data_type()),
            moment: self.moment,
            result: args.return_field.data_type().clone(),
        }
    }
}

impl AggregateUDFImpl for Moments {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let wrong = || plan_err!("No function matches the given name and argument types '{}'", self.name);
        let is_number = |data_type: &DataType| {
            data_type.is_numeric() || data_type.is_null() || matches!(data_type, DataType::Utf8 | DataType::Utf8View)
        };
        if !types.iter().all(is_number) {
            return wrong();
        }
        match (self.moment.is_of_one(), types) {
            (true, [one]) => Ok(vec![exact::input_type(one).unwrap_or(DataType::Float64)]),
            (false, [_, _]) => Ok(vec![DataType::Float64; 2]),
            _ => wrong(),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match (self.moment, &types[0]) {
            (Moment::Count, _) => DataType::Int64,
            (_, DataType::Float64) => DataType::Float64,
            (moment, exact) => exact::result_type(moment, exact),
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let of = args.input_fields[0].data_type();
        let types = match args.is_distinct {
            true => vec![DataType::new_list(of.clone(), true)],
            false => Sums::new(of).state_types(),
        };
        let named = types.into_iter().enumerate();
        let field = |(at, data_type)| {
            let name = format_state_name(args.name, &format!("sum{at}"));
            Arc::new(Field::new(name, data_type, true))
        };
        Ok(named.map(field).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct && !self.moment.is_of_one() {
            return plan_err!("DISTINCT is not supported for aggregates of two arguments");
        }
        Ok(match args.is_distinct {
            true => Box::new(Distinct {
                groups: self.groups(&args),
                values: HashSet::new(),
                data_type: args.expr_fields[0].data_type().clone(),
            }),
            false => Box::new(One(self.groups(&args))),
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(self.groups(&args)))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// The sums of each group.
#[derive(Debug)]
enum Sums {
    Float(Vec<float::Sums>),
    Exact(i8, Vec<exact::Sums>),
}

impl Sums {
    fn new(data_type: &DataType) -> Self {
        match exact::scale(data_type) {
            Some(scale) => Sums::Exact(scale, Vec::new()),
            None => Sums::Float(Vec::new()),
        }
    }

    fn empty(&self) -> Self {
        match self {
            Sums::Float(_) => Sums::Float(Vec::new()),
            Sums::Exact(scale, _) => Sums::Exact(*scale, Vec::new()),
        }
    }

    fn state_types(&self) -> Vec<DataType> {
        match self {
            Sums::Float(_) => vec![DataType::Float64; 6],
            Sums::Exact(scale, _) => exact::state_types(*scale),
        }
    }

    fn resize(&mut self, groups: usize) {
        match self {
            Sums::Float(sums) => sums.resize(groups.max(sums.len()), float::Sums::default()),
            Sums::Exact(_, sums) => sums.resize(groups.max(sums.len()), exact::Sums::default()),
        }
    }

    /// Takes out the first groups, or all.
    fn emit(&mut self, emit_to: EmitTo) -> Sums {
        match self {
            Sums::Float(sums) => Sums::Float(emit_to.take_needed(sums)),
            Sums::Exact(scale, sums) => Sums::Exact(*scale, emit_to.take_needed(sums)),
        }
    }

    fn state(&self) -> Vec<ArrayRef> {
        match self {
            Sums::Float(sums) => float::state(sums),
            Sums::Exact(scale, sums) => exact::state(*scale, sums),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Sums::Float(sums) => sums.capacity() * size_of::<float::Sums>(),
            Sums::Exact(_, sums) => sums.capacity() * size_of::<exact::Sums>(),
        }
    }
}

#[derive(Debug)]
struct Groups {
    sums: Sums,
    moment: Moment,
    result: DataType,
}

impl Groups {
    fn add(&mut self, values: &[ArrayRef], group: impl Fn(usize) -> Option<usize>) -> Result<()> {
        match &mut self.sums {
            Sums::Float(sums) => float::add(sums, values, group),
            Sums::Exact(_, sums) => exact::add(sums, &values[0], group),
        }
    }

    fn combine(&mut self, states: &[ArrayRef], group: impl Fn(usize) -> usize) -> Result<()> {
        match &mut self.sums {
            Sums::Float(sums) => float::combine(sums, states, group),
            Sums::Exact(_, sums) => exact::combine(sums, states, group),
        }
    }

    fn results(&self, sums: &Sums) -> Result<ArrayRef> {
        match sums {
            Sums::Float(sums) => Ok(float::results(sums, self.moment)),
            Sums::Exact(scale, sums) => exact::results(sums, *scale, self.moment, &self.result),
        }
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.sums.resize(total);
        let admits = |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        self.add(values, |row| admits(row).then(|| groups[row]))
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.sums.resize(total);
        self.combine(states, |row| groups[row])
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = self.sums.emit(emit_to);
        self.results(&sums)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(self.sums.emit(emit_to).state())
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = values[0].len();
        let mut own = Groups {
            sums: self.sums.empty(),
            moment: self.moment,
            result: self.result.clone(),
        };
        let groups: Vec<usize> = (0..rows).collect();
        own.update_batch(values, &groups, filter, rows)?;
        Ok(own.sums.state())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.sums.bytes()
    }
}

/// One group.
#[derive(Debug)]
struct One(Groups);

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.sums.resize(1);
        self.0.add(values, |_| Some(0))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.sums.resize(1);
        ScalarValue::try_from_array(&self.0.results(&self.0.sums)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.0.sums.bytes()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.sums.resize(1);
        let columns = self.0.sums.state();
        columns
            .iter()
            .map(|column| ScalarValue::try_from_array(column, 0))
            .collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.sums.resize(1);
        self.0.combine(states, |_| 0)
    }
}

/// One group, each value once. State: the list of values.
#[derive(Debug)]
struct Distinct {
    groups: Groups,
    values: HashSet<ScalarValue>,
    data_type: DataType,
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for row in 0..values[0].len() {
            if values[0].is_valid(row) {
                self.values.insert(ScalarValue::try_from_array(&values[0], row)?);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.groups.sums = Sums::new(&self.data_type);
        self.groups.sums.resize(1);
        if !self.values.is_empty() {
            let values = ScalarValue::iter_to_array(self.values.iter().cloned())?;
            self.groups.add(&[values], |_| Some(0))?;
        }
        ScalarValue::try_from_array(&self.groups.results(&self.groups.sums)?, 0)
    }

    fn size(&self) -> usize {
        let own = self.values.capacity() * size_of::<ScalarValue>();
        size_of_val(self) + own
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values: Vec<ArrayRef> = self.values.iter().map(ScalarValue::to_array).collect::<Result<_>>()?;
        let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
        let values = match values.as_slice() {
            [] => datafusion::arrow::array::new_empty_array(&self.data_type),
            values => concat(values)?,
        };
        let field = Arc::new(Field::new_list_field(self.data_type.clone(), true));
        let list = ListArray::try_new(field, OffsetBuffer::from_lengths([values.len()]), values, None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            self.update_batch(&[list])?;
        }
        Ok(())
    }
}
