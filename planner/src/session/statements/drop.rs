//! DROP TABLE, VIEW, SCHEMA and INDEX; TRUNCATE.

use super::role::rights;
use super::text_dependents;
use super::{function, function_bodies, partition, references, row_types, sequence_texts, view_texts};
use crate::catalog::bind::{Target, fold, undefined};
use crate::catalog::rights::Rights;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::Outcome;
use crate::pg::parse::parse;
use crate::pg::statement::Kind;
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{
    CascadeOption, ObjectName, ObjectNamePart, ObjectType, Truncate, TruncateIdentityOption, visit_relations,
};
use std::ops::ControlFlow;
use tenon_storage::{DatabaseState, ObjectKey, Relation, Sequence, privilege};

/// The views whose text reads a relation.
pub(super) fn readers(snapshot: &DatabaseState, schema: &str, name: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for relation in snapshot.relations() {
        let sql = match relation {
            Relation::View(view) => Some(view.sql.as_str()),
            Relation::Table(table) => table.definition().query.as_deref(),
            Relation::Sequence(_) | Relation::Partition(_) => None,
        };
        let Some(Ok(statements)) = sql.map(parse) else { continue };
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
            out.push((relation.schema_name().to_string(), relation.name().to_string()));
        }
    }
    out
}

/// The views that use a column of a relation.
pub(super) fn readers_of_column(session: &Session, schema: &str, name: &str, column: &str) -> Vec<(String, String)> {
    let snapshot = session.state();
    let mut found = readers(&snapshot, schema, name);
    found.retain(|view| view_texts::uses(session, view, (schema, name), column));
    found
}

/// Lets go of a column for its being dropped: with `cascade` the views that use it are dropped.
pub(super) fn release_column(session: &mut Session, place: &Target, column: &str, cascade: bool) -> Result<()> {
    let views = readers_of_column(session, &place.schema, &place.name, column);
    let snapshot = session.state();
    let mut functions = function_bodies::readers(&snapshot, &place.schema, &place.name);
    functions.retain(|key| view_texts::used_in_body(&snapshot, key, (&place.schema, &place.name), column));
    if !(cascade || views.is_empty() && functions.is_empty()) {
        let kind = |schema: &str, view: &str| snapshot.relation(schema, view).map_or("view", Relation::kind);
        let dependents = views
            .iter()
            .map(|(schema, view)| format!("{} {view}", kind(schema, view)))
            .chain(functions.iter().map(text_dependents::function_of));
        let dependents: Vec<String> = dependents.collect();
        return Err(depended_on(
            &format!("column {column} of table {}", place.name),
            &dependents,
        ));
    }
    drop_views(session, views)?;
    drop_functions(session, &functions)
}

/// Drops views on which others may depend.
pub(super) fn drop_views(session: &mut Session, views: Vec<(String, String)>) -> Result<()> {
    for (schema, view) in views {
        if let Some(relation) = session.state().relation(&schema, &view) {
            session.notice(format!("drop cascades to {} {view}", relation.kind()));
            drop_relation(session, &schema, &view, true, &[])?;
        }
    }
    Ok(())
}

/// Drops a table and what depends on it, where it is there.
pub(super) fn drop_table(session: &mut Session, place: &Target) -> Result<()> {
    match session.state().relation(&place.schema, &place.name) {
        Some(_) => drop_relation(session, &place.schema, &place.name, true, &[]),
        None => Ok(()),
    }
}

fn drop_functions(session: &mut Session, functions: &[ObjectKey]) -> Result<()> {
    for key in functions {
        if session.state().objects().contains_key(key) {
            session.notice(format!("drop cascades to {}", text_dependents::function_of(key)));
            function::drop_one(session, key, true)?;
        }
    }
    Ok(())
}

/// Drops a relation and, with `cascade`, the views that read it and the foreign keys that reference it. The statement drops
/// those of the tables `along` anyway.
fn drop_relation(session: &mut Session, schema: &str, name: &str, cascade: bool, along: &[u32]) -> Result<()> {
    let snapshot = session.state();
    let mut views = readers(&snapshot, schema, name);
    let oid = snapshot.relation(schema, name).map_or(0, Relation::oid);
    for partition in snapshot.partitions_under(oid) {
        views.extend(readers(&snapshot, &partition.schema_name, &partition.name));
    }
    let is_along = |schema: &str, view: &str| {
        let own = snapshot.relation(schema, view).map(Relation::oid);
        own.is_some_and(|own| along.contains(&own))
    };
    let (dropped, views): (Vec<_>, Vec<_>) = views.into_iter().partition(|(schema, view)| is_along(schema, view));
    let constraints = references::constraints_on(&snapshot, oid, along);
    let functions = function_bodies::readers(&snapshot, schema, name);
    let dependents = views.iter().map(|(_, view)| format!("view {view}"));
    let dependents: Vec<String> = dependents
        .chain(functions.iter().map(text_dependents::function_of))
        .chain(constraints.iter().map(references::depending))
        .collect();
    if !cascade && !dependents.is_empty() {
        let kind = snapshot.relation(schema, name).map_or("table", Relation::kind);
        return Err(depended_on(&format!("{kind} {name}"), &dependents));
    }
    references::drop_all(session, &constraints)?;
    for (schema, view) in dropped {
        if session.state().relation(&schema, &view).is_some() {
            drop_relation(session, &schema, &view, cascade, along)?;
        }
    }
    drop_views(session, views)?;
    drop_functions(session, &functions)?;
    session.transaction()?.lock().drop_relation(schema, name)?;
    Ok(())
}

/// A sequence may go when no column takes its values from it, or with `cascade`, which takes those defaults away.
fn release_sequence(session: &mut Session, sequence: &Sequence, cascade: bool) -> Result<()> {
    let snapshot = session.state();
    if let Some(owner) = sequence.owner.as_ref().filter(|owner| owner.identity) {
        let table = snapshot.table_by_oid(owner.table_oid).map_or("", |table| table.name());
        let (name, column) = (&sequence.name, &owner.column);
        let message = format!("cannot drop sequence {name} because column {column} of table {table} requires it");
        return Err(SqlError::new(state::DEPENDENT_OBJECTS_STILL_EXIST, message)
            .hint(format!("You can drop column {column} of table {table} instead.")));
    }
    for table in snapshot.relations().filter_map(Relation::as_table) {
        for column in &table.definition().columns {
            let own = table.definition().schema_name.as_str();
            let uses = |text: &String| sequence_texts::takes_from(session, own, sequence.oid, text);
            if !column.default.as_ref().is_some_and(uses) {
                continue;
            }
            let what = format!("default value for column {} of table {}", column.name, table.name());
            if !cascade {
                return Err(depended_on(&format!("sequence {}", sequence.name), &[what]));
            }
            session.notice(format!("drop cascades to {what}"));
            let (schema, name) = (&table.definition().schema_name, table.name());
            session
                .transaction()?
                .lock()
                .set_default(schema, name, &column.name, None)?;
        }
    }
    Ok(())
}

pub(super) async fn objects(
    session: &mut Session,
    kind: ObjectType,
    names: &[ObjectName],
    if_exists: bool,
    cascade: bool,
) -> Result<Outcome> {
    let tag = format!("DROP {kind}");
    session.check_writable(&tag)?;
    let there = named(session, names);
    let along: Vec<u32> = there.iter().flatten().copied().collect();
    for (name, there) in names.iter().zip(there) {
        match kind {
            ObjectType::Table | ObjectType::View | ObjectType::MaterializedView | ObjectType::Sequence => {
                let word = match kind {
                    ObjectType::Table => "table",
                    ObjectType::View => "view",
                    ObjectType::Sequence => "sequence",
                    _ => "materialized view",
                };
                let binder = session.binder();
                let Some(found) = binder.names().existing(name)? else {
                    // It has gone with what it was a part of, or depended on.
                    if there.is_some() {
                        continue;
                    }
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
                if found.kind() != word {
                    let message = format!("\"{}\" is not a {word}", found.name());
                    let (kind, article) = (found.kind(), if found.kind() == "index" { "an" } else { "a" });
                    let hint = format!("Use DROP {} to remove {article} {kind}.", kind.to_uppercase());
                    return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message).hint(hint));
                }
                let of_schema = binder
                    .snapshot
                    .schema(found.schema_name())
                    .map_or(0, |schema| schema.oid);
                if !binder.rights().owns(of_schema) {
                    binder.rights().check_owner(found)?;
                }
                if let Some(sequence) = found.as_sequence() {
                    release_sequence(session, sequence, cascade)?;
                }
                let (schema, last) = (found.schema_name().to_string(), found.name().to_string());
                row_types::release(session, found.oid(), cascade, &along).await?;
                if let Some(own) = found.as_partition().cloned() {
                    partition::empty(session, &own).await?;
                }
                drop_relation(session, &schema, &last, cascade, &along)?;
            }
            ObjectType::Index => super::index::drop(session, name, if_exists, cascade)?,
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
                rights(session, &snapshot).check_owner_of(entry.oid, "schema", &last)?;
                if cascade {
                    let within: Vec<u32> = entry.relations().map(Relation::oid).collect();
                    for relation in entry.relations().map(Relation::name) {
                        let there = session.state().relation(&last, relation).cloned();
                        if let Some(Relation::Partition(own)) = &there {
                            partition::empty(session, own).await?;
                        }
                        if let Some(there) = &there {
                            if let Some(sequence) = there.as_sequence()
                                && sequence.owner.is_none()
                            {
                                release_sequence(session, sequence, true)?;
                            }
                            row_types::release(session, there.oid(), true, &within).await?;
                            drop_relation(session, &last, relation, true, &within)?;
                        }
                    }
                    text_dependents::drop_objects_of(session, &last).await?;
                } else {
                    refuse_objects_of(&snapshot, &last)?;
                }
                session.transaction()?.lock().drop_schema(&last, cascade)?;
            }
            other => return Err(SqlError::unsupported(format!("DROP {other}"))),
        }
    }
    Ok(Outcome::Command(tag))
}

/// 2BP01 for a schema of types and functions.
fn refuse_objects_of(state_now: &DatabaseState, schema: &str) -> Result<()> {
    let own = state_now.objects().keys().filter(|key| key.schema() == Some(schema));
    let own = own.filter_map(|key| match key {
        ObjectKey::Type { name, .. } => Some(format!("type {schema}.{name}")),
        ObjectKey::Function { .. } => Some(text_dependents::function_of(key)),
        _ => None,
    });
    let own: Vec<String> = own.collect();
    match own.is_empty() {
        true => Ok(()),
        false => Err(depended_on(&format!("schema {schema}"), &own)),
    }
}

/// The oids of the relations of these names, where they are there.
fn named(session: &Session, names: &[ObjectName]) -> Vec<Option<u32>> {
    let binder = session.binder();
    let found = |name| binder.names().existing(name).ok().flatten().map(Relation::oid);
    names.iter().map(found).collect()
}

pub(super) async fn truncate(session: &mut Session, truncate: &Truncate) -> Result<Outcome> {
    session.check_writable("TRUNCATE TABLE")?;
    let mut tables: Vec<u32> = Vec::new();
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
        if target.only && found.partitioning().is_some() {
            let message = "cannot truncate only a partitioned table";
            let hint = "Do not specify the ONLY keyword, or use TRUNCATE ONLY on the partitions directly.";
            return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message).hint(hint));
        }
        binder.rights().check(found, privilege::TRUNCATE)?;
        if let Some(own) = found.as_partition().cloned() {
            partition::empty(session, &own).await?;
            continue;
        }
        if found.as_table().is_none() {
            return Err(SqlError::new(
                state::WRONG_OBJECT_TYPE,
                format!("\"{}\" is not a table", found.name()),
            ));
        }
        tables.push(found.oid());
    }
    let cascade = truncate.cascade == Some(CascadeOption::Cascade);
    let state_now = session.state();
    let acting = session.acting_in(&state_now);
    for oid in references::tables_to_truncate(session, &tables, cascade)? {
        let transaction = session.transaction()?;
        let mut transaction = transaction.lock();
        let Some(table) = transaction.state().table_by_oid(oid).cloned() else {
            continue;
        };
        if !tables.contains(&oid) {
            let asked = Rights {
                state: &state_now,
                acting,
            };
            asked.check(&Relation::Table(table.clone()), privilege::TRUNCATE)?;
        }
        transaction.truncate(&table.definition().schema_name, table.name())?;
        if truncate.identity == Some(TruncateIdentityOption::Restart) {
            for own in transaction.owned_sequences(oid, None) {
                let (def, owner, start) = (own.def.clone(), own.owner.clone(), own.def.start);
                transaction.alter_sequence(&own.schema_name, &own.name, def, owner, Some(start))?;
            }
        }
    }
    Ok(Outcome::Command("TRUNCATE TABLE".into()))
}

/// 2BP01 for what others depend on, where CASCADE was not asked for.
pub(super) fn depended_on(what: &str, dependents: &[String]) -> SqlError {
    depended_on_of(what, what, dependents)
}

/// The same where they depend on something of it.
pub(super) fn depended_on_of(what: &str, of_it: &str, dependents: &[String]) -> SqlError {
    let detail = dependents.iter().map(|other| format!("{other} depends on {of_it}"));
    SqlError::new(
        state::DEPENDENT_OBJECTS_STILL_EXIST,
        format!("cannot drop {what} because other objects depend on it"),
    )
    .detail(detail.collect::<Vec<_>>().join("\n"))
    .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}
