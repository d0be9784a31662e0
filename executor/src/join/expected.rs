//! What a plan tells of a join's inputs before they run. The choice at run time starts from the same, with true sizes.

use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, DataFusionError, JoinSide, Result, ScalarValue, Statistics};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::choice::{Choice, choose};
use super::cost::{CostInputs, CostParameters, IndexInputs, Predicate, SideInputs};
use super::spec::JoinSpec;
use crate::device::{self, DeviceState};
use crate::keys::{append_integer_keys, is_integer_key};
use crate::options::JoinOptions;
use crate::scan::ScanExec;
use tenon_storage::DeviceResidence;

/// Bytes taken for a value whose type does not tell.
const VALUE_BYTES: usize = 24;

/// Distinct keys of so many rows, by a sketch, are taken to be one a row.
const UNIQUE_SHARE: f64 = 0.95;

/// A runtime filter of so few keys costs next to nothing, whatever the estimates say.
const FILTER_ROWS_FREE: usize = 1 << 17;
/// One that keeps this share of the probe rows costs more than it saves.
const FILTERED_IN_VAIN: f64 = 0.9;

/// Both inputs, and the rows that come out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Expected {
    pub build: SideInputs,
    pub probe: SideInputs,
    pub output_rows: Option<usize>,
    /// Whether both inputs have been materialized.
    at_hand: bool,
    /// Whether either is of a table that is kept off the GPU.
    kept_off: bool,
}

impl Expected {
    /// `output_rows` is the planner's estimate.
    pub(super) fn of(
        spec: &JoinSpec,
        build: &Arc<dyn ExecutionPlan>,
        probe: &Arc<dyn ExecutionPlan>,
        output_rows: Option<usize>,
    ) -> Self {
        let side = |side: JoinSide, input| {
            let operands = spec.operands(side);
            let reads = |at| match side {
                JoinSide::Left => spec.reads_build(at),
                _ => spec.reads_probe(at),
            };
            of_input(input, &operands, reads)
        };
        Self {
            build: side(JoinSide::Left, build),
            probe: side(JoinSide::Right, probe),
            output_rows,
            at_hand: false,
            kept_off: [build, probe].into_iter().any(is_kept_off),
        }
    }

    /// The probe side is at hand too, with so many rows: it can no longer stream, and gives rows accordingly.
    pub(super) fn found(&mut self, probe_rows: usize) {
        if let (Some(output), Some(before)) = (self.output_rows, self.probe.rows) {
            let scale = probe_rows as f64 / before.max(1) as f64;
            self.output_rows = Some((output as f64 * scale) as usize);
        }
        self.probe.rows = Some(probe_rows);
        self.at_hand = true;
    }

    /// Whether a filter by the build side's keys would let nearly all probe rows pass, by the estimates.
    pub(super) fn filters_in_vain(&self) -> bool {
        let (Some(probe), Some(output)) = (self.probe.rows, self.output_rows) else {
            return false;
        };
        let build = self.build.rows.unwrap_or(0);
        build >= FILTER_ROWS_FREE && self.build.unique && output as f64 >= FILTERED_IN_VAIN * probe as f64
    }

    /// The choice for a join of these inputs; an error where the options ask for what cannot be.
    pub(super) fn choose(
        &self,
        spec: &JoinSpec,
        build_schema: &Schema,
        options: &JoinOptions,
        cores: usize,
    ) -> Result<Choice> {
        let inputs = CostInputs {
            predicate: spec.predicate(),
            streams: spec.streams,
            at_hand: self.at_hand,
            build: self.build,
            probe: self.probe,
            key_bytes: key_bytes(&spec.operands(JoinSide::Left), build_schema),
            output_rows: self.output_rows,
            index: None,
            device: state(self.kept_off, options),
            cores,
            parameters: CostParameters::current(),
        };
        let mut choice = choose(&inputs, options).map_err(DataFusionError::NotImplemented)?;
        spec.note_condition(&mut choice);
        Ok(choice)
    }
}

/// The choice for a join whose inner table has an index for it, if it was joined by that index; else none. `keys` are
/// of both sides, the build side's first; `output_rows` is the planner's estimate.
pub fn choose_index(
    sides: [&Arc<dyn ExecutionPlan>; 2],
    keys: [&[PhysicalExprRef]; 2],
    predicate: Predicate,
    index: IndexInputs,
    output_rows: Option<usize>,
    (options, cores): (&JoinOptions, usize),
) -> Option<Choice> {
    let [build, probe] = [0, 1].map(|at| of_input(sides[at], keys[at], |_| true));
    let (build_rows, probe_rows) = (build.rows?, probe.rows?);
    let lookups = if index.outer == JoinSide::Left {
        build_rows
    } else {
        probe_rows
    };
    let inputs = CostInputs {
        predicate,
        streams: true,
        at_hand: false,
        build,
        probe,
        key_bytes: key_bytes(keys[0], &sides[0].schema()),
        // Where nobody knows, a lookup finds a row.
        output_rows: output_rows.or(Some(lookups)),
        index: Some(index),
        device: state(sides.into_iter().any(is_kept_off), options),
        cores,
        parameters: CostParameters::current(),
    };
    choose(&inputs, options).ok().filter(|choice| choice.path.indexed)
}

/// Whether a plan reads a table whose `tenon.device` is 'never'.
fn is_kept_off(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let scan = plan.downcast_ref::<ScanExec>();
    scan.is_some_and(|scan| scan.table().definition().device == Some(DeviceResidence::Never))
        || plan.children().into_iter().any(is_kept_off)
}

/// The device as joins may use it.
fn state(kept_off: bool, options: &JoinOptions) -> DeviceState {
    match device::state(options) {
        DeviceState::Present { .. } if kept_off => DeviceState::Withheld,
        state => state,
    }
}

/// Bytes of one operand's words, or of a hash of several.
pub fn key_bytes(operands: &[PhysicalExprRef], schema: &Schema) -> usize {
    let narrow = |key: &PhysicalExprRef| {
        let data_type = key.data_type(schema);
        data_type.is_ok_and(|t| t == DataType::Boolean || t.primitive_width().is_some_and(|width| width <= 4))
    };
    match operands {
        [key] if narrow(key) => 4,
        _ => 8,
    }
}

/// An input whose columns `reads` names are read, and whose rows are found by `keys`.
pub fn of_input(input: &Arc<dyn ExecutionPlan>, keys: &[PhysicalExprRef], reads: impl Fn(usize) -> bool) -> SideInputs {
    let statistics = StatisticsContext::new()
        .compute(input.as_ref(), &StatisticsArgs::new())
        .ok();
    let schema = input.schema();
    let fields = schema.fields().iter().enumerate().filter(|(at, _)| reads(*at));
    let rows = statistics
        .as_ref()
        .and_then(|statistics| statistics.num_rows.get_value().copied());
    let mut known = SideInputs {
        rows,
        row_bytes: fields
            .map(|(_, field)| field.data_type().primitive_width().unwrap_or(VALUE_BYTES))
            .sum(),
        ..SideInputs::default()
    };
    let [key] = keys else { return known };
    let Some(column) = key.downcast_ref::<Column>() else {
        return known;
    };
    if !is_integer_key(schema.field(column.index()).data_type()) {
        return known;
    }
    known.ascending = ascends(input, key);
    if let Some(of_key) = column_statistics(statistics.as_deref(), column.index()) {
        known.key_span = span(of_key);
        let distinct = of_key.distinct_count.get_value().copied().unwrap_or(0);
        known.unique = rows.is_some_and(|rows| distinct as f64 > rows as f64 * UNIQUE_SHARE);
    }
    known
}

fn column_statistics(statistics: Option<&Statistics>, column: usize) -> Option<&ColumnStatistics> {
    statistics?.column_statistics.get(column)
}

/// Whether the input is known to come in the key's order, nulls last.
pub fn ascends(input: &Arc<dyn ExecutionPlan>, key: &PhysicalExprRef) -> bool {
    let orderings = input.equivalence_properties().oeq_class();
    orderings.iter().any(|ordering| {
        let first = ordering.first();
        !first.options.descending && !first.options.nulls_first && first.expr.eq(key)
    })
}

/// Largest minus smallest value, as the table's statistics have them.
fn span(statistics: &ColumnStatistics) -> Option<u64> {
    let integer = |value: &Precision<ScalarValue>| {
        let array = value.get_value()?.to_array().ok()?;
        let mut integers = vec![];
        append_integer_keys(array.as_ref(), &mut integers).ok()?;
        (array.null_count() == 0).then_some(integers[0])
    };
    let (min, max) = (integer(&statistics.min_value)?, integer(&statistics.max_value)?);
    u64::try_from(max.checked_sub(min)?).ok()
}
