//! Why a step of a connection did not succeed, and what comes of it.

use super::input::InputError;
use std::io;
use tenon_planner::error::SqlError;

/// Why a step did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// The statement failed; the connection goes on.
    Sql(SqlError),
    /// The client is told, and the connection ends.
    Fatal(SqlError),
    /// The connection ended or broke.
    Gone(Option<io::Error>),
}

pub type Step<T> = std::result::Result<T, Failure>;

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        // The client does not read, see `Output::flush`.
        if let Some(stalled) = error.get_ref().and_then(|inner| inner.downcast_ref::<SqlError>()) {
            return Self::Fatal(stalled.clone());
        }
        Self::Gone(Some(error))
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        match error {
            InputError::Gone(how) => Self::Gone(how),
            InputError::Fatal(error) => Self::Fatal(error),
            InputError::Bad(_, error) => Self::Sql(error),
        }
    }
}
