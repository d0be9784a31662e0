//! Whether rows have the rows that they reference.

use super::Replaced;
use super::keys::{self, Form};
use super::settle::Violation;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::from_arrow;
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::{cast, concat};
use std::sync::Arc;
use tenon_storage::Subject;
use tenon_storage::{
    DatabaseState, ForeignKey, Index, MemoryBudget, PendingKeys, SEGMENT_ROWS_MAX, Segment, TableDefinition,
    TableVersion, Transaction,
};

/// Rows whose keys are looked up at a time.
const ROWS_AT_A_TIME: usize = 8 * SEGMENT_ROWS_MAX;
/// More keys than these are not told one by one to the transaction that relied on them.
const KEYS_TOLD_MAX: usize = 1 << 12;

/// A constraint between two tables as they are.
pub(super) struct Constraint {
    pub key: ForeignKey,
    pub child: Arc<TableVersion>,
    pub parent: Arc<TableVersion>,
    /// The referenced columns.
    pub columns: Vec<usize>,
    forms: Vec<Form>,
    budget: Arc<MemoryBudget>,
}

impl Constraint {
    pub(super) fn of(
        state: &DatabaseState,
        child: &Arc<TableVersion>,
        key: &ForeignKey,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Constraint> {
        let parent = state.table_by_oid(key.references);
        let found = parent.and_then(|parent| Some((parent, key.referenced_columns(parent.definition())?)));
        let Some((parent, columns)) = found else {
            let message = format!("what constraint \"{}\" references is not there", key.name);
            return Err(SqlError::internal(message));
        };
        let mut forms = Vec::with_capacity(columns.len());
        for (own, referenced) in key.columns.iter().zip(&columns) {
            let own = child.definition().columns[*own].sql_type;
            let referenced = parent.definition().columns[*referenced].sql_type;
            let form = keys::form(own, referenced)?;
            forms.push(form.ok_or_else(|| SqlError::internal("keys that cannot be compared"))?);
        }
        Ok(Constraint {
            key: key.clone(),
            child: child.clone(),
            parent: parent.clone(),
            columns,
            forms,
            budget: budget.clone(),
        })
    }

    /// Whether equal values of a column of the key may differ in their blanks.
    pub(super) fn is_blankless(&self, at: usize) -> bool {
        self.forms[at] == Form::Blankless
    }

    /// Whether keys are told one by one: not where equal ones may differ in their blanks.
    pub(super) fn tells_keys(&self) -> bool {
        !self.forms.contains(&Form::Blankless)
    }

    /// Which keys the referenced table has.
    pub(super) fn in_parent(&self, keys: &[ArrayRef]) -> Result<keys::Found> {
        keys::find(&self.parent, &self.columns, &self.forms, keys, &self.budget)
    }

    /// Which keys the referencing table has.
    pub(super) fn in_child(&self, keys: &[ArrayRef]) -> Result<keys::Found> {
        keys::find(&self.child, &self.key.columns, &self.forms, keys, &self.budget)
    }

    /// The columns of rows that the referencing table has, or is to have.
    fn keys_of(&self, segments: &[Arc<Segment>]) -> Result<Vec<ArrayRef>> {
        let columns = self.key.columns.iter().map(|column| {
            let parts: Vec<ArrayRef> = segments.iter().map(|segment| segment.column(*column)).collect();
            match parts.as_slice() {
                [only] => Ok(only.clone()),
                parts => {
                    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
                    concat(&parts).map_err(|error| from_arrow(&error))
                }
            }
        });
        columns.collect()
    }

    /// The keys that are looked up: those without a NULL. 23503 for a row that MATCH FULL does not take.
    fn asked(&self, keys: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
        let (valid, mixed) = keys::valid(&keys);
        if self.key.match_full && !mixed.is_empty() {
            return Err(self.mixed());
        }
        match keys.first().is_some_and(|first| first.len() == valid.len()) {
            true => Ok(keys),
            false => keys::pick(&keys, &valid),
        }
    }

    /// Keys of the referencing table that the referenced one does not have. What was found is told to the transaction.
    pub(super) fn missing_keys(
        &self,
        transaction: Option<&mut Transaction>,
        keys: Vec<ArrayRef>,
    ) -> Result<Vec<ArrayRef>> {
        let missing = |found: &keys::Found| {
            let missing = (0..found.is_there.len()).filter(|row| !found.is_there[*row]);
            missing.map(|row| row as u32).collect::<Vec<_>>()
        };
        let found = self.in_parent(&keys)?;
        let mut left = keys::pick(&keys, &missing(&found))?;
        let Some(transaction) = transaction else {
            return Ok(left);
        };
        let known = self.index_keys(&keys, &found.distinct)?;
        transaction.rely_on_rows(self.parent.oid(), self.key.index, known);
        if let Some(newer) = self.newer_parent(transaction)
            && left.first().is_some_and(|keys| !keys.is_empty())
        {
            let mut found = keys::find(&newer, &self.columns, &self.forms, &left, &self.budget)?;
            // Those that the snapshot had as well, this transaction has taken away.
            if let Some(base) = transaction.base().table_by_oid(self.parent.oid()) {
                let before = keys::find(base, &self.columns, &self.forms, &left, &self.budget)?;
                found.distinct.retain(|row| !before.is_there[*row as usize]);
                let is_new = found.is_there.iter().zip(&before.is_there);
                found.is_there = is_new.map(|(now, before)| *now && !before).collect();
            }
            if !found.distinct.is_empty() {
                let known = self.index_keys(&left, &found.distinct)?;
                transaction.rely_on_newer_rows(&newer, self.key.index, known);
            }
            left = keys::pick(&left, &missing(&found))?;
        }
        Ok(left)
    }

    /// A partitioned table that is referenced as others have committed it since the snapshot: there PostgreSQL takes rows that
    /// the snapshot does not show (`RI_FKey_check`).
    fn newer_parent(&self, transaction: &Transaction) -> Option<Arc<TableVersion>> {
        self.parent.definition().partitioning.as_ref()?;
        let newest = transaction.database().snapshot();
        let newer = newest.table_by_oid(self.parent.oid())?;
        Arc::ptr_eq(newer.definition(), self.parent.definition()).then(|| newer.clone())
    }

    /// Some of the keys as the referenced index has them; None where they are too many or of other types.
    fn index_keys(&self, keys: &[ArrayRef], rows: &[u32]) -> Result<Option<Vec<ArrayRef>>> {
        let index = self.key.index_of(self.parent.definition());
        let few = |index: &&Index| index.columns.len() == keys.len() && rows.len() <= KEYS_TOLD_MAX;
        let Some(index) = index.filter(few).filter(|_| self.tells_keys()) else {
            return Ok(None);
        };
        let picked = keys::pick(keys, rows)?;
        let of_place = |place: usize| self.key.places.iter().position(|own| *own == place);
        let ordered: Option<Vec<ArrayRef>> = (0..keys.len())
            .map(|place| Some(picked[of_place(place)?].clone()))
            .collect();
        match ordered {
            Some(ordered) => told(&self.parent, &index.columns, &ordered),
            None => Ok(None),
        }
    }

    /// What is wrong where the referencing table has one of these keys; else the transaction is told that they must not come
    /// there.
    pub(super) fn referencing(
        &self,
        transaction: &mut Transaction,
        keys: &[ArrayRef],
        are_gone: bool,
    ) -> Result<Option<Violation>> {
        let found = self.in_child(keys)?;
        let Some(at) = found.is_there.iter().position(|there| *there) else {
            self.rely_on_absence(transaction, keys)?;
            return Ok(None);
        };
        let row = match told(&self.child, &self.key.columns, &keys::pick(keys, &[at as u32])?)? {
            Some(key) if are_gone => self.child.locate_in(&self.key.columns, &key, &self.budget)?,
            _ => Vec::new(),
        };
        Ok(Some(Violation {
            error: self.violated(keys, at, are_gone),
            child: self.child.clone(),
            rows: row.into_iter().flatten().collect(),
        }))
    }

    /// Tells the transaction that these keys must not come into the referencing table.
    pub(super) fn rely_on_absence(&self, transaction: &mut Transaction, keys: &[ArrayRef]) -> Result<()> {
        let columns = &self.key.columns;
        let few = keys.first().is_some_and(|keys| keys.len() <= KEYS_TOLD_MAX);
        let known = match few && self.tells_keys() {
            true => told(&self.child, columns, keys)?,
            false => None,
        };
        transaction.rely_on_absence(self.child.oid(), columns, known);
        Ok(())
    }

    fn missing(&self) -> SqlError {
        let message = format!(
            "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
            self.child.name(),
            self.key.name
        );
        SqlError::new(state::FOREIGN_KEY_VIOLATION, message).about(self.subject())
    }

    /// Whether rows of the referencing table have keys that mix NULLs and others, which MATCH FULL does not take.
    pub(super) fn has_mixed(&self, keys: &[ArrayRef]) -> Result<bool> {
        Ok(self.key.match_full && keys::has_any(&self.child, &self.key.columns, &self.forms, keys)?)
    }

    pub(super) fn mixed(&self) -> SqlError {
        let detail = "MATCH FULL does not allow mixing of null and nonnull key values.";
        self.missing().detail(detail)
    }

    fn subject(&self) -> Subject {
        let child = self.child.definition();
        Subject::table(&child.schema_name, &child.name).constraint(&self.key.name)
    }

    /// 23503 for a key that the referencing table has and the referenced one does not.
    pub(super) fn violated(&self, keys: &[ArrayRef], row: usize, is_gone: bool) -> SqlError {
        let (error, of, columns) = match is_gone {
            false => (self.missing(), self.child.definition(), &self.key.columns),
            true => {
                let message = format!(
                    "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
                    self.parent.name(),
                    self.key.name,
                    self.child.name()
                );
                let error = SqlError::new(state::FOREIGN_KEY_VIOLATION, message).about(self.subject());
                (error, self.parent.definition(), &self.columns)
            }
        };
        let names: Vec<&str> = columns.iter().map(|column| of.columns[*column].name.as_str()).collect();
        let values: Vec<String> = keys.iter().map(|keys| keys::display(keys, row)).collect();
        let rest = match is_gone {
            false => format!("is not present in table \"{}\".", self.parent.name()),
            true => format!("is still referenced from table \"{}\".", self.child.name()),
        };
        error.detail(format!("Key ({})=({}) {rest}", names.join(", "), values.join(", ")))
    }
}

/// Keys in the types of a table's columns; None where a cast would not keep which are equal.
fn told(table: &TableVersion, columns: &[usize], keys: &[ArrayRef]) -> Result<Option<Vec<ArrayRef>>> {
    let mut told = Vec::with_capacity(keys.len());
    for (keys, column) in keys.iter().zip(columns) {
        let wanted = table.schema().field(*column).data_type();
        told.push(match keys.data_type() == wanted {
            true => keys.clone(),
            // A number that its column cannot hold becomes NULL, which equals no other.
            false if keys.data_type().is_integer() && wanted.is_integer() => {
                cast(keys, wanted).map_err(|error| from_arrow(&error))?
            }
            false => return Ok(None),
        });
    }
    Ok(Some(told))
}

/// Looks up what rows that were just written reference. Keys that are missing may come yet: they are pending.
pub(in crate::session::statements) fn written(
    transaction: &mut Transaction,
    definition: &TableDefinition,
    rows: &[Arc<Segment>],
    replaced: Option<&Replaced>,
) -> Result<()> {
    let state = transaction.state().clone();
    let Some(child) = state.table_by_oid(definition.oid) else {
        return Ok(());
    };
    if transaction.is_replica() {
        return Ok(());
    }
    let budget = transaction.database().budget().clone();
    for key in child.definition().foreign_keys.iter().filter(|key| !key.unchecked) {
        let constraint = Constraint::of(&state, child, key, &budget)?;
        match replaced.filter(|replaced| !replaced.updated.is_empty()) {
            None => {
                for rows in chunks(rows) {
                    check(transaction, &constraint, constraint.keys_of(rows)?)?;
                }
            }
            Some(replaced) => {
                let keys = constraint.keys_of(rows)?;
                let keys = changed(&constraint, keys, replaced)?;
                let count = keys.first().map_or(0, |keys| keys.len());
                for offset in (0..count).step_by(ROWS_AT_A_TIME) {
                    let rows = ROWS_AT_A_TIME.min(count - offset);
                    let keys = keys.iter().map(|keys| keys.slice(offset, rows));
                    check(transaction, &constraint, keys.collect())?;
                }
            }
        }
    }
    Ok(())
}

/// Segments of so many rows as are looked up at a time.
fn chunks(segments: &[Arc<Segment>]) -> impl Iterator<Item = &[Arc<Segment>]> {
    let mut rest = segments;
    std::iter::from_fn(move || {
        let mut rows = 0;
        let mut count = 0;
        while count < rest.len() && (count == 0 || rows + rest[count].rows() <= ROWS_AT_A_TIME) {
            rows += rest[count].rows();
            count += 1;
        }
        let (chunk, more) = rest.split_at(count);
        rest = more;
        (count > 0).then_some(chunk)
    })
}

/// The keys of the rows that are new, or were another's before: a row that keeps its key is not looked at.
fn changed(constraint: &Constraint, keys: Vec<ArrayRef>, replaced: &Replaced) -> Result<Vec<ArrayRef>> {
    let rows = keys.first().map_or(0, |keys| keys.len());
    let places: Vec<(u32, u32)> = replaced.updated.iter().map(|(place, _)| *place).collect();
    let successors: Vec<u32> = replaced.updated.iter().map(|(_, row)| *row).collect();
    let mut is_asked = vec![true; rows];
    successors.iter().for_each(|row| is_asked[*row as usize] = false);
    if replaced.assigns(&constraint.key.columns) {
        let before = constraint.key.columns.iter();
        let before = before.map(|column| keys::gather(&replaced.table, *column, &places));
        let before = before.collect::<Result<Vec<_>>>()?;
        let after = keys::pick(&keys, &successors)?;
        for at in keys::different(&before, &after)? {
            is_asked[successors[at as usize] as usize] = true;
        }
    }
    let asked: Vec<u32> = (0..rows as u32).filter(|row| is_asked[*row as usize]).collect();
    keys::pick(&keys, &asked)
}

fn check(transaction: &mut Transaction, constraint: &Constraint, keys: Vec<ArrayRef>) -> Result<()> {
    let (valid, mixed) = keys::valid(&keys);
    let pending = |keys: Vec<ArrayRef>| PendingKeys {
        constraint: constraint.key.oid,
        table: constraint.child.oid(),
        keys,
        are_gone: false,
        at_once: false,
    };
    if constraint.key.match_full && !mixed.is_empty() {
        transaction.add_pending(pending(keys::pick(&keys, &mixed)?));
    }
    let keys = match keys.first().is_some_and(|first| first.len() == valid.len()) {
        true => keys,
        false => keys::pick(&keys, &valid)?,
    };
    if keys.first().is_none_or(|keys| keys.is_empty()) {
        return Ok(());
    }
    let missing = constraint.missing_keys(Some(&mut *transaction), keys)?;
    if missing.first().is_some_and(|keys| !keys.is_empty()) {
        transaction.add_pending(pending(missing));
    }
    Ok(())
}

/// Checks all rows of the referencing table.
pub(in crate::session::statements) fn validate(
    state: &DatabaseState,
    child: &Arc<TableVersion>,
    key: &ForeignKey,
    budget: &Arc<MemoryBudget>,
) -> Result<()> {
    let constraint = Constraint::of(state, child, key, budget)?;
    for rows in chunks(child.segments()) {
        let keys = constraint.asked(constraint.keys_of(rows)?)?;
        let missing = constraint.missing_keys(None, keys)?;
        if missing.first().is_some_and(|keys| !keys.is_empty()) {
            return Err(constraint.violated(&missing, 0, false));
        }
    }
    Ok(())
}
