//! The one error type of the SQL stage: what a client is told, with its SQLSTATE.

use std::fmt;
use tenon_storage::heap::Limits;
use tenon_storage::{Subject, heap};

/// A five-character SQLSTATE (PostgreSQL manual, appendix A).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(pub &'static str);

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The states that Tenon uses, by their names in the PostgreSQL manual.
pub mod state {
    use super::SqlState;

    macro_rules! states {
        ($($name:ident = $code:literal;)*) => { $(pub const $name: SqlState = SqlState($code);)* };
    }
    states! {
        CONNECTION_FAILURE = "08006";
        PROTOCOL_VIOLATION = "08P01";
        FEATURE_NOT_SUPPORTED = "0A000";
        CARDINALITY_VIOLATION = "21000";
        DATA_EXCEPTION = "22000";
        NULL_VALUE_NOT_ALLOWED = "22004";
        STRING_DATA_RIGHT_TRUNCATION = "22001";
        NUMERIC_VALUE_OUT_OF_RANGE = "22003";
        INVALID_DATETIME_FORMAT = "22007";
        DATETIME_FIELD_OVERFLOW = "22008";
        DIVISION_BY_ZERO = "22012";
        CHARACTER_NOT_IN_REPERTOIRE = "22021";
        INVALID_PARAMETER_VALUE = "22023";
        INVALID_TEXT_REPRESENTATION = "22P02";
        INVALID_BINARY_REPRESENTATION = "22P03";
        BAD_COPY_FILE_FORMAT = "22P04";
        NOT_NULL_VIOLATION = "23502";
        FOREIGN_KEY_VIOLATION = "23503";
        UNIQUE_VIOLATION = "23505";
        CHECK_VIOLATION = "23514";
        ACTIVE_SQL_TRANSACTION = "25001";
        READ_ONLY_SQL_TRANSACTION = "25006";
        IDLE_IN_TRANSACTION_SESSION_TIMEOUT = "25P03";
        NO_ACTIVE_SQL_TRANSACTION = "25P01";
        IN_FAILED_SQL_TRANSACTION = "25P02";
        INVALID_SQL_STATEMENT_NAME = "26000";
        INVALID_AUTHORIZATION = "28000";
        INVALID_PASSWORD = "28P01";
        DEPENDENT_OBJECTS_STILL_EXIST = "2BP01";
        INVALID_CURSOR_NAME = "34000";
        INVALID_CATALOG_NAME = "3D000";
        INVALID_SCHEMA_NAME = "3F000";
        SERIALIZATION_FAILURE = "40001";
        DEADLOCK_DETECTED = "40P01";
        LOCK_NOT_AVAILABLE = "55P03";
        SYNTAX_ERROR = "42601";
        INSUFFICIENT_PRIVILEGE = "42501";
        GROUPING_ERROR = "42803";
        INVALID_FOREIGN_KEY = "42830";
        DATATYPE_MISMATCH = "42804";
        WRONG_OBJECT_TYPE = "42809";
        INVALID_COLUMN_REFERENCE = "42P10";
        INDETERMINATE_DATATYPE = "42P18";
        UNDEFINED_COLUMN = "42703";
        UNDEFINED_FUNCTION = "42883";
        UNDEFINED_TABLE = "42P01";
        UNDEFINED_PARAMETER = "42P02";
        UNDEFINED_OBJECT = "42704";
        DUPLICATE_ALIAS = "42712";
        DUPLICATE_COLUMN = "42701";
        DUPLICATE_CURSOR = "42P03";
        DUPLICATE_PREPARED_STATEMENT = "42P05";
        DUPLICATE_SCHEMA = "42P06";
        DUPLICATE_TABLE = "42P07";
        DUPLICATE_OBJECT = "42710";
        AMBIGUOUS_COLUMN = "42702";
        AMBIGUOUS_FUNCTION = "42725";
        INVALID_TABLE_DEFINITION = "42P16";
        INVALID_OBJECT_DEFINITION = "42P17";
        INVALID_FUNCTION_DEFINITION = "42P13";
        DUPLICATE_FUNCTION = "42723";
        GENERATED_ALWAYS = "428C9";
        WITH_CHECK_OPTION_VIOLATION = "44000";
        OBJECT_NOT_IN_PREREQUISITE_STATE = "55000";
        OBJECT_IN_USE = "55006";
        OUT_OF_MEMORY = "53200";
        DISK_FULL = "53100";
        TOO_MANY_CONNECTIONS = "53300";
        PROGRAM_LIMIT_EXCEEDED = "54000";
        TOO_MANY_COLUMNS = "54011";
        STATEMENT_TOO_COMPLEX = "54001";
        QUERY_CANCELED = "57014";
        ADMIN_SHUTDOWN = "57P01";
        CANNOT_CONNECT_NOW = "57P03";
        IDLE_SESSION_TIMEOUT = "57P05";
        UNDEFINED_FILE = "58P01";
        IO_ERROR = "58030";
        INTERNAL_ERROR = "XX000";
    }
}

/// An error as the client sees it. `position` counts characters of the statement text from 1.
#[derive(Clone, Debug)]
pub struct SqlError {
    pub state: SqlState,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<Box<str>>,
    pub position: Option<usize>,
    /// Where in the input it happened (`COPY t, line 3, column b`): PostgreSQL's CONTEXT.
    pub context: Option<Box<str>>,
    /// What it is about: a table, a column, a constraint.
    pub subject: Option<Box<Subject>>,
}

/// What PostgreSQL says of the place in its own sources: drivers ask for it.
pub const RAISED_BY: [(u8, &str); 3] = [(b'F', "pl_exec.c"), (b'L', "3891"), (b'R', "exec_stmt_raise")];

const CHANGED_RESULT: &str = "cached plan must not change result type";

impl SqlError {
    pub fn new(state: SqlState, message: impl Into<String>) -> Self {
        Self {
            state,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            context: None,
            subject: None,
        }
    }

    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub fn hint(mut self, hint: impl Into<Box<str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn about(mut self, subject: Subject) -> Self {
        self.subject = Some(Box::new(subject));
        self
    }

    pub fn position(mut self, position: usize) -> Self {
        self.position = Some(position);
        self
    }

    /// A prepared statement's result is no longer what it was described as (0A000).
    pub fn changed_result() -> Self {
        Self::new(state::FEATURE_NOT_SUPPORTED, CHANGED_RESULT)
    }

    pub fn is_changed_result(&self) -> bool {
        self.state == state::FEATURE_NOT_SUPPORTED && self.message == CHANGED_RESULT
    }

    /// Whether RAISE has made it, the innermost thing that its context tells.
    pub fn is_raised(&self) -> bool {
        let first = self.context.as_deref().and_then(|context| context.lines().next());
        first.is_some_and(|place| place.starts_with("PL/pgSQL function ") && place.ends_with(" at RAISE"))
    }

    /// A shape that Tenon does not run (0A000).
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Self::new(state::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
    }

    /// Refused with PostgreSQL's own words.
    pub fn unsupported_as(message: impl Into<String>) -> Self {
        Self::new(state::FEATURE_NOT_SUPPORTED, message)
    }

    /// A bug of ours (XX000).
    pub fn internal(what: impl fmt::Display) -> Self {
        Self::new(state::INTERNAL_ERROR, what.to_string())
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.state.0)
    }
}

impl std::error::Error for SqlError {}

pub type Result<T, E = SqlError> = std::result::Result<T, E>;

/// The statement holds, or was about to take, more than queries may.
pub fn out_of_memory() -> SqlError {
    let of_all = heap::limit_bytes();
    let account = heap::current();
    let limits = account.as_ref().map(|account| account.limits());
    let (of_one, of_role) = limits.map_or((of_all, of_all), |limits| (limits.held(), limits.group_held()));
    let role_is_past = limits
        .and_then(Limits::group)
        .is_some_and(|group| group.bytes() > of_role);
    let (detail, hint) = match () {
        () if of_role < of_all && (role_is_past || of_role <= of_one) => (
            format!("Statements of the role may hold {} MiB together.", of_role >> 20),
            "See the setting tenon.role_memory_limit.",
        ),
        () if of_one < of_all => (
            format!("The statement may hold {} MiB.", of_one >> 20),
            "See the setting tenon.query_memory_limit.",
        ),
        () => (
            format!("Running queries may hold {} MiB together.", of_all >> 20),
            "See the server's setting query_memory_limit.",
        ),
    };
    SqlError::new(state::OUT_OF_MEMORY, "out of memory")
        .detail(detail)
        .hint(hint)
}

/// The client, or a time limit of its, wants no more of it.
pub fn canceled() -> SqlError {
    SqlError::new(state::QUERY_CANCELED, "canceling statement due to user request")
}
