//! DO: the block is run inside the statement's transaction.

use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::outcome::Outcome;
use crate::pg::parse::parse;
use crate::pg::plpgsql::{self, Block, Raise, Step, StepKind, named_state};
use crate::pg::statement::{Kind, Statement};
use crate::session::notices::Notice;
use crate::session::{Prepared, Session};
use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::record_batch::RecordBatch;
use futures::TryStreamExt;
use std::future::Future;
use std::pin::Pin;

/// Whether what follows is left out: RETURN.
type Ended = bool;

pub(super) async fn run(session: &mut Session, language: &str, body: &str) -> Result<Outcome> {
    match language {
        "plpgsql" => {}
        "sql" | "c" | "internal" => {
            let message = format!("language \"{language}\" does not support inline code execution");
            return Err(SqlError::unsupported_as(message));
        }
        other => {
            let message = format!("language \"{other}\" does not exist");
            return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
        }
    }
    let parsed = plpgsql::parse(body)?;
    block(session, &parsed, None).await?;
    Ok(Outcome::Command("DO".into()))
}

type Running<'a> = Pin<Box<dyn Future<Output = Result<Ended>> + Send + 'a>>;

/// `handled`: the error that a handler around it has caught.
fn block<'a>(session: &'a mut Session, of: &'a Block, handled: Option<&'a SqlError>) -> Running<'a> {
    Box::pin(async move {
        if of.handlers.is_empty() {
            return steps(session, &of.steps, handled).await;
        }
        let transaction = session.transaction()?;
        let before = transaction.lock().clone();
        let (settings, pending) = (session.settings.clone(), session.listening.pending.len());
        let error = match steps(session, &of.steps, handled).await {
            Ok(ended) => return Ok(ended),
            Err(error) => error,
        };
        let covers = |handler: &&plpgsql::Handler| handler.conditions.iter().any(|own| own.covers(error.state));
        let Some(handler) = of.handlers.iter().find(covers) else {
            return Err(error);
        };
        *transaction.lock() = before;
        session.settings = settings;
        session.listening.pending.truncate(pending);
        steps(session, &handler.steps, Some(&error)).await
    })
}

fn steps<'a>(session: &'a mut Session, all: &'a [Step], handled: Option<&'a SqlError>) -> Running<'a> {
    Box::pin(async move {
        for step in all {
            if one(session, step, handled).await? {
                return Ok(true);
            }
        }
        Ok(false)
    })
}

async fn one(session: &mut Session, step: &Step, handled: Option<&SqlError>) -> Result<Ended> {
    let place = |what: &str| format!("PL/pgSQL function inline_code_block line {} at {what}", step.line);
    match &step.kind {
        StepKind::Null => {}
        StepKind::Return => return Ok(true),
        StepKind::Block(inner) => return block(session, inner, handled).await,
        StepKind::If(branches, otherwise) => {
            for (condition, inner) in branches {
                let holds = truth(session, condition).await;
                if holds.map_err(|error| within(error, condition, place("IF")))? {
                    return steps(session, inner, handled).await;
                }
            }
            return steps(session, otherwise, handled).await;
        }
        StepKind::Raise(raise) => {
            let raised = raised(session, raise, handled, place("RAISE")).await?;
            match raise.level {
                None | Some("EXCEPTION") => return Err(raised),
                Some(severity) => session.tell(Notice {
                    severity,
                    report: raised,
                }),
            }
        }
        StepKind::Perform(query) => {
            let text = format!("SELECT {query}");
            let done = statement(session, &text, true).await;
            done.map_err(|error| within(error, &text, place("PERFORM")))?;
        }
        StepKind::Execute(expression) => {
            let text = value(session, expression).await;
            let text = text.map_err(|error| within(error, expression, place("EXECUTE")))?;
            let Some(text) = text else {
                let message = "query string argument of EXECUTE is null";
                return Err(within(
                    SqlError::new(state::NULL_VALUE_NOT_ALLOWED, message),
                    "",
                    place("EXECUTE"),
                ));
            };
            let done = statement(session, &text, true).await;
            done.map_err(|error| within(error, &text, place("EXECUTE")))?;
        }
        StepKind::Sql(text) => {
            let done = statement(session, text, false).await;
            done.map_err(|error| within(error, text, place("SQL statement")))?;
        }
    }
    Ok(false)
}

/// An error of a statement within the block: where that stands.
fn within(mut error: SqlError, text: &str, place: String) -> SqlError {
    error.position = None;
    let own = error.context.take().map(|own| format!("{own}\n")).unwrap_or_default();
    let text = match text {
        "" => String::new(),
        text => format!("SQL statement \"{text}\"\n"),
    };
    error.context = Some(format!("{own}{text}{place}").into());
    error
}

/// Runs the statements of a text; gives the first rows of the last one, and drops the others. `drops_rows`: those of a query may
/// be dropped.
async fn statement(session: &mut Session, text: &str, drops_rows: bool) -> Result<Option<RecordBatch>> {
    let mut first = None;
    for statement in parse(text)? {
        check(&statement)?;
        let prepared = Prepared::without_parameters(statement);
        let outcome = Box::pin(super::run(session, &prepared, &[])).await?;
        first = None;
        match outcome {
            Outcome::Rows { mut stream, .. } => {
                while let Some(batch) = stream.try_next().await? {
                    first = first.or(Some(batch).filter(|batch| batch.num_rows() > 0));
                }
            }
            Outcome::Command(_) | Outcome::Empty => {}
            Outcome::CopyIn(_) | Outcome::CopyOut(_) => {
                let message = "cannot COPY to/from client in PL/pgSQL";
                return Err(SqlError::unsupported_as(message));
            }
        }
        super::references::at_statement_end(session).await?;
        let is_query = matches!(&prepared.statement.kind, Kind::Sql(tree) if super::is_plain_query(tree));
        if is_query && !drops_rows {
            let message = "query has no destination for result data";
            let hint = "If you want to discard the results of a SELECT, use PERFORM instead.";
            return Err(SqlError::new(state::SYNTAX_ERROR, message).hint(hint));
        }
    }
    Ok(first)
}

/// What takes no part in a transaction is not run within a statement.
fn check(statement: &Statement) -> Result<()> {
    match &statement.kind {
        Kind::Utility(_) => {
            let words = statement.sql().split_whitespace().next().unwrap_or_default();
            let message = format!("{} in a DO block", words.to_uppercase());
            Err(SqlError::unsupported(message))
        }
        _ => Ok(()),
    }
}

/// The only value of an expression, as text.
async fn value(session: &mut Session, expression: &str) -> Result<Option<String>> {
    let Some(batch) = statement(session, &format!("SELECT ({expression})::text"), true).await? else {
        return Ok(None);
    };
    let texts = cast(batch.column(0), &DataType::Utf8View).map_err(|error| crate::pg::errors::from_arrow(&error))?;
    let texts = texts.as_string_view();
    Ok(texts.is_valid(0).then(|| texts.value(0).to_string()))
}

async fn truth(session: &mut Session, condition: &str) -> Result<bool> {
    let text = value(session, &format!("({condition})::boolean")).await?;
    Ok(text.as_deref() == Some("true"))
}

/// What RAISE reports.
async fn raised(session: &mut Session, raise: &Raise, handled: Option<&SqlError>, place: String) -> Result<SqlError> {
    if raise.level.is_none() {
        return handled.cloned().ok_or_else(|| {
            let message = "RAISE without parameters cannot be used outside an exception handler";
            within(SqlError::new(SqlState("0Z002"), message), "", place)
        });
    }
    let is_error = raise.level == Some("EXCEPTION");
    let mut report = SqlError::new(
        SqlState(match raise.level {
            Some("EXCEPTION") => "P0001",
            Some("WARNING") => "01000",
            _ => "00000",
        }),
        "",
    );
    let mut message = raise.condition.as_ref().map(|(name, _)| name.clone());
    if let Some((_, of)) = &raise.condition {
        report.state = *of;
    }
    if let Some(format) = &raise.format {
        let mut values = Vec::with_capacity(raise.arguments.len());
        for argument in &raise.arguments {
            let own = value(session, argument).await;
            values.push(own.map_err(|error| within(error, argument, place.clone()))?);
        }
        message = Some(Raise::formatted(format, &values));
    }
    let mut subject = tenon_storage::Subject::default();
    for (at, (option, expression)) in raise.options.iter().enumerate() {
        let again = raise.options[..at].iter().any(|(own, _)| own == option);
        if again
            || (option == "message" && raise.format.is_some())
            || (option == "errcode" && raise.condition.is_some())
        {
            let message = format!("RAISE option already specified: {}", option.to_uppercase());
            return Err(within(SqlError::new(state::SYNTAX_ERROR, message), "", place));
        }
        let own = value(session, expression).await;
        let own = own.map_err(|error| within(error, expression, place.clone()))?;
        let Some(own) = own else {
            let message = "RAISE statement option cannot be null";
            return Err(within(SqlError::new(state::NULL_VALUE_NOT_ALLOWED, message), "", place));
        };
        match option.as_str() {
            "message" => message = Some(own),
            "detail" => report.detail = Some(own),
            "hint" => report.hint = Some(own.into()),
            "errcode" => {
                report.state = named_state(&own).map_err(|error| within(error, "", place.clone()))?;
                message.get_or_insert(own);
            }
            "column" => subject.column = Some(own),
            "constraint" => subject.constraint = Some(own),
            "datatype" => subject.data_type = Some(own),
            "table" => subject.table = Some(own),
            _ => subject.schema = own,
        }
    }
    if subject != tenon_storage::Subject::default() {
        report = report.about(subject);
    }
    report.message = message.unwrap_or_else(|| match is_error {
        true => "P0001".into(),
        false => report.state.0.into(),
    });
    report.context = Some(place.into());
    Ok(report)
}
