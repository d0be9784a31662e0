//! Commit: a transaction's changes on top of what others have committed.

use super::super::database::Published;
use super::super::index::Index;
use super::super::moves::{Move, Removed};
use super::super::schema::SchemaEntry;
use super::super::state::{DatabaseState, Relation};
use super::{Touch, Transaction};
use crate::error::{ErrorKind, Result, StorageError};
use crate::memory::MemoryBudget;
use crate::store::Inline;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Transactions of so many rows at most are settled while others wait.
const SMALL_ROWS_MAX: usize = 256;

/// What a transaction sees, its rows in segments that are worth keeping, and the moves of rows of each table.
struct Settled {
    state: Arc<DatabaseState>,
    moves: BTreeMap<u32, Vec<Move>>,
}

/// What others have committed with a transaction's changes.
struct Merged {
    state: DatabaseState,
    /// Where the rows lie that it takes out of tables that others have changed.
    removed: BTreeMap<u32, Removed>,
    moves: Vec<Move>,
    /// Indexes in which keys stand twice, by table.
    waiting: Vec<(u32, Vec<u32>)>,
}

/// Whether deferred constraints wait on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Goes,
    Ends,
}

/// Puts the rows of a table in segments that are worth keeping, and gives their moves. None: there is no such table.
pub(crate) fn settle(state: &mut Arc<DatabaseState>, oid: u32, budget: &Arc<MemoryBudget>) -> Option<Vec<Move>> {
    let table = state.table_by_oid(oid)?;
    let version = table.version();
    let (settled, moves) = table.clone().settled(0, budget);
    if settled.version() != version {
        Arc::make_mut(state).put(Relation::Table(settled));
    }
    Some(moves)
}

impl Transaction {
    /// Makes the changes visible to all. On error nothing is changed; a SerializationFailure may succeed when retried
    /// from the beginning.
    pub fn commit(self) -> Result<()> {
        match self.publish()? {
            Some(published) => published.wait(),
            None => Ok(()),
        }
    }

    /// `commit`, which leaves it to the caller to wait until the changes are durable; None: there are none.
    pub fn publish(self) -> Result<Option<Published>> {
        if !self.is_dirty() {
            return Ok(None);
        }
        self.check_types()?;
        // What takes long is made here, where nobody waits for it: others commit meanwhile. Few rows are settled where they are
        // merged: should others have committed, those are other segments.
        let is_small = self.is_small();
        let own = match is_small {
            true => Settled {
                state: self.state.clone(),
                moves: BTreeMap::new(),
            },
            false => self.settled(),
        };
        let prepared = match self.database.store() {
            Some(store) => store.prepare(&self.base, &own.state)?,
            None => Inline::default(),
        };
        let holder = self.holder.clone();
        let published = self.database.clone().publish(prepared, holder, |current| {
            if Arc::ptr_eq(current, &self.base) {
                let own = if is_small { self.settled() } else { own };
                let moves = own.moves.into_values().flatten().collect();
                return Ok((own.state, moves));
            }
            let merged = self.merge(current, Some(own), Waiting::Ends)?;
            Ok((Arc::new(merged.state), merged.moves))
        });
        let published = published?;
        self.keep_counters();
        Ok(Some(published))
    }

    /// It is committed: sequences go on by the counters that it gave them.
    pub(crate) fn keep_counters(&self) {
        self.successions.iter().for_each(|own| own.keep());
    }

    /// `commit`, for which no thread waits: those who commit few rows at the same time share a record of the log, all share a
    /// sync.
    pub async fn finish(self) -> Result<()> {
        if let Some(store) = self.database.store()
            && self.is_dirty()
            && self.is_small()
            && !self.changes_meaning()
        {
            let store = store.clone();
            return self.database.clone().commit_together(&store, self).await;
        }
        match self.publish()? {
            Some(published) => published.finish().await,
            None => Ok(()),
        }
    }

    /// What others have committed with the changes of the transaction, its rows in segments of their own.
    pub(crate) fn onto(&self, current: &Arc<DatabaseState>) -> Result<Arc<DatabaseState>> {
        match Arc::ptr_eq(current, &self.base) {
            true => Ok(self.state.clone()),
            false => Ok(Arc::new(self.merge(current, None, Waiting::Ends)?.state)),
        }
    }

    /// The relations that it changes.
    pub(crate) fn changed(&self) -> impl Iterator<Item = u32> {
        self.touched.keys().copied()
    }

    /// Moves the transaction onto what is committed now, keeping its changes: a new snapshot for the next statement.
    pub fn refresh(&mut self) -> Result<()> {
        let current = self.database.snapshot();
        if Arc::ptr_eq(&current, &self.base) {
            return Ok(());
        }
        let mut removed = BTreeMap::new();
        self.state = if self.is_dirty() {
            let merged = self.merge(&current, None, Waiting::Goes)?;
            for (table, indexes) in merged.waiting {
                self.add_waiting(table, indexes);
            }
            removed = merged.removed;
            Arc::new(merged.state)
        } else {
            current.clone()
        };
        for (oid, touch) in &mut self.touched {
            if touch.base.is_some() {
                touch.base = current.relation_by_oid(*oid).cloned();
            }
            if let Some(removed) = removed.remove(oid) {
                touch.removed = removed;
            }
        }
        self.base = current;
        Ok(())
    }

    /// What the transaction sees, its rows in segments that are worth keeping.
    fn settled(&self) -> Settled {
        let mut own = Settled {
            state: self.state.clone(),
            moves: BTreeMap::new(),
        };
        for (oid, touch) in &self.touched {
            if touch.base.is_none() || touch.rewritten {
                continue;
            }
            if let Some(moves) = settle(&mut own.state, *oid, self.database.budget()) {
                own.moves.insert(*oid, moves);
            }
        }
        own
    }

    /// Whether it adds and takes so few rows that settling them takes no time to speak of.
    fn is_small(&self) -> bool {
        let rows = |touch: &Touch| {
            let added: usize = touch.appended.iter().map(|segment| segment.rows()).sum();
            added + touch.removed.rows()
        };
        let keeps = |(oid, touch): (&u32, &Touch)| {
            let own = self.state.table_by_oid(*oid);
            touch.removed.is_empty() || own.is_none_or(|own| own.is_settled_at_once())
        };
        self.touched.values().map(rows).sum::<usize>() <= SMALL_ROWS_MAX && self.touched.iter().all(keeps)
    }

    /// Whether it has changed more than rows.
    fn changes_meaning(&self) -> bool {
        let rows_alone = |(oid, touch): (&u32, &Touch)| match (&touch.base, self.state.relation_by_oid(*oid)) {
            (Some(Relation::Table(base)), Some(Relation::Table(own))) => {
                Arc::ptr_eq(base.definition(), own.definition())
            }
            _ => false,
        };
        !(self.objects.is_empty()
            && self.schemas_created.is_empty()
            && self.schemas_dropped.is_empty()
            && self.schemas_replaced.is_empty()
            && self.touched.iter().all(rows_alone))
    }

    /// The current state of others with this transaction's changes: those of a table that nobody else has changed as they are
    /// in `own`, and all rows in segments that are worth keeping, where it is given.
    fn merge(&self, current: &DatabaseState, mut own_settled: Option<Settled>, ends: Waiting) -> Result<Merged> {
        self.check_relied_on(current)?;
        self.check_reads(current)?;
        let (mut removed, mut moves, mut waiting) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut next = current.clone();
        for name in &self.schemas_created {
            if next.schema(name).is_some() {
                let message = format!("schema \"{name}\" already exists");
                return Err(StorageError::new(ErrorKind::DuplicateSchema, message));
            }
            let oid = self.state.schema(name).map_or(0, |schema| schema.oid);
            next.schemas.insert(name.clone(), Arc::new(SchemaEntry::new(oid)));
        }
        let mut finals = Vec::new();
        for (oid, touch) in &self.touched {
            let own = match &own_settled {
                Some(own) => own.state.relation_by_oid(*oid),
                None => self.state.relation_by_oid(*oid),
            };
            let own = own.cloned();
            let Some(base) = &touch.base else {
                finals.extend(own);
                continue;
            };
            let theirs = next
                .relation_by_oid(*oid)
                .cloned()
                .ok_or_else(StorageError::serialization)?;
            next.remove(theirs.schema_name(), theirs.name());
            match (base, &theirs) {
                (Relation::Table(base), Relation::Table(theirs)) if base.version() == theirs.version() => {
                    let known = own_settled.as_mut().map(|own| own.moves.remove(oid));
                    match (own, known) {
                        (Some(Relation::Table(own)), Some(None)) if !touch.rewritten => {
                            let (settled, moved) = own.settled(0, self.database.budget());
                            finals.push(Relation::Table(settled));
                            moves.extend(moved);
                        }
                        (own, known) => {
                            finals.extend(own);
                            moves.extend(known.flatten().into_iter().flatten());
                        }
                    }
                }
                (Relation::Table(base), Relation::Table(theirs))
                    if !touch.rewritten && Arc::ptr_eq(base.definition(), theirs.definition()) =>
                {
                    let budget = self.database.budget();
                    let gone = touch.removed.moved(theirs.segments(), &self.database.moves())?;
                    let waits = |index: &Index| ends == Waiting::Goes && self.key_waits(index);
                    let (mut table, twice) =
                        theirs.changed(&gone, &touch.appended, !touch.keys_changed, budget, waits)?;
                    waiting.push((*oid, twice));
                    if own_settled.is_some() {
                        let (settled, moved) = table.settled(0, budget);
                        table = settled;
                        moves.extend(moved);
                    }
                    removed.insert(*oid, gone);
                    finals.push(Relation::Table(table));
                }
                (Relation::View(base), Relation::View(theirs)) if Arc::ptr_eq(base, theirs) => finals.extend(own),
                (Relation::Partition(base), Relation::Partition(theirs)) if Arc::ptr_eq(base, theirs) => {
                    finals.extend(own)
                }
                (Relation::Sequence(base), Relation::Sequence(theirs)) if Arc::ptr_eq(base, theirs) => {
                    finals.extend(own)
                }
                _ => return Err(StorageError::serialization()),
            }
        }
        for name in &self.schemas_replaced {
            let is_left = next.schema(name).is_some_and(|schema| schema.is_empty());
            match self.state.schema(name).filter(|_| is_left) {
                Some(own) => next.schemas.insert(name.clone(), Arc::new(SchemaEntry::new(own.oid))),
                None => return Err(StorageError::serialization()),
            };
        }
        for relation in finals {
            let table = relation.as_table();
            let own_indexes = table.iter().flat_map(|table| table.definition().all_indexes());
            for name in own_indexes.map(|index| index.name.as_str()).chain([relation.name()]) {
                let taken = next
                    .schema(relation.schema_name())
                    .is_some_and(|schema| schema.has(name));
                if taken {
                    return Err(StorageError::duplicate_table(name));
                }
            }
            if !next.put(relation) {
                return Err(StorageError::serialization());
            }
        }
        for (key, before) in &self.objects {
            let theirs = next.objects.get(key);
            let same = match (before, theirs) {
                (Some(before), Some(theirs)) => before == theirs,
                (before, theirs) => before.is_none() && theirs.is_none(),
            };
            if !same {
                return Err(StorageError::serialization());
            }
            match self.state.objects.get(key) {
                Some(own) => next.objects.insert(key.clone(), own.clone()),
                None => next.objects.remove(key),
            };
        }
        for name in &self.schemas_dropped {
            if next.schema(name).is_none_or(|schema| !schema.is_empty()) {
                return Err(StorageError::serialization());
            }
            next.schemas.remove(name);
        }
        self.check_absence(current, &next)?;
        match self.changes_meaning() {
            true => next.change_meaning(),
            false => next.meaning = current.meaning,
        }
        Ok(Merged {
            state: next,
            removed,
            moves,
            waiting,
        })
    }
}
