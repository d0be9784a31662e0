//! A table: its definition, and one immutable version of its rows.

use super::declaration::{Check, ColumnDef, DeviceResidence, OnCommit, TableDef};
use super::foreign_key::ForeignKey;
use super::index::{ColumnOrder, Deferral, ExpressionIndex, Index, IndexKind, IndexShown};
use super::partition::Partitioning;
use super::rows::statistics_of;
use super::unique::{self, KeyValues, Keyed};
use super::usage::TableUsage;
use crate::error::{ErrorKind, Result, StorageError};
use crate::memory::MemoryBudget;
use crate::segment::Segment;
use crate::segment::dictionary::Dictionary;
use crate::statistics::lazy::LazyStatistics;
use crate::statistics::{Distribution, TableStatistics};
use arrow::array::ArrayRef;
use arrow::datatypes::{Schema, SchemaRef};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

static NEXT_VERSION: AtomicU64 = AtomicU64::new(1);

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
    /// Those of partitions that are part of no valid one above, which have their rows here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partition_indexes: Vec<ExpressionIndex>,
    pub checks: Vec<Check>,
    /// In the order of their creation. Stores of before have none.
    #[serde(default)]
    pub foreign_keys: Vec<ForeignKey>,
    pub on_commit: OnCommit,
    /// The query whose rows a materialized view holds, as SQL text.
    pub query: Option<String>,
    /// Where it has partitions.
    pub partitioning: Option<Partitioning>,
    /// Storage parameters that are kept and shown, and change nothing: names and values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<(String, String)>,
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
    /// Of all versions of the table.
    #[serde(skip)]
    pub usage: Arc<TableUsage>,
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
            partition_indexes: Vec::new(),
            checks: def.checks,
            foreign_keys: Vec::new(),
            on_commit: def.on_commit,
            query: def.query,
            partitioning: def.partitioning,
            options: def.options,
            device: None,
            is_populated: true,
            schema: Arc::new(Schema::empty()),
            dictionaries: Vec::new(),
            usage: Arc::default(),
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
            include: Vec::new(),
            shown: IndexShown::default(),
            nulls_not_distinct: false,
            deferral: Deferral::Never,
            slot: Arc::default(),
            key_rows: Arc::default(),
        });
        Ok(())
    }

    /// The same where the names of constraints are checked, too.
    pub(crate) fn checked(self) -> Result<Arc<TableDefinition>> {
        let mut names = std::collections::HashSet::new();
        if let Some(twice) = self.constraints().find(|name| !names.insert(*name)) {
            let message = format!("constraint \"{twice}\" for relation \"{}\" already exists", self.name);
            return Err(StorageError::new(ErrorKind::DuplicateObject, message));
        }
        self.completed()
    }

    /// Rebuilds the Arrow schema and checks the columns.
    pub(crate) fn completed(mut self) -> Result<Arc<TableDefinition>> {
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
            .find(|index| index.name == name && index.is_constraint())
    }

    /// Whether rows with values in these columns may have other keys of unique indexes than with others.
    pub fn has_keys_of(&self, mut is_changed: impl FnMut(usize) -> bool) -> bool {
        let mut unique = self.all_indexes().filter(|index| index.is_unique());
        let mut computed = self.computed_indexes().filter(|index| index.unique);
        unique.any(|index| index.columns.iter().any(|at| is_changed(*at)))
            || computed.any(|index| {
                // What nothing has computed yet may read any column.
                let computed = index.computed.get();
                computed.is_none_or(|computed| computed.columns().iter().any(|at| is_changed(*at)))
            })
    }

    /// The names of all constraints.
    pub fn constraints(&self) -> impl Iterator<Item = &str> {
        let keys = self.all_indexes().filter(|index| index.is_constraint());
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
    pub(super) definition: Arc<TableDefinition>,
    version: u64,
    /// The version that last had anything but rows added: those that follow with the same number have its rows and more.
    pub(super) rows_since: u64,
    pub(super) segments: Arc<[Arc<Segment>]>,
    pub(super) statistics: Arc<TableStatistics>,
    pub(super) lazy: Arc<LazyStatistics>,
}

impl TableVersion {
    pub(crate) fn new(definition: Arc<TableDefinition>, segments: Vec<Arc<Segment>>) -> Arc<TableVersion> {
        let statistics = statistics_of(&definition, &segments);
        Self::with_statistics(definition, segments, statistics)
    }

    pub(super) fn with_statistics(
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

    /// A version of the table that has no rows and holds no memory for any.
    pub fn without_rows(&self) -> Arc<TableVersion> {
        Self::new(self.definition.clone(), Vec::new())
    }

    /// The same rows under another definition of the same columns.
    pub(crate) fn redefined(&self, definition: Arc<TableDefinition>) -> Arc<TableVersion> {
        Self::with_statistics(definition, self.segments.to_vec(), (*self.statistics).clone()).knowing(&self.lazy, 0)
    }

    /// This new version with the samples of the one before it, as far as they still hold.
    pub(super) fn knowing(self: Arc<Self>, before: &LazyStatistics, removed: u64) -> Arc<Self> {
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
        let asked = KeyValues {
            columns: keys.to_vec(),
            held: None,
        };
        unique::locate(&self.definition, &Keyed::Columns(key), &self.segments, &asked, budget)
    }

    /// The rows that have the keys of others, with the table's columns, in some unique index.
    pub fn with_keys_of(&self, others: &[Arc<Segment>], budget: &Arc<MemoryBudget>) -> Result<Vec<RowLocation>> {
        let mut found = Vec::new();
        for key in Keyed::all(&self.definition) {
            let key = key?;
            for segment in others {
                let asked = key.values(segment, 0, segment.rows())?;
                let located = unique::locate(&self.definition, &key, &self.segments, &asked, budget)?;
                found.extend(located.into_iter().flatten());
            }
        }
        Ok(found)
    }

    /// `locate` for keys of an index that computes them.
    pub fn locate_computed(
        &self,
        key: &ExpressionIndex,
        asked: &KeyValues,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Vec<Option<RowLocation>>> {
        let computed = key.computed.get();
        let computed = computed.ok_or_else(|| StorageError::internal("nothing computes the keys of an index"))?;
        unique::locate(
            &self.definition,
            &Keyed::Computed(key, computed),
            &self.segments,
            asked,
            budget,
        )
    }

    /// Where a row with each of these keys is, in any columns, whose types they have.
    pub fn locate_in(
        &self,
        columns: &[usize],
        keys: &[ArrayRef],
        budget: &Arc<MemoryBudget>,
    ) -> Result<Vec<Option<RowLocation>>> {
        let any = Index {
            oid: 0,
            name: String::new(),
            kind: IndexKind::Plain,
            columns: columns.to_vec(),
            order: vec![ColumnOrder::default(); columns.len()],
            include: Vec::new(),
            shown: IndexShown::default(),
            nulls_not_distinct: false,
            deferral: Deferral::Never,
            slot: Arc::default(),
            key_rows: Arc::default(),
        };
        self.locate(&any, keys, budget)
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
