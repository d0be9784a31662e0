//! Queries that a connection has sent as text, prepared: harnesses and dashboards send the same text again and again, and
//! its plan serves as long as it is right.

use std::collections::VecDeque;
use std::sync::Arc;
use tenon_planner::Prepared;

/// Texts that are remembered, and the longest of them, bytes.
const TEXTS_MAX: usize = 64;
const BYTES_MAX: usize = 8 << 10;

/// The latest texts, the last used first.
#[derive(Default)]
pub(super) struct Texts(VecDeque<(Box<str>, Arc<Prepared>)>);

impl Texts {
    /// What was prepared for this text.
    pub fn find(&mut self, sql: &str) -> Option<Arc<Prepared>> {
        let at = self.0.iter().position(|(text, _)| **text == *sql)?;
        let found = self.0.remove(at)?;
        let prepared = found.1.clone();
        self.0.push_front(found);
        Some(prepared)
    }

    /// Remembers a statement, in place of what there was for its text; `sql` is all that the client has sent.
    pub fn remember(&mut self, sql: &str, prepared: &Arc<Prepared>) {
        if sql.len() > BYTES_MAX || !prepared.may_keep_plan() {
            return;
        }
        if let Some(at) = self.0.iter().position(|(text, _)| **text == *sql) {
            self.0.remove(at);
        }
        self.0.truncate(TEXTS_MAX - 1);
        self.0.push_front((sql.into(), prepared.clone()));
    }
}
