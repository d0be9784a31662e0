//! Roles: who acts, what it may do as such, and which roles it is a member of.

use super::objects::{Object, ObjectKey};
use super::state::DatabaseState;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, LazyLock};

/// The superuser that every database starts with. It goes by the names of those whom the server believes to be one, and is no
/// object of the catalog.
pub const BOOTSTRAP: u32 = 10;
/// In the place of a grantee: everybody.
pub const EVERYBODY: u32 = 0;
/// No role has this oid: whoever acts under a name that no role has any more.
pub const NOBODY: u32 = u32::MAX;

/// The predefined roles that rights hang on, as PostgreSQL numbers them.
pub const DATABASE_OWNER: u32 = 6171;
pub const READ_ALL_DATA: u32 = 6181;
pub const WRITE_ALL_DATA: u32 = 6182;
pub const MONITOR: u32 = 3373;
pub const READ_ALL_SETTINGS: u32 = 3374;
pub const READ_ALL_STATS: u32 = 3375;
pub const STAT_SCAN_TABLES: u32 = 3377;
pub const READ_SERVER_FILES: u32 = 4569;
pub const WRITE_SERVER_FILES: u32 = 4570;
pub const EXECUTE_SERVER_PROGRAM: u32 = 4571;
pub const SIGNAL_BACKEND: u32 = 4200;
pub const CHECKPOINT: u32 = 4544;

/// A role that was created. Fields that older stores do not have are as CREATE ROLE leaves them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Role {
    pub oid: u32,
    pub name: String,
    pub can_login: bool,
    #[serde(default)]
    pub superuser: bool,
    #[serde(default)]
    pub create_db: bool,
    #[serde(default)]
    pub create_role: bool,
    #[serde(default = "yes")]
    pub inherit: bool,
    #[serde(default)]
    pub replication: bool,
    #[serde(default)]
    pub bypass_rls: bool,
    /// Sessions at a time; -1: any number.
    #[serde(default = "unlimited")]
    pub connection_limit: i32,
    /// A SCRAM-SHA-256 verifier as `pg_authid` has it; never the password.
    #[serde(default)]
    pub password: Option<String>,
    /// Until when the password holds: microseconds since 1970, UTC; `i64::MAX` for `infinity`.
    #[serde(default)]
    pub valid_until: Option<i64>,
    #[serde(default)]
    pub member_of: Vec<Membership>,
}

/// One role in another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    pub role: u32,
    pub grantor: u32,
    pub admin: bool,
}

fn yes() -> bool {
    true
}

fn unlimited() -> i32 {
    -1
}

impl Role {
    /// As CREATE ROLE makes one without options.
    pub fn new(oid: u32, name: &str) -> Self {
        Self {
            oid,
            name: name.into(),
            can_login: false,
            superuser: false,
            create_db: false,
            create_role: false,
            inherit: true,
            replication: false,
            bypass_rls: false,
            connection_limit: unlimited(),
            password: None,
            valid_until: None,
            member_of: Vec::new(),
        }
    }
}

/// The roles that every database has beside the first superuser.
static PREDEFINED: LazyLock<Vec<Arc<Role>>> = LazyLock::new(|| {
    let role = |oid, name: &str, member_of: &[u32]| {
        let member_of = member_of.iter().map(|role| Membership {
            role: *role,
            grantor: BOOTSTRAP,
            admin: false,
        });
        Arc::new(Role {
            member_of: member_of.collect(),
            ..Role::new(oid, name)
        })
    };
    let monitor = [READ_ALL_SETTINGS, READ_ALL_STATS, STAT_SCAN_TABLES];
    vec![
        role(DATABASE_OWNER, "pg_database_owner", &[]),
        role(READ_ALL_DATA, "pg_read_all_data", &[]),
        role(WRITE_ALL_DATA, "pg_write_all_data", &[]),
        role(MONITOR, "pg_monitor", &monitor),
        role(READ_ALL_SETTINGS, "pg_read_all_settings", &[]),
        role(READ_ALL_STATS, "pg_read_all_stats", &[]),
        role(STAT_SCAN_TABLES, "pg_stat_scan_tables", &[]),
        role(READ_SERVER_FILES, "pg_read_server_files", &[]),
        role(WRITE_SERVER_FILES, "pg_write_server_files", &[]),
        role(EXECUTE_SERVER_PROGRAM, "pg_execute_server_program", &[]),
        role(SIGNAL_BACKEND, "pg_signal_backend", &[]),
        role(CHECKPOINT, "pg_checkpoint", &[]),
    ]
});

impl DatabaseState {
    /// Those that were created.
    pub fn created_roles(&self) -> impl Iterator<Item = &Arc<Role>> {
        let first = ObjectKey::Role { name: String::new() };
        let last = ObjectKey::Comment { oid: 0, column: 0 };
        self.objects.range(first..last).filter_map(|(_, object)| match object {
            Object::Role(role) => Some(role),
            _ => None,
        })
    }

    /// Those that were created, and the predefined ones.
    pub fn roles(&self) -> impl Iterator<Item = &Arc<Role>> {
        PREDEFINED.iter().chain(self.created_roles())
    }

    pub fn role(&self, name: &str) -> Option<&Arc<Role>> {
        match self.objects.get(&ObjectKey::Role { name: name.into() }) {
            Some(Object::Role(role)) => Some(role),
            _ => PREDEFINED.iter().find(|role| role.name == name),
        }
    }

    pub fn role_by_oid(&self, oid: u32) -> Option<&Arc<Role>> {
        self.roles().find(|role| role.oid == oid)
    }

    pub fn is_superuser(&self, role: u32) -> bool {
        role == BOOTSTRAP || self.role_by_oid(role).is_some_and(|role| role.superuser)
    }

    /// The role with those that it is a member of, directly or not; `inherited`: only where each member on the way inherits.
    pub fn memberships(&self, role: u32, inherited: bool) -> Vec<u32> {
        let mut found = vec![role];
        if role == BOOTSTRAP {
            found.push(DATABASE_OWNER);
        }
        let mut at = 0;
        while let Some(member) = found.get(at).copied() {
            at += 1;
            let Some(member) = self.role_by_oid(member) else {
                continue;
            };
            if inherited && !member.inherit {
                continue;
            }
            for of in &member.member_of {
                if !found.contains(&of.role) {
                    found.push(of.role);
                }
            }
        }
        found
    }

    /// Whether it has another's rights without becoming it.
    pub fn has_rights_of(&self, role: u32, other: u32) -> bool {
        role == other || self.is_superuser(role) || self.memberships(role, true).contains(&other)
    }

    /// Whether it may become another.
    pub fn is_member(&self, role: u32, other: u32) -> bool {
        role == other || self.is_superuser(role) || self.is_member_plainly(role, other)
    }

    /// The same, where a superuser is no member of all roles.
    pub fn is_member_plainly(&self, role: u32, other: u32) -> bool {
        self.memberships(role, false).contains(&other)
    }

    /// Whether it may make others members of a role, or no longer.
    pub fn administers(&self, role: u32, other: u32) -> bool {
        if self.is_superuser(role) {
            return true;
        }
        // A role has no such right on itself.
        let members = self.memberships(role, false).into_iter();
        members
            .filter_map(|member| self.role_by_oid(member))
            .any(|member| member.member_of.iter().any(|of| of.role == other && of.admin))
    }
}
