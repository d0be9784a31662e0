//! Operators on numerics, dates, timestamps and intervals, with PostgreSQL's result types.

use super::datetime::{TIMETZ, comparable, exact};
use crate::pg::numeric;
use crate::pg::rewrite::test_of;
use crate::pg::semantics::{fields, resolve};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Column, DFSchema, Result, TableReference};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, binary_expr, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::network::{CIDR, INET};
use tenon_storage::range::is_range;

#[derive(Debug)]
pub(crate) struct PostgresOperators;

impl ExprPlanner for PostgresOperators {
    /// `d.id` with a column `d`: unless it is a record, `d` is a table. See `bind::aliases`.
    fn plan_compound_identifier(
        &self,
        field: &Field,
        _: Option<&TableReference>,
        nested_names: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        match (field.data_type(), nested_names) {
            (of, _) if !is_range(of) && matches!(of, DataType::Struct(_) | DataType::Map(..)) => {
                Ok(PlannerResult::Original(Vec::new()))
            }
            (_, []) => Ok(PlannerResult::Original(Vec::new())),
            (_, [name, ..]) => {
                let table = TableReference::bare(field.name().as_str());
                Ok(PlannerResult::Planned(Expr::Column(Column::new(Some(table), name))))
            }
        }
    }

    /// Numbers of different types in one array are numerics, each with its own digits.
    fn plan_array_literal(&self, mut exprs: Vec<Expr>, schema: &DFSchema) -> Result<PlannerResult<Vec<Expr>>> {
        let types: Vec<DataType> = exprs.iter().filter_map(|expr| expr.get_type(schema).ok()).collect();
        // So are literals without a type beside decimals, which may be no numbers that these hold.
        let literals = exprs
            .iter()
            .any(|expr| matches!(expr, Expr::Literal(value, None) if value.try_as_str().is_some()));
        let others = exprs.iter().zip(&types).filter(|(expr, _)| !resolve::is_unknown(expr));
        let others: Vec<DataType> = others.map(|(_, own)| own.clone()).collect();
        let read = literals && numeric::unify::are_decimals(&others);
        if types.len() == exprs.len() && (read || numeric::unify::differ(&types)) {
            for (expr, own) in exprs.iter_mut().zip(&types) {
                *expr = numeric::convert::to_numeric(std::mem::take(expr), own)?;
            }
        }
        if types.len() == exprs.len() && types.contains(&INET) {
            for (expr, own) in exprs.iter_mut().zip(&types).filter(|(_, own)| **own == CIDR) {
                *expr = super::network::converted(std::mem::take(expr), own);
            }
        }
        if types.len() == exprs.len() {
            resolve::to_one_moment(&mut exprs, &types);
        }
        // Literals beside these would have to be cast by DataFusion, which cannot.
        if let Some(of) = types.iter().find(|of| !matches!(of, DataType::Utf8 | DataType::Null))
            && (is_range(of) || matches!(of, DataType::FixedSizeBinary(_)))
            && let Some(of) = SqlType::from_data_type(if types.contains(&INET) { &INET } else { of })
        {
            for expr in exprs.iter_mut().filter(|expr| resolve::is_unknown(expr)) {
                *expr = as_value(std::mem::take(expr), of);
            }
        }
        super::array::constructor(exprs).map(PlannerResult::Planned)
    }

    fn plan_substring(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(super::text::substring().call(args)))
    }

    fn plan_position(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(super::text::position().call(args)))
    }

    fn plan_overlay(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(super::text::overlay().call(args)))
    }

    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        // Asking a long conjunction for its type at each of its ANDs would take time by the square of its length.
        if matches!(expr.op, BinaryOperator::And | BinaryOperator::Or) {
            return Ok(PlannerResult::Original(expr));
        }
        if let Some(test) = test_of(&expr.op) {
            let types = (
                fields::data_type(&expr.left, schema),
                fields::data_type(&expr.right, schema),
            );
            let (left, right) = match &types {
                (Ok(left), Ok(right)) => super::network::compared(expr.left, expr.right, (left, right)),
                _ => (expr.left, expr.right),
            };
            if let (Ok(own), Ok(other)) = &types
                && let Some(compared) = numeric::operators::binary(test, &left, &right, (own, other))?
            {
                return Ok(PlannerResult::Planned(compared));
            }
            return Ok(PlannerResult::Planned(binary_expr(left, test, right)));
        }
        let expr = super::range::with_parameters(resolve::open::operands(expr, schema), schema);
        let expr = super::json::operators::with_literal(expr, schema);
        // Each operator of a chain asks once for the type of all before it.
        let asked = (fields::field(&expr.left, schema), fields::field(&expr.right, schema));
        if let (Ok(left), Ok(right)) = &asked
            && let Some(planned) = super::nested::plan(&expr, left, right)?
        {
            return Ok(PlannerResult::Planned(planned));
        }
        let expr = {
            let of = |field: &Result<FieldRef>| field.as_ref().ok().map(|field| field.data_type().clone());
            let known = |field: &Result<FieldRef>| field.as_ref().ok().and_then(|field| resolve::known_of(field));
            let (left, right) = match operator(&expr.op) {
                Some(op) if op.is_numerical_operators() => {
                    (signed(expr.left, of(&asked.0)), signed(expr.right, of(&asked.1)))
                }
                _ => (expr.left, expr.right),
            };
            let (left, right) = resolve::operands(&expr.op, left, right, (known(&asked.0), known(&asked.1)))?;
            RawBinaryExpr {
                op: expr.op,
                left,
                right,
            }
        };
        if let Some(planned) = super::regex::operator(&expr, schema)? {
            return Ok(PlannerResult::Planned(planned));
        }
        let resolved = |expr: &Expr, asked: Result<FieldRef>| match expr {
            // An operator is as it was.
            Expr::BinaryExpr(_) => asked.map(|field| field.data_type().clone()),
            other => fields::data_type(other, schema),
        };
        let (Ok(left), Ok(right)) = (resolved(&expr.left, asked.0), resolved(&expr.right, asked.1)) else {
            return Ok(PlannerResult::Original(expr));
        };
        let shifted = super::bits::small_shift(&expr, &left, &right);
        if let Some(planned) = shifted.or_else(|| super::bits::operator(&expr, &left, &right)) {
            return Ok(PlannerResult::Planned(planned));
        }
        if let Some(planned) = super::network::operator(&expr, &left, &right) {
            return Ok(PlannerResult::Planned(planned));
        }
        if let Some(planned) = super::range::operator(&expr, &left, &right)? {
            return Ok(PlannerResult::Planned(planned));
        }
        if let Some(op) = operator(&expr.op)
            && let Some(planned) = numeric::operators::binary(op, &expr.left, &expr.right, (&left, &right))?
        {
            return Ok(PlannerResult::Planned(planned));
        }
        let comparison = matches!(
            expr.op,
            BinaryOperator::Lt
                | BinaryOperator::LtEq
                | BinaryOperator::Gt
                | BinaryOperator::GtEq
                | BinaryOperator::Eq
                | BinaryOperator::NotEq
        );
        if comparison {
            return Ok(PlannerResult::Original(compared(expr, &left, &right)));
        }
        let op = match expr.op {
            BinaryOperator::Plus => Operator::Plus,
            BinaryOperator::Minus => Operator::Minus,
            BinaryOperator::Multiply => Operator::Multiply,
            BinaryOperator::Divide => Operator::Divide,
            BinaryOperator::Custom(op) => {
                let types = (resolve::known(&expr.left, schema), resolve::known(&expr.right, schema));
                return Err(resolve::undefined(&op, types.0, types.1));
            }
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let RawBinaryExpr {
            op: raw,
            left: a,
            right: b,
        } = expr;
        if op == Operator::Plus
            && let (Some(of @ DataType::Time64(_)), Some(DataType::Time64(_))) = (exact(&left), exact(&right))
        {
            let name = SqlType::from_data_type(&of).map_or_else(String::new, |of| of.sql_name());
            let message = format!("operator is not unique: {name} + {name}");
            return Err(crate::pg::errors::to_datafusion(
                crate::pg::error::SqlError::new(crate::pg::error::SqlState("42725"), message)
                    .hint("Could not choose a best candidate operator. You might need to add explicit type casts."),
            ));
        }
        Ok(match super::datetime::operators::plan(a, op, b, (&left, &right)) {
            Ok(planned) => PlannerResult::Planned(planned),
            Err((left, right)) => PlannerResult::Original(RawBinaryExpr { op: raw, left, right }),
        })
    }

    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(super::datetime::extract(args)))
    }
}

/// DataFusion's operators that numerics have as well.
fn operator(op: &BinaryOperator) -> Option<Operator> {
    Some(match op {
        BinaryOperator::Plus => Operator::Plus,
        BinaryOperator::Minus => Operator::Minus,
        BinaryOperator::Multiply => Operator::Multiply,
        BinaryOperator::Divide => Operator::Divide,
        BinaryOperator::Modulo => Operator::Modulo,
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        BinaryOperator::StringConcat => Operator::StringConcat,
        _ => return None,
    })
}

/// Operands of two types, of which one becomes the other's.
fn compared(expr: RawBinaryExpr, left: &DataType, right: &DataType) -> RawBinaryExpr {
    let RawBinaryExpr { op, left: a, right: b } = expr;
    let (a, b) = match (left, right) {
        (DataType::Date32, DataType::Timestamp(..)) => (comparable(a, right.clone()), b),
        (DataType::Timestamp(..), DataType::Date32) => (a, comparable(b, left.clone())),
        (DataType::Timestamp(_, None), DataType::Timestamp(_, Some(_))) => (cast(a, right.clone()), b),
        (DataType::Timestamp(_, Some(_)), DataType::Timestamp(_, None)) => (a, cast(b, left.clone())),
        (DataType::Time64(_), other) if *other == TIMETZ => (cast(a, TIMETZ), b),
        (other, DataType::Time64(_)) if *other == TIMETZ => (a, cast(b, TIMETZ)),
        (of, text) if text.is_string() && exact(of).is_some() => (a, as_type(b, of)),
        (text, of) if text.is_string() && exact(of).is_some() => (as_type(a, of), b),
        (own, other) if super::network::converts(own, other) => super::network::compared(a, b, (own, other)),
        (DataType::FixedSizeBinary(16), text) if text.is_string() => (a, as_uuid(b)),
        (text, DataType::FixedSizeBinary(16)) if text.is_string() => (as_uuid(a), b),
        _ => (a, b),
    };
    RawBinaryExpr { op, left: a, right: b }
}

/// A string constant beside a value of a type is of that type.
fn as_type(expr: Expr, of: &DataType) -> Expr {
    match expr {
        Expr::Literal(..) => cast(expr, of.clone()),
        other => other,
    }
}

/// `uuid = '...'`: the string constant is a uuid.
fn as_uuid(expr: Expr) -> Expr {
    if !matches!(expr, Expr::Literal(..)) {
        return expr;
    }
    as_value(expr, SqlType::Uuid)
}

/// A literal as a value of a type.
fn as_value(literal: Expr, of: SqlType) -> Expr {
    Expr::Cast(Cast::new_from_field(Box::new(literal), Arc::new(of.field("", true))))
}

pub(crate) fn planner() -> Arc<dyn ExprPlanner> {
    Arc::new(PostgresOperators)
}

/// DataFusion's ranks and row numbers have no sign, where PostgreSQL's are bigint.
fn signed(expr: Expr, of: Option<DataType>) -> Expr {
    match of {
        Some(DataType::UInt64) => cast(expr, DataType::Int64),
        _ => expr,
    }
}
