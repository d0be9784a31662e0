//! CREATE TYPE and DROP TYPE.

use super::{composite, create as place, domain, enums, ranges};
use crate::catalog::bind::{Target, parts};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::Outcome;
use crate::pg::parse::definition::NewType;
use crate::session::Session;
use datafusion::sql::sqlparser::ast::ObjectName;
use tenon_storage::ObjectKey;

pub(super) fn create(session: &mut Session, name: &ObjectName, of: &NewType) -> Result<Outcome> {
    session.check_writable("CREATE TYPE")?;
    let declared = match of {
        NewType::Composite(declared) => declared,
        NewType::Enum(labels) => return enums::create(session, name, labels),
        NewType::Range(options) => return ranges::create(session, name, options),
        NewType::Other => {
            return Err(SqlError::unsupported(
                "CREATE TYPE of another kind than AS (columns), AS ENUM and AS RANGE",
            ));
        }
    };
    composite::create(session, name, declared)?;
    Ok(Outcome::Command("CREATE TYPE".into()))
}

/// Where a new type goes; 42710 where there is one of its name.
pub(super) fn free_name(session: &mut Session, name: &ObjectName) -> Result<(Target, ObjectKey)> {
    let place = place::target(session, name, false)?;
    let binder = session.binder();
    let key = ObjectKey::Type {
        schema: place.schema.clone(),
        name: place.name.clone(),
    };
    let taken = binder.snapshot.relation(&place.schema, &place.name).is_some();
    if taken || binder.snapshot.objects().contains_key(&key) {
        let message = format!("type \"{}\" already exists", place.name);
        return Err(SqlError::new(state::DUPLICATE_OBJECT, message));
    }
    Ok((place, key))
}

pub(super) async fn drop(
    session: &mut Session,
    names: &[ObjectName],
    if_exists: bool,
    cascade: bool,
) -> Result<Outcome> {
    session.check_writable("DROP TYPE")?;
    for name in names {
        let binder = session.binder();
        binder.check_schema_of(name)?;
        let owned = |oid: u32, schema: &str, name: &str| binder.check_owner_of_type(oid, schema, name);
        if let Some(domain) = binder.domain(name) {
            owned(domain.oid, &domain.schema_name, &domain.name)?;
            domain::drop_one(session, &domain, cascade)?;
            continue;
        }
        if let Some(of) = binder.enum_named(name) {
            owned(of.oid, &of.schema_name, &of.name)?;
            enums::drop_one(session, of, cascade).await?;
            continue;
        }
        if let Some((of, multi)) = binder.range_object(name) {
            owned(of.oid, &of.schema_name, &of.name)?;
            ranges::drop_one(session, of, multi, cascade).await?;
            continue;
        }
        let Some(composite) = binder.composite(name) else {
            let message = format!("type \"{}\" does not exist", parts(name).join("."));
            if !if_exists {
                return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
            }
            session.notice(format!("{message}, skipping"));
            continue;
        };
        owned(composite.oid, &composite.schema_name, &composite.name)?;
        composite::drop_one(session, &composite, cascade).await?;
    }
    Ok(Outcome::Command("DROP TYPE".into()))
}
