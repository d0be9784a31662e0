//! `GENERATED ALWAYS AS (expression) STORED`: what may stand in the expression; and in those of indexes.

use super::defaults;
use super::insert::check_assignable;
use crate::catalog::bind::Binder;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::from_datafusion;
use crate::pg::parse::parse_expression;
use crate::pg::rewrite::{function_name, rewrite};
use crate::pg::walk;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::planner::ContextProvider;
use datafusion::logical_expr::{Expr, ExprSchemable, Volatility};
use datafusion::sql::sqlparser::ast;
use std::ops::ControlFlow;
use tenon_storage::{ColumnDef, Generated};

/// Checks the expression of a column among all columns of its table.
pub(super) fn check(binder: &Binder, columns: &[ColumnDef], column: &ColumnDef) -> Result<()> {
    let mut tree = parse_expression(column.default.as_deref().unwrap_or("NULL"))?;
    let places = ("column generation expression", "column generation expressions");
    defaults::refuse_sets(&tree, places.0, places.1)?;
    rewrite(&mut tree);
    let fields: Vec<_> = columns.iter().map(|own| own.sql_type.field(&own.name, true)).collect();
    let schema = DFSchema::try_from(Schema::new(fields)).map_err(|error| from_datafusion(&error))?;
    let expr = binder.expression(tree, &schema)?;
    let wrong = |message: &str| Err(SqlError::new(state::INVALID_OBJECT_DEFINITION, message));
    for used in expr.column_refs() {
        let other = columns.iter().find(|own| own.name == used.name);
        if other.is_some_and(|other| other.generated == Some(Generated::Stored)) {
            let error = SqlError::new(
                state::INVALID_OBJECT_DEFINITION,
                format!(
                    "cannot use generated column \"{}\" in column generation expression",
                    used.name
                ),
            );
            return Err(if used.name == column.name {
                error.detail("This would cause the generated column to depend on its own value.")
            } else {
                error.detail("A generated column cannot reference another generated column.")
            });
        }
    }
    if changes(&expr) {
        return wrong("generation expression is not immutable");
    }
    let (_, given) = expr.to_field(&schema).map_err(|error| from_datafusion(&error))?;
    check_assignable(&given, column)
}

/// Whether an expression may have other values at other times.
pub(super) fn changes(expr: &Expr) -> bool {
    expr.exists(|node| {
        Ok(matches!(node, Expr::ScalarFunction(call) if call.func.signature().volatility != Volatility::Immutable))
    })
    .unwrap_or(true)
}

/// 42P17 where an expression calls what gives another value each time, or tells of the session or its time (`now()`).
pub(super) fn refuse_changing(binder: &Binder, expr: &ast::Expr, place: &str) -> Result<()> {
    let changes = |call: &ast::Function| {
        let known = binder.get_function_meta(&function_name(call));
        known.is_some_and(|own| match own.signature().volatility {
            Volatility::Volatile => true,
            // With arguments PostgreSQL asks for their types, too.
            Volatility::Stable => matches!(&call.args, ast::FunctionArguments::List(list) if list.args.is_empty()),
            Volatility::Immutable => false,
        })
    };
    let found = walk::expressions(expr, |expr, _| match expr {
        ast::Expr::Function(call) if changes(call) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    match found {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => {
            let message = format!("functions in {place} must be marked IMMUTABLE");
            Err(SqlError::new(state::INVALID_OBJECT_DEFINITION, message))
        }
    }
}
