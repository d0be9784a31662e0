//! What the text of a statement says of its parameters: casts, places of one type, functions' arguments.

use super::beside::path_field;
use super::{PARAMETERS_MAX, index};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::semantics::resolve::common_type;
use crate::pg::semantics::resolve::open::of_parameter;
use crate::pg::types::planner::PgTypePlanner;
use crate::pg::walk::Visit;
use crate::session::statements::arguments;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, LimitClause, ObjectName, Query,
    SelectItem, TableFactor, UnaryOperator, Value, Visitor, WindowFrameBound, WindowFrameUnits, WindowType,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use tenon_storage::SqlType;

/// What the tree itself says of parameters.
#[derive(Default)]
pub(in crate::session::statements) struct Hints {
    pub count: usize,
    pub named: BTreeSet<usize>,
    /// Told by a cast or by LIMIT.
    pub certain: BTreeMap<usize, FieldRef>,
    /// Cast to types that are not the system's: enums and their arrays.
    pub casts: Vec<(usize, ast::DataType)>,
    /// Where the planner has nothing to infer from: select items, arguments.
    pub free: Vec<usize>,
}

pub(in crate::session::statements) fn hints<T: Visit>(tree: &T) -> Result<Hints> {
    let mut hints = Hints::default();
    match tree.visit(&mut hints) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(hints),
    }
}

pub(super) fn placeholder(expr: &Expr) -> Option<usize> {
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
        self.certain_of(expr, SqlType::Bool);
    }

    fn certain_of(&mut self, expr: &Expr, of: SqlType) {
        if let Some(at) = placeholder(expr) {
            self.certain.entry(at).or_insert_with(|| Arc::new(of.field("", true)));
        }
    }

    /// Parameters in a column of VALUES have the type that its other values say.
    fn values(&mut self, values: &ast::Values) {
        let width = values.rows.first().map_or(0, |row| row.content.len());
        for at in 0..width {
            let column = || values.rows.iter().filter_map(|row| row.content.get(at));
            let types = column().filter_map(|value| match value {
                Expr::Cast { data_type, .. } => PgTypePlanner.plan_type_field(data_type).ok()?,
                _ => None,
            });
            let types = types.map(|field| SqlType::from_field(&field));
            if let Some(Some(of)) = types.reduce(|a, b| common_type(a?, b?)) {
                column().for_each(|value| self.certain_of(value, of_parameter(of)));
            }
        }
    }

    /// Parameters that are a function's arguments.
    fn arguments(&mut self, name: &ObjectName, arguments: &[FunctionArg]) {
        for (number, argument) in arguments.iter().enumerate() {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument
                && let Some(at) = placeholder(expr)
            {
                self.free.push(at);
                if arguments::is_path(name, number) {
                    self.certain.entry(at).or_insert_with(path_field);
                } else if let Some(of) = arguments::type_of(name, arguments, number) {
                    self.certain.entry(at).or_insert_with(|| Arc::new(of.field("", true)));
                }
            }
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
        if let ast::SetExpr::Values(values) = query.body.as_ref() {
            self.values(values);
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

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<SqlError> {
        match factor {
            TableFactor::Table {
                name, args: Some(args), ..
            } => self.arguments(name, &args.args),
            TableFactor::Function { name, args, .. } => self.arguments(name, args),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::Value(value) => {
                if let Value::Placeholder(id) = &value.value {
                    match index(id) {
                        Some(at) if at < PARAMETERS_MAX => {
                            self.count = self.count.max(at + 1);
                            self.named.insert(at);
                        }
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
            Expr::Ceil { expr, .. } | Expr::Floor { expr, .. } => self.certain_of(expr, SqlType::Float8),
            Expr::Substring {
                expr,
                substring_from,
                substring_for,
                shorthand: true,
                ..
            } => {
                self.certain_of(expr, SqlType::Text);
                let bounds = substring_from.iter().chain(substring_for);
                bounds.for_each(|bound| self.certain_of(bound, SqlType::Int4));
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
                [left, right]
                    .into_iter()
                    .for_each(|side| self.certain_of(side, SqlType::Float8));
            }
            Expr::BinaryOp {
                left,
                op: BinaryOperator::And | BinaryOperator::Or,
                right,
            } => [left, right].into_iter().for_each(|side| self.condition(side)),
            Expr::Overlay {
                expr,
                overlay_what,
                overlay_from,
                overlay_for,
            } => {
                [expr, overlay_what]
                    .into_iter()
                    .for_each(|text| self.certain_of(text, SqlType::Text));
                let bounds = std::iter::once(overlay_from).chain(overlay_for);
                bounds.for_each(|bound| self.certain_of(bound, SqlType::Int4));
            }
            Expr::Function(function) => {
                if let Some(WindowType::WindowSpec(window)) = &function.over
                    && let Some(frame) = &window.window_frame
                    && !matches!(frame.units, WindowFrameUnits::Range)
                {
                    for bound in std::iter::once(&frame.start_bound).chain(&frame.end_bound) {
                        if let WindowFrameBound::Preceding(Some(rows)) | WindowFrameBound::Following(Some(rows)) = bound
                        {
                            self.certain_of(rows, SqlType::Int8);
                        }
                    }
                }
                if let FunctionArguments::List(list) = &function.args {
                    self.arguments(&function.name, &list.args);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
