//! What one partition gathers: its groups, and the state of every aggregate for each.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, new_null_array};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::cells::{Cell, Recipe};
use super::exec::GroupSpec;
use super::keys::GroupKeys;

pub struct Local {
    spec: Arc<GroupSpec>,
    keys: Option<GroupKeys>,
    cells: Vec<Cell>,
    aggregates: Vec<Aggregate>,
    numbers: Vec<usize>,
    /// Bytes of strings behind the views that aggregates keep, which their own accounts leave out.
    viewed_bytes: usize,
}

enum Aggregate {
    Cells(Recipe),
    /// DataFusion's own, where cells do not do.
    Foreign(Box<dyn GroupsAccumulator>),
}

/// Groups and their aggregate states.
pub struct Partial {
    pub keys: Vec<ArrayRef>,
    pub states: Vec<Vec<ArrayRef>>,
    pub groups: usize,
}

impl Local {
    pub fn new(spec: Arc<GroupSpec>) -> Result<Self> {
        let mut cells = vec![];
        let mut aggregates = vec![];
        for (aggregate, filter) in spec.aggregates.iter().zip(&spec.filters) {
            let recipe = match filter {
                None => Recipe::of(aggregate, &spec.input_schema, &mut cells)?,
                Some(_) => None,
            };
            aggregates.push(match recipe {
                Some(recipe) => Aggregate::Cells(recipe),
                None => Aggregate::Foreign(aggregate.create_groups_accumulator()?),
            });
        }
        let keys = (!spec.keys.is_empty()).then(|| spec.group_keys());
        Ok(Self {
            spec,
            keys,
            cells,
            aggregates,
            numbers: vec![],
            viewed_bytes: 0,
        })
    }

    fn groups(&self) -> usize {
        self.keys.as_ref().map_or(1, GroupKeys::groups)
    }

    pub fn update(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(()); // An accumulator would take every group for one with values.
        }
        match &mut self.keys {
            Some(keys) => {
                let columns = self
                    .spec
                    .keys
                    .iter()
                    .map(|(key, _)| key.evaluate(batch)?.into_array(rows));
                keys.assign(&columns.collect::<Result<Vec<_>>>()?, rows, &mut self.numbers)?;
            }
            None => {
                self.numbers.clear();
                self.numbers.resize(rows, 0);
            }
        }
        let groups = self.groups();
        for cell in &mut self.cells {
            cell.update(batch, &self.numbers, groups)?;
        }
        for (at, aggregate) in self.aggregates.iter_mut().enumerate() {
            let Aggregate::Foreign(accumulator) = aggregate else {
                continue;
            };
            let args = self.spec.aggregates[at].expressions();
            let args = args
                .iter()
                .map(|arg| arg.evaluate(batch)?.into_array(rows))
                .collect::<Result<Vec<_>>>()?;
            if self.spec.aggregates[at].fun().name() == "array_agg" {
                self.viewed_bytes += args.iter().map(viewed_bytes).sum::<usize>();
            }
            let filter: Option<BooleanArray> = match &self.spec.filters[at] {
                Some(filter) => Some(filter.evaluate(batch)?.into_array(rows)?.as_boolean().clone()),
                None => None,
            };
            accumulator.update_batch(&args, &self.numbers, filter.as_ref(), groups)?;
        }
        Ok(())
    }

    pub fn bytes(&self) -> usize {
        self.keys.as_ref().map_or(0, GroupKeys::bytes)
            + self.cells.iter().map(Cell::bytes).sum::<usize>()
            + self.foreign_bytes()
    }

    /// Bytes of the states that are not cells: lists and long strings, which merging copies.
    pub fn foreign_bytes(&self) -> usize {
        let foreign = self.aggregates.iter().map(|a| match a {
            Aggregate::Foreign(accumulator) => accumulator.size(),
            Aggregate::Cells(_) => 0,
        });
        foreign.sum::<usize>() + self.viewed_bytes
    }

    /// Without keys the one group exists even if there are no rows: a row that every filter refuses makes its state,
    /// and leaves it NULL where no row has given a value.
    fn add_row_of_nothing(&mut self) -> Result<()> {
        let empty = RecordBatch::new_empty(Arc::clone(&self.spec.input_schema));
        for cell in &mut self.cells {
            cell.update(&empty, &[], 1)?;
        }
        let refused = BooleanArray::from(vec![false]);
        for (aggregate, spec) in self.aggregates.iter_mut().zip(&self.spec.aggregates) {
            let Aggregate::Foreign(accumulator) = aggregate else {
                continue;
            };
            let args = spec.expressions();
            let nulls = args
                .iter()
                .map(|arg| Ok(new_null_array(&arg.data_type(&self.spec.input_schema)?, 1)));
            accumulator.update_batch(&nulls.collect::<Result<Vec<_>>>()?, &[0], Some(&refused), 1)?;
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<Partial> {
        let groups = self.groups();
        if self.keys.is_none() {
            self.add_row_of_nothing()?;
        }
        let mut states = vec![];
        for aggregate in &mut self.aggregates {
            states.push(match aggregate {
                Aggregate::Cells(recipe) => recipe.state(&self.cells, groups)?,
                Aggregate::Foreign(accumulator) => accumulator.state(EmitTo::All)?,
            });
        }
        let keys = self.keys.as_ref().map_or(Ok(vec![]), GroupKeys::emit)?;
        Ok(Partial { keys, states, groups })
    }
}

/// Bytes of the values that the views of an array stand for, but for those short enough to be in the views.
fn viewed_bytes(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => array.as_binary_view().total_buffer_bytes_used(),
        _ => 0,
    }
}
