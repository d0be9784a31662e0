//! CREATE TABLE ... PARTITION OF.

use super::{Parent, bound, indexes, own_keys, parent};
use crate::catalog::bind::{Target, fold};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::Outcome;
use crate::session::Session;
use crate::session::statements::{check_constraints, qualify, storage_parameters};
use datafusion::arrow::datatypes::Schema;
use datafusion::sql::sqlparser::ast::{
    self, ColumnOption, CreateTable, ForValues, ObjectName, PrimaryKeyConstraint, TableConstraint, UniqueConstraint,
};
use std::sync::Arc;
use tenon_storage::{Partition, Relation, TableDefinition};

pub(crate) async fn create(
    session: &mut Session,
    create: &CreateTable,
    place: &Target,
    of: &ObjectName,
    values: &ForValues,
) -> Result<Outcome> {
    let binder = session.binder();
    let relation = binder.names().relation(of)?.clone();
    binder.rights().check_owner(&relation)?;
    let parent = parent(&relation)?;
    let is_temporary = |schema: &str| schema.starts_with("pg_temp_");
    match (is_temporary(&place.schema), is_temporary(&parent.schema)) {
        (true, false) => {
            let message = format!(
                "cannot create a temporary relation as partition of permanent relation \"{}\"",
                parent.name
            );
            return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message));
        }
        (false, true) => {
            let message = format!(
                "cannot create a permanent relation as partition of temporary relation \"{}\"",
                parent.name
            );
            return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message));
        }
        _ => {}
    }
    let root = binder.snapshot.table_by_oid(parent.root).cloned();
    let root = root.ok_or_else(|| SqlError::internal("a partition has no table"))?;
    let mut partition = empty(&parent, place, &relation);
    own(session, create, root.definition(), place, &mut partition)?;
    let given = storage_parameters::declared(&create.table_options)?;
    (partition.options, _) = storage_parameters::of_table(&given, create.partition_by.is_some())?;
    if let Some(clause) = &create.partition_by {
        partition.partitioning = Some(super::partitioning(&binder, clause, &root.definition().schema)?);
        check_keys(root.definition(), &partition)?;
    }
    let bound = bound::declared(&binder, &parent, values)?;
    bound::check(&binder, &parent, &place.name, &bound)?;
    bound::check_default(session, &parent, &bound).await?;
    partition.bound = bound;
    session.transaction()?.lock().create_partition(partition)?;
    let there = |session: &Session| match session.state().relation(&place.schema, &place.name) {
        Some(Relation::Partition(partition)) => Ok(partition.clone()),
        _ => Err(SqlError::internal("a partition is not there")),
    };
    indexes::inherit(session, &*there(session)?)?;
    for key in own_keys(create) {
        let partition = there(session)?;
        if let Some(key) = own_keys::Key::of(&key) {
            own_keys::add_key(session, &partition, &key, false).await?;
        }
    }
    Ok(Outcome::Command("CREATE TABLE".into()))
}

/// A partition with the columns of its parent and nothing of its own.
pub(super) fn empty(parent: &Parent, place: &Target, of: &Relation) -> Partition {
    Partition {
        oid: 0,
        schema_name: place.schema.clone(),
        name: place.name.clone(),
        root: parent.root,
        parent: parent.oid,
        bound: tenon_storage::PartitionBound::Default,
        partitioning: None,
        checks: Vec::new(),
        not_null: Vec::new(),
        options: Vec::new(),
        indexes: Vec::new(),
        columns: of.as_partition().map_or_else(Vec::new, |own| own.columns.clone()),
        schema: Arc::new(Schema::empty()),
    }
}

/// 0A000 where a unique constraint of the table lacks a key that a partition is divided by.
pub(super) fn check_keys(root: &TableDefinition, partition: &Partition) -> Result<()> {
    for index in root.all_indexes().filter(|index| index.is_unique()) {
        let columns = index.columns.iter().map(|at| root.columns[*at].name.clone());
        let what = match index.kind {
            tenon_storage::IndexKind::Primary => "PRIMARY KEY",
            _ => "UNIQUE",
        };
        let columns: Vec<String> = columns.collect();
        super::check_unique(partition.partitioning.as_ref(), &partition.name, &columns, what)?;
    }
    Ok(())
}

/// The keys that a partition is declared with, those of single columns first.
fn own_keys(create: &CreateTable) -> Vec<TableConstraint> {
    let mut keys = Vec::new();
    for column in &create.columns {
        for option in &column.options {
            let columns = vec![column.name.clone().into()];
            keys.extend(match &option.option {
                ColumnOption::PrimaryKey(key) => Some(TableConstraint::PrimaryKey(PrimaryKeyConstraint {
                    name: option.name.clone(),
                    columns,
                    ..key.clone()
                })),
                ColumnOption::Unique(key) => Some(TableConstraint::Unique(UniqueConstraint {
                    name: option.name.clone(),
                    columns,
                    ..key.clone()
                })),
                _ => None,
            });
        }
    }
    let listed = create.constraints.iter();
    keys.extend(listed.filter(|own| own_keys::Key::of(own).is_some()).cloned());
    keys
}

/// What a partition is declared with beside its bound: NOT NULL and CHECK.
fn own(
    session: &mut Session,
    create: &CreateTable,
    root: &TableDefinition,
    place: &Target,
    partition: &mut Partition,
) -> Result<()> {
    let mut checks: Vec<(Option<ast::Ident>, ast::CheckConstraint)> = Vec::new();
    let mut named = Vec::new();
    for column in &create.columns {
        let name = fold(&column.name);
        let Some(at) = root.column_index(&name) else {
            let message = format!("column \"{name}\" does not exist");
            return Err(SqlError::new(state::UNDEFINED_COLUMN, message));
        };
        if named.contains(&at) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
        }
        named.push(at);
        for option in &column.options {
            match &option.option {
                ColumnOption::Null => {}
                ColumnOption::NotNull if root.columns[at].not_null => {}
                ColumnOption::NotNull => partition.not_null.push(at),
                ColumnOption::PrimaryKey(_) | ColumnOption::Unique(_) => {}
                ColumnOption::Check(check) => checks.push((option.name.clone(), check.clone())),
                ColumnOption::Default(value)
                    if root.columns[at].default == Some(qualify::expression(&session.binder(), value)?.to_string()) => {
                }
                other => return Err(SqlError::unsupported(format!("{other} of a partition's column"))),
            }
        }
    }
    for constraint in &create.constraints {
        match constraint {
            TableConstraint::Check(check) => checks.push((check.name.clone(), check.clone())),
            TableConstraint::PrimaryKey(_) | TableConstraint::Unique(_) => {}
            other => return Err(SqlError::unsupported(format!("constraint {other} of a partition"))),
        }
    }
    let binder = session.binder();
    for (name, check) in checks {
        let (name, schema) = (name.as_ref(), &root.schema);
        let check = check_constraints::declared(&binder, &check, name, place, schema, &partition.checks)?;
        match root.checks.iter().any(|own| own.name == check.name) {
            true => session.notice(format!(
                "merging constraint \"{}\" with inherited definition",
                check.name
            )),
            false => partition.checks.push(check),
        }
    }
    Ok(())
}
