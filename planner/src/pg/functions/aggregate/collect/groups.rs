//! The accumulators over `GroupedRows`: of all groups, and of the only one.
//!
//! State: for each group a list of structs, of the value and the sort keys. It is not sorted; only the end sorts.

use super::rows::{GroupedRows, Order, keeps};
use crate::pg::bounds;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, LargeBinaryArray, LargeStringArray, ListArray, StructArray,
};
use datafusion::arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use std::sync::Arc;

/// What is made of a group's values. A group without any is NULL.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    List,
    /// One text, or string of bytes, with the delimiter between the values.
    Text {
        delimiter: Vec<u8>,
    },
}

#[derive(Debug)]
pub(super) struct Groups {
    rows: GroupedRows,
    outcome: Outcome,
    ignore_nulls: bool,
    /// Which of the arguments are the value and the sort keys.
    arguments: Vec<usize>,
}

/// The type of the state.
pub(super) fn state_type(types: &[DataType]) -> DataType {
    DataType::new_list(DataType::Struct(fields(types)), true)
}

fn fields(types: &[DataType]) -> Fields {
    let field = |(at, data_type): (usize, &DataType)| Field::new(format!("c{at}"), data_type.clone(), true);
    types.iter().enumerate().map(field).collect()
}

impl Groups {
    pub fn new(
        types: Vec<DataType>,
        arguments: Vec<usize>,
        order: Order,
        outcome: Outcome,
        ignore_nulls: bool,
    ) -> Self {
        Self {
            rows: GroupedRows::new(types, order),
            outcome,
            ignore_nulls,
            arguments,
        }
    }

    fn count(&self, emit_to: EmitTo) -> usize {
        match emit_to {
            EmitTo::All => self.rows.groups(),
            EmitTo::First(groups) => groups,
        }
    }

    fn emitted(&mut self, emit_to: EmitTo) -> Result<()> {
        match emit_to {
            EmitTo::All => self.rows.clear(),
            EmitTo::First(groups) => self.rows.forget(groups)?,
        }
        Ok(())
    }

    /// Bytes of the texts that the values become.
    fn text_bytes(&self) -> usize {
        let (values, bytes) = self.rows.values();
        match &self.outcome {
            Outcome::List => 0,
            Outcome::Text { delimiter } => bytes + values * delimiter.len(),
        }
    }

    fn state_of(&self, groups: usize) -> Result<ArrayRef> {
        let gathered = self.rows.gather(groups, false)?;
        let rows = gathered.offsets[groups];
        let values = StructArray::try_new_with_length(fields(self.rows.types()), gathered.columns, None, rows)?;
        list(&gathered.offsets, Arc::new(values))
    }

    fn outcome_of(&self, groups: usize) -> Result<ArrayRef> {
        let mut gathered = self.rows.gather(groups, true)?;
        let values = gathered.columns.swap_remove(0);
        match &self.outcome {
            Outcome::List => list(&gathered.offsets, values),
            Outcome::Text { delimiter } => {
                let (offsets, of_bytes) = (&gathered.offsets, *values.data_type() == DataType::BinaryView);
                let joined = match values.data_type() {
                    DataType::Utf8View => joined(offsets, delimiter, |at| values.as_string_view().value(at).as_bytes()),
                    DataType::Utf8 => joined(offsets, delimiter, |at| values.as_string::<i32>().value(at).as_bytes()),
                    DataType::LargeUtf8 => {
                        joined(offsets, delimiter, |at| values.as_string::<i64>().value(at).as_bytes())
                    }
                    DataType::BinaryView => joined(offsets, delimiter, |at| values.as_binary_view().value(at)),
                    other => return internal_err!("string_agg has met {other}"),
                };
                let (ends, bytes, nulls) = joined;
                Ok(match of_bytes {
                    true => Arc::new(BinaryViewArray::from(&LargeBinaryArray::try_new(
                        ends,
                        bytes,
                        Some(nulls),
                    )?)),
                    false => Arc::new(LargeStringArray::try_new(ends, bytes, Some(nulls))?),
                })
            }
        }
    }
}

/// One list a group, NULL where a group has no rows.
fn list(offsets: &[usize], values: ArrayRef) -> Result<ArrayRef> {
    let nulls: NullBuffer = offsets.windows(2).map(|ends| ends[0] < ends[1]).collect();
    let offsets: ScalarBuffer<i32> = offsets.iter().map(|offset| *offset as i32).collect();
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
    Ok(Arc::new(ListArray::try_new(
        field,
        OffsetBuffer::new(offsets),
        values,
        nulls,
    )?))
}

/// One text a group, written into memory of just the length of them all.
fn joined<'a>(
    offsets: &[usize],
    delimiter: &[u8],
    value: impl Fn(usize) -> &'a [u8],
) -> (OffsetBuffer<i64>, Buffer, NullBuffer) {
    let rows = offsets.last().copied().unwrap_or_default();
    let between = |ends: &[usize]| (ends[1] - ends[0]).saturating_sub(1) * delimiter.len();
    let total = (0..rows).map(|row| value(row).len()).sum::<usize>() + offsets.windows(2).map(between).sum::<usize>();
    let mut text = Vec::with_capacity(total);
    let mut ends = Vec::with_capacity(offsets.len());
    ends.push(0);
    for group in offsets.windows(2) {
        for row in group[0]..group[1] {
            if row > group[0] {
                text.extend_from_slice(delimiter);
            }
            text.extend_from_slice(value(row));
        }
        ends.push(text.len() as i64);
    }
    let nulls: NullBuffer = offsets.windows(2).map(|ends| ends[0] < ends[1]).collect();
    (OffsetBuffer::new(ends.into()), Buffer::from_vec(text), nulls)
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        let columns: Vec<ArrayRef> = self.arguments.iter().map(|at| Arc::clone(&values[*at])).collect();
        let keeps = keeps(&columns[0], filter, self.ignore_nulls);
        self.rows.add(&columns, groups, keeps, total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let outcome = self.outcome_of(self.count(emit_to))?;
        self.emitted(emit_to)?;
        Ok(outcome)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let state = self.state_of(self.count(emit_to))?;
        self.emitted(emit_to)?;
        Ok(vec![state])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        let lists = states[0].as_list::<i32>();
        let (start, end) = (lists.value_offsets()[0], lists.value_offsets()[lists.len()]);
        let values = lists.values().slice(start as usize, (end - start) as usize);
        let mut entries = Vec::with_capacity(values.len());
        for (row, group) in groups.iter().enumerate().filter(|(row, _)| lists.is_valid(*row)) {
            let (from, to) = (lists.value_offsets()[row], lists.value_offsets()[row + 1]);
            entries.extend((from - start..to - start).map(|at| (*group as u32, at as u32)));
        }
        self.rows
            .add_gathered(values.as_struct().columns().to_vec(), entries, total)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let columns: Vec<ArrayRef> = self.arguments.iter().map(|at| Arc::clone(&values[*at])).collect();
        let rows = columns[0].len();
        let kept: NullBuffer = (0..rows).map(keeps(&columns[0], filter, self.ignore_nulls)).collect();
        let values = StructArray::try_new_with_length(fields(self.rows.types()), columns, None, rows)?;
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let offsets = OffsetBuffer::from_repeated_length(1, rows);
        Ok(vec![Arc::new(ListArray::try_new(
            field,
            offsets,
            Arc::new(values),
            Some(kept),
        )?)])
    }

    /// With what the end will make of it: nobody asks again before that.
    fn size(&self) -> usize {
        self.rows.bytes() + self.text_bytes() + size_of_val(self)
    }
}

/// All rows are one group. It may be evaluated again and again, as windows do.
#[derive(Debug)]
pub(super) struct One(pub Groups);

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let groups = vec![0; values[0].len()];
        self.0.update_batch(values, &groups, None, 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        // A window that grows keeps what it was at each of its rows.
        bounds::check((self.0.rows.bytes() + self.0.text_bytes()) as u64)?;
        ScalarValue::try_from_array(&self.0.outcome_of(1)?, 0)
    }

    /// With a second copy of a text, which a scalar value is.
    fn size(&self) -> usize {
        self.0.size() + self.0.text_bytes()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::try_from_array(&self.0.state_of(1)?, 0)?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let groups = vec![0; states[0].len()];
        self.0.merge_batch(states, &groups, 1)
    }
}
