//! What each kind of statement does.

mod alter;
mod alter_index;
mod analyze;
mod anonymous;
mod arguments;
mod assign;
mod change;
mod check_constraints;
mod claims;
mod column;
mod comment;
mod composite;
mod conflict;
mod conflict_predicate;
mod conflict_through;
mod constraints;
mod copy;
mod create;
mod create_as;
mod cursor;
mod declared;
mod defaults;
mod define;
mod domain;
mod drop;
mod enums;
mod explain;
mod extension;
mod for_update;
mod function;
mod function_alter;
mod function_bodies;
mod function_texts;
mod generated;
pub(crate) mod given_rows;
mod grant;
mod index;
mod inner_locks;
mod insert;
mod insert_fields;
mod kept_checks;
mod kept_setting;
mod key_order;
mod keys;
mod like;
mod literal_rows;
mod materialized;
mod membership;
mod merge;
mod moments;
mod named;
mod origins;
mod owner;
mod parameters;
mod partition;
mod permitted;
pub(super) mod promised;
mod qualify;
pub(super) mod query;
mod ranges;
pub(crate) mod references;
mod residence;
mod returned_addresses;
mod returning;
mod role;
mod row_cells;
mod row_locks;
mod row_types;
mod rows_plan;
pub(crate) use cursor::CursorRows;
pub(crate) use kept_checks::KeptChecks;
pub(crate) use query::{at_once, found};
pub(crate) use returning::KeptColumns;
pub(crate) use rows_plan::Place as RowsPlace;
mod schema;
mod schema_name;
mod sequence;
mod sequence_texts;
mod set;
mod skip_locked;
pub(crate) mod stages;
mod stars;
mod storage_parameters;
mod stored_texts;
mod table_locks;
mod taken_columns;
mod text_dependents;
pub(crate) mod text_rows;
mod triggers;
mod type_dependents;
mod types;
mod unique;
mod untyped;
mod updatable;
mod upsert;
mod value_rows;
mod view;
mod view_texts;
pub(crate) mod with;
mod xmax;

use crate::pg::error::{Result, SqlError};
use crate::pg::outcome::{ColumnDesc, Outcome};
use crate::pg::parse::select;
use crate::pg::statement::{Kind, Statement, Utility};
use crate::session::{Prepared, Session};
use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast;
use std::sync::Arc;
use tenon_storage::DatabaseState;

/// What preparing finds out.
#[derive(Default)]
pub(crate) struct Description {
    pub params: Vec<FieldRef>,
    pub columns: Option<Vec<ColumnDesc>>,
    pub plan: Option<(Arc<DatabaseState>, LogicalPlan)>,
    /// What RETURNING sees of a change, where that is more than its table.
    pub returned: Option<Arc<KeptColumns>>,
}

/// Parameters and columns of a statement.
pub(crate) fn describe(session: &mut Session, statement: &Statement, types: &[u32]) -> Result<Description> {
    permitted::schemas(session, &statement.kind)?;
    let tree = match &statement.kind {
        Kind::Sql(tree) => tree,
        Kind::Fetch(fetch) => return cursor::describe(session, fetch),
        _ => return Ok(Description::default()),
    };
    // What else the statement may not do is told when it runs.
    let before = std::mem::replace(&mut session.describes, true);
    let described = describe_tree(session, tree, types);
    session.describes = before;
    described
}

/// The same of a statement's tree.
fn describe_tree(session: &mut Session, tree: &ast::Statement, types: &[u32]) -> Result<Description> {
    if let Some(described) = with::describe(session, tree, types)? {
        return Ok(described);
    }
    match tree {
        ast::Statement::Query(query) => match query.body.as_ref() {
            ast::SetExpr::Update(ast::Statement::Update(update)) => {
                change::describe_update(session, update, query.with.as_ref(), types)
            }
            ast::SetExpr::Delete(ast::Statement::Delete(delete)) => {
                change::describe_delete(session, delete, query.with.as_ref(), types)
            }
            ast::SetExpr::Merge(ast::Statement::Merge(merge)) => {
                merge::describe(session, merge, query.with.as_ref(), types)
            }
            _ => query::describe(session, query, types),
        },
        ast::Statement::Insert(insert) => insert::describe(session, insert, types),
        ast::Statement::Update(update) => change::describe_update(session, update, None, types),
        ast::Statement::Delete(delete) => change::describe_delete(session, delete, None, types),
        ast::Statement::Merge(merge) => merge::describe(session, merge, None, types),
        outer @ ast::Statement::Explain { statement, .. } => explain::describe(session, outer, statement, types),
        ast::Statement::Execute { name, .. } => named::describe(session, name.as_ref()),
        ast::Statement::CreateTable(ast::CreateTable { query: Some(query), .. }) => {
            let params = query::describe(session, query, types)?.params;
            Ok(Description {
                params,
                ..Description::default()
            })
        }
        ast::Statement::Declare { stmts } => match stmts.as_slice() {
            [one] => cursor::describe_declared(session, one, types),
            _ => Ok(Description::default()),
        },
        ast::Statement::ShowVariable { variable } => Ok(set::describe_show(session, variable)),
        _ => Ok(Description::default()),
    }
}

/// Runs a statement inside the session's open transaction.
pub(crate) async fn run(session: &mut Session, prepared: &Prepared, params: &[ScalarValue]) -> Result<Outcome> {
    permitted::schemas(session, &prepared.statement.kind)?;
    let changes_rows = matches!(
        &prepared.statement.kind,
        Kind::Sql(tree) if matches!(
            tree.as_ref(),
            ast::Statement::Query(_) | ast::Statement::Insert(_) | ast::Statement::Update(_) | ast::Statement::Delete(_)
        )
    );
    if !changes_rows {
        // What it makes belongs to who acts.
        let creator = session.acting().role;
        session.transaction()?.lock().set_creator(creator);
        table_locks::for_definition(session, &prepared.statement.kind).await?;
    }
    let tree = match &prepared.statement.kind {
        Kind::Sql(tree) => tree,
        Kind::Copy(copy) => return copy::run(session, prepared, copy).await,
        Kind::Analyze(analyze) => return analyze::run(session, analyze).await,
        Kind::Fetch(fetch) => return cursor::fetch(session, fetch).await,
        Kind::Definition(definition) => return define::run(session, definition).await,
        Kind::Schema(create, elements) => return schema::schema_with(session, create, elements).await,
        Kind::Utility(Utility::Discard) => return set::discard(session, prepared.sql()),
        _ => return Err(SqlError::internal("no statement")),
    };
    run_tree(session, prepared, tree, params).await
}

/// The same for a statement's tree: the prepared statement's own, or the one that it explains.
async fn run_tree(
    session: &mut Session,
    prepared: &Prepared,
    tree: &ast::Statement,
    params: &[ScalarValue],
) -> Result<Outcome> {
    if prepared.statement.may_lock
        && let Some(outcome) = inner_locks::run(session, prepared, tree, params).await?
    {
        return Ok(outcome);
    }
    run_locked(session, prepared, tree, params).await
}

/// The same where the queries within it have locked their rows.
async fn run_locked(
    session: &mut Session,
    prepared: &Prepared,
    tree: &ast::Statement,
    params: &[ScalarValue],
) -> Result<Outcome> {
    if let Some(outcome) = with::run(session, prepared, tree, params).await? {
        return Ok(outcome);
    }
    match tree {
        ast::Statement::Query(query) => match query.body.as_ref() {
            ast::SetExpr::Update(ast::Statement::Update(update)) => {
                change::update(session, prepared, update, query.with.as_ref(), params).await
            }
            ast::SetExpr::Delete(ast::Statement::Delete(delete)) => {
                change::delete(session, prepared, delete, query.with.as_ref(), params).await
            }
            ast::SetExpr::Merge(ast::Statement::Merge(merge)) => {
                merge::run(session, prepared, merge, query.with.as_ref(), params).await
            }
            _ => query::run(session, prepared, query, params).await,
        },
        ast::Statement::Insert(insert) => insert::run(session, prepared, insert, params).await,
        ast::Statement::CreateTable(create) => create::table(session, prepared, create, params).await,
        ast::Statement::CreateView(view) if view.materialized => materialized::create(session, view).await,
        ast::Statement::CreateView(view) => view::view(session, view),
        ast::Statement::CreateSchema {
            schema_name,
            if_not_exists,
            ..
        } => schema::schema(session, schema_name, *if_not_exists),
        ast::Statement::Drop {
            object_type,
            if_exists,
            names,
            cascade,
            ..
        } => drop::objects(session, *object_type, names, *if_exists, *cascade).await,
        ast::Statement::Truncate(truncate) => drop::truncate(session, truncate).await,
        ast::Statement::Set(set) => set::set(session, set),
        ast::Statement::ShowVariable { variable } => set::show(session, variable),
        ast::Statement::Reset(reset) => set::reset(session, &reset.reset),
        ast::Statement::Update(update) => change::update(session, prepared, update, None, params).await,
        ast::Statement::Delete(delete) => change::delete(session, prepared, delete, None, params).await,
        ast::Statement::Merge(merge) => merge::run(session, prepared, merge, None, params).await,
        ast::Statement::CreateIndex(create) => index::create(session, create).await,
        statement @ ast::Statement::Explain { statement: inner, .. } => {
            explain::run(session, prepared, statement, inner, params).await
        }
        ast::Statement::Declare { stmts } => match stmts.as_slice() {
            [one] => cursor::declare(session, prepared, one, params).await,
            _ => Err(SqlError::unsupported("DECLARE of several cursors")),
        },
        ast::Statement::Close { cursor } => cursor::close(session, cursor),
        ast::Statement::Prepare {
            name,
            data_types,
            statement,
        } => named::prepare(session, &prepared.statement, name, data_types, statement),
        ast::Statement::Execute { name, parameters, .. } => named::execute(session, name.as_ref(), parameters).await,
        ast::Statement::Deallocate { name, .. } => named::deallocate(session, name),
        other => Err(SqlError::unsupported(first_words(other))),
    }
}

/// A name's last part, folded.
fn last(name: &ast::ObjectName) -> String {
    name.0
        .last()
        .and_then(|part| part.as_ident())
        .map(crate::catalog::bind::fold)
        .unwrap_or_default()
}

/// The statement's first words, to name it in an error.
fn first_words(statement: &ast::Statement) -> String {
    let text = statement.to_string();
    let words: Vec<&str> = text
        .split_whitespace()
        .take_while(|word| word.chars().all(|c| c.is_ascii_uppercase()))
        .collect();
    if words.is_empty() {
        "this statement".into()
    } else {
        words.join(" ")
    }
}

/// Whether a statement only reads: a query, and no change written as one.
fn is_plain_query(tree: &ast::Statement) -> bool {
    match tree {
        ast::Statement::Query(query) => !matches!(
            query.body.as_ref(),
            ast::SetExpr::Update(_) | ast::SetExpr::Delete(_) | ast::SetExpr::Merge(_) | ast::SetExpr::Insert(_)
        ),
        _ => false,
    }
}
