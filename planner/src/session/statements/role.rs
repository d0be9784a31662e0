//! Roles: names that a session can act under. Nothing belongs to them and nothing is withheld from them; who may connect
//! is the password file's matter.

use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::outcome::Outcome;
use crate::pg::parse::definition::RoleChange;
use crate::session::Session;
use std::sync::Arc;
use tenon_storage::{Object, ObjectKey, Role};

fn key(name: &str) -> ObjectKey {
    ObjectKey::Role { name: name.into() }
}

fn undefined(name: &str) -> SqlError {
    SqlError::new(state::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
}

/// The role of that name that was created; the user who connected is none of these.
fn find(session: &Session, name: &str) -> Option<Arc<Role>> {
    match session.state().objects().get(&key(name)) {
        Some(Object::Role(role)) => Some(role.clone()),
        _ => None,
    }
}

fn exists(session: &Session, name: &str) -> bool {
    name == session.user() || find(session, name).is_some()
}

/// A name that no role has yet, and may have.
fn check_new(session: &Session, name: &str) -> Result<()> {
    if name == "public" || name == "none" || name.starts_with("pg_") {
        let message = format!("role name \"{name}\" is reserved");
        return Err(SqlError::new(SqlState("42939"), message));
    }
    if exists(session, name) {
        let message = format!("role \"{name}\" already exists");
        return Err(SqlError::new(state::DUPLICATE_OBJECT, message));
    }
    Ok(())
}

fn refuse_password(given: bool) -> Result<()> {
    match given {
        true => Err(SqlError::unsupported("a role's PASSWORD").hint("Users and passwords stand in --password-file.")),
        false => Ok(()),
    }
}

pub(super) fn change(session: &mut Session, change: &RoleChange, tag: &str) -> Result<Outcome> {
    session.check_writable(tag)?;
    let transaction = session.transaction()?;
    let put = |name: &str, can_login: bool, oid: Option<u32>| {
        let mut transaction = transaction.lock();
        let oid = oid.unwrap_or_else(|| transaction.new_oid());
        let role = Role {
            oid,
            name: name.into(),
            can_login,
        };
        transaction.put_object(key(name), Some(Object::Role(Arc::new(role))));
    };
    match change {
        RoleChange::Create {
            name,
            can_login,
            password,
            others,
        } => {
            check_new(session, name)?;
            refuse_password(*password)?;
            if let Some(other) = others.iter().find(|other| !exists(session, other)) {
                return Err(undefined(other));
            }
            put(name, *can_login, None);
        }
        RoleChange::Alter {
            name,
            can_login,
            password,
        } => {
            refuse_password(*password)?;
            match find(session, name) {
                Some(role) => put(name, can_login.unwrap_or(role.can_login), Some(role.oid)),
                None if exists(session, name) => {}
                None => return Err(undefined(name)),
            }
        }
        RoleChange::Rename { from, to } => {
            let role = find(session, from);
            if *from == session.user() {
                return Err(SqlError::unsupported_as("session user cannot be renamed"));
            }
            let role = role.ok_or_else(|| undefined(from))?;
            check_new(session, to)?;
            transaction.lock().put_object(key(from), None);
            put(to, role.can_login, Some(role.oid));
        }
        RoleChange::Drop { if_exists, names } => {
            for name in names {
                let current = [session.current_user(), session.session_user()];
                if current.contains(name) || *name == session.user() {
                    let message = "current user cannot be dropped";
                    return Err(SqlError::new(SqlState("55006"), message));
                }
                match find(session, name) {
                    Some(_) => transaction.lock().put_object(key(name), None),
                    None if *if_exists => session.notice(format!("role \"{name}\" does not exist, skipping")),
                    None => return Err(undefined(name)),
                }
            }
        }
    }
    Ok(Outcome::Command(tag.to_string()))
}

/// SET ROLE, and SET SESSION AUTHORIZATION, which ends a SET ROLE.
pub(super) fn act_as(session: &mut Session, name: Option<&str>, of_session: bool, local: bool) -> Result<()> {
    if let Some(name) = name
        && !exists(session, name)
    {
        return Err(SqlError::new(
            state::INVALID_PARAMETER_VALUE,
            format!("role \"{name}\" does not exist"),
        ));
    }
    if of_session {
        let name = name.map_or_else(|| session.user().to_string(), str::to_string);
        session.assign("session_authorization", &name, local)?;
    }
    let role = if of_session { None } else { name };
    session.assign("role", role.unwrap_or("none"), local)?;
    Ok(())
}
