//! The rows that an UPDATE or DELETE has found, and what becomes of them.

use crate::pg::error::Result;
use crate::pg::errors::from_arrow;
use crate::session::statements::claims;
use crate::session::statements::constraints::Checks;
use crate::session::statements::references::{self, Replaced};
use crate::session::{Session, run};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{Schema, UInt32Type};
use std::sync::Arc;
use tenon_storage::{Keys, RowLocation, Segment, TableRows, TableVersion, TableWriter};

/// What the query finds, gathered.
pub(super) struct Found {
    pub changed: TableRows,
    /// Where they are, in the order in which they were found; None: nobody asks.
    pub places: Option<Vec<(u32, u32)>>,
    /// Takes the new rows of an UPDATE as they come: all of them would not fit beside what else queries hold.
    pub writer: Option<TableWriter>,
    /// What RETURNING sees: the new rows, or for DELETE the old ones.
    pub kept: Option<Vec<RecordBatch>>,
}

/// Takes rows out of a table and adds others, those of a writer and more, which must satisfy the checks. `replaced` is there
/// where foreign keys ask which rows those are. Gives the segments that were added; None: others have added some of their keys,
/// or are about to, or were removing the rows that have them, and the statement is to be run again. Without `claims_keys` those
/// are claimed already, or their rows locked.
pub(in crate::session::statements) async fn replace(
    session: &mut Session,
    table: &Arc<TableVersion>,
    gone: TableRows,
    (mut writer, added, keys): (TableWriter, Vec<RecordBatch>, Keys),
    checks: Checks,
    replaced: Option<Replaced>,
    claims_keys: bool,
) -> Result<Option<Vec<Arc<Segment>>>> {
    let (transaction, table) = (session.transaction()?, table.clone());
    let rows = gone.rows() + writer.rows() + added.iter().map(RecordBatch::num_rows).sum::<usize>();
    let (segments, checks) = run::aside_over(&session.engine, rows, async move {
        for batch in &added {
            writer.append(batch)?;
        }
        let segments = writer.finish()?;
        checks.verify(&segments)?;
        Ok((segments, checks))
    })
    .await?;
    if keys == Keys::Changed && claims_keys && !claims::claimed(session, table.oid(), &segments, true).await? {
        return Ok(None);
    }
    let oid = table.oid();
    let own = segments.clone();
    let done = run::aside_over(&session.engine, rows, async move {
        let mut transaction = transaction.lock();
        let changed = match gone.is_empty() {
            false => transaction.replace_rows(&table, &gone, own.clone(), keys),
            true => transaction.append(table.oid(), own.clone()).map(|_| ()),
        };
        if let Err(error) = changed {
            return Ok(Err(error.into()));
        }
        checks.verify_written(&mut transaction, &own, replaced.as_ref())?;
        Ok(Ok(replaced))
    })
    .await?;
    let replaced = match done {
        Ok(replaced) => replaced,
        Err(error) if claims::is_refused(&error) && claims_keys && claims::may_go(session, oid, &segments).await? => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if let Some(replaced) = replaced {
        references::follow(session, replaced, segments.clone()).await?;
    }
    Ok(Some(segments))
}

/// Notes the rows of a batch that are met for the first time. `width`: the columns of the table, which come first in the
/// schema.
pub(super) fn take(found: &mut Found, (schema, width): (&Arc<Schema>, usize), batch: &RecordBatch) -> Result<()> {
    let segments = batch.column(0).as_primitive::<UInt32Type>();
    let rows = batch.column(1).as_primitive::<UInt32Type>();
    let mut first = BooleanBufferBuilder::new(batch.num_rows());
    for (segment, row) in segments.values().iter().zip(rows.values()) {
        let new = found.changed.insert(RowLocation {
            segment: *segment as usize,
            row: *row as usize,
        });
        first.append(new);
        if let Some(places) = found.places.as_mut().filter(|_| new) {
            places.push((*segment, *row));
        }
    }
    if batch.num_columns() > 2 {
        let columns: Vec<ArrayRef> = batch.columns()[2..].to_vec();
        let fields: Vec<_> = schema
            .fields()
            .iter()
            .zip(&columns)
            .map(|(field, column)| {
                field
                    .as_ref()
                    .clone()
                    .with_data_type(column.data_type().clone())
                    .with_nullable(true)
            })
            .collect();
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
            .and_then(|batch| filter_record_batch(&batch, &BooleanArray::new(first.finish(), None)))
            .map_err(|error| from_arrow(&error))?;
        if rows.num_rows() == 0 {
            return Ok(());
        }
        if let Some(writer) = &mut found.writer {
            let own: Vec<usize> = (0..width).collect();
            writer.append(&rows.project(&own).map_err(|error| from_arrow(&error))?)?;
        }
        if let Some(kept) = &mut found.kept {
            kept.push(rows);
        }
    }
    Ok(())
}
