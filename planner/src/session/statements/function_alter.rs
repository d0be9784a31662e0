//! ALTER FUNCTION: what a function says of itself, its name and its schema.

use super::function::named;
use super::function_texts;
use super::role::rights;
use crate::catalog::bind::parts;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::Outcome;
use crate::pg::parse::definition::{FunctionChange, FunctionChanges};
use crate::session::Session;
use datafusion::sql::sqlparser::ast::ObjectName;
use std::sync::Arc;
use tenon_storage::{Function, FunctionOptions, FunctionResult, Object, ObjectKey};

pub(super) fn repeated() -> SqlError {
    SqlError::new(state::SYNTAX_ERROR, "conflicting or redundant options")
}

/// What CREATE or ALTER says, where it says anything.
pub(super) fn apply(options: &mut FunctionOptions, said: &FunctionChanges, is_set: bool) -> Result<()> {
    let wrong = |message: &str| SqlError::new(state::INVALID_PARAMETER_VALUE, message);
    if said.cost.is_some_and(|cost| cost <= 0.0) {
        return Err(wrong("COST must be positive"));
    }
    if said.rows.is_some_and(|rows| rows <= 0.0) {
        return Err(wrong("ROWS must be positive"));
    }
    if said.rows.is_some() && !is_set {
        return Err(wrong("ROWS is not applicable when function does not return a set"));
    }
    if let Some(parallel) = &said.parallel {
        options.parallel = Some(match parallel.as_str() {
            "safe" => 's',
            "restricted" => 'r',
            "unsafe" => 'u',
            _ => {
                let message = "parameter \"parallel\" must be SAFE, RESTRICTED, or UNSAFE";
                return Err(SqlError::new(state::SYNTAX_ERROR, message));
            }
        });
    }
    options.cost = said.cost.or(options.cost);
    options.rows = said.rows.or(options.rows);
    options.security_definer = said.security_definer.unwrap_or(options.security_definer);
    options.leakproof = said.leakproof.unwrap_or(options.leakproof);
    if said.reset_all {
        options.settings.clear();
    }
    for (name, value) in &said.settings {
        options.settings.retain(|(own, _)| own != name);
        options
            .settings
            .extend(value.iter().map(|value| (name.clone(), value.clone())));
    }
    Ok(())
}

/// ALTER FUNCTION, PROCEDURE and ROUTINE.
pub(super) fn alter(
    session: &mut Session,
    tag: &str,
    name: &ObjectName,
    arguments: Option<&[String]>,
    change: &FunctionChange,
) -> Result<Outcome> {
    session.check_writable(tag)?;
    let thing = named(session, name, arguments)?;
    if tag == "ALTER PROCEDURE" {
        let message = format!("{} is not a procedure", thing.name.replace(", ", ","));
        return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message));
    }
    let state_now = session.state();
    let found = state_now.objects().iter().find_map(|(key, object)| match object {
        Object::Function(own) if own.oid == thing.oid => Some((key.clone(), own.clone())),
        _ => None,
    });
    let (key, before) = found.ok_or_else(|| SqlError::internal("a function is none"))?;
    let asked = rights(session, &state_now);
    asked.check_owner_of(before.oid, "function", &parts(name).join("."))?;
    let mut next = (*before).clone();
    match change {
        FunctionChange::Rename(to) => {
            asked.check_schema(&before.schema_name, tenon_storage::privilege::CREATE)?;
            next.name.clone_from(to);
        }
        FunctionChange::SetSchema(to) => {
            if state_now.schema(to).is_none() {
                let message = format!("schema \"{to}\" does not exist");
                return Err(SqlError::new(state::INVALID_SCHEMA_NAME, message));
            }
            asked.check_schema(to, tenon_storage::privilege::CREATE)?;
            if *to == before.schema_name {
                return Ok(Outcome::Command(tag.into()));
            }
            next.schema_name.clone_from(to);
        }
        FunctionChange::Options(said) => {
            if said.repeated {
                return Err(repeated());
            }
            let is_set = matches!(before.returns, FunctionResult::Set(_) | FunctionResult::Table(_));
            apply(&mut next.options, said, is_set)?;
            next.strict = said.strict.unwrap_or(next.strict);
            next.volatility = said.volatility.unwrap_or(next.volatility);
        }
    }
    put_anew(
        session,
        &key,
        &before,
        next,
        matches!(change, FunctionChange::Rename(_)),
    )?;
    Ok(Outcome::Command(tag.into()))
}

/// Puts a function in the place of what it was, perhaps under another name; what calls it goes on doing so.
fn put_anew(session: &Session, key: &ObjectKey, before: &Function, next: Function, renames: bool) -> Result<()> {
    let ObjectKey::Function { arguments, .. } = key else {
        return Err(SqlError::internal("a function is none"));
    };
    let new_key = ObjectKey::Function {
        schema: next.schema_name.clone(),
        name: next.name.clone(),
        arguments: arguments.clone(),
    };
    if new_key != *key || renames {
        if session.state().objects().contains_key(&new_key) {
            let shown = format!("{}({})", next.name, arguments.join(", "));
            let message = format!("function {shown} already exists in schema \"{}\"", next.schema_name);
            return Err(SqlError::new(state::DUPLICATE_FUNCTION, message));
        }
        function_texts::moves(session, before, &next)?;
        session.transaction()?.lock().put_object(key.clone(), None);
    }
    let object = Object::Function(Arc::new(next));
    session.transaction()?.lock().put_object(new_key, Some(object));
    Ok(())
}
