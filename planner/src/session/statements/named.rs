//! PREPARE, EXECUTE and DEALLOCATE as SQL.

use super::Description;
use crate::catalog::bind::fold;
use crate::catalog::system::{names_reader, rewrite_value};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::{from_arrow, from_datafusion};
use crate::pg::outcome::Outcome;
use crate::pg::rewrite::{call, rewrite};
use crate::pg::statement::{Kind, Statement};
use crate::pg::types::type_oid;
use crate::session::run;
use crate::session::{Prepared, Session};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{ExprSchemable, LogicalPlanBuilder};
use datafusion::prelude::Expr;
use datafusion::sql::sqlparser::ast::{self, Ident, ObjectName};
use futures::StreamExt;
use std::sync::Arc;
use tenon_storage::parse::parse_array;

pub(super) fn prepare(
    session: &mut Session,
    outer: &Statement,
    name: &Ident,
    types: &[ast::DataType],
    inner: &ast::Statement,
) -> Result<Outcome> {
    let name = fold(name);
    let binder = session.binder();
    let types = types
        .iter()
        .map(|declared| match type_oid(&binder.field_of_type(declared)?) {
            Some(oid) => Ok(oid),
            None => Ok(binder.sql_type(declared)?.oid()),
        })
        .collect::<Result<Vec<_>>>()?;
    let statement = outer.with_kind(Kind::Sql(Box::new(inner.clone())));
    let prepared = described(session, statement, &types)?;
    if session.has_statement(&name) {
        let message = format!("prepared statement \"{name}\" already exists");
        return Err(SqlError::new(state::DUPLICATE_PREPARED_STATEMENT, message));
    }
    session.named.insert(name, Arc::new(prepared));
    Ok(Outcome::Command("PREPARE".into()))
}

fn described(session: &mut Session, statement: Statement, types: &[u32]) -> Result<Prepared> {
    let Description { params, columns, .. } = super::describe(session, &statement, types)?;
    Ok(Prepared {
        meaning: session.state().meaning(),
        ..Prepared::of(statement, params, columns)
    })
}

fn find(session: &Session, name: &str) -> Result<Arc<Prepared>> {
    let by_protocol = || session.prepared.get(name).filter(|_| !name.is_empty());
    let found = session.named.get(name).or_else(by_protocol);
    found.cloned().ok_or_else(|| {
        SqlError::new(
            state::INVALID_SQL_STATEMENT_NAME,
            format!("prepared statement \"{name}\" does not exist"),
        )
    })
}

/// The same with its types as they are now: ALTER TYPE may have changed them.
fn current(session: &mut Session, name: Option<&ObjectName>) -> Result<Arc<Prepared>> {
    let name = name.map(super::last).unwrap_or_default();
    let prepared = find(session, &name)?;
    if !prepared.has_own_types() || prepared.meaning == session.state().meaning() {
        return Ok(prepared);
    }
    let types: Vec<u32> = prepared.params.iter().map(|parameter| parameter.oid).collect();
    let mut again = described(session, prepared.statement.clone(), &types)?;
    prepared.check_columns(&again)?;
    again.prepared_us = prepared.prepared_us;
    let again = Arc::new(again);
    let kept = [&mut session.named, &mut session.prepared];
    let kept = kept.into_iter().find_map(|statements| statements.get_mut(&name));
    kept.into_iter().for_each(|kept| *kept = again.clone());
    Ok(again)
}

pub(super) fn describe(session: &mut Session, name: Option<&ObjectName>) -> Result<Description> {
    Ok(Description {
        columns: current(session, name)?.columns.clone(),
        ..Description::default()
    })
}

pub(super) async fn execute(
    session: &mut Session,
    name: Option<&ObjectName>,
    arguments: &[ast::Expr],
) -> Result<Outcome> {
    let (prepared, values) = bound(session, name, arguments).await?;
    Box::pin(super::run(session, &prepared, &values)).await
}

/// A named statement ready to run, and the values of its parameters.
pub(super) async fn bound(
    session: &mut Session,
    name: Option<&ObjectName>,
    arguments: &[ast::Expr],
) -> Result<(Arc<Prepared>, Vec<ScalarValue>)> {
    let mut prepared = current(session, name)?;
    let params = &prepared.param_fields;
    if params.len() != arguments.len() {
        let message = "wrong number of parameters for prepared statement";
        return Err(SqlError::new(state::SYNTAX_ERROR, message).detail(format!(
            "Expected {} parameters but got {}.",
            params.len(),
            arguments.len()
        )));
    }
    if let Some(dimensions) = other_dimensions(session, params, arguments) {
        prepared = Arc::new(for_dimensions(session, &prepared, dimensions)?);
    }
    let params = &prepared.param_fields;
    let mut values = Vec::with_capacity(arguments.len());
    for ((argument, field), told) in arguments.iter().zip(params).zip(&prepared.params) {
        let mut argument = argument.clone();
        rewrite_value(&mut argument);
        if let Some(reader) = names_reader(told.oid) {
            argument = call(&reader, vec![argument]);
        }
        values.push(evaluate(session, argument, field).await?);
    }
    Ok((prepared, values))
}

/// How many dimensions the arrays have that parameters are given, where that is not what was planned.
fn other_dimensions(session: &Session, params: &[FieldRef], arguments: &[ast::Expr]) -> Option<Vec<usize>> {
    let mut any = false;
    let given = params.iter().zip(arguments).map(|(field, argument)| {
        let planned = dimensions_of(field.data_type());
        let given = match planned {
            0 => 0,
            _ => dimensions_given(session, argument).unwrap_or(0),
        };
        // An empty array has none, and is of any. What is malformed is found where it is read.
        let given = if (1..=6).contains(&given) { given } else { planned };
        any |= given != planned;
        given
    });
    let given: Vec<usize> = given.collect();
    any.then_some(given)
}

fn dimensions_given(session: &Session, argument: &ast::Expr) -> Option<usize> {
    if let ast::Expr::Value(value) = argument {
        let ast::Value::SingleQuotedString(text) = &value.value else {
            return None;
        };
        return Some(parse_array(text).ok()?.sizes.len());
    }
    let mut tree = argument.clone();
    rewrite_value(&mut tree);
    rewrite(&mut tree);
    let expr = session.binder().expression(tree, &DFSchema::empty()).ok()?;
    Some(dimensions_of(&expr.get_type(&DFSchema::empty()).ok()?))
}

fn dimensions_of(data_type: &DataType) -> usize {
    match data_type {
        DataType::List(item) => 1 + dimensions_of(item.data_type()),
        _ => 0,
    }
}

/// The same statement for arrays of other numbers of dimensions.
fn for_dimensions(session: &mut Session, prepared: &Prepared, dimensions: Vec<usize>) -> Result<Prepared> {
    let types: Vec<u32> = prepared.params.iter().map(|parameter| parameter.oid).collect();
    session.dimensions = dimensions.into();
    let again = described(session, prepared.statement.clone(), &types);
    session.dimensions = Arc::default();
    let again = again?;
    prepared.check_columns(&again)?;
    Ok(again)
}

/// The value of an expression over nothing.
async fn evaluate(
    session: &Session,
    mut tree: ast::Expr,
    field: &Arc<datafusion::arrow::datatypes::Field>,
) -> Result<ScalarValue> {
    rewrite(&mut tree);
    let expr = session.binder().expression(tree, &DFSchema::empty())?;
    if let Some(value) = literal(&expr, field.data_type()) {
        return Ok(value);
    }
    let expr = Expr::Cast(Cast::new_from_field(Box::new(expr), field.clone()));
    let plan = LogicalPlanBuilder::empty(true)
        .project([expr.alias("value")])
        .and_then(LogicalPlanBuilder::build);
    let plan = plan.map_err(|error| from_datafusion(&error))?;
    let mut stream = run::start(&session.run(), plan).await?;
    match stream.next().await {
        Some(batch) => {
            let value = cast(batch?.column(0), field.data_type()).map_err(|error| from_arrow(&error))?;
            ScalarValue::try_from_array(&value, 0).map_err(|error| from_datafusion(&error))
        }
        None => Err(SqlError::internal("an expression has no value")),
    }
}

/// The value of a literal that has the type already, or is an integer as it.
fn literal(expr: &Expr, data_type: &DataType) -> Option<ScalarValue> {
    let Expr::Literal(value, _) = expr else { return None };
    let own = value.data_type();
    let fits = own == *data_type || (own.is_integer() && data_type.is_integer());
    // A number out of range is told of by the cast.
    if fits { value.cast_to(data_type).ok() } else { None }
}

pub(super) fn deallocate(session: &mut Session, name: &Ident) -> Result<Outcome> {
    if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all") {
        session.forget_statements();
        return Ok(Outcome::Command("DEALLOCATE ALL".into()));
    }
    let name = fold(name);
    let removed = session.named.remove(&name).is_some();
    if !removed && (name.is_empty() || session.prepared.remove(&name).is_none()) {
        let message = format!("prepared statement \"{name}\" does not exist");
        return Err(SqlError::new(state::INVALID_SQL_STATEMENT_NAME, message));
    }
    Ok(Outcome::Command("DEALLOCATE".into()))
}
