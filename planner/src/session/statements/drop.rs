//! DROP TABLE, VIEW, SCHEMA and INDEX; TRUNCATE.
//!
//! More than 400 lines because what goes along with an object is told beside it.

use super::role::rights;
use super::text_dependents;
use super::{cursor, function, function_bodies, partition, references, row_types, sequence_texts, view_texts};
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
            session.cascades_to(format!("{} {view}", relation.kind()));
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
            session.cascades_to(text_dependents::function_of(key));
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
    if let Some(relation) = snapshot.relation(schema, name) {
        cursor::check_unused(session, "DROP TABLE", relation)?;
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
            session.cascades_to(what);
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
    match kind {
        ObjectType::Table => relations(session, "table", names, if_exists, cascade).await?,
        ObjectType::View => relations(session, "view", names, if_exists, cascade).await?,
        ObjectType::MaterializedView => relations(session, "materialized view", names, if_exists, cascade).await?,
        ObjectType::Sequence => relations(session, "sequence", names, if_exists, cascade).await?,
        ObjectType::Index => {
            for name in names {
                super::index::drop(session, name, if_exists, cascade)?;
            }
        }
        ObjectType::Schema => {
            for name in names {
                schema(session, &last(name), if_exists, cascade).await?;
            }
        }
        other => return Err(SqlError::unsupported(format!("DROP {other}"))),
    }
    Ok(Outcome::Command(tag))
}

/// The name without its schema.
fn last(name: &ObjectName) -> String {
    let part = name.0.last().and_then(ObjectNamePart::as_ident);
    part.map(fold).unwrap_or_default()
}

/// Drops tables, views or sequences; nothing where one of them cannot be.
async fn relations(
    session: &mut Session,
    word: &str,
    names: &[ObjectName],
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    let mut asked: Vec<u32> = Vec::new();
    for name in names {
        asked.extend(relation(session, word, name, if_exists)?);
    }
    for oid in &asked {
        // Others have gone with what they were parts of, or depended on.
        let Some(found) = session.state().relation_by_oid(*oid).cloned() else {
            continue;
        };
        if let Some(sequence) = found.as_sequence() {
            release_sequence(session, sequence, cascade)?;
        }
        row_types::release(session, *oid, cascade, &asked).await?;
        if let Some(own) = found.as_partition() {
            partition::empty(session, own).await?;
        }
        drop_relation(session, found.schema_name(), found.name(), cascade, &asked)?;
    }
    Ok(())
}

/// The relation to drop that a name means, or None with `if_exists`.
fn relation(session: &mut Session, word: &str, name: &ObjectName, if_exists: bool) -> Result<Option<u32>> {
    let binder = session.binder();
    let Some(found) = binder.names().existing(name)? else {
        let last = last(name);
        if binder.names().index(name)?.is_some() {
            let message = format!("\"{last}\" is not a {word}");
            return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message).hint("Use DROP INDEX to remove an index."));
        }
        if !if_exists {
            let message = format!("{word} \"{last}\" does not exist");
            return Err(SqlError::new(state::UNDEFINED_TABLE, message));
        }
        session.notice(format!("{word} \"{last}\" does not exist, skipping"));
        return Ok(None);
    };
    if found.kind() != word {
        let message = format!("\"{}\" is not a {word}", found.name());
        let (kind, article) = (found.kind(), if found.kind() == "index" { "an" } else { "a" });
        let hint = format!("Use DROP {} to remove {article} {kind}.", kind.to_uppercase());
        return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message).hint(hint));
    }
    let of_schema = binder.snapshot.schema(found.schema_name());
    if !binder.rights().owns(of_schema.map_or(0, |schema| schema.oid)) {
        binder.rights().check_owner(found)?;
    }
    Ok(Some(found.oid()))
}

async fn schema(session: &mut Session, name: &str, if_exists: bool, cascade: bool) -> Result<()> {
    let snapshot = session.state();
    let Some(entry) = snapshot.schema(name) else {
        if !if_exists {
            let message = format!("schema \"{name}\" does not exist");
            return Err(SqlError::new(state::INVALID_SCHEMA_NAME, message));
        }
        session.notice(format!("schema \"{name}\" does not exist, skipping"));
        return Ok(());
    };
    rights(session, &snapshot).check_owner_of(entry.oid, "schema", name)?;
    if cascade {
        let mut within: Vec<&Relation> = entry.relations().collect();
        within.sort_unstable_by_key(|relation| relation.oid());
        let oids: Vec<u32> = within.iter().map(|relation| relation.oid()).collect();
        for relation in within {
            let is_owned = relation.as_sequence().is_some_and(|sequence| sequence.owner.is_some());
            if relation.as_partition().is_none() && !is_owned {
                session.cascades_to(format!("{} {name}.{}", relation.kind(), relation.name()));
            }
            let Some(there) = session.state().relation_by_oid(relation.oid()).cloned() else {
                continue;
            };
            if let Some(own) = there.as_partition() {
                partition::empty(session, own).await?;
            }
            if let Some(sequence) = there.as_sequence().filter(|_| !is_owned) {
                release_sequence(session, sequence, true)?;
            }
            row_types::release(session, there.oid(), true, &oids).await?;
            drop_relation(session, name, there.name(), true, &oids)?;
        }
        text_dependents::drop_objects_of(session, name).await?;
    } else {
        refuse_objects_of(&snapshot, name)?;
    }
    session.transaction()?.lock().drop_schema(name, cascade)?;
    Ok(())
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
