//! Operators of network addresses: calls under names that no client can write.

use super::super::row::Kind::{Bool, Inet, Int8, MacAddr8};
use super::super::row::{Body, Kind, Out, Value, address, int, of, row_function};
use super::{at, converted, inet, is_network};
use crate::pg::error::{Result, SqlError, state};
use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::network::{Address, CIDR, MACADDR, MACADDR8};

fn within(values: &[Value]) -> Result<Out> {
    let (a, b) = (at(values, 0), at(values, 1));
    Ok(Out::Bool(b.mask < a.mask && b.holds(a)))
}

fn within_or_equal(values: &[Value]) -> Result<Out> {
    Ok(Out::Bool(at(values, 1).holds(at(values, 0))))
}

fn holds(values: &[Value]) -> Result<Out> {
    let (a, b) = (at(values, 0), at(values, 1));
    Ok(Out::Bool(a.mask < b.mask && a.holds(b)))
}

fn holds_or_equals(values: &[Value]) -> Result<Out> {
    Ok(Out::Bool(at(values, 0).holds(at(values, 1))))
}

fn overlaps(values: &[Value]) -> Result<Out> {
    let (a, b) = (at(values, 0), at(values, 1));
    Ok(Out::Bool(a.holds(b) || b.holds(a)))
}

fn joined(values: &[Value], what: &str, join: fn(u128, u128) -> u128) -> Result<Out> {
    let (a, b) = (at(values, 0), at(values, 1));
    if a.is_v6 != b.is_v6 {
        let message = format!("cannot {what} inet values of different sizes");
        return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
    }
    inet(Address {
        bits: join(a.bits, b.bits),
        mask: a.mask.max(b.mask),
        ..a
    })
}

fn and(values: &[Value]) -> Result<Out> {
    joined(values, "AND", |a, b| a & b)
}

fn or(values: &[Value]) -> Result<Out> {
    joined(values, "OR", |a, b| a | b)
}

fn out_of_range() -> SqlError {
    SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, "result is out of range")
}

fn moved(own: Address, by: i64) -> Result<Out> {
    let by_bits = u128::from(by.unsigned_abs());
    let bits = match by >= 0 {
        true => own.bits.checked_add(by_bits),
        false => own.bits.checked_sub(by_bits),
    };
    let bits = bits.filter(|bits| *bits <= own.all_bits()).ok_or_else(out_of_range)?;
    inet(Address { bits, ..own })
}

fn plus(values: &[Value]) -> Result<Out> {
    moved(at(values, 0), int(values, 1, 0))
}

fn added(values: &[Value]) -> Result<Out> {
    moved(at(values, 1), int(values, 0, 0))
}

fn minus(values: &[Value]) -> Result<Out> {
    let by = int(values, 1, 0).checked_neg().ok_or_else(out_of_range)?;
    moved(at(values, 0), by)
}

fn difference(values: &[Value]) -> Result<Out> {
    let (a, b) = (at(values, 0), at(values, 1));
    if a.is_v6 != b.is_v6 {
        let message = "cannot subtract inet values of different sizes";
        return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
    }
    let apart = i64::try_from(a.bits.abs_diff(b.bits)).map_err(|_| out_of_range())?;
    Ok(Out::Int(if a.bits >= b.bits { apart } else { -apart }))
}

fn bytes_and(values: &[Value]) -> Result<Out> {
    let both = address(values, 0).iter().zip(address(values, 1));
    Ok(Out::Bytes(both.map(|(a, b)| a & b).collect()))
}

fn bytes_or(values: &[Value]) -> Result<Out> {
    let both = address(values, 0).iter().zip(address(values, 1));
    Ok(Out::Bytes(both.map(|(a, b)| a | b).collect()))
}

/// The call that an operator of addresses is, under a name that no client can write; or the comparison of both as one type.
pub(in crate::pg::functions) fn operator(expr: &RawBinaryExpr, left: &DataType, right: &DataType) -> Option<Expr> {
    let call = |name, takes: &'static [Kind], gives, body: Body| {
        let function = row_function(name, vec![of(takes, gives, body)]);
        Some(Arc::new(function).call(vec![expr.left.clone(), expr.right.clone()]))
    };
    let number = |of: &DataType| of.is_integer();
    if is_network(left) && is_network(right) {
        const BOTH: &[Kind] = &[Inet, Inet];
        return match &expr.op {
            BinaryOperator::PGBitwiseShiftLeft => call("\u{1}inet_sub", BOTH, Bool, within),
            BinaryOperator::PGBitwiseShiftRight => call("\u{1}inet_sup", BOTH, Bool, holds),
            BinaryOperator::PGOverlap => call("\u{1}inet_overlap", BOTH, Bool, overlaps),
            BinaryOperator::Custom(op) if op == "<<=" => call("\u{1}inet_subeq", BOTH, Bool, within_or_equal),
            BinaryOperator::Custom(op) if op == ">>=" => call("\u{1}inet_supeq", BOTH, Bool, holds_or_equals),
            BinaryOperator::BitwiseAnd => call("\u{1}inet_and", BOTH, Inet, and),
            BinaryOperator::BitwiseOr => call("\u{1}inet_or", BOTH, Inet, or),
            BinaryOperator::Minus => call("\u{1}inet_minus_inet", BOTH, Int8, difference),
            _ => None,
        };
    }
    match &expr.op {
        BinaryOperator::Plus if is_network(left) && number(right) => call("\u{1}inet_plus", &[Inet, Int8], Inet, plus),
        BinaryOperator::Plus if number(left) && is_network(right) => call("\u{1}plus_inet", &[Int8, Inet], Inet, added),
        BinaryOperator::Minus if is_network(left) && number(right) => {
            call("\u{1}inet_minus", &[Inet, Int8], Inet, minus)
        }
        op @ (BinaryOperator::BitwiseAnd | BinaryOperator::BitwiseOr) if left == right => {
            let and = *op == BinaryOperator::BitwiseAnd;
            let body = if and { bytes_and } else { bytes_or };
            match (left, and) {
                (of, true) if *of == MACADDR => {
                    call("\u{1}macaddr_and", &[Kind::MacAddr, Kind::MacAddr], Kind::MacAddr, body)
                }
                (of, false) if *of == MACADDR => {
                    call("\u{1}macaddr_or", &[Kind::MacAddr, Kind::MacAddr], Kind::MacAddr, body)
                }
                (of, true) if *of == MACADDR8 => call("\u{1}macaddr8_and", &[MacAddr8, MacAddr8], MacAddr8, body),
                (of, false) if *of == MACADDR8 => call("\u{1}macaddr8_or", &[MacAddr8, MacAddr8], MacAddr8, body),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Two types of addresses that are compared with each other: both as the one that has all values.
pub(in crate::pg::functions) fn compared(left: Expr, right: Expr, types: (&DataType, &DataType)) -> (Expr, Expr) {
    let wide = |of: &DataType| match of {
        of if *of == CIDR => Some(SqlType::Inet),
        of if *of == MACADDR => Some(SqlType::MacAddr8),
        _ => None,
    };
    match types {
        (a, b) if a == b => (left, right),
        (a, b) if wide(a).is_some_and(|to| to.data_type() == *b) => (converted(left, a), right),
        (a, b) if wide(b).is_some_and(|to| to.data_type() == *a) => (left, converted(right, b)),
        _ => (left, right),
    }
}

/// `~`: all bits of an address turned.
pub(in crate::pg::functions) fn complement(bytes: &[u8], of: &DataType) -> Vec<u8> {
    if !is_network(of) {
        return bytes.iter().map(|byte| !byte).collect();
    }
    let own = Address::from_bytes(bytes);
    let turned = Address {
        bits: !own.bits & own.all_bits(),
        ..own
    };
    turned.to_bytes(false)
}
