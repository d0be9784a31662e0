//! What a FOREIGN KEY references.

use crate::catalog::bind::fold;
use crate::pg::error::{Result, SqlError, state};
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{ForeignKeyConstraint, Ident};
use std::sync::Arc;
use tenon_storage::{
    Deferral, FOREIGN_KEY_COLUMNS_MAX, Index, IndexKind, Relation, TableDefinition, TableVersion, privilege,
};

/// The referenced table.
pub(super) fn referenced(
    session: &Session,
    child: &TableVersion,
    declared: &ForeignKeyConstraint,
    referred: &[Ident],
) -> Result<Arc<TableVersion>> {
    let binder = session.binder();
    let relation = binder.names().relation(&declared.foreign_table)?;
    let parent = match relation {
        Relation::Table(table) if table.definition().query.is_none() => table.clone(),
        Relation::Partition(_) => return Err(SqlError::unsupported("a foreign key that references a partition")),
        other => {
            let message = format!("referenced relation \"{}\" is not a table", other.name());
            return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message));
        }
    };
    let definition = parent.definition();
    let named: Vec<String> = match referred.is_empty() {
        false => referred.iter().map(fold).collect(),
        true => {
            let key = definition.all_indexes().find(|index| index.kind == IndexKind::Primary);
            let columns = key.into_iter().flat_map(|key| &key.columns);
            columns.map(|at| definition.columns[*at].name.clone()).collect()
        }
    };
    let named = named.iter().map(String::as_str);
    binder.rights().check_columns(relation, privilege::REFERENCES, named)?;
    let is_temporary = |table: &TableVersion| table.definition().schema_name.starts_with("pg_temp_");
    let kind = match (is_temporary(child), is_temporary(&parent)) {
        (false, true) => "permanent",
        (true, false) => "temporary",
        _ => return Ok(parent),
    };
    let message = format!("constraints on {kind} tables may reference only {kind} tables");
    Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message))
}

pub(super) fn positions(definition: &TableDefinition, names: &[Ident]) -> Result<Vec<usize>> {
    if names.len() > FOREIGN_KEY_COLUMNS_MAX {
        let message = format!("cannot have more than {FOREIGN_KEY_COLUMNS_MAX} keys in a foreign key");
        return Err(SqlError::new(state::TOO_MANY_COLUMNS, message));
    }
    let position = |name: &Ident| {
        let name = fold(name);
        definition.column_index(&name).ok_or_else(|| {
            let message = format!("column \"{name}\" referenced in foreign key constraint does not exist");
            SqlError::new(state::UNDEFINED_COLUMN, message)
        })
    };
    names.iter().map(position).collect()
}

pub(super) fn primary_key(definition: &TableDefinition) -> Result<(&Index, Vec<usize>)> {
    match &definition.primary_key {
        Some(key) => Ok((key, key.columns.clone())),
        None => {
            let message = format!("there is no primary key for referenced table \"{}\"", definition.name);
            Err(SqlError::new(state::UNDEFINED_OBJECT, message))
        }
    }
}

/// Refuses an index in which a key may stand twice for a while.
pub(super) fn immediate(definition: &TableDefinition, index: &Index) -> Result<()> {
    if index.deferral == Deferral::Never {
        return Ok(());
    }
    let message = format!(
        "cannot use a deferrable unique constraint for referenced table \"{}\"",
        definition.name
    );
    Err(SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message))
}

/// The index that makes the listed columns unique, in whatever order.
pub(super) fn unique_index<'a>(definition: &'a TableDefinition, names: &[Ident]) -> Result<(&'a Index, Vec<usize>)> {
    let columns = positions(definition, names)?;
    let twice = (1..columns.len()).any(|at| columns[..at].contains(&columns[at]));
    if twice {
        let message = "foreign key referenced-columns list must not contain duplicates";
        return Err(SqlError::new(state::INVALID_FOREIGN_KEY, message));
    }
    let same = |index: &&Index| {
        index.is_unique()
            && index.columns.len() == columns.len()
            && columns.iter().all(|column| index.columns.contains(column))
    };
    match definition.all_indexes().find(same) {
        Some(index) => Ok((index, columns)),
        None => {
            let message = format!(
                "there is no unique constraint matching given keys for referenced table \"{}\"",
                definition.name
            );
            Err(SqlError::new(state::INVALID_FOREIGN_KEY, message))
        }
    }
}
