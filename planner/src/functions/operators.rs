//! Operators on numerics, dates, timestamps and intervals, with PostgreSQL's result types.

use crate::semantics::resolve;
use datafusion::arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, TableReference};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;

const STAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

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
            (DataType::Struct(_) | DataType::Map(..), _) | (_, []) => Ok(PlannerResult::Original(Vec::new())),
            (_, [name, ..]) => {
                let table = TableReference::bare(field.name().as_str());
                Ok(PlannerResult::Planned(Expr::Column(Column::new(Some(table), name))))
            }
        }
    }

    fn plan_substring(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(super::text::substring().call(args)))
    }

    fn plan_position(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(super::text::strpos().call(args)))
    }

    fn plan_overlay(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(super::text::overlay().call(args)))
    }

    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        // Asking a long conjunction for its type at each of its ANDs would take time by the square of its length.
        if matches!(expr.op, BinaryOperator::And | BinaryOperator::Or) {
            return Ok(PlannerResult::Original(expr));
        }
        let expr = {
            let (left, right) = resolve::operands(&expr.op, expr.left, expr.right, schema)?;
            RawBinaryExpr {
                op: expr.op,
                left,
                right,
            }
        };
        if let Some(planned) = super::regex::operator(&expr, schema)? {
            return Ok(PlannerResult::Planned(planned));
        }
        let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
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
        let numerics = match expr.op {
            BinaryOperator::Divide => super::numeric::quotient(&expr.left, &expr.right, (&left, &right)),
            BinaryOperator::Multiply => super::numeric::widened_factor(&expr.left, (&left, &right))
                .map(|wide| binary(wide, Operator::Multiply, expr.right.clone())),
            _ => None,
        };
        if let Some(planned) = numerics {
            return Ok(PlannerResult::Planned(planned));
        }
        let planned = match (&expr.op, &left, &right) {
            (BinaryOperator::Plus, DataType::Date32, number) if number.is_integer() => {
                days(expr.left, Operator::Plus, expr.right)
            }
            (BinaryOperator::Plus, number, DataType::Date32) if number.is_integer() => {
                days(expr.right, Operator::Plus, expr.left)
            }
            (BinaryOperator::Minus, DataType::Date32, number) if number.is_integer() => {
                days(expr.left, Operator::Minus, expr.right)
            }
            (BinaryOperator::Minus, DataType::Date32, DataType::Date32) => binary(
                cast(expr.left, DataType::Int32),
                Operator::Minus,
                cast(expr.right, DataType::Int32),
            ),
            (BinaryOperator::Plus, DataType::Date32, DataType::Interval(_)) => {
                binary(cast(expr.left, STAMP), Operator::Plus, expr.right)
            }
            (BinaryOperator::Plus, DataType::Interval(_), DataType::Date32) => {
                binary(cast(expr.right, STAMP), Operator::Plus, expr.left)
            }
            (BinaryOperator::Minus, DataType::Date32, DataType::Interval(_)) => {
                binary(cast(expr.left, STAMP), Operator::Minus, expr.right)
            }
            (BinaryOperator::Plus, DataType::Date32, DataType::Time64(_)) => {
                let micros = DataType::Time64(TimeUnit::Microsecond);
                let day = cast(cast(expr.left, STAMP), DataType::Int64);
                let time = cast(cast(expr.right, micros), DataType::Int64);
                cast(binary(day, Operator::Plus, time), STAMP)
            }
            (BinaryOperator::Minus, a, b) if is_time_point(a) && is_time_point(b) => {
                super::datetime::difference().call(vec![expr.left, expr.right])
            }
            (BinaryOperator::Multiply, DataType::Interval(_), number) if number.is_numeric() => {
                super::datetime::scaled().call(vec![expr.left, cast(expr.right, DataType::Float64)])
            }
            (BinaryOperator::Multiply, number, DataType::Interval(_)) if number.is_numeric() => {
                super::datetime::scaled().call(vec![expr.right, cast(expr.left, DataType::Float64)])
            }
            (BinaryOperator::Divide, DataType::Interval(_), number) if number.is_numeric() => {
                let one = Expr::Literal(ScalarValue::Float64(Some(1.0)), None);
                let factor = binary(one, Operator::Divide, cast(expr.right, DataType::Float64));
                super::datetime::scaled().call(vec![expr.left, factor])
            }
            (BinaryOperator::Custom(op), ..) => {
                let types = (resolve::known(&expr.left, schema), resolve::known(&expr.right, schema));
                return Err(resolve::undefined(op, types.0, types.1));
            }
            _ => return Ok(PlannerResult::Original(expr)),
        };
        Ok(PlannerResult::Planned(planned))
    }
}

fn is_time_point(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(..) | DataType::Date32)
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

fn days(date: Expr, op: Operator, count: Expr) -> Expr {
    cast(
        binary(cast(date, DataType::Int32), op, cast(count, DataType::Int32)),
        DataType::Date32,
    )
}

/// `date < date + interval '1 month'`: the sum is a timestamp, but as long as the interval has no time of day, comparing
/// dates gives the same answer and lets zone maps work.
fn compared(expr: RawBinaryExpr, left: &DataType, right: &DataType) -> RawBinaryExpr {
    let RawBinaryExpr { op, left: a, right: b } = expr;
    let (a, b) = match (left, right) {
        (DataType::Date32, DataType::Timestamp(_, None)) => (a, as_date(b)),
        (DataType::Timestamp(_, None), DataType::Date32) => (as_date(a), b),
        (DataType::FixedSizeBinary(16), text) if text.is_string() => (a, as_uuid(b)),
        (text, DataType::FixedSizeBinary(16)) if text.is_string() => (as_uuid(a), b),
        _ => (a, b),
    };
    RawBinaryExpr { op, left: a, right: b }
}

/// `uuid = '...'`: the string constant is a uuid.
fn as_uuid(expr: Expr) -> Expr {
    if !matches!(expr, Expr::Literal(..)) {
        return expr;
    }
    let field = Arc::new(tenon_storage::SqlType::Uuid.field("", true));
    Expr::Cast(Cast::new_from_field(Box::new(expr), field))
}

fn as_date(expr: Expr) -> Expr {
    match expr {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: op @ (Operator::Plus | Operator::Minus),
            right,
        }) => match (*left, *right) {
            (Expr::Cast(promoted), right) if *promoted.field.data_type() == STAMP && is_whole_days(&right) => {
                binary(*promoted.expr, op, right)
            }
            (left, right) => binary(left, op, right),
        },
        other => other,
    }
}

/// An interval constant without a time of day.
fn is_whole_days(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(value)), _) => value.nanoseconds == 0,
        Expr::Cast(cast) if matches!(cast.field.data_type(), DataType::Interval(_)) => match cast.expr.as_ref() {
            Expr::Literal(text, _) => text.try_as_str().flatten().is_some_and(|text| {
                tenon_storage::parse::parse_interval(text.as_bytes()).is_ok_and(|value| value.nanoseconds == 0)
            }),
            _ => false,
        },
        _ => false,
    }
}

/// The interval type of this server.
pub(super) const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

pub(crate) fn planner() -> Arc<dyn ExprPlanner> {
    Arc::new(PostgresOperators)
}
