//! DECLARE, FETCH and CLOSE: a query that gives its rows piece by piece.

use super::{Description, query};
use crate::bind::fold;
use crate::error::{Result, SqlError, state};
use crate::outcome::{BatchStream, Outcome, RowsTag};
use crate::run;
use crate::session::{Cursor, Prepared, Session};
use crate::types::describe as describe_columns;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{CloseCursor, Declare, FetchDirection, Ident, Value, ValueWithSpan};
use futures::StreamExt;
use tenon_storage::heap::Account;

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
    if declare.scroll == Some(true) {
        return Err(SqlError::unsupported("SCROLL cursors"));
    }
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
    let plan = query::bound_plan(&session.binder(), source, &prepared.param_fields, params)?;
    let columns = describe_columns(&run::columns(&session.engine, &plan));
    // The cursor outlives the statement, so the statement's cancel token must not be its.
    let mut own = session.run();
    own.cancel = Default::default();
    own.account = Account::new(own.cancel.clone());
    let stream = run::start(&own, plan).await?;
    session.cursors.insert(
        name,
        Cursor {
            columns,
            stream: parking_lot::Mutex::new(stream),
            account: own.account,
            ahead: None,
            hold,
            binary: declare.binary == Some(true),
        },
    );
    Ok(Outcome::Command("DECLARE CURSOR".into()))
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

fn find<'a>(session: &'a mut Session, name: &Ident) -> Result<&'a mut Cursor> {
    let name = fold(name);
    session
        .cursors
        .get_mut(&name)
        .ok_or_else(|| SqlError::new(state::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist")))
}

pub(super) fn describe(session: &mut Session, name: &Ident) -> Result<Description> {
    let columns = find(session, name)?.columns.clone();
    Ok(Description {
        columns: Some(columns),
        ..Description::default()
    })
}

/// How many rows a direction asks for; None: all.
fn count(direction: &FetchDirection) -> Result<Option<usize>> {
    let number = |value: &ValueWithSpan| match &value.value {
        Value::Number(digits, _) => digits
            .parse::<usize>()
            .map_err(|_| SqlError::unsupported("fetching backwards")),
        other => Err(SqlError::new(
            state::SYNTAX_ERROR,
            format!("syntax error at or near \"{other}\""),
        )),
    };
    match direction {
        FetchDirection::Next | FetchDirection::Forward { limit: None } => Ok(Some(1)),
        FetchDirection::Count { limit } | FetchDirection::Forward { limit: Some(limit) } => number(limit).map(Some),
        FetchDirection::All | FetchDirection::ForwardAll => Ok(None),
        _ => Err(SqlError::unsupported("fetching backwards or at a position")),
    }
}

pub(super) async fn fetch(session: &mut Session, name: &Ident, direction: &FetchDirection) -> Result<Outcome> {
    let wanted = count(direction)?;
    let cancel = session.cancel().clone();
    let cursor = find(session, name)?;
    let columns = cursor.columns.clone();
    let mut left = wanted.unwrap_or(usize::MAX);
    let mut batches: Vec<Result<RecordBatch>> = Vec::new();
    while left > 0 {
        let batch = match cursor.ahead.take() {
            Some(batch) => batch,
            None => tokio::select! {
                next = cursor.stream.get_mut().next() => match next {
                    Some(batch) => batch?,
                    None => break,
                },
                _ = cancel.cancelled() => return Err(run::canceled()),
            },
        };
        let rows = batch.num_rows().min(left);
        if rows < batch.num_rows() {
            cursor.ahead = Some(batch.slice(rows, batch.num_rows() - rows));
        }
        left -= rows;
        batches.push(Ok(batch.slice(0, rows)));
    }
    // What the rows take was taken by the cursor's query.
    let account = cursor.account.clone();
    session.set_account(account);
    let stream: BatchStream = futures::stream::iter(batches).boxed();
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
            find(session, name)?;
            session.cursors.remove(&fold(name));
            Ok(Outcome::Command("CLOSE CURSOR".into()))
        }
    }
}
