//! ON CONFLICT: the constraints that decide, and DO NOTHING, where rows whose key is there already, or came earlier in
//! the statement, are left out. A key with a NULL in it (of UNIQUE) is always new.

use super::claims;
use crate::catalog::bind::fold;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::from_arrow;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, LargeBinaryArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::sql::sqlparser::ast::ConflictTarget;
use std::collections::HashSet;
use std::sync::Arc;
use tenon_storage::numeric::compare_key;
use tenon_storage::{Index, IndexKind, MemoryBudget, RowLocation, TableDefinition, TableVersion};

/// The constraint that a conflict target names; None where there is no target.
pub(super) fn target<'a>(
    definition: &'a TableDefinition,
    target: Option<&ConflictTarget>,
) -> Result<Option<&'a Index>> {
    match target {
        None => Ok(None),
        Some(ConflictTarget::Columns(names)) => {
            let names: Vec<String> = names.iter().map(fold).collect();
            for name in &names {
                if definition.column_index(name).is_none() {
                    let message = format!("column \"{name}\" does not exist");
                    return Err(SqlError::new(state::UNDEFINED_COLUMN, message));
                }
            }
            let is_named = |key: &&Index| {
                let own = |at: &usize| names.contains(&definition.columns[*at].name);
                key.columns.len() == names.len() && key.columns.iter().all(own)
            };
            unique(definition).find(is_named).map(Some).ok_or_else(|| {
                let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
                SqlError::new(state::INVALID_COLUMN_REFERENCE, message)
            })
        }
        Some(ConflictTarget::OnConstraint(name)) => {
            let name = name
                .0
                .last()
                .and_then(|part| part.as_ident())
                .map(fold)
                .unwrap_or_default();
            unique(definition)
                .find(|key| key.name == name && key.kind != IndexKind::Unique)
                .map(Some)
                .ok_or_else(|| {
                    let message = format!("constraint \"{name}\" for table \"{}\" does not exist", definition.name);
                    SqlError::new(state::UNDEFINED_OBJECT, message)
                })
        }
    }
}

/// What makes rows conflict.
fn unique(definition: &TableDefinition) -> impl Iterator<Item = &Index> {
    definition.all_indexes().filter(|index| index.is_unique())
}

/// What of a key column is compared: of numerics not the display scale.
fn compared(column: &ArrayRef) -> ArrayRef {
    match column.as_binary_opt::<i64>() {
        Some(numerics) => {
            let keys = numerics.iter().map(|value| value.map(compare_key));
            Arc::new(LargeBinaryArray::from_iter(keys))
        }
        None => column.clone(),
    }
}

/// The keys of one constraint seen so far.
pub(super) struct Seen {
    columns: Vec<usize>,
    nulls_not_distinct: bool,
    converter: RowConverter,
    keys: HashSet<OwnedRow>,
}

impl Seen {
    pub(super) fn of(table: &TableVersion, key: &Index) -> Result<Seen> {
        let fields = key
            .columns
            .iter()
            .map(|at| SortField::new(table.schema().field(*at).data_type().clone()));
        Ok(Seen {
            columns: key.columns.clone(),
            nulls_not_distinct: key.nulls_not_distinct,
            converter: RowConverter::new(fields.collect()).map_err(|error| from_arrow(&error))?,
            keys: HashSet::new(),
        })
    }

    /// The key of each row; None where a NULL makes it equal no other.
    fn keys_of(&self, columns: &[ArrayRef]) -> Result<Vec<Option<OwnedRow>>> {
        let compared: Vec<ArrayRef> = columns.iter().map(compared).collect();
        let rows = self
            .converter
            .convert_columns(&compared)
            .map_err(|error| from_arrow(&error))?;
        let keyed = |row: usize| self.nulls_not_distinct || columns.iter().all(|column| !column.is_null(row));
        let keys = rows.iter().enumerate();
        Ok(keys.map(|(at, row)| keyed(at).then(|| row.owned())).collect())
    }

    /// Notes the keys of rows; false where one was there already.
    pub(super) fn all_new(&mut self, columns: &[ArrayRef]) -> Result<bool> {
        let keys = self.keys_of(columns)?;
        Ok(keys.into_iter().flatten().all(|key| self.keys.insert(key)))
    }
}

/// The keys of a table and those seen so far, over the constraints that decide.
pub(super) struct Keys {
    table: Arc<TableVersion>,
    budget: Arc<MemoryBudget>,
    seen: Vec<(Index, Seen)>,
    /// Rows of the table that kept others out, the first of them.
    met: Vec<RowLocation>,
}

impl Keys {
    /// Under one constraint, or all.
    pub(super) fn of(table: &Arc<TableVersion>, only: Option<&Index>, budget: &Arc<MemoryBudget>) -> Result<Keys> {
        let deciding = unique(table.definition()).filter(|key| only.is_none_or(|only| only.name == key.name));
        let seen = deciding.map(|key| Ok((key.clone(), Seen::of(table, key)?)));
        Ok(Keys {
            table: table.clone(),
            budget: budget.clone(),
            seen: seen.collect::<Result<_>>()?,
            met: Vec::new(),
        })
    }

    /// The rows of the table that kept others out; the first of many.
    pub(super) fn met(self) -> Vec<RowLocation> {
        self.met
    }

    /// The rows of a batch (in the table's types) whose keys are all new.
    pub(super) fn keep_new(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut keys = Vec::new();
        let mut new = vec![true; batch.num_rows()];
        for (index, seen) in &self.seen {
            let columns: Vec<ArrayRef> = seen.columns.iter().map(|at| batch.column(*at).clone()).collect();
            let there = self.table.locate(index, &columns, &self.budget)?;
            new.iter_mut()
                .zip(&there)
                .for_each(|(new, there)| *new &= there.is_none());
            let room = claims::REFUSED_MAX - self.met.len();
            self.met.extend(there.into_iter().flatten().take(room));
            keys.push(seen.keys_of(&columns)?);
        }
        for (row, new) in new.iter_mut().enumerate() {
            let is_seen = |(keys, (_, seen)): (&Vec<Option<OwnedRow>>, &(Index, Seen))| {
                keys[row].as_ref().is_some_and(|key| seen.keys.contains(key))
            };
            *new &= !keys.iter().zip(&self.seen).any(is_seen);
            if *new {
                for ((_, seen), keys) in self.seen.iter_mut().zip(&keys) {
                    seen.keys.extend(keys[row].clone());
                }
            }
        }
        filter_record_batch(batch, &BooleanArray::from(new)).map_err(|error| from_arrow(&error))
    }
}
