//! Bit strings: their operators, functions and casts. `~` of integers and addresses too, which has the same sign.

use super::network;
use super::row::Kind::{Bits, Int8, VarBits};
use super::row::{Out, Value, bits, int, of, row_function};
use super::text::{cut, negative_length};
use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::errors::to_datafusion;
use crate::pg::semantics::resolve;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int16Type, Int32Type, Int64Type};
use datafusion::common::{Result as DataFusionResult, ScalarValue};
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, binary_expr,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::bits::{self as strings, BITS, character};
use tenon_storage::network::{CIDR, INET, array as addresses};

/// `~`, under a name that no client can write.
pub(crate) const COMPLEMENT: &str = "\u{1}~";

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![Complement::udf()]
}

fn mismatch(what: &str) -> SqlError {
    let message = format!("cannot {what} bit strings of different sizes");
    SqlError::new(SqlState("22026"), message)
}

/// Two bit strings of one length, bit by bit.
pub(super) fn joined(a: &[u8], b: &[u8], what: &str, join: fn(u8, u8) -> u8) -> Result<Vec<u8>> {
    if a.len() != b.len() {
        return Err(mismatch(what));
    }
    Ok(a.iter()
        .zip(b)
        .map(|(a, b)| character(join(a & 1, b & 1) == 1))
        .collect())
}

fn and(values: &[Value]) -> Result<Out> {
    joined(bits(values, 0), bits(values, 1), "AND", |a, b| a & b).map(Out::Bytes)
}

fn or(values: &[Value]) -> Result<Out> {
    joined(bits(values, 0), bits(values, 1), "OR", |a, b| a | b).map(Out::Bytes)
}

fn xor(values: &[Value]) -> Result<Out> {
    joined(bits(values, 0), bits(values, 1), "XOR", |a, b| a ^ b).map(Out::Bytes)
}

/// Zeros come in at one end for each bit that leaves at the other.
fn shifted(all: &[u8], left: i64) -> Vec<u8> {
    let by = usize::try_from(left.unsigned_abs()).map_or(all.len(), |by| by.min(all.len()));
    let zeros = vec![b'0'; by];
    match left >= 0 {
        true => [&all[by..], &zeros].concat(),
        false => [&zeros, &all[..all.len() - by]].concat(),
    }
}

fn shift_left(values: &[Value]) -> Result<Out> {
    Ok(Out::Bytes(shifted(bits(values, 0), int(values, 1, 0))))
}

fn shift_right(values: &[Value]) -> Result<Out> {
    Ok(Out::Bytes(shifted(bits(values, 0), -int(values, 1, 0))))
}

fn concat(values: &[Value]) -> Result<Out> {
    let all = [bits(values, 0), bits(values, 1)].concat();
    if all.len() > strings::BITS_MAX as usize {
        let message = format!("bit string length exceeds the maximum allowed ({})", strings::BITS_MAX);
        return Err(SqlError::new(state::PROGRAM_LIMIT_EXCEEDED, message));
    }
    Ok(Out::Bytes(all))
}

/// A shift of a smallint, which stays one: what passes its sixteen bits is lost.
pub(super) fn small_shift(expr: &RawBinaryExpr, left: &DataType, right: &DataType) -> Option<Expr> {
    if *left != DataType::Int16 || !matches!(right, DataType::Int16 | DataType::Int32) {
        return None;
    }
    let wide = |expr: Expr| Expr::Cast(Cast::new(Box::new(expr), DataType::Int32));
    let by = |op, value, bits| binary_expr(value, op, bits);
    let half = || Expr::Literal(ScalarValue::Int32(Some(16)), None);
    let (value, bits) = (wide(expr.left.clone()), wide(expr.right.clone()));
    let shifted = match expr.op {
        BinaryOperator::PGBitwiseShiftLeft => {
            let all = by(Operator::BitwiseShiftLeft, value, bits);
            by(
                Operator::BitwiseShiftRight,
                by(Operator::BitwiseShiftLeft, all, half()),
                half(),
            )
        }
        BinaryOperator::PGBitwiseShiftRight => by(Operator::BitwiseShiftRight, value, bits),
        _ => return None,
    };
    Some(Expr::Cast(Cast::new(Box::new(shifted), DataType::Int16)))
}

/// The call that an operator of bit strings is.
pub(super) fn operator(expr: &RawBinaryExpr, left: &DataType, right: &DataType) -> Option<Expr> {
    if *left != BITS {
        return None;
    }
    let both = *right == BITS;
    let function = match &expr.op {
        BinaryOperator::BitwiseAnd if both => row_function("\u{1}bits_and", vec![of(&[Bits, Bits], Bits, and)]),
        BinaryOperator::BitwiseOr if both => row_function("\u{1}bits_or", vec![of(&[Bits, Bits], Bits, or)]),
        BinaryOperator::PGBitwiseXor if both => row_function("\u{1}bits_xor", vec![of(&[Bits, Bits], Bits, xor)]),
        BinaryOperator::StringConcat if both => row_function("\u{1}bits_cat", vec![of(&[Bits, Bits], VarBits, concat)]),
        BinaryOperator::PGBitwiseShiftLeft if right.is_integer() => {
            row_function("\u{1}bits_shl", vec![of(&[Bits, Int8], Bits, shift_left)])
        }
        BinaryOperator::PGBitwiseShiftRight if right.is_integer() => {
            row_function("\u{1}bits_shr", vec![of(&[Bits, Int8], Bits, shift_right)])
        }
        _ => return None,
    };
    Some(Arc::new(function).call(vec![expr.left.clone(), expr.right.clone()]))
}

pub(super) fn substring(values: &[Value]) -> Result<Out> {
    let (all, start) = (bits(values, 0), int(values, 1, 1));
    let end = match values.get(2) {
        Some(_) if int(values, 2, 0) < 0 => return Err(negative_length()),
        Some(_) => start + int(values, 2, 0),
        None => i64::MAX,
    };
    let within = |at: i64| (at.max(1) as usize - 1).min(all.len());
    Ok(Out::Bytes(all[within(start)..within(end.max(start))].to_vec()))
}

pub(super) fn overlay(values: &[Value]) -> Result<Out> {
    let (all, placed) = (bits(values, 0), bits(values, 1));
    let (before, behind) = cut(int(values, 2, 1), int(values, 3, placed.len() as i64))?;
    let (head, tail) = (&all[..before.min(all.len())], &all[behind.min(all.len())..]);
    Ok(Out::Bytes([head, placed, tail].concat()))
}

/// Where one is first in another; 0 where it is not, also where the other is empty.
pub(super) fn position(values: &[Value]) -> Result<Out> {
    let (all, part) = (bits(values, 0), bits(values, 1));
    if all.is_empty() || part.len() > all.len() {
        return Ok(Out::Int(0));
    }
    if part.is_empty() {
        return Ok(Out::Int(1));
    }
    let found = all.windows(part.len()).position(|own| own == part);
    Ok(Out::Int(found.map_or(0, |at| at as i64 + 1)))
}

pub(super) fn length(values: &[Value]) -> Result<Out> {
    Ok(Out::Int(bits(values, 0).len() as i64))
}

pub(super) fn octet_length(values: &[Value]) -> Result<Out> {
    Ok(Out::Int(bits(values, 0).len().div_ceil(8) as i64))
}

pub(super) fn bit_count(values: &[Value]) -> Result<Out> {
    Ok(Out::Int(
        bits(values, 0).iter().filter(|bit| **bit == b'1').count() as i64
    ))
}

fn index(values: &[Value]) -> Result<usize> {
    let (index, count) = (int(values, 1, 0), bits(values, 0).len());
    usize::try_from(index).ok().filter(|at| *at < count).ok_or_else(|| {
        let message = format!("bit index {index} out of valid range (0..{})", count as i64 - 1);
        SqlError::new(SqlState("2202E"), message)
    })
}

pub(super) fn get_bit(values: &[Value]) -> Result<Out> {
    Ok(Out::Int((bits(values, 0)[index(values)?] & 1).into()))
}

pub(super) fn set_bit(values: &[Value]) -> Result<Out> {
    let mut all = bits(values, 0).to_vec();
    let at = index(values)?;
    all[at] = match int(values, 2, 0) {
        0 => b'0',
        1 => b'1',
        _ => return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, "new bit must be 0 or 1")),
    };
    Ok(Out::Bytes(all))
}

/// A bit string as an integer, or of one, or of another length: an explicit cast.
pub(crate) fn converted(expr: Expr, to: SqlType) -> Expr {
    let function = Convert {
        to,
        signature: Signature::any(1, Volatility::Immutable),
    };
    Arc::new(ScalarUDF::new_from_impl(function)).call(vec![expr])
}

/// Whether `converted` is what a cast between these types is.
pub(crate) fn converts(from: &DataType, to: &DataType) -> bool {
    let integer = |of: &DataType| matches!(of, DataType::Int32 | DataType::Int64);
    (*from == BITS && integer(to)) || (integer(from) && *to == BITS)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Convert {
    to: SqlType,
    signature: Signature,
}

/// An integer's bits, the lowest last; what is before the integer's own is its sign.
fn of_integer(value: i64, length: usize) -> Vec<u8> {
    let bit = |at: usize| character(value >> at.min(63) & 1 == 1);
    (0..length).rev().map(bit).collect()
}

fn to_integer(bits: &[u8], width: usize) -> DataFusionResult<i64> {
    if bits.len() > width {
        let name = if width == 32 { "integer" } else { "bigint" };
        return Err(to_datafusion(SqlError::new(
            state::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("{name} out of range"),
        )));
    }
    let value = bits.iter().fold(0_u64, |value, bit| value << 1 | u64::from(bit & 1));
    Ok(if width == 32 {
        i64::from(value as u32 as i32)
    } else {
        value as i64
    })
}

impl Convert {
    fn values(&self, array: &ArrayRef) -> DataFusionResult<ArrayRef> {
        if *array.data_type() == BITS && self.to.is_bits() {
            let values = array.as_binary::<i32>().iter();
            return Ok(strings::array(
                values.map(|bits| bits.map(|bits| strings::cast(bits, self.to))),
            ));
        }
        if *array.data_type() == BITS {
            let width = if self.to == SqlType::Int4 { 32 } else { 64 };
            let values = array.as_binary::<i32>().iter();
            let values = values.map(|bits| bits.map(|bits| to_integer(bits, width)).transpose());
            let values = values.collect::<DataFusionResult<datafusion::arrow::array::Int64Array>>()?;
            return Ok(cast(&values, &self.to.data_type())?);
        }
        let length = match self.to {
            SqlType::BitOf(length) => length as usize,
            _ => 1,
        };
        let values = cast(array, &DataType::Int64)?;
        let values = values.as_primitive::<Int64Type>().iter();
        Ok(strings::array(
            values.map(|value| value.map(|value| of_integer(value, length))),
        ))
    }
}

impl ScalarUDFImpl for Convert {
    fn name(&self) -> &str {
        "\u{1}bits"
    }

    fn schema_name(&self, args: &[Expr]) -> DataFusionResult<String> {
        Ok(format!("bits({}, {})", args[0].schema_name(), self.to))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(self.to.data_type())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> DataFusionResult<FieldRef> {
        Ok(Arc::new(self.to.field(self.name(), args.arg_fields[0].is_nullable())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        of_columns(&args, |array| self.values(array))
    }
}

/// The one argument of a call by what makes an array of an array.
pub(super) fn of_columns(
    args: &ScalarFunctionArgs,
    of: impl Fn(&ArrayRef) -> DataFusionResult<ArrayRef>,
) -> DataFusionResult<ColumnarValue> {
    Ok(match &args.args[0] {
        ColumnarValue::Scalar(value) => {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&of(&value.to_array()?)?, 0)?)
        }
        ColumnarValue::Array(array) => ColumnarValue::Array(of(array)?),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Complement {
    signature: Signature,
}

impl Complement {
    fn udf() -> ScalarUDF {
        ScalarUDF::new_from_impl(Self {
            signature: Signature::user_defined(Volatility::Immutable),
        })
    }
}

impl ScalarUDFImpl for Complement {
    fn name(&self) -> &str {
        COMPLEMENT
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> DataFusionResult<Vec<DataType>> {
        match types {
            [own @ (DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Binary)] => Ok(vec![own.clone()]),
            [own] if SqlType::address_of(own).is_some() => Ok(vec![own.clone()]),
            [DataType::UInt64] => Ok(vec![DataType::Int64]),
            // Refused with its type.
            types => Ok(types.to_vec()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> DataFusionResult<DataType> {
        match types {
            [own @ (DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Binary)] => Ok(own.clone()),
            [own] if *own == CIDR => Ok(INET),
            [own] if SqlType::address_of(own).is_some() => Ok(own.clone()),
            [DataType::Null | DataType::Utf8] => Err(to_datafusion(
                SqlError::new(SqlState("42725"), "operator is not unique: ~ unknown")
                    .hint("Could not choose a best candidate operator. You might need to add explicit type casts."),
            )),
            types => {
                let own = types.first().map_or_else(String::new, crate::pg::types::type_name);
                let name = types
                    .first()
                    .and_then(SqlType::from_data_type)
                    .map_or(own, |of| of.base_name().to_string());
                Err(resolve::undefined_prefix("~", &name))
            }
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> DataFusionResult<FieldRef> {
        let own = &args.arg_fields[0];
        let returns = self.return_type(std::slice::from_ref(own.data_type()))?;
        Ok(Arc::new(Field::new(self.name(), returns, own.is_nullable())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        of_columns(&args, |array| {
            Ok(match array.data_type() {
                DataType::Int16 => Arc::new(array.as_primitive::<Int16Type>().unary::<_, Int16Type>(|value| !value)),
                DataType::Int32 => Arc::new(array.as_primitive::<Int32Type>().unary::<_, Int32Type>(|value| !value)),
                DataType::Int64 => Arc::new(array.as_primitive::<Int64Type>().unary::<_, Int64Type>(|value| !value)),
                of if SqlType::address_of(of).is_some() => {
                    let to = self.return_type(std::slice::from_ref(of))?;
                    let to = SqlType::from_data_type(&to).unwrap_or(SqlType::Inet);
                    let values = array.as_fixed_size_binary().iter();
                    let values = values.map(|bytes| bytes.map(|bytes| network::complement(bytes, of)));
                    addresses(to, values).map_err(|error| to_datafusion(error.into()))?
                }
                _ => {
                    let values = array.as_binary::<i32>().iter();
                    let turned = |bits: &[u8]| bits.iter().map(|bit| character(bit & 1 == 0)).collect::<Vec<_>>();
                    strings::array(values.map(|bits| bits.map(turned)))
                }
            })
        })
    }
}
