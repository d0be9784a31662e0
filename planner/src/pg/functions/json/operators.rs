//! Which operator on json is which function.

use super::typed::ordered;
use super::{is_json, is_jsonb};
use crate::pg::error::{SqlError, SqlState};
use crate::pg::errors::to_datafusion;
use crate::pg::functions::nested::{is_unknown, no_operator};
use crate::pg::semantics::{fields, resolve};
use datafusion::arrow::datatypes::Field;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, ScalarUDF};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::{Arc, LazyLock};
use tenon_storage::SqlType;

fn call(name: &str, left: &Expr, right: &Expr) -> Option<Expr> {
    static ALL: LazyLock<Vec<Arc<ScalarUDF>>> =
        LazyLock::new(|| super::functions().into_iter().map(Arc::new).collect());
    let function = ALL.iter().find(|function| function.name() == name)?;
    Some(function.call(vec![left.clone(), right.clone()]))
}

/// A literal before an operator that jsonb alone has, or alone before texts, is a jsonb.
pub(in crate::pg::functions) fn with_literal(mut expr: RawBinaryExpr, schema: &DFSchema) -> RawBinaryExpr {
    use BinaryOperator as Op;
    if !resolve::is_unknown(&expr.left) {
        return expr;
    }
    let before_texts = || {
        let field = fields::field(&expr.right, schema).ok();
        let of = field.and_then(|field| SqlType::from_field(&field));
        !resolve::is_unknown(&expr.right)
            && match of {
                Some(SqlType::Array(items)) => resolve::is_text(items.element()),
                Some(of) => resolve::is_text(of),
                None => false,
            }
    };
    let reads = match expr.op {
        Op::Question | Op::QuestionPipe | Op::QuestionAnd | Op::AtQuestion | Op::HashMinus => true,
        Op::Minus => before_texts(),
        _ => false,
    };
    if reads {
        let field = Arc::new(SqlType::Jsonb.field("", true));
        expr.left = Expr::Cast(Cast::new_from_field(Box::new(expr.left), field));
    }
    expr
}

pub(in crate::pg::functions) fn plan(expr: &RawBinaryExpr, left: &Field, right: &Field) -> Result<Option<Expr>> {
    use BinaryOperator as Op;
    let RawBinaryExpr { op, left: a, right: b } = expr;
    let (jsonb, text) = (is_jsonb(left), left.data_type().is_string());
    let number = right.data_type().is_integer();
    let unclear = || {
        let message = format!("operator is not unique: unknown {op} unknown");
        to_datafusion(SqlError::new(SqlState("42725"), message))
    };
    let undefined = || no_operator(op, left, right);
    let takes = |field: &Field, expr: &Expr| {
        is_jsonb(field) || is_unknown(expr) || field.data_type().is_null() || matches!(expr, Expr::Placeholder(_))
    };
    let planned = match op {
        Op::Arrow | Op::LongArrow | Op::HashArrow | Op::HashLongArrow => {
            if !text {
                return if left.data_type().is_null() {
                    Ok(None)
                } else {
                    Err(undefined())
                };
            }
            if is_unknown(a) {
                return Err(unclear());
            }
            let name = match (op, number) {
                (Op::Arrow, true) => "json_array_element",
                (Op::Arrow, false) => "json_object_field",
                (Op::LongArrow, true) => "json_array_element_text",
                (Op::LongArrow, false) => "json_object_field_text",
                (Op::HashArrow, _) => "json_at_path",
                _ => "json_at_path_text",
            };
            call(name, a, b)
        }
        Op::AtArrow | Op::ArrowAt if (jsonb || is_jsonb(right)) && !(takes(left, a) && takes(right, b)) => {
            return Err(undefined());
        }
        Op::AtArrow if jsonb || is_jsonb(right) => call("jsonb_contains", a, b),
        Op::ArrowAt if jsonb || is_jsonb(right) => call("jsonb_contained", a, b),
        Op::Question if jsonb => call("jsonb_exists", a, b),
        Op::QuestionPipe if jsonb => call("jsonb_exists_any", a, b),
        Op::QuestionAnd if jsonb => call("jsonb_exists_all", a, b),
        Op::AtQuestion if jsonb => call("jsonb_path_exists_opr", a, b),
        Op::AtAt if jsonb => call("jsonb_path_match_opr", a, b),
        Op::StringConcat if (jsonb && (is_jsonb(right) || is_unknown(b))) || (is_jsonb(right) && is_unknown(a)) => {
            call("jsonb_concat", a, b)
        }
        Op::Minus if jsonb && number => call("jsonb_delete_element", a, b),
        Op::Minus if jsonb && right.data_type().is_string() => call("jsonb_delete_key", a, b),
        Op::HashMinus if jsonb => call("jsonb_delete_path", a, b),
        Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq => {
            let (one, other) = (jsonb || is_json(left), is_jsonb(right) || is_json(right));
            if !one && !other {
                return Ok(None);
            }
            let comparable = |field: &Field, expr: &Expr| is_jsonb(field) || is_unknown(expr);
            if !comparable(left, a) || !comparable(right, b) {
                return Err(undefined());
            }
            let op = match op {
                Op::Eq => Operator::Eq,
                Op::NotEq => Operator::NotEq,
                Op::Lt => Operator::Lt,
                Op::LtEq => Operator::LtEq,
                Op::Gt => Operator::Gt,
                _ => Operator::GtEq,
            };
            let [a, b] = [a, b].map(|operand| Box::new(ordered(operand.clone())));
            Some(Expr::BinaryExpr(BinaryExpr::new(a, op, b)))
        }
        _ => None,
    };
    Ok(planned)
}

/// Operators between json and an array of text.
pub(in crate::pg::functions) fn with_texts(expr: &RawBinaryExpr, left: &Field) -> Option<Expr> {
    let name = match expr.op {
        BinaryOperator::HashArrow => "json_at_path",
        BinaryOperator::HashLongArrow => "json_at_path_text",
        _ if !is_jsonb(left) => return None,
        BinaryOperator::Minus => "jsonb_delete_keys",
        BinaryOperator::HashMinus => "jsonb_delete_path",
        BinaryOperator::QuestionPipe => "jsonb_exists_any",
        BinaryOperator::QuestionAnd => "jsonb_exists_all",
        _ => return None,
    };
    left.data_type()
        .is_string()
        .then(|| call(name, &expr.left, &expr.right))?
}
