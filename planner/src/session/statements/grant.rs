//! GRANT and REVOKE, on things and of roles, and ALTER DEFAULT PRIVILEGES.
//!
//! More than 400 lines because the kinds of things that rights are on are found here, a few lines each.

use super::{function, membership, role};
use crate::catalog::bind::{Binder, parts};
use crate::catalog::rights::{denied, refused};
use crate::catalog::system::{is_array, type_identity, type_oid};
use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::outcome::Outcome;
use crate::pg::parse::definition::RoleName;
use crate::pg::parse::definition::grant::{DefaultRights, Grant, Granted, On, Right};
use crate::session::Session;
use datafusion::sql::sqlparser::ast::ObjectName;
use std::sync::Arc;
use tenon_storage::rights::{self as stored, grants_at_first};
use tenon_storage::roles::EVERYBODY;
use tenon_storage::{DatabaseState, Object, ObjectKey, Relation, Rights, Secured};

const INVALID_GRANT: SqlState = SqlState("0LP01");

/// What rights are on.
#[derive(Clone, Debug)]
pub(super) struct Thing {
    pub kind: Secured,
    pub oid: u32,
    pub schema: Option<String>,
    pub name: String,
    /// What errors call it.
    pub word: &'static str,
}

pub(super) fn of_relation(relation: &Relation) -> Thing {
    Thing {
        kind: Secured::of_relation(relation),
        oid: relation.oid(),
        schema: Some(relation.schema_name().to_string()),
        name: relation.name().to_string(),
        word: relation.kind(),
    }
}

pub(super) fn schema(session: &Session, name: &str) -> Result<Thing> {
    let state_now = session.state();
    let found = state_now
        .schema(name)
        .ok_or_else(|| SqlError::new(state::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist")))?;
    Ok(Thing {
        kind: Secured::Schema,
        oid: found.oid,
        schema: None,
        name: name.to_string(),
        word: "schema",
    })
}

/// The one database, by any name under which clients connect to it.
pub(super) fn database(session: &Session, name: &str) -> Result<Thing> {
    let known = [session.info.database.as_str(), "postgres", session.user()];
    if !known.contains(&name) {
        let message = format!("database \"{name}\" does not exist");
        return Err(SqlError::new(state::INVALID_CATALOG_NAME, message));
    }
    Ok(Thing {
        kind: Secured::Database,
        oid: stored::DATABASE_OID,
        schema: None,
        name: name.to_string(),
        word: "database",
    })
}

pub(super) fn of_type(session: &Session, name: &ObjectName) -> Result<Thing> {
    let binder = session.binder();
    binder.check_schema_of(name)?;
    let shown = parts(name).join(".");
    let found = binder.type_named(parts(name), |object| {
        type_identity(object).map(|(oid, schema, name)| (oid, schema.to_string(), name.to_string()))
    });
    let (oid, schema, name) = found.ok_or_else(|| {
        let message = format!("type \"{shown}\" does not exist");
        SqlError::new(state::UNDEFINED_OBJECT, message)
    })?;
    Ok(Thing {
        kind: Secured::Type,
        oid,
        schema: Some(schema),
        name,
        word: "type",
    })
}

/// The same as GRANT names it: types of arrays have no rights of their own, and those of the system keep theirs.
fn granted_type(session: &Session, name: &ObjectName) -> Result<Thing> {
    let error = match of_type(session, name) {
        Err(error) => error,
        found => return found,
    };
    let (binder, shown) = (session.binder(), parts(name).join("."));
    match type_oid(&binder, &shown) {
        None => Err(error),
        Some(oid) if is_array(&binder, oid) => {
            let hint = "Set the privileges of the element type instead.";
            Err(SqlError::new(INVALID_GRANT, "cannot set privileges of array types").hint(hint))
        }
        Some(_) => Err(SqlError::unsupported(
            "GRANT ON TYPE of the system or of the rows of a table",
        )),
    }
}

/// A statement's rights as bits: those on the whole, and those on columns.
struct Wanted {
    whole: u32,
    columns: Vec<(String, u32)>,
}

fn wanted(rights: &[Right], kind: Secured, word: &str) -> Result<Wanted> {
    let mut out = Wanted {
        whole: 0,
        columns: Vec::new(),
    };
    for right in rights {
        let on = match (kind, right.columns.is_empty()) {
            (_, true) => kind,
            (Secured::Table, false) => Secured::Column,
            (_, false) => {
                let message = "column privileges are only valid for relations";
                return Err(SqlError::new(INVALID_GRANT, message));
            }
        };
        let bits = match right.right {
            None => on.rights(),
            Some(0) => {
                let message = format!("unrecognized privilege type \"{}\"", right.name);
                return Err(SqlError::new(state::SYNTAX_ERROR, message));
            }
            Some(bits) => bits,
        };
        if bits & !on.rights() != 0 {
            let on = if on == Secured::Column { "column" } else { word };
            let message = format!("invalid privilege type {} for {on}", right.name.to_uppercase());
            return Err(SqlError::new(INVALID_GRANT, message));
        }
        match right.columns.is_empty() {
            true => out.whole |= bits,
            false => out
                .columns
                .extend(right.columns.iter().map(|column| (column.clone(), bits))),
        }
    }
    Ok(out)
}

/// The things that a statement names, and what errors call their kind.
fn things(session: &Session, on: &On) -> Result<(Vec<Thing>, &'static str)> {
    let binder = session.binder();
    Ok(match on {
        On::Relations(names) => {
            let found = names.iter().map(|name| relation(&binder, name).map(of_relation));
            (found.collect::<Result<_>>()?, "relation")
        }
        On::Sequences(names) => {
            let found = names.iter().map(|name| {
                let found = relation(&binder, name)?;
                match found.as_sequence() {
                    Some(_) => Ok(of_relation(found)),
                    None => {
                        let message = format!("\"{}\" is not a sequence", found.name());
                        Err(SqlError::new(state::WRONG_OBJECT_TYPE, message))
                    }
                }
            });
            (found.collect::<Result<_>>()?, "sequence")
        }
        On::Schemas(names) => {
            let found = names.iter().map(|name| schema(session, name));
            (found.collect::<Result<_>>()?, "schema")
        }
        On::Databases(names) => {
            let found = names.iter().map(|name| database(session, name));
            (found.collect::<Result<_>>()?, "database")
        }
        On::Types(types) => {
            let found = types.iter().map(|name| granted_type(session, name));
            (found.collect::<Result<_>>()?, "type")
        }
        On::Domains(names) => {
            let found = names.iter().map(|name| {
                let found = of_type(session, name)?;
                match binder.domain(name) {
                    Some(_) => Ok(found),
                    None => {
                        let message = format!("\"{}\" is not a domain", found.name);
                        Err(SqlError::new(state::WRONG_OBJECT_TYPE, message))
                    }
                }
            });
            (found.collect::<Result<_>>()?, "domain")
        }
        On::Functions(names) => {
            let found = names
                .iter()
                .map(|(name, arguments)| function::named(session, name, arguments.as_deref()));
            (found.collect::<Result<_>>()?, "function")
        }
        On::AllIn(kind, schemas) => {
            let mut found = Vec::new();
            for name in schemas {
                schema(session, name)?;
                found.extend(all_in(&binder.snapshot, *kind, name));
            }
            let word = match kind {
                Secured::Sequence => "sequence",
                Secured::Function => "function",
                _ => "relation",
            };
            (found, word)
        }
        On::Other(_) => (Vec::new(), "object"),
    })
}

fn relation<'a>(binder: &'a Binder, name: &ObjectName) -> Result<&'a Relation> {
    if let Some((_, index)) = binder.names().index(name)? {
        let message = format!("\"{}\" is an index", index.name);
        return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message));
    }
    binder.names().relation(name)
}

fn all_in(state: &DatabaseState, kind: Secured, schema: &str) -> Vec<Thing> {
    match kind {
        Secured::Table | Secured::Sequence => {
            let relations = state.schema(schema).into_iter().flat_map(|entry| entry.relations());
            relations.map(of_relation).filter(|thing| thing.kind == kind).collect()
        }
        Secured::Function => {
            let own = state.objects().iter().filter(|(key, _)| match key {
                ObjectKey::Function { schema: own, .. } => own == schema,
                _ => false,
            });
            own.filter_map(|(key, object)| function::thing(key, object)).collect()
        }
        _ => Vec::new(),
    }
}

pub(super) fn run(session: &mut Session, statement: &Grant) -> Result<Outcome> {
    let tag = match (&statement.what, statement.revokes) {
        (Granted::Roles(_), false) => "GRANT ROLE",
        (Granted::Roles(_), true) => "REVOKE ROLE",
        (_, false) => "GRANT",
        (_, true) => "REVOKE",
    };
    session.check_writable(tag.trim_end_matches(" ROLE"))?;
    let everybody = matches!(statement.what, Granted::Rights { .. });
    let grantees = statement
        .grantees
        .iter()
        .map(|name| role::oid(session, name, everybody));
    let grantees = grantees.collect::<Result<Vec<_>>>()?;
    let grantor = statement.grantor.as_ref().map(|name| role::oid(session, name, false));
    let grantor = grantor.transpose()?;
    match &statement.what {
        Granted::Roles(roles) => {
            for name in roles {
                let role = role::oid(session, name, false)?;
                match statement.revokes {
                    false => membership::add(session, role, &grantees, statement.option, grantor)?,
                    true => membership::remove(session, role, &grantees, statement.option)?,
                }
            }
        }
        Granted::Rights { rights, on } => {
            if grantor.is_some_and(|grantor| grantor != session.acting().role) {
                return Err(SqlError::unsupported_as("grantor must be current user"));
            }
            if statement.option && !statement.revokes && grantees.contains(&EVERYBODY) {
                let message = "grant options can only be granted to roles";
                return Err(SqlError::new(INVALID_GRANT, message));
            }
            if let On::Other(what) = on {
                return Err(SqlError::unsupported(format!("GRANT ON {what}")));
            }
            let (things, word) = things(session, on)?;
            for thing in things {
                // TABLE takes sequences, too.
                let word = if word == "relation" { thing.word } else { word };
                let wanted = wanted(rights, thing.kind, word)?;
                change(session, statement, &thing, &wanted, &grantees)?;
            }
        }
    }
    Ok(Outcome::Command(tag.to_string()))
}

/// Who is said to grant: the owner where the role acts for that one, else a role of its own that may.
fn best_grantor(state: &DatabaseState, role: u32, thing: &Thing, column: Option<&str>, wanted: u32) -> (u32, u32) {
    let owner = state.owner(thing.oid);
    if state.has_rights_of(role, owner) {
        return (owner, wanted);
    }
    let mut grants = state.grants(thing.kind, thing.oid);
    if let Some(column) = column {
        grants.extend(state.column_grants(thing.oid, column).iter().cloned());
    }
    let options = |of: u32| {
        let own = grants.iter().filter(|grant| grant.grantee == of);
        own.fold(0, |found, grant| found | grant.grantable) & wanted
    };
    let mut best = (role, options(role));
    for of in state.memberships(role, true) {
        if options(of).count_ones() > best.1.count_ones() {
            best = (of, options(of));
        }
    }
    best
}

/// Grants or revokes on one thing, then on its columns.
fn change(session: &mut Session, statement: &Grant, thing: &Thing, wanted: &Wanted, grantees: &[u32]) -> Result<()> {
    let state_now = session.state();
    let role = session.acting_in(&state_now).role;
    let mut rights = state_now.rights(thing.oid).map_or_else(
        || Rights::of_owner(state_now.owner(thing.oid)),
        |rights| (**rights).clone(),
    );
    let mut on_columns = wanted.columns.clone();
    if wanted.whole != 0 {
        let (grantor, possible) = best_grantor(&state_now, role, thing, None, wanted.whole);
        check_possible(session, statement, thing, None, possible, wanted.whole)?;
        let grants = rights
            .grants
            .get_or_insert_with(|| grants_at_first(thing.kind, thing.oid, rights.owner));
        apply(grants, statement, grantor, possible, grantees)?;
        if statement.revokes && thing.kind == Secured::Table {
            // Those on columns go with those on all.
            let whole = wanted.whole & Secured::Column.rights();
            on_columns.extend(rights.columns.iter().map(|(name, _)| (name.clone(), whole)));
        }
    }
    for (column, bits) in &on_columns {
        let relation = state_now.relation_by_oid(thing.oid);
        let known = relation.is_some_and(|relation| relation.columns().index_of(column).is_ok());
        if !known {
            let message = format!("column \"{column}\" of relation \"{}\" does not exist", thing.name);
            return Err(SqlError::new(state::UNDEFINED_COLUMN, message));
        }
        let (grantor, possible) = best_grantor(&state_now, role, thing, Some(column), *bits);
        if wanted.columns.iter().any(|(name, _)| name == column) {
            check_possible(session, statement, thing, Some(column), possible, *bits)?;
        }
        let at = match rights.columns.iter().position(|(name, _)| name == column) {
            Some(at) => at,
            None => {
                rights.columns.push((column.clone(), Vec::new()));
                rights.columns.len() - 1
            }
        };
        apply(&mut rights.columns[at].1, statement, grantor, possible, grantees)?;
    }
    rights.columns.retain(|(_, grants)| !grants.is_empty());
    session.transaction()?.lock().set_rights(thing.oid, rights);
    Ok(())
}

/// 42501 for who has nothing to give and no right at all; a warning for who gives less than was asked.
fn check_possible(
    session: &mut Session,
    statement: &Grant,
    thing: &Thing,
    column: Option<&str>,
    possible: u32,
    wanted: u32,
) -> Result<()> {
    if possible == wanted {
        return Ok(());
    }
    let state_now = session.state();
    let role = session.acting_in(&state_now).role;
    if possible == 0 {
        let all = thing.kind.rights();
        let mut any = state_now.granted(role, thing.kind, thing.oid, all);
        if column.is_some() {
            any |= state_now.granted_on_any_column(role, thing.oid, all);
        }
        if any == 0 {
            return Err(denied(thing.word, &thing.name));
        }
    }
    let of = column.map_or_else(
        || format!("\"{}\"", thing.name),
        |column| format!("column \"{column}\" of relation \"{}\"", thing.name),
    );
    let Granted::Rights { rights, .. } = &statement.what else {
        return Ok(());
    };
    // ALL is as much as there is to give.
    if possible != 0 && rights.iter().any(|right| right.right.is_none()) {
        return Ok(());
    }
    let how_many = if possible == 0 { "no" } else { "not all" };
    match statement.revokes {
        false => session.warn(
            SqlState("01007"),
            format!("{how_many} privileges were granted for {of}"),
        ),
        true => session.warn(
            SqlState("01006"),
            format!("{how_many} privileges could be revoked for {of}"),
        ),
    }
    Ok(())
}

fn apply(
    grants: &mut Vec<tenon_storage::Grant>,
    statement: &Grant,
    grantor: u32,
    bits: u32,
    grantees: &[u32],
) -> Result<()> {
    for grantee in grantees.iter().filter(|_| bits != 0) {
        let mut grant = tenon_storage::Grant {
            grantee: *grantee,
            grantor,
            rights: bits,
            grantable: 0,
        };
        if !statement.revokes {
            grant.grantable = if statement.option { bits } else { 0 };
            stored::give(grants, &grant);
        } else if !stored::take(grants, &grant, statement.option, statement.cascade) {
            return Err(
                SqlError::new(state::DEPENDENT_OBJECTS_STILL_EXIST, "dependent privileges exist")
                    .hint("Use CASCADE to revoke them too."),
            );
        }
    }
    Ok(())
}

pub(super) fn defaults(session: &mut Session, statement: &DefaultRights) -> Result<Outcome> {
    let tag = "ALTER DEFAULT PRIVILEGES";
    session.check_writable(tag)?;
    let word = match statement.kind {
        Secured::Sequence => "sequence",
        Secured::Function => "function",
        Secured::Type => "type",
        Secured::Schema => "schema",
        _ => "relation",
    };
    let wanted = wanted(&statement.rights, statement.kind, word)?;
    if !wanted.columns.is_empty() {
        let message = "default privileges cannot be set for columns";
        return Err(SqlError::new(INVALID_GRANT, message));
    }
    if statement.kind == Secured::Schema && !statement.schemas.is_empty() {
        let message = "cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS";
        return Err(SqlError::new(INVALID_GRANT, message));
    }
    let grantees = statement.grantees.iter().map(|name| role::oid(session, name, true));
    let grantees = grantees.collect::<Result<Vec<_>>>()?;
    if statement.option && !statement.revokes && grantees.contains(&EVERYBODY) {
        let message = "grant options can only be granted to roles";
        return Err(SqlError::new(INVALID_GRANT, message));
    }
    let current = [RoleName::Current];
    let of = if statement.of.is_empty() {
        &current[..]
    } else {
        &statement.of
    };
    let schemas = statement.schemas.iter().map(|name| Ok(schema(session, name)?.oid));
    let mut schemas = schemas.collect::<Result<Vec<_>>>()?;
    if schemas.is_empty() {
        schemas.push(0);
    }
    for name in of {
        let role = role::oid(session, name, false)?;
        let state_now = session.state();
        if !session.acting_in(&state_now).has_rights_of(&state_now, role) {
            let message = format!("must be member of role \"{}\"", role::shown(session, role));
            return Err(refused(message));
        }
        for schema in &schemas {
            let first = match schema {
                0 => grants_at_first(statement.kind, 0, role),
                _ => Vec::new(),
            };
            let before = state_now.default_grants(role, *schema, statement.kind);
            let mut grants = before.map_or_else(|| first.clone(), |grants| (**grants).clone());
            for grantee in &grantees {
                let mut grant = tenon_storage::Grant {
                    grantee: *grantee,
                    grantor: role,
                    rights: wanted.whole,
                    grantable: 0,
                };
                if !statement.revokes {
                    grant.grantable = if statement.option { wanted.whole } else { 0 };
                    stored::give(&mut grants, &grant);
                } else {
                    stored::take(&mut grants, &grant, statement.option, true);
                }
            }
            let key = ObjectKey::DefaultRights {
                role,
                schema: *schema,
                kind: statement.kind,
            };
            let object = (grants != first).then(|| Object::DefaultRights(Arc::new(grants)));
            session.transaction()?.lock().put_object(key, object);
        }
    }
    Ok(Outcome::Command(tag.into()))
}
