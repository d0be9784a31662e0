//! The types of `$1`, `$2`, ...: declared by the client, said by a cast, inferred by the planner, else text.

mod beside;

use super::arguments;
use crate::catalog::bind::{Binder, parsed_type};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::from_datafusion;
use crate::pg::functions::constant::is_void;
use crate::pg::types::{planner::PgTypePlanner, type_for_oid};
use crate::pg::walk::{Visit, VisitMut};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, LimitClause, Query, SelectItem,
    UnaryOperator, Value, Visitor, VisitorMut,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use tenon_storage::{SqlType, TableDefinition};

/// Most parameters that a statement has.
const PARAMETERS_MAX: usize = 65_535;

/// Plans a statement and finds the type of each of its parameters.
pub(super) fn plan(binder: &Binder, mut tree: ast::Statement, types: &[u32]) -> Result<(LogicalPlan, Vec<FieldRef>)> {
    if !binder.facts.dimensions.is_empty() {
        let _ = VisitMut::visit(&mut tree, &mut Deepened(&binder.facts.dimensions));
    }
    let hints = hints(&tree)?;
    let count = hints.count.max(types.len());
    if count == 0 {
        return Ok((binder.plan(tree, Vec::new())?, Vec::new()));
    }
    let mut known = declared(binder, types, count)?;
    for (field, dimensions) in known.iter_mut().zip(binder.facts.dimensions.iter()) {
        if let Some(own) = field {
            *field = Some(with_dimensions(own, *dimensions));
        }
    }
    for (at, field) in &hints.certain {
        known[*at].get_or_insert_with(|| field.clone());
    }
    for (at, declared) in &hints.casts {
        if let (None, Ok(of)) = (&known[*at], binder.field_of_type(declared)) {
            known[*at] = Some(Arc::new(of));
        }
    }
    let text = || Arc::new(Field::new("", DataType::Utf8View, true));
    let first = match binder.plan(tree.clone(), known.clone()) {
        Err(error) if error.message.contains("laceholder") => {
            for at in &hints.free {
                known[*at].get_or_insert_with(text);
            }
            match binder.plan(tree.clone(), known.clone()) {
                Err(error) if error.message.contains("laceholder") => {
                    known.iter_mut().for_each(|field| {
                        field.get_or_insert_with(text);
                    });
                    binder.plan(tree.clone(), known.clone())?
                }
                other => other?,
            }
        }
        other => other?,
    };
    let mut arrays = false;
    for (at, field) in beside::types(&first)? {
        let open = matches!(types.get(at).copied().unwrap_or(0), 0 | 705) && !hints.certain.contains_key(&at);
        if open && at < count {
            known[at] = Some(field);
            arrays = true;
        }
    }
    let first = match arrays {
        true => binder.plan(tree.clone(), known.clone())?,
        false => first,
    };
    let inferred = first.get_parameter_fields().map_err(|error| from_datafusion(&error))?;
    for (id, field) in inferred {
        if let (Some(at), Some(field)) = (index(&id), field)
            && at < count
            && *field.data_type() != DataType::Null
        {
            // Beside what says nothing it is text, which that is kept as.
            let field = if is_void(&field) { text() } else { field };
            known[at].get_or_insert(field);
        }
    }
    if known.iter().all(Option::is_some) {
        return Ok((first, known.into_iter().flatten().collect()));
    }
    known.iter_mut().for_each(|field| {
        field.get_or_insert_with(text);
    });
    Ok((binder.plan(tree, known.clone())?, known.into_iter().flatten().collect()))
}

/// Casts of parameters to array types, which say as many dimensions as the parameters have: to PostgreSQL it is one type.
struct Deepened<'a>(&'a [usize]);

impl VisitorMut for Deepened<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Cast {
            expr: inner, data_type, ..
        } = expr
            && let Expr::Value(value) = inner.as_ref()
            && let Value::Placeholder(id) = &value.value
            && let Some(dimensions) = index(id).and_then(|at| self.0.get(at))
        {
            if let Some(item) = item_of_array(data_type) {
                *data_type = ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(Box::new(item), None));
            }
            let mut declared = 0;
            let mut of = &*data_type;
            while let ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(item, _)) = of {
                (declared, of) = (declared + 1, item);
            }
            if declared > 0 {
                for _ in declared..*dimensions {
                    let item = Box::new(data_type.clone());
                    *data_type = ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(item, None));
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// The type of whose arrays a name of the system, such as `pg_catalog._int4`, is.
fn item_of_array(declared: &ast::DataType) -> Option<ast::DataType> {
    let ast::DataType::Custom(name, arguments) = declared else {
        return None;
    };
    let last = name.0.last()?.as_ident()?.value.strip_prefix('_')?;
    let element = PgTypePlanner.plan_type_field(&parsed_type(last).ok()?).ok()??;
    let array = PgTypePlanner.plan_type_field(declared).ok()??;
    let is_array = matches!(array.data_type(), DataType::List(item) if item.data_type() == element.data_type());
    (is_array && arguments.is_empty())
        .then(|| parsed_type(last).ok())
        .flatten()
}

/// An array's field with so many dimensions; that of another type as it is.
fn with_dimensions(field: &FieldRef, dimensions: usize) -> FieldRef {
    let DataType::List(item) = field.data_type() else {
        return field.clone();
    };
    if dimensions < 2 {
        return field.clone();
    }
    let list = (1..dimensions).fold(item.clone(), |item, _| {
        Arc::new(Field::new("item", DataType::List(item), true))
    });
    // What it says of its type says the number of dimensions too.
    Arc::new(Field::new(field.name(), DataType::List(list), true))
}

/// The fields of declared types; None where the client left the choice.
pub(super) fn declared(binder: &Binder, types: &[u32], count: usize) -> Result<Vec<Option<FieldRef>>> {
    (0..count)
        .map(|at| match types.get(at).copied().unwrap_or(0) {
            // 705: unknown.
            0 | 705 => Ok(None),
            oid => match type_for_oid(oid).or_else(|| binder.composite_of_oid(oid)) {
                Some(field) => Ok(Some(Arc::new(field))),
                None => Err(SqlError::unsupported(format!("parameter type with oid {oid}"))),
            },
        })
        .collect()
}

/// The declared types of parameters, and that of its column for each that stands alone as a column's new value.
pub(super) fn of_assigned(definition: &TableDefinition, values: &[Option<Expr>], types: &[u32]) -> Vec<u32> {
    let mut types = types.to_vec();
    for (value, column) in values.iter().zip(&definition.columns) {
        let Some(at) = value.as_ref().and_then(placeholder) else {
            continue;
        };
        if at < PARAMETERS_MAX {
            types.resize(types.len().max(at + 1), 0);
            if types[at] == 0 {
                types[at] = column.sql_type.oid();
            }
        }
    }
    types
}

/// The position of `$n`, from 0.
pub(super) fn index(placeholder: &str) -> Option<usize> {
    placeholder.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}

/// What the tree itself says of parameters.
#[derive(Default)]
pub(super) struct Hints {
    pub count: usize,
    /// Told by a cast or by LIMIT.
    pub certain: BTreeMap<usize, FieldRef>,
    /// Cast to types that are not the system's: enums and their arrays.
    pub casts: Vec<(usize, ast::DataType)>,
    /// Where the planner has nothing to infer from: select items, arguments.
    pub free: Vec<usize>,
}

pub(super) fn hints<T: Visit>(tree: &T) -> Result<Hints> {
    let mut hints = Hints::default();
    match tree.visit(&mut hints) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(hints),
    }
}

fn placeholder(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Placeholder(id) => index(id),
            _ => None,
        },
        Expr::Nested(inner) => placeholder(inner),
        _ => None,
    }
}

/// Whether an interval is written here.
fn is_interval(expr: &Expr) -> bool {
    match expr {
        Expr::Interval(_) => true,
        Expr::Cast { data_type, .. } => matches!(data_type, ast::DataType::Interval { .. }),
        Expr::TypedString(text) => matches!(text.data_type, ast::DataType::Interval { .. }),
        Expr::Nested(inner) => is_interval(inner),
        _ => false,
    }
}

impl Hints {
    /// A parameter that is a condition is a boolean.
    fn condition(&mut self, expr: &Expr) {
        if let Some(at) = placeholder(expr) {
            let boolean = || Arc::new(SqlType::Bool.field("", true));
            self.certain.entry(at).or_insert_with(boolean);
        }
    }
}

impl Visitor for Hints {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
        let mut counts = Vec::new();
        match &query.limit_clause {
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                counts.extend(limit);
                counts.extend(offset.as_ref().map(|offset| &offset.value));
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => counts.extend([offset, limit]),
            None => {}
        }
        for at in counts.into_iter().filter_map(placeholder) {
            self.certain.insert(at, Arc::new(Field::new("", DataType::Int64, true)));
        }
        if let ast::SetExpr::Select(select) = query.body.as_ref() {
            let conditions = select.selection.iter().chain(&select.having);
            conditions.for_each(|condition| self.condition(condition));
            for item in &select.projection {
                if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                    self.free.extend(placeholder(expr));
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::Value(value) => {
                if let Value::Placeholder(id) = &value.value {
                    match index(id) {
                        Some(at) if at < PARAMETERS_MAX => self.count = self.count.max(at + 1),
                        _ => {
                            let message = format!("there is no parameter {id}");
                            return ControlFlow::Break(SqlError::new(state::UNDEFINED_PARAMETER, message));
                        }
                    }
                }
            }
            Expr::Cast { expr, data_type, .. } => {
                if let Some(at) = placeholder(expr) {
                    match PgTypePlanner.plan_type_field(data_type) {
                        Ok(Some(field)) => drop(self.certain.entry(at).or_insert(field)),
                        _ => self.casts.push((at, data_type.clone())),
                    }
                }
            }
            Expr::Case {
                operand: None,
                conditions,
                ..
            } => conditions.iter().for_each(|when| self.condition(&when.condition)),
            Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr,
            } => self.condition(expr),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::Multiply | BinaryOperator::Divide,
                right,
            } if is_interval(left) || is_interval(right) => {
                for at in [left, right].into_iter().filter_map(|side| placeholder(side)) {
                    self.certain
                        .entry(at)
                        .or_insert_with(|| Arc::new(SqlType::Float8.field("", true)));
                }
            }
            Expr::BinaryOp {
                left,
                op: BinaryOperator::And | BinaryOperator::Or,
                right,
            } => [left, right].into_iter().for_each(|side| self.condition(side)),
            Expr::Function(function) => {
                if let FunctionArguments::List(list) = &function.args {
                    for (number, argument) in list.args.iter().enumerate() {
                        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument
                            && let Some(at) = placeholder(expr)
                        {
                            self.free.push(at);
                            if let Some(of) = arguments::type_of(&function.name, &list.args, number) {
                                self.certain.entry(at).or_insert_with(|| Arc::new(of.field("", true)));
                            }
                        }
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
