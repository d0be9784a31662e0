//! Which relation a name stands for.

use super::places::WITHOUT_PLACES;
use super::system_columns::WITH_ADDRESSES;
use super::{Binder, as_role, changed, partition, reads, view};
use crate::catalog::files;
use crate::catalog::rights::Rights;
use crate::catalog::system;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::{from_arrow, from_datafusion};
use crate::pg::functions::session::Facts;
use crate::pg::identity::Acting;
use crate::pg::names::{created_in, parts};
use datafusion::arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use datafusion::common::TableReference;
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::logical_expr::TableSource;
use datafusion::sql::sqlparser::ast::ObjectName;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tenon_executor::scan::SegmentTable;
use tenon_storage::{DatabaseState, Index, Relation, Sequence, TableVersion, View, privilege};

/// Schema and name of a relation that exists, or is to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub schema: String,
    pub name: String,
}

/// Looks names up in a snapshot along a search path.
pub(crate) struct Names<'a> {
    pub snapshot: &'a DatabaseState,
    pub path: &'a [String],
    pub database: &'a str,
    /// Whose rights on schemas are asked for.
    pub acting: Acting,
}

/// A relation by its name in a string, as a statement's functions look it up.
pub(crate) fn relation_named<'a>(facts: &'a Facts, name: &str) -> Result<&'a Relation> {
    let names = Names {
        snapshot: &facts.snapshot,
        path: &facts.path,
        database: &facts.info.database,
        acting: facts.acting,
    };
    names.textual(name)
}

impl<'a> Names<'a> {
    /// The schema that the name gives, if any, and the last part.
    fn split(&self, name: &ObjectName) -> Result<(Option<String>, String)> {
        let mut parts = parts(name);
        let Some(last) = parts.pop() else {
            return Err(SqlError::new(state::SYNTAX_ERROR, "a name is missing"));
        };
        let schema = parts.pop();
        match parts.pop() {
            Some(database) if database != self.database => Err(cross_database(&format!("{database}.{last}"))),
            _ => Ok((schema, last)),
        }
    }

    /// `pg_temp` is the session's own schema.
    pub(crate) fn temporary<'n>(&self, schema: Option<&'n str>) -> Option<&'n str>
    where
        'a: 'n,
    {
        match schema {
            Some("pg_temp") => {
                let own = self.path.iter().find(|schema| schema.starts_with("pg_temp_"));
                Some(own.map_or("pg_temp", String::as_str))
            }
            other => other,
        }
    }

    fn rights(&self) -> Rights<'_> {
        Rights {
            state: self.snapshot,
            acting: self.acting,
        }
    }

    /// 42501 for a schema that is there, and in which the role may not look things up.
    pub(crate) fn check_usage(&self, schema: Option<&str>) -> Result<()> {
        match self.temporary(schema) {
            Some(schema) => self.rights().check_schema(schema, privilege::USAGE),
            None => Ok(()),
        }
    }

    /// An existing relation.
    pub(crate) fn find(&self, schema: Option<&str>, name: &str) -> Option<&'a Relation> {
        match self.temporary(schema) {
            Some(schema) => self.snapshot.relation(schema, name),
            None => self.path.iter().find_map(|schema| self.snapshot.relation(schema, name)),
        }
    }

    /// An existing relation; 42P01, or 3F000 for an unknown schema.
    pub(crate) fn relation(&self, name: &ObjectName) -> Result<&'a Relation> {
        let (schema, last) = self.split(name)?;
        self.check_usage(schema.as_deref())?;
        self.find(schema.as_deref(), &last)
            .ok_or_else(|| undefined(schema.as_deref(), &last))
    }

    /// A relation by its name in a string: `nextval('\"S\".x')`.
    pub(crate) fn textual(&self, name: &str) -> Result<&'a Relation> {
        let parts = crate::catalog::system::split(name);
        let (schema, last) = match parts.as_slice() {
            [last] => (None, last),
            [schema, last] => (Some(schema.as_str()), last),
            [_, schema, last] => (Some(schema.as_str()), last),
            _ => {
                let message = format!("improper relation name (too many dotted names): {}", parts.join("."));
                return Err(SqlError::new(state::SYNTAX_ERROR, message));
            }
        };
        self.check_usage(schema)?;
        if let Some(found) = self.find(schema, last) {
            return Ok(found);
        }
        let is_there = |schema: &str| {
            matches!(schema, "pg_catalog" | "information_schema" | "pg_temp") || self.snapshot.schema(schema).is_some()
        };
        Err(match schema {
            Some(schema) if !is_there(schema) => absent_schema(schema),
            _ => undefined(schema, last),
        })
    }

    /// Like `relation`, but None where it does not exist.
    pub(crate) fn existing(&self, name: &ObjectName) -> Result<Option<&'a Relation>> {
        let (schema, last) = self.split(name)?;
        self.check_usage(schema.as_deref())?;
        Ok(self.find(schema.as_deref(), &last))
    }

    /// An index of that name, whatever it is of: the oid of its table or partition, its own and its name.
    pub(crate) fn any_index(&self, name: &ObjectName) -> Result<Option<(u32, u32, &'a str)>> {
        if let Some((table, index)) = self.index(name)? {
            return Ok(Some((table.oid(), index.oid, &index.name)));
        }
        let (schema, last) = self.split(name)?;
        let within = |schema: &str| {
            let entry = self.snapshot.schema(schema)?;
            let of_expressions = entry.expression_index(&last);
            let of_expressions = of_expressions.map(|(table, index)| (table.oid(), index));
            let of_partition = || {
                entry
                    .partition_index(&last)
                    .map(|(own, index)| (own.oid, &index.declared))
            };
            of_expressions.or_else(of_partition)
        };
        let found = match schema {
            Some(schema) => within(self.temporary(Some(&schema)).unwrap_or_default()),
            None => self.path.iter().find_map(|schema| within(schema)),
        };
        Ok(found.map(|(table, index)| (table, index.oid, index.name.as_str())))
    }

    /// An index of that name, with its table.
    pub(crate) fn index(&self, name: &ObjectName) -> Result<Option<(&'a Arc<TableVersion>, &'a Index)>> {
        let (schema, last) = self.split(name)?;
        self.check_usage(schema.as_deref())?;
        Ok(match schema {
            Some(schema) => self
                .snapshot
                .index(self.temporary(Some(&schema)).unwrap_or_default(), &last),
            None => self.path.iter().find_map(|schema| self.snapshot.index(schema, &last)),
        })
    }

    /// Where a new relation of that name goes: the given schema, or the first of the path.
    pub(crate) fn target(&self, name: &ObjectName) -> Result<Target> {
        let (schema, name) = self.split(name)?;
        let schema = match schema {
            Some(schema) => schema,
            None => created_in(self.path)
                .cloned()
                .ok_or_else(|| SqlError::new(state::INVALID_SCHEMA_NAME, "no schema has been selected to create in"))?,
        };
        if self.snapshot.schema(&schema).is_none() {
            if schema == "pg_catalog" || schema == "information_schema" {
                let message = format!("permission denied to create \"{schema}.{name}\"");
                return Err(SqlError::new(state::INSUFFICIENT_PRIVILEGE, message)
                    .detail("System catalog modifications are currently disallowed."));
            }
            return Err(absent_schema(&schema));
        }
        self.rights().check_schema(&schema, privilege::CREATE)?;
        Ok(Target { schema, name })
    }
}

fn absent_schema(name: &str) -> SqlError {
    SqlError::new(state::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
}

fn cross_database(name: &str) -> SqlError {
    SqlError::unsupported(format!("cross-database reference \"{name}\""))
}

pub(crate) fn undefined(schema: Option<&str>, name: &str) -> SqlError {
    let shown = schema.map_or_else(|| name.to_string(), |schema| format!("{schema}.{name}"));
    SqlError::new(state::UNDEFINED_TABLE, format!("relation \"{shown}\" does not exist"))
}

/// Where a sequence stands, as a table of one row.
fn sequence_row(binder: &Binder, sequence: &Sequence) -> Result<Arc<dyn TableSource>> {
    let counter = sequence.counter();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![counter.last_value])),
        Arc::new(Int64Array::from(vec![counter.log_count])),
        Arc::new(BooleanArray::from(vec![counter.is_called])),
    ];
    let row = RecordBatch::try_new(sequence.schema.clone(), columns).map_err(|error| from_arrow(&error))?;
    let table = MemTable::try_new(sequence.schema.clone(), vec![vec![row]]);
    binder.facts.used.store(true, Ordering::Relaxed);
    Ok(provider_as_source(Arc::new(
        table.map_err(|error| from_datafusion(&error))?,
    )))
}

/// What a query reads for a name in FROM.
pub(super) fn source(binder: &Binder, name: &TableReference) -> Result<Arc<dyn TableSource>> {
    if let Some((after, name)) = changed::meant(binder, name) {
        return source(&after, &name);
    }
    if let Some((of_role, name)) = as_role::meant(binder, name) {
        return source(&of_role, &name);
    }
    if let Some((own, source)) = &binder.overlay
        && name.schema().is_none()
        && name.table() == own
    {
        return Ok(source.clone());
    }
    if name.schema().is_none()
        && let Some((_, rows)) = binder.relations.iter().find(|(own, _)| own == name.table())
    {
        return Ok(rows.clone());
    }
    if let Some(sampled) = name.table().strip_suffix(super::sample::WITH_POSITIONS) {
        return with_positions(binder, name.schema(), bare(sampled));
    }
    let (table, addressed) = bare(name.table());
    let (table, without_places) = match table.strip_suffix(WITHOUT_PLACES) {
        Some(table) => (table, true),
        None => (table, false),
    };
    let names = binder.names();
    if let Some(system) = system::source(binder, name.schema(), table)? {
        binder.check_system_table(table)?;
        return Ok(system);
    }
    if let Some(catalog) = name.catalog()
        && catalog != names.database
    {
        return Err(cross_database(&name.to_string()));
    }
    names.check_usage(name.schema())?;
    let found = names.find(name.schema(), table);
    if let Some(relation) = found {
        reads::note(binder, name, relation);
        reads::note_partitions(binder, relation);
    }
    match found {
        Some(Relation::Table(table)) => {
            if !table.definition().is_populated {
                let message = format!("materialized view \"{}\" has not been populated", table.name());
                return Err(SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                    .hint("Use the REFRESH MATERIALIZED VIEW command."));
            }
            if addressed {
                table.definition().usage.ask_addresses();
            }
            let provider = if addressed || binder.positions_of == Some(table.oid()) && !without_places {
                SegmentTable::with_positions(table.clone())
            } else {
                SegmentTable::new(table.clone())
            };
            let provider = provider.indexed(binder.services.database.budget());
            Ok(provider_as_source(Arc::new(provider)))
        }
        Some(Relation::View(found)) => view::source(binder, found),
        Some(Relation::Partition(found)) => partition::source(binder, found, addressed),
        Some(Relation::Sequence(sequence)) => sequence_row(binder, sequence),
        None => match files::named(table).filter(|_| name.schema().is_none()) {
            Some(format) => {
                binder.check_reads_files()?;
                let file = files::source(&binder.services, &binder.facts.cancel, table, format)?;
                binder.facts.used.store(true, Ordering::Relaxed);
                Ok(provider_as_source(Arc::new(file)))
            }
            None => Err(undefined(name.schema(), table)),
        },
    }
}

/// The view that a name in FROM stands for; None where it is something else.
pub(super) fn view<'b>(binder: &'b Binder, name: &ObjectName) -> Option<&'b View> {
    let (schema, table) = binder.names().split(name).ok()?;
    let is_own = |own: &String| schema.is_none() && *own == table;
    let mut of_statement = binder.overlay.iter().chain(&binder.relations);
    if of_statement.any(|(own, _)| is_own(own)) || system::source(binder, schema.as_deref(), &table).ok()?.is_some() {
        return None;
    }
    match binder.names().find(schema.as_deref(), &table)? {
        Relation::View(view) => Some(view),
        _ => None,
    }
}

/// A name in FROM without what says that addresses are wanted, and whether they are.
fn bare(name: &str) -> (&str, bool) {
    match name.strip_suffix(WITH_ADDRESSES) {
        Some(name) => (name, true),
        None => (name, false),
    }
}

/// A table with the places of its rows.
fn with_positions(
    binder: &Binder,
    schema: Option<&str>,
    (name, addressed): (&str, bool),
) -> Result<Arc<dyn TableSource>> {
    let not_a_table = || {
        let message = "TABLESAMPLE clause can only be applied to tables and materialized views";
        SqlError::new(state::FEATURE_NOT_SUPPORTED, message)
    };
    let found = binder.names().find(schema, name);
    if let Some(relation) = found {
        let asked = binder.rights().check(relation, privilege::SELECT);
        binder.answer(asked)?;
    }
    match found {
        Some(Relation::Table(table)) => {
            if addressed {
                table.definition().usage.ask_addresses();
            }
            let provider = SegmentTable::with_positions(table.clone());
            Ok(provider_as_source(Arc::new(provider)))
        }
        Some(Relation::Partition(_)) => Err(SqlError::unsupported("TABLESAMPLE of a partition")),
        Some(Relation::View(_) | Relation::Sequence(_)) => Err(not_a_table()),
        None if system::source(binder, schema, name)?.is_some() => Err(not_a_table()),
        None => Err(undefined(schema, name)),
    }
}
