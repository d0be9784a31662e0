//! ON CONFLICT: the indexes that decide, and DO NOTHING, where rows whose key is there already, or came earlier in
//! the statement, are left out. A key with a NULL in it (of UNIQUE) is always new.

use super::claims;
use super::constraints::{expression, with_parameters};
use super::permitted;
use super::unique::{Key, compared};
use super::updatable::Through;
use crate::catalog::bind::{Binder, fold};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::from_arrow;
use crate::pg::parse::inference::Element;
use crate::pg::parse::parse_expression;
use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::ScalarValue;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::expressions::Column;
use datafusion::sql::sqlparser::ast::{ConflictTarget, Ident, ObjectName};
use std::collections::HashSet;
use std::sync::Arc;
use tenon_executor::index::implies;
use tenon_storage::{Deferral, Index, IndexKind, MemoryBudget, Relation, RowLocation, TableDefinition, TableVersion};

/// A unique index that decides whether rows conflict.
#[derive(Clone)]
pub(super) enum Arbiter {
    Columns(Index),
    /// On expressions, or over some of the rows.
    Computed(Arc<Key>),
}

/// The indexes that a conflict target stands for: at least one; all where there is no target.
pub(super) fn arbiters(
    binder: &Binder,
    definition: &TableDefinition,
    target: Option<&ConflictTarget>,
    params: &[ScalarValue],
    through: Option<&Through>,
) -> Result<Vec<Arbiter>> {
    let within = within(binder, through);
    let computed = || {
        Ok::<_, SqlError>(
            Key::all(binder, definition)?
                .into_iter()
                .map(Arc::new)
                .map(Arbiter::Computed),
        )
    };
    let meant = match target {
        None => {
            let columns = unique(definition).cloned().map(Arbiter::Columns);
            columns.chain(computed()?).collect()
        }
        Some(ConflictTarget::Columns(names)) => inferred(binder, definition, names, params, &within)?,
        Some(ConflictTarget::OnConstraint(name)) => match of_partition(binder, definition, name, &within)? {
            Some(arbiter) => vec![arbiter],
            None => vec![Arbiter::Columns(constraint(definition, name)?.clone())],
        },
    };
    let waits = |arbiter: &Arbiter| matches!(arbiter, Arbiter::Columns(index) if index.deferral != Deferral::Never);
    if meant.iter().any(waits) {
        let message = "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters";
        return Err(SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
    }
    Ok(meant)
}

/// What a list stands for: indexes with these keys over all rows, or over rows among which are those of the predicate.
fn inferred(
    binder: &Binder,
    definition: &TableDefinition,
    names: &[Ident],
    params: &[ScalarValue],
    within: &[u32],
) -> Result<Vec<Arbiter>> {
    let schema = &definition.schema;
    let (mut columns, mut keys, mut predicate) = (Vec::new(), Vec::new(), None);
    for name in names {
        match Element::of(name) {
            Element::Column(name) => {
                let name = fold(name);
                let at = definition.column_index(&name).ok_or_else(|| {
                    let message = format!("column \"{name}\" does not exist");
                    SqlError::new(state::UNDEFINED_COLUMN, message)
                })?;
                columns.push(at);
                let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(&name, at));
                keys.push(column);
            }
            Element::Key(text) => keys.push(expression(binder, parse_expression(text)?, schema)?),
            Element::Predicate(text) => {
                predicate = Some(with_parameters(binder, parse_expression(text)?, schema, params)?);
            }
        }
    }
    // An index over all rows decides for those over some of them as well.
    let is_named = |index: &&Index| {
        columns.len() == keys.len()
            && index.columns.iter().all(|at| columns.contains(at))
            && columns.iter().all(|at| index.columns.contains(at))
    };
    if let Some(index) = unique(definition).find(is_named) {
        return Ok(vec![Arbiter::Columns(index.clone())]);
    }
    let is_meant = |index: &Key| {
        index.values().iter().all(|key| keys.contains(key))
            && keys.iter().all(|key| index.values().contains(key))
            && match (index.predicate(within), &predicate) {
                (None, _) => true,
                (Some(of_index), Some(given)) => implies(std::slice::from_ref(given), of_index, schema),
                (Some(_), None) => false,
            }
    };
    let meant = Key::all(binder, definition)?.into_iter().filter(is_meant);
    let meant: Vec<_> = meant.map(|key| Arbiter::Computed(Arc::new(key))).collect();
    if meant.is_empty() {
        let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
        return Err(SqlError::new(state::INVALID_COLUMN_REFERENCE, message));
    }
    Ok(meant)
}

/// The partition that rows are written to, and those that it is part of.
fn within(binder: &Binder, through: Option<&Through>) -> Vec<u32> {
    let mut found = Vec::new();
    let mut next = through
        .filter(|through| through.partition.is_some())
        .map(|through| through.oid);
    while let Some(Relation::Partition(partition)) = next.and_then(|oid| binder.snapshot.relation_by_oid(oid)) {
        found.push(partition.oid);
        next = Some(partition.parent);
    }
    found
}

/// A constraint of the partition that rows are written to: its own key, or that of the table which it is part of.
fn of_partition(
    binder: &Binder,
    definition: &TableDefinition,
    name: &ObjectName,
    within: &[u32],
) -> Result<Option<Arbiter>> {
    let name = super::last(name);
    let relation = |oid: &u32| binder.snapshot.relation_by_oid(*oid).and_then(Relation::as_partition);
    let Some(partition) = within.first().and_then(relation).filter(|own| !own.indexes.is_empty()) else {
        return Ok(None);
    };
    let mut own = partition.index(&name).filter(|own| own.is_constraint());
    if own.is_none() {
        return Err(no_constraint(&name, &partition.name));
    }
    while let Some(index) = own {
        if let Some(key) = Key::all(binder, definition)?
            .into_iter()
            .find(|key| key.oid == index.declared.oid)
        {
            return Ok(Some(Arbiter::Computed(Arc::new(key))));
        }
        let mut of_table = unique(definition);
        if let Some(index) = of_table.find(|key| Some(key.oid) == index.parent) {
            return Ok(Some(Arbiter::Columns(index.clone())));
        }
        let mut above = within.iter().filter_map(relation).flat_map(|above| &above.indexes);
        own = above.find(|above| Some(above.declared.oid) == index.parent);
    }
    Ok(None)
}

fn constraint<'a>(definition: &'a TableDefinition, name: &ObjectName) -> Result<&'a Index> {
    let name = super::last(name);
    let mut constraints = unique(definition).filter(|key| key.kind != IndexKind::Unique);
    let found = constraints.find(|key| key.name == name);
    found.ok_or_else(|| no_constraint(&name, &definition.name))
}

fn no_constraint(name: &str, table: &str) -> SqlError {
    let message = format!("constraint \"{name}\" for table \"{table}\" does not exist");
    SqlError::new(state::UNDEFINED_OBJECT, message)
}

/// The columns that a conflict target reads.
pub(super) fn columns(
    binder: &Binder,
    definition: &TableDefinition,
    target: &ConflictTarget,
    through: Option<&Through>,
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    match target {
        ConflictTarget::Columns(names) => {
            for name in names {
                match Element::of(name) {
                    Element::Column(name) => found.push(fold(name)),
                    Element::Key(text) | Element::Predicate(text) => {
                        found.extend(permitted::named(definition, &[&parse_expression(text)?]));
                    }
                }
            }
        }
        ConflictTarget::OnConstraint(name) => {
            let columns = match of_partition(binder, definition, name, &within(binder, through))? {
                Some(Arbiter::Columns(index)) => index.columns,
                Some(Arbiter::Computed(key)) => key.columns().to_vec(),
                None => constraint(definition, name)?.columns.clone(),
            };
            found.extend(columns.iter().map(|at| definition.columns[*at].name.clone()));
        }
    }
    Ok(found)
}

/// What makes rows conflict.
fn unique(definition: &TableDefinition) -> impl Iterator<Item = &Index> {
    definition.all_indexes().filter(|index| index.is_unique())
}

impl Arbiter {
    /// Where the rows with the keys of rows proposed are.
    pub(super) fn locate(
        &self,
        table: &TableVersion,
        proposed: &RecordBatch,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Vec<Option<RowLocation>>> {
        let key = match self {
            Arbiter::Columns(index) => {
                let keys = index.columns.iter().map(|at| proposed.column(*at).clone());
                return Ok(table.locate(index, &keys.collect::<Vec<_>>(), budget)?);
            }
            Arbiter::Computed(key) => key,
        };
        key.install(table.definition());
        let mut indexes = table.definition().computed_indexes();
        let index = indexes.find(|index| index.oid == key.oid);
        let index = index.ok_or_else(|| SqlError::internal("a key of no index"))?;
        Ok(table.locate_computed(index, &key.keys(proposed)?, budget)?)
    }
}

/// The keys of one index seen so far.
pub(super) struct Seen {
    of: Of,
    keys: HashSet<OwnedRow>,
}

enum Of {
    Columns(Columns),
    Computed(Arc<Key>),
}

struct Columns {
    places: Vec<usize>,
    nulls_not_distinct: bool,
    converter: RowConverter,
}

impl Columns {
    fn of(table: &TableVersion, key: &Index) -> Result<Columns> {
        let types = key.columns.iter().map(|at| table.schema().field(*at).data_type());
        let fields = types.map(|of| SortField::new(of.clone())).collect();
        Ok(Columns {
            places: key.columns.clone(),
            nulls_not_distinct: key.nulls_not_distinct,
            converter: RowConverter::new(fields).map_err(|error| from_arrow(&error))?,
        })
    }

    /// The key of each row; None where a NULL makes it equal no other.
    fn keys(&self, column: impl Fn(usize) -> ArrayRef) -> Result<Vec<Option<OwnedRow>>> {
        let columns: Vec<ArrayRef> = self.places.iter().map(|at| column(*at)).collect();
        let compared: Vec<ArrayRef> = columns.iter().map(compared).collect();
        let rows = self
            .converter
            .convert_columns(&compared)
            .map_err(|error| from_arrow(&error))?;
        let keyed = |row: usize| self.nulls_not_distinct || columns.iter().all(|column| !column.is_null(row));
        let keys = rows.iter().enumerate();
        Ok(keys.map(|(at, row)| keyed(at).then(|| row.owned())).collect())
    }
}

impl Seen {
    pub(super) fn of(table: &TableVersion, arbiter: &Arbiter) -> Result<Seen> {
        let of = match arbiter {
            Arbiter::Columns(key) => Of::Columns(Columns::of(table, key)?),
            Arbiter::Computed(key) => Of::Computed(key.clone()),
        };
        let keys = HashSet::new();
        Ok(Seen { of, keys })
    }

    /// Notes the keys of rows; false where one was there already.
    pub(super) fn all_new(&mut self, rows: &RecordBatch) -> Result<bool> {
        let keys = self.keys_of(rows)?;
        Ok(keys.into_iter().flatten().all(|key| self.keys.insert(key)))
    }

    fn keys_of(&self, rows: &RecordBatch) -> Result<Vec<Option<OwnedRow>>> {
        match &self.of {
            Of::Columns(columns) => columns.keys(|at| rows.column(at).clone()),
            Of::Computed(key) => key.of_rows(rows),
        }
    }
}

/// The keys of a table and those seen so far, over the indexes that decide.
pub(super) struct Keys {
    table: Arc<TableVersion>,
    budget: Arc<MemoryBudget>,
    seen: Vec<(Arbiter, Seen)>,
    /// Rows of the table that kept others out, the first of them.
    met: Vec<RowLocation>,
}

impl Keys {
    pub(super) fn of(table: &Arc<TableVersion>, arbiters: &[Arbiter], budget: &Arc<MemoryBudget>) -> Result<Keys> {
        let seen = arbiters
            .iter()
            .map(|arbiter| Ok((arbiter.clone(), Seen::of(table, arbiter)?)));
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
        for (arbiter, seen) in &self.seen {
            let there = arbiter.locate(&self.table, batch, &self.budget)?;
            new.iter_mut()
                .zip(&there)
                .for_each(|(new, there)| *new &= there.is_none());
            let room = claims::REFUSED_MAX - self.met.len();
            self.met.extend(there.into_iter().flatten().take(room));
            keys.push(seen.keys_of(batch)?);
        }
        for (row, new) in new.iter_mut().enumerate() {
            let is_seen = |(keys, (_, seen)): (&Vec<Option<OwnedRow>>, &(Arbiter, Seen))| {
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
