//! Roles, memberships and rights as system tables, the information schema and the `has_..._privilege` functions show them.
//!
//! More than 400 lines because it is a list of tables and functions, a few lines each.

use super::regnames::RegType;
use super::relations::relations;
use super::rows::{Row, Value, row};
use super::types;
use crate::catalog::bind::Binder;
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::parse::definition::grant::right_named;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use tenon_storage::kept_settings::ANY;
use tenon_storage::rights::{DATABASE_OID, PUBLIC_OID, grants_at_first};
use tenon_storage::roles::{BOOTSTRAP, EVERYBODY};
use tenon_storage::{Grant, Object, Relation, Role, Secured, privilege};

/// Tables of which PostgreSQL ships rows that are this database's own here.
pub(super) const OWN_ROWS: [&str; 6] = [
    "pg_authid",
    "pg_auth_members",
    "pg_default_acl",
    "pg_db_role_setting",
    "pg_collation",
    "pg_rewrite",
];

/// Whether the information schema shows a relation: one of the role's own, or on which it has a right.
pub(super) fn is_accessible(binder: &Binder, relation: &Relation) -> bool {
    let rights = binder.rights();
    let any = Secured::of_relation(relation).rights();
    rights.acting.superuser
        || rights.owns(relation.oid())
        || rights.has_one(relation, any)
        || binder
            .snapshot
            .granted_on_any_column(rights.acting.role, relation.oid(), any)
            != 0
}

/// The name of a role as system tables show it.
pub(super) fn name(binder: &Binder, oid: u32) -> String {
    binder.facts.identity.shown(&binder.snapshot, oid)
}

pub(super) fn owner(binder: &Binder, oid: u32) -> String {
    name(binder, binder.snapshot.owner(oid))
}

/// The first superuser, whom nothing more is said of, then the others.
fn all(binder: &Binder) -> Vec<Role> {
    let first = Role {
        superuser: true,
        can_login: true,
        ..Role::new(BOOTSTRAP, &name(binder, BOOTSTRAP))
    };
    std::iter::once(first)
        .chain(binder.snapshot.roles().map(|role| (**role).clone()))
        .collect()
}

/// `pg_roles`, and with verifiers `pg_authid`.
pub(super) fn roles(binder: &Binder, secrets: bool) -> Vec<Row> {
    let role = |role: Role| {
        row! {
            "oid": role.oid,
            "rolpassword": password(&role, secrets),
            "rolname": role.name,
            "rolsuper": role.superuser,
            "rolinherit": role.inherit,
            "rolcreaterole": role.create_role,
            "rolcreatedb": role.create_db,
            "rolcanlogin": role.can_login,
            "rolreplication": role.replication,
            "rolconnlimit": i64::from(role.connection_limit),
            "rolvaliduntil": role.valid_until.map_or(Value::Null, Value::Number),
            "rolbypassrls": role.bypass_rls,
            "rolconfig": settings(binder.snapshot.kept_settings(role.oid, ANY)),
        }
    };
    all(binder).into_iter().map(role).collect()
}

/// `pg_group`: roles that cannot log in, with their members.
pub(super) fn groups(binder: &Binder) -> Vec<Row> {
    let roles = all(binder);
    let groups = roles.iter().filter(|role| !role.can_login);
    let group = |role: &Role| {
        let members = roles
            .iter()
            .filter(|own| own.member_of.iter().any(|of| of.role == role.oid));
        row! {
            "groname": role.name.as_str(),
            "grosysid": role.oid,
            "grolist": Value::Texts(members.map(|own| own.oid.to_string()).collect()),
        }
    };
    groups.map(group).collect()
}

fn password(role: &Role, secrets: bool) -> Value {
    match secrets {
        true => Value::from(role.password.clone()),
        false => Value::from("********"),
    }
}

/// `pg_user`, and with verifiers `pg_shadow`.
pub(super) fn users(binder: &Binder, secrets: bool) -> Vec<Row> {
    let logins = all(binder).into_iter().filter(|role| role.can_login);
    let user = |role: Role| {
        row! {
            "passwd": password(&role, secrets),
            "usename": role.name,
            "usesysid": role.oid,
            "usecreatedb": role.create_db,
            "usesuper": role.superuser,
            "userepl": role.replication,
            "usebypassrls": role.bypass_rls,
            "valuntil": role.valid_until.map_or(Value::Null, Value::Number),
            "useconfig": settings(binder.snapshot.kept_settings(role.oid, ANY)),
        }
    };
    logins.map(user).collect()
}

/// `name=value` of each; NULL where there are none.
fn settings(kept: &[(String, String)]) -> Value {
    match kept {
        [] => Value::Null,
        kept => Value::Texts(kept.iter().map(|(name, value)| format!("{name}={value}")).collect()),
    }
}

/// What ALTER ROLE and ALTER DATABASE keep.
pub(super) fn kept_settings(binder: &Binder) -> Vec<Row> {
    let all = binder.snapshot.all_kept_settings();
    all.map(|(role, database, kept)| {
        row! {
            "setdatabase": database,
            "setrole": role,
            "setconfig": settings(kept),
        }
    })
    .collect()
}

pub(super) fn members(binder: &Binder) -> Vec<Row> {
    let of = |role: &Role| -> Vec<Row> {
        let own = role.member_of.iter();
        own.map(|of| {
            row! {
                "roleid": of.role,
                "member": role.oid,
                "grantor": of.grantor,
                "admin_option": of.admin,
                "inherit_option": role.inherit,
                "set_option": true,
            }
        })
        .collect()
    };
    binder.snapshot.roles().flat_map(|role| of(role)).collect()
}

/// What is granted, as `aclitem`s; NULL where nobody has granted anything.
pub(super) fn acl(binder: &Binder, kind: Secured, oid: u32) -> Value {
    let has_own = binder
        .snapshot
        .rights(oid)
        .is_some_and(|rights| rights.grants.is_some());
    match has_own || oid == PUBLIC_OID {
        true => items(binder, &binder.snapshot.grants(kind, oid)),
        false => Value::Null,
    }
}

pub(super) fn column_acl(binder: &Binder, oid: u32, column: &str) -> Value {
    match binder.snapshot.column_grants(oid, column) {
        [] => Value::Null,
        grants => items(binder, grants),
    }
}

fn items(binder: &Binder, grants: &[Grant]) -> Value {
    let quoted = |oid: u32| {
        let name = name(binder, oid);
        let plain = name.chars().all(|c| c.is_alphanumeric() || c == '_');
        if plain {
            name
        } else {
            format!("\"{}\"", name.replace('"', "\"\""))
        }
    };
    let item = |grant: &Grant| {
        let mut text = match grant.grantee {
            EVERYBODY => String::new(),
            grantee => quoted(grantee),
        };
        text.push('=');
        for (right, letter, _) in privilege::ALL {
            if grant.rights & right != 0 {
                text.push(letter);
                if grant.grantable & right != 0 {
                    text.push('*');
                }
            }
        }
        format!("{text}/{}", quoted(grant.grantor))
    };
    Value::Texts(grants.iter().map(item).collect())
}

pub(super) fn default_grants(binder: &Binder) -> Vec<Row> {
    let all = binder.snapshot.all_default_grants();
    all.enumerate()
        .map(|(at, (role, schema, kind, grants))| {
            row! {
                "oid": at as i64 + 1,
                "defaclrole": role,
                "defaclnamespace": schema,
                "defaclobjtype": kind.letter().to_string(),
                "defaclacl": items(binder, grants),
            }
        })
        .collect()
}

/// Whether the current role is to be shown a grant.
fn concerns(binder: &Binder, grant: &Grant) -> bool {
    let mine = |role: u32| binder.rights().is_in(role);
    grant.grantee == EVERYBODY || mine(grant.grantee) || mine(grant.grantor)
}

fn grantee(binder: &Binder, oid: u32) -> String {
    match oid {
        EVERYBODY => "PUBLIC".into(),
        oid => name(binder, oid),
    }
}

/// Whether who has a right on a relation may give it to others: as it was granted, or as its owner.
fn is_grantable(binder: &Binder, oid: u32, grant: &Grant, right: u32) -> bool {
    grant.grantable & right != 0
        || grant.grantee != EVERYBODY && binder.snapshot.has_rights_of(grant.grantee, binder.snapshot.owner(oid))
}

/// `table_privileges`, and without PUBLIC `role_table_grants`.
pub(super) fn table_privileges(binder: &Binder, database: &str, everybody: bool) -> Vec<Row> {
    let mut out = Vec::new();
    for relation in relations(binder).filter(|relation| matches!(relation.kind(), "table" | "view")) {
        let oid = relation.oid();
        let shown = binder.snapshot.grants(Secured::Table, oid).into_iter();
        for grant in shown.filter(|grant| concerns(binder, grant) && (everybody || grant.grantee != EVERYBODY)) {
            for (right, _, named) in privilege::ALL.iter().filter(|(right, ..)| grant.rights & right != 0) {
                out.push(row! {
                    "grantor": name(binder, grant.grantor),
                    "grantee": grantee(binder, grant.grantee),
                    "table_catalog": database,
                    "table_schema": relation.schema_name(),
                    "table_name": relation.name(),
                    "privilege_type": *named,
                    "is_grantable": if is_grantable(binder, oid, &grant, *right) { "YES" } else { "NO" },
                    "with_hierarchy": if *right == privilege::SELECT { "YES" } else { "NO" },
                });
            }
        }
    }
    out
}

/// `column_privileges`, and without PUBLIC `role_column_grants`: those on the columns, and those on all of the table.
pub(super) fn column_privileges(binder: &Binder, database: &str, everybody: bool) -> Vec<Row> {
    let mut out: Vec<Row> = Vec::new();
    for relation in relations(binder).filter(|relation| matches!(relation.kind(), "table" | "view")) {
        let oid = relation.oid();
        let whole = binder.snapshot.grants(Secured::Table, oid);
        for field in relation.columns().fields() {
            let own = binder.snapshot.column_grants(oid, field.name()).iter().cloned();
            let mut seen: Vec<(u32, u32, u32)> = Vec::new();
            for grant in whole.iter().cloned().chain(own).filter(|grant| concerns(binder, grant)) {
                if !everybody && grant.grantee == EVERYBODY {
                    continue;
                }
                let rights = privilege::ALL
                    .iter()
                    .filter(|(right, ..)| grant.rights & right & Secured::Column.rights() != 0);
                for (right, _, named) in rights {
                    let this = (grant.grantor, grant.grantee, *right);
                    if seen.contains(&this) {
                        continue;
                    }
                    seen.push(this);
                    out.push(row! {
                        "grantor": name(binder, grant.grantor),
                        "grantee": grantee(binder, grant.grantee),
                        "table_catalog": database,
                        "table_schema": relation.schema_name(),
                        "table_name": relation.name(),
                        "column_name": field.name().as_str(),
                        "privilege_type": *named,
                        "is_grantable": if is_grantable(binder, oid, &grant, *right) { "YES" } else { "NO" },
                    });
                }
            }
        }
    }
    out
}

type Fallible = dyn Fn(&[ScalarValue]) -> Result<ScalarValue> + Send + Sync;

/// The functions that ask for rights.
pub(super) fn function(binder: &Binder, name: &str) -> Option<(DataType, Box<Fallible>)> {
    let of_column = name == "has_column_privilege";
    let kind = match name {
        "has_table_privilege" | "has_any_column_privilege" => Secured::Table,
        "has_column_privilege" => Secured::Column,
        "has_sequence_privilege" => Secured::Sequence,
        "has_schema_privilege" => Secured::Schema,
        "has_database_privilege" => Secured::Database,
        "has_function_privilege" => Secured::Function,
        "has_type_privilege" => Secured::Type,
        "acldefault" => {
            let binder = binder.clone();
            let of_type = DataType::new_list(DataType::Utf8View, true);
            let null = ScalarValue::try_from(&of_type).ok()?;
            let shown = move |args: &[ScalarValue]| {
                let (kind, owner) = (args.first().and_then(text), args.get(1).and_then(number));
                let Some((kind, owner)) = kind.zip(owner) else {
                    return Ok(null.clone());
                };
                let Value::Texts(items) = items(&binder, &at_first(&kind, owner)?) else {
                    return Ok(null.clone());
                };
                let items: Vec<_> = items
                    .into_iter()
                    .map(|item| ScalarValue::Utf8View(Some(item)))
                    .collect();
                Ok(ScalarValue::List(ScalarValue::new_list(
                    &items,
                    &DataType::Utf8View,
                    true,
                )))
            };
            return Some((of_type, Box::new(move |args| shown(args).map_err(to_datafusion))));
        }
        "pg_has_role" => {
            let binder = binder.clone();
            return Some((
                DataType::Boolean,
                Box::new(move |args| has_role(&binder, args).map_err(to_datafusion)),
            ));
        }
        _ => return None,
    };
    let (binder, any) = (binder.clone(), name == "has_any_column_privilege");
    let asked = move |args: &[ScalarValue]| {
        if args.iter().any(ScalarValue::is_null) {
            return Ok(ScalarValue::Boolean(None));
        }
        let own = if of_column { 3 } else { 2 };
        let (role, args) = match args.len() > own {
            true => (role_of(&binder, &args[0])?, &args[1..]),
            false => (binder.facts.acting.role, args),
        };
        let [object, .., wanted] = args else {
            return Err(SqlError::new(state::UNDEFINED_FUNCTION, "such arguments are not known"));
        };
        let column = of_column.then(|| &args[1]);
        let found = has(&binder, role, kind, object, column, any, wanted)?;
        Ok(ScalarValue::Boolean(found))
    };
    Some((
        DataType::Boolean,
        Box::new(move |args| asked(args).map_err(to_datafusion)),
    ))
}

/// What `acldefault` says is granted on a new object of a kind.
fn at_first(kind: &str, owner: u32) -> std::result::Result<Vec<Grant>, SqlError> {
    let own = |rights| Grant {
        grantee: owner,
        grantor: owner,
        rights,
        grantable: 0,
    };
    let of = |kind| Ok(grants_at_first(kind, 0, owner));
    match kind {
        // Of parameters there are no rights here.
        "c" | "p" => Ok(Vec::new()),
        "r" => of(Secured::Table),
        "s" => of(Secured::Sequence),
        "d" => of(Secured::Database),
        "n" => of(Secured::Schema),
        "f" => of(Secured::Function),
        // Languages are as types.
        "T" | "l" => of(Secured::Type),
        "t" => Ok(vec![own(privilege::CREATE)]),
        "F" | "S" => Ok(vec![own(privilege::USAGE)]),
        "L" => Ok(vec![own(privilege::SELECT | privilege::UPDATE)]),
        _ => Err(SqlError::internal(format!(
            "unrecognized object type abbreviation: {kind}"
        ))),
    }
}

fn text(value: &ScalarValue) -> Option<String> {
    value.try_as_str().flatten().map(str::to_string)
}

fn number(value: &ScalarValue) -> Option<u32> {
    match value.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(Some(number))) if text(value).is_none() => u32::try_from(number).ok(),
        _ => None,
    }
}

fn role_of(binder: &Binder, given: &ScalarValue) -> Result<u32, SqlError> {
    match (number(given), text(given)) {
        (Some(oid), _) => Ok(oid),
        (None, Some(name)) if name == "public" => Ok(EVERYBODY),
        (None, Some(name)) => binder.facts.identity.oid(&binder.snapshot, &name).ok_or_else(|| {
            let message = format!("role \"{name}\" does not exist");
            SqlError::new(state::UNDEFINED_OBJECT, message)
        }),
        (None, None) => Err(SqlError::new(state::UNDEFINED_OBJECT, "no role is given")),
    }
}

/// The rights that a text names, any of which is enough; with each, whether it must be one to pass on.
fn wanted(text: &str, kind: Secured) -> Result<Vec<(u32, bool)>, SqlError> {
    let one = |word: &str| {
        let word = word.trim();
        let upper = word.to_uppercase();
        let option = upper.strip_suffix(" WITH GRANT OPTION");
        let right = right_named(option.unwrap_or(&upper)).filter(|right| right & kind.rights() != 0);
        right.map(|right| (right, option.is_some())).ok_or_else(|| {
            let message = format!("unrecognized privilege type: \"{word}\"");
            SqlError::new(state::INVALID_PARAMETER_VALUE, message)
        })
    };
    text.split(',').map(one).collect()
}

fn has(
    binder: &Binder,
    role: u32,
    kind: Secured,
    object: &ScalarValue,
    column: Option<&ScalarValue>,
    any_column: bool,
    rights: &ScalarValue,
) -> Result<Option<bool>, SqlError> {
    let asked_on = if any_column { Secured::Column } else { kind };
    let wanted = wanted(&text(rights).unwrap_or_default(), asked_on)?;
    let oid = match number(object) {
        Some(oid) => oid,
        None => named(binder, kind, &text(object).unwrap_or_default())?,
    };
    let state_now = &binder.snapshot;
    let oid = match kind {
        Secured::Type => types::element_of(binder, oid).unwrap_or(oid),
        _ => oid,
    };
    let superuser = state_now.is_superuser(role);
    let own_kind = if kind == Secured::Column { Secured::Table } else { kind };
    let relation = state_now.relation_by_oid(oid);
    if !state_now.is_secured(oid) {
        // What every database has: it is read by all, and changed by nobody.
        let reads = privilege::SELECT | privilege::USAGE | privilege::EXECUTE;
        let alias = match own_kind {
            Secured::Type => RegType::Type,
            _ => RegType::Class,
        };
        let known = alias.name(binder, oid.into()) != oid.to_string();
        if matches!(own_kind, Secured::Table | Secured::Sequence | Secured::Type) && !known {
            return Ok(None);
        }
        let secret = oid == 1260;
        return Ok(Some(
            superuser
                || wanted
                    .iter()
                    .any(|(right, option)| right & reads != 0 && !option && !secret),
        ));
    }
    if superuser {
        return Ok(Some(true));
    }
    let column = match (column, relation) {
        (Some(given), Some(relation)) => Some(column_of(relation, given)?),
        _ => None,
    };
    let one = |(right, option): &(u32, bool)| {
        if *option {
            return state_now.grantable(role, own_kind, oid, column.as_deref()) & right != 0;
        }
        state_now.granted(role, own_kind, oid, *right) != 0
            || column
                .as_ref()
                .is_some_and(|column| state_now.granted_on_column(role, oid, column, *right) != 0)
            || any_column && state_now.granted_on_any_column(role, oid, *right) != 0
    };
    Ok(Some(wanted.iter().any(one)))
}

fn column_of(relation: &Relation, given: &ScalarValue) -> Result<String, SqlError> {
    let fields = relation.columns().fields();
    let found = match (number(given), text(given)) {
        (Some(at), _) => fields
            .get((at as usize).wrapping_sub(1))
            .map(|field| field.name().clone()),
        (None, Some(name)) => fields
            .iter()
            .find(|field| *field.name() == name)
            .map(|field| field.name().clone()),
        (None, None) => None,
    };
    found.ok_or_else(|| {
        let shown = text(given).unwrap_or_default();
        let message = format!("column \"{shown}\" of relation \"{}\" does not exist", relation.name());
        SqlError::new(state::UNDEFINED_COLUMN, message)
    })
}

/// The oid of what a name stands for.
fn named(binder: &Binder, kind: Secured, name: &str) -> Result<u32, SqlError> {
    let alias = match kind {
        Secured::Table | Secured::Column | Secured::Sequence => RegType::Class,
        Secured::Schema => RegType::Namespace,
        Secured::Type => RegType::Type,
        Secured::Function => RegType::Proc,
        Secured::Database => {
            let facts = &binder.facts;
            let known = [facts.info.database.as_str(), "postgres", facts.info.user.as_str()];
            return match known.contains(&name) {
                true => Ok(DATABASE_OID),
                false => {
                    let message = format!("database \"{name}\" does not exist");
                    Err(SqlError::new(state::INVALID_CATALOG_NAME, message))
                }
            };
        }
    };
    let found = alias.oid(binder, name).ok_or_else(|| alias.undefined(binder, name))?;
    if kind == Secured::Sequence
        && let Some(relation) = binder.snapshot.relation_by_oid(found)
        && relation.as_sequence().is_none()
    {
        let message = format!("\"{}\" is not a sequence", relation.name());
        return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message));
    }
    Ok(found)
}

/// `pg_has_role`
fn has_role(binder: &Binder, args: &[ScalarValue]) -> Result<ScalarValue, SqlError> {
    if args.iter().any(ScalarValue::is_null) {
        return Ok(ScalarValue::Boolean(None));
    }
    let (member, args) = match args.len() > 2 {
        true => (role_of(binder, &args[0])?, &args[1..]),
        false => (binder.facts.acting.role, args),
    };
    let [role, how] = args else {
        return Err(SqlError::new(state::UNDEFINED_FUNCTION, "such arguments are not known"));
    };
    let (role, state_now) = (role_of(binder, role)?, &binder.snapshot);
    let mut found = false;
    for word in text(how).unwrap_or_default().split(',') {
        let word = word.trim();
        found |= match word.to_uppercase().as_str() {
            "USAGE" => state_now.has_rights_of(member, role),
            "MEMBER" | "SET" => state_now.is_member(member, role),
            "USAGE WITH ADMIN OPTION"
            | "USAGE WITH GRANT OPTION"
            | "MEMBER WITH ADMIN OPTION"
            | "MEMBER WITH GRANT OPTION" => state_now.administers(member, role),
            _ => {
                let message = format!("unrecognized privilege type: \"{word}\"");
                return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
            }
        };
    }
    Ok(ScalarValue::Boolean(Some(found)))
}

/// `enabled_roles`, `applicable_roles` and, of those that the role may give to others, `administrable_role_authorizations`.
pub(super) fn own_roles(binder: &Binder, view: &str) -> Vec<Row> {
    let rights = binder.rights();
    let all = all(binder);
    let enabled =
        |role: u32| rights.acting.superuser || binder.snapshot.memberships(rights.acting.role, true).contains(&role);
    if view == "enabled_roles" {
        let own = all.iter().filter(|role| enabled(role.oid));
        return own.map(|role| row! { "role_name": role.name.as_str() }).collect();
    }
    let mut out = Vec::new();
    for member in all.iter().filter(|role| enabled(role.oid)) {
        for of in &member.member_of {
            if view == "applicable_roles" || of.admin {
                out.push(row! {
                    "grantee": member.name.as_str(),
                    "role_name": name(binder, of.role),
                    "is_grantable": if of.admin { "YES" } else { "NO" },
                });
            }
        }
    }
    out
}

/// Who may do something with objects of a kind: grants, each with whether it may be passed on.
fn granted(binder: &Binder, kind: Secured, oid: u32, right: u32, everybody: bool) -> Vec<Row> {
    let all = binder.snapshot.grants(kind, oid).into_iter();
    let shown = all.filter(|grant| grant.rights & right != 0 && concerns(binder, grant));
    let shown = shown.filter(|grant| everybody || grant.grantee != EVERYBODY || kind != Secured::Table);
    let row = |grant: Grant| {
        row! {
            "grantor": name(binder, grant.grantor),
            "grantee": grantee(binder, grant.grantee),
            "is_grantable": if is_grantable(binder, oid, &grant, right) { "YES" } else { "NO" },
        }
    };
    shown.map(row).collect()
}

/// `usage_privileges`: of domains and sequences.
pub(super) fn usage_privileges(binder: &Binder, database: &str, everybody: bool) -> Vec<Row> {
    let mut out = Vec::new();
    let mut add = |kind: Secured, word: &'static str, oid: u32, schema: &str, name: &str| {
        for mut row in granted(binder, kind, oid, privilege::USAGE, everybody) {
            row.extend(row! {
                "object_catalog": database,
                "object_schema": schema,
                "object_name": name,
                "object_type": word,
                "privilege_type": "USAGE",
            });
            out.push(row);
        }
    };
    for object in binder.snapshot.objects().values() {
        if let Object::Domain(of) = object {
            add(Secured::Type, "DOMAIN", of.oid, &of.schema_name, &of.name);
        }
    }
    for sequence in relations(binder).filter_map(Relation::as_sequence) {
        // As PostgreSQL has it: those of which anything has been granted.
        let said = binder
            .snapshot
            .rights(sequence.oid)
            .is_some_and(|own| own.grants.is_some());
        if said && !sequence.owner.as_ref().is_some_and(|owner| owner.identity) {
            add(
                Secured::Sequence,
                "SEQUENCE",
                sequence.oid,
                &sequence.schema_name,
                &sequence.name,
            );
        }
    }
    out
}

/// `udt_privileges`: of composite types, and of the types of rows.
pub(super) fn type_privileges(binder: &Binder, database: &str, everybody: bool) -> Vec<Row> {
    let mut out = Vec::new();
    let mut add = |oid: u32, schema: &str, name: &str, owner: Option<u32>| {
        let rows = match owner {
            None => granted(binder, Secured::Type, oid, privilege::USAGE, everybody),
            Some(owner) => grants_at_first(Secured::Type, 0, owner)
                .into_iter()
                .filter(|grant| concerns(binder, grant))
                .map(|grant| {
                    row! {
                        "grantor": self::name(binder, grant.grantor),
                        "grantee": grantee(binder, grant.grantee),
                        "is_grantable": if grant.grantee == owner { "YES" } else { "NO" },
                    }
                })
                .collect(),
        };
        for mut row in rows {
            row.extend(row! {
                "udt_catalog": database,
                "udt_schema": schema,
                "udt_name": name,
                "privilege_type": "TYPE USAGE",
            });
            out.push(row);
        }
    };
    for object in binder.snapshot.objects().values() {
        if let Object::Composite(of) = object {
            add(of.oid, &of.schema_name, &of.name, None);
        }
    }
    for relation in relations(binder).filter(|relation| types::has_row_type(relation)) {
        let owner = binder.snapshot.owner(relation.oid());
        add(relation.oid(), relation.schema_name(), relation.name(), Some(owner));
    }
    out
}

/// `routine_privileges`.
pub(super) fn routine_privileges(binder: &Binder, database: &str, everybody: bool) -> Vec<Row> {
    let mut out = Vec::new();
    for of in super::procs::functions(binder) {
        for mut row in granted(binder, Secured::Function, of.oid, privilege::EXECUTE, everybody) {
            row.extend(row! {
                "specific_catalog": database,
                "specific_schema": of.schema_name.as_str(),
                "specific_name": super::routines::specific_name(of),
                "routine_catalog": database,
                "routine_schema": of.schema_name.as_str(),
                "routine_name": of.name.as_str(),
                "privilege_type": "EXECUTE",
            });
            out.push(row);
        }
    }
    out
}
