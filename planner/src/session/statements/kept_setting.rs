//! ALTER ROLE and ALTER DATABASE ... SET and RESET: what sessions begin with. It is checked as SET checks it, by the rights
//! of who alters; that one's own session stays as it is.

use super::role::{changeable, creates_roles, oid, rights, shown};
use super::{grant, set};
use crate::catalog::rights::refused;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::identity::{not_at_start, not_to_set};
use crate::pg::parse::definition::{RoleName, SettingChange};
use crate::pg::settings::{canonical, is_custom, is_of_superusers, unrecognized};
use crate::session::Session;
use datafusion::sql::sqlparser::ast::Reset;
use std::sync::Arc;
use tenon_storage::kept_settings::{ANY, KeptSettings};
use tenon_storage::roles::BOOTSTRAP;
use tenon_storage::{Object, ObjectKey};

pub(super) fn change(
    session: &mut Session,
    role: Option<&RoleName>,
    database: Option<&str>,
    change: &SettingChange,
) -> Result<()> {
    let (role, database) = whose(session, role, database)?;
    let state_now = session.state();
    let superuser = session.acting_in(&state_now).superuser;
    let mut kept = state_now.kept_settings(role, database).to_vec();
    match change {
        SettingChange::Set(set) => match set::said(set)? {
            (name, Some(value)) => put(session, &mut kept, &name, value)?,
            (name, None) => remove(session, &mut kept, &name)?,
        },
        SettingChange::FromCurrent(name) => {
            let name = set::name_of(name);
            let value = session.settings.get(&name).ok_or_else(|| unrecognized(&name))?;
            put(session, &mut kept, &name, value)?;
        }
        SettingChange::Reset(reset) => match reset.as_ref() {
            Reset::ALL => kept.retain(|(name, _)| !superuser && (is_of_superusers(name) || is_custom(name))),
            Reset::ConfigurationParameter(name) => remove(session, &mut kept, &set::name_of(name))?,
        },
    }
    let object = (!kept.is_empty()).then(|| Object::Settings(Arc::new(kept)));
    let transaction = session.transaction()?;
    transaction
        .lock()
        .put_object(ObjectKey::Settings { role, database }, object);
    Ok(())
}

/// The oids of the role and the database, where who acts may alter their settings.
fn whose(session: &Session, role: Option<&RoleName>, database: Option<&str>) -> Result<(u32, u32)> {
    let state_now = session.state();
    let acting = session.acting_in(&state_now);
    let role = role.map(|name| oid(session, name, false)).transpose()?;
    if let Some(of) = role {
        if of != BOOTSTRAP {
            changeable(&state_now, of, &shown(session, of))?;
        }
        if state_now.is_superuser(of) {
            if !acting.superuser {
                return Err(refused("must be superuser to alter superusers"));
            }
        } else if !creates_roles(&state_now, acting) && acting.role != of {
            return Err(refused("permission denied"));
        }
    }
    let database = database.map(|name| grant::database(session, name)).transpose()?;
    match (&database, role) {
        (Some(of), None) => rights(session, &state_now).check_owner_of(of.oid, of.word, &of.name)?,
        (None, None) if !acting.superuser => return Err(refused("must be superuser to alter settings globally")),
        _ => {}
    }
    Ok((role.unwrap_or(ANY), database.map_or(ANY, |of| of.oid)))
}

fn put(session: &mut Session, kept: &mut KeptSettings, name: &str, value: String) -> Result<()> {
    check_change(session, name)?;
    match session.settings.clone().set(name, &value) {
        Ok(true) => {}
        Ok(false) => return Err(unrecognized(name)),
        Err(error) => return Err(error),
    }
    let name = canonical(name);
    if name == "session_authorization" {
        return Err(not_at_start());
    }
    if name == "transaction_isolation" && session.settings.get(&name).as_ref() != Some(&value) {
        let message = "SET TRANSACTION ISOLATION LEVEL must be called before any query";
        return Err(SqlError::new(state::ACTIVE_SQL_TRANSACTION, message));
    }
    // Whoever logs in may be another, and the roles others by then.
    let state_now = session.state();
    let acts = session
        .identity
        .check_acting(&state_now, &session.settings, &name, &value);
    if let Err(error) = acts {
        session.notice(error.message);
    }
    match kept.iter_mut().find(|(own, _)| *own == name) {
        Some((_, before)) => *before = value,
        None => kept.push((name, value)),
    }
    Ok(())
}

/// Where nothing is kept, nothing is asked.
fn remove(session: &Session, kept: &mut KeptSettings, name: &str) -> Result<()> {
    if kept.is_empty() {
        return Ok(());
    }
    check_change(session, name)?;
    if is_custom(name) && !name.contains('.') {
        return Err(unrecognized(name));
    }
    let name = canonical(name);
    kept.retain(|(own, _)| *own != name);
    Ok(())
}

/// What no server knows is nobody's but a superuser's to keep.
fn check_change(session: &Session, name: &str) -> Result<()> {
    let superuser = session.acting().superuser;
    let unknown = is_custom(name) && name.contains('.');
    match superuser || !unknown && !is_of_superusers(name) {
        true => Ok(()),
        false => Err(not_to_set(name)),
    }
}
