//! `pg_cancel_backend` and `pg_terminate_backend`: who may stop what another connection does, or end it; `pg_reload_conf`.

use super::session::Facts;
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{BooleanArray, Int32Array};
use datafusion::error::Result;
use tenon_storage::roles::SIGNAL_BACKEND;

/// Whether there were connections of these ids, which are stopped now, or with `ends` ended. The client is told of others.
pub(super) fn stopped(facts: &Facts, ids: &Int32Array, ends: bool) -> Result<BooleanArray> {
    let stop = |id: i32| -> Result<bool> {
        let Some(clients) = &facts.clients else {
            return Ok(false);
        };
        if let Some(role) = clients.role(id) {
            check(facts, role, ends).map_err(to_datafusion)?;
        }
        Ok(match ends {
            true => clients.terminate(id),
            false => clients.cancel(id),
        })
    };
    let stopped = ids.iter().map(|id| id.map(stop).transpose());
    let stopped = stopped.collect::<Result<Vec<Option<bool>>>>()?;
    let missing = ids.iter().zip(&stopped).filter(|(_, stopped)| **stopped == Some(false));
    let messages = missing.filter_map(|(id, _)| Some(format!("PID {} is not a PostgreSQL server process", id?)));
    facts.warnings.lock().extend(messages);
    Ok(stopped.into())
}

/// Has the server read its files again; 42501 for who is no superuser.
pub(super) fn reloaded(facts: &Facts) -> Result<bool> {
    if !facts.acting.superuser {
        let message = "permission denied for function pg_reload_conf";
        return Err(to_datafusion(SqlError::new(state::INSUFFICIENT_PRIVILEGE, message)));
    }
    if let Some(clients) = &facts.clients {
        clients.reload();
    }
    Ok(true)
}

/// 42501 for who may not stop connections of a role.
fn check(facts: &Facts, role: u32, ends: bool) -> Result<(), SqlError> {
    let (acting, snapshot) = (facts.acting, &facts.snapshot);
    if acting.superuser {
        return Ok(());
    }
    let (verb, what, done) = match ends {
        false => ("cancel", "query", "canceled"),
        true => ("terminate", "process", "terminated"),
    };
    let message = match snapshot.is_superuser(role) {
        true => format!("must be a superuser to {verb} superuser {what}"),
        false if acting.has_rights_of(snapshot, role) || acting.has_rights_of(snapshot, SIGNAL_BACKEND) => {
            return Ok(());
        }
        false => format!("must be a member of the role whose {what} is being {done} or member of pg_signal_backend"),
    };
    Err(SqlError::new(state::INSUFFICIENT_PRIVILEGE, message))
}
