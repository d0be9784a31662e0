//! Network addresses: their functions and operators, and casts between their types.

use super::row::Kind::{Bool, Cidr, Inet, Int4, Int8, MacAddr8, Text};
use super::row::{Body, Kind, Out, Value, address, int, of, row_function};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result as DataFusionResult, ScalarValue};
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::network::{self, Address, CIDR, INET, MACADDR, MACADDR8};

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![
        row_function("host", vec![of(&[Inet], Text, host)]),
        row_function("abbrev", vec![of(&[Inet], Text, shown), of(&[Cidr], Text, abbreviated)]),
        row_function("masklen", vec![of(&[Inet], Int4, mask_length)]),
        row_function("family", vec![of(&[Inet], Int4, family)]),
        row_function("netmask", vec![of(&[Inet], Inet, netmask)]),
        row_function("hostmask", vec![of(&[Inet], Inet, hostmask)]),
        row_function("broadcast", vec![of(&[Inet], Inet, broadcast)]),
        row_function("network", vec![of(&[Inet], Cidr, network)]),
        row_function(
            "set_masklen",
            vec![
                of(&[Inet, Int4], Inet, with_mask_length),
                of(&[Cidr, Int4], Cidr, network_with_mask_length),
            ],
        ),
        row_function("inet_same_family", vec![of(&[Inet, Inet], Bool, same_family)]),
        row_function("inet_merge", vec![of(&[Inet, Inet], Cidr, merged)]),
        row_function("macaddr8_set7bit", vec![of(&[MacAddr8], MacAddr8, with_seventh_bit)]),
    ]
}

fn at(values: &[Value], at: usize) -> Address {
    Address::from_bytes(address(values, at))
}

fn inet(address: Address) -> Result<Out> {
    Ok(Out::Bytes(address.to_bytes(false)))
}

fn cidr(address: Address) -> Result<Out> {
    Ok(Out::Bytes(address.to_bytes(true)))
}

fn host(values: &[Value]) -> Result<Out> {
    Ok(Out::Text(at(values, 0).host()))
}

fn shown(values: &[Value]) -> Result<Out> {
    Ok(Out::Text(at(values, 0).to_string()))
}

/// Of IPv4 the octets that the mask covers, one at least.
fn abbreviated(values: &[Value]) -> Result<Out> {
    let own = at(values, 0);
    let host = own.host();
    if own.is_v6 {
        return Ok(Out::Text(format!("{host}/{}", own.mask)));
    }
    let covered = usize::from(own.mask.div_ceil(8).max(1));
    let octets: Vec<&str> = host.split('.').take(covered).collect();
    Ok(Out::Text(format!("{}/{}", octets.join("."), own.mask)))
}

fn mask_length(values: &[Value]) -> Result<Out> {
    Ok(Out::Int(at(values, 0).mask.into()))
}

fn family(values: &[Value]) -> Result<Out> {
    Ok(Out::Int(if at(values, 0).is_v6 { 6 } else { 4 }))
}

/// An address of the same family with a mask of all its bits.
fn of_bits(own: Address, bits: u128) -> Result<Out> {
    inet(Address {
        bits,
        mask: own.width(),
        ..own
    })
}

fn netmask(values: &[Value]) -> Result<Out> {
    let own = at(values, 0);
    of_bits(own, own.all_bits() & !own.host_bits())
}

fn hostmask(values: &[Value]) -> Result<Out> {
    let own = at(values, 0);
    of_bits(own, own.host_bits())
}

fn broadcast(values: &[Value]) -> Result<Out> {
    let own = at(values, 0);
    inet(Address {
        bits: own.bits | own.host_bits(),
        ..own
    })
}

fn network(values: &[Value]) -> Result<Out> {
    cidr(at(values, 0))
}

/// -1 is all bits.
fn masked(values: &[Value]) -> Result<Address> {
    let (own, length) = (at(values, 0), int(values, 1, -1));
    let mask = match length {
        -1 => Some(own.width()),
        length => u8::try_from(length).ok().filter(|mask| *mask <= own.width()),
    };
    let mask = mask.ok_or_else(|| {
        let message = format!("invalid mask length: {length}");
        SqlError::new(state::INVALID_PARAMETER_VALUE, message)
    })?;
    Ok(Address { mask, ..own })
}

fn with_mask_length(values: &[Value]) -> Result<Out> {
    inet(masked(values)?)
}

fn network_with_mask_length(values: &[Value]) -> Result<Out> {
    cidr(masked(values)?)
}

fn same_family(values: &[Value]) -> Result<Out> {
    Ok(Out::Bool(at(values, 0).is_v6 == at(values, 1).is_v6))
}

/// The smallest network that has both.
fn merged(values: &[Value]) -> Result<Out> {
    let (a, b) = (at(values, 0), at(values, 1));
    if a.is_v6 != b.is_v6 {
        let message = "cannot merge addresses from different families";
        return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
    }
    let same = (a.bits ^ b.bits).leading_zeros() - (128 - u32::from(a.width()));
    let mask = a.mask.min(b.mask).min(same as u8);
    cidr(Address { mask, ..a })
}

/// Addresses of interfaces with zeros behind the three bytes of the manufacturer.
pub(super) fn of_manufacturers(array: &ArrayRef) -> DataFusionResult<ArrayRef> {
    let of = SqlType::from_data_type(array.data_type()).unwrap_or(SqlType::MacAddr);
    let cut = |bytes: &[u8]| {
        let zeros = std::iter::repeat_n(0, bytes.len().saturating_sub(3));
        bytes.iter().take(3).copied().chain(zeros).collect::<Vec<_>>()
    };
    let values = array.as_fixed_size_binary().iter();
    network::array(of, values.map(|bytes| bytes.map(cut))).map_err(|error| to_datafusion(error.into()))
}

/// As IPv6 has it in addresses that are made of those of interfaces.
fn with_seventh_bit(values: &[Value]) -> Result<Out> {
    let mut bytes = address(values, 0).to_vec();
    if let Some(first) = bytes.first_mut() {
        *first |= 2;
    }
    Ok(Out::Bytes(bytes))
}

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

fn is_network(of: &DataType) -> bool {
    *of == INET || *of == CIDR
}

/// The call that an operator of addresses is, under a name that no client can write; or the comparison of both as one type.
pub(super) fn operator(expr: &RawBinaryExpr, left: &DataType, right: &DataType) -> Option<Expr> {
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
pub(super) fn compared(left: Expr, right: Expr, types: (&DataType, &DataType)) -> (Expr, Expr) {
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
pub(super) fn complement(bytes: &[u8], of: &DataType) -> Vec<u8> {
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

/// Whether a type is one of addresses.
pub(crate) fn is_address(of: &DataType) -> bool {
    is_network(of) || *of == MACADDR || *of == MACADDR8
}

/// Whether `cast` is what a cast between these types is.
pub(crate) fn converts(from: &DataType, to: &DataType) -> bool {
    from != to
        && (is_network(from) && is_network(to)
            || [MACADDR, MACADDR8].contains(from) && [MACADDR, MACADDR8].contains(to))
}

/// An address as one of the other type of its kind.
pub(crate) fn converted(expr: Expr, from: &DataType) -> Expr {
    let to = match from {
        of if *of == INET => SqlType::Cidr,
        of if *of == CIDR => SqlType::Inet,
        of if *of == MACADDR => SqlType::MacAddr8,
        _ => SqlType::MacAddr,
    };
    let function = Convert {
        to,
        signature: Signature::any(1, Volatility::Immutable),
    };
    Arc::new(ScalarUDF::new_from_impl(function)).call(vec![expr])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Convert {
    to: SqlType,
    signature: Signature,
}

impl Convert {
    fn value(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        match self.to {
            SqlType::Inet | SqlType::Cidr => Ok(Address::from_bytes(bytes).to_bytes(self.to == SqlType::Cidr)),
            SqlType::MacAddr8 => Ok(network::widened(bytes)),
            _ => match bytes {
                [a, b, c, 0xff, 0xfe, d, e, f] => Ok(vec![*a, *b, *c, *d, *e, *f]),
                _ => Err(SqlError::new(
                    state::NUMERIC_VALUE_OUT_OF_RANGE,
                    "macaddr8 data out of range to convert to macaddr",
                )
                .hint(
                    "Only addresses that have FF and FE as values in the 4th and 5th bytes from the left, for example xx:xx:xx:ff:fe:xx:xx:xx, \
                     are eligible to be converted from macaddr8 to macaddr.",
                )),
            },
        }
    }

    fn values(&self, array: &ArrayRef) -> DataFusionResult<ArrayRef> {
        let values = array.as_fixed_size_binary().iter();
        let values = values.map(|bytes| bytes.map(|bytes| self.value(bytes)).transpose());
        let values: Vec<_> = values.collect::<Result<_>>().map_err(to_datafusion)?;
        network::array(self.to, values).map_err(|error| to_datafusion(error.into()))
    }
}

impl ScalarUDFImpl for Convert {
    fn name(&self) -> &str {
        "\u{1}address"
    }

    fn schema_name(&self, args: &[Expr]) -> DataFusionResult<String> {
        Ok(format!("{}({})", self.to, args[0].schema_name()))
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
        Ok(match &args.args[0] {
            ColumnarValue::Scalar(value) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&self.values(&value.to_array()?)?, 0)?)
            }
            ColumnarValue::Array(array) => ColumnarValue::Array(self.values(array)?),
        })
    }
}
