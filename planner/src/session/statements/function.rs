//! CREATE and DROP FUNCTION. In the language SQL: one query, put in the place of each call (`bind::inline`). Functions in
//! PL/pgSQL are kept, so that scripts that create them run on, and refused where they are called.

use super::grant::Thing;
use super::role::rights;
use super::text_dependents::{self, Dropped};
use super::{create, function_alter, function_bodies};
use crate::catalog::bind::{Binder, argument_type, overloads, parsed_type, parts, undefined_function};
use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::outcome::Outcome;
use crate::pg::parse::definition::CreateFunction;
use crate::pg::parse::{parse, parse_expression};
use crate::pg::statement::Kind;
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{DataType, Expr, ObjectName, Statement};
use std::sync::Arc;
use tenon_storage::{
    DatabaseState, Function, FunctionArgument, FunctionOptions, FunctionParameter, FunctionResult, Object, ObjectKey,
};

pub(super) fn create(session: &mut Session, declared: &CreateFunction) -> Result<Outcome> {
    let what = match (declared.is_procedure, declared.language.as_deref()) {
        (true, _) => return Err(SqlError::unsupported("CREATE PROCEDURE")),
        (false, Some("sql" | "plpgsql")) => "CREATE FUNCTION",
        (false, None) => {
            return Err(SqlError::new(
                state::INVALID_FUNCTION_DEFINITION,
                "no language specified",
            ));
        }
        (false, Some(language @ ("c" | "internal"))) => {
            return Err(SqlError::unsupported(format!("CREATE FUNCTION in language {language}"))
                .hint("Functions in language SQL whose body is one query are supported."));
        }
        (false, Some(other)) => {
            let message = format!("language \"{other}\" does not exist");
            return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
        }
    };
    session.check_writable(what)?;
    let wrong = |message: &str| Err(SqlError::new(state::INVALID_FUNCTION_DEFINITION, message));
    let returns = match (&declared.returns, declared.out.as_slice()) {
        (Some(FunctionResult::Set(_)), out @ [_, _, ..]) => FunctionResult::Table(out.to_vec()),
        // `RETURNS record` beside several OUT arguments.
        (Some(FunctionResult::Scalar(_)), out @ [_, _, ..]) => FunctionResult::Table(out.to_vec()),
        (Some(returns), _) => returns.clone(),
        (None, []) => return wrong("function result type must be specified"),
        (None, [(_, only)]) => FunctionResult::Scalar(only.clone()),
        (None, out) => FunctionResult::Table(out.to_vec()),
    };
    let Some(body) = &declared.body else {
        return wrong("no function body specified");
    };
    check_types(session, declared, &returns)?;
    if declared.options.repeated {
        return Err(function_alter::repeated());
    }
    let mut options = FunctionOptions {
        one_row: !matches!(
            declared.returns,
            Some(FunctionResult::Set(_) | FunctionResult::Table(_))
        ),
        ..FunctionOptions::default()
    };
    let is_set = !options.one_row;
    function_alter::apply(&mut options, &declared.options, is_set)?;
    let language = declared.language.clone().unwrap_or_default();
    if language == "sql" {
        check_body(body, &returns)?;
    }
    options.bound = declared.bound;
    options.extension = declared.extension.clone();
    let body = match declared.bound {
        true => function_bodies::bound(session, body)?,
        false => body.clone(),
    };
    let place = create::target(session, &declared.name, false)?;
    let arguments: Vec<String> = declared
        .arguments
        .iter()
        .map(|own| argument_type(&own.sql_type))
        .collect();
    let key = ObjectKey::Function {
        schema: place.schema.clone(),
        name: place.name.clone(),
        arguments: arguments.clone(),
    };
    let (binder, transaction) = (session.binder(), session.transaction()?);
    let mut transaction = transaction.lock();
    let before = transaction.state().objects().get(&key).cloned();
    if before.is_some() && !declared.or_replace {
        let message = format!("function \"{}\" already exists with same argument types", place.name);
        return Err(SqlError::new(state::DUPLICATE_FUNCTION, message));
    }
    let before = match before {
        Some(Object::Function(before)) => Some(before),
        _ => None,
    };
    if let Some(before) = &before {
        binder.rights().check_owner_of(before.oid, "function", &place.name)?;
    }
    let oid = before
        .as_ref()
        .map_or_else(|| transaction.new_oid(), |before| before.oid);
    let in_full = |declared: &str| in_full(&binder, declared);
    let function = Function {
        oid,
        schema_name: place.schema,
        name: place.name,
        arguments: declared
            .arguments
            .iter()
            .map(|own| FunctionArgument {
                sql_type: in_full(&own.sql_type),
                ..own.clone()
            })
            .collect(),
        returns: match &returns {
            FunctionResult::Scalar(of) => FunctionResult::Scalar(in_full(of)),
            FunctionResult::Set(of) => FunctionResult::Set(in_full(of)),
            FunctionResult::Table(columns) => {
                let columns = columns.iter().map(|(name, of)| (name.clone(), in_full(of)));
                FunctionResult::Table(columns.collect())
            }
        },
        language,
        body,
        strict: declared.options.strict.unwrap_or_default(),
        volatility: declared.options.volatility.unwrap_or('v'),
        parameters: match declared.parameters.iter().all(|own| own.mode == 'i') {
            true => Vec::new(),
            false => declared
                .parameters
                .iter()
                .map(|own| FunctionParameter {
                    sql_type: in_full(&own.sql_type),
                    ..own.clone()
                })
                .collect(),
        },
        options,
    };
    if let Some(before) = before {
        check_replacement(&before, &function, &text_dependents::function_of(&key))?;
    }
    let function = Arc::new(function);
    transaction.put_object(key, Some(Object::Function(function.clone())));
    drop(transaction);
    let is_open = |own: &FunctionArgument| own.sql_type.starts_with("any");
    if function.options.bound && !function.arguments.iter().any(is_open) {
        match session.binder().calls_of_function(&function) {
            // A call in a select list is not all that may be.
            Err(error) if error.state != state::FEATURE_NOT_SUPPORTED => return Err(error),
            _ => {}
        }
    }
    Ok(Outcome::Command("CREATE FUNCTION".into()))
}

/// What others know of a function must not change where it gets another body. `what`: how DROP speaks of it.
fn check_replacement(before: &Function, next: &Function, what: &str) -> Result<()> {
    let refused = |message: String| {
        let hint = format!("Use DROP {} first.", what.replacen("function", "FUNCTION", 1));
        SqlError::new(state::INVALID_FUNCTION_DEFINITION, message).hint(hint)
    };
    let returns = |of: &FunctionResult| match of {
        FunctionResult::Scalar(of) | FunctionResult::Set(of) => argument_type(of),
        FunctionResult::Table(columns) => match columns.as_slice() {
            [(_, only)] => argument_type(only),
            _ => "record".to_string(),
        },
    };
    let is_set = |of: &Function| match of.returns {
        FunctionResult::Scalar(_) => false,
        FunctionResult::Set(_) => true,
        FunctionResult::Table(_) => !of.options.one_row,
    };
    let message = "cannot change return type of existing function";
    if returns(&before.returns) != returns(&next.returns) || is_set(before) != is_set(next) {
        return Err(refused(message.into()));
    }
    let columns = |of: &Function| match &of.returns {
        FunctionResult::Table(columns) if columns.len() > 1 => {
            let columns = columns.iter().map(|(name, of)| (name.clone(), argument_type(of)));
            Some(columns.collect::<Vec<_>>())
        }
        _ => None,
    };
    if columns(before) != columns(next) {
        return Err(refused(message.into()).detail("Row type defined by OUT parameters is different."));
    }
    for (own, other) in before.arguments.iter().zip(&next.arguments) {
        if let Some(name) = own.name.as_ref().filter(|name| other.name.as_ref() != Some(*name)) {
            return Err(refused(format!("cannot change name of input parameter \"{name}\"")));
        }
        if own.default.is_some() && other.default.is_none() {
            return Err(refused(
                "cannot remove parameter defaults from existing function".into(),
            ));
        }
    }
    Ok(())
}

/// A type as it is found whatever the search path is.
fn in_full(binder: &Binder, declared: &str) -> String {
    match parsed_type(declared) {
        Ok(of @ (DataType::Custom(..) | DataType::Array(_))) => binder.declared_in_full(&of),
        _ => declared.to_string(),
    }
}

/// All types must be known.
fn check_types(session: &Session, declared: &CreateFunction, returns: &FunctionResult) -> Result<()> {
    let binder = session.binder();
    let check = |name: &str| -> Result<()> {
        let known = ["void", "record", "trigger"].contains(&name) || name.starts_with("any");
        if known || binder.names().textual(name).is_ok() {
            return Ok(());
        }
        match parse_expression(&format!("NULL::{name}"))? {
            Expr::Cast { data_type, .. } => {
                binder.check_usage_of(&data_type)?;
                binder.field_of_type(&data_type).map(|_| ())
            }
            _ => Err(SqlError::new(
                state::UNDEFINED_OBJECT,
                format!("type \"{name}\" does not exist"),
            )),
        }
    };
    for argument in &declared.arguments {
        check(&argument.sql_type)?;
    }
    match returns {
        FunctionResult::Scalar(name) | FunctionResult::Set(name) => check(name),
        FunctionResult::Table(columns) => columns.iter().try_for_each(|(_, name)| check(name)),
    }
}

/// The body must be one query.
fn check_body(body: &str, returns: &FunctionResult) -> Result<()> {
    let statements = parse(body)?;
    match statements.as_slice() {
        [only] => match &only.kind {
            Kind::Sql(tree) if matches!(tree.as_ref(), Statement::Query(_)) => Ok(()),
            _ => Err(SqlError::unsupported("a function in SQL that changes data")),
        },
        [] if matches!(returns, FunctionResult::Scalar(name) if name == "void") => {
            Err(SqlError::unsupported("a function in SQL without a query"))
        }
        [] => {
            let message = "return type mismatch in function declared to return a value";
            Err(SqlError::new(state::INVALID_FUNCTION_DEFINITION, message)
                .detail("Function's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING."))
        }
        _ => Err(SqlError::unsupported("a function in SQL with several statements")),
    }
}

/// Where a function of that name may stand.
fn schemas_of(session: &Session, name: &ObjectName) -> Result<Vec<String>> {
    let (binder, mut parts) = (session.binder(), parts(name));
    parts.pop();
    let Some(schema) = parts.pop() else {
        return Ok(binder.facts.path.to_vec());
    };
    binder.check_schema_of(name)?;
    Ok(binder
        .names()
        .temporary(Some(&schema))
        .into_iter()
        .map(str::to_string)
        .collect())
}

/// A function as something that has an owner.
pub(super) fn thing(key: &ObjectKey, object: &Object) -> Option<Thing> {
    let ObjectKey::Function {
        schema,
        name,
        arguments,
    } = key
    else {
        return None;
    };
    let (oid, kind) = object.secured()?;
    Some(Thing {
        kind,
        oid,
        schema: Some(schema.clone()),
        name: format!("{name}({})", arguments.join(", ")),
        word: "function",
    })
}

/// The one function of a name, of any arguments where none are given.
pub(super) fn named(session: &Session, name: &ObjectName, arguments: Option<&[String]>) -> Result<Thing> {
    let mut given = parts(name);
    let written = given.join(".");
    let last = given.pop().unwrap_or_default();
    let schemas = schemas_of(session, name)?;
    let arguments = arguments.map(|types| types.iter().map(|own| argument_type(own)).collect::<Vec<_>>());
    let state_now = session.state();
    let mut found = overloads(&state_now, schemas, &last, arguments.clone());
    match (found.next(), found.next()) {
        (Some((key, object)), None) => thing(key, object).ok_or_else(|| SqlError::internal("a function is none")),
        (Some(_), Some(_)) => {
            let message = format!("function name \"{last}\" is not unique");
            Err(SqlError::new(SqlState("42725"), message)
                .hint("Specify the argument list to select the function unambiguously."))
        }
        (None, _) => {
            let message = match &arguments {
                Some(arguments) => undefined_function(&written, arguments).message,
                None => format!("could not find a function named \"{written}\""),
            };
            Err(SqlError::new(state::UNDEFINED_FUNCTION, message))
        }
    }
}

/// A function and, with `cascade`, what calls it.
pub(super) fn drop_one(session: &mut Session, key: &ObjectKey, cascade: bool) -> Result<()> {
    let object = session.state().objects().get(key).cloned();
    if let Some(Object::Function(of)) = object {
        let what = text_dependents::function_of(key);
        text_dependents::release(session, &Dropped::Function(&of), &what, cascade)?;
    }
    session.transaction()?.lock().put_object(key.clone(), None);
    Ok(())
}

/// A function of an extension goes with it alone.
fn check_not_of_extension(state_now: &DatabaseState, key: &ObjectKey) -> Result<()> {
    if let Some(Object::Function(own)) = state_now.objects().get(key)
        && let Some(name) = &own.options.extension
    {
        let function = text_dependents::function_of(key);
        let message = format!("cannot drop {function} because extension {name} requires it");
        return Err(SqlError::new(state::DEPENDENT_OBJECTS_STILL_EXIST, message)
            .hint(format!("You can drop extension {name} instead.")));
    }
    Ok(())
}

pub(super) fn drop_all(
    session: &mut Session,
    names: &[(ObjectName, Option<Vec<String>>)],
    if_exists: bool,
    cascade: bool,
) -> Result<Outcome> {
    session.check_writable("DROP FUNCTION")?;
    for (name, arguments) in names {
        let mut given = parts(name);
        let last = given.pop().unwrap_or_default();
        let schemas = schemas_of(session, name)?;
        let arguments = arguments
            .as_ref()
            .map(|types| types.iter().map(|own| argument_type(own)).collect::<Vec<_>>());
        let state_now = session.state();
        let found = overloads(&state_now, schemas, &last, arguments.clone());
        let found: Vec<ObjectKey> = found.map(|(key, _)| key.clone()).collect();
        match found.as_slice() {
            [only] => {
                if let Some(thing) = state_now.objects().get(only).and_then(|object| thing(only, object)) {
                    // Errors name it as the statement does.
                    rights(session, &state_now).check_owner_of(thing.oid, thing.word, &parts(name).join("."))?;
                }
                check_not_of_extension(&state_now, only)?;
                drop_one(session, only, cascade)?;
            }
            [] => {
                let message = match &arguments {
                    Some(arguments) => undefined_function(&last, arguments).message,
                    None => format!("could not find a function named \"{last}\""),
                };
                if !if_exists {
                    return Err(SqlError::new(state::UNDEFINED_FUNCTION, message));
                }
                let shown = arguments.map_or(last.clone(), |arguments| format!("{last}({})", arguments.join(",")));
                session.notice(format!("function {shown} does not exist, skipping"));
            }
            _ => {
                let message = format!("function name \"{last}\" is not unique");
                return Err(SqlError::new(SqlState("42725"), message)
                    .hint("Specify the argument list to select the function unambiguously."));
            }
        }
    }
    Ok(Outcome::Command("DROP FUNCTION".into()))
}
