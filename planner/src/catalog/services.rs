//! What names are bound with of the server: the functions and rules that plans are made with, its database, the files
//! that SQL may read, and threads for work that waits.

use crate::pg::conventions::SessionConventions;
use crate::pg::outcome::CopyProgress;
use crate::pg::settings::{SessionInfo, Settings};
use datafusion::execution::SessionState;
use parking_lot::RwLock;
use std::path::PathBuf;
use std::sync::Arc;
use tenon_executor::options::JoinOptions;
use tenon_storage::Database;
use tenon_storage::datetime::Conventions;
use tokio::runtime::Handle;

/// A query sent as text that is kept prepared, as a system table shows it.
pub(crate) struct KeptStatement {
    pub text: String,
    pub parameters: usize,
    pub uses: u64,
    /// How often it was planned for given values, and whether plans for any values are used.
    pub plans: (usize, bool),
}

/// Who keeps queries that were sent as text.
pub(crate) trait KeptStatements: Send + Sync {
    /// Those for sessions with such settings, this search path and the rights of a role.
    fn shown(&self, settings: &Settings, path: &[String], rights: u32) -> Vec<KeptStatement>;
}

/// A statement whose executions are counted, as `pg_stat_statements` shows it.
pub(crate) struct CountedStatement {
    pub id: i64,
    pub text: Arc<str>,
    pub plans: CountedTimes,
    pub executions: CountedTimes,
    pub rows: u64,
}

/// A number of times, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CountedTimes {
    pub count: u64,
    pub total_ms: f64,
    pub min_ms: f64,
    pub max_ms: f64,
    pub mean_ms: f64,
    pub deviation_ms: f64,
}

/// Who counts executions.
pub(crate) trait CountedStatements: Send + Sync {
    fn shown(&self) -> Vec<CountedStatement>;
    /// Forgets one of them, or all.
    fn reset(&self, id: Option<i64>);
    /// How often some were given up for others, and since when they are counted.
    fn info(&self) -> (u64, i64);
}

/// A session, as `pg_stat_activity` shows it. Times are in microseconds since 1970.
pub(crate) struct ShownSession {
    pub info: Arc<SessionInfo>,
    pub application_name: String,
    pub start_us: i64,
    pub transaction_us: Option<i64>,
    pub query_start_us: Option<i64>,
    pub changed_us: i64,
    pub state: &'static str,
    /// The kind of what it waits for, and the event.
    pub waits: Option<(&'static str, &'static str)>,
    pub query_id: Option<i64>,
    pub query: String,
    pub work: Option<Work>,
}

/// Something that takes long, as the views of progress show it.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Copy {
        /// Its oid; 0: the rows are a query's.
        relation: u32,
        from: bool,
        /// Of a file; 0: they are the client's.
        total_bytes: u64,
        progress: Arc<CopyProgress>,
    },
    CreateIndex {
        table: u32,
        rows: u64,
    },
}

/// A rule of who may connect from where and by what proof, as `pg_hba_file_rules` shows it.
#[derive(Clone, Debug)]
pub struct ConnectionRule {
    /// In its file, from 1.
    pub line: usize,
    pub kind: &'static str,
    pub databases: Vec<String>,
    pub users: Vec<String>,
    pub address: String,
    pub netmask: Option<String>,
    pub method: &'static str,
    pub options: Vec<String>,
}

/// Who knows the sessions.
pub(crate) trait Sessions: Send + Sync {
    fn shown(&self) -> Vec<ShownSession>;
}

/// One a server.
pub(crate) struct Services {
    pub state: Arc<SessionState>,
    pub database: Arc<Database>,
    /// Directories whose files SQL may read, with links followed.
    pub allowed_directories: Vec<PathBuf>,
    /// Of all statements together.
    pub gpu_memory_limit_bytes: Option<usize>,
    /// Threads of long work.
    pub threads: Handle,
    pub statements: Arc<dyn KeptStatements>,
    pub counted: Arc<dyn CountedStatements>,
    pub sessions: Arc<dyn Sessions>,
    /// Those that hold now; none where the server has no file of them.
    pub connection_rules: RwLock<Vec<ConnectionRule>>,
}

impl Services {
    /// What the server as a whole asks of joins.
    pub(crate) fn join_options(&self) -> JoinOptions {
        JoinOptions {
            gpu_memory_limit_bytes: self.gpu_memory_limit_bytes,
            ..JoinOptions::default()
        }
    }

    /// The state that plans are made with under a session's wishes for its joins and its conventions.
    pub(crate) fn under(&self, mut options: JoinOptions, conventions: Conventions) -> Arc<SessionState> {
        let limits = [options.gpu_memory_limit_bytes, self.gpu_memory_limit_bytes];
        options.gpu_memory_limit_bytes = limits.into_iter().flatten().min();
        let plain = conventions == Conventions::default();
        if plain && options == self.join_options() {
            return self.state.clone();
        }
        let mut state = self.state.as_ref().clone();
        let config = state.config_mut();
        config.options_mut().extensions.insert(options.plan_options());
        if !plain {
            let own = SessionConventions(Arc::new(conventions));
            config.options_mut().extensions.insert(own);
        }
        config.set_extension(Arc::new(options));
        // What physical expressions are made with.
        let own = state.config_options().clone();
        state.execution_props_mut().config_options = Some(own);
        Arc::new(state)
    }
}
