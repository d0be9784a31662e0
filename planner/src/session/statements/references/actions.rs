//! What becomes of referencing rows when the rows that they reference go or get other keys.

use super::check::Constraint;
use super::{Replaced, keys};
use crate::pg::error::{Result, SqlError};
use crate::pg::errors::{from_arrow, from_datafusion};
use crate::pg::parse::parse;
use crate::session::run;
use crate::session::statements::partition;
use crate::session::{Prepared, Session};
use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::datasource::{MemTable, provider_as_source};
use std::sync::Arc;
use tenon_storage::{ForeignKey, PendingKeys, ReferentialAction, Segment, quote};

/// The relation of the keys that are gone, with those in their places, in the statements that follow them.
const CHANGED_KEYS: &str = "\u{1}changed keys";

/// Statements that a session keeps.
const FOLLOWERS_MAX: usize = 64;

/// The keys that a table has lost.
struct Lost {
    /// Of rows that are gone.
    deleted: Vec<ArrayRef>,
    /// Of rows that have another one now, and that one.
    updated: Vec<ArrayRef>,
    now: Vec<ArrayRef>,
}

fn is_empty(keys: &[ArrayRef]) -> bool {
    keys.first().is_none_or(|keys| keys.is_empty())
}

/// The keys in these columns that rows no longer have. `written` are the rows that the statement has added.
fn lost(replaced: &Replaced, written: &[Arc<Segment>], columns: &[usize]) -> Result<Lost> {
    let gathered = |places: &[(u32, u32)]| -> Result<Vec<ArrayRef>> {
        let columns = columns.iter();
        columns
            .map(|column| keys::gather(&replaced.table, *column, places))
            .collect()
    };
    let deleted = gathered(&replaced.deleted)?;
    let mut lost = Lost {
        deleted: keys::pick(&deleted, &keys::valid(&deleted).0)?,
        updated: Vec::new(),
        now: Vec::new(),
    };
    if replaced.updated.is_empty() || !replaced.assigns(columns) {
        return Ok(lost);
    }
    let places: Vec<(u32, u32)> = replaced.updated.iter().map(|(place, _)| *place).collect();
    let successors: Vec<u32> = replaced.updated.iter().map(|(_, row)| *row).collect();
    let before = gathered(&places)?;
    let written: Vec<ArrayRef> = columns
        .iter()
        .map(|column| {
            let parts: Vec<ArrayRef> = written.iter().map(|segment| segment.column(*column)).collect();
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            concat(&parts).map_err(|error| from_arrow(&error))
        })
        .collect::<Result<_>>()?;
    let after = keys::pick(&written, &successors)?;
    let changed = keys::different(&before, &after)?;
    let (before, after) = (keys::pick(&before, &changed)?, keys::pick(&after, &changed)?);
    let referable = keys::valid(&before).0;
    lost.updated = keys::pick(&before, &referable)?;
    lost.now = keys::pick(&after, &referable)?;
    Ok(lost)
}

/// Does what the foreign keys that reference a table ask for once a statement has changed its rows.
pub(in crate::session::statements) async fn follow(
    session: &mut Session,
    replaced: Replaced,
    written: Vec<Arc<Segment>>,
) -> Result<()> {
    let oid = replaced.table.oid();
    if session.transaction()?.lock().is_replica() {
        return Ok(());
    }
    let mut references = session.state().references_to(oid);
    references.retain(|(_, key)| !key.unfollowed);
    let rows = replaced.deleted.len() + replaced.updated.len();
    let (replaced, written) = (Arc::new(replaced), Arc::new(written));
    for (child, key) in references {
        let Some(columns) = key.referenced_columns(replaced.table.definition()) else {
            continue;
        };
        let (own, new) = (replaced.clone(), written.clone());
        let lost = run::aside_over(&session.engine, rows, async move { lost(&own, &new, &columns) }).await?;
        if is_empty(&lost.deleted) && is_empty(&lost.updated) {
            continue;
        }
        if !is_empty(&lost.deleted) {
            act(session, child.oid(), &key, key.on_delete, lost.deleted, None).await?;
        }
        if !is_empty(&lost.updated) {
            act(session, child.oid(), &key, key.on_update, lost.updated, Some(lost.now)).await?;
        }
    }
    Ok(())
}

/// The constraint with the tables as they are now, after what was done for others.
fn constraint(session: &Session, child: u32, key: &ForeignKey) -> Result<Constraint> {
    let state = session.state();
    let Some(table) = state.table_by_oid(child) else {
        let message = format!("the table of constraint \"{}\" is not there", key.name);
        return Err(SqlError::internal(message));
    };
    Constraint::of(&state, table, key, session.engine.database().budget())
}

/// ON ... RESTRICT: rows that reference the keys must not be there once those who change them have ended.
async fn restrict(session: &Session, child: u32, key: &ForeignKey, gone: Vec<ArrayRef>) -> Result<()> {
    loop {
        let (constraint, transaction) = (constraint(session, child, key)?, session.transaction()?);
        let gone = gone.clone();
        let found = run::aside(&session.engine, async move {
            constraint.referencing(&mut transaction.lock(), &gone, true)
        });
        match found.await? {
            Some(found) => found.wait(session).await?,
            None => return Ok(()),
        }
    }
}

async fn act(
    session: &mut Session,
    child: u32,
    key: &ForeignKey,
    action: ReferentialAction,
    gone: Vec<ArrayRef>,
    now_there: Option<Vec<ArrayRef>>,
) -> Result<()> {
    let pending = PendingKeys {
        constraint: key.oid,
        table: child,
        keys: gone.clone(),
        are_gone: true,
        at_once: action == ReferentialAction::SetDefault,
    };
    let transaction = session.transaction()?;
    match action {
        ReferentialAction::NoAction => {
            transaction.lock().add_pending(pending);
            return Ok(());
        }
        ReferentialAction::Restrict => return restrict(session, child, key, gone).await,
        _ => {}
    }
    let constraint = constraint(session, child, key)?;
    constraint.rely_on_absence(&mut transaction.lock(), &gone)?;
    let is_one = gone.first().is_some_and(|keys| keys.len() == 1);
    let outer = std::mem::take(&mut session.surroundings);
    let result = match is_one && constraint.tells_keys() {
        true => of_one(session, &constraint, action, gone, now_there).await,
        false => of_many(session, &constraint, action, gone, now_there).await,
    };
    session.surroundings = outer;
    result?;
    if action == ReferentialAction::SetDefault {
        // A default that is the key that is gone left the rows as they were.
        transaction.lock().add_pending(pending);
    }
    Ok(())
}

/// Changes the rows that reference one key, by a statement that is kept with its plans.
async fn of_one(
    session: &mut Session,
    constraint: &Constraint,
    action: ReferentialAction,
    gone: Vec<ArrayRef>,
    now: Option<Vec<ArrayRef>>,
) -> Result<()> {
    let keys = gone.len();
    let equal = |at: usize, column: &str| format!("referencing.{column} = ${}", at + 1);
    let new = |at: usize| format!("${}", keys + at + 1);
    let sql = statement(constraint, action, now.is_some(), "", equal, new);
    // What does not say the new values has no parameters for them.
    let now = now.filter(|_| action == ReferentialAction::Cascade);
    let values: Vec<ArrayRef> = gone.into_iter().chain(now.into_iter().flatten()).collect();
    let fields = values.iter().enumerate().map(|(at, value)| {
        let field = constraint.parent.schema().field(constraint.columns[at % keys]).clone();
        Arc::new(field.with_data_type(value.data_type().clone()).with_nullable(true))
    });
    let fields: Vec<_> = fields.collect();
    let values = values.iter().map(|value| ScalarValue::try_from_array(value, 0));
    let values = values.collect::<datafusion::common::Result<Vec<_>>>();
    let values = values.map_err(|error| from_datafusion(&error))?;
    if session.followers.len() >= FOLLOWERS_MAX {
        session.followers.clear();
    }
    let kept = session.followers.get(&sql).filter(|kept| kept.param_fields == fields);
    let prepared = match kept {
        Some(kept) => kept.clone(),
        None => {
            let parsed = parse(&sql)?.pop();
            let parsed = parsed.ok_or_else(|| SqlError::internal("a statement of a foreign key is empty"))?;
            let prepared = Arc::new(Prepared::of(parsed, fields, None));
            session.followers.insert(sql, prepared.clone());
            prepared
        }
    };
    partition::execute_prepared(session, &prepared, &values).await
}

/// Changes the rows that reference these keys.
async fn of_many(
    session: &mut Session,
    constraint: &Constraint,
    action: ReferentialAction,
    gone: Vec<ArrayRef>,
    now: Option<Vec<ArrayRef>>,
) -> Result<()> {
    let keys = quote::name(CHANGED_KEYS);
    let equal = |at: usize, column: &str| match constraint.is_blankless(at) {
        true => format!("referencing.{column}::bpchar = changed.\"old {at}\"::bpchar"),
        false => format!("referencing.{column} = changed.\"old {at}\""),
    };
    let new = |at: usize| format!("changed.\"new {at}\"");
    let source = format!("{keys} AS changed");
    let sql = statement(constraint, action, now.is_some(), &source, equal, new);
    let source = provider_as_source(Arc::new(relation(constraint, gone, now)?));
    session.surroundings.relations.push((CHANGED_KEYS.into(), source));
    partition::execute(session, &sql).await
}

/// The keys that are gone, and the keys that rows have instead: each with its columns by number.
fn relation(constraint: &Constraint, gone: Vec<ArrayRef>, now: Option<Vec<ArrayRef>>) -> Result<MemTable> {
    let schema = constraint.parent.schema();
    let mut fields: Vec<Field> = Vec::new();
    let mut arrays = Vec::new();
    for (prefix, keys) in [("old", Some(gone)), ("new", now)] {
        for (at, array) in keys.into_iter().flatten().enumerate() {
            let field = schema.field(constraint.columns[at]).clone();
            let field = field.with_name(format!("{prefix} {at}")).with_nullable(true);
            fields.push(field.with_data_type(array.data_type().clone()));
            arrays.push(array);
        }
    }
    let schema = Arc::new(Schema::new(fields));
    let rows = RecordBatch::try_new(schema.clone(), arrays).map_err(|error| from_arrow(&error))?;
    MemTable::try_new(schema, vec![vec![rows]]).map_err(|error| from_datafusion(&error))
}

/// The statement that changes the referencing rows: with a relation in FROM, if one is given, the condition on a column by its
/// number, and what a column is set to.
fn statement(
    constraint: &Constraint,
    action: ReferentialAction,
    is_update: bool,
    from: &str,
    equal: impl Fn(usize, &str) -> String,
    new: impl Fn(usize) -> String,
) -> String {
    let definition = constraint.child.definition();
    let table = format!(
        "{}.{}",
        quote::name(&definition.schema_name),
        quote::name(&definition.name)
    );
    let columns = constraint.key.columns.iter();
    let columns: Vec<String> = columns
        .map(|column| quote::name(&definition.columns[*column].name))
        .collect();
    let listed = |part: &dyn Fn(usize, &str) -> String, between: &str| {
        let parts = columns.iter().enumerate().map(|(at, column)| part(at, column));
        parts.collect::<Vec<_>>().join(between)
    };
    let from = |keyword: &str| match from {
        "" => String::new(),
        from => format!(" {keyword} {from}"),
    };
    let equal = listed(&equal, " AND ");
    if action == ReferentialAction::Cascade && !is_update {
        return format!("DELETE FROM {table} AS referencing{} WHERE {equal}", from("USING"));
    }
    let set = |at: usize, column: &str| match action {
        ReferentialAction::SetNull => format!("{column} = NULL"),
        ReferentialAction::SetDefault => format!("{column} = DEFAULT"),
        _ => format!("{column} = {}", new(at)),
    };
    let some = &constraint.key.on_delete_columns;
    let set = match is_update || some.is_empty() {
        true => listed(&set, ", "),
        false => {
            let names = some.iter().map(|at| quote::name(&definition.columns[*at].name));
            names.map(|name| set(0, &name)).collect::<Vec<_>>().join(", ")
        }
    };
    format!("UPDATE {table} AS referencing SET {set}{} WHERE {equal}", from("FROM"))
}
