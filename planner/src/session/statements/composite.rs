//! Composite types: CREATE TYPE ... AS (...), ALTER and DROP TYPE.
//!
//! What changes a type makes another of it, in which the columns of the type are written anew: see
//! `tenon_storage::composite_type`.

use super::text_dependents::{self, Dropped};
use super::type_dependents::Type;
use super::{column, domain, schema_name, types};
use crate::catalog::bind::{Binder, Target, parsed_type};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::functions::record::as_altered;
use crate::pg::parse::definition::{AttributeChange, TypeChange};
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{DataType, Expr, Ident, ObjectName};
use std::sync::Arc;
use tenon_storage::composite_type::substituted;
use tenon_storage::{ColumnDef, Composite, CompositeType, Domain, Object, ObjectKey, Relation, SqlType, quote};

pub(super) fn create(session: &mut Session, name: &ObjectName, declared: &[(String, DataType)]) -> Result<()> {
    let (place, key) = types::free_name(session, name)?;
    let binder = session.binder();
    let mut columns: Vec<(String, String)> = Vec::with_capacity(declared.len());
    for (column, data_type) in declared {
        if columns.iter().any(|(own, _)| own == column) {
            let message = format!("column \"{column}\" specified more than once");
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
        }
        check_type(&binder, column, data_type)?;
        columns.push((column.clone(), binder.declared_in_full(data_type)));
    }
    let (oid, array_oid) = session.transaction()?.lock().new_oids();
    let composite = Composite {
        oid,
        array_oid,
        schema_name: place.schema,
        name: place.name,
        columns,
        numbers: Vec::new(),
    };
    let object = Object::Composite(Arc::new(composite));
    session.transaction()?.lock().put_object(key, Some(object));
    Ok(())
}

fn check_type(binder: &Binder, column: &str, data_type: &DataType) -> Result<()> {
    if matches!(data_type, DataType::Custom(name, _) if name.to_string() == "unknown") {
        let message = format!("column \"{column}\" has pseudo-type unknown");
        return Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message));
    }
    binder.check_usage_of(data_type)?;
    binder.field_of_type(data_type).map(|_| ())
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

/// Composite types, and some of their columns.
pub(super) type Attributes = Vec<(Arc<Composite>, Vec<String>)>;

/// The composite types with columns of some types, and which these are.
pub(super) fn attributes_of(binder: &Binder, is_it: impl Fn(&str) -> bool) -> Attributes {
    let others = binder.snapshot.objects().values().filter_map(|object| {
        let Object::Composite(other) = object else { return None };
        let own = other.columns.iter().filter(|(_, declared)| is_it(declared));
        let own: Vec<String> = own.map(|(name, _)| name.clone()).collect();
        (!own.is_empty()).then(|| (other.clone(), own))
    });
    others.collect()
}

/// How DROP speaks of such columns.
pub(super) fn told(attributes: &[(Arc<Composite>, Vec<String>)]) -> impl Iterator<Item = String> {
    attributes.iter().flat_map(|(of, columns)| {
        let told = |column: &String| format!("column {column} of composite type {}", of.name);
        columns.iter().map(told)
    })
}

/// Drops columns of composite types.
pub(super) async fn drop_attributes(session: &mut Session, from: Attributes) -> Result<()> {
    for (of, columns) in from {
        let mut next = (*of).clone();
        next.numbers = (0..next.columns.len()).map(|at| of.number(at)).collect();
        for name in columns {
            let if_exists = false;
            attribute(session, &mut next, &AttributeChange::Drop { name, if_exists })?;
        }
        let named = named_type(&next.schema_name, &next.name)?;
        put(session, next)?;
        replace(session, of.oid, Some(&of.name), &named, &|of| of).await?;
    }
    Ok(())
}

/// Whether a declared type is a composite type, or of its arrays.
fn is_of(binder: &Binder, declared: &str, composite: &Composite) -> bool {
    let own = binder.composite_declared(declared.trim_end_matches("[]"));
    own.is_some_and(|own| own.oid == composite.oid)
}

/// Whether a type has values of the composite type of an oid in it.
pub(super) fn holds(of: SqlType, oid: u32) -> bool {
    let found = |of: SqlType| matches!(of, SqlType::Composite(own) if own.oid() == oid).then_some(of);
    substituted(of, &found).is_some()
}

/// The tables with columns of a type: where they are, and all their columns.
pub(super) fn tables(session: &Session, oid: u32) -> Vec<(Target, Vec<ColumnDef>)> {
    let state = session.state();
    let tables = state.relations().filter_map(Relation::as_table);
    let own = tables.filter_map(|table| {
        let definition = table.definition();
        let place = Target {
            schema: definition.schema_name.clone(),
            name: definition.name.clone(),
        };
        let has = definition.columns.iter().any(|own| holds(own.sql_type, oid));
        has.then(|| (place, definition.columns.clone()))
    });
    own.collect()
}

/// The domains over a type.
pub(super) fn domains(session: &Session, oid: u32) -> Vec<Arc<Domain>> {
    let state = session.state();
    let own = state.objects().values().filter_map(|object| match object {
        Object::Domain(domain) if holds(domain.base, oid) => Some(domain.clone()),
        _ => None,
    });
    own.collect()
}

pub(super) async fn alter(session: &mut Session, before: &Arc<Composite>, change: &TypeChange) -> Result<()> {
    let binder = session.binder();
    binder.check_owner_of_type(before.oid, &before.schema_name, &before.name)?;
    let mut next = (**before).clone();
    next.numbers = (0..next.columns.len()).map(|at| before.number(at)).collect();
    match change {
        TypeChange::Attributes(changes) => {
            for change in changes {
                attribute(session, &mut next, change)?;
            }
        }
        TypeChange::RenameAttribute(from, to) => {
            let at = next.columns.iter().position(|(own, _)| own == from);
            let at =
                at.ok_or_else(|| SqlError::new(state::UNDEFINED_COLUMN, format!("column \"{from}\" does not exist")))?;
            if next.columns.iter().any(|(own, _)| own == to) {
                return Err(exists(&next, to));
            }
            next.columns[at].0.clone_from(to);
        }
        TypeChange::Rename(to) => next.name.clone_from(to),
        TypeChange::SetSchema(to) => {
            if session.state().schema(to).is_none() {
                let message = format!("schema \"{to}\" does not exist");
                return Err(SqlError::new(state::INVALID_SCHEMA_NAME, message));
            }
            binder.rights().check_schema(to, tenon_storage::privilege::CREATE)?;
            next.schema_name.clone_from(to);
        }
        _ => return Err(SqlError::unsupported("this form of ALTER TYPE")),
    }
    put_anew(session, before, next).await
}

/// Puts a type in the place of what it was, perhaps under another name.
pub(super) async fn put_anew(session: &mut Session, before: &Arc<Composite>, next: Composite) -> Result<()> {
    let binder = session.binder();
    if key(&next) != key(before) {
        let taken = session.state().relation(&next.schema_name, &next.name).is_some();
        if taken || session.state().objects().contains_key(&key(&next)) {
            let message = format!("type \"{}\" already exists", next.name);
            return Err(SqlError::new(state::DUPLICATE_OBJECT, message));
        }
        let from = (before.schema_name.as_str(), before.name.as_str());
        schema_name::moves_type(session, from, (&next.schema_name, &next.name))?;
        // What names the type as it was declared names it so from here on.
        let others = attributes_of(&binder, |own| is_of(&binder, own, before));
        let is_it = |binder: &Binder, own: &str| is_of(binder, own, before);
        declare_anew(session, others, is_it, (&next.schema_name, &next.name))?;
        session.transaction()?.lock().put_object(key(before), None);
    }
    let named = named_type(&next.schema_name, &next.name)?;
    put(session, next)?;
    replace(session, before.oid, Some(&before.name), &named, &|of| of).await
}

/// Has columns of composite types say another name of their type.
pub(super) fn declare_anew(
    session: &Session,
    others: Attributes,
    is_it: impl Fn(&Binder, &str) -> bool,
    (schema, name): (&str, &str),
) -> Result<()> {
    let binder = session.binder();
    for (other, columns) in others {
        let mut other = (*other).clone();
        for (column, declared) in &mut other.columns {
            // One that has been renamed is not found under its former name any more.
            if is_it(&binder, declared) || columns.contains(column) {
                let pairs = "[]".repeat(declared.matches("[]").count());
                *declared = format!("{}.{}{pairs}", quote::name(schema), quote::name(name));
            }
        }
        put(session, other)?;
    }
    Ok(())
}

pub(super) fn named_type(schema: &str, name: &str) -> Result<DataType> {
    parsed_type(&format!("{}.{}", quote::name(schema), quote::name(name)))
}

fn exists(of: &Composite, column: &str) -> SqlError {
    let message = format!("column \"{column}\" of relation \"{}\" already exists", of.name);
    SqlError::new(state::DUPLICATE_COLUMN, message)
}

/// One of ADD, DROP and ALTER ATTRIBUTE.
fn attribute(session: &mut Session, next: &mut Composite, change: &AttributeChange) -> Result<()> {
    let binder = session.binder();
    let find = |next: &Composite, name: &str| next.columns.iter().position(|(own, _)| own == name);
    let absent = |next: &Composite, name: &str| {
        let message = format!("column \"{name}\" of relation \"{}\" does not exist", next.name);
        SqlError::new(state::UNDEFINED_COLUMN, message)
    };
    match change {
        AttributeChange::Add(name, data_type) => {
            if find(next, name).is_some() {
                return Err(exists(next, name));
            }
            check_type(&binder, name, data_type)?;
            let field = binder.field_of_type(data_type)?;
            if SqlType::from_field(&field).is_some_and(|of| holds(of, next.oid)) {
                let message = format!("composite type {} cannot be made a member of itself", next.name);
                return Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message));
            }
            next.columns.push((name.clone(), binder.declared_in_full(data_type)));
            let number = next.numbers.iter().max().map_or(1, |last| last + 1);
            next.numbers.push(number);
        }
        AttributeChange::Drop { name, if_exists } => match find(next, name) {
            Some(at) => {
                next.columns.remove(at);
                next.numbers.remove(at);
            }
            None if *if_exists => session.notice(format!("{}, skipping", absent(next, name).message)),
            None => return Err(absent(next, name)),
        },
        AttributeChange::Type(name, data_type) => {
            let at = find(next, name).ok_or_else(|| absent(next, name))?;
            check_type(&binder, name, data_type)?;
            for (place, columns) in tables(session, next.oid) {
                if let Some(own) = columns.iter().find(|own| holds(own.sql_type, next.oid)) {
                    let message = format!(
                        "cannot alter type \"{}\" because column \"{}.{}\" uses it",
                        next.name, place.name, own.name
                    );
                    return Err(SqlError::unsupported_as(message));
                }
            }
            next.columns[at].1 = binder.declared_in_full(data_type);
        }
    }
    Ok(())
}

/// Whether views have columns of a type.
fn is_in_views(session: &Session, oid: u32) -> bool {
    let state = session.state();
    let views = state.relations().filter_map(Relation::as_view);
    views
        .flat_map(|view| view.schema.fields())
        .any(|field| SqlType::from_field(field).is_some_and(|of| holds(of, oid)))
}

/// Whether tables have columns of a type, or domains are over it.
pub(super) fn is_used(session: &Session, oid: u32) -> bool {
    !tables(session, oid).is_empty() || !domains(session, oid).is_empty()
}

/// Writes the columns of a type, called `named`, as it is after a change. `numbered` says by what numbers attributes of what it
/// was are known in what it is, and domains were declared over it under the name `declared`.
pub(super) async fn replace(
    session: &mut Session,
    oid: u32,
    declared: Option<&str>,
    named: &DataType,
    numbered: &(dyn Fn(&'static CompositeType) -> &'static CompositeType + Sync),
) -> Result<()> {
    let (tables, domains) = (tables(session, oid), domains(session, oid));
    if tables.is_empty() && domains.is_empty() && !is_in_views(session, oid) {
        return Ok(());
    }
    let after = session.binder().sql_type(named)?;
    let other = |of: SqlType| matches!(of, SqlType::Composite(own) if own.oid() == oid).then_some(after);
    session
        .transaction()?
        .lock()
        .retype_views(&|of| substituted(of, &other));
    let numbered = |of: SqlType| match of {
        SqlType::Composite(own) if own.oid() == oid => Some(SqlType::Composite(numbered(own))),
        _ => None,
    };
    for domain in domains {
        let mut own = (*domain).clone();
        own.base = substituted(own.base, &other).unwrap_or(own.base);
        if declared.is_none_or(|declared| own.declared == declared) {
            own.declared = named.to_string();
        }
        domain::put(session, own)?;
    }
    for (place, before) in tables {
        let columns = before.iter().map(|own| ColumnDef {
            sql_type: substituted(own.sql_type, &other).unwrap_or(own.sql_type),
            ..own.clone()
        });
        column::rewrite(session, &place, columns.collect(), |_, definition, at| {
            let own = &definition.columns[at];
            let value = Expr::Identifier(Ident::with_quote('"', &own.name));
            match own.sql_type == before[at].sql_type {
                true => Ok(value),
                false => {
                    let was = before[at].sql_type;
                    as_altered(value, substituted(was, &numbered).unwrap_or(was), own.sql_type)
                }
            }
        })
        .await?;
    }
    Ok(())
}

/// A type and, with `cascade`, what is of it: columns of tables and of other types, domains.
pub(super) async fn drop_one(session: &mut Session, composite: &Arc<Composite>, cascade: bool) -> Result<()> {
    let binder = session.binder();
    let others = attributes_of(&binder, |own| is_of(&binder, own, composite));
    let name = format!("type {}", composite.name);
    let own = Type {
        oid: composite.oid,
        name: &name,
        dropped: &name,
        along: &[],
    };
    own.release(session, others, cascade).await?;
    let dropped = Dropped::Type(&composite.schema_name, &composite.name);
    text_dependents::release(session, &dropped, &name, cascade)?;
    session.transaction()?.lock().put_object(key(composite), None);
    Ok(())
}
