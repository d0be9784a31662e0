//! The conditions by which a transaction reads tables, noted as its scans are planned.

use arrow::array::RecordBatch;
use datafusion::common::cast::as_boolean_array;
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tenon_storage::Reads;

/// A table that was read by more conditions counts as read whole.
const CONDITIONS_MAX: usize = 256;

/// What a serializable transaction has read. An extension of the configuration that its statements are planned with.
#[derive(Debug, Default)]
pub struct ReadLog(Mutex<HashMap<u32, ReadsOf>>);

#[derive(Debug)]
enum ReadsOf {
    AllRows,
    /// Those that fulfil one of these, each over the table's columns.
    Where(Vec<Arc<dyn PhysicalExpr>>),
}

impl ReadLog {
    /// Rows that fulfil all of the conditions are read.
    pub(super) fn note(&self, table: u32, conditions: &[Arc<dyn PhysicalExpr>]) {
        let mut own = self.0.lock();
        let reads = own.entry(table).or_insert_with(|| ReadsOf::Where(Vec::new()));
        match reads {
            ReadsOf::Where(known) if !conditions.is_empty() && known.len() < CONDITIONS_MAX => {
                known.push(conjunction(conditions.iter().cloned()));
            }
            reads => *reads = ReadsOf::AllRows,
        }
    }

    /// A table that is read without a scan of its own, from what is known of its rows.
    pub fn note_unless_known(&self, table: u32) {
        self.0.lock().entry(table).or_insert(ReadsOf::AllRows);
    }
}

impl Reads for ReadLog {
    fn tables(&self) -> Vec<u32> {
        self.0.lock().keys().copied().collect()
    }

    fn would_read(&self, table: u32, rows: &RecordBatch) -> bool {
        match self.0.lock().get(&table) {
            None => false,
            Some(ReadsOf::AllRows) => true,
            // What cannot be said of the rows may have been read.
            Some(ReadsOf::Where(conditions)) => conditions
                .iter()
                .any(|condition| holds_for_any(condition, rows).unwrap_or(true)),
        }
    }
}

fn holds_for_any(condition: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> datafusion::common::Result<bool> {
    let values = condition.evaluate(rows)?.into_array(rows.num_rows())?;
    Ok(as_boolean_array(&values)?.has_true())
}
