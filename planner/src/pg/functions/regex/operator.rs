//! `~`, `~*`, `!~`, `!~*`, `^@` and the operator names of LIKE.

use super::functions::MATCHES;
use super::{Flags, functions, translated};
use crate::pg::errors::to_datafusion;
use crate::pg::functions::{padded, row};
use crate::pg::semantics::resolve::{is_text, known, undefined};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::Like;
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;

/// Whether the pattern may be of a text with a backslash: DataFusion would make that a LIKE, where it escapes what follows.
fn may_have_backslash(pattern: &str) -> bool {
    pattern.contains(r"\\") || pattern.to_ascii_lowercase().contains("5c")
}

/// The operator, if it is one of them; 42883 for operands that are no text.
pub(crate) fn operator(expr: &RawBinaryExpr, schema: &DFSchema) -> Result<Option<Expr>> {
    let (negated, insensitive, like) = match expr.op {
        BinaryOperator::PGRegexMatch => (false, false, false),
        BinaryOperator::PGRegexIMatch => (false, true, false),
        BinaryOperator::PGRegexNotMatch => (true, false, false),
        BinaryOperator::PGRegexNotIMatch => (true, true, false),
        BinaryOperator::PGLikeMatch => (false, false, true),
        BinaryOperator::PGILikeMatch => (false, true, true),
        BinaryOperator::PGNotLikeMatch => (true, false, true),
        BinaryOperator::PGNotILikeMatch => (true, true, true),
        BinaryOperator::PGStartsWith => {
            let arguments = vec![expr.left.clone(), expr.right.clone()];
            return Ok(Some(datafusion::functions::string::starts_with().call(arguments)));
        }
        _ => return Ok(None),
    };
    let types = (known(&expr.left, schema), known(&expr.right, schema));
    if like {
        let (left, right) = (Box::new(expr.left.clone()), Box::new(expr.right.clone()));
        return Ok(Some(Expr::Like(Like::new(negated, left, right, None, insensitive))));
    }
    if [types.0, types.1].into_iter().flatten().any(|of| !is_text(of)) {
        return Err(undefined(&expr.op.to_string(), types.0, types.1));
    }
    let left = padded(expr.left.clone(), types.0);
    let flags = Flags {
        ignore_case: insensitive,
        ..Flags::default()
    };
    if let Expr::Literal(ScalarValue::Utf8(Some(pattern)), None) = &expr.right
        && let Some(pattern) = translated(pattern, flags).map_err(to_datafusion)?
        && !may_have_backslash(&pattern)
    {
        let op = if negated {
            Operator::RegexNotMatch
        } else {
            Operator::RegexMatch
        };
        let pattern = Expr::Literal(ScalarValue::Utf8(Some(pattern)), None);
        return Ok(Some(Expr::BinaryExpr(BinaryExpr::new(
            Box::new(left),
            op,
            Box::new(pattern),
        ))));
    }
    let mut arguments = vec![left, expr.right.clone()];
    if insensitive {
        arguments.push(Expr::Literal(ScalarValue::Utf8(Some("i".into())), None));
    }
    let matched = Arc::new(row::row_function(MATCHES, functions::matching())).call(arguments);
    Ok(Some(if negated { Expr::Not(Box::new(matched)) } else { matched }))
}
