//! Domains: a type with conditions of its own.

use super::column;
use super::constraints::Checks;
use super::drop::depended_on;
use super::text_dependents::{self, Dropped};
use super::{create, defaults, qualify, schema_name};
use crate::catalog::bind::{Binder, Target, parts};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::Outcome;
use crate::pg::parse::definition::{CreateDomain, DomainAction};
use crate::pg::parse::parse_expression;
use crate::pg::rewrite::rewrite;
use crate::session::Session;
use crate::session::run;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::DFSchema;
use datafusion::logical_expr::ExprSchemable;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName};
use std::sync::Arc;
use tenon_storage::{ColumnDef, Domain, Object, ObjectKey, Relation};

pub(super) fn find(binder: &Binder, name: &ObjectName) -> Option<Arc<Domain>> {
    binder.domain(name)
}

fn undefined(name: &ObjectName) -> SqlError {
    let message = format!("type \"{}\" does not exist", parts(name).join("."));
    SqlError::new(state::UNDEFINED_OBJECT, message)
}

fn key(domain: &Domain) -> ObjectKey {
    ObjectKey::Type {
        schema: domain.schema_name.clone(),
        name: domain.name.clone(),
    }
}

pub(super) fn put(session: &Session, domain: Domain) -> Result<()> {
    let (key, object) = (key(&domain), Object::Domain(Arc::new(domain)));
    session.transaction()?.lock().put_object(key, Some(object));
    Ok(())
}

pub(super) fn create(session: &mut Session, declared: &CreateDomain) -> Result<Outcome> {
    session.check_writable("CREATE DOMAIN")?;
    let place = create::target(session, &declared.name, false)?;
    let binder = session.binder();
    binder.check_usage_of(&declared.data_type)?;
    let inner = binder.domain_of(&declared.data_type);
    let base = match &inner {
        Some(inner) => inner.base,
        None => binder.sql_type(&declared.data_type)?,
    };
    let mut domain = Domain {
        oid: 0,
        schema_name: place.schema,
        name: place.name,
        base,
        declared: binder.declared_in_full(&declared.data_type),
        not_null: declared.not_null,
        // That of the domain below, as it is now.
        default: match &declared.default {
            Some(default) => Some(qualify::expression(&binder, default)?.to_string()),
            None => inner.as_ref().and_then(|inner| inner.default.clone()),
        },
        checks: Vec::new(),
    };
    if declared.not_null && declared.null {
        let message = "conflicting NULL/NOT NULL constraints";
        return Err(SqlError::new(state::SYNTAX_ERROR, message));
    }
    if binder.snapshot.objects().contains_key(&key(&domain)) {
        let message = format!("type \"{}\" already exists", domain.name);
        return Err(SqlError::new(state::DUPLICATE_OBJECT, message));
    }
    if let Some(default) = &declared.default {
        defaults::check(session, default, &ColumnDef::new(domain.name.clone(), base))?;
    }
    for (name, condition) in &declared.checks {
        add_check(&binder, &mut domain, name.clone(), condition)?;
    }
    domain.oid = session.transaction()?.lock().new_oid();
    put(session, domain)?;
    Ok(Outcome::Command("CREATE DOMAIN".into()))
}

/// Adds a condition, under a name of its own where none is given.
fn add_check(binder: &Binder, domain: &mut Domain, name: Option<String>, condition: &Expr) -> Result<()> {
    defaults::refuse_sets(condition, "check constraint", "check constraints")?;
    let field = domain.base.field("value", true);
    let schema =
        DFSchema::try_from(Schema::new(vec![field])).map_err(|error| crate::pg::errors::from_datafusion(&error))?;
    let mut tree = condition.clone();
    rewrite(&mut tree);
    let planned = binder.expression(tree, &schema)?;
    let given = planned
        .get_type(&schema)
        .map_err(|error| crate::pg::errors::from_datafusion(&error))?;
    if !matches!(given, DataType::Boolean | DataType::Null) {
        let message = "argument of CHECK must be type boolean";
        return Err(SqlError::new(state::DATATYPE_MISMATCH, message));
    }
    let is_free = |name: &String| domain.checks.iter().all(|(own, _)| own != name);
    let wanted = format!("{}_check", domain.name);
    let name = match name {
        Some(name) if !is_free(&name) => {
            let message = format!("constraint \"{name}\" for domain \"{}\" already exists", domain.name);
            return Err(SqlError::new(state::DUPLICATE_OBJECT, message));
        }
        Some(name) => name,
        None => std::iter::once(wanted.clone())
            .chain((1..).map(|number| format!("{wanted}{number}")))
            .find(is_free)
            .unwrap_or_default(),
    };
    domain
        .checks
        .push((name, qualify::expression(binder, condition)?.to_string()));
    Ok(())
}

pub(super) async fn alter(session: &mut Session, name: &ObjectName, action: &DomainAction) -> Result<Outcome> {
    session.check_writable("ALTER DOMAIN")?;
    let binder = session.binder();
    binder.check_schema_of(name)?;
    let domain = binder.domain(name).ok_or_else(|| undefined(name))?;
    binder.check_owner_of_type(domain.oid, &domain.schema_name, &domain.name)?;
    let mut next = (*domain).clone();
    let missing = |constraint: &str| {
        let message = format!(
            "constraint \"{constraint}\" of domain \"{}\" does not exist",
            domain.name
        );
        SqlError::new(state::UNDEFINED_OBJECT, message)
    };
    let mut verify = false;
    match action {
        DomainAction::Nothing => {}
        DomainAction::Default(default) => {
            next.default = match default {
                Some(default) => {
                    defaults::check(session, default, &ColumnDef::new(domain.name.clone(), domain.base))?;
                    Some(qualify::expression(&binder, default)?.to_string())
                }
                None => None,
            };
        }
        DomainAction::NotNull(not_null) => {
            next.not_null = *not_null;
            verify = *not_null;
        }
        DomainAction::AddCheck { name, condition, valid } => {
            add_check(&binder, &mut next, name.clone(), condition)?;
            verify = *valid;
        }
        DomainAction::DropConstraint { name, if_exists } => {
            next.checks.retain(|(own, _)| own != name);
            if next.checks.len() == domain.checks.len() {
                if !*if_exists {
                    return Err(missing(name));
                }
                session.notice(format!("{}, skipping", missing(name).message));
            }
        }
        DomainAction::RenameConstraint(from, to) => {
            let own = next.checks.iter_mut().find(|(own, _)| own == from);
            own.ok_or_else(|| missing(from))?.0 = to.clone();
        }
        DomainAction::Rename(to) => next.name = to.clone(),
        DomainAction::SetSchema(to) => {
            if session.state().schema(to).is_none() {
                let message = format!("schema \"{to}\" does not exist");
                return Err(SqlError::new(state::INVALID_SCHEMA_NAME, message));
            }
            binder.rights().check_schema(to, tenon_storage::privilege::CREATE)?;
            next.schema_name = to.clone();
        }
    }
    if key(&next) != key(&domain) {
        rename(session, &domain, &next)?;
    }
    put(session, next)?;
    if verify {
        verify_rows(session, &domain).await?;
    }
    Ok(Outcome::Command("ALTER DOMAIN".into()))
}

/// Moves a domain to another schema.
pub(super) fn move_to(session: &Session, domain: &Domain, schema: &str) -> Result<()> {
    let next = Domain {
        schema_name: schema.to_string(),
        ..domain.clone()
    };
    rename(session, domain, &next)?;
    put(session, next)
}

/// The columns that were declared with a domain: schema, table and column.
fn columns_of(session: &Session, domain: &Domain) -> Vec<(String, String, String)> {
    let is_own = |column: &&ColumnDef| {
        column
            .domain
            .as_ref()
            .is_some_and(|(schema, name)| *schema == domain.schema_name && *name == domain.name)
    };
    let mut out = Vec::new();
    for table in session.state().relations().filter_map(Relation::as_table) {
        let definition = table.definition();
        for column in definition.columns.iter().filter(is_own) {
            out.push((
                definition.schema_name.clone(),
                definition.name.clone(),
                column.name.clone(),
            ));
        }
    }
    out
}

fn rename(session: &Session, before: &Domain, after: &Domain) -> Result<()> {
    let (from, to) = ((&before.schema_name, &before.name), (&after.schema_name, &after.name));
    schema_name::moves_type(session, (from.0, from.1), (to.0, to.1))?;
    // Before the lock: it looks at the transaction's state.
    let columns = columns_of(session, before);
    let transaction = session.transaction()?;
    let mut own = transaction.lock();
    if own.state().objects().contains_key(&key(after)) {
        let message = format!("type \"{}\" already exists", after.name);
        return Err(SqlError::new(state::DUPLICATE_OBJECT, message));
    }
    own.put_object(key(before), None);
    for (schema, table, column) in columns {
        let name = (after.schema_name.clone(), after.name.clone());
        own.change_column(&schema, &table, &column, |column| column.domain = Some(name))?;
    }
    Ok(())
}

/// The rows that are there must satisfy what the domain says now.
async fn verify_rows(session: &Session, domain: &Domain) -> Result<()> {
    let (binder, state) = (session.binder(), session.state());
    for (schema, table, column) in columns_of(session, domain) {
        let Some(found) = state.table(&schema, &table) else {
            continue;
        };
        let (checks, segments) = (
            Checks::of(session, &binder, found.definition())?,
            found.segments().clone(),
        );
        let verified = run::background(&session.engine, async move { checks.verify(&segments) }).await;
        verified.map_err(|error| {
            let what = match error.state {
                state::NOT_NULL_VIOLATION => "contains null values",
                _ => "contains values that violate the new constraint",
            };
            SqlError::new(error.state, format!("column \"{column}\" of table \"{table}\" {what}"))
        })?;
    }
    Ok(())
}

pub(super) fn drop(session: &mut Session, names: &[ObjectName], if_exists: bool, cascade: bool) -> Result<Outcome> {
    session.check_writable("DROP DOMAIN")?;
    for name in names {
        let binder = session.binder();
        binder.check_schema_of(name)?;
        let Some(domain) = binder.domain(name) else {
            let error = undefined(name);
            if !if_exists {
                return Err(error);
            }
            session.notice(format!("{}, skipping", error.message));
            continue;
        };
        binder.check_owner_of_type(domain.oid, &domain.schema_name, &domain.name)?;
        drop_one(session, &domain, cascade)?;
    }
    Ok(Outcome::Command("DROP DOMAIN".into()))
}

pub(super) fn drop_one(session: &mut Session, domain: &Arc<Domain>, cascade: bool) -> Result<()> {
    let state_now = session.state();
    let made_of_it = state_now.objects().values().filter_map(|object| match object {
        Object::Domain(other) => Some(other),
        _ => None,
    });
    let binder = session.binder();
    let made_of_it: Vec<Arc<Domain>> = made_of_it
        .filter(|other| {
            let declared = parse_expression(&format!("NULL::{}", other.declared));
            matches!(declared, Ok(Expr::Cast { data_type, .. })
                if binder.domain_of(&data_type).is_some_and(|inner| inner.oid == domain.oid))
        })
        .cloned()
        .collect();
    let columns = columns_of(session, domain);
    let mut dependents: Vec<String> = made_of_it.iter().map(|other| format!("type {}", other.name)).collect();
    dependents.extend(
        columns
            .iter()
            .map(|(_, table, column)| format!("column {column} of table {table}")),
    );
    if !cascade && !dependents.is_empty() {
        return Err(depended_on(&format!("type {}", domain.name), &dependents));
    }
    for other in made_of_it {
        session.cascades_to(format!("type {}", other.name));
        drop_one(session, &other, true)?;
    }
    for (schema, table, column) in columns {
        session.cascades_to(format!("column {column} of table {table}"));
        let place = Target { schema, name: table };
        column::remove(session, &place, &column, true)?;
    }
    let dropped = Dropped::Type(&domain.schema_name, &domain.name);
    text_dependents::release(session, &dropped, &format!("type {}", domain.name), cascade)?;
    session.transaction()?.lock().put_object(key(domain), None);
    Ok(())
}
