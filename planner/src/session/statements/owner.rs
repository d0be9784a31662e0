//! Whose things are: OWNER TO, REASSIGN OWNED, DROP OWNED, and what hangs on a role.

use super::grant::{self, Thing};
use super::role::{self, rights};
use super::text_dependents;
use super::{drop, function};
use crate::catalog::bind::Binder;
use crate::catalog::rights::{Rights, refused};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::Outcome;
use crate::pg::parse::definition::grant::Owned;
use crate::pg::parse::definition::{Action, Alter, RoleName};
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{AlterTableOperation, Ident, ObjectName, ObjectType};
use tenon_storage::rights::{self as stored, grants_at_first};
use tenon_storage::roles::BOOTSTRAP;
use tenon_storage::{DatabaseState, Object, ObjectKey, Relation, Secured, privilege};

/// Everything that can belong to somebody, in the order of oids.
fn things(state: &DatabaseState) -> Vec<Thing> {
    let relations = state.relations().map(|relation| Thing {
        kind: Secured::of_relation(relation),
        oid: relation.oid(),
        schema: Some(relation.schema_name().to_string()),
        name: relation.name().to_string(),
        word: relation.kind(),
    });
    let schemas = state.schemas().map(|(name, schema)| Thing {
        kind: Secured::Schema,
        oid: schema.oid,
        schema: None,
        name: name.to_string(),
        word: "schema",
    });
    let objects = state.objects().iter().filter_map(|(key, object)| {
        let (oid, kind) = object.secured()?;
        let (schema, name) = match key {
            ObjectKey::Type { schema, name } => (schema, name.clone()),
            ObjectKey::Function {
                schema,
                name,
                arguments,
            } => (schema, format!("{name}({})", arguments.join(","))),
            _ => return None,
        };
        Some(Thing {
            kind,
            oid,
            schema: Some(schema.clone()),
            name,
            word: if kind == Secured::Function { "function" } else { "type" },
        })
    });
    let database = Thing {
        kind: Secured::Database,
        oid: stored::DATABASE_OID,
        schema: None,
        name: "tenon".into(),
        word: "database",
    };
    let mut all: Vec<Thing> = relations.chain(schemas).chain(objects).chain([database]).collect();
    all.sort_by_key(|thing| thing.oid);
    all
}

/// What keeps a role from being dropped, as errors tell it.
pub(super) fn dependents(session: &Session, role: u32) -> Vec<String> {
    let binder = session.binder();
    let state_now = &binder.snapshot;
    let mut out = Vec::new();
    for thing in things(state_now) {
        let Some(rights) = state_now.rights(thing.oid) else {
            continue;
        };
        let shown = match &thing.schema {
            Some(schema) if !binder.facts.path.contains(schema) => format!("{} {schema}.{}", thing.word, thing.name),
            _ => format!("{} {}", thing.word, thing.name),
        };
        if rights.owner == role {
            out.push(format!("owner of {shown}"));
        } else if rights.roles().any(|own| own == role) {
            out.push(format!("privileges for {shown}"));
        }
    }
    for (of, schema, kind, grants) in state_now.all_default_grants() {
        let on = match kind {
            Secured::Sequence => "sequences",
            Secured::Function => "functions",
            Secured::Type => "types",
            Secured::Schema => "schemas",
            _ => "relations",
        };
        let named = state_now.schemas().find(|(_, own)| own.oid == schema);
        let within = named.map_or_else(String::new, |(name, _)| format!(" in schema {name}"));
        let whose = format!("new {on} belonging to role {}{within}", role::shown(session, of));
        if of == role {
            out.push(format!("owner of default privileges on {whose}"));
        } else if grants.iter().any(|grant| grant.grantee == role) {
            out.push(format!("privileges for default privileges on {whose}"));
        }
    }
    out
}

/// Gives a thing to another owner, with what the old one held on it and gave to others.
fn give(session: &Session, thing: &Thing, to: u32) -> Result<()> {
    let state_now = session.state();
    let before = state_now.owner(thing.oid);
    let mut rights = state_now
        .rights(thing.oid)
        .map_or_else(|| tenon_storage::Rights::of_owner(before), |rights| (**rights).clone());
    rights.owner = to;
    let renamed = |oid: &mut u32| {
        if *oid == before {
            *oid = to;
        }
    };
    let columns = rights.columns.iter_mut().map(|(_, grants)| grants);
    for grants in rights.grants.iter_mut().chain(columns) {
        for mut grant in std::mem::take(grants) {
            renamed(&mut grant.grantee);
            renamed(&mut grant.grantor);
            stored::give(grants, &grant);
        }
    }
    session.transaction()?.lock().set_rights(thing.oid, rights);
    Ok(())
}

/// Whether who acts may give something of a kind to another.
fn check_give(rights: &Rights<'_>, thing: &Thing, to: u32, session: &Session) -> Result<()> {
    if rights.acting.superuser {
        return Ok(());
    }
    rights.check_owner_of(thing.oid, thing.word, &thing.name)?;
    if !rights.state.is_member(rights.acting.role, to) {
        let message = format!("must be member of role \"{}\"", role::shown(session, to));
        return Err(refused(message));
    }
    match &thing.schema {
        Some(schema) => Rights {
            acting: crate::pg::identity::Acting::of(rights.state, to),
            ..*rights
        }
        .check_schema(schema, privilege::CREATE),
        None => Ok(()),
    }
}

/// Whether who acts may do what ALTER says of a relation. OWNER TO asks for itself.
pub(super) fn check_alter(binder: &Binder, alter: &Alter, relation: &Relation) -> Result<()> {
    let gives = |action: &Action| matches!(action, Action::OwnerTo(_));
    if !alter.actions.iter().all(gives) {
        binder.rights().check_owner(relation)?;
    }
    let renames = |action: &Action| match action {
        Action::Known(operation) => matches!(operation.as_ref(), AlterTableOperation::RenameTable { .. }),
        _ => false,
    };
    match alter.actions.iter().any(renames) {
        true => binder.rights().check_schema(relation.schema_name(), privilege::CREATE),
        false => Ok(()),
    }
}

/// OWNER TO of a relation, whose sequences go with it.
pub(super) fn relation_to(session: &Session, relation: &Relation, to: &RoleName) -> Result<()> {
    let to = role::oid(session, to, false)?;
    let state_now = session.state();
    let thing = grant::of_relation(relation);
    if state_now.owner(thing.oid) == to {
        return rights(session, &state_now).check_owner(relation);
    }
    if let Some(owner) = relation.as_sequence().and_then(|sequence| sequence.owner.as_ref()) {
        let table = state_now.table_by_oid(owner.table_oid).map_or("", |table| table.name());
        let name = relation.name();
        let message = format!("cannot change owner of sequence \"{name}\"");
        return Err(
            SqlError::unsupported_as(message).detail(format!("Sequence \"{name}\" is linked to table \"{table}\"."))
        );
    }
    check_give(&rights(session, &state_now), &thing, to, session)?;
    give(session, &thing, to)?;
    let owned = session.transaction()?.lock().owned_sequences(thing.oid, None);
    for sequence in owned {
        give(session, &grant::of_relation(&Relation::Sequence(sequence)), to)?;
    }
    Ok(())
}

pub(super) fn change(session: &mut Session, tag: &str, of: &Owned, to: &RoleName) -> Result<Outcome> {
    session.check_writable(tag)?;
    let thing = match of {
        Owned::Schema(name) => grant::schema(session, name)?,
        Owned::Database(name) => grant::database(session, name)?,
        Owned::Type(name) => grant::of_type(session, name)?,
        Owned::Function(name, arguments) => function::named(session, name, arguments.as_deref())?,
    };
    let to = role::oid(session, to, false)?;
    let state_now = session.state();
    let asked = rights(session, &state_now);
    if state_now.owner(thing.oid) == to {
        asked.check_owner_of(thing.oid, thing.word, &thing.name)?;
    } else {
        check_give(&asked, &thing, to, session)?;
        if matches!(thing.kind, Secured::Schema) {
            asked.check_database(&session.info.database, privilege::CREATE)?;
        }
        give(session, &thing, to)?;
    }
    Ok(Outcome::Command(tag.into()))
}

/// REASSIGN OWNED and DROP OWNED.
pub(super) async fn owned(
    session: &mut Session,
    of: &[RoleName],
    to: Option<&RoleName>,
    cascade: bool,
) -> Result<Outcome> {
    let tag = if to.is_some() { "REASSIGN OWNED" } else { "DROP OWNED" };
    session.check_writable(tag)?;
    let of = of.iter().map(|name| role::oid(session, name, false));
    let of = of.collect::<Result<Vec<_>>>()?;
    let to = to.map(|name| role::oid(session, name, false)).transpose()?;
    let state_now = session.state();
    let asked = rights(session, &state_now);
    for role in of.iter().chain(&to) {
        if *role == BOOTSTRAP && Some(*role) != to {
            let what = format!("objects owned by role {}", role::shown(session, *role));
            let message = match to {
                Some(_) => {
                    format!("cannot reassign ownership of {what} because they are required by the database system")
                }
                None => format!("cannot drop {what} because they are required by the database system"),
            };
            return Err(SqlError::new(state::DEPENDENT_OBJECTS_STILL_EXIST, message));
        }
        if !asked.is_in(*role) {
            let what = if to.is_some() { "reassign" } else { "drop" };
            return Err(refused(format!("permission denied to {what} objects")));
        }
    }
    match to {
        Some(to) => {
            for thing in things(&state_now) {
                if of.contains(&state_now.owner(thing.oid)) {
                    give(session, &thing, to)?;
                }
            }
        }
        None => drop_owned(session, &of, cascade).await?,
    }
    Ok(Outcome::Command(tag.into()))
}

async fn drop_owned(session: &mut Session, of: &[u32], cascade: bool) -> Result<()> {
    let quoted = |thing: &Thing| {
        let parts = thing.schema.iter().chain([&thing.name]);
        ObjectName::from(parts.map(|part| Ident::with_quote('"', part)).collect::<Vec<_>>())
    };
    let owned = |state: &DatabaseState| -> Vec<Thing> {
        let all = things(state).into_iter();
        all.filter(|thing| of.contains(&state.owner(thing.oid))).collect()
    };
    let all = owned(&session.state());
    for (word, kind) in [
        ("view", ObjectType::View),
        ("materialized view", ObjectType::MaterializedView),
        ("table", ObjectType::Table),
        ("sequence", ObjectType::Sequence),
        ("schema", ObjectType::Schema),
    ] {
        let mut names: Vec<ObjectName> = Vec::new();
        let state_now = session.state();
        for thing in all.iter().filter(|thing| thing.word == word) {
            let is_there = match word {
                "schema" => state_now.schema(&thing.name).is_some(),
                // Those of tables went with them.
                _ => state_now.relation_by_oid(thing.oid).is_some(),
            };
            if is_there {
                names.push(quoted(thing));
            }
        }
        if !names.is_empty() {
            drop::objects(session, kind, &names, true, cascade).await?;
        }
    }
    let objects: Vec<ObjectKey> = {
        let state_now = session.state();
        let own = |object: &Object| {
            let secured = object.secured();
            secured.is_some_and(|(oid, _)| of.contains(&state_now.owner(oid)))
        };
        let found = state_now.objects().iter().filter(|(_, object)| own(object));
        found.map(|(key, _)| key.clone()).collect()
    };
    for key in objects {
        text_dependents::drop_object(session, &key, cascade).await?;
        if session.state().objects().contains_key(&key) {
            session.transaction()?.lock().put_object(key, None);
        }
    }
    let transaction = session.transaction()?;
    let mut transaction = transaction.lock();
    // What they were granted, and what they have granted by default.
    let state_now = transaction.state().clone();
    for thing in things(&state_now) {
        let Some(found) = state_now.rights(thing.oid) else {
            continue;
        };
        if !found.roles().any(|role| of.contains(&role)) {
            continue;
        }
        let mut found = (**found).clone();
        let keep = |grants: &mut Vec<tenon_storage::Grant>| {
            grants.retain(|grant| !of.contains(&grant.grantee) && !of.contains(&grant.grantor));
        };
        let grants = found
            .grants
            .get_or_insert_with(|| grants_at_first(thing.kind, thing.oid, found.owner));
        keep(grants);
        found.columns.iter_mut().for_each(|(_, grants)| keep(grants));
        found.columns.retain(|(_, grants)| !grants.is_empty());
        transaction.set_rights(thing.oid, found);
    }
    let defaults: Vec<(u32, u32, Secured)> = state_now
        .all_default_grants()
        .filter(|(role, _, _, grants)| of.contains(role) || grants.iter().any(|own| of.contains(&own.grantee)))
        .map(|(role, schema, kind, _)| (role, schema, kind))
        .collect();
    for (role, schema, kind) in defaults {
        let key = ObjectKey::DefaultRights { role, schema, kind };
        let left = state_now
            .default_grants(role, schema, kind)
            .filter(|_| !of.contains(&role));
        let left = left.map(|grants| {
            let kept = grants.iter().filter(|grant| !of.contains(&grant.grantee));
            Object::DefaultRights(std::sync::Arc::new(kept.cloned().collect()))
        });
        transaction.put_object(key, left);
    }
    Ok(())
}
