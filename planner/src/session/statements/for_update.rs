//! SELECT ... FOR UPDATE and FOR SHARE.
//!
//! The rows are found by a query of its own for where they lie, and locked; then the query is run over the same snapshot. Where
//! others have changed one of them, both are run again over what is committed by then. SKIP LOCKED takes the rows that are free
//! in the query's order until there are as many as LIMIT says, and runs the query over these.
//!
//! More than 400 lines because the query for where the rows lie is made of the clauses of the other.

use super::query::{Reads, StatementInput};
use super::row_locks::{self, Found, Wish};
use super::{moments, parameters, query, table_locks};
use crate::catalog::bind::{Binder, fold};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::functions::aggregate::names::call_over_rows;
use crate::pg::outcome::{ColumnDesc, Outcome};
use crate::pg::walk::leaves;
use crate::session::run::{self, Source};
use crate::session::{Prepared, Session};
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, UInt32Type};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{
    self, Expr, GroupByExpr, Ident, LimitClause, LockClause, LockType, NonBlock, OrderByKind, SelectItem, SetExpr,
    TableFactor, Value,
};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use tenon_executor::scan::POSITION_FIELDS;
use tenon_storage::{LockMode, Relation, RowLocation, TableLock, TableVersion, privilege};

/// A table whose rows are locked.
struct Target {
    table: Arc<TableVersion>,
    alias: String,
    wish: Wish,
    skips: bool,
}

/// What locking a query's rows has come to.
pub(super) struct LockedRows {
    /// The query's plan and columns where it shows only the rows that were free; otherwise it is to be run as it is.
    pub plan: Option<(LogicalPlan, Vec<ColumnDesc>)>,
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
    let Some((plan, columns)) = lock(session, prepared, query, params).await?.plan else {
        return query::run_unlocked(session, prepared, query, params).await;
    };
    let source = Source::Logical(Box::new(plan));
    Ok(query::rows(columns, run::start_source(&session.run(), source).await?))
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
        let mut chosen: Option<(u32, Expr)> = None;
        for (at, target) in targets(&binder, query)?.into_iter().enumerate() {
            if table_locks::lock(session, &target.table, TableLock::RowShare).await? == Found::Changed {
                moved = true;
                continue 'again;
            }
            let rows = found(session, &binder, (prepared, at), query, params, &target).await?;
            if target.skips {
                let Some(free) = free(session, query, params, (&target, rows))? else {
                    moved = true;
                    continue 'again;
                };
                if chosen.replace((target.table.oid(), free)).is_some() {
                    return Err(SqlError::unsupported("SKIP LOCKED of several tables"));
                }
                continue;
            }
            let rows = rows.into_iter().collect();
            if row_locks::lock_as(session, &target.table, &rows, target.wish).await? == Found::Changed {
                moved = true;
                continue 'again;
            }
        }
        let Some((oid, condition)) = chosen else {
            return Ok(LockedRows { plan: None, moved });
        };
        let mut restricted = query.clone();
        if let SetExpr::Select(select) = restricted.body.as_mut() {
            select.selection = Some(and(select.selection.take(), condition));
        }
        let mut binder = session.binder();
        binder.positions_of = Some(oid);
        let plan = query::with_positions(session, &binder, prepared, &restricted, params)?;
        return Ok(LockedRows {
            plan: Some(plan),
            moved,
        });
    }
}

fn and(left: Option<Expr>, right: Expr) -> Expr {
    let nested = |expr| Expr::Nested(Box::new(expr));
    match left {
        Some(left) => Expr::BinaryOp {
            left: Box::new(nested(left)),
            op: ast::BinaryOperator::And,
            right: Box::new(nested(right)),
        },
        None => right,
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

/// Where the rows lie that the query reads of a table, the one of its targets at `at`; all that it could where those that others
/// hold are left out. The plan that finds them is kept with the statement.
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
    if target.skips {
        query.limit_clause = None;
        query.fetch = None;
    }
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

/// Locks the rows that are free, as many as the query takes, and gives the condition that lets these through. None: others have
/// changed some, and all is to be looked at again.
fn free(
    session: &Session,
    query: &ast::Query,
    params: &[ScalarValue],
    (target, mut rows): (&Target, Vec<RowLocation>),
) -> Result<Option<Expr>> {
    let most = row_limit(query, params)?;
    let mut seen = HashSet::new();
    rows.retain(|at| seen.insert((at.segment, at.row)));
    let taken = session
        .transaction()?
        .lock()
        .lock_free_rows(&target.table, &rows, most, target.wish.mode);
    let Some(taken) = taken else {
        row_locks::look_again(session)?;
        return Ok(None);
    };
    let column = |name: &str| {
        let parts = [target.alias.as_str(), name].map(|part| Ident::with_quote('"', part));
        Box::new(Expr::CompoundIdentifier(parts.to_vec()))
    };
    let number = |number: usize| Expr::Value(Value::Number(number.to_string(), false).into());
    let mut of_segments: BTreeMap<usize, Vec<Expr>> = BTreeMap::new();
    for at in &taken {
        of_segments.entry(at.segment).or_default().push(number(at.row));
    }
    let of_segments = of_segments.into_iter().map(|(segment, rows)| {
        let of_segment = Expr::BinaryOp {
            left: column(POSITION_FIELDS[0]),
            op: ast::BinaryOperator::Eq,
            right: Box::new(number(segment)),
        };
        let among = Expr::InList {
            expr: column(POSITION_FIELDS[1]),
            list: rows,
            negated: false,
        };
        and(Some(of_segment), among)
    });
    let all = of_segments.reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: ast::BinaryOperator::Or,
        right: Box::new(Expr::Nested(Box::new(right))),
    });
    Ok(Some(all.unwrap_or_else(|| Expr::Value(Value::Boolean(false).into()))))
}

/// How many rows the query gives, and passes over, at most.
fn row_limit(query: &ast::Query, params: &[ScalarValue]) -> Result<usize> {
    let count = |expr: &Expr| match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.parse().ok(),
            Value::Placeholder(name) => {
                let at: Option<usize> = name.strip_prefix('$').and_then(|number| number.parse().ok());
                let value = at.and_then(|at| params.get(at.checked_sub(1)?))?;
                match value.cast_to(&DataType::Int64).ok()? {
                    ScalarValue::Int64(Some(count)) => usize::try_from(count).ok(),
                    _ => Some(usize::MAX),
                }
            }
            Value::Null => Some(usize::MAX),
            _ => None,
        },
        _ => None,
    };
    let count =
        |expr: &Expr| count(expr).ok_or_else(|| SqlError::unsupported("SKIP LOCKED with a LIMIT that is computed"));
    let mut most = match &query.fetch {
        Some(fetch) if fetch.percent || fetch.with_ties => {
            return Err(SqlError::unsupported("SKIP LOCKED with FETCH of this kind"));
        }
        Some(fetch) => fetch.quantity.as_ref().map_or(Ok(1), count)?,
        None => usize::MAX,
    };
    if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause {
        if let Some(limit) = limit {
            most = most.min(count(limit)?);
        }
        if let Some(offset) = offset {
            most = most.saturating_add(count(&offset.value)?);
        }
    }
    Ok(most)
}
