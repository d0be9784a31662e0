//! SET, SHOW, RESET, DISCARD.

use super::{Description, role, text_rows};
use crate::catalog::bind::fold;
use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::functions::notify::Action;
use crate::pg::outcome::{Outcome, RowsTag};
use crate::pg::settings::unrecognized;
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{
    ContextModifier, Expr, Ident, ObjectName, Reset, Set, SetAssignment, SetSessionAuthorizationParamKind,
    TransactionIsolationLevel, TransactionMode, Value,
};

pub(super) fn set(session: &mut Session, set: &Set) -> Result<Outcome> {
    match set {
        Set::SingleAssignment {
            scope,
            variable,
            values,
            ..
        } => {
            assign(session, scope.as_ref(), &name_of(variable), values)?;
        }
        Set::ParenthesizedAssignments { variables, values } => {
            for (variable, value) in variables.iter().zip(values) {
                assign(session, None, &name_of(variable), std::slice::from_ref(value))?;
            }
        }
        Set::MultipleAssignments { assignments } => {
            for SetAssignment { scope, name, value } in assignments {
                assign(session, scope.as_ref(), &name_of(name), std::slice::from_ref(value))?;
            }
        }
        Set::SetTimeZone { local, value } => {
            let scope = local.then_some(ContextModifier::Local);
            assign(session, scope.as_ref(), "TimeZone", std::slice::from_ref(value))?;
        }
        Set::SetNames { charset_name, .. } => {
            session.assign("client_encoding", &charset_name.value, false)?;
        }
        Set::SetNamesDefault {} => session.reset("client_encoding")?,
        Set::SetTransaction {
            modes,
            session: whole_session,
            snapshot,
        } => {
            if *whole_session {
                for mode in modes {
                    let text = mode.to_string().to_lowercase();
                    match text.strip_prefix("isolation level ") {
                        Some(level) => session.assign("default_transaction_isolation", level, false)?,
                        None => {
                            let value = if text == "read only" { "on" } else { "off" };
                            session.assign("default_transaction_read_only", value, false)?
                        }
                    };
                }
            } else if session.block().is_none_or(|block| block.implicit) {
                session.warn(
                    SqlState("25P01"),
                    "SET TRANSACTION can only be used in transaction blocks",
                );
            } else {
                for mode in modes {
                    session.transaction_mode(mode)?;
                }
                if let Some(Value::SingleQuotedString(name)) = snapshot.as_ref().map(|own| &own.value) {
                    session.import_snapshot(name)?;
                }
            }
        }
        Set::SetRole {
            context_modifier,
            role_name,
        } => {
            let local = matches!(context_modifier, Some(ContextModifier::Local));
            let name = role_name.as_ref().map(fold);
            role::act_as(session, name.as_deref(), false, local)?;
        }
        Set::SetSessionAuthorization(to) => {
            let name = match &to.kind {
                SetSessionAuthorizationParamKind::Default => None,
                SetSessionAuthorizationParamKind::User(name) => Some(fold(name)),
            };
            role::act_as(session, name.as_deref(), true, to.scope == ContextModifier::Local)?;
        }
        Set::SetSessionParam(_) => return Err(SqlError::unsupported("this SET")),
    }
    Ok(Outcome::Command("SET".into()))
}

pub(super) fn name_of(name: &ObjectName) -> String {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(fold).collect();
    parts.join(".")
}

fn assign(session: &mut Session, scope: Option<&ContextModifier>, name: &str, values: &[Expr]) -> Result<()> {
    let local = matches!(scope, Some(ContextModifier::Local));
    let name = if name.eq_ignore_ascii_case("time zone") {
        "TimeZone"
    } else {
        name
    };
    let list = name.eq_ignore_ascii_case("search_path");
    let words: Vec<String> = values.iter().map(|value| word(value, list)).collect();
    if let (Some(of_session), [given]) = (acts(name), words.as_slice()) {
        let is_default = given.eq_ignore_ascii_case("default") && matches!(values[0], Expr::Identifier(_));
        let none = is_default || (!of_session && given == "none");
        return role::act_as(session, Some(given.as_str()).filter(|_| !none), of_session, local);
    }
    if let ("transaction_isolation", [level], Some(false)) = (
        name.to_lowercase().as_str(),
        words.as_slice(),
        session.block().map(|block| block.implicit),
    ) && let Some(level) = isolation(level)
    {
        return session.transaction_mode(&TransactionMode::IsolationLevel(level));
    }
    if let [only] = words.as_slice()
        && only.eq_ignore_ascii_case("default")
        && matches!(values[0], Expr::Identifier(_))
    {
        return session.reset(name);
    }
    if !session.assign(name, &words.join(", "), local)? {
        session.warn(
            SqlState("01000"),
            format!("unrecognized configuration parameter \"{name}\" is kept without effect"),
        );
    }
    Ok(())
}

fn isolation(level: &str) -> Option<TransactionIsolationLevel> {
    Some(match level.to_lowercase().as_str() {
        "read uncommitted" => TransactionIsolationLevel::ReadUncommitted,
        "read committed" => TransactionIsolationLevel::ReadCommitted,
        "repeatable read" => TransactionIsolationLevel::RepeatableRead,
        "serializable" => TransactionIsolationLevel::Serializable,
        _ => return None,
    })
}

/// The name of a setting and its value as a SET gives it; None: DEFAULT.
pub(super) fn said(set: &Set) -> Result<(String, Option<String>)> {
    Ok(match set {
        Set::SingleAssignment { variable, values, .. } => {
            let name = name_of(variable);
            if values.len() > 1 && !["search_path", "datestyle"].contains(&name.to_lowercase().as_str()) {
                let message = format!("SET {name} takes only one argument");
                return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
            }
            given(&name, values)
        }
        Set::SetTimeZone { value, .. } => given("TimeZone", std::slice::from_ref(value)),
        Set::SetNames { charset_name, .. } => ("client_encoding".into(), Some(charset_name.value.clone())),
        Set::SetNamesDefault {} => ("client_encoding".into(), None),
        Set::SetRole { role_name, .. } => {
            let name = role_name.as_ref().map_or_else(|| "none".into(), fold);
            ("role".into(), Some(name))
        }
        _ => return Err(SqlError::unsupported("this SET")),
    })
}

fn given(name: &str, values: &[Expr]) -> (String, Option<String>) {
    let name = if name.eq_ignore_ascii_case("time zone") {
        "TimeZone"
    } else {
        name
    };
    if let [Expr::Identifier(only)] = values
        && only.quote_style.is_none()
        && only.value.eq_ignore_ascii_case("default")
    {
        return (name.into(), None);
    }
    let list = name.eq_ignore_ascii_case("search_path");
    let shown = |value: &Expr| match value {
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => value.to_string(),
        other => word(other, list),
    };
    let words: Vec<String> = values.iter().map(shown).collect();
    (name.into(), Some(words.join(", ")))
}

/// Whether a setting is the role that a session acts as, or (true) that of the whole session.
fn acts(name: &str) -> Option<bool> {
    match name.to_lowercase().as_str() {
        "role" => Some(false),
        "session_authorization" => Some(true),
        _ => None,
    }
}

/// A value's text. In a list of names, a string is one name, and keeps its case.
fn word(value: &Expr, list: bool) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => {
                let plain = text
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
                if list && !plain && !text.contains(',') {
                    format!("\"{text}\"")
                } else {
                    text.clone()
                }
            }
            Value::Boolean(flag) => if *flag { "on" } else { "off" }.to_string(),
            other => other.to_string(),
        },
        Expr::Identifier(ident) if ident.quote_style.is_some() && list => format!("\"{}\"", ident.value),
        Expr::Identifier(ident) => fold(ident),
        other => other.to_string(),
    }
}

fn shown_name(variable: &[Ident]) -> String {
    let words: Vec<String> = variable.iter().map(|ident| ident.value.clone()).collect();
    match words.join(" ").to_lowercase().as_str() {
        "transaction isolation level" => "transaction_isolation".into(),
        "session authorization" => "session_authorization".into(),
        "time zone" => "TimeZone".into(),
        _ => words.join("."),
    }
}

pub(super) fn describe_show(_: &Session, variable: &[Ident]) -> Description {
    let name = shown_name(variable);
    let columns = if name.eq_ignore_ascii_case("all") {
        text_rows::columns(&["name", "setting", "description"])
    } else {
        text_rows::columns(&[&crate::pg::settings::canonical(&name)])
    };
    Description {
        columns: Some(columns),
        ..Description::default()
    }
}

pub(super) fn show(session: &Session, variable: &[Ident]) -> Result<Outcome> {
    let name = shown_name(variable);
    if name.eq_ignore_ascii_case("all") {
        let rows = session
            .settings
            .all(session.startup())
            .into_iter()
            .map(|of| vec![of.name.into(), of.value, of.about.into()])
            .collect();
        return Ok(text_rows::outcome(
            &["name", "setting", "description"],
            rows,
            RowsTag::Plain("SHOW"),
        ));
    }
    let value = match name.as_str() {
        "transaction_isolation" if session.block().is_none() => session.settings.get("default_transaction_isolation"),
        "transaction_read_only" if session.block().is_none() => session.settings.get("default_transaction_read_only"),
        _ => session.settings.get(&name),
    };
    let value = value.ok_or_else(|| unrecognized(&name))?;
    let shown = crate::pg::settings::canonical(&name);
    Ok(text_rows::outcome(&[&shown], vec![vec![value]], RowsTag::Plain("SHOW")))
}

pub(super) fn reset(session: &mut Session, reset: &Reset) -> Result<Outcome> {
    match reset {
        Reset::ALL => session.settings = session.startup().clone(),
        Reset::ConfigurationParameter(name) => match acts(&name_of(name)) {
            Some(true) => role::act_as(session, None, true, false)?,
            _ => session.reset(&name_of(name))?,
        },
    }
    Ok(Outcome::Command("RESET".into()))
}

/// DISCARD ALL, PLANS, SEQUENCES or TEMP.
pub(super) fn discard(session: &mut Session, sql: &str) -> Result<Outcome> {
    let what = sql.split_whitespace().nth(1).unwrap_or_default().to_uppercase();
    let temporary = session.temporary_schema();
    let drop_temporary = |session: &mut Session| -> Result<()> {
        let transaction = session.transaction()?;
        let mut transaction = transaction.lock();
        if session.has_temporary && transaction.state().schema(&temporary).is_some() {
            transaction.drop_schema(&temporary, true)?;
        }
        session.has_temporary = false;
        Ok(())
    };
    match what.as_str() {
        "ALL" => {
            if session.block().is_some_and(|block| !block.implicit) {
                let message = "DISCARD ALL cannot run inside a transaction block";
                return Err(SqlError::new(crate::pg::error::state::ACTIVE_SQL_TRANSACTION, message));
            }
            session.forget_statements();
            session.cursors.clear();
            session.taken.lock().forget();
            session.settings = session.startup().clone();
            session.listening.pending.push(Action::UnlistenAll)?;
            session.advisory.unlock_all();
            drop_temporary(session)?;
        }
        "TEMP" | "TEMPORARY" => drop_temporary(session)?,
        "PLANS" => {}
        "SEQUENCES" => session.taken.lock().forget(),
        _ => {
            return Err(SqlError::new(
                crate::pg::error::state::SYNTAX_ERROR,
                format!("syntax error at or near \"{what}\""),
            ));
        }
    }
    Ok(Outcome::Command(format!("DISCARD {what}")))
}
