//! Which objects are found by their names alone: those that no object of the same name hides, in a schema that comes before in
//! the search path.

use super::functions::{FIRST_OID, find, index_by_oid};
use super::regnames::system_table;
use super::types;
use super::{INFORMATION_SCHEMA_OID, PG_CATALOG, procs};
use crate::catalog::bind::Binder;
use tenon_storage::{Object, ObjectKey};

/// Whether the object is first of those of its name; None: there is none of that oid. What PostgreSQL ships is.
pub(super) fn is_visible(binder: &Binder, kind: &str, oid: i64) -> Option<bool> {
    if oid == 0 {
        return None;
    }
    if oid < FIRST_OID {
        return Some(
            oid < i64::from(INFORMATION_SCHEMA_OID) || binder.facts.path.iter().any(|own| own == "information_schema"),
        );
    }
    match kind {
        "pg_table_is_visible" => relation(binder, oid),
        "pg_type_is_visible" => of_type(binder, oid),
        "pg_function_is_visible" => function(binder, oid),
        _ => None,
    }
}

/// Whether a schema is the first along the path that has what is asked.
fn is_first(binder: &Binder, schema: &str, has: impl Fn(&str) -> bool) -> bool {
    let first = binder.facts.path.iter().find(|own| *own == schema || has(own));
    first.is_some_and(|own| own == schema)
}

/// Whether the schema of the system comes before all others, as where it is not named.
fn system_first(binder: &Binder) -> bool {
    !binder.facts.path.iter().any(|own| own == PG_CATALOG)
}

fn relation(binder: &Binder, oid: i64) -> Option<bool> {
    let relation = find(binder, oid);
    let (schema, name) = match &relation {
        Some(relation) => (relation.schema_name().to_string(), relation.name().to_string()),
        None => match index_by_oid(binder, oid) {
            Some(found) => found,
            None => return composite(binder, oid),
        },
    };
    let hidden = system_first(binder) && system_table(&name).is_some();
    let has = |own: &str| binder.snapshot.schema(own).is_some_and(|own| own.has(&name));
    Some(!hidden && is_first(binder, &schema, has))
}

/// The `pg_class` row of a composite type.
fn composite(binder: &Binder, oid: i64) -> Option<bool> {
    of_type(binder, oid)
}

fn of_type(binder: &Binder, oid: i64) -> Option<bool> {
    let element = u32::try_from(oid).ok().and_then(|oid| types::element_of(binder, oid));
    let oid = element.map_or(oid, i64::from);
    let relation = find(binder, oid);
    let mut objects = binder.snapshot.objects().values().filter_map(types::identity);
    let (schema, name) = match &relation {
        Some(relation) => (relation.schema_name(), relation.name()),
        None => objects
            .find(|(own, ..)| i64::from(*own) == oid)
            .map(|(_, schema, name)| (schema, name))?,
    };
    let hidden = system_first(binder) && super::system_types::by_name(name).is_some();
    let has = |own: &str| {
        let key = ObjectKey::Type {
            schema: own.to_string(),
            name: name.to_string(),
        };
        binder.snapshot.objects().contains_key(&key) || binder.snapshot.relation(own, name).is_some()
    };
    Some(!hidden && is_first(binder, schema, has))
}

fn function(binder: &Binder, oid: i64) -> Option<bool> {
    let own = procs::function(binder, oid)?;
    let mut objects = binder.snapshot.objects().iter();
    let (key, _) = objects.find(|(_, object)| matches!(object, Object::Function(of) if of.oid == own.oid))?;
    let ObjectKey::Function { name, arguments, .. } = key else {
        return None;
    };
    let has = |schema: &str| {
        let key = ObjectKey::Function {
            schema: schema.to_string(),
            name: name.clone(),
            arguments: arguments.clone(),
        };
        binder.snapshot.objects().contains_key(&key)
    };
    Some(is_first(binder, &own.schema_name, has))
}
