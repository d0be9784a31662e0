//! The types of tables' rows, as columns have them: what becomes of such columns where the table is changed or dropped.
//!
//! Like the columns of a composite type that is altered they are written anew; see `composite`.

use super::composite::{self, holds, tables};
use super::type_dependents::Type;
use crate::catalog::bind::{Binder, parsed_type};
use crate::pg::error::{Result, SqlError, state};
use crate::session::Session;
use datafusion::sql::sqlparser::ast::DataType;
use tenon_storage::{Attribute, ColumnDef, CompositeType, Relation, SqlType};

/// A table whose row type is used, before a change of it.
pub(super) struct Before {
    oid: u32,
    /// Its columns.
    names: Vec<String>,
    /// The composite types with columns of the row type: the declaration says the table's name.
    attributes: composite::Attributes,
}

/// Whether a declared type is that of a table's rows, or of its arrays.
fn is_of(binder: &Binder, declared: &str, oid: u32) -> bool {
    match parsed_type(declared.trim_end_matches("[]")) {
        Ok(DataType::Custom(name, arguments)) if arguments.is_empty() => {
            binder.row_type_table(&name).is_some_and(|table| table.oid() == oid)
        }
        _ => false,
    }
}

/// What is to be known of a table that is changed; None where nothing is of its row type.
pub(super) fn before(session: &Session, relation: &Relation) -> Option<Before> {
    let oid = relation.as_table()?.oid();
    let binder = session.binder();
    let attributes = composite::attributes_of(&binder, |declared| is_of(&binder, declared, oid));
    if attributes.is_empty() && !composite::is_used(session, oid) {
        return None;
    }
    let table = binder.snapshot.table_by_oid(oid)?;
    let columns = table.definition().columns.iter();
    Some(Before {
        oid,
        names: columns.map(|column| column.name.clone()).collect(),
        attributes,
    })
}

/// Has what is of the row type follow a change of the table: columns are known by their names, one that is renamed by its place.
pub(super) async fn follow(session: &mut Session, before: Option<Before>) -> Result<()> {
    let Some(before) = before else { return Ok(()) };
    let state_now = session.state();
    let Some(table) = state_now.table_by_oid(before.oid) else {
        return Ok(());
    };
    let definition = table.definition().clone();
    composite::declare_anew(
        session,
        before.attributes,
        |binder, declared| is_of(binder, declared, before.oid),
        (&definition.schema_name, &definition.name),
    )?;
    let now: Vec<&str> = definition.columns.iter().map(|column| column.name.as_str()).collect();
    let numbers = before.names.iter().enumerate().map(|(at, name)| {
        let same = now.iter().position(|own| own == name);
        let renamed = || (now.len() == before.names.len()).then_some(at);
        // The number of one that is gone is no other's.
        same.or_else(renamed).map_or(u32::MAX - at as u32, |at| at as u32 + 1)
    });
    let numbers: Vec<u32> = numbers.collect();
    let named = composite::named_type(&definition.schema_name, &definition.name)?;
    let numbered = |of: &CompositeType| {
        let attributes = of.attributes().iter().zip(&numbers);
        let attributes = attributes.map(|(own, number)| Attribute {
            number: *number,
            ..own.clone()
        });
        let (schema, name) = (of.schema_name(), of.name());
        CompositeType::of(of.oid(), of.array_oid(), schema, name, attributes.collect())
    };
    composite::replace(session, before.oid, None, &named, &numbered).await
}

/// 0A000 where a column of another table is of the row type, so that it would hold values of what the table was.
pub(super) fn refuse_change(session: &Session, oid: u32) -> Result<()> {
    let state_now = session.state();
    let Some(table) = state_now.table_by_oid(oid) else {
        return Ok(());
    };
    for (place, columns) in tables(session, oid) {
        if let Some(own) = columns.iter().find(|own| holds(own.sql_type, oid)) {
            let (of, user) = (&table.definition().name, &place.name);
            let message = format!(
                "cannot alter table \"{of}\" because column \"{user}.{}\" uses its row type",
                own.name
            );
            return Err(SqlError::unsupported_as(message));
        }
    }
    Ok(())
}

/// The same for a column that is added, whose values are not all NULL.
pub(super) fn refuse_values(session: &Session, oid: u32, column: &ColumnDef) -> Result<()> {
    let default = column.default.as_deref();
    let has_value = default.is_some_and(|default| !default.eq_ignore_ascii_case("null"));
    match has_value || column.generated.is_some() || column.domain.is_some() {
        true => refuse_change(session, oid),
        false => Ok(()),
    }
}

/// 42P16 where a table's column would be of the type of its own rows, or have such in it.
pub(super) fn refuse_itself(oid: u32, name: &str, of: SqlType) -> Result<()> {
    if !holds(of, oid) {
        return Ok(());
    }
    let message = format!("composite type {name} cannot be made a member of itself");
    Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message))
}

/// Takes away what is of the row type of a table that is dropped, with `cascade`; without, there must be none. The statement
/// drops the tables `along` anyway.
pub(super) async fn release(session: &mut Session, oid: u32, cascade: bool, along: &[u32]) -> Result<()> {
    let state_now = session.state();
    let Some(table) = state_now.table_by_oid(oid) else {
        return Ok(());
    };
    let name = table.name();
    let binder = session.binder();
    let own = Type {
        oid,
        name: &format!("type {name}"),
        dropped: &format!("table {name}"),
        along,
    };
    let attributes = composite::attributes_of(&binder, |declared| is_of(&binder, declared, oid));
    own.release(session, attributes, cascade).await
}
