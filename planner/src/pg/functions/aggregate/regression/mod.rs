//! Covariances, correlation and regression, and variances of floats, reckoned as PostgreSQL reckons them: by the sums of
//! Youngs and Cramer (`float`). Variances of integers and numerics are exact: `moments`.

mod float;

use crate::pg::numeric::floats::with_numerics;
use float::Sums;

use super::fail_out_of_range;
use super::moments::Kind;
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
use tenon_storage::types::NUMERIC;

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
    all.into_iter().map(|(name, moment)| function(name, moment)).collect()
}

/// A variance or standard deviation of floats.
pub(super) fn of_floats(kind: Kind) -> Arc<AggregateUDF> {
    Arc::new(match kind {
        Kind::Variance { sample: true } => function("var_samp", Moment::VarSamp),
        Kind::Variance { .. } => function("var_pop", Moment::VarPop),
        Kind::Deviation { sample: false } => function("stddev_pop", Moment::StddevPop),
        _ => function("stddev", Moment::StddevSamp),
    })
}

fn function(name: &'static str, moment: Moment) -> AggregateUDF {
    AggregateUDF::new_from_impl(Moments {
        name,
        moment,
        signature: Signature::user_defined(Volatility::Immutable),
    })
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
    fn groups(&self) -> Groups {
        Groups {
            sums: Vec::new(),
            moment: self.moment,
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
            let is_literal = matches!(data_type, DataType::Utf8 | DataType::Utf8View);
            data_type.is_numeric() || data_type.is_null() || *data_type == NUMERIC || is_literal
        };
        if !types.iter().all(is_number) {
            return wrong();
        }
        match (self.moment.is_of_one(), types) {
            (true, [_]) => Ok(vec![DataType::Float64]),
            (false, [_, _]) => Ok(with_numerics(types, vec![DataType::Float64; 2])),
            _ => wrong(),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.moment {
            Moment::Count => DataType::Int64,
            _ => DataType::Float64,
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let of = args.input_fields[0].data_type();
        let types = match args.is_distinct {
            true => vec![DataType::new_list(of.clone(), true)],
            false => vec![DataType::Float64; float::STATES],
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
                groups: self.groups(),
                values: HashSet::new(),
                data_type: args.expr_fields[0].data_type().clone(),
            }),
            false => Box::new(One(self.groups())),
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(self.groups()))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// The sums of each group.
#[derive(Debug)]
struct Groups {
    sums: Vec<Sums>,
    moment: Moment,
}

impl Groups {
    fn resize(&mut self, groups: usize) {
        self.sums.resize(groups.max(self.sums.len()), Sums::default());
    }

    fn result(&self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&float::results(&self.sums, self.moment), 0)
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
        self.resize(total);
        let admits = |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        float::add(&mut self.sums, values, |row| admits(row).then(|| groups[row]))
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.resize(total);
        float::combine(&mut self.sums, states, |row| groups[row])
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.sums);
        Ok(float::results(&sums, self.moment))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(float::state(&emit_to.take_needed(&mut self.sums)))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = values[0].len();
        let mut own = Groups {
            sums: Vec::new(),
            moment: self.moment,
        };
        let groups: Vec<usize> = (0..rows).collect();
        own.update_batch(values, &groups, filter, rows)?;
        Ok(float::state(&own.sums))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.sums.capacity() * size_of::<Sums>()
    }
}

/// One group.
#[derive(Debug)]
struct One(Groups);

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.resize(1);
        float::add(&mut self.0.sums, values, |_| Some(0))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.resize(1);
        self.0.result()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.resize(1);
        let columns = float::state(&self.0.sums);
        columns
            .iter()
            .map(|column| ScalarValue::try_from_array(column, 0))
            .collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.resize(1);
        float::combine(&mut self.0.sums, states, |_| 0)
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
        self.groups.sums = vec![Sums::default()];
        if !self.values.is_empty() {
            let values = ScalarValue::iter_to_array(self.values.iter().cloned())?;
            float::add(&mut self.groups.sums, &[values], |_| Some(0))?;
        }
        self.groups.result()
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
