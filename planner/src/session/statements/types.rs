//! CREATE TYPE and DROP TYPE; composite types.

use super::drop::depended_on;
use super::{create as place, domain, enums};
use crate::catalog::bind::{Target, parts};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::Outcome;
use crate::pg::parse::definition::NewType;
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{DataType, ObjectName};
use std::sync::Arc;
use tenon_storage::{Composite, Object, ObjectKey};

pub(super) fn create(session: &mut Session, name: &ObjectName, of: &NewType) -> Result<Outcome> {
    session.check_writable("CREATE TYPE")?;
    let declared = match of {
        NewType::Composite(declared) => declared,
        NewType::Enum(labels) => return enums::create(session, name, labels),
        NewType::Other => {
            return Err(SqlError::unsupported(
                "CREATE TYPE of another kind than AS (columns) and AS ENUM",
            ));
        }
    };
    let (place, key) = free_name(session, name)?;
    let binder = session.binder();
    let mut columns: Vec<(String, String)> = Vec::with_capacity(declared.len());
    for (column, data_type) in declared {
        if columns.iter().any(|(own, _)| own == column) {
            let message = format!("column \"{column}\" specified more than once");
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
        }
        if matches!(data_type, DataType::Custom(name, _) if name.to_string() == "unknown") {
            let message = format!("column \"{column}\" has pseudo-type unknown");
            return Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message));
        }
        binder.field_of_type(data_type)?;
        columns.push((column.clone(), data_type.to_string()));
    }
    let (oid, array_oid) = session.transaction()?.lock().new_oids();
    let composite = Composite {
        oid,
        array_oid,
        schema_name: place.schema,
        name: place.name,
        columns,
    };
    let object = Object::Composite(Arc::new(composite));
    session.transaction()?.lock().put_object(key, Some(object));
    Ok(Outcome::Command("CREATE TYPE".into()))
}

/// Where a new type goes; 42710 where there is one of its name.
pub(super) fn free_name(session: &mut Session, name: &ObjectName) -> Result<(Target, ObjectKey)> {
    let place = place::target(session, name, false)?;
    let binder = session.binder();
    let key = ObjectKey::Type {
        schema: place.schema.clone(),
        name: place.name.clone(),
    };
    let taken = binder.snapshot.relation(&place.schema, &place.name).is_some();
    if taken || binder.snapshot.objects().contains_key(&key) {
        let message = format!("type \"{}\" already exists", place.name);
        return Err(SqlError::new(state::DUPLICATE_OBJECT, message));
    }
    Ok((place, key))
}

pub(super) fn drop(session: &mut Session, names: &[ObjectName], if_exists: bool, cascade: bool) -> Result<Outcome> {
    session.check_writable("DROP TYPE")?;
    for name in names {
        let binder = session.binder();
        let owned = |oid: u32, schema: &str, name: &str| binder.check_owner_of_type(oid, schema, name);
        if let Some(domain) = binder.domain(name) {
            owned(domain.oid, &domain.schema_name, &domain.name)?;
            domain::drop_one(session, &domain, cascade)?;
            continue;
        }
        if let Some(of) = binder.enum_named(name) {
            owned(of.oid, &of.schema_name, &of.name)?;
            enums::drop_one(session, of, cascade)?;
            continue;
        }
        let Some(composite) = binder.composite(name) else {
            let message = format!("type \"{}\" does not exist", parts(name).join("."));
            if !if_exists {
                return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
            }
            session.notice(format!("{message}, skipping"));
            continue;
        };
        owned(composite.oid, &composite.schema_name, &composite.name)?;
        drop_composite(session, &composite, cascade)?;
    }
    Ok(Outcome::Command("DROP TYPE".into()))
}

/// A type and, with `cascade`, the columns of other types that have it.
fn drop_composite(session: &mut Session, composite: &Arc<Composite>, cascade: bool) -> Result<()> {
    let binder = session.binder();
    let is_it = |declared: &String| {
        let element = declared.trim_end_matches("[]");
        binder
            .composite_declared(element)
            .is_some_and(|own| own.oid == composite.oid)
    };
    let others: Vec<Arc<Composite>> = binder
        .snapshot
        .objects()
        .values()
        .filter_map(|object| match object {
            Object::Composite(other) if other.columns.iter().any(|(_, declared)| is_it(declared)) => {
                Some(other.clone())
            }
            _ => None,
        })
        .collect();
    if let (Some(other), false) = (others.first(), cascade) {
        return Err(depended_on(
            &format!("type {}", composite.name),
            &[format!("type {}", other.name)],
        ));
    }
    for other in others {
        let mut next = (*other).clone();
        next.columns.retain(|(_, declared)| !is_it(declared));
        put(session, next)?;
    }
    session.transaction()?.lock().put_object(key(composite), None);
    Ok(())
}

fn key(composite: &Composite) -> ObjectKey {
    ObjectKey::Type {
        schema: composite.schema_name.clone(),
        name: composite.name.clone(),
    }
}

fn put(session: &Session, composite: Composite) -> Result<()> {
    let key = key(&composite);
    let object = Object::Composite(Arc::new(composite));
    session.transaction()?.lock().put_object(key, Some(object));
    Ok(())
}
