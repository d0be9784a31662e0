//! The operands of an operator.

use super::{Group, group, is_unknown, name, open, typed};
use crate::pg::error::{SqlError, SqlState, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::functions::string;
use datafusion::logical_expr::{Expr, cast, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use tenon_storage::SqlType;

/// The operands with types for their literals; 42883 where no operator takes them together. `types` are those of operands
/// that are no literals of unknown type.
pub(crate) fn operands(
    op: &BinaryOperator,
    left: Expr,
    right: Expr,
    types: (Option<SqlType>, Option<SqlType>),
) -> Result<(Expr, Expr)> {
    let (left, right) = match types {
        (None, Some(of)) => (told(op, left, of, false), right),
        (Some(of), None) => (left, told(op, right, of, true)),
        (None, None) if *op == BinaryOperator::StringConcat && open::is_open(&left) && open::is_open(&right) => {
            (open::told(left, SqlType::Text), open::told(right, SqlType::Text))
        }
        _ => (left, right),
    };
    let is_float = |of: Option<SqlType>| matches!(of, Some(SqlType::Float4 | SqlType::Float8));
    if *op == BinaryOperator::Modulo && (is_float(types.0) || is_float(types.1)) {
        return Err(undefined(&shown(op), types.0, types.1));
    }
    Ok(match (is_unknown(&left), is_unknown(&right)) {
        (true, true) if is_arithmetic(op) => return Err(ambiguous(op, None, None)),
        (true, true) if *op == BinaryOperator::StringConcat => (cast(left, DataType::Utf8View), right),
        (true, true) => (left, right),
        (true, false) if *op == BinaryOperator::Plus && is_open(types.1) && !is_null(&left) => {
            return Err(ambiguous(op, None, types.1));
        }
        (true, false) => match types.1 {
            Some(of) if *op == BinaryOperator::StringConcat && is_shown(of) => {
                (left, shown_beside(right, Some(of), Some(SqlType::Text)))
            }
            of => match of.and_then(|of| wanted(op, of, false)) {
                Some(to) => (typed(left, to), right),
                None => (left, right),
            },
        },
        (false, true) if *op == BinaryOperator::Plus && is_open(types.0) && !is_null(&right) => {
            return Err(ambiguous(op, types.0, None));
        }
        (false, true) => match types.0 {
            Some(of) if *op == BinaryOperator::StringConcat && is_shown(of) => {
                (shown_beside(left, Some(of), Some(SqlType::Text)), right)
            }
            of => match of.and_then(|of| wanted(op, of, true)) {
                Some(to) => (left, typed(right, to)),
                None => (left, right),
            },
        },
        (false, false) => {
            if let (Some(a), Some(b)) = types
                && !meet(op, a, b)
            {
                return Err(undefined(&shown(op), types.0, types.1));
            }
            match op {
                op if is_comparison(op) => (blankless(left, types.0, types.1), blankless(right, types.1, types.0)),
                BinaryOperator::StringConcat => (
                    shown_beside(left, types.0, types.1),
                    shown_beside(right, types.1, types.0),
                ),
                _ => (left, right),
            }
        }
    })
}

/// An operand that is a parameter without a type has the type that a literal would have there, beside strings that of texts.
fn told(op: &BinaryOperator, operand: Expr, beside: SqlType, is_right: bool) -> Expr {
    let wanted = match op {
        BinaryOperator::StringConcat if is_shown(beside) || group(beside) == Group::String => Some(SqlType::Text),
        op => wanted(op, beside, is_right),
    };
    match wanted {
        // They have no operators of their own.
        Some(SqlType::Varchar | SqlType::VarcharOf(_)) => open::told(operand, SqlType::Text),
        Some(of) => open::told(operand, of),
        None => operand,
    }
}

/// Types that have no concatenation of their own.
fn is_shown(of: SqlType) -> bool {
    !matches!(group(of), Group::String | Group::Bytea | Group::Jsonb | Group::Bits)
}

/// A varchar beside a `char(n)` is compared as one.
fn blankless(expr: Expr, own: Option<SqlType>, other: Option<SqlType>) -> Expr {
    match (own, other) {
        (Some(SqlType::Varchar | SqlType::VarcharOf(_)), Some(SqlType::CharOf(_) | SqlType::Bpchar)) => {
            string::rtrim().call(vec![expr, lit(" ")])
        }
        _ => expr,
    }
}

/// What stands beside a string in a concatenation is the text of its value.
fn shown_beside(expr: Expr, own: Option<SqlType>, other: Option<SqlType>) -> Expr {
    match (own.map(group), other.map(group)) {
        (Some(own), Some(Group::String)) if own != Group::String => cast(expr, DataType::Utf8View),
        _ => expr,
    }
}

/// What a literal becomes beside an operand of a type.
fn wanted(op: &BinaryOperator, beside: SqlType, is_left: bool) -> Option<SqlType> {
    let number = group(beside) == Group::Number;
    let integer = matches!(beside, SqlType::Int2 | SqlType::Int4 | SqlType::Int8);
    match (group(beside), op) {
        // A network stands beside addresses.
        (Group::Network, BinaryOperator::Plus) => return Some(SqlType::Int8),
        (Group::Network, op) if is_comparison(op) || is_of_networks(op) => return Some(SqlType::Inet),
        // Ranges stand beside ranges, what is an element says so.
        (Group::Range(_) | Group::Multirange(_), op) if *op != BinaryOperator::StringConcat => return Some(beside),
        (Group::Interface, BinaryOperator::BitwiseAnd | BinaryOperator::BitwiseOr) => return Some(beside),
        _ => {}
    }
    match op {
        op if is_comparison(op) => Some(beside),
        BinaryOperator::Plus => match beside {
            SqlType::Timestamp | SqlType::TimestampTz | SqlType::Time | SqlType::TimeTz | SqlType::Interval => {
                Some(SqlType::Interval)
            }
            _ => number.then_some(beside),
        },
        BinaryOperator::Minus if beside == SqlType::TimeTz && is_left => Some(SqlType::Interval),
        BinaryOperator::Minus => {
            let spans = matches!(group(beside), Group::Moment | Group::Time | Group::Interval);
            (number || spans).then_some(beside)
        }
        BinaryOperator::Multiply | BinaryOperator::Divide => match beside {
            SqlType::Interval if is_left || *op == BinaryOperator::Multiply => Some(SqlType::Float8),
            _ => number.then_some(beside),
        },
        BinaryOperator::Modulo => number.then_some(beside),
        BinaryOperator::PGExp => match beside {
            SqlType::Numeric | SqlType::NumericOf(..) | SqlType::NumericWide(..) => Some(beside),
            _ => number.then_some(SqlType::Float8),
        },
        BinaryOperator::BitwiseAnd | BinaryOperator::BitwiseOr | BinaryOperator::PGBitwiseXor => {
            (integer || group(beside) == Group::Bits).then_some(beside)
        }
        BinaryOperator::PGBitwiseShiftLeft | BinaryOperator::PGBitwiseShiftRight if is_left => {
            (integer || group(beside) == Group::Bits).then_some(SqlType::Int4)
        }
        BinaryOperator::StringConcat => (beside == SqlType::Bytea || group(beside) == Group::Bits).then_some(beside),
        _ => None,
    }
}

/// Whether an operator takes these together.
fn meet(op: &BinaryOperator, a: SqlType, b: SqlType) -> bool {
    let (left, right) = (group(a), group(b));
    if is_comparison(op) {
        return left != Group::Json
            && (left == right
                || matches!(
                    (left, right),
                    (Group::Time, Group::Interval) | (Group::Interval, Group::Time)
                ));
    }
    let is_range = |of: SqlType| of.is_range();
    if is_arithmetic(op) && (is_range(a) || is_range(b)) {
        // What they are to each other is looked at where their operators are planned.
        return true;
    }
    if is_arithmetic(op)
        && [left, right]
            .iter()
            .any(|of| matches!(of, Group::Network | Group::Interface))
    {
        let integer = |of| matches!(of, SqlType::Int2 | SqlType::Int4 | SqlType::Int8);
        return match op {
            BinaryOperator::Plus => integer(a) || integer(b),
            BinaryOperator::Minus if integer(b) => left == Group::Network,
            BinaryOperator::BitwiseAnd | BinaryOperator::BitwiseOr => left == right,
            op => left == Group::Network && right == Group::Network && is_of_networks(op),
        };
    }
    if is_arithmetic(op) && (left == Group::Bits || right == Group::Bits) {
        return match op {
            BinaryOperator::BitwiseAnd | BinaryOperator::BitwiseOr | BinaryOperator::PGBitwiseXor => left == right,
            BinaryOperator::PGBitwiseShiftLeft | BinaryOperator::PGBitwiseShiftRight => {
                matches!(b, SqlType::Int2 | SqlType::Int4)
            }
            _ => false,
        };
    }
    if is_arithmetic(op) {
        if left == Group::Jsonb {
            return true;
        }
        // Only to dates are days added.
        let spans = |of| of != SqlType::Date && matches!(group(of), Group::Moment | Group::Time | Group::Interval);
        let sum = matches!(op, BinaryOperator::Plus | BinaryOperator::Minus);
        if sum && ((spans(a) && right == Group::Number) || (left == Group::Number && spans(b))) {
            return false;
        }
        let never = |of| {
            matches!(
                of,
                Group::String
                    | Group::Bool
                    | Group::Bytea
                    | Group::Uuid
                    | Group::Json
                    | Group::Address
                    | Group::Enum(_)
            )
        };
        return !never(left) && !never(right);
    }
    match op {
        BinaryOperator::StringConcat => {
            left == Group::String
                || right == Group::String
                || (left == right && matches!(left, Group::Bytea | Group::Jsonb | Group::Bits))
        }
        _ => true,
    }
}

/// Operators that take two addresses, beside comparisons.
fn is_of_networks(op: &BinaryOperator) -> bool {
    match op {
        BinaryOperator::Minus
        | BinaryOperator::BitwiseAnd
        | BinaryOperator::BitwiseOr
        | BinaryOperator::PGBitwiseShiftLeft
        | BinaryOperator::PGBitwiseShiftRight
        | BinaryOperator::PGOverlap => true,
        BinaryOperator::Custom(op) => matches!(op.as_str(), "<<=" | ">>="),
        _ => false,
    }
}

pub(super) fn is_comparison(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
    )
}

fn is_arithmetic(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Modulo
            | BinaryOperator::PGExp
            | BinaryOperator::BitwiseAnd
            | BinaryOperator::BitwiseOr
            | BinaryOperator::PGBitwiseXor
            | BinaryOperator::PGBitwiseShiftLeft
            | BinaryOperator::PGBitwiseShiftRight
    )
}

fn shown(op: &BinaryOperator) -> String {
    match op {
        BinaryOperator::PGExp => "^".into(),
        other => other.to_string(),
    }
}

/// "operator does not exist".
pub(crate) fn undefined(op: &str, left: Option<SqlType>, right: Option<SqlType>) -> DataFusionError {
    let message = format!("operator does not exist: {} {op} {}", name(left), name(right));
    to_datafusion(
        SqlError::new(state::UNDEFINED_FUNCTION, message)
            .hint("No operator matches the given name and argument types. You might need to add explicit type casts."),
    )
}

/// The same of an operator before its operand.
pub(crate) fn undefined_prefix(op: &str, operand: &str) -> DataFusionError {
    let message = format!("operator does not exist: {op} {operand}");
    to_datafusion(
        SqlError::new(state::UNDEFINED_FUNCTION, message)
            .hint("No operator matches the given name and argument type. You might need to add an explicit type cast."),
    )
}

/// Types to which several things can be added, so that a literal could be any of them.
fn is_open(of: Option<SqlType>) -> bool {
    of == Some(SqlType::Date)
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.is_null())
}

fn ambiguous(op: &BinaryOperator, left: Option<SqlType>, right: Option<SqlType>) -> DataFusionError {
    let message = format!("operator is not unique: {} {} {}", name(left), shown(op), name(right));
    to_datafusion(
        SqlError::new(SqlState("42725"), message)
            .hint("Could not choose a best candidate operator. You might need to add explicit type casts."),
    )
}
