//! CREATE, ALTER and DROP ROLE, SET ROLE and SET SESSION AUTHORIZATION.

use super::{kept_setting, membership, owner};
use crate::catalog::rights::{Rights, refused};
use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::identity::Acting;
use crate::pg::outcome::Outcome;
use crate::pg::parse::definition::{RoleChange, RoleName, RoleOptions};
use crate::session::Session;
use std::sync::Arc;
use tenon_storage::datetime::{Conventions, parse_timestamptz};
use tenon_storage::roles::{BOOTSTRAP, EVERYBODY};
use tenon_storage::{DatabaseState, Object, ObjectKey, Role};

fn key(name: &str) -> ObjectKey {
    ObjectKey::Role { name: name.into() }
}

pub(super) fn undefined(name: &str) -> SqlError {
    SqlError::new(state::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
}

/// Who acts, and what that one may do in the snapshot.
pub(super) fn rights<'a>(session: &Session, state: &'a DatabaseState) -> Rights<'a> {
    Rights {
        state,
        acting: session.acting_in(state),
    }
}

/// The oid of the role that a statement names; with `everybody`, PUBLIC is one.
pub(super) fn oid(session: &Session, name: &RoleName, everybody: bool) -> Result<u32> {
    let state_now = session.state();
    match name {
        RoleName::Named(name) => session.identity.oid(&state_now, name).ok_or_else(|| undefined(name)),
        RoleName::Current => Ok(session.acting_in(&state_now).role),
        RoleName::Session => Ok(session.identity.session(&state_now, &session.settings).role),
        RoleName::Public if everybody => Ok(EVERYBODY),
        RoleName::Public => Err(undefined("public")),
    }
}

/// The name of a role as statements show it.
pub(super) fn shown(session: &Session, oid: u32) -> String {
    session.identity.shown(&session.state(), oid)
}

/// A name that is said of itself; those that only stand for one are refused.
fn said(name: &RoleName) -> Result<&str> {
    let stands = match name {
        RoleName::Named(name) => return Ok(name),
        RoleName::Public => "public",
        RoleName::Current => "current_user",
        RoleName::Session => "session_user",
    };
    Err(reserved(stands))
}

fn reserved(name: &str) -> SqlError {
    SqlError::new(SqlState("42939"), format!("role name \"{name}\" is reserved"))
}

/// A name that no role has yet, and may have.
fn check_new(session: &Session, name: &str) -> Result<()> {
    if name == "public" || name == "none" || name.starts_with("pg_") {
        let error = reserved(name);
        return Err(match name.starts_with("pg_") {
            true => error.detail("Role names starting with \"pg_\" are reserved."),
            false => error,
        });
    }
    if session.identity.oid(&session.state(), name).is_some() {
        let message = format!("role \"{name}\" already exists");
        return Err(SqlError::new(state::DUPLICATE_OBJECT, message));
    }
    Ok(())
}

/// Whether the role may make others.
pub(super) fn creates_roles(state: &DatabaseState, acting: Acting) -> bool {
    acting.superuser || state.role_by_oid(acting.role).is_some_and(|role| role.create_role)
}

/// The role of an oid that can be changed: the first superuser and the predefined ones stay as they are.
pub(super) fn changeable(state: &DatabaseState, oid: u32, name: &str) -> Result<Arc<Role>> {
    if oid == BOOTSTRAP {
        return Err(
            SqlError::unsupported(format!("changing \"{name}\", who is no role of the database,"))
                .hint("Users and passwords of the server's own stand in --password-file."),
        );
    }
    let found = state.role_by_oid(oid).ok_or_else(|| undefined(name))?;
    if found.name.starts_with("pg_") {
        return Err(reserved(&found.name).detail("Cannot alter reserved roles."));
    }
    Ok(found.clone())
}

pub(super) fn put(session: &Session, role: Role) -> Result<()> {
    let transaction = session.transaction()?;
    transaction
        .lock()
        .put_object(key(&role.name), Some(Object::Role(Arc::new(role))));
    Ok(())
}

/// What options make of a role.
fn apply(session: &mut Session, role: &mut Role, options: &RoleOptions) -> Result<()> {
    if options.repeated {
        return Err(SqlError::new(state::SYNTAX_ERROR, "conflicting or redundant options"));
    }
    for (flag, own) in [
        (options.superuser, &mut role.superuser),
        (options.create_db, &mut role.create_db),
        (options.create_role, &mut role.create_role),
        (options.inherit, &mut role.inherit),
        (options.can_login, &mut role.can_login),
        (options.replication, &mut role.replication),
        (options.bypass_rls, &mut role.bypass_rls),
    ] {
        *own = flag.unwrap_or(*own);
    }
    if let Some(limit) = options.connection_limit {
        role.connection_limit = i32::try_from(limit).ok().filter(|limit| *limit >= -1).ok_or_else(|| {
            let message = format!("invalid connection limit: {limit}");
            SqlError::new(state::INVALID_PARAMETER_VALUE, message)
        })?;
    }
    if let Some(until) = &options.valid_until {
        let conventions: Conventions = session.conventions();
        let found = parse_timestamptz(until.as_bytes(), &conventions).map_err(|_| {
            let message = format!("invalid input syntax for type timestamp with time zone: \"{until}\"");
            SqlError::new(state::INVALID_DATETIME_FORMAT, message)
        })?;
        role.valid_until = Some(found);
    }
    match &options.password {
        None => {}
        Some(None) => role.password = None,
        Some(Some(password)) if password.is_empty() => {
            session.notice("empty string is not a valid password, clearing password");
            role.password = None;
        }
        Some(Some(password)) => role.password = Some((session.engine.options.password_verifier)(password)?),
    }
    Ok(())
}

/// 42501 for attributes that only superusers give.
fn check_attributes(acting: Acting, options: &RoleOptions, creates: bool) -> Result<()> {
    if acting.superuser {
        return Ok(());
    }
    let given = |flag: Option<bool>| if creates { flag == Some(true) } else { flag.is_some() };
    let (superusers, replication, bypass) = match creates {
        true => (
            "must be superuser to create superusers",
            "must be superuser to create replication users",
            "must be superuser to create bypassrls users",
        ),
        false => (
            "must be superuser to alter superuser roles or change superuser attribute",
            "must be superuser to alter replication roles or change replication attribute",
            "must be superuser to change bypassrls attribute",
        ),
    };
    for (flag, message) in [
        (options.superuser, superusers),
        (options.replication, replication),
        (options.bypass_rls, bypass),
    ] {
        if given(flag) {
            return Err(refused(message));
        }
    }
    Ok(())
}

pub(super) fn change(session: &mut Session, change: &RoleChange, tag: &str) -> Result<Outcome> {
    session.check_writable(tag)?;
    match change {
        RoleChange::Create { name, options } => create(session, said(name)?, options)?,
        RoleChange::Alter { name, options } => alter(session, name, options)?,
        RoleChange::Members { name, add, members } => {
            let role = oid(session, name, false)?;
            let members = members.iter().map(|name| oid(session, name, false));
            let members = members.collect::<Result<Vec<_>>>()?;
            match add {
                true => membership::add(session, role, &members, false, None)?,
                false => membership::remove(session, role, &members, false)?,
            }
        }
        RoleChange::Rename { from, to } => rename(session, said(from)?, said(to)?)?,
        RoleChange::Drop { if_exists, names } => drop(session, names, *if_exists)?,
        RoleChange::Settings { role, database, change } => {
            kept_setting::change(session, role.as_ref(), database.as_deref(), change)?;
        }
    }
    Ok(Outcome::Command(tag.to_string()))
}

fn create(session: &mut Session, name: &str, options: &RoleOptions) -> Result<()> {
    let state_now = session.state();
    let acting = session.acting_in(&state_now);
    check_attributes(acting, options, true)?;
    if !creates_roles(&state_now, acting) {
        return Err(refused("permission denied to create role"));
    }
    check_new(session, name)?;
    let found =
        |names: &[RoleName]| -> Result<Vec<u32>> { names.iter().map(|name| oid(session, name, false)).collect() };
    let (within, members, admins) = (
        found(&options.within)?,
        found(&options.members)?,
        found(&options.admins)?,
    );
    let new = session.transaction()?.lock().new_oid();
    let mut role = Role::new(new, name);
    apply(session, &mut role, options)?;
    put(session, role)?;
    for other in within {
        membership::add(session, other, &[new], false, None)?;
    }
    membership::add_to_new(session, new, &members, false)?;
    membership::add_to_new(session, new, &admins, true)
}

fn alter(session: &mut Session, name: &RoleName, options: &RoleOptions) -> Result<()> {
    let of = oid(session, name, false)?;
    let state_now = session.state();
    let acting = session.acting_in(&state_now);
    let shown_name = shown(session, of);
    if of == BOOTSTRAP && acting.superuser {
        // What is said of it already holds, but for a password.
        if options.password.is_none() {
            return Ok(());
        }
    }
    let role = match of {
        BOOTSTRAP => None,
        _ => Some(changeable(&state_now, of, &shown_name)?),
    };
    if !acting.superuser {
        if role.as_ref().is_none_or(|role| role.superuser) || options.superuser.is_some() {
            return Err(refused(
                "must be superuser to alter superuser roles or change superuser attribute",
            ));
        }
        if role.as_ref().is_some_and(|role| role.replication) {
            return Err(refused(
                "must be superuser to alter replication roles or change replication attribute",
            ));
        }
        check_attributes(acting, options, false)?;
        let only_password = options.create_db.is_none()
            && options.create_role.is_none()
            && options.inherit.is_none()
            && options.can_login.is_none()
            && options.connection_limit.is_none()
            && options.valid_until.is_none()
            && options.password.is_some();
        let is_own_password = only_password && acting.role == of;
        if !creates_roles(&state_now, acting) && !is_own_password {
            return Err(refused("permission denied"));
        }
    }
    let role = match role {
        Some(role) => role,
        None => changeable(&state_now, of, &shown_name)?,
    };
    let mut role = (*role).clone();
    apply(session, &mut role, options)?;
    put(session, role)?;
    // ALTER ROLE may name members as CREATE ROLE does.
    for (members, admin) in [(&options.members, false), (&options.admins, true)] {
        let members = members.iter().map(|name| oid(session, name, false));
        let members = members.collect::<Result<Vec<_>>>()?;
        membership::add(session, of, &members, admin, None)?;
    }
    Ok(())
}

fn rename(session: &mut Session, from: &str, to: &str) -> Result<()> {
    let of = oid(session, &RoleName::Named(from.into()), false)?;
    let state_now = session.state();
    let acting = session.acting_in(&state_now);
    if of == session.identity.session(&state_now, &session.settings).role {
        return Err(SqlError::unsupported_as("session user cannot be renamed"));
    }
    if of == acting.role {
        return Err(SqlError::unsupported_as("current user cannot be renamed"));
    }
    let mut role = (*changeable(&state_now, of, from)?).clone();
    check_new(session, to)?;
    if role.superuser && !acting.superuser {
        return Err(refused("must be superuser to rename superusers"));
    }
    if !creates_roles(&state_now, acting) {
        return Err(refused("permission denied to rename role"));
    }
    session.transaction()?.lock().put_object(key(from), None);
    role.name = to.into();
    put(session, role)
}

fn drop(session: &mut Session, names: &[RoleName], if_exists: bool) -> Result<()> {
    let state_now = session.state();
    let acting = session.acting_in(&state_now);
    if !creates_roles(&state_now, acting) {
        return Err(refused("permission denied to drop role"));
    }
    let mut gone: Vec<Arc<Role>> = Vec::new();
    for name in names {
        let RoleName::Named(name) = name else {
            let message = "cannot use special role specifier in DROP ROLE";
            return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
        };
        let Some(of) = session.identity.oid(&state_now, name) else {
            if !if_exists {
                return Err(undefined(name));
            }
            session.notice(format!("role \"{name}\" does not exist, skipping"));
            continue;
        };
        for (own, who) in [
            (acting.role, "current user"),
            (session.identity.connected(&state_now).role, "current user"),
            (
                session.identity.session(&state_now, &session.settings).role,
                "session user",
            ),
        ] {
            if own == of {
                return Err(SqlError::new(state::OBJECT_IN_USE, format!("{who} cannot be dropped")));
            }
        }
        let role = changeable(&state_now, of, name)?;
        if role.superuser && !acting.superuser {
            return Err(refused("must be superuser to drop superusers"));
        }
        gone.push(role);
    }
    for role in &gone {
        let things = owner::dependents(session, role.oid);
        if !things.is_empty() {
            let message = format!(
                "role \"{}\" cannot be dropped because some objects depend on it",
                role.name
            );
            return Err(SqlError::new(state::DEPENDENT_OBJECTS_STILL_EXIST, message).detail(things.join("\n")));
        }
    }
    for role in &gone {
        let concerns = |other: &&Arc<Role>| {
            let mut of = other.member_of.iter();
            of.any(|of| of.role == role.oid || of.grantor == role.oid)
        };
        let now = session.state();
        let others: Vec<Arc<Role>> = now.created_roles().filter(concerns).cloned().collect();
        for other in others {
            let mut other = (*other).clone();
            other.member_of.retain(|of| of.role != role.oid);
            // What it gave stays, as given by the first superuser.
            let given = other.member_of.iter_mut().filter(|of| of.grantor == role.oid);
            given.for_each(|of| of.grantor = BOOTSTRAP);
            put(session, other)?;
        }
        let now = session.state();
        let settings = now.all_kept_settings().filter(|(of, ..)| *of == role.oid);
        let transaction = session.transaction()?;
        let mut transaction = transaction.lock();
        for (role, database, _) in settings {
            transaction.put_object(ObjectKey::Settings { role, database }, None);
        }
        transaction.put_object(key(&role.name), None);
    }
    Ok(())
}

/// SET ROLE, and SET SESSION AUTHORIZATION, which ends a SET ROLE.
pub(super) fn act_as(session: &mut Session, name: Option<&str>, of_session: bool, local: bool) -> Result<()> {
    if of_session {
        let name = name.map_or_else(|| session.user().to_string(), str::to_string);
        session.assign("session_authorization", &name, local)?;
    }
    let role = if of_session { None } else { name };
    session.assign("role", role.unwrap_or("none"), local)?;
    Ok(())
}
