//! Membership of roles in roles.

use super::role::{creates_roles, put, shown};
use crate::catalog::rights::refused;
use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::session::Session;
use std::sync::Arc;
use tenon_storage::roles::{BOOTSTRAP, DATABASE_OWNER};
use tenon_storage::{Membership, Role};

/// Whether who acts may change who is in a role.
fn check(session: &Session, role: u32) -> Result<()> {
    let state_now = session.state();
    let acting = session.acting_in(&state_now);
    if acting.superuser {
        return Ok(());
    }
    if state_now.is_superuser(role) {
        return Err(refused("must be superuser to alter superusers"));
    }
    if creates_roles(&state_now, acting) || state_now.administers(acting.role, role) {
        return Ok(());
    }
    let message = format!("must have admin option on role \"{}\"", shown(session, role));
    Err(refused(message))
}

/// Makes roles members of one; `grantor`: who is said to do so.
pub(super) fn add(session: &mut Session, role: u32, members: &[u32], admin: bool, grantor: Option<u32>) -> Result<()> {
    if members.is_empty() {
        return Ok(());
    }
    check(session, role)?;
    let acting = session.acting();
    if grantor.is_some_and(|grantor| grantor != acting.role) && !acting.superuser {
        return Err(refused("must be superuser to set grantor"));
    }
    put_members(session, role, members, admin, grantor.unwrap_or(acting.role))
}

/// The same of a role that was just made by who acts.
pub(super) fn add_to_new(session: &mut Session, role: u32, members: &[u32], admin: bool) -> Result<()> {
    let grantor = session.acting().role;
    put_members(session, role, members, admin, grantor)
}

fn put_members(session: &mut Session, role: u32, members: &[u32], admin: bool, grantor: u32) -> Result<()> {
    const INVALID_GRANT: SqlState = SqlState("0LP01");
    for member in members {
        let state_now = session.state();
        let names = [role, *member].map(|oid| shown(session, oid));
        if role == DATABASE_OWNER {
            // As PostgreSQL has it: without a state of its own.
            let message = "role \"pg_database_owner\" cannot have explicit members";
            return Err(SqlError::new(SqlState("XX000"), message));
        }
        if *member == DATABASE_OWNER {
            let message = "role \"pg_database_owner\" cannot be a member of any role";
            return Err(SqlError::new(INVALID_GRANT, message));
        }
        if state_now.is_member_plainly(role, *member) {
            let message = format!("role \"{}\" is a member of role \"{}\"", names[0], names[1]);
            return Err(SqlError::new(INVALID_GRANT, message));
        }
        // It is a member of all anyway.
        if *member == BOOTSTRAP {
            continue;
        }
        let Some(found) = state_now.role_by_oid(*member).cloned() else {
            continue;
        };
        if found.name.starts_with("pg_") {
            return Err(SqlError::unsupported("membership of a predefined role in another"));
        }
        let mut found: Role = (*found).clone();
        let own = found.member_of.iter_mut().find(|of| of.role == role);
        match own {
            Some(own) if own.admin || !admin => {
                let message = format!("role \"{}\" is already a member of role \"{}\"", names[1], names[0]);
                session.notice(message);
                continue;
            }
            Some(own) => *own = Membership { role, grantor, admin },
            None => found.member_of.push(Membership { role, grantor, admin }),
        }
        put(session, found)?;
    }
    Ok(())
}

/// Ends the membership of roles in one, or only their right to give it to others.
pub(super) fn remove(session: &mut Session, role: u32, members: &[u32], option_only: bool) -> Result<()> {
    check(session, role)?;
    for member in members {
        let found: Option<Arc<Role>> = session.state().role_by_oid(*member).cloned();
        let own = found.filter(|found| found.member_of.iter().any(|of| of.role == role));
        let Some(found) = own else {
            let names = [*member, role].map(|oid| shown(session, oid));
            let message = format!("role \"{}\" is not a member of role \"{}\"", names[0], names[1]);
            session.warn(SqlState("01000"), message);
            continue;
        };
        if found.name.starts_with("pg_") {
            let message = format!("role name \"{}\" is reserved", found.name);
            return Err(SqlError::new(state::INSUFFICIENT_PRIVILEGE, message));
        }
        let mut found = (*found).clone();
        match option_only {
            true => {
                let own = found.member_of.iter_mut().filter(|of| of.role == role);
                own.for_each(|of| of.admin = false);
            }
            false => found.member_of.retain(|of| of.role != role),
        }
        put(session, found)?;
    }
    Ok(())
}
