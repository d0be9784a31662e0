//! Network addresses: their functions; `operators`, and casts between their types (`convert`).

mod convert;
mod operators;

pub(crate) use convert::{converted, converts};
pub(in crate::pg::functions) use operators::{compared, complement, operator};

use super::row::Kind::{Bool, Cidr, Inet, Int4, MacAddr8, Text};
use super::row::{Out, Value, address, int, of, row_function};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result as DataFusionResult;
use datafusion::logical_expr::ScalarUDF;
use tenon_storage::SqlType;
use tenon_storage::network::{self, Address, CIDR, INET};

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

pub(super) fn is_network(of: &DataType) -> bool {
    *of == INET || *of == CIDR
}
