//! SKIP LOCKED: the rows of a query that no other transaction holds, in the query's order, as many as LIMIT says.
//!
//! The query is run with where its rows lie beside its own columns, and these are locked one after the other. Under a LIMIT it reads a
//! few rows more than that, and only where too many of them are held more and more; PostgreSQL's LockRows stands below its Limit, too.

use super::for_update::Target;
use super::promised::as_promised;
use super::query::{Reads, StatementInput};
use super::{moments, origins, query, row_locks};
use crate::catalog::bind::Binder;
use crate::pg::error::{Result, SqlError};
use crate::pg::errors::{from_arrow, from_datafusion};
use crate::pg::outcome::ColumnDesc;
use crate::pg::types::describe as describe_columns;
use crate::session::{Prepared, Session};
use datafusion::arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, UInt32Type};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{self, Expr, Ident, LimitClause, SelectItem, SetExpr, Value};
use std::collections::HashMap;
use std::sync::Arc;
use tenon_executor::scan::{POSITION_FIELDS, is_place};
use tenon_storage::RowLocation;

/// How many rows a query reads beside those that it takes, at first; they cost little beside beginning again.
const SPARE: usize = 31;
/// How many times as many it reads when it begins again.
const GROWTH: usize = 16;
/// More rows are read without a limit.
const LIMITED_MAX: usize = 1 << 16;

/// The rows that are locked now, and the columns that the statement tells of them.
pub(super) type Rows = (Vec<ColumnDesc>, Vec<RecordBatch>);

/// Locks the rows of a target of a query, the one at `at`, and gives the query's rows over these. None: others have changed some, and
/// all is to be looked at again.
pub(super) async fn rows(
    session: &mut Session,
    (prepared, at): (&Prepared, usize),
    query: &ast::Query,
    params: &[ScalarValue],
    target: &Target,
) -> Result<Option<Rows>> {
    session.check_expected()?;
    // It is none of those that run, and holds versions of tables.
    prepared.plan.lock().take();
    let (passed, shown) = wanted(query, params)?;
    let most = passed.saturating_add(shown);
    let mut reads = most.saturating_add(SPARE);
    loop {
        let limit = (reads <= LIMITED_MAX).then_some(reads);
        let (columns, batches) = read(session, (prepared, at), query, (params, limit), target).await?;
        let found: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let Some((free, taken)) = free(session, target, &batches, most)? else {
            row_locks::look_again(session)?;
            return Ok(None);
        };
        if taken < most && limit == Some(found) {
            reads *= GROWTH;
            continue;
        }
        let mut passed = passed;
        let mut rows = vec![];
        for (batch, free) in batches.iter().zip(free) {
            let kept = filter_record_batch(batch, &free).map_err(|error| from_arrow(&error))?;
            let skipped = passed.min(kept.num_rows());
            passed -= skipped;
            let own: Vec<usize> = (POSITION_FIELDS.len()..kept.num_columns()).collect();
            let kept = kept.slice(skipped, kept.num_rows() - skipped).project(&own);
            rows.push(kept.map_err(|error| from_arrow(&error))?);
        }
        return Ok(Some((columns, rows)));
    }
}

/// Which rows of these batches are locked now, until there are as many as are wanted, and how many they are. None: others have changed
/// one of them.
fn free(
    session: &Session,
    target: &Target,
    batches: &[RecordBatch],
    most: usize,
) -> Result<Option<(Vec<BooleanArray>, usize)>> {
    let transaction = session.transaction()?;
    let mut transaction = transaction.lock();
    // A join may have a row several times.
    let mut known: HashMap<(u32, u32), bool> = HashMap::new();
    let mut taken = 0;
    let mut free = vec![];
    for batch in batches {
        let [segments, rows] = [0, 1].map(|at| batch.column(at).as_primitive::<UInt32Type>());
        let mut of_batch = vec![false; batch.num_rows()];
        // The rows that an outer join lacks lie nowhere.
        for row in (0..batch.num_rows()).filter(|row| segments.is_valid(*row)) {
            if taken == most {
                break;
            }
            let place = (segments.value(row), rows.value(row));
            let is_free = match known.get(&place) {
                Some(known) => *known,
                None => {
                    let at = RowLocation {
                        segment: place.0 as usize,
                        row: place.1 as usize,
                    };
                    let Some(locked) = transaction.lock_free_rows(&target.table, &[at], 1, target.wish.mode) else {
                        return Ok(None);
                    };
                    known.insert(place, !locked.is_empty());
                    !locked.is_empty()
                }
            };
            of_batch[row] = is_free;
            taken += usize::from(is_free);
        }
        free.push(BooleanArray::from(of_batch));
    }
    Ok(Some((free, taken)))
}

/// The rows that a query reads, so many of them at most, whoever holds them, each after where its row of the target lies. The plan is
/// kept with the statement.
async fn read(
    session: &mut Session,
    (prepared, at): (&Prepared, usize),
    query: &ast::Query,
    (params, limit): (&[ScalarValue], Option<usize>),
    target: &Target,
) -> Result<Rows> {
    let is_whole = prepared.query().is_some_and(|own| std::ptr::eq(own, query));
    let limit = limit.and_then(|limit| i64::try_from(limit).ok());
    let values = [params, &[ScalarValue::Int64(limit)]].concat();
    let part = is_whole.then(|| prepared.part(at));
    let known = part.as_deref().and_then(|part| {
        let columns = prepared.columns.clone()?;
        Some((
            columns,
            StatementInput::of_kept(session, part, &query::found(session, part, &values)?, &values),
        ))
    });
    let (columns, input) = match known {
        Some((columns, input)) => (columns, input?),
        None => {
            let mut binder = session.binder();
            binder.positions_of = Some(target.table.oid());
            let (plan, columns) = planned(session, &binder, (prepared, is_whole), query, params.len(), target)?;
            let (plan, lasts) = moments::opened(&binder, plan, values.len())?;
            let reusable = (is_whole && lasts).then_some(Reads::AndWrites);
            let source = query::source(session, part.as_deref().unwrap_or(prepared), plan, reusable, &values)?;
            (columns, StatementInput::Source(source))
        }
    };
    let take = |batches: &mut Vec<RecordBatch>, batch: RecordBatch| {
        batches.push(batch);
        Ok(())
    };
    let batches = input.drain(|| session.run(), Vec::new(), take).await?;
    Ok((columns, batches))
}

/// The plan that reads them, whose limit is a parameter after those of the statement, and the query's columns.
fn planned(
    session: &Session,
    binder: &Binder,
    (prepared, is_whole): (&Prepared, bool),
    query: &ast::Query,
    params: usize,
    target: &Target,
) -> Result<(LogicalPlan, Vec<ColumnDesc>)> {
    let place = |at: usize| format!("\u{1}place {at}");
    let mut limited = query.clone();
    limited.fetch = None;
    let value = Value::Placeholder(format!("${}", params + 1));
    limited.limit_clause = Some(LimitClause::LimitOffset {
        limit: Some(Expr::Value(value.into())),
        offset: None,
        limit_by: vec![],
    });
    let SetExpr::Select(select) = limited.body.as_mut() else {
        return Err(SqlError::internal("rows of no SELECT are locked"));
    };
    // ORDER BY may number the columns that come before.
    for (at, name) in POSITION_FIELDS.iter().enumerate() {
        let column = [target.alias.as_str(), name].map(|part| Ident::with_quote('"', part));
        select.projection.push(SelectItem::ExprWithAlias {
            expr: Expr::CompoundIdentifier(column.to_vec()),
            alias: Ident::with_quote('"', place(at)),
        });
    }
    let mut fields = prepared.param_fields.clone();
    let limit: FieldRef = Arc::new(Field::new("", DataType::Int64, true));
    fields.resize_with(params + 1, || limit.clone());
    let plan = query::plan(binder, &limited, &fields)?;
    let (mut places, mut own) = (vec![], vec![]);
    for column in plan.schema().columns() {
        match (0..POSITION_FIELDS.len()).any(|at| column.name == place(at)) {
            true => places.push(PlanExpr::Column(column)),
            false if is_place(&column.name) => {}
            false => own.push(PlanExpr::Column(column)),
        }
    }
    let project = |exprs: Vec<PlanExpr>| {
        let plan = LogicalPlanBuilder::from(plan.clone()).project(exprs);
        plan.and_then(LogicalPlanBuilder::build)
            .map_err(|error| from_datafusion(&error))
    };
    let shown = project(own.clone())?;
    let columns = origins::told(&shown, describe_columns(session.columns(&shown)?.as_ref()));
    let columns = match is_whole {
        true => as_promised(prepared, columns)?,
        false => columns,
    };
    Ok((project(places.into_iter().chain(own).collect())?, columns))
}

/// How many rows the query passes over, and how many it gives at most.
fn wanted(query: &ast::Query, params: &[ScalarValue]) -> Result<(usize, usize)> {
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
    let mut passed = 0;
    let mut shown = match &query.fetch {
        Some(fetch) if fetch.percent || fetch.with_ties => {
            return Err(SqlError::unsupported("SKIP LOCKED with FETCH of this kind"));
        }
        Some(fetch) => fetch.quantity.as_ref().map_or(Ok(1), count)?,
        None => usize::MAX,
    };
    if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause {
        if let Some(limit) = limit {
            shown = shown.min(count(limit)?);
        }
        // NULL passes over none.
        if let Some(offset) = offset {
            passed = Some(count(&offset.value)?).filter(|all| *all < usize::MAX).unwrap_or(0);
        }
    }
    Ok((passed, shown))
}
