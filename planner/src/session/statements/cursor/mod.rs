//! DECLARE, FETCH, MOVE and CLOSE: a query that gives its rows piece by piece.

mod rows;

pub(crate) use rows::CursorRows;

use super::{Description, for_update, origins, query, row_locks};
use crate::catalog::bind::fold;
use crate::catalog::partitions::leaves;
use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::errors::from_datafusion;
use crate::pg::functions::session::now_us;
use crate::pg::occurring::is_volatile;
use crate::pg::outcome::{BatchStream, Outcome, RowsTag};
use crate::pg::parse::cursor::Fetch;
use crate::pg::types::describe as describe_columns;
use crate::session::plan_cache::each_table;
use crate::session::run;
use crate::session::{Cursor, Prepared, Session};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{CloseCursor, Declare, Query};
use futures::StreamExt;
use rows::{Carefully, Scroll};
use tenon_storage::Relation;

/// Where more rows are read, an error comes with the rows that were computed together with the one that has it.
const CAREFULLY_ROWS_MAX: u64 = 1 << 16;

pub(super) async fn declare(
    session: &mut Session,
    prepared: &Prepared,
    declare: &Declare,
    params: &[ScalarValue],
) -> Result<Outcome> {
    let (Some(name), Some(source)) = (declare.names.first().map(fold), &declare.for_query) else {
        return Err(SqlError::unsupported("DECLARE without a query"));
    };
    let hold = declare.hold == Some(true);
    if session.block().is_none() && !hold {
        let message = "DECLARE CURSOR can only be used in transaction blocks";
        return Err(SqlError::new(state::NO_ACTIVE_SQL_TRANSACTION, message));
    }
    if session.cursors.contains_key(&name) {
        return Err(SqlError::new(
            state::DUPLICATE_CURSOR,
            format!("cursor \"{name}\" already exists"),
        ));
    }
    let locks = !source.locks.is_empty();
    if locks {
        check_locks(declare, source)?;
    }
    let shown = match locks {
        // All at once: which of them are fetched is not known yet.
        true => for_update::lock(session, prepared, source, params).await?.rows,
        false => None,
    };
    let binder = session.binder();
    let whole = query::bound_plan(&binder, source, &prepared.param_fields, params)?;
    let columns = origins::told(&whole, describe_columns(session.columns(&whole)?.as_ref()));
    // The cursor outlives the statement, so the statement's cancel token must not be its.
    let mut own = session.run();
    own.cancel = Default::default();
    own.account = session.new_account(&own.cancel);
    let scroll = match declare.scroll {
        Some(true) => Scroll::Always,
        None if !locks && !is_one_row(&whole) && goes_back(&whole) => Scroll::WhileSmall,
        _ => Scroll::Never,
    };
    let memory = MemoryConsumer::new("cursor").register(own.task.memory_pool());
    let (mut tables, mut rows) = (binder.partitions_read(), 0_u64);
    let known = each_table(&whole, &mut |table| {
        // Of a partitioned one those partitions are read that the query names, or that are of what it names.
        if table.definition().partitioning.is_none() {
            tables.push(table.oid());
        }
        rows = rows.saturating_add(table.rows());
    });
    known.map_err(|error| from_datafusion(&error))?;
    // A query that is volatile may give, or do, something else where it is begun again.
    let repeatable = rows <= CAREFULLY_ROWS_MAX && !is_volatile(&whole).map_err(|error| from_datafusion(&error))?;
    let (stream, carefully) = match shown {
        Some((_, batches)) => (futures::stream::iter(batches.into_iter().map(Ok)).boxed(), None),
        None => {
            let carefully = repeatable.then(|| Carefully {
                run: own.clone(),
                plan: whole.clone(),
            });
            (run::start(&own, whole).await?, carefully)
        }
    };
    let is_held = hold && session.block().is_none();
    session.cursors.insert(
        name,
        Cursor {
            columns,
            rows: CursorRows::new(stream, scroll, memory, carefully),
            tables,
            account: own.account,
            hold,
            is_held,
            statement: prepared.statement.clone(),
            declared_us: now_us(),
            binary: declare.binary == Some(true),
        },
    );
    Ok(Outcome::Command("DECLARE CURSOR".into()))
}

/// Refuses to change a relation that an open cursor of the session reads, or of which it reads a partition.
pub(super) fn check_unused(session: &Session, verb: &str, relation: &Relation) -> Result<()> {
    let is_used = |oid: u32| {
        let mut open = session.cursors.values().filter(|cursor| !cursor.is_held);
        open.any(|cursor| cursor.tables.contains(&oid))
    };
    if session.cursors.is_empty() {
        return Ok(());
    }
    let below = leaves(&session.state(), relation);
    let mut used = below.iter().filter(|own| is_used(own.oid)).map(|own| own.name.as_str());
    // The parts go before the whole.
    let used = match verb {
        "DROP TABLE" => used.next_back(),
        _ => used.next(),
    };
    let Some(name) = used.or_else(|| is_used(relation.oid()).then(|| relation.name())) else {
        return Ok(());
    };
    let message = format!("cannot {verb} \"{name}\" because it is being used by active queries in this session");
    Err(SqlError::new(state::OBJECT_IN_USE, message))
}

/// Refuses the kinds of cursors that lock no rows.
fn check_locks(declare: &Declare, source: &Query) -> Result<()> {
    let what = row_locks::clause(source);
    let refused = |kind: &str, state: SqlState, detail: &str| {
        let verb = if state == state::FEATURE_NOT_SUPPORTED {
            "supported"
        } else {
            "valid"
        };
        Err(SqlError::new(state, format!("DECLARE {kind} ... {what} is not {verb}")).detail(detail))
    };
    let unsupported = state::FEATURE_NOT_SUPPORTED;
    match () {
        () if declare.hold == Some(true) => {
            refused("CURSOR WITH HOLD", unsupported, "Holdable cursors must be READ ONLY.")
        }
        () if declare.scroll == Some(true) => {
            refused("SCROLL CURSOR", unsupported, "Scrollable cursors must be READ ONLY.")
        }
        () if declare.sensitive == Some(false) => {
            let detail = "Insensitive cursors must be READ ONLY.";
            refused("INSENSITIVE CURSOR", SqlState("42P11"), detail)
        }
        () => Ok(()),
    }
}

/// The parameters of a cursor's query. DECLARE itself gives no rows.
pub(super) fn describe_declared(session: &mut Session, declare: &Declare, types: &[u32]) -> Result<Description> {
    let params = match &declare.for_query {
        Some(source) => query::describe(session, source, types)?.params,
        None => Vec::new(),
    };
    Ok(Description {
        params,
        ..Description::default()
    })
}

/// Whether PostgreSQL's plan of such a query would run backwards without being told to.
fn goes_back(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(_) | LogicalPlan::TableScan(_) | LogicalPlan::Values(_) | LogicalPlan::EmptyRelation(_) => {
            true
        }
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Union(_) => plan.inputs().into_iter().all(goes_back),
        _ => false,
    }
}

/// A SELECT without FROM, which PostgreSQL does not run backwards.
fn is_one_row(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Projection(one) if matches!(one.input.as_ref(), LogicalPlan::EmptyRelation(_)))
}

fn find<'a>(session: &'a mut Session, name: &str) -> Result<&'a mut Cursor> {
    session
        .cursors
        .get_mut(name)
        .ok_or_else(|| SqlError::new(state::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist")))
}

pub(super) fn describe(session: &mut Session, fetch: &Fetch) -> Result<Description> {
    let columns = find(session, &fetch.cursor)?.columns.clone();
    Ok(Description {
        columns: Some(columns).filter(|_| !fetch.is_move),
        ..Description::default()
    })
}

pub(super) async fn fetch(session: &mut Session, fetch: &Fetch) -> Result<Outcome> {
    let cancel = session.cancel().clone();
    let cursor = find(session, &fetch.cursor)?;
    let columns = cursor.columns.clone();
    let batches = cursor.rows.go(&fetch.cursor, fetch.direction, &cancel).await?;
    if fetch.is_move {
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        return Ok(Outcome::Command(format!("MOVE {rows}")));
    }
    // What the rows take was taken by the cursor's query.
    let account = cursor.account.clone();
    session.set_account(account);
    let stream: BatchStream = futures::stream::iter(batches.into_iter().map(Ok)).boxed();
    Ok(Outcome::Rows {
        columns,
        stream,
        tag: RowsTag::Counted("FETCH"),
    })
}

pub(super) fn close(session: &mut Session, cursor: &CloseCursor) -> Result<Outcome> {
    match cursor {
        CloseCursor::All => {
            session.cursors.clear();
            Ok(Outcome::Command("CLOSE CURSOR ALL".into()))
        }
        CloseCursor::Specific { name } => {
            let name = fold(name);
            find(session, &name)?;
            session.cursors.remove(&name);
            Ok(Outcome::Command("CLOSE CURSOR".into()))
        }
    }
}
