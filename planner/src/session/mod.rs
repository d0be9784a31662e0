//! One client's session: SQL text in, outcomes out.

pub(crate) mod activity;
pub(crate) mod admission;
mod at_once;
mod backup;
mod beginning;
mod block;
pub(crate) mod context;
mod ending;
pub mod engine;
mod execute;
pub(crate) mod explain;
mod listed;
pub mod login;
pub(crate) mod made_for;
pub(crate) mod moment_words;
mod notices;
mod notify;
mod own_pool;
pub(crate) mod plan_cache;
mod prepare;
mod reads;
mod role_turns;
pub(crate) mod run;
mod snapshot;
mod spill_files;
pub(crate) mod spilling;
pub(crate) mod statements;
mod stopped_pool;
pub(crate) mod texts;
pub(crate) mod tracked;
mod watched;

pub use crate::pg::functions::open::Clients;
pub(crate) use beginning::Sources;
pub(crate) use block::{Block, Isolation};
pub use notices::Notice;
pub use notify::{Inbox, Notification};
pub use prepare::Prepared;
pub use texts::Known;
pub use watched::{Execution, Sent};

use crate::pg::error::Result;
use crate::pg::functions::seeded::Seed;
use crate::pg::functions::sequence::Taken;
use crate::pg::identity::{Acting, Identity};
use crate::pg::outcome::ColumnDesc;
use crate::pg::settings::{Charset, Settings, Times};
pub use crate::pg::settings::{Ends, SessionInfo};
use crate::pg::statement::Statement;
use crate::session::activity::Backend;
use crate::session::admission::Standing;
use crate::session::engine::Engine;
use crate::session::notify::Listening;
use crate::session::plan_cache::Purpose;
use crate::session::role_turns::RolePlace;
use crate::session::run::{Analyzed, Watch};
use crate::session::statements::CursorRows;
use crate::session::statements::given_rows::GivenRows;
use datafusion::execution::{SessionState, TaskContext};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use tenon_executor::options::JoinOptions;
use tenon_executor::scan::ReadLog;
use tenon_storage::Transaction;
use tenon_storage::datetime::Conventions;
use tenon_storage::heap::{Account, Group};
use tenon_storage::roles::BOOTSTRAP;
use tokio_util::sync::CancellationToken;

/// Where the session's transaction block stands, as ReadyForQuery reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    Idle,
    InTransaction,
    Failed,
}

/// A cursor: the running query, and where it stands.
pub(crate) struct Cursor {
    pub columns: Vec<ColumnDesc>,
    /// What the query holds, for as long as it is open.
    pub account: Arc<Account>,
    pub rows: CursorRows,
    /// The tables that it reads, by oid.
    pub tables: Vec<u32>,
    /// WITH HOLD: lives on after its transaction.
    pub hold: bool,
    /// Its transaction has committed: nothing but CLOSE ends it.
    pub is_held: bool,
    /// What declared it, and when: microseconds since 1970, UTC.
    pub statement: Statement,
    pub declared_us: i64,
    /// BINARY: its rows are sent in binary format by the simple protocol too.
    pub binary: bool,
}

/// Wishes and conventions with what plans are made and run with under them.
type Running = (JoinOptions, Conventions, Arc<SessionState>, Arc<TaskContext>);

/// One a connection; statements run one after the other.
pub struct Session {
    pub(crate) engine: Arc<Engine>,
    pub(crate) info: Arc<SessionInfo>,
    pub(crate) number: u64,
    /// As others see it.
    pub(crate) backend: Arc<Backend>,
    pub(crate) settings: Settings,
    /// What RESET goes back to.
    startup: Settings,
    /// Where those come from.
    sources: Sources,
    /// What the client has been told.
    told: Settings,
    notices: Vec<Notice>,
    cascades: Vec<String>,
    block: Option<Block>,
    /// The transaction of a statement outside a block, while it runs.
    single: Option<Arc<Mutex<Transaction>>>,
    cancel: CancellationToken,
    /// When the running statement began.
    began: Instant,
    /// What the statement holds, or the cursor that it reads.
    account: Arc<Account>,
    /// Of its queries among others.
    standing: Standing,
    /// Of its queries among those of its role.
    role_place: Arc<RolePlace>,
    /// What the role's statements hold that share a limit.
    role_memory: Arc<Group>,
    /// Statements under SQL names: PREPARE.
    pub(crate) named: HashMap<String, Arc<Prepared>>,
    /// Statements that the protocol prepared, by name; `""` is the unnamed one. PREPARE shares their names.
    pub prepared: HashMap<String, Arc<Prepared>>,
    /// When each of them was, which may be one that was prepared before.
    pub(crate) prepared_times_us: HashMap<String, i64>,
    pub(crate) cursors: HashMap<String, Cursor>,
    /// What `currval` knows.
    pub(crate) taken: Arc<Mutex<Taken>>,
    pub(crate) seed: Arc<Seed>,
    /// What functions of the last statement warned of, not told yet.
    warnings: Arc<Mutex<Vec<String>>>,
    /// `set_config` calls of the last statement, not carried out yet.
    assignments: Arc<Mutex<Vec<(String, String, bool)>>>,
    /// What it listens to, and what its transaction asks of that.
    listening: Listening,
    pub(crate) advisory: Arc<crate::pg::functions::advisory::Owner>,
    /// How many dimensions the arrays have that the parameters of the statement that is being prepared are given.
    dimensions: Arc<[usize]>,
    /// Whether the schema of temporary tables may exist.
    pub(crate) has_temporary: bool,
    statement_start_us: i64,
    /// When the message came whose statement has not begun yet.
    received_us: Option<i64>,
    /// Whether the statement may say `now` in a literal.
    mentions_now: bool,
    /// What follows the changes of referenced rows, by the statements' texts.
    pub(crate) followers: HashMap<String, Arc<Prepared>>,
    /// What the running statement sees of the WITH before it.
    pub(crate) surroundings: crate::session::statements::with::Surroundings,
    /// What the last statement's plan was made for, what names meant then, and whether there were temporary tables.
    purpose: Mutex<Option<(u64, bool, Purpose)>>,
    /// What plans are run with under these wishes and conventions: making it takes longer than a short statement.
    running: Mutex<Option<Running>>,
    /// What describing the statement has come to, until it runs.
    analyzed: Mutex<Option<Arc<Analyzed>>>,
    /// What the statement must have been prepared for.
    expected: Option<texts::Expected>,
    /// The transaction block reads the newest snapshot already that its next statement may read.
    refreshed: bool,
    /// What the transaction of the statement that runs has read, where it is serializable.
    reads: Option<Arc<ReadLog>>,
    /// Who connected.
    pub(crate) identity: Arc<Identity>,
    /// Who acts, for the meaning of names and the settings that it was found for.
    acting: Mutex<Option<(u64, Settings, Acting)>>,
    /// The statement is only described.
    pub(crate) describes: bool,
    /// What runs is the server's own, whoever acts.
    pub(crate) trusted: bool,
    /// Sees the plans of the statement that EXPLAIN ANALYZE runs.
    pub(crate) watch: Option<Arc<Watch>>,
    /// Plans of its INSERTs of several rows.
    pub(crate) given_rows: GivenRows,
}

impl Session {
    pub(crate) fn new(engine: Arc<Engine>, info: SessionInfo, login: Option<u32>, number: u64) -> Self {
        let mut settings = Settings::default();
        settings.put("application_name".into(), info.application_name.clone());
        settings.put("session_authorization".into(), info.user.clone());
        if let Some(limit_bytes) = engine.options.gpu_memory_limit_bytes {
            settings.put(
                "tenon.gpu_memory_limit".into(),
                crate::pg::settings::bytes_text(limit_bytes),
            );
        }
        let cancel = CancellationToken::new();
        let info = Arc::new(info);
        let backend = engine.activity.enter(number, &info);
        let listening = engine.channels.session();
        let role = login.unwrap_or(BOOTSTRAP);
        let role_memory = engine.role_memory.of(role);
        let role_place = RolePlace::new(&engine.role_turns, role, &backend);
        Self {
            identity: Arc::new(Identity::of(&info.user, &engine.superusers, login)),
            advisory: engine.advisory.session(number, info.process_id),
            acting: Mutex::default(),
            describes: false,
            trusted: false,
            engine,
            info,
            number,
            backend,
            startup: settings.clone(),
            sources: Sources::default(),
            told: settings.clone(),
            settings,
            notices: Vec::new(),
            cascades: Vec::new(),
            block: None,
            standing: Standing::default(),
            role_place,
            role_memory,
            single: None,
            account: Account::new(cancel.clone()),
            cancel,
            began: Instant::now(),
            named: HashMap::new(),
            prepared: HashMap::new(),
            prepared_times_us: HashMap::new(),
            cursors: HashMap::new(),
            taken: Arc::default(),
            seed: Arc::default(),
            warnings: Arc::default(),
            dimensions: Arc::default(),
            assignments: Arc::default(),
            listening,
            has_temporary: false,
            statement_start_us: 0,
            received_us: None,
            mentions_now: false,
            followers: HashMap::new(),
            surroundings: Default::default(),
            purpose: Mutex::default(),
            running: Mutex::default(),
            analyzed: Mutex::default(),
            expected: None,
            refreshed: false,
            reads: None,
            watch: None,
            given_rows: GivenRows::default(),
        }
    }

    /// Parses a query string: no statement for an empty one, 42601 with a position for a wrong one.
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        if let Some(known) = self.engine.texts.control(sql) {
            return Ok(vec![known]);
        }
        let statements = crate::pg::parse::parse_as(sql, self.settings.is_on("standard_conforming_strings"))?;
        if let [only] = &statements[..] {
            self.engine.texts.keep_control(sql, only);
        }
        Ok(statements)
    }

    pub fn transaction_status(&self) -> TransactionStatus {
        match &self.block {
            Some(block) if block.failed => TransactionStatus::Failed,
            Some(block) if !block.implicit => TransactionStatus::InTransaction,
            _ => TransactionStatus::Idle,
        }
    }

    /// A new token for the statement about to run: cancelling it (a cancel request, `statement_timeout`, a client that
    /// vanished) ends that statement with 57014.
    pub fn cancel_token(&mut self) -> CancellationToken {
        self.cancel = CancellationToken::new();
        self.began = Instant::now();
        self.account = self.new_account(&self.cancel);
        self.cancel.clone()
    }

    /// For a statement, or what goes on after it, that ends by the token.
    pub(crate) fn new_account(&self, token: &CancellationToken) -> Arc<Account> {
        let account = Account::new(token.clone());
        self.limit_account(&account);
        account
    }

    /// Gives the account the session's own limits, if there are any.
    pub(crate) fn limit_account(&self, account: &Account) {
        own_pool::limit(account, self.settings.limits(), &self.role_memory);
    }

    /// The memory of the statement that runs; of the cursor, while its rows are sent.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    pub(crate) fn set_account(&mut self, account: Arc<Account>) {
        self.account = account;
    }

    pub(crate) fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    /// A setting's value, as SHOW gives it: `statement_timeout`, `client_encoding`. None: unknown.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.settings.get(name)
    }

    /// The session's limits of time.
    pub fn times(&self) -> Times {
        self.settings.times()
    }

    /// `extra_float_digits` where it is 0 or less.
    pub fn fewer_float_digits(&self) -> Option<i32> {
        self.settings.fewer_float_digits()
    }

    /// Whether `bytea` is written with octal escapes.
    pub fn escapes_bytea(&self) -> bool {
        self.settings.escapes_bytea()
    }

    /// What the client's texts are written in.
    pub fn charset(&self) -> Charset {
        Charset::named(&self.settings.get("client_encoding").unwrap_or_default())
    }

    /// How the session reads and writes dates, times and intervals.
    pub fn conventions(&self) -> Conventions {
        self.settings.conventions(None)
    }

    /// The columns of an open cursor, which is a portal too, and whether it is a binary one.
    pub fn cursor(&self, name: &str) -> Option<(&[ColumnDesc], bool)> {
        let cursor = self.cursors.get(name)?;
        Some((&cursor.columns, cursor.binary))
    }

    /// Closes a cursor. None of that name is no error.
    pub fn close_cursor(&mut self, name: &str) {
        self.cursors.remove(name);
    }

    /// All settings that a new connection is told: ParameterStatus.
    pub fn startup_parameters(&mut self) -> Vec<(String, String)> {
        self.told = self.settings.clone();
        let name = self.setting("application_name").unwrap_or_default();
        self.backend.calls_itself(&name);
        self.settings.reported()
    }

    /// Settings to tell the client because they changed: ParameterStatus.
    pub fn changed_parameters(&mut self) -> Vec<(String, String)> {
        self.apply_assignments();
        let changed = self.settings.changed_since(&self.told);
        if changed.iter().any(|(name, _)| name == "application_name") {
            self.backend
                .calls_itself(&self.setting("application_name").unwrap_or_default());
        }
        self.told = self.settings.clone();
        changed
    }

    pub(crate) fn startup(&self) -> &Settings {
        &self.startup
    }

    /// The session's schema for temporary tables.
    pub(crate) fn temporary_schema(&self) -> String {
        format!("pg_temp_{}", self.number)
    }
}
