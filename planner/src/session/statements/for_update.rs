//! SELECT ... FOR UPDATE and FOR SHARE.
//!
//! The rows are found by a query of its own for where they lie, and locked; then the query is run over the same snapshot. Where
//! others have changed one of them, both are run again over what is committed by then. (`skip_locked` gives the rows at once.)

use super::query::{Reads, StatementInput};
use super::row_locks::{self, Found, Wish};
use super::{moments, parameters, query, skip_locked, table_locks};
use crate::catalog::bind::{Binder, fold};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::functions::aggregate::names::call_over_rows;
use crate::pg::outcome::Outcome;
use crate::pg::walk::leaves;
use crate::session::{Prepared, Session};
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::UInt32Type;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{
    self, Expr, GroupByExpr, Ident, LockClause, LockType, NonBlock, OrderByKind, SelectItem, SetExpr, TableFactor,
    Value,
};
use futures::StreamExt;
use std::sync::Arc;
use tenon_executor::scan::POSITION_FIELDS;
use tenon_storage::{LockMode, Relation, RowLocation, TableLock, TableVersion, privilege};

/// A table whose rows are locked.
pub(super) struct Target {
    pub table: Arc<TableVersion>,
    pub alias: String,
    pub wish: Wish,
    skips: bool,
}

/// What locking a query's rows has come to.
pub(super) struct LockedRows {
    /// The query's rows where it gives only those that were free; otherwise it is to be run as it is.
    pub rows: Option<skip_locked::Rows>,
    /// Whether others had changed some, so that the statement goes on over what is committed by then.
    pub moved: bool,
}

/// Runs a query with locks.
pub(super) async fn run(
    session: &mut Session,
    prepared: &Prepared,
    query: &ast::Query,
    params: &[ScalarValue],
) -> Result<Outcome> {
    match lock(session, prepared, query, params).await?.rows {
        Some((columns, batches)) => {
            let batches = batches.into_iter().map(Ok);
            Ok(query::rows(columns, futures::stream::iter(batches).boxed()))
        }
        None => query::run_unlocked(session, prepared, query, params).await,
    }
}

/// Locks the rows that a query gives.
pub(super) async fn lock(
    session: &mut Session,
    prepared: &Prepared,
    query: &ast::Query,
    params: &[ScalarValue],
) -> Result<LockedRows> {
    let what = row_locks::clause(query);
    check(query, what)?;
    session.check_writable(&format!("SELECT {what}"))?;
    let mut moved = false;
    'again: loop {
        let binder = session.binder();
        let mut free = None;
        for (at, target) in targets(&binder, query)?.into_iter().enumerate() {
            if table_locks::lock(session, &target.table, TableLock::RowShare).await? == Found::Changed {
                moved = true;
                continue 'again;
            }
            if target.skips {
                let Some(rows) = skip_locked::rows(session, (prepared, at), query, params, &target).await? else {
                    moved = true;
                    continue 'again;
                };
                if free.replace(rows).is_some() {
                    return Err(SqlError::unsupported("SKIP LOCKED of several tables"));
                }
                continue;
            }
            let rows = found(session, &binder, (prepared, at), query, params, &target).await?;
            let rows = rows.into_iter().collect();
            if row_locks::lock_as(session, &target.table, &rows, target.wish).await? == Found::Changed {
                moved = true;
                continue 'again;
            }
        }
        return Ok(LockedRows { rows: free, moved });
    }
}

/// Refuses what has no row of a table behind each of its own.
fn check(query: &ast::Query, what: &str) -> Result<()> {
    let refused = |with: &str| {
        let message = format!("{what} is not allowed with {with}");
        Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message))
    };
    match query.body.as_ref() {
        SetExpr::Select(select) => {
            let groups = match &select.group_by {
                GroupByExpr::Expressions(keys, modifiers) => !(keys.is_empty() && modifiers.is_empty()),
                GroupByExpr::All(_) => true,
            };
            match () {
                () if select.distinct.is_some() => refused("DISTINCT clause"),
                () if groups => refused("GROUP BY clause"),
                () if select.having.is_some() => refused("HAVING clause"),
                () => call_over_rows(&select.projection).map_or(Ok(()), refused),
            }
        }
        SetExpr::SetOperation { .. } => refused("UNION/INTERSECT/EXCEPT"),
        _ => Ok(()),
    }
}

/// The tables in FROM whose rows are locked, each with the strongest of the clauses that name it.
fn targets(binder: &Binder, query: &ast::Query) -> Result<Vec<Target>> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return Ok(Vec::new());
    };
    let factors = select.from.iter().flat_map(leaves);
    let with = query.with.iter().flat_map(|with| &with.cte_tables);
    let with: Vec<String> = with.map(|cte| fold(&cte.alias.name)).collect();
    let mut found: Vec<Target> = Vec::new();
    let mut named: Vec<String> = Vec::new();
    for factor in factors {
        let (name, alias) = match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                ..
            } => (Some(name), alias),
            TableFactor::Derived { alias, .. } => (None, alias),
            _ => continue,
        };
        let last = name.and_then(|name| name.0.last()?.as_ident()).map(fold);
        let Some(alias) = alias.as_ref().map(|alias| fold(&alias.name)).or_else(|| last.clone()) else {
            continue;
        };
        named.push(alias.clone());
        let Some(name) = name.filter(|name| name.0.len() > 1 || !last.is_some_and(|last| with.contains(&last))) else {
            continue;
        };
        let Ok(relation) = binder.names().relation(name) else {
            continue;
        };
        let clauses = query.locks.iter().filter(|lock| names(lock, &alias));
        let Some(wish) = clauses
            .map(|lock| (lock.lock_type == LockType::Update, lock))
            .max_by_key(|(update, _)| *update)
        else {
            continue;
        };
        let (is_update, lock) = wish;
        let no_rows = |what: &str, name: &str| {
            let message = format!("cannot lock rows in {what} \"{name}\"");
            Err(SqlError::new(state::WRONG_OBJECT_TYPE, message))
        };
        let table = match relation {
            Relation::Table(table) if table.definition().query.is_some() => {
                return no_rows("materialized view", table.name());
            }
            Relation::Sequence(sequence) => return no_rows("sequence", &sequence.name),
            Relation::Table(table) => table,
            // Queries in FROM stand for them.
            Relation::View(_) | Relation::Partition(_) => continue,
        };
        let rights = binder.rights();
        if !rights.has_any(relation, privilege::UPDATE) {
            rights.check(relation, privilege::UPDATE)?;
        }
        found.push(Target {
            table: table.clone(),
            alias,
            wish: Wish {
                mode: if is_update {
                    LockMode::Exclusive
                } else {
                    LockMode::Shared
                },
                waits: lock.nonblock != Some(NonBlock::Nowait),
            },
            skips: lock.nonblock == Some(NonBlock::SkipLocked),
        });
    }
    for lock in &query.locks {
        let unknown = lock
            .of
            .as_ref()
            .filter(|_| !named.iter().any(|alias| names(lock, alias)));
        if let Some(of) = unknown {
            let message = format!("relation \"{of}\" in FOR UPDATE clause not found in FROM clause");
            return Err(SqlError::new(state::UNDEFINED_TABLE, message));
        }
    }
    Ok(found)
}

/// Whether a clause is about a relation of this alias.
pub(super) fn names(lock: &LockClause, alias: &str) -> bool {
    lock.of
        .as_ref()
        .is_none_or(|of| of.0.last().and_then(|part| part.as_ident()).map(fold).as_deref() == Some(alias))
}

/// Where the rows lie that the query reads of a table, the one of its targets at `at`. The plan that finds them is kept with the
/// statement.
async fn found(
    session: &Session,
    binder: &Binder,
    (prepared, at): (&Prepared, usize),
    query: &ast::Query,
    params: &[ScalarValue],
    target: &Target,
) -> Result<Vec<RowLocation>> {
    let is_whole = prepared.query().is_some_and(|own| std::ptr::eq(own, query));
    let part = is_whole.then(|| prepared.part(at));
    if let Some(part) = &part
        && let Some(kept) = query::found(session, part, params)
    {
        return located(session, StatementInput::of_kept(session, part, &kept, params)?).await;
    }
    let plan = finding(binder, prepared, query, target)?;
    let (plan, lasts) = moments::opened(binder, plan, params.len())?;
    let reusable = (is_whole && lasts).then_some(Reads::AndWrites);
    let source = query::source(session, part.as_deref().unwrap_or(prepared), plan, reusable, params)?;
    located(session, StatementInput::Source(source)).await
}

/// The plan that finds them.
fn finding(binder: &Binder, prepared: &Prepared, query: &ast::Query, target: &Target) -> Result<LogicalPlan> {
    let mut query = query.clone();
    let mut places: Vec<SelectItem> = Vec::new();
    for name in POSITION_FIELDS {
        places.push(SelectItem::UnnamedExpr(Expr::CompoundIdentifier(vec![
            Ident::with_quote('"', &target.alias),
            Ident::with_quote('"', name),
        ])));
    }
    let mut all_named = true;
    if let SetExpr::Select(select) = query.body.as_mut() {
        // What the order may name stays; `*` would name where rows lie once more.
        let alone = matches!(select.from.as_slice(), [only] if only.joins.is_empty() && matches!(only.relation, TableFactor::Table { .. }));
        let named = std::mem::take(&mut select.projection);
        select.projection = places;
        for item in named.into_iter().filter(|_| query.order_by.is_some()) {
            match item {
                SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) if alone => {
                    let columns = target.table.definition().columns.iter();
                    let columns = columns.map(|column| Expr::Identifier(Ident::with_quote('"', &column.name)));
                    select.projection.extend(columns.map(SelectItem::UnnamedExpr));
                }
                SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => all_named = false,
                item => select.projection.push(item),
            }
        }
    }
    if let Some(order) = &mut query.order_by
        && let OrderByKind::Expressions(keys) = &mut order.kind
    {
        for key in keys {
            if let Expr::Value(value) = &mut key.expr
                && let Value::Number(number, _) = &mut value.value
                && let Ok(at) = number.parse::<usize>()
            {
                if !all_named {
                    return Err(SqlError::unsupported(
                        "row locks of a join whose order is by the number of a column of *",
                    ));
                }
                *number = (at + POSITION_FIELDS.len()).to_string();
            }
        }
    }
    let mut binder = binder.clone();
    binder.positions_of = Some(target.table.oid());
    let declared: Vec<u32> = prepared.params.iter().map(|param| param.oid).collect();
    Ok(parameters::plan(&binder, query::checked(&query)?, &declared)?.0)
}

/// The rows that a plan finds.
async fn located(session: &Session, plan: StatementInput) -> Result<Vec<RowLocation>> {
    let take = |rows: &mut Vec<RowLocation>, batch: RecordBatch| {
        let (segments, numbers) = (batch.column(0), batch.column(1));
        // Those of an outer join's missing rows are null.
        let there = (0..batch.num_rows()).filter(|row| segments.is_valid(*row));
        rows.extend(there.map(|row| RowLocation {
            segment: segments.as_primitive::<UInt32Type>().value(row) as usize,
            row: numbers.as_primitive::<UInt32Type>().value(row) as usize,
        }));
        Ok(())
    };
    plan.drain(|| session.run(), Vec::new(), take).await
}
