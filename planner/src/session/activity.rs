//! What each session does, and since when: `pg_stat_activity`.

use crate::catalog::services::{Sessions, ShownSession, Work};
use crate::pg::functions::session::now_us;
use crate::pg::settings::SessionInfo;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// As `track_activity_query_size` has it, bytes.
const QUERY_BYTES_MAX: usize = 1024;

/// A session as others see it.
pub(crate) struct Backend {
    info: Arc<SessionInfo>,
    start_us: i64,
    /// Of the statement that runs; 0: it has none.
    query_id: AtomicI64,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    application_name: String,
    state: State,
    query: String,
    query_start_us: Option<i64>,
    /// When the transaction began, while there is one.
    transaction_us: Option<i64>,
    changed_us: i64,
    /// What the statement waits for: the kind and the event.
    waits: Option<(&'static str, &'static str)>,
    work: Option<Work>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Idle,
    Active,
    InTransaction,
    Aborted,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Idle => "idle",
            State::Active => "active",
            State::InTransaction => "idle in transaction",
            State::Aborted => "idle in transaction (aborted)",
        }
    }
}

impl Backend {
    /// A message has come; gives the time.
    pub fn receives(&self, text: &str, block_us: Option<i64>) -> i64 {
        let mut end = text.len().min(QUERY_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let now = now_us();
        self.runs(0);
        let mut seen = self.seen.lock();
        seen.query.clear();
        seen.query.push_str(&text[..end]);
        seen.query_start_us = Some(now);
        seen.transaction_us = Some(block_us.unwrap_or(now));
        if seen.state != State::Active {
            seen.state = State::Active;
            seen.changed_us = now;
        }
        now
    }

    /// The number of its statement is known.
    pub fn runs(&self, query_id: i64) {
        self.query_id.store(query_id, Ordering::Relaxed);
    }

    pub fn query_id(&self) -> i64 {
        self.query_id.load(Ordering::Relaxed)
    }

    /// It waits for its client.
    pub fn rests(&self, state: State, block_us: Option<i64>) {
        let mut seen = self.seen.lock();
        seen.transaction_us = block_us;
        if seen.state != state {
            seen.state = state;
            seen.changed_us = now_us();
        }
    }

    pub fn calls_itself(&self, name: &str) {
        let mut seen = self.seen.lock();
        if seen.application_name != name {
            seen.application_name = name.to_owned();
        }
    }

    /// The statement does something that takes long while the guard lives.
    pub fn works(self: &Arc<Self>, work: Work) -> Working {
        self.seen.lock().work = Some(work);
        Working(self.clone())
    }

    /// The statement waits while the guard lives.
    pub fn waits(self: &Arc<Self>, kind: &'static str, event: &'static str) -> Waiting {
        self.seen.lock().waits = Some((kind, event));
        Waiting(self.clone())
    }
}

/// While this lives, its session is seen at its work.
pub(crate) struct Working(Arc<Backend>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.seen.lock().work = None;
    }
}

/// While this lives, its session is seen to wait.
pub(crate) struct Waiting(Arc<Backend>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.seen.lock().waits = None;
    }
}

/// All sessions, by their numbers.
#[derive(Default)]
pub(crate) struct Activity(Mutex<BTreeMap<u64, Arc<Backend>>>);

impl Activity {
    pub fn enter(&self, number: u64, info: &Arc<SessionInfo>) -> Arc<Backend> {
        let now = now_us();
        let seen = Seen {
            application_name: info.application_name.clone(),
            changed_us: now,
            ..Seen::default()
        };
        let backend = Arc::new(Backend {
            info: info.clone(),
            start_us: now,
            query_id: AtomicI64::new(0),
            seen: Mutex::new(seen),
        });
        self.0.lock().insert(number, backend.clone());
        backend
    }

    pub fn leave(&self, number: u64) {
        self.0.lock().remove(&number);
    }
}

impl Sessions for Activity {
    fn shown(&self) -> Vec<ShownSession> {
        let all: Vec<Arc<Backend>> = self.0.lock().values().cloned().collect();
        let shown = all.iter().map(|backend| {
            let seen = backend.seen.lock();
            let waits = match seen.state {
                State::Active => seen.waits,
                _ => Some(("Client", "ClientRead")),
            };
            ShownSession {
                info: backend.info.clone(),
                application_name: seen.application_name.clone(),
                start_us: backend.start_us,
                transaction_us: seen.transaction_us,
                query_start_us: seen.query_start_us,
                changed_us: seen.changed_us,
                state: seen.state.name(),
                waits,
                query_id: Some(backend.query_id()).filter(|id| *id != 0),
                query: seen.query.clone(),
                work: seen.work.clone(),
            }
        });
        shown.collect()
    }
}
