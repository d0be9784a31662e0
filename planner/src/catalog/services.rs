//! What names are bound with of the server: the functions and rules that plans are made with, its database, the files
//! that SQL may read, and threads for work that waits.

use crate::pg::conventions::SessionConventions;
use crate::pg::settings::Settings;
use datafusion::execution::SessionState;
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
