//! CREATE SCHEMA, with what is created in it.

use crate::catalog::bind::fold;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::Outcome;
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{self, SchemaName};

pub(super) fn schema(session: &mut Session, name: &SchemaName, if_not_exists: bool) -> Result<Outcome> {
    session.check_writable("CREATE SCHEMA")?;
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
        transaction.lock().create_schema(&name)?;
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
