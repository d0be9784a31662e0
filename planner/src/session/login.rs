//! What the server must know of a user before there is a session.

use crate::session::engine::Engine;
use std::sync::Arc;
use tenon_storage::rights::DATABASE_OID;
use tenon_storage::roles::BOOTSTRAP;
use tenon_storage::{Role, Secured, privilege};

/// A user as the catalog knows that one.
pub struct Login {
    /// The role of that name; None: there is none, or the name is one whom the server believes to be a superuser.
    pub role: Option<Arc<Role>>,
    /// Whether the role has CONNECT.
    pub connects: bool,
}

impl Login {
    /// The role's, or the first superuser's.
    pub fn oid(&self) -> u32 {
        self.role.as_ref().map_or(BOOTSTRAP, |role| role.oid)
    }

    /// The verifier of the role's password, as long as that holds.
    pub fn verifier(&self) -> Option<&str> {
        let role = self.role.as_ref()?;
        let now = crate::pg::functions::session::now_us();
        let holds = role.valid_until.is_none_or(|until| until >= now);
        role.password.as_deref().filter(|_| holds)
    }
}

impl Engine {
    /// Whether a user is a member of a role. Of a superuser's being everything this is no question.
    pub fn is_member(&self, login: &Login, role: &str) -> bool {
        let state = self.database().snapshot();
        let (Some(own), Some(other)) = (&login.role, state.role(role)) else {
            return false;
        };
        own.oid == other.oid || state.is_member_plainly(own.oid, other.oid)
    }

    /// What the catalog knows of a user now.
    pub fn login(&self, user: &str) -> Login {
        let state = self.database().snapshot();
        let believed = self.superusers.iter().any(|own| own == user);
        let role = state.role(user).filter(|_| !believed).cloned();
        let connects = role
            .as_ref()
            .is_none_or(|role| state.granted(role.oid, Secured::Database, DATABASE_OID, privilege::CONNECT) != 0);
        Login { role, connects }
    }
}
