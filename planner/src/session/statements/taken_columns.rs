//! Columns of an INSERT whose default takes a sequence's next value, where its rows are those of a query: the plan has NULL for them,
//! so that it may be kept, and each batch of rows that it gives takes as many values as it has rows.

use super::moments;
use super::query::StatementInput;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::{from_arrow, from_datafusion};
use crate::pg::functions::sequence;
use crate::pg::functions::session::Facts;
use crate::session::Session;
use crate::session::run::ExecutionContext;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::{ExprSchema, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Projection};
use std::collections::HashSet;
use std::sync::Arc;

/// What the name of such a column in a plan begins with; the sequence's oid follows.
const TAKEN: &str = "\u{1}taken ";

/// A plan of rows to insert without such columns, and how many they are.
pub(super) fn apart(plan: LogicalPlan) -> Result<(LogicalPlan, usize)> {
    if moments::is_one_row(&plan)? {
        return Ok((plan, 0));
    }
    let LogicalPlan::Projection(projection) = &plan else {
        return Ok((plan, 0));
    };
    let mut taken = HashSet::new();
    let mut are_told_apart = true;
    let schema = projection.input.schema().as_ref();
    let exprs = projection.expr.iter().map(|expr| match of_sequence(expr, schema) {
        Some((oid, null)) => {
            are_told_apart &= taken.insert(oid);
            null.alias(format!("{TAKEN}{oid}"))
        }
        None => expr.clone(),
    });
    let exprs: Vec<Expr> = exprs.collect();
    // Of one sequence, columns take values in turn.
    if taken.is_empty() || !are_told_apart {
        return Ok((plan, 0));
    }
    let changed = Projection::try_new(exprs, projection.input.clone()).map_err(|error| from_datafusion(&error))?;
    Ok((LogicalPlan::Projection(changed), taken.len()))
}

/// The sequence whose value is all of an expression that gives a whole number, and NULL of its type.
fn of_sequence(expr: &Expr, schema: &dyn ExprSchema) -> Option<(u32, Expr)> {
    let mut found = None;
    let mut null = expr.clone().unalias();
    moments::next_replaced(&mut null, &mut |oid| {
        found = Some(oid);
        Expr::Literal(ScalarValue::Int64(None), None)
    });
    let oid = found?;
    let of = null.get_type(schema).ok()?;
    let null = ScalarValue::try_from(&of).ok()?;
    matches!(of, DataType::Int16 | DataType::Int32 | DataType::Int64).then_some((oid, Expr::Literal(null, None)))
}

/// The rows to insert.
pub(super) struct InsertRows {
    input: StatementInput,
    /// Some columns may take values of sequences: only the rows tell.
    facts: Arc<Facts>,
}

impl InsertRows {
    pub fn of(session: &Session, input: StatementInput) -> Self {
        let facts = session.facts(&session.state());
        Self { input, facts }
    }

    /// Gives each batch to `take`, as [`StatementInput::drain`] does.
    pub async fn drain<T: Send + 'static>(
        self,
        run: impl FnOnce() -> ExecutionContext,
        sink: T,
        mut take: impl FnMut(&mut T, RecordBatch) -> Result<()> + Send + 'static,
    ) -> Result<T> {
        let Self { input, facts } = self;
        let take = move |sink: &mut T, batch: RecordBatch| take(sink, filled(batch, &facts)?);
        input.drain(run, sink, take).await
    }
}

/// Rows with the values that they take.
fn filled(batch: RecordBatch, facts: &Arc<Facts>) -> Result<RecordBatch> {
    let schema = batch.schema();
    let sequence_of = |name: &str| name.strip_prefix(TAKEN).and_then(|oid| oid.parse::<u32>().ok());
    if batch.num_rows() == 0 || !schema.fields().iter().any(|field| sequence_of(field.name()).is_some()) {
        return Ok(batch);
    }
    let (mut fields, mut columns) = (vec![], vec![]);
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        fields.push(field.clone());
        let Some(oid) = sequence_of(field.name()) else {
            columns.push(column.clone());
            continue;
        };
        let values: ArrayRef = Arc::new(Int64Array::from(sequence::next_values(facts, oid, batch.num_rows())?));
        let checked = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        let values = cast_with_options(&values, field.data_type(), &checked);
        let message = match field.data_type() {
            DataType::Int16 => "smallint out of range",
            _ => "integer out of range",
        };
        columns.push(values.map_err(|_| SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, message))?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let filled = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options);
    filled.map_err(|error| from_arrow(&error))
}
