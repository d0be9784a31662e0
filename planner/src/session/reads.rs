//! What the session's serializable transaction reads: noted as its plans are made, held against what others have changed when
//! it commits.

use super::plan_cache::each_table;
use super::{Isolation, Session};
use crate::pg::error::Result;
use datafusion::common::Result as DataFusionResult;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use std::sync::Arc;
use tenon_executor::scan::ReadLog;

impl Session {
    /// Has the transaction of the statement that begins rely on what it reads, if it is serializable.
    pub(super) fn note_reads(&mut self) -> Result<()> {
        self.reads = match &mut self.block {
            Some(block) if block.isolation == Isolation::Serializable => {
                Some(block.reads.get_or_insert_default().clone())
            }
            None if self.settings.is_serializable() => Some(Arc::default()),
            _ => None,
        };
        if let Some(reads) = &self.reads {
            self.transaction()?.lock().relies_on_reads(reads.clone());
        }
        Ok(())
    }

    /// Whether plans are to be made for what they read to be noted.
    pub(super) fn notes_reads(&self) -> bool {
        self.reads.is_some()
    }
}

/// The same state, whose plans note in the log what they read.
pub(super) fn noting(state: &SessionState, log: &Arc<ReadLog>) -> Arc<SessionState> {
    let mut state = state.clone();
    state.config_mut().set_extension(log.clone());
    Arc::new(state)
}

/// The tables of a plan that is to be made physical, where what it reads is noted.
pub(super) struct Noted(Option<(Arc<ReadLog>, Vec<u32>)>);

impl Noted {
    pub fn of(state: &SessionState, plan: &LogicalPlan) -> DataFusionResult<Self> {
        let Some(log) = state.config().get_extension::<ReadLog>() else {
            return Ok(Self(None));
        };
        let mut tables = Vec::new();
        each_table(plan, &mut |table| tables.push(table.oid()))?;
        Ok(Self(Some((log, tables))))
    }

    /// Those that no scan reads: the plan has been made from what is known of their rows.
    pub fn end(self) {
        if let Some((log, tables)) = self.0 {
            tables.into_iter().for_each(|table| log.note_unless_known(table));
        }
    }
}
