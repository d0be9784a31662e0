//! INSERT of several rows whose values are read by columns (`literal_rows`): a plan over any such rows makes of them what the table
//! gets, and the session keeps it for its next INSERT into the same columns. What rows take of sequences is one more column.

use super::rows_plan::RowsPlan;
use super::{insert, moments};
use crate::catalog::bind::Binder;
use crate::optimizer::few;
use crate::pg::error::Result;
use crate::pg::errors::{from_arrow, from_datafusion};
use crate::pg::functions::sequence;
use crate::session::Session;
use crate::session::run;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Column;
use datafusion::common::tree_node::Transformed;
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use parking_lot::Mutex;
use std::sync::Arc;
use tenon_storage::TableDefinition;

/// What the rows are called in plans over them.
const ROWS: &str = "*VALUES*";
/// Plans that a session keeps.
const PLANS_MAX: usize = 16;
/// More rows are worth a plan of their own, which all cores run.
const ROWS_MAX: usize = 4096;

/// The plans that a session keeps, the last that was made at the end.
#[derive(Default)]
pub(crate) struct GivenRows(Mutex<Vec<Kept>>);

#[derive(Clone)]
struct Kept {
    table: u32,
    /// For each column of the rows, the table's.
    targets: Vec<usize>,
    schema: SchemaRef,
    /// None: a plan of this kind is not short, or holds something of its statement.
    over: Option<Arc<Over>>,
}

struct Over {
    plan: RowsPlan,
    /// Of which a column each comes after those that are given.
    sequences: Vec<u32>,
}

/// A plan that reads the rows.
pub(super) fn scan(rows: RecordBatch) -> Result<LogicalPlan> {
    let table = MemTable::try_new(rows.schema(), vec![vec![rows]]).map_err(|error| from_datafusion(&error))?;
    LogicalPlanBuilder::scan(ROWS, provider_as_source(Arc::new(table)), None)
        .and_then(LogicalPlanBuilder::build)
        .map_err(|error| from_datafusion(&error))
}

/// What a table gets of these rows, which have values for `targets`. None: that takes a plan of its own.
pub(super) async fn rows(
    session: &Session,
    binder: &Binder,
    definition: &Arc<TableDefinition>,
    targets: &[usize],
    given: &RecordBatch,
) -> Result<Option<Vec<RecordBatch>>> {
    // EXPLAIN ANALYZE wants to see a plan, and within WITH a statement has what others take.
    let is_apart = session.watch.is_some() || session.surroundings.are_some();
    if given.num_rows() > ROWS_MAX || is_apart || !session.settings.is_on("tenon.shared_plans") {
        return Ok(None);
    }
    let schema = given.schema();
    let is_like = |kept: &&Kept| kept.table == definition.oid && kept.targets == targets && kept.schema == schema;
    let known = session.given_rows.0.lock().iter().find(is_like).cloned();
    let right = known.filter(|known| match &known.over {
        Some(over) => over.plan.is_right(session, definition),
        None => true,
    });
    let over = match right {
        Some(known) => known.over,
        None => {
            let over = made(session, binder, definition, targets, &schema).await?.map(Arc::new);
            let mut plans = session.given_rows.0.lock();
            plans.retain(|kept| !is_like(&kept));
            if plans.len() == PLANS_MAX {
                plans.remove(0);
            }
            plans.push(Kept {
                table: definition.oid,
                targets: targets.to_vec(),
                schema,
                over: over.clone(),
            });
            over
        }
    };
    let Some(over) = over else { return Ok(None) };
    let rows = with_sequences(session, given, &over.sequences)?;
    over.plan.rows(session, &rows, &[])
}

/// The plan over such rows, where it is short.
async fn made(
    session: &Session,
    binder: &Binder,
    definition: &Arc<TableDefinition>,
    targets: &[usize],
    schema: &SchemaRef,
) -> Result<Option<Over>> {
    if !insert::have_fixed_defaults(definition) {
        return Ok(None);
    }
    let plan = |sequences: &[u32]| {
        let plan = scan(nulls(&with_columns(schema, sequences.len())))?;
        let targets: Vec<Option<usize>> = targets.iter().copied().map(Some).collect();
        insert::projected(binder, definition, plan, &targets)
    };
    let mut sequences = vec![];
    let mut plan_of_rows = taken_from_columns(plan(&[])?, &mut sequences)?;
    if !sequences.is_empty() {
        plan_of_rows = taken_from_columns(plan(&sequences)?, &mut vec![])?;
    }
    let (plan, lasts) = moments::opened_beside(binder, plan_of_rows, 0, sequences.len())?;
    if !lasts {
        return Ok(None);
    }
    // What cannot be planned without its rows is planned with them, each time.
    let open = run::open(&session.run(), &plan, &[]).await.unwrap_or(None);
    let Some((open, _)) = open.filter(|(open, _)| few::is_over_rows(open)) else {
        return Ok(None);
    };
    let plan = RowsPlan::of(session, definition, open, moments::named(&plan, 0)?);
    Ok(Some(Over { plan, sequences }))
}

fn sequence_column(at: usize) -> String {
    format!("taken{}", at + 1)
}

fn with_columns(schema: &SchemaRef, sequences: usize) -> SchemaRef {
    let own = schema.fields().iter().cloned();
    let taken = (0..sequences).map(|at| Arc::new(Field::new(sequence_column(at), DataType::Int64, true)));
    Arc::new(Schema::new(own.chain(taken).collect::<Vec<_>>()))
}

/// A row that stands for others: no value of it is in a plan.
fn nulls(schema: &SchemaRef) -> RecordBatch {
    let nullable = schema
        .fields()
        .iter()
        .map(|field| field.as_ref().clone().with_nullable(true));
    let schema = Arc::new(Schema::new(nullable.collect::<Vec<_>>()));
    let columns = schema.fields().iter().map(|field| new_null_array(field.data_type(), 1));
    RecordBatch::try_new(schema.clone(), columns.collect()).unwrap_or_else(|_| RecordBatch::new_empty(schema))
}

/// A plan in which `nextval` that is all of an expression is a column of the rows: all that is called, for each row once.
fn taken_from_columns(plan: LogicalPlan, sequences: &mut Vec<u32>) -> Result<LogicalPlan> {
    let changed = plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|mut expr| {
            let name = names.save(&expr);
            let changed = moments::next_replaced(&mut expr, &mut |oid| {
                sequences.push(oid);
                Expr::Column(Column::new(Some(ROWS), sequence_column(sequences.len() - 1)))
            });
            Ok(match changed {
                true => Transformed::yes(name.restore(expr)),
                false => Transformed::no(expr),
            })
        })
    });
    changed
        .map(|changed| changed.data)
        .map_err(|error| from_datafusion(&error))
}

fn with_sequences(session: &Session, given: &RecordBatch, sequences: &[u32]) -> Result<RecordBatch> {
    if sequences.is_empty() {
        return Ok(given.clone());
    }
    let facts = session.facts(&session.state());
    let mut columns = given.columns().to_vec();
    for oid in sequences {
        let taken = sequence::next_values(&facts, *oid, given.num_rows())?;
        columns.push(Arc::new(Int64Array::from(taken)) as ArrayRef);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(given.num_rows()));
    let schema = with_columns(&given.schema(), sequences.len());
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(|error| from_arrow(&error))
}
