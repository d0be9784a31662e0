//! CREATE SCHEMA, with what is created in it.

use super::role;
use crate::catalog::bind::fold;
use crate::catalog::rights::refused;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::Outcome;
use crate::pg::parse::definition::role::named;
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{self, SchemaName};
use tenon_storage::privilege;

pub(super) fn schema(session: &mut Session, name: &SchemaName, if_not_exists: bool) -> Result<Outcome> {
    session.check_writable("CREATE SCHEMA")?;
    let owner = match name {
        SchemaName::NamedAuthorization(_, owner) | SchemaName::UnnamedAuthorization(owner) => {
            Some(role::oid(session, &named(owner), false)?)
        }
        SchemaName::Simple(_) => None,
    };
    let state_now = session.state();
    let asked = role::rights(session, &state_now);
    if let Some(owner) = owner
        && !asked.acting.superuser
        && !state_now.is_member(asked.acting.role, owner)
    {
        let message = format!("must be member of role \"{}\"", role::shown(session, owner));
        return Err(refused(message));
    }
    asked.check_database(&session.info.database, privilege::CREATE)?;
    let name = schema_named(name);
    if name.starts_with("pg_") {
        return Err(SqlError::new(
            crate::pg::error::SqlState("42939"),
            format!("unacceptable schema name \"{name}\""),
        )
        .detail("The prefix \"pg_\" is reserved for system schemas."));
    }
    let transaction = session.transaction()?;
    let exists = transaction.lock().state().schema(&name).is_some() || name == "information_schema";
    if exists && if_not_exists {
        session.notice(format!("schema \"{name}\" already exists, skipping"));
    } else if exists {
        return Err(SqlError::new(
            state::DUPLICATE_SCHEMA,
            format!("schema \"{name}\" already exists"),
        ));
    } else {
        let mut transaction = transaction.lock();
        transaction.set_creator(owner.unwrap_or(asked.acting.role));
        transaction.create_schema(&name)?;
        transaction.set_creator(asked.acting.role);
    }
    Ok(Outcome::Command("CREATE SCHEMA".into()))
}

/// CREATE SCHEMA with elements, which are made as if the schema came first in the path.
pub(super) async fn schema_with(
    session: &mut Session,
    create: &ast::Statement,
    elements: &[crate::pg::statement::Statement],
) -> Result<Outcome> {
    let ast::Statement::CreateSchema {
        schema_name,
        if_not_exists,
        ..
    } = create
    else {
        return Err(SqlError::internal("no CREATE SCHEMA"));
    };
    if *if_not_exists {
        return Err(SqlError::unsupported_as(
            "CREATE SCHEMA IF NOT EXISTS cannot include schema elements",
        ));
    }
    let outcome = schema(session, schema_name, false)?;
    let name = tenon_storage::quote::identifier(&schema_named(schema_name)).to_string();
    let before = session.settings.clone();
    let path = before.get("search_path").unwrap_or_default();
    session.settings.put("search_path".into(), format!("{name}, {path}"));
    let mut result = Ok(outcome);
    for element in elements {
        if let crate::pg::statement::Kind::Utility(_) = element.kind {
            continue;
        }
        let prepared = crate::session::Prepared::without_parameters(element.clone());
        if let Err(error) = Box::pin(super::run(session, &prepared, &[])).await {
            result = Err(error);
            break;
        }
    }
    session.settings = before;
    result
}

fn schema_named(name: &SchemaName) -> String {
    match name {
        SchemaName::Simple(name) | SchemaName::NamedAuthorization(name, _) => super::last(name),
        SchemaName::UnnamedAuthorization(owner) => fold(owner),
    }
}
