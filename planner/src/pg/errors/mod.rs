//! Errors of the layers below, told as PostgreSQL tells them.

mod datafusion;
mod place;
mod wording;

pub(crate) use datafusion::{from_arrow, from_datafusion};
pub(crate) use place::locate;

use crate::pg::error::{SqlError, SqlState};
use tenon_storage::StorageError;

impl From<StorageError> for SqlError {
    fn from(error: StorageError) -> Self {
        let mut told = SqlError::new(SqlState(error.sqlstate()), error.message);
        told.detail = error.detail;
        told.hint = error.hint.map(String::into_boxed_str);
        told.subject = error.subject;
        told.context = error.context.map(String::into_boxed_str);
        told
    }
}

/// Carries an `SqlError` through DataFusion.
pub(crate) fn to_datafusion(error: SqlError) -> ::datafusion::error::DataFusionError {
    ::datafusion::error::DataFusionError::External(Box::new(error))
}
