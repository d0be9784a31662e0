//! Whether a user who proved who that is may connect: LOGIN, CONNECT and the number of connections of a role.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tenon_planner::error::{Result, SqlError, state};
use tenon_planner::login::Login;

/// How many connections each role has.
#[derive(Default)]
pub struct RoleConnections(Mutex<HashMap<u32, usize>>);

/// A connection of a role, for as long as it lives.
pub struct RoleConnection {
    of: Arc<RoleConnections>,
    role: u32,
}

impl RoleConnections {
    /// Lets a user in; FATAL errors as PostgreSQL words them.
    pub fn admit(self: &Arc<Self>, user: &str, database: &str, login: &Login) -> Result<Option<RoleConnection>> {
        let Some(role) = &login.role else {
            return Ok(None);
        };
        if !role.can_login {
            let message = format!("role \"{user}\" is not permitted to log in");
            return Err(SqlError::new(state::INVALID_AUTHORIZATION, message));
        }
        if !login.connects {
            let message = format!("permission denied for database \"{database}\"");
            return Err(
                SqlError::new(state::INSUFFICIENT_PRIVILEGE, message).detail("User does not have CONNECT privilege.")
            );
        }
        let mut connections = self.0.lock();
        let own = connections.entry(role.oid).or_default();
        if !role.superuser && usize::try_from(role.connection_limit).is_ok_and(|limit| *own >= limit) {
            let message = format!("too many connections for role \"{user}\"");
            return Err(SqlError::new(state::TOO_MANY_CONNECTIONS, message));
        }
        *own += 1;
        Ok(Some(RoleConnection {
            of: self.clone(),
            role: role.oid,
        }))
    }
}

impl Drop for RoleConnection {
    fn drop(&mut self) {
        let mut connections = self.of.0.lock();
        if let Some(own) = connections.get_mut(&self.role) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                connections.remove(&self.role);
            }
        }
    }
}
