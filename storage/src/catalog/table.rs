//! A table: its definition, and one immutable version of its rows.

use super::declaration::{Check, ColumnDef, DeviceResidence, OnCommit, TableDef};
use super::foreign_key::ForeignKey;
use super::index::{ColumnOrder, ExpressionIndex, Index, IndexKind};
use super::moves::{Move, Removed};
use super::partition::Partitioning;
use super::unique;
use crate::error::{ErrorKind, Result, StorageError};
use crate::memory::MemoryBudget;
use crate::segment::dictionary::Dictionary;
use crate::segment::{Live, Segment};
use crate::statistics::lazy::LazyStatistics;
use crate::statistics::{Distribution, TableStatistics};
use arrow::array::ArrayRef;
use arrow::datatypes::{Schema, SchemaRef};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

static NEXT_VERSION: AtomicU64 = AtomicU64::new(1);

/// Segments up to this size are merged with their neighbours.
const COMPACT_ROWS_MAX: usize = 1 << 16;
/// A segment of whose rows more than such a part is gone is built anew.
const WORN_PART: usize = 4;
/// Statistics are taken anew once as many rows are gone as such a part of those left.
const STALE_PART: u64 = 4;

/// Most columns that a table has, as in PostgreSQL.
pub const COLUMNS_MAX: usize = 1600;

/// A row of a table version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowLocation {
    /// Index into `TableVersion::segments`.
    pub segment: usize,
    pub row: usize,
}

/// All of a table except its rows. What is read from a store goes through `checked`, which makes what is not written.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TableDefinition {
    pub oid: u32,
    pub schema_name: String,
    pub name: String,
    pub columns: Vec<ColumnDef>,
    pub primary_key: Option<Index>,
    /// Those that are not the primary key's, in the order of their creation.
    pub indexes: Vec<Index>,
    pub expression_indexes: Vec<ExpressionIndex>,
    pub checks: Vec<Check>,
    /// In the order of their creation. Stores of before have none.
    #[serde(default)]
    pub foreign_keys: Vec<ForeignKey>,
    pub on_commit: OnCommit,
    /// The query whose rows a materialized view holds, as SQL text.
    pub query: Option<String>,
    /// Where it has partitions.
    pub partitioning: Option<Partitioning>,
    /// What `tenon.device` of its storage parameters says; None: it is not set.
    pub device: Option<DeviceResidence>,
    /// False for a materialized view that has no rows yet.
    pub is_populated: bool,
    /// The columns as Arrow fields (`SqlType::field`); not nullable where NOT NULL.
    #[serde(skip, default = "no_columns")]
    pub schema: SchemaRef,
    /// One a string column, shared with the versions of the table before and after.
    #[serde(skip)]
    pub(crate) dictionaries: Vec<Option<Arc<Dictionary>>>,
}

/// The columns of what is read from a store, before they are made of its definition.
pub(super) fn no_columns() -> SchemaRef {
    Arc::new(Schema::empty())
}

impl TableDefinition {
    pub(crate) fn new(
        oid: u32,
        key_oid: u32,
        schema_name: &str,
        name: &str,
        def: TableDef,
    ) -> Result<Arc<TableDefinition>> {
        let mut definition = TableDefinition {
            oid,
            schema_name: schema_name.into(),
            name: name.into(),
            columns: def.columns,
            primary_key: None,
            indexes: Vec::new(),
            expression_indexes: Vec::new(),
            checks: def.checks,
            foreign_keys: Vec::new(),
            on_commit: def.on_commit,
            query: def.query,
            partitioning: def.partitioning,
            device: None,
            is_populated: true,
            schema: Arc::new(Schema::empty()),
            dictionaries: Vec::new(),
        };
        if !def.primary_key.is_empty() {
            definition.set_primary_key(&def.primary_key, def.primary_key_name, key_oid)?;
        }
        definition.checked()
    }

    /// Declares the key; its columns become NOT NULL.
    pub(super) fn set_primary_key(&mut self, names: &[String], constraint: Option<String>, oid: u32) -> Result<()> {
        let mut columns = Vec::new();
        for column in names {
            let position = self.column_index(column).ok_or_else(|| {
                let message = format!("column \"{column}\" named in key does not exist");
                StorageError::new(ErrorKind::UndefinedColumn, message)
            })?;
            if columns.contains(&position) {
                let message = format!("column \"{column}\" appears twice in primary key constraint");
                return Err(StorageError::new(ErrorKind::DuplicateColumn, message));
            }
            self.columns[position].not_null = true;
            columns.push(position);
        }
        let name = constraint.unwrap_or_else(|| format!("{}_pkey", self.name));
        self.primary_key = Some(Index {
            oid,
            name,
            kind: IndexKind::Primary,
            order: vec![ColumnOrder::default(); columns.len()],
            columns,
            nulls_not_distinct: false,
            slot: Arc::default(),
        });
        Ok(())
    }

    /// Rebuilds the Arrow schema and checks the columns.
    pub(crate) fn checked(mut self) -> Result<Arc<TableDefinition>> {
        if self.columns.len() > COLUMNS_MAX {
            let message = format!("tables can have at most {COLUMNS_MAX} columns");
            return Err(StorageError::new(ErrorKind::ProgramLimit, message));
        }
        let mut names = std::collections::HashSet::new();
        if let Some(twice) = self.columns.iter().find(|column| !names.insert(&column.name)) {
            return Err(StorageError::duplicate_column(&twice.name));
        }
        let fields: Vec<_> = self
            .columns
            .iter()
            .map(|column| column.sql_type.field(&column.name, !column.not_null))
            .collect();
        self.schema = Arc::new(Schema::new(fields));
        for column in &self.columns[self.dictionaries.len()..] {
            self.dictionaries.push(column.sql_type.is_string().then(Arc::default));
        }

        Ok(Arc::new(self))
    }

    /// The index of a PRIMARY KEY or UNIQUE constraint.
    pub fn constraint_index(&self, name: &str) -> Option<&Index> {
        self.all_indexes()
            .find(|index| index.name == name && matches!(index.kind, IndexKind::Primary | IndexKind::Constraint))
    }

    /// Whether rows that others add meanwhile have to be seen before rows are added.
    pub(super) fn checks_all_rows(&self) -> bool {
        self.expression_indexes.iter().any(|index| index.unique)
    }

    /// The names of all constraints.
    pub fn constraints(&self) -> impl Iterator<Item = &str> {
        let keys = self
            .all_indexes()
            .filter(|index| matches!(index.kind, IndexKind::Primary | IndexKind::Constraint));
        keys.map(|index| index.name.as_str())
            .chain(self.checks.iter().map(|check| check.name.as_str()))
            .chain(self.foreign_keys.iter().map(|key| key.name.as_str()))
    }

    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// The rows of a table as one transaction sees them. Shares segments with the versions before and after it.
#[derive(Clone, Debug)]
pub struct TableVersion {
    definition: Arc<TableDefinition>,
    version: u64,
    /// The version that last had anything but rows added: those that follow with the same number have its rows and more.
    rows_since: u64,
    segments: Arc<[Arc<Segment>]>,
    statistics: Arc<TableStatistics>,
    lazy: Arc<LazyStatistics>,
}

impl TableVersion {
    pub(crate) fn new(definition: Arc<TableDefinition>, segments: Vec<Arc<Segment>>) -> Arc<TableVersion> {
        let statistics = statistics_of(&definition, &segments);
        Self::with_statistics(definition, segments, statistics)
    }

    fn with_statistics(
        definition: Arc<TableDefinition>,
        segments: Vec<Arc<Segment>>,
        statistics: TableStatistics,
    ) -> Arc<TableVersion> {
        let version = NEXT_VERSION.fetch_add(1, Ordering::Relaxed);
        Arc::new(TableVersion {
            lazy: LazyStatistics::new(definition.columns.len()),
            definition,
            version,
            rows_since: version,
            segments: segments.into(),
            statistics: Arc::new(statistics),
        })
    }

    /// The next version, without rows, and with segments added behind those that are left. Checks the unique indexes, unless
    /// `keys_kept`: the added rows have the keys of the removed.
    pub(crate) fn changed(
        &self,
        removed: &Removed,
        added: &[Arc<Segment>],
        keys_kept: bool,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Arc<TableVersion>> {
        let mut statistics = (*self.statistics).clone();
        let mut segments = Vec::with_capacity(self.segments.len() + added.len());
        for segment in self.segments.iter() {
            let Some(live) = removed.left_of(segment)? else {
                segments.push(segment.clone());
                continue;
            };
            remove_rows(&mut statistics, segment, &live);
            if live.rows() > 0 {
                segments.push(Segment::left(segment.whole(), Arc::new(live)));
            }
        }
        if !keys_kept {
            unique::check(&self.definition, &segments, added, budget)?;
        }
        for segment in added {
            add_segment(&mut statistics, segment);
            segments.push(segment.clone());
        }
        let removed = statistics.removed - self.statistics.removed;
        let mut next =
            Self::with_statistics(self.definition.clone(), segments, statistics).knowing(&self.lazy, removed);
        if removed == 0 {
            Arc::make_mut(&mut next).rows_since = self.rows_since;
        }
        Ok(next)
    }

    /// The same rows in segments that are worth keeping, those of the first `from` left alone: segments of which much was
    /// removed are built anew, and small ones merged. Gives the moves of rows, too.
    pub(crate) fn settled(self: Arc<Self>, from: usize, budget: &Arc<MemoryBudget>) -> (Arc<TableVersion>, Vec<Move>) {
        let (alone, others) = self.segments.split_at(from);
        let worn = |segment: &Arc<Segment>| {
            let is_worn = segment.live().is_some_and(|live| is_worn(live));
            is_worn.then(|| self.rebuilt(segment, budget)).flatten()
        };
        let rebuilt: Vec<Option<Arc<Segment>>> = match others.iter().any(|segment| segment.live().is_some()) {
            true => others.par_iter().map(worn).collect(),
            false => vec![None; others.len()],
        };
        let mut moves = Vec::new();
        let mut segments = alone.to_vec();
        for (segment, rebuilt) in others.iter().zip(rebuilt) {
            moves.extend(rebuilt.as_ref().map(|rebuilt| Move::of(segment, rebuilt, 0)));
            segments.push(rebuilt.unwrap_or_else(|| segment.clone()));
            compact(&mut segments, from, &self.definition, budget, &mut moves);
        }
        let is_stale = self.statistics.removed * STALE_PART > self.statistics.rows;
        if moves.is_empty() && !is_stale {
            return (self, moves);
        }
        let statistics = match is_stale {
            false => (*self.statistics).clone(),
            true => statistics_of(&self.definition, &segments),
        };
        let mut next = Self::with_statistics(self.definition.clone(), segments, statistics).knowing(&self.lazy, 0);
        Arc::make_mut(&mut next).rows_since = self.rows_since;
        (next, moves)
    }

    fn rebuilt(&self, segment: &Segment, budget: &Arc<MemoryBudget>) -> Option<Arc<Segment>> {
        let columns: Vec<ArrayRef> = (0..segment.columns()).map(|column| segment.column(column)).collect();
        let columns: Vec<Vec<&ArrayRef>> = columns.iter().map(|column| vec![column]).collect();
        // Where memory is short the segment stays as it is.
        Segment::build(&columns, &self.definition.dictionaries, segment.rows(), budget).ok()
    }

    /// A version of the table that has no rows and holds no memory for any.
    pub fn without_rows(&self) -> Arc<TableVersion> {
        Self::new(self.definition.clone(), Vec::new())
    }

    /// The same rows under another definition of the same columns.
    pub(crate) fn redefined(&self, definition: Arc<TableDefinition>) -> Arc<TableVersion> {
        Self::with_statistics(definition, self.segments.to_vec(), (*self.statistics).clone()).knowing(&self.lazy, 0)
    }

    /// This new version with the samples of the one before it, as far as they still hold.
    fn knowing(self: Arc<Self>, before: &LazyStatistics, removed: u64) -> Arc<Self> {
        let lazy = before.following(self.rows(), removed);
        let mut own = Arc::unwrap_or_clone(self);
        own.lazy = lazy;
        Arc::new(own)
    }

    /// Where the rows with these keys are: for each row of `keys`, whose columns are those of the unique index `key` in
    /// its order and have their types.
    pub fn locate(
        &self,
        key: &Index,
        keys: &[ArrayRef],
        budget: &Arc<MemoryBudget>,
    ) -> Result<Vec<Option<RowLocation>>> {
        unique::locate(&self.definition, key, &self.segments, keys, budget)
    }

    pub fn definition(&self) -> &Arc<TableDefinition> {
        &self.definition
    }

    pub fn oid(&self) -> u32 {
        self.definition.oid
    }

    pub fn name(&self) -> &str {
        &self.definition.name
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.definition.schema
    }

    /// Unique in the process; changes with every change of the rows or the definition.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Versions of the same number have all rows of those before them.
    pub(super) fn rows_since(&self) -> u64 {
        self.rows_since
    }

    pub fn segments(&self) -> &Arc<[Arc<Segment>]> {
        &self.segments
    }

    pub fn statistics(&self) -> &Arc<TableStatistics> {
        &self.statistics
    }

    /// Distinct values of a column, NULL not counted; estimated.
    pub fn distinct(&self, column: usize) -> u64 {
        let own = &self.statistics.columns;
        self.lazy
            .distinct(column, || own.get(column).map_or(0, |own| own.distinct()))
    }

    /// How the values of a column are spread. Takes a sample when first asked, and again once a tenth of the rows are
    /// others.
    pub fn distribution(&self, column: usize) -> Arc<Distribution> {
        self.lazy.distribution(column, &self.segments)
    }

    /// Takes a larger sample of a column, for all who use this version and those that follow it.
    pub fn analyze(&self, column: usize) {
        self.lazy.analyze(column, &self.segments);
    }

    pub fn rows(&self) -> u64 {
        self.statistics.rows
    }

    /// Bytes of memory that the table's columns hold.
    pub fn bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.bytes()).sum()
    }
}

/// Merges small segments at the end, those after the first `from` alone, so that many small inserts leave few segments, each
/// row copied a few times.
pub(super) fn compact(
    segments: &mut Vec<Arc<Segment>>,
    from: usize,
    definition: &TableDefinition,
    budget: &Arc<MemoryBudget>,
    moves: &mut Vec<Move>,
) {
    // Where memory is short the segments stay as they are.
    while let [.., before, last] = &segments[from..]
        && before.rows() < 2 * last.rows()
        && before.rows() + last.rows() <= COMPACT_ROWS_MAX
    {
        let columns: Vec<_> = (0..definition.columns.len())
            .map(|i| [before.column(i), last.column(i)])
            .collect();
        let columns: Vec<Vec<_>> = columns.iter().map(|pair| pair.iter().collect()).collect();
        let rows = before.rows() + last.rows();
        let Ok(merged) = Segment::build(&columns, &definition.dictionaries, rows, budget) else {
            return;
        };
        moves.extend([Move::of(before, &merged, 0), Move::of(last, &merged, before.rows())]);
        segments.truncate(segments.len() - 2);
        segments.push(merged);
    }
}

/// Whether so much of a segment is gone that it is built anew.
fn is_worn(live: &Live) -> bool {
    (live.all_rows() - live.rows()) * WORN_PART > live.all_rows()
}

fn statistics_of(definition: &TableDefinition, segments: &[Arc<Segment>]) -> TableStatistics {
    let mut statistics = TableStatistics::empty(definition.columns.len());
    segments
        .iter()
        .for_each(|segment| add_segment(&mut statistics, segment));
    statistics
}

/// Takes out what a segment loses where `live` is left of it.
fn remove_rows(statistics: &mut TableStatistics, segment: &Segment, live: &Live) {
    let gone = (segment.rows() - live.rows()) as u64;
    for (column, own) in statistics.columns.iter_mut().enumerate() {
        let nulls = match own.null_count {
            0 => 0,
            _ => {
                let rows = live.gone_since(segment.live().map(AsRef::as_ref));
                segment.whole_nulls(column, rows)
            }
        };
        own.remove(gone, nulls);
    }
    statistics.rows -= gone;
    statistics.removed += gone;
}

fn add_segment(statistics: &mut TableStatistics, segment: &Segment) {
    statistics.rows += segment.rows() as u64;
    for (column, own) in statistics.columns.iter_mut().enumerate() {
        own.append(segment.statistics(column));
    }
}
