//! COMMENT ON: kept with the object's oid.

use super::function;
use super::role::rights;
use crate::catalog::bind::{fold, parts};
use crate::catalog::rights::refused;
use crate::catalog::system::{constraint_oid, type_identity};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::Outcome;
use crate::pg::parse::definition::{Comment, Commented};
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{DataType, ObjectName};
use std::sync::Arc;
use tenon_storage::{Check, Object, ObjectKey, Relation};

pub(super) fn on(session: &mut Session, comment: &Comment) -> Result<Outcome> {
    session.check_writable("COMMENT")?;
    if let Commented::Database(name) = &comment.on
        && super::grant::database(session, name).is_err()
    {
        let message = format!("database \"{name}\" does not exist");
        session.warn(state::INVALID_CATALOG_NAME, message);
    }
    if let Commented::Constraint { name, table } = &comment.on
        && let Some((table, checks)) = with_check(session, name, table, comment.text.as_deref())?
    {
        let transaction = session.transaction()?;
        let mut transaction = transaction.lock();
        match &table {
            Relation::Partition(partition) => {
                transaction.change_partition(partition.oid, |own| own.checks = checks)?;
            }
            _ => transaction.set_checks(table.schema_name(), table.name(), checks)?,
        }
    } else if let Some((oid, column)) = place(session, &comment.on)? {
        check_owner(session, &comment.on, oid)?;
        let object = comment.text.as_deref().map(|text| Object::Comment(Arc::from(text)));
        let key = ObjectKey::Comment { oid, column };
        session.transaction()?.lock().put_object(key, object);
    }
    Ok(Outcome::Command("COMMENT".into()))
}

/// A table with its CHECK constraints, one of which has this name and the comment.
fn with_check(
    session: &Session,
    name: &str,
    table: &ObjectName,
    text: Option<&str>,
) -> Result<Option<(Relation, Vec<Check>)>> {
    let binder = session.binder();
    let relation = binder.names().relation(table)?;
    let mut checks = match relation {
        Relation::Table(table) => table.definition().checks.clone(),
        Relation::Partition(partition) => partition.checks.clone(),
        Relation::View(_) | Relation::Sequence(_) => return Ok(None),
    };
    let Some(check) = checks.iter_mut().find(|check| check.name == name) else {
        return Ok(None);
    };
    binder.rights().check_owner(relation)?;
    check.comment = text.map(str::to_string);
    Ok(Some((relation.clone(), checks)))
}

/// What is said of a thing is its owner's to say.
fn check_owner(session: &Session, on: &Commented, oid: u32) -> Result<()> {
    let state_now = session.state();
    let rights = rights(session, &state_now);
    match (on, state_now.relation_by_oid(oid)) {
        (_, Some(relation)) => rights.check_owner(relation),
        (Commented::Schema(name), None) => rights.check_owner_of(oid, "schema", &super::last(name)),
        (Commented::Function(_, name, _), None) => rights.check_owner_of(oid, "function", &parts(name).join(".")),
        (Commented::Database(name), None) => rights.check_owner_of(oid, "database", name),
        (Commented::Role(_), None) if !rights.acting.superuser => {
            let may = state_now
                .roles()
                .any(|own| own.oid == rights.acting.role && own.create_role)
                && !state_now.is_superuser(oid);
            match may {
                true => Ok(()),
                false => Err(refused(match state_now.is_superuser(oid) {
                    true => "must be superuser",
                    false => "must have CREATEROLE privilege",
                })),
            }
        }
        (Commented::Domain(name), None) => rights.check_owner_of(oid, "type", &super::last(name)),
        (Commented::Type(of), None) => rights.check_owner_of(oid, "type", &of.to_string()),
        (Commented::Index(name), None) => match session.binder().names().any_index(name)? {
            Some((table, _, index)) => rights.check_owner_of_index(table, index),
            None => Ok(()),
        },
        (Commented::Constraint { table, .. }, None) => {
            let binder = session.binder();
            rights.check_owner(binder.names().relation(table)?)
        }
        _ => Ok(()),
    }
}

/// The oid and the column's number, 0 for the object itself; None where no comment is kept.
fn place(session: &Session, on: &Commented) -> Result<Option<(u32, u32)>> {
    let binder = session.binder();
    let names = binder.names();
    Ok(match on {
        Commented::Relation(kind, name) => {
            let relation = names.relation(name)?;
            if relation.kind() != *kind {
                let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) {
                    "an"
                } else {
                    "a"
                };
                let message = format!("\"{}\" is not {article} {kind}", relation.name());
                return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message));
            }
            Some((relation.oid(), 0))
        }
        Commented::Column(name) => {
            let mut relation = name.clone();
            let column = relation
                .0
                .pop()
                .and_then(|part| part.as_ident().map(fold))
                .unwrap_or_default();
            if relation.0.is_empty() {
                return Err(SqlError::new(state::SYNTAX_ERROR, "column name must be qualified"));
            }
            let relation = names.relation(&relation)?;
            let mut fields = relation.columns().fields().iter();
            let at = fields.position(|field| *field.name() == column).ok_or_else(|| {
                let message = format!("column \"{column}\" of relation \"{}\" does not exist", relation.name());
                SqlError::new(state::UNDEFINED_COLUMN, message)
            })?;
            Some((relation.oid(), at as u32 + 1))
        }
        Commented::Index(name) => match names.any_index(name)? {
            Some((_, oid, _)) => Some((oid, 0)),
            None => {
                let relation = names.relation(name)?;
                let message = format!("\"{}\" is not an index", relation.name());
                return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message));
            }
        },
        Commented::Schema(name) => {
            let name = super::last(name);
            let schema = binder.snapshot.schema(&name).ok_or_else(|| {
                SqlError::new(state::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
            })?;
            Some((schema.oid, 0))
        }
        Commented::Constraint { name, table } => {
            let relation = names.relation(table)?;
            if let Relation::Partition(partition) = relation
                && let Some(index) = partition.index(name).filter(|index| index.is_constraint())
            {
                return Ok(Some((constraint_oid(index.declared.oid), 0)));
            }
            let definition = relation.as_table().map(|table| table.definition());
            let there = definition.is_some_and(|definition| definition.constraints().any(|own| own == name));
            if !there {
                let message = format!("constraint \"{name}\" for table \"{}\" does not exist", relation.name());
                return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
            }
            definition.and_then(|definition| {
                let key = definition.constraint_index(name).map(|index| constraint_oid(index.oid));
                let mut references = definition.foreign_keys.iter();
                let oid = key.or_else(|| Some(references.find(|key| key.name == *name)?.oid))?;
                Some((oid, 0))
            })
        }
        Commented::Domain(name) => {
            binder.check_schema_of(name)?;
            let shown = parts(name).join(".");
            match super::domain::find(&binder, name) {
                Some(domain) => Some((domain.oid, 0)),
                None => {
                    let message = format!("type \"{shown}\" does not exist");
                    return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
                }
            }
        }
        Commented::Type(of) => match of {
            DataType::Custom(name, arguments) if arguments.is_empty() => {
                binder.check_schema_of(name)?;
                match binder.type_named(parts(name), |object| Some(type_identity(object)?.0)) {
                    Some(oid) => Some((oid, 0)),
                    // The type of a relation's rows has the relation's oid, and so no comment of its own.
                    None if names.existing(name)?.is_some() => None,
                    None => Some((binder.sql_type(of)?.oid(), 0)),
                }
            }
            of => Some((binder.sql_type(of)?.oid(), 0)),
        },
        Commented::Function(word, name, arguments) => {
            let found = function::named(session, name, arguments.as_deref())?;
            if *word == "procedure" {
                let message = format!("{} is not a procedure", found.name.replace(", ", ","));
                return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message));
            }
            Some((found.oid, 0))
        }
        Commented::Role(name) => Some((super::role::oid(session, name, false)?, 0)),
        Commented::Database(name) => match super::grant::database(session, name) {
            Ok(found) => Some((found.oid, 0)),
            // As PostgreSQL, for scripts that were made of another database.
            Err(_) => None,
        },
        Commented::DomainConstraint { name, domain } => {
            let shown = parts(domain).join(".");
            let Some(found) = super::domain::find(&binder, domain) else {
                let message = format!("type \"{shown}\" does not exist");
                return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
            };
            if !found.checks.iter().any(|(own, _)| own == name) {
                let message = format!("constraint \"{name}\" for domain {shown} does not exist");
                return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
            }
            None
        }
        Commented::OfRelation(word, name, relation) => {
            let relation = names.relation(relation)?;
            let of = if *word == "rule" { "relation" } else { "table" };
            let message = format!("{word} \"{name}\" for {of} \"{}\" does not exist", relation.name());
            return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
        }
        Commented::Absent(word, name) => {
            let shown = if *word == "large object" {
                name.clone()
            } else {
                format!("\"{name}\"")
            };
            return Err(SqlError::new(
                state::UNDEFINED_OBJECT,
                format!("{word} {shown} does not exist"),
            ));
        }
        Commented::Other => None,
    })
}
