//! DROP TABLE, VIEW, SCHEMA and INDEX; TRUNCATE.

use crate::bind::{fold, undefined};
use crate::error::{Result, SqlError, state};
use crate::outcome::Outcome;
use crate::parse::parse;
use crate::session::Session;
use crate::statement::Kind;
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectNamePart, ObjectType, Truncate, visit_relations};
use std::ops::ControlFlow;
use tenon_storage::{Relation, State};

/// The views whose text reads a relation.
fn readers(snapshot: &State, schema: &str, name: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for relation in snapshot.relations() {
        let Relation::View(view) = relation else { continue };
        let Ok(statements) = parse(&view.sql) else { continue };
        let reads = statements.iter().any(|statement| {
            let Kind::Sql(tree) = &statement.kind else { return false };
            visit_relations(tree.as_ref(), |own: &ObjectName| {
                let own: Vec<String> = own.0.iter().filter_map(ObjectNamePart::as_ident).map(fold).collect();
                match own.as_slice() {
                    [own_schema, own_name] if own_schema == schema && own_name == name => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            })
            .is_break()
        });
        if reads {
            out.push((view.schema_name.clone(), view.name.clone()));
        }
    }
    out
}

/// Drops a relation and, with `cascade`, the views that read it.
fn drop_relation(session: &mut Session, schema: &str, name: &str, cascade: bool) -> Result<()> {
    let snapshot = session.state();
    let views = readers(&snapshot, schema, name);
    if !views.is_empty() && !cascade {
        let kind = if snapshot.table(schema, name).is_some() {
            "table"
        } else {
            "view"
        };
        let message = format!("cannot drop {kind} {name} because other objects depend on it");
        let detail: Vec<String> = views
            .iter()
            .map(|(_, view)| format!("view {view} depends on {kind} {name}"))
            .collect();
        return Err(SqlError::new(state::DEPENDENT_OBJECTS_STILL_EXIST, message)
            .detail(detail.join("\n"))
            .hint("Use DROP ... CASCADE to drop the dependent objects too."));
    }
    for (schema, view) in views {
        if session.state().relation(&schema, &view).is_some() {
            session.notice(format!("drop cascades to view {view}"));
            drop_relation(session, &schema, &view, true)?;
        }
    }
    session.transaction()?.lock().drop_relation(schema, name)?;
    Ok(())
}

pub(super) fn objects(
    session: &mut Session,
    kind: ObjectType,
    names: &[ObjectName],
    if_exists: bool,
    cascade: bool,
) -> Result<Outcome> {
    let tag = format!("DROP {kind}");
    session.check_writable(&tag)?;
    for name in names {
        match kind {
            ObjectType::Table | ObjectType::View => {
                let word = if kind == ObjectType::Table { "table" } else { "view" };
                let binder = session.binder();
                let Some(found) = binder.names().existing(name)? else {
                    let last = name
                        .0
                        .last()
                        .and_then(|part| part.as_ident())
                        .map(fold)
                        .unwrap_or_default();
                    if binder.names().index(name)?.is_some() {
                        let message = format!("\"{last}\" is not a {word}");
                        return Err(
                            SqlError::new(state::WRONG_OBJECT_TYPE, message).hint("Use DROP INDEX to remove an index.")
                        );
                    }
                    if !if_exists {
                        return Err(SqlError::new(
                            state::UNDEFINED_TABLE,
                            format!("{word} \"{last}\" does not exist"),
                        ));
                    }
                    session.notice(format!("{word} \"{last}\" does not exist, skipping"));
                    continue;
                };
                if found.as_table().is_some() != (kind == ObjectType::Table) {
                    let message = format!("\"{}\" is not a {word}", found.name());
                    let other = if kind == ObjectType::Table { "VIEW" } else { "TABLE" };
                    return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message)
                        .hint(format!("Use DROP {other} to remove it.")));
                }
                let (schema, last) = (found.schema_name().to_string(), found.name().to_string());
                drop_relation(session, &schema, &last, cascade)?;
            }
            ObjectType::Index => super::index::drop(session, name, if_exists)?,
            ObjectType::Schema => {
                let last = name
                    .0
                    .last()
                    .and_then(|part| part.as_ident())
                    .map(fold)
                    .unwrap_or_default();
                let snapshot = session.state();
                let Some(entry) = snapshot.schema(&last) else {
                    if !if_exists {
                        let message = format!("schema \"{last}\" does not exist");
                        return Err(SqlError::new(state::INVALID_SCHEMA_NAME, message));
                    }
                    session.notice(format!("schema \"{last}\" does not exist, skipping"));
                    continue;
                };
                if cascade {
                    for relation in entry.relations.keys() {
                        if session.state().relation(&last, relation).is_some() {
                            drop_relation(session, &last, relation, true)?;
                        }
                    }
                }
                session.transaction()?.lock().drop_schema(&last, cascade)?;
            }
            other => return Err(SqlError::unsupported(format!("DROP {other}"))),
        }
    }
    Ok(Outcome::Command(tag))
}

pub(super) fn truncate(session: &mut Session, truncate: &Truncate) -> Result<Outcome> {
    session.check_writable("TRUNCATE TABLE")?;
    for target in &truncate.table_names {
        let binder = session.binder();
        let Some(found) = binder.names().existing(&target.name)? else {
            if truncate.if_exists {
                continue;
            }
            let last = target
                .name
                .0
                .last()
                .and_then(|part| part.as_ident())
                .map(fold)
                .unwrap_or_default();
            return Err(undefined(None, &last));
        };
        if found.as_table().is_none() {
            return Err(SqlError::new(
                state::WRONG_OBJECT_TYPE,
                format!("\"{}\" is not a table", found.name()),
            ));
        }
        session
            .transaction()?
            .lock()
            .truncate(found.schema_name(), found.name())?;
    }
    Ok(Outcome::Command("TRUNCATE TABLE".into()))
}
