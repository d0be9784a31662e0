//! Who a session acts as: names of roles to oids and back, and what acting under a name comes to.

use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::settings::{Settings, canonical, is_of_superusers};
use std::sync::Arc;
use tenon_storage::DatabaseState;
use tenon_storage::roles::{BOOTSTRAP, NOBODY};

/// The role whose rights are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acting {
    pub role: u32,
    /// Nothing is withheld from it.
    pub superuser: bool,
}

impl Acting {
    /// The server itself, and its first superuser.
    pub const SYSTEM: Acting = Acting {
        role: BOOTSTRAP,
        superuser: true,
    };

    pub fn of(state: &DatabaseState, role: u32) -> Acting {
        Acting {
            role,
            superuser: state.is_superuser(role),
        }
    }

    /// What plans are kept for: one number for all superusers.
    pub fn rights(self) -> u32 {
        if self.superuser { BOOTSTRAP } else { self.role }
    }

    pub fn has_rights_of(self, state: &DatabaseState, role: u32) -> bool {
        self.superuser || state.has_rights_of(self.role, role)
    }
}

/// 42501 for a setting that somebody else may change.
pub(crate) fn not_to_set(name: &str) -> SqlError {
    let message = format!("permission denied to set parameter \"{}\"", canonical(name));
    SqlError::new(state::INSUFFICIENT_PRIVILEGE, message)
}

/// 55P02 for who would begin a session as another than connected.
pub(crate) fn not_at_start() -> SqlError {
    let message = "parameter \"session_authorization\" cannot be set at the start of a session";
    SqlError::new(SqlState("55P02"), message)
}

/// The user who connected.
#[derive(Debug)]
pub(crate) struct Identity {
    user: String,
    /// The role that was created under that name by then; None: a superuser whom the server believes.
    login: Option<u32>,
    /// Others whom it believes.
    superusers: Arc<[String]>,
}

impl Identity {
    pub fn of(user: &str, superusers: &Arc<[String]>, login: Option<u32>) -> Self {
        Self {
            user: user.to_string(),
            login,
            superusers: superusers.clone(),
        }
    }

    /// Who acts under a name. One who connected stays who that was, whatever roles are made or dropped meanwhile.
    fn named(&self, state: &DatabaseState, name: &str) -> u32 {
        if name == self.user {
            return self.login.unwrap_or(BOOTSTRAP);
        }
        self.oid(state, name).unwrap_or(NOBODY)
    }

    /// The role of a name.
    pub fn oid(&self, state: &DatabaseState, name: &str) -> Option<u32> {
        let believed = self.superusers.iter().any(|own| own == name) || self.login.is_none() && name == self.user;
        let created = state.role(name).map(|role| role.oid);
        created.or_else(|| believed.then_some(BOOTSTRAP))
    }

    /// The name of a role.
    pub fn name(&self, state: &DatabaseState, oid: u32) -> Option<String> {
        if oid != BOOTSTRAP {
            return state.role_by_oid(oid).map(|role| role.name.clone());
        }
        let mut names = self
            .login
            .is_none()
            .then_some(&self.user)
            .into_iter()
            .chain(self.superusers.iter());
        let free = ["tenon", "postgres"]
            .into_iter()
            .find(|name| state.role(name).is_none());
        names
            .next()
            .cloned()
            .or_else(|| Some(free.unwrap_or("superuser").to_string()))
    }

    /// The name where there is one, or the oid.
    pub fn shown(&self, state: &DatabaseState, oid: u32) -> String {
        self.name(state, oid).unwrap_or_else(|| format!("unknown (OID={oid})"))
    }

    /// Who connected.
    pub fn connected(&self, state: &DatabaseState) -> Acting {
        Acting::of(state, self.login.unwrap_or(BOOTSTRAP))
    }

    /// Who acts for the session's statements.
    pub fn current(&self, state: &DatabaseState, settings: &Settings) -> Acting {
        Acting::of(state, self.named(state, &settings.current_user(&self.user)))
    }

    /// Whose the session is.
    pub fn session(&self, state: &DatabaseState, settings: &Settings) -> Acting {
        Acting::of(state, self.named(state, &settings.session_user(&self.user)))
    }

    /// Whether who acts may change a setting: 42501 for those of superusers.
    pub fn check_change(&self, state: &DatabaseState, settings: &Settings, name: &str) -> Result<()> {
        if !is_of_superusers(name) || self.current(state, settings).superuser {
            return Ok(());
        }
        Err(not_to_set(name))
    }

    /// Whether a setting of this name and value may be made.
    pub fn check_setting(&self, state: &DatabaseState, settings: &Settings, name: &str, value: &str) -> Result<()> {
        self.check_change(state, settings, name)?;
        self.check_acting(state, settings, name, value)
    }

    /// The same of those alone that say who acts.
    pub fn check_acting(&self, state: &DatabaseState, settings: &Settings, name: &str, value: &str) -> Result<()> {
        let is = |own: &str| name.eq_ignore_ascii_case(own);
        let of_session = is("session_authorization");
        if !of_session && (!is("role") || value == "none") || of_session && value == self.user {
            return Ok(());
        }
        let Some(wanted) = self
            .oid(state, value)
            .or_else(|| (value == self.user).then(|| self.named(state, value)))
        else {
            let message = format!("role \"{value}\" does not exist");
            return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
        };
        let allowed = match of_session {
            true => self.connected(state).superuser,
            false => {
                let session = self.session(state, settings);
                session.superuser || state.is_member(session.role, wanted)
            }
        };
        if allowed {
            return Ok(());
        }
        let what = if of_session { "session authorization" } else { "role" };
        let message = format!("permission denied to set {what} \"{value}\"");
        Err(SqlError::new(state::INSUFFICIENT_PRIVILEGE, message))
    }
}
