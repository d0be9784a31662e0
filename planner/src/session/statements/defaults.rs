//! What a column gets where no value is given: its DEFAULT, the next number of its sequence, or what its expression
//! makes of the row's other columns.

use super::insert::{assigned, check_assignable};
use super::{qualify, row_cells};
use crate::catalog::bind::Binder;
use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::errors::from_datafusion;
use crate::pg::functions::aggregate::names::is_aggregate;
use crate::pg::functions::sets::names::is_set;
use crate::pg::parse::parse_expression;
use crate::pg::rewrite::{OF_SEQUENCES, arguments, call, function_name, is_regclass, relation_text, rewrite};
use crate::pg::walk::{Visit, VisitMut, null};
use crate::session::Session;
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{self, Value, Visitor, VisitorMut};
use std::ops::ControlFlow;
use std::sync::Arc;
use tenon_storage::datetime::shown;
use tenon_storage::{ColumnDef, Generated, Object, ObjectKey, Sequence, SqlType, TableDefinition};

/// Whether a value is the word DEFAULT.
pub(super) fn is_default(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// Why a column takes no values.
pub(super) fn detail(column: &str, generated: Generated) -> String {
    match generated {
        Generated::Stored => format!("Column \"{column}\" is a generated column."),
        _ => format!("Column \"{column}\" is an identity column defined as GENERATED ALWAYS."),
    }
}

/// `nextval(oid)`
fn next_of(sequence: &Sequence) -> ast::Expr {
    call("nextval", vec![by_oid(sequence.oid)])
}

fn by_oid(oid: u32) -> ast::Expr {
    ast::Expr::Cast {
        kind: ast::CastKind::DoubleColon,
        expr: Box::new(ast::Expr::Value(Value::Number(oid.to_string(), false).into())),
        data_type: ast::DataType::Custom(ast::Ident::new("oid").into(), Vec::new()),
        format: None,
        array: false,
    }
}

/// A kept text, whose relations are those that it was given of, whoever may look them up by their names.
fn kept(binder: &Binder, text: &str) -> Result<ast::Expr> {
    struct Relations(Binder);
    impl VisitorMut for Relations {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
            let Some(found) = relation_text(expr).and_then(|name| self.0.names().textual(name).ok()) else {
                return ControlFlow::Continue(());
            };
            let oid = found.oid();
            match expr {
                ast::Expr::Function(own) => {
                    if let ast::FunctionArguments::List(list) = &mut own.args
                        && let Some(first) = list.args.first_mut()
                    {
                        *first = ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(by_oid(oid)));
                    }
                }
                ast::Expr::Cast { expr: name, .. } => **name = by_oid(oid),
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let mut tree = parse_expression(text)?;
    let _ = VisitMut::visit(&mut tree, &mut Relations(binder.clone().trusted()));
    Ok(tree)
}

/// A column's default as an expression over nothing. A column that is computed from others gets NULL for the moment.
pub(super) fn tree(binder: &Binder, definition: &TableDefinition, column: &ColumnDef) -> Result<ast::Expr> {
    match (column.generated, &column.default) {
        (Some(Generated::Stored), _) => Ok(null()),
        (Some(_), _) => {
            let sequence = binder.snapshot.identity(definition.oid, &column.name);
            sequence
                .map(|sequence| next_of(sequence))
                .ok_or_else(|| SqlError::internal("an identity column has no sequence"))
        }
        (None, Some(text)) => row_cells::cell(binder, column.sql_type, kept(binder, text)?),
        (None, None) => match domain_default(binder, column) {
            Some(text) => kept(binder, &text),
            None => Ok(null()),
        },
    }
}

fn domain_default(binder: &Binder, column: &ColumnDef) -> Option<String> {
    let (schema, name) = column.domain.clone()?;
    match binder.snapshot.objects().get(&ObjectKey::Type { schema, name })? {
        Object::Domain(domain) => domain.default.clone(),
        _ => None,
    }
}

/// The same, planned.
pub(super) fn value(binder: &Binder, definition: &TableDefinition, column: &ColumnDef) -> Result<Expr> {
    let mut tree = tree(binder, definition, column)?;
    rewrite(&mut tree);
    let expr = binder.expression(tree, &DFSchema::empty())?;
    Ok(assigned(expr, column))
}

/// A DEFAULT as the column keeps it: a literal as its type writes it; None where it is NULL, which a column without one has.
pub(super) fn given(session: &Session, expr: &ast::Expr, column: &ColumnDef) -> Result<Option<String>> {
    let literal = check(session, expr, column)?;
    if column.domain.is_none() {
        if matches!(expr, ast::Expr::Value(value) if matches!(value.value, Value::Null)) {
            return Ok(None);
        }
        if let Some(text) = literal.and_then(|value| written(&value, column.sql_type)) {
            return Ok(Some(text));
        }
    }
    let mut kept = qualify::expression(&session.binder(), expr)?;
    let _ = VisitMut::visit(&mut kept, &mut Keywords);
    Ok(Some(kept.to_string()))
}

/// The literal of a value; None where what was given stays as it is: strings, and records.
fn written(value: &ArrayRef, of: SqlType) -> Option<String> {
    let stays = match of {
        SqlType::Array(of) => matches!(of.element(), SqlType::CharOf(_) | SqlType::Composite(_)),
        SqlType::Composite(_) => true,
        of => of.is_string(),
    };
    if stays || value.is_null(0) {
        return None;
    }
    let text = shown(value, 0);
    let is_bare = match of {
        SqlType::Int4 => !text.starts_with('-'),
        SqlType::Numeric | SqlType::NumericOf(..) | SqlType::NumericWide(..) => {
            text.contains('.') && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        }
        SqlType::Bool => return Some(if text == "t" { "true" } else { "false" }.into()),
        _ => false,
    };
    Some(match is_bare {
        true => text,
        false => format!("'{}'", text.replace('\'', "''")),
    })
}

/// Functions that are called without parentheses are written in capitals.
struct Keywords;

impl VisitorMut for Keywords {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        if let ast::Expr::Function(call) = expr
            && matches!(call.args, ast::FunctionArguments::None)
            && let [ast::ObjectNamePart::Identifier(name)] = call.name.0.as_mut_slice()
            && name.quote_style.is_none()
        {
            name.value.make_ascii_uppercase();
        }
        ControlFlow::Continue(())
    }
}

/// A DEFAULT must be an expression over no columns. Gives the value of a literal.
pub(super) fn check(session: &Session, expr: &ast::Expr, column: &ColumnDef) -> Result<Option<ArrayRef>> {
    refuse_sets(expr, "DEFAULT expression", "DEFAULT expressions")?;
    let written = expr;
    let mut tree = expr.clone();
    rewrite(&mut tree);
    let expr = session
        .binder()
        .expression(tree, &DFSchema::empty())
        .map_err(|error| match error.state {
            state::UNDEFINED_COLUMN => SqlError::unsupported_as("cannot use column reference in DEFAULT expression"),
            _ => error,
        })?;
    let literal = check_texts(session, written, column)?;
    let given = expr.to_field(&DFSchema::empty());
    let (_, given) = given.map_err(|error| from_datafusion(&error))?;
    check_assignable(&given, column).map_err(|error| {
        let message = error
            .message
            .replace("but expression is of type", "but default expression is of type");
        SqlError { message, ..error }
    })?;
    Ok(literal)
}

/// Texts are read as what they stand for when the default is declared: the whole, what is cast, names of sequences.
fn check_texts(session: &Session, expr: &ast::Expr, column: &ColumnDef) -> Result<Option<ArrayRef>> {
    struct Texts<'a>(&'a Binder);
    impl Visitor for Texts<'_> {
        type Break = SqlError;
        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<SqlError> {
            let relation = |name: Option<&str>| match name.filter(|name| name.parse::<u32>().is_err()) {
                Some(name) => self.0.names().textual(name).map(|_| ()),
                None => Ok(()),
            };
            let read = match expr {
                ast::Expr::Cast {
                    expr: of, data_type, ..
                } if is_regclass(data_type) => relation(text(of)),
                ast::Expr::Cast {
                    expr: of, data_type, ..
                } if text(of).is_some() && self.0.domain_of(data_type).is_none() => {
                    read(self.0, expr.clone(), None).map(|_| ())
                }
                ast::Expr::Function(function) if OF_SEQUENCES.contains(&function_name(function).as_str()) => {
                    relation(arguments(function).next().and_then(text))
                }
                _ => Ok(()),
            };
            read.map_or_else(ControlFlow::Break, ControlFlow::Continue)
        }
    }
    let binder = session.binder();
    if let ControlFlow::Break(error) = expr.visit(&mut Texts(&binder)) {
        return Err(error);
    }
    if text(expr).is_none() {
        return Ok(None);
    }
    // Precision is what the rows are checked for.
    let mut column = column.clone();
    if matches!(column.sql_type, SqlType::NumericOf(..) | SqlType::NumericWide(..)) {
        column.sql_type = SqlType::Numeric;
    }
    let value = row_cells::cell(&binder, column.sql_type, expr.clone())?;
    read(&binder, value, Some(&column)).map(Some)
}

/// Reads a text as a column or a cast does.
fn read(binder: &Binder, mut tree: ast::Expr, column: Option<&ColumnDef>) -> Result<ArrayRef> {
    rewrite(&mut tree);
    let expr = binder.expression(tree, &DFSchema::empty())?;
    let expr = column.map_or(expr.clone(), |column| assigned(expr, column));
    binder.constant(expr)
}

fn text(expr: &ast::Expr) -> Option<&str> {
    match expr {
        ast::Expr::Nested(inner) => text(inner),
        ast::Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Refuses what is no plain expression over the row: subqueries, aggregates, window and set-returning functions. `place`
/// names where, and `places` all such places.
pub(super) fn refuse_sets(expr: &ast::Expr, place: &str, places: &str) -> Result<()> {
    struct Calls<'a>(&'a str, &'a str);
    impl Visitor for Calls<'_> {
        type Break = SqlError;
        fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<SqlError> {
            ControlFlow::Break(SqlError::unsupported_as(format!("cannot use subquery in {}", self.0)))
        }
        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<SqlError> {
            let ast::Expr::Function(call) = expr else {
                return ControlFlow::Continue(());
            };
            let refused = |state, what: &str| {
                let message = format!("{what} functions are not allowed in {}", self.1);
                ControlFlow::Break(SqlError::new(state, message))
            };
            if call.over.is_some() {
                return refused(SqlState("42P20"), "window");
            }
            if is_aggregate(call) {
                return refused(state::GROUPING_ERROR, "aggregate");
            }
            if is_set(call) {
                return refused(state::FEATURE_NOT_SUPPORTED, "set-returning");
            }
            ControlFlow::Continue(())
        }
    }
    match expr.visit(&mut Calls(place, places)) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Whether a table has columns that are computed from its others.
pub(super) fn computes(definition: &TableDefinition) -> bool {
    let computed = |column: &ColumnDef| column.generated == Some(Generated::Stored);
    definition.columns.iter().any(computed)
}

/// A plan whose columns from `first` on are the table's, with the values of those that are computed from the others.
pub(super) fn generate(
    binder: &Binder,
    definition: &TableDefinition,
    plan: LogicalPlan,
    first: usize,
) -> Result<LogicalPlan> {
    if !computes(definition) {
        return Ok(plan);
    }
    let told = |error| from_datafusion(&error);
    let columns = plan.schema().columns();
    let given = plan.schema().fields()[first..first + definition.columns.len()].iter();
    // Strings are cut and filled up when they are stored; the expression sees what is stored.
    let fields = given
        .zip(&definition.columns)
        .map(|(given, column)| match is_cut(column) {
            true => Arc::new(column.sql_type.field(given.name(), true)),
            false => given.clone(),
        });
    let own = Schema::new(fields.collect::<Vec<_>>());
    let own = DFSchema::try_from(own).map_err(told)?;
    let mut exprs: Vec<Expr> = columns.iter().cloned().map(Expr::Column).collect();
    for (at, column) in definition.columns.iter().enumerate() {
        if column.generated == Some(Generated::Stored) {
            let mut tree = parse_expression(column.default.as_deref().unwrap_or("NULL"))?;
            rewrite(&mut tree);
            let expr = as_stored(binder.expression(tree, &own)?, definition).map_err(told)?;
            exprs[first + at] = assigned(expr, column).alias(&column.name);
        }
    }
    LogicalPlanBuilder::from(plan)
        .project(exprs)
        .and_then(LogicalPlanBuilder::build)
        .map_err(told)
}

/// Whether a column keeps a part of the strings that it is given, or more than these.
fn is_cut(column: &ColumnDef) -> bool {
    matches!(column.sql_type, SqlType::CharOf(_) | SqlType::VarcharOf(_))
}

/// The expression over such columns as they are stored.
fn as_stored(expr: Expr, definition: &TableDefinition) -> datafusion::error::Result<Expr> {
    let stored = expr.transform_up(|expr| {
        let Expr::Column(column) = &expr else {
            return Ok(Transformed::no(expr));
        };
        let own = definition.columns.iter().find(|own| own.name == column.name);
        Ok(match own.filter(|own| is_cut(own)) {
            Some(own) => {
                let field = Arc::new(own.sql_type.field("", true));
                Transformed::yes(Expr::Cast(Cast::new_from_field(Box::new(expr), field)))
            }
            None => Transformed::no(expr),
        })
    });
    stored.data()
}
