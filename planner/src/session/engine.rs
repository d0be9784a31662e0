//! What all sessions share: the database, the planner's state, and the threads that queries run on.

pub use crate::catalog::services::ConnectionRule;
use crate::catalog::services::Services;
use crate::optimizer::execution::task;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::functions::advisory::Locks;
use crate::pg::functions::exported::Exported;
use crate::pg::places::Places;
use crate::pg::tasks::{self, Short};
use crate::session::Clients;
use crate::session::activity::Activity;
use crate::session::admission::Admission;
use crate::session::context;
use crate::session::login::Login;
use crate::session::notify::Channels;
use crate::session::own_pool::RoleMemory;
use crate::session::plan_cache::PlanCache;
use crate::session::role_turns::RoleTurns;
use crate::session::statements::KeptChecks;
use crate::session::texts::Texts;
use crate::session::tracked::Tracked;
use crate::session::{Session, SessionInfo};
use datafusion::execution::{SessionState, TaskContext};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tenon_executor::device::{self, DeviceWish};
use tenon_executor::options::JoinOptions;
use tenon_executor::pinned::Pinned;
use tenon_storage::datetime::Conventions;
use tenon_storage::{Database, MemoryBudget, RealDisk, heap, threads};
use tokio::runtime::{Handle, Runtime};

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Bytes that tables may use.
    pub memory_limit_bytes: usize,
    /// Bytes that running queries may use for hash tables, sorts and the like, all together.
    pub query_memory_limit_bytes: usize,
    /// Bytes of GPU memory that the server may use; None: what is free.
    pub gpu_memory_limit_bytes: Option<usize>,
    /// Directories whose files COPY and `FROM 'file'` may read; empty: none.
    pub allowed_directories: Vec<PathBuf>,
    /// Partitions that a query's work is split into.
    pub target_partitions: usize,
    /// Threads that run queries.
    pub query_threads: usize,
    /// Queries that run at a time; others wait.
    pub max_concurrent_queries: usize,
    /// Where queries go on that have too little memory; None: they fail.
    pub spill: Option<Spill>,
    /// The directory in which tables outlive the process; None: they do not.
    pub store: Option<PathBuf>,
    /// Names of users whom the server believes to be superusers, whatever roles there are.
    pub superusers: Vec<String>,
    /// What is kept of a password that a role gets: a verifier of the way in which clients are asked for it.
    pub password_verifier: fn(&str) -> Result<String>,
}

/// Files of queries that have too little memory.
#[derive(Clone, Debug)]
pub struct Spill {
    pub directory: PathBuf,
    /// Of all files together.
    pub limit_bytes: u64,
}

impl Default for EngineOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Self {
            memory_limit_bytes: usize::MAX,
            query_memory_limit_bytes: usize::MAX,
            gpu_memory_limit_bytes: None,
            allowed_directories: Vec::new(),
            target_partitions: cores,
            query_threads: cores,
            max_concurrent_queries: (2 * cores).max(8),
            spill: None,
            store: None,
            superusers: Vec::new(),
            password_verifier: |_| Err(SqlError::unsupported("a role's PASSWORD")),
        }
    }
}

/// What queries may hold past the limit, bytes: operators reserve what they keep, and not the batches on their way.
pub(crate) fn margin(limit_bytes: usize) -> usize {
    (limit_bytes / 8).max(48 << 20)
}

/// One a server.
pub struct Engine {
    pub(crate) options: EngineOptions,
    /// What names are bound with.
    pub(crate) services: Arc<Services>,
    pub(crate) task: Arc<TaskContext>,
    pub(crate) admission: Admission,
    pub(crate) role_turns: Arc<RoleTurns>,
    pub(crate) role_memory: RoleMemory,
    /// Of the statements that sessions plan on their own threads.
    pub(crate) planning: Places,
    pub(crate) plans: PlanCache,
    pub(crate) texts: Arc<Texts>,
    pub(crate) tracked: Arc<Tracked>,
    pub(crate) activity: Arc<Activity>,
    pub(crate) checks: KeptChecks,
    pub(crate) channels: Channels,
    pub(crate) advisory: Arc<Locks>,
    /// Snapshots that transactions have handed on.
    pub(crate) exported: Arc<Exported>,
    /// Where functions that stop connections find them.
    pub(crate) clients: OnceLock<Weak<dyn Clients>>,
    /// Present until drop, which must not wait for running queries.
    runtime: Option<Runtime>,
    /// For short queries, which would wait for a poll of each task of all the long ones.
    short: Option<Runtime>,
    sessions: AtomicU64,
    pinned: Arc<Pinned>,
    pub(crate) superusers: Arc<[String]>,
    /// Microseconds since 1970, UTC.
    pub(crate) start_us: i64,
}

/// Of a thread that plans or runs queries: plans are walked by recursion. Only what is used is memory.
pub const STACK_BYTES: usize = 64 << 20;

/// How long a thread without work is kept: what it was prepared with is not given back.
const THREAD_REST: Duration = Duration::from_secs(3600);

/// The database in a directory; tells what was found.
fn opened(directory: &Path, budget: Arc<MemoryBudget>) -> Result<Arc<Database>> {
    let (database, found) = Database::open(directory, Arc::new(RealDisk), budget)?;
    let seconds = found.took.as_secs_f64();
    tracing::info!(
        "store {}: {} tables, {} rows, {} MiB and {} commits of the log read in {seconds:.1} s ({:.0} MB/s)",
        directory.display(),
        found.tables,
        found.rows,
        found.bytes >> 20,
        found.commits,
        found.bytes as f64 / 1e6 / seconds.max(1e-9)
    );
    if found.torn_bytes > 0 {
        tracing::warn!(
            "store {}: the log ended in {} bytes of a change that was not finished, and not acknowledged",
            directory.display(),
            found.torn_bytes
        );
    }
    Ok(database)
}

impl Engine {
    /// Fails where threads cannot be started or an allowed directory does not exist.
    pub fn new(mut options: EngineOptions) -> Result<Arc<Engine>> {
        for directory in &mut options.allowed_directories {
            *directory = directory.canonicalize().map_err(|error| {
                SqlError::new(
                    state::UNDEFINED_FILE,
                    format!("directory \"{}\": {error}", directory.display()),
                )
            })?;
        }
        threads::share();
        let runtime = query_threads("tenon-query", options.query_threads, threads::begin_long_work)?;
        let short = short_threads(options.query_threads, runtime.handle())?;
        let state = Arc::new(context::build(&options)?);
        tasks::inherit_accounts();
        if options.query_memory_limit_bytes < usize::MAX {
            heap::limit(options.query_memory_limit_bytes + margin(options.query_memory_limit_bytes));
        }
        device::configure(DeviceWish {
            kind: None,
            budget_bytes: options.gpu_memory_limit_bytes.map(|bytes| bytes as u64),
            pinned_budget_bytes: Some(options.query_memory_limit_bytes as u64),
        });
        let budget = MemoryBudget::new(options.memory_limit_bytes);
        let pinned = Pinned::start();
        budget.observe(pinned.clone());
        let database = match &options.store {
            Some(directory) => opened(directory, budget)?,
            None => Database::new(budget),
        };
        let task = task(&state);
        let texts = Arc::<Texts>::default();
        let (tracked, activity) = (Arc::<Tracked>::default(), Arc::<Activity>::default());
        let services = Services {
            connection_rules: Default::default(),
            state,
            database,
            allowed_directories: options.allowed_directories.clone(),
            gpu_memory_limit_bytes: options.gpu_memory_limit_bytes,
            threads: runtime.handle().clone(),
            statements: texts.clone(),
            counted: tracked.clone(),
            sessions: activity.clone(),
        };
        Ok(Arc::new(Engine {
            start_us: crate::pg::functions::session::now_us(),
            services: Arc::new(services),
            task,
            admission: Admission::new(options.max_concurrent_queries, options.query_threads),
            role_turns: Arc::default(),
            role_memory: RoleMemory::default(),
            planning: Places::new(2 * options.query_threads + 2),
            plans: PlanCache::default(),
            texts,
            tracked,
            activity,
            checks: KeptChecks::default(),
            channels: Channels::default(),
            advisory: Arc::default(),
            exported: Arc::default(),
            clients: OnceLock::new(),
            runtime: Some(runtime),
            short: Some(short),
            sessions: AtomicU64::new(0),
            pinned,
            superusers: options.superusers.clone().into(),
            options,
        }))
    }

    pub fn database(&self) -> &Arc<Database> {
        &self.services.database
    }

    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// Bytes of tables' memory that are registered with the GPU.
    pub fn pinned_bytes(&self) -> usize {
        self.pinned.bytes()
    }

    /// Queries that have a turn for long ones, and how many may.
    pub fn long_queries(&self) -> (usize, usize) {
        (self.admission.long_turns(), self.options.max_concurrent_queries)
    }

    /// Has `pg_hba_file_rules` show these from now on.
    pub fn show_connection_rules(&self, rules: Vec<ConnectionRule>) {
        *self.services.connection_rules.write() = rules;
    }

    /// Names the server's connections, once, for `pg_terminate_backend` and its like.
    pub fn serves(&self, clients: &Arc<dyn Clients>) {
        let _ = self.clients.set(Arc::downgrade(clients));
    }

    /// The first observer is told of how long each query waited for a turn to run.
    pub fn observe_turns(&self, observer: impl Fn(Duration) + Send + Sync + 'static) {
        self.admission.observe(observer);
    }

    /// The session of a user whose name is believed: a superuser, unless there is a role of that name.
    pub fn session(self: &Arc<Self>, info: SessionInfo) -> Session {
        let login = self.login(&info.user);
        self.session_of(info, &login)
    }

    /// A new connection's session.
    pub fn session_of(self: &Arc<Self>, info: SessionInfo, login: &Login) -> Session {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed);
        let role = login.role.as_ref().map(|role| role.oid);
        Session::new(self.clone(), info, role, number)
    }

    /// The state that plans are made with and the one that they run with, under a session's wishes for its joins and
    /// its conventions.
    pub(crate) fn under(
        &self,
        options: JoinOptions,
        conventions: Conventions,
    ) -> (Arc<SessionState>, Arc<TaskContext>) {
        let state = self.services.under(options, conventions);
        let task = match Arc::ptr_eq(&state, &self.services.state) {
            true => self.task.clone(),
            false => task(&state),
        };
        (state, task)
    }

    /// Where query work runs.
    pub(crate) fn handle(&self) -> Result<&Handle> {
        handle_of(&self.runtime)
    }

    /// Where queries run that are short.
    pub(crate) fn short(&self) -> Result<&Handle> {
        handle_of(&self.short)
    }

    /// Where a query begins of which nothing is known.
    pub(crate) fn beginning(&self) -> Result<&Handle> {
        match self.admission.has_long() {
            true => self.short(),
            false => self.handle(),
        }
    }
}

fn query_threads(name: &str, number: usize, begin: impl Fn() + Send + Sync + 'static) -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(number.max(1))
        .thread_name(name)
        .thread_stack_size(STACK_BYTES)
        .thread_keep_alive(THREAD_REST)
        .on_thread_start(begin)
        .on_thread_park(heap::rest)
        .enable_all()
        .build()
        .map_err(|error| SqlError::internal(format!("cannot start query threads: {error}")))
}

/// A few more than the threads of long work: most wait.
fn short_threads(number: usize, long: &Handle) -> Result<Runtime> {
    let workers = number + 2;
    let short = Arc::new(Short::new(long.clone(), workers));
    query_threads("tenon-short", workers, move || {
        threads::begin_short_work();
        short.begin();
    })
}

fn handle_of(runtime: &Option<Runtime>) -> Result<&Handle> {
    match runtime {
        Some(runtime) => Ok(runtime.handle()),
        None => Err(SqlError::new(state::ADMIN_SHUTDOWN, "the server is shutting down")),
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        for runtime in [self.runtime.take(), self.short.take()].into_iter().flatten() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session's wishes reach its running plans, and never exceed the server's limit.
    #[test]
    fn join_options_reach_running_plans() {
        let options = EngineOptions {
            gpu_memory_limit_bytes: Some(1000),
            ..EngineOptions::default()
        };
        let engine = Engine::new(options).unwrap();
        let limit = |asked| {
            let wish = JoinOptions {
                gpu_memory_limit_bytes: asked,
                ..JoinOptions::default()
            };
            let (state, task) = engine.under(wish, Conventions::default());
            let found = JoinOptions::of(task.session_config());
            assert_eq!(found, JoinOptions::of(state.config()));
            found.gpu_memory_limit_bytes
        };
        assert_eq!(limit(None), Some(1000));
        assert_eq!(limit(Some(10)), Some(10));
        assert_eq!(limit(Some(5000)), Some(1000));
        assert!(Arc::ptr_eq(
            &engine.under(engine.services.join_options(), Conventions::default()).1,
            &engine.task
        ));
    }
}
