//! An aggregate over the frames of a partition's rows.

use super::frame::Frames;
use crate::pg::bounds;
use crate::pg::functions::aggregate;
use datafusion::arrow::array::{Array, ArrayRef, BooleanArray};
use datafusion::arrow::compute::{cast, filter};
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{Column, Literal};
use std::ops::Range;
use std::sync::Arc;

/// Aggregates whose states forget rows in whichever order these came.
const FORGET_ANY: [&str; 3] = ["avg", "count", "sum"];

/// The aggregate over columns that hold its arguments; constants stay what they are. And the types in which it takes them.
pub(super) fn aggregate_of(
    function: &Arc<AggregateUDF>,
    exprs: &[Arc<dyn PhysicalExpr>],
    fields: &[FieldRef],
) -> Result<(AggregateFunctionExpr, Vec<DataType>)> {
    let mut fields = fields.to_vec();
    let function = aggregate::for_types(function, &mut fields);
    let columns = exprs.iter().zip(&fields).enumerate();
    let columns = columns.map(|(at, (expr, field))| match expr.downcast_ref::<Literal>() {
        Some(literal) if literal.value().data_type() == *field.data_type() => Arc::clone(expr),
        _ => Arc::new(Column::new(field.name(), at)) as Arc<dyn PhysicalExpr>,
    });
    let columns = columns.collect();
    let types = fields.iter().map(|field| field.data_type().clone()).collect();
    let schema = Arc::new(Schema::new(fields));
    let built = AggregateExprBuilder::new(function, columns)
        .schema(schema)
        .alias("framed")
        .build()?;
    Ok((built, types))
}

/// An aggregate over the frames of one partition.
pub(super) struct Aggregation<'a> {
    aggregate: &'a AggregateFunctionExpr,
    /// The arguments in the rows that the FILTER admits.
    columns: Vec<ArrayRef>,
    /// How many admitted rows there are before each row.
    before: Vec<usize>,
    state: Box<dyn Accumulator>,
    /// Whether the state takes rows out again, and is then as if they had never been in.
    forgets: bool,
}

impl<'a> Aggregation<'a> {
    pub fn new(
        aggregate: &'a AggregateFunctionExpr,
        columns: Vec<ArrayRef>,
        admitted: &BooleanArray,
        rows: usize,
    ) -> Result<Self> {
        let mut before = Vec::with_capacity(rows + 1);
        let mut count = 0;
        before.push(0);
        for row in 0..rows {
            count += usize::from(admitted.is_valid(row) && admitted.value(row));
            before.push(count);
        }
        let columns = match count == rows {
            true => columns,
            false => columns
                .iter()
                .map(|column| Ok(filter(column, admitted)?))
                .collect::<Result<_>>()?,
        };
        let exact = columns.iter().all(|column| !column.data_type().is_floating());
        let sliding = match exact && aggregate.fun().name() != "array_agg" {
            true => aggregate.create_sliding_accumulator().ok(),
            false => None,
        };
        let sliding = sliding.filter(|state| state.supports_retract_batch());
        let forgets = sliding.is_some();
        let state = match sliding {
            Some(state) => state,
            None => aggregate.create_accumulator()?,
        };
        Ok(Self {
            aggregate,
            columns,
            before,
            state,
            forgets,
        })
    }

    pub fn results(mut self, frames: &Frames, data_type: &DataType) -> Result<ArrayRef> {
        let rows = self.before.len() - 1;
        let (mut held, mut held_parts) = (0..0, [0..0, 0..0, 0..0]);
        let forgets_any = self.forgets && FORGET_ANY.contains(&self.aggregate.fun().name());
        let mut last: Option<([Range<usize>; 3], ScalarValue)> = None;
        let mut results = Vec::with_capacity(rows);
        for row in 0..rows {
            // A frame may be as long as its partition, and so may each value.
            bounds::check(0)?;
            let parts = frames
                .parts(row)
                .map(|part| self.before[part.start]..self.before[part.end]);
            if let Some((known, value)) = &last
                && *known == parts
            {
                results.push(value.clone());
                continue;
            }
            let value = match frames.excludes() {
                true if forgets_any => {
                    self.turned(&mut held_parts, &parts)?;
                    self.state.evaluate()?
                }
                true => self.afresh(&parts)?,
                false => {
                    let [whole, ..] = &parts;
                    self.moved(&mut held, whole.clone())?;
                    self.state.evaluate()?
                }
            };
            results.push(value.clone());
            last = Some((parts, value));
        }
        let results = ScalarValue::iter_to_array(results)?;
        match results.data_type() == data_type {
            true => Ok(results),
            false => Ok(cast(&results, data_type)?),
        }
    }

    /// The aggregate of some rows alone.
    fn afresh(&self, parts: &[Range<usize>]) -> Result<ScalarValue> {
        let mut state = self.aggregate.create_accumulator()?;
        for part in parts.iter().filter(|part| part.start < part.end) {
            state.update_batch(&self.slices(part))?;
        }
        state.evaluate()
    }

    /// Makes the state that of the rows of `wanted`; `held` are those that it has. From one row to the next, few come and go.
    fn turned(&mut self, held: &mut [Range<usize>; 3], wanted: &[Range<usize>; 3]) -> Result<()> {
        let rows = |parts: &[Range<usize>]| parts.iter().map(ExactSizeIterator::len).sum::<usize>();
        let mut gone = without(held, wanted);
        if rows(&gone) > rows(wanted) {
            self.state = self.aggregate.create_sliding_accumulator()?;
            *held = [0..0, 0..0, 0..0];
            gone.clear();
        }
        for part in gone {
            self.state.retract_batch(&self.slices(&part))?;
        }
        for part in without(wanted, held) {
            self.state.update_batch(&self.slices(&part))?;
        }
        *held = wanted.clone();
        Ok(())
    }

    fn slices(&self, rows: &Range<usize>) -> Vec<ArrayRef> {
        let slice = |column: &ArrayRef| column.slice(rows.start, rows.len());
        self.columns.iter().map(slice).collect()
    }

    /// Makes the state that of the rows `wanted`; `held` are those that it has.
    fn moved(&mut self, held: &mut Range<usize>, wanted: Range<usize>) -> Result<()> {
        let grows = held.start <= wanted.start && held.end <= wanted.end && wanted.start <= held.end;
        if !grows || held.start != wanted.start && !self.forgets {
            if held.start < held.end {
                self.state = match self.forgets {
                    true => self.aggregate.create_sliding_accumulator()?,
                    false => self.aggregate.create_accumulator()?,
                };
            }
            *held = wanted.start..wanted.start;
        }
        if held.start < wanted.start {
            self.state.retract_batch(&self.slices(&(held.start..wanted.start)))?;
        }
        if held.end < wanted.end {
            self.state.update_batch(&self.slices(&(held.end..wanted.end)))?;
        }
        *held = wanted;
        Ok(())
    }
}

/// The rows of some parts that are in none of the others. Parts are in order.
fn without(parts: &[Range<usize>; 3], others: &[Range<usize>; 3]) -> Vec<Range<usize>> {
    let mut left = Vec::new();
    for part in parts {
        let mut from = part.start;
        for other in others.iter().filter(|other| other.start < other.end) {
            if from < other.start.min(part.end) {
                left.push(from..other.start.min(part.end));
            }
            from = from.max(other.end);
        }
        if from < part.end {
            left.push(from..part.end);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::prelude::*;

    #[test]
    fn rows_of_parts_without_others() {
        let seed: u64 = rand::random();
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        for _ in 0..2000 {
            let mut parts = || {
                let mut ends: Vec<usize> = (0..6).map(|_| random.random_range(0..12)).collect();
                ends.sort_unstable();
                [ends[0]..ends[1], ends[2]..ends[3], ends[4]..ends[5]]
            };
            let (parts, others) = (parts(), parts());
            let rows: Vec<usize> = parts.iter().cloned().flatten().collect();
            let expected: Vec<usize> = rows
                .into_iter()
                .filter(|row| !others.iter().any(|other| other.contains(row)))
                .collect();
            let found: Vec<usize> = without(&parts, &others).into_iter().flatten().collect();
            assert_eq!(found, expected, "seed {seed}: {parts:?} without {others:?}");
        }
    }
}
