//! CREATE TYPE ... AS ENUM, and ALTER and DROP TYPE of enums.
//!
//! What changes a type makes another version of it, in which the columns of the type are written anew: see
//! `tenon_storage::EnumType`.

use super::text_dependents::{self, Dropped};
use super::type_dependents::Dependents;
use super::{column, composite, domain, schema_name, types};
use crate::catalog::bind::{Target, parsed_type, parts};
use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::outcome::Outcome;
use crate::pg::parse::definition::TypeChange;
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{DataType, Expr, Ident, ObjectName};
use std::sync::Arc;
use tenon_storage::composite_type::substituted;
use tenon_storage::{
    ColumnDef, Domain, EnumLabel, EnumType, Object, ObjectKey, PartitionBound, RangeValue, Relation, SqlType, quote,
};

/// Longest label, bytes.
const LABEL_BYTES_MAX: usize = 63;

pub(super) fn create(session: &mut Session, name: &ObjectName, labels: &[String]) -> Result<Outcome> {
    let (place, key) = types::free_name(session, name)?;
    let transaction = session.transaction()?;
    let mut transaction = transaction.lock();
    let mut made: Vec<EnumLabel> = Vec::with_capacity(labels.len());
    for (label, order) in labels.iter().zip(1_u16..) {
        check_label(label)?;
        if made.iter().any(|own| own.label == *label) {
            let message = "duplicate key value violates unique constraint \"pg_enum_typid_label_index\"";
            return Err(SqlError::new(state::UNIQUE_VIOLATION, message));
        }
        made.push(EnumLabel {
            oid: transaction.new_oid(),
            label: label.clone(),
            order: order.into(),
        });
    }
    let (oid, array_oid) = (transaction.new_oid(), transaction.new_oid());
    let of = EnumType::register(oid, array_oid, &place.schema, &place.name, made);
    transaction.put_object(key, Some(Object::Enum(of)));
    Ok(Outcome::Command("CREATE TYPE".into()))
}

fn check_label(label: &str) -> Result<()> {
    if label.len() <= LABEL_BYTES_MAX {
        return Ok(());
    }
    Err(
        SqlError::new(SqlState("42602"), format!("invalid enum label \"{label}\""))
            .detail(format!("Labels must be {LABEL_BYTES_MAX} bytes or less.")),
    )
}

fn key(of: &EnumType) -> ObjectKey {
    ObjectKey::Type {
        schema: of.schema_name.clone(),
        name: of.name.clone(),
    }
}

fn exists(label: &str) -> SqlError {
    SqlError::new(
        state::DUPLICATE_OBJECT,
        format!("enum label \"{label}\" already exists"),
    )
}

fn absent(label: &str) -> SqlError {
    let message = format!("\"{label}\" is not an existing enum label");
    SqlError::new(state::INVALID_PARAMETER_VALUE, message)
}

pub(super) async fn alter(session: &mut Session, name: &ObjectName, change: &TypeChange) -> Result<Outcome> {
    session.check_writable("ALTER TYPE")?;
    let binder = session.binder();
    binder.check_schema_of(name)?;
    let Some(of) = binder.enum_named(name) else {
        if let Some(composite) = binder.composite(name)
            && !matches!(change, TypeChange::AddValue { .. } | TypeChange::RenameValue(..))
        {
            composite::alter(session, &composite, change).await?;
            return Ok(Outcome::Command("ALTER TYPE".into()));
        }
        let is_range = binder.range_object(name).is_some();
        let known = is_range || binder.domain(name).is_some() || binder.composite(name).is_some();
        let shown = parts(name).join(".");
        return Err(match (known, change) {
            (true, TypeChange::AddValue { .. } | TypeChange::RenameValue(..)) => {
                SqlError::new(state::WRONG_OBJECT_TYPE, format!("{shown} is not an enum"))
            }
            (true, _) => SqlError::unsupported("ALTER TYPE of a type that is no enum"),
            (false, _) => SqlError::new(state::UNDEFINED_OBJECT, format!("type \"{shown}\" does not exist")),
        });
    };
    binder.check_owner_of_type(of.oid, &of.schema_name, &of.name)?;
    let done = Ok(Outcome::Command("ALTER TYPE".into()));
    let (mut labels, mut schema, mut own_name) = (of.labels.clone(), of.schema_name.clone(), of.name.clone());
    match change {
        TypeChange::AddValue {
            if_not_exists,
            label,
            beside,
        } => {
            check_label(label)?;
            if of.position(label).is_some() {
                if !*if_not_exists {
                    return Err(exists(label));
                }
                session.notice(format!("{}, skipping", exists(label).message));
                return done;
            }
            let oid = session.transaction()?.lock().new_oid();
            let at = match beside {
                Some((before, other)) => {
                    let found = labels.iter().position(|own| own.label == *other);
                    found.ok_or_else(|| absent(other))? + usize::from(!before)
                }
                None => labels.len(),
            };
            add(&mut labels, at, oid, label);
        }
        TypeChange::RenameValue(from, to) => {
            check_label(to)?;
            let at = of.position(from).ok_or_else(|| absent(from))?;
            if of.position(to).is_some() {
                return Err(exists(to));
            }
            labels[at as usize].label.clone_from(to);
        }
        TypeChange::Rename(to) => own_name.clone_from(to),
        TypeChange::SetSchema(to) => {
            if session.state().schema(to).is_none() {
                let message = format!("schema \"{to}\" does not exist");
                return Err(SqlError::new(state::INVALID_SCHEMA_NAME, message));
            }
            binder.rights().check_schema(to, tenon_storage::privilege::CREATE)?;
            schema.clone_from(to);
        }
        TypeChange::Attributes(_) | TypeChange::RenameAttribute(..) => {
            let message = format!("relation \"{}\" does not exist", of.name);
            return Err(SqlError::new(state::UNDEFINED_TABLE, message));
        }
        TypeChange::Other => return Err(SqlError::unsupported("this form of ALTER TYPE")),
    }
    let next = EnumType::register(of.oid, of.array_oid, &schema, &own_name, labels);
    put_anew(session, of, next, change).await?;
    done
}

/// Moves an enum to another schema.
pub(super) async fn move_to(
    session: &mut Session,
    of: &'static EnumType,
    schema: &str,
    change: &TypeChange,
) -> Result<()> {
    let next = EnumType::register(of.oid, of.array_oid, schema, &of.name, of.labels.clone());
    put_anew(session, of, next, change).await
}

/// Puts a version of a type in the place of the one before, perhaps under another name.
async fn put_anew(
    session: &mut Session,
    of: &'static EnumType,
    next: &'static EnumType,
    change: &TypeChange,
) -> Result<()> {
    let (schema, own_name) = (&next.schema_name, &next.name);
    if key(next) != key(of) {
        let taken = session.state().relation(schema, own_name).is_some();
        if taken || session.state().objects().contains_key(&key(next)) {
            let message = format!("type \"{own_name}\" already exists");
            return Err(SqlError::new(state::DUPLICATE_OBJECT, message));
        }
        schema_name::moves_type(session, (&of.schema_name, &of.name), (schema, own_name))?;
        session.transaction()?.lock().put_object(key(of), None);
    }
    session
        .transaction()?
        .lock()
        .put_object(key(next), Some(Object::Enum(next)));
    replace(session, next, change).await
}

/// A label with its place in the order, as PostgreSQL numbers them: between its neighbours, or all anew where no number is
/// left there.
fn add(labels: &mut Vec<EnumLabel>, at: usize, oid: u32, label: &str) {
    let before = at.checked_sub(1).and_then(|at| labels.get(at)).map(|own| own.order);
    let after = labels.get(at).map(|own| own.order);
    let order = match (before, after) {
        (Some(before), Some(after)) => (before + after) / 2.0,
        (Some(before), None) => before + 1.0,
        (None, Some(after)) => after - 1.0,
        (None, None) => 1.0,
    };
    let label = label.to_string();
    labels.insert(at, EnumLabel { oid, label, order });
    if before == Some(order) || after == Some(order) {
        for (own, order) in labels.iter_mut().zip(1_u16..) {
            own.order = order.into();
        }
    }
}

/// The type of a column or a domain in which an enum stands in the place of another of its versions.
fn with(of: SqlType, next: &'static EnumType) -> Option<SqlType> {
    substituted(of, &|of| match of {
        SqlType::Enum(own) if own.oid == next.oid => Some(SqlType::Enum(next)),
        _ => None,
    })
}

/// Writes the columns of a type in its new version.
async fn replace(session: &mut Session, next: &'static EnumType, change: &TypeChange) -> Result<()> {
    session.transaction()?.lock().retype_views(&|of| with(of, next));
    for domain in domains(session, next) {
        let mut own = (*domain).clone();
        own.base = with(own.base, next).unwrap_or(own.base);
        domain::put(session, own)?;
    }
    follow_in_partitions(session, next, change)?;
    for (place, columns) in tables(session, next) {
        let columns = columns.into_iter().map(|mut own| {
            if let Some(of) = with(own.sql_type, next) {
                own.sql_type = of;
                if let (TypeChange::RenameValue(from, to), Some(default)) = (change, &mut own.default) {
                    let (from, to) = (quote::literal(from), quote::literal(to));
                    if let Some(rest) = default.strip_prefix(&from) {
                        *default = format!("{to}{rest}");
                    }
                }
            }
            own
        });
        column::rewrite(session, &place, columns.collect(), |_, definition, at| {
            Ok(Expr::Identifier(Ident::with_quote('"', &definition.columns[at].name)))
        })
        .await?;
    }
    Ok(())
}

/// Keys of partitions have the type's new version, and bounds name its labels as they are called now.
fn follow_in_partitions(session: &Session, next: &'static EnumType, change: &TypeChange) -> Result<()> {
    let state_now = session.state();
    for relation in state_now.relations() {
        let Some(mut partitioning) = relation.partitioning().cloned() else {
            continue;
        };
        let keys = partitioning.keys.iter_mut().map(|key| match with(key.sql_type, next) {
            Some(of) => {
                key.sql_type = of;
                true
            }
            None => false,
        });
        let keys: Vec<bool> = keys.collect();
        if !keys.contains(&true) {
            continue;
        }
        let transaction = session.transaction()?;
        let mut transaction = transaction.lock();
        match relation {
            Relation::Partition(own) => {
                transaction.change_partition(own.oid, |own| own.partitioning = Some(partitioning))?;
            }
            _ => transaction.set_partitioning(relation.schema_name(), relation.name(), partitioning)?,
        }
        let TypeChange::RenameValue(from, to) = change else {
            continue;
        };
        let rename = |value: &mut String| {
            if value == from {
                value.clone_from(to);
            }
        };
        for partition in state_now.partitions(relation.oid()) {
            transaction.change_partition(partition.oid, |own| match &mut own.bound {
                PartitionBound::List(values) if keys[0] => values.iter_mut().flatten().for_each(rename),
                PartitionBound::Range { from, to } => {
                    for (value, is_it) in from.iter_mut().zip(&keys).chain(to.iter_mut().zip(&keys)) {
                        if let (RangeValue::Value(value), true) = (value, is_it) {
                            rename(value);
                        }
                    }
                }
                _ => {}
            })?;
        }
    }
    Ok(())
}

/// The domains over a type.
fn domains(session: &Session, of: &'static EnumType) -> Vec<Arc<Domain>> {
    let state = session.state();
    let own = state.objects().values().filter_map(|object| match object {
        Object::Domain(domain) if with(domain.base, of).is_some() => Some(domain.clone()),
        _ => None,
    });
    own.collect()
}

/// The tables with columns of a type: where they are, and all their columns.
fn tables(session: &Session, of: &'static EnumType) -> Vec<(Target, Vec<ColumnDef>)> {
    let state = session.state();
    let tables = state.relations().filter_map(Relation::as_table);
    let own = tables.filter_map(|table| {
        let definition = table.definition();
        let place = Target {
            schema: definition.schema_name.clone(),
            name: definition.name.clone(),
        };
        let has = definition.columns.iter().any(|own| with(own.sql_type, of).is_some());
        has.then(|| (place, definition.columns.clone()))
    });
    own.collect()
}

/// A type and, with `cascade`, what is of it.
pub(super) async fn drop_one(session: &mut Session, of: &'static EnumType, cascade: bool) -> Result<()> {
    let is_it = |own: SqlType| match own {
        SqlType::Enum(own) => own.oid == of.oid,
        SqlType::Array(own) => matches!(own.element(), SqlType::Enum(own) if own.oid == of.oid),
        _ => false,
    };
    let binder = session.binder();
    let attributes = composite::attributes_of(&binder, |declared| {
        let declared = parsed_type(declared.trim_end_matches("[]"));
        matches!(declared, Ok(DataType::Custom(name, _)) if binder.enum_named(&name).is_some_and(|own| own.oid == of.oid))
    });
    let mut domains = domains(session, of);
    domains.retain(|own| is_it(own.base));
    let tables = tables(session, of);
    let mut columns = Vec::new();
    for (place, own) in &tables {
        let own = own.iter().filter(|own| own.domain.is_none() && is_it(own.sql_type));
        columns.extend(own.map(|own| (place, own.name.as_str())));
    }
    let mut dependents: Vec<String> = columns
        .iter()
        .map(|(place, column)| format!("column {column} of table {}", place.name))
        .collect();
    dependents.extend(composite::told(&attributes));
    dependents.extend(domains.iter().map(|own| format!("type {}", own.name)));
    let own = Dependents {
        told: dependents,
        attributes,
        domains,
        columns,
    };
    let name = format!("type {}", of.name);
    own.drop(session, (&name, &name), cascade).await?;
    text_dependents::release(session, &Dropped::Type(&of.schema_name, &of.name), &name, cascade)?;
    session.transaction()?.lock().put_object(key(of), None);
    Ok(())
}
