//! Types of expressions, in time by the number of their nodes.
//!
//! DataFusion's own answer writes the name of every expression in an expression: for a chain of operators, time by the
//! square of its length at each of its operators. Here operands stand as columns where their operator is asked for its type.

use super::{arithmetic, resolve};
use crate::pg::errors::to_datafusion;
use crate::pg::planning;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Column, ExprSchema, Result};
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable};
use std::sync::Arc;

/// The fields of operands, whose names are their places.
#[derive(Debug)]
struct Operands(Vec<FieldRef>);

impl ExprSchema for Operands {
    fn field_from_column(&self, column: &Column) -> Result<&FieldRef> {
        let at = column.name.parse::<usize>().ok();
        match at.and_then(|at| self.0.get(at)) {
            Some(field) => Ok(field),
            None => datafusion::common::internal_err!("no operand {column}"),
        }
    }
}

/// An expression's field, whose name says nothing.
pub(crate) fn field(expr: &Expr, schema: &dyn ExprSchema) -> Result<FieldRef> {
    // Asked at each operator of a chain, it takes time by the square of the chain's length.
    planning::check().map_err(to_datafusion)?;
    let own = |expr: &Expr| expr.to_field(schema).map(|(_, field)| field);
    let mut operands = Operands(Vec::new());
    let mut stand_in = |expr: &Expr| -> Result<Expr> {
        // What has no operands keeps its value, which types may depend on.
        if matches!(expr, Expr::Literal(..)) {
            return Ok(expr.clone());
        }
        operands.0.push(field(expr, schema)?);
        Ok(Expr::Column(Column::new_unqualified(
            (operands.0.len() - 1).to_string(),
        )))
    };
    let shallow = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (left, right) = (field(left, schema)?, field(right, schema)?);
            let of = BinaryTypeCoercer::new(left.data_type(), op, right.data_type()).get_result_type()?;
            return Ok(Arc::new(Field::new("", of, left.is_nullable() || right.is_nullable())));
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            let args = args.iter().map(stand_in).collect::<Result<Vec<_>>>()?;
            Expr::ScalarFunction(ScalarFunction {
                func: func.clone(),
                args,
            })
        }
        Expr::Cast(Cast { expr, field }) => Expr::Cast(Cast::new_from_field(Box::new(stand_in(expr)?), field.clone())),
        Expr::Case(case) => {
            let whole = own(expr)?;
            let results = case
                .else_expr
                .iter()
                .chain(case.when_then_expr.iter().map(|(_, then)| then));
            let results = results
                .map(|result| field(result, schema))
                .collect::<Result<Vec<_>>>()?;
            if let Some(of) = resolve::columns::of_numbers(&results) {
                let nullable = whole.is_nullable();
                return Ok(Arc::new(of.field(whole.name(), nullable)));
            }
            return Ok(match resolve::of_fields(&results) {
                Some(of) => resolve::with_type(whole, of),
                None => whole,
            });
        }
        Expr::AggregateFunction(_) | Expr::WindowFunction(_) => {
            let whole = own(expr)?;
            return Ok(match resolve::of_call(expr, schema) {
                Some(of) => resolve::with_type(whole, of),
                None => whole,
            });
        }
        other => return own(other),
    };
    shallow.to_field(&operands).map(|(_, field)| field)
}

/// An expression's type.
pub(crate) fn data_type(expr: &Expr, schema: &dyn ExprSchema) -> Result<DataType> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            BinaryTypeCoercer::new(&data_type(left, schema)?, op, &data_type(right, schema)?).get_result_type()
        }
        Expr::ScalarFunction(call) => match arithmetic::type_of(call) {
            Some(known) => Ok(known),
            None => field(expr, schema).map(|field| field.data_type().clone()),
        },
        Expr::Alias(alias) if !matches!(*alias.expr, Expr::Placeholder(_)) => data_type(&alias.expr, schema),
        Expr::Negative(inner) => data_type(inner, schema),
        Expr::Case(_) => field(expr, schema).map(|field| field.data_type().clone()),
        other => other.get_type(schema),
    }
}
