//! CREATE, ALTER and DROP EXTENSION: what an extension has are functions in SQL, which know that they are of it. Those that
//! there are: `catalog::extensions`.

use super::function;
use crate::catalog::extensions::{self, Available};
use crate::catalog::rights::refused;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::Outcome;
use crate::pg::parse::definition::{Definition, ExtensionChange};
use crate::pg::parse::parse;
use crate::pg::statement::Kind;
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{Ident, ObjectNamePart};

pub(super) fn change(session: &mut Session, change: &ExtensionChange) -> Result<Outcome> {
    match change {
        ExtensionChange::Create {
            if_not_exists,
            name,
            schema,
            version,
        } => {
            session.check_writable("CREATE EXTENSION")?;
            create(session, name, schema.as_ref(), version.as_deref(), *if_not_exists)?;
            Ok(Outcome::Command("CREATE EXTENSION".into()))
        }
        ExtensionChange::Update { name, version } => {
            session.check_writable("ALTER EXTENSION")?;
            update(session, name, version.as_deref())?;
            Ok(Outcome::Command("ALTER EXTENSION".into()))
        }
        ExtensionChange::Drop {
            if_exists,
            names,
            cascade,
        } => {
            session.check_writable("DROP EXTENSION")?;
            for name in names {
                drop_one(session, name, *if_exists, *cascade)?;
            }
            Ok(Outcome::Command("DROP EXTENSION".into()))
        }
    }
}

fn missing(name: &str) -> SqlError {
    SqlError::new(state::UNDEFINED_OBJECT, format!("extension \"{name}\" does not exist"))
}

fn create(
    session: &mut Session,
    name: &str,
    schema: Option<&Ident>,
    version: Option<&str>,
    if_not_exists: bool,
) -> Result<()> {
    if extensions::installed(&session.state()).any(|own| own.of.name == name) {
        let message = format!("extension \"{name}\" already exists");
        if !if_not_exists {
            return Err(SqlError::new(state::DUPLICATE_OBJECT, message));
        }
        session.notice(format!("{message}, skipping"));
        return Ok(());
    }
    let of = Available::named(name).ok_or_else(|| {
        SqlError::unsupported_as(format!("extension \"{name}\" is not available"))
            .hint("pg_available_extensions lists those that are.")
    })?;
    check_version(of, version)?;
    for mut statement in parse(of.script)? {
        let Kind::Definition(definition) = &mut statement.kind else {
            return Err(SqlError::internal("an extension is more than functions"));
        };
        let Definition::CreateFunction(own) = definition.as_mut() else {
            return Err(SqlError::internal("an extension is more than functions"));
        };
        if let Some(schema) = schema {
            own.name.0.insert(0, ObjectNamePart::Identifier(schema.clone()));
        }
        own.extension = Some(of.name.to_string());
        function::create(session, own)?;
    }
    Ok(())
}

fn check_version(of: &Available, asked: Option<&str>) -> Result<()> {
    match asked {
        Some(asked) if asked != of.version => {
            let message = format!(
                "extension \"{}\" has no installation script nor update path for version \"{asked}\"",
                of.name
            );
            Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message))
        }
        _ => Ok(()),
    }
}

fn update(session: &mut Session, name: &str, version: Option<&str>) -> Result<()> {
    let state_now = session.state();
    let found = extensions::installed(&state_now).find(|own| own.of.name == name);
    let of = found.ok_or_else(|| missing(name))?.of;
    check_version(of, version)?;
    let message = format!(
        "version \"{}\" of extension \"{name}\" is already installed",
        of.version
    );
    session.notice(message);
    Ok(())
}

fn drop_one(session: &mut Session, name: &str, if_exists: bool, cascade: bool) -> Result<()> {
    let state_now = session.state();
    let Some(found) = extensions::installed(&state_now).find(|own| own.of.name == name) else {
        let error = missing(name);
        if !if_exists {
            return Err(error);
        }
        session.notice(format!("{}, skipping", error.message));
        return Ok(());
    };
    if found.functions.is_empty() {
        let message = format!("cannot drop extension {name} because it is required by the database system");
        return Err(SqlError::new(state::DEPENDENT_OBJECTS_STILL_EXIST, message));
    }
    let rights = super::role::rights(session, &state_now);
    if !found.functions.iter().all(|(_, own)| rights.owns(own.oid)) {
        return Err(refused(format!("must be owner of extension {name}")));
    }
    for (key, _) in &found.functions {
        function::drop_one(session, key, cascade).map_err(|error| match error.state {
            state::DEPENDENT_OBJECTS_STILL_EXIST => SqlError {
                message: format!("cannot drop extension {name} because other objects depend on it"),
                ..error
            },
            _ => error,
        })?;
    }
    Ok(())
}
