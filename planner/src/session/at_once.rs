//! Queries that are answered by the thread that has read them: without a task, a stream, or anything by which they could be
//! stopped, since nothing takes long. Only kept plans over few rows are (`optimizer/few.rs`); all others are executed.

use super::activity::State;
use super::{Prepared, Session, TransactionStatus};
use crate::pg::error::Result;
use crate::session::statements::{at_once, found};
use crate::session::texts::{Expected, Known};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{Query, SetExpr};
use std::sync::Arc;

/// What a session that rests may count as held, bytes.
const REST_BYTES: usize = 4 << 10;

impl Session {
    /// The rows of a prepared query. None: it is to be executed.
    pub fn answer(&mut self, prepared: &Prepared, params: &[ScalarValue]) -> Option<Result<Vec<RecordBatch>>> {
        let reads = |query: &Query| {
            query.locks.is_empty()
                && !matches!(
                    query.body.as_ref(),
                    SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) | SetExpr::Insert(_)
                )
        };
        // The log wants to see the plan run.
        if self.watch.is_some() {
            return None;
        }
        let reads = prepared.columns.is_some() && !prepared.statement.may_lock && prepared.query().is_some_and(reads);
        let failed = self.block().is_some_and(|block| block.failed);
        if !reads || failed || params.len() != prepared.params.len() || !prepared.slot.has_plans() {
            return None;
        }
        // As a statement begins, but for what stops it.
        if self.cancel.is_cancelled() || self.account.is_over() {
            self.cancel_token();
        }
        self.open_execution();
        let account = self.account.clone();
        let _entered = account.enter();
        let answer = self.begin_statement(true).and_then(|()| {
            self.check_expected()?;
            found(self, prepared, params)
                .and_then(|plan| at_once(self, &plan, params))
                .transpose()
        });
        let answer = match answer {
            Ok(rows) => self.end_reading(true).map(|()| rows),
            Err(error) => self.end_reading(false).and(Err(error)),
        };
        self.close_execution(prepared, answer).transpose()
    }

    /// The same of what was known for a text. Fails as where a plan's result has changed if it is not right any more.
    pub fn answer_known(&mut self, known: &Known) -> Option<Result<Vec<RecordBatch>>> {
        self.expected = Some(Expected::of(known));
        let answer = self.answer(known.prepared(), known.values());
        self.expected = None;
        answer
    }

    /// The statement is over: what it left behind is not counted as its own any more.
    pub fn rest(&mut self) {
        self.watch = None;
        // Of a statement by itself, whose rows were sent.
        if self.block().is_none() {
            self.advisory.truncate(0);
        }
        let state = match self.transaction_status() {
            TransactionStatus::Idle => State::Idle,
            TransactionStatus::InTransaction => State::InTransaction,
            TransactionStatus::Failed => State::Aborted,
        };
        self.backend.rests(state, self.block().map(|block| block.start_us));
        if Arc::strong_count(&self.account) > 1 || !self.account.is_settled(REST_BYTES) {
            self.account = self.new_account(&self.cancel);
        }
    }
}
