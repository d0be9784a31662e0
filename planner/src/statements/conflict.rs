//! ON CONFLICT DO NOTHING: rows with a key that is there already, or came earlier in the statement, are left out.

use crate::error::{Result, SqlError, state};
use crate::errors::from_arrow;
use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::row::{OwnedRow, RowConverter, Rows, SortField};
use std::collections::HashSet;
use tenon_storage::{Index, TableDefinition, TableVersion};

/// The keys seen so far, over a table with unique indexes.
pub(super) struct Keys {
    arbiters: Vec<Arbiter>,
}

/// A unique index that decides which rows conflict.
struct Arbiter {
    columns: Vec<usize>,
    nulls_not_distinct: bool,
    converter: RowConverter,
    seen: HashSet<OwnedRow>,
}

/// The unique indexes over the columns that the conflict target names, or all; 42P10 where there is none.
fn arbiters<'a>(definition: &'a TableDefinition, target: &[String]) -> Result<Vec<&'a Index>> {
    let names = |index: &Index| {
        let names = index.columns.iter().map(|at| definition.columns[*at].name.clone());
        names.collect::<HashSet<String>>()
    };
    let target: HashSet<String> = target.iter().cloned().collect();
    let unique = definition.all_indexes().filter(|index| index.is_unique());
    let found: Vec<&Index> = unique
        .filter(|index| target.is_empty() || names(index) == target)
        .collect();
    if found.is_empty() && !target.is_empty() {
        let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
        return Err(SqlError::new(state::INVALID_COLUMN_REFERENCE, message));
    }
    Ok(found)
}

impl Keys {
    /// The keys of the table's rows, as far as the conflict target is about them; None where nothing can conflict.
    pub(super) fn of(table: &TableVersion, target: &[String]) -> Result<Option<Keys>> {
        let arbiters = arbiters(table.definition(), target)?.into_iter().map(|index| {
            let types = index.columns.iter().map(|at| table.schema().field(*at).data_type());
            let fields = types.map(|data_type| SortField::new(data_type.clone()));
            Ok(Arbiter {
                columns: index.columns.clone(),
                nulls_not_distinct: index.nulls_not_distinct,
                converter: RowConverter::new(fields.collect()).map_err(|error| from_arrow(&error))?,
                seen: HashSet::new(),
            })
        });
        let mut arbiters = arbiters.collect::<Result<Vec<_>>>()?;
        for arbiter in &mut arbiters {
            for segment in table.segments().iter() {
                let columns: Vec<ArrayRef> = arbiter.columns.iter().map(|at| segment.column(*at)).collect();
                let (rows, distinct) = arbiter.rows(&columns)?;
                let comparable = rows.iter().enumerate().filter(|(row, _)| !is_distinct(&distinct, *row));
                arbiter.seen.extend(comparable.map(|(_, key)| key.owned()));
            }
        }
        Ok((!arbiters.is_empty()).then_some(Keys { arbiters }))
    }

    /// The rows of a batch (in the table's types) none of whose keys was seen before.
    pub(super) fn keep_new(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let of_arbiter = |arbiter: &Arbiter| {
            let columns: Vec<ArrayRef> = arbiter.columns.iter().map(|at| batch.column(*at).clone()).collect();
            arbiter.rows(&columns)
        };
        let keys = self.arbiters.iter().map(of_arbiter).collect::<Result<Vec<_>>>()?;
        let mut new = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            let own: Vec<Option<OwnedRow>> = keys
                .iter()
                .map(|(rows, distinct)| (!is_distinct(distinct, row)).then(|| rows.row(row).owned()))
                .collect();
            let seen = |(arbiter, key): (&Arbiter, &Option<OwnedRow>)| {
                key.as_ref().is_some_and(|key| arbiter.seen.contains(key))
            };
            let is_new = !self.arbiters.iter().zip(&own).any(seen);
            if is_new {
                let pairs = self.arbiters.iter_mut().zip(own);
                pairs.for_each(|(arbiter, key)| arbiter.seen.extend(key));
            }
            new.push(is_new);
        }
        filter_record_batch(batch, &BooleanArray::from(new)).map_err(|error| from_arrow(&error))
    }
}

impl Arbiter {
    /// Keys of rows, and which of them equal no other for their NULLs (those that the buffer calls null).
    fn rows(&self, columns: &[ArrayRef]) -> Result<(Rows, Option<NullBuffer>)> {
        let rows = self
            .converter
            .convert_columns(columns)
            .map_err(|error| from_arrow(&error))?;
        let nulls = columns
            .iter()
            .fold(None, |all, column| NullBuffer::union(all.as_ref(), column.nulls()));
        Ok((rows, nulls.filter(|_| !self.nulls_not_distinct)))
    }
}

fn is_distinct(nulls: &Option<NullBuffer>, row: usize) -> bool {
    nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
}
