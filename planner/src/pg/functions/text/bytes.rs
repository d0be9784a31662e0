//! Functions of bytes.

use super::parts::{cut, negative_length};
use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::functions::row::{Out, Value, bytes, int, text};

pub(super) fn substring(values: &[Value]) -> Result<Out> {
    let (all, start) = (bytes(values, 0), int(values, 1, 1));
    let end = match values.get(2) {
        Some(_) => {
            let length = int(values, 2, 0);
            if length < 0 {
                return Err(negative_length());
            }
            start + length
        }
        None => i64::MAX,
    };
    let within = |at: i64| (at.max(1) as usize - 1).min(all.len());
    Ok(Out::Bytes(all[within(start)..within(end.max(start))].to_vec()))
}

pub(super) fn position(values: &[Value]) -> Result<Out> {
    let (all, part) = (bytes(values, 0), bytes(values, 1));
    if part.is_empty() {
        return Ok(Out::Int(1));
    }
    let found = all.windows(part.len()).position(|own| own == part);
    Ok(Out::Int(found.map_or(0, |at| at as i64 + 1)))
}

pub(super) fn overlay(values: &[Value]) -> Result<Out> {
    let (all, placed) = (bytes(values, 0), bytes(values, 1));
    let (before, behind) = cut(int(values, 2, 1), int(values, 3, placed.len() as i64))?;
    let (head, tail) = (&all[..before.min(all.len())], &all[behind.min(all.len())..]);
    Ok(Out::Bytes([head, placed, tail].concat()))
}

fn trim(values: &[Value], start: bool, end: bool) -> Result<Out> {
    let (mut all, set) = (bytes(values, 0), bytes(values, 1));
    while start && all.first().is_some_and(|byte| set.contains(byte)) {
        all = &all[1..];
    }
    while end && all.last().is_some_and(|byte| set.contains(byte)) {
        all = &all[..all.len() - 1];
    }
    Ok(Out::Bytes(all.to_vec()))
}

pub(super) fn btrim(values: &[Value]) -> Result<Out> {
    trim(values, true, true)
}

pub(super) fn ltrim(values: &[Value]) -> Result<Out> {
    trim(values, true, false)
}

pub(super) fn rtrim(values: &[Value]) -> Result<Out> {
    trim(values, false, true)
}

fn length(values: &[Value]) -> i64 {
    text(values, 0).len().max(bytes(values, 0).len()) as i64
}

pub(super) fn octet_length(values: &[Value]) -> Result<Out> {
    Ok(Out::Int(length(values)))
}

pub(super) fn bit_length(values: &[Value]) -> Result<Out> {
    Ok(Out::Int(8 * length(values)))
}

pub(super) fn bit_count(values: &[Value]) -> Result<Out> {
    Ok(Out::Int(
        bytes(values, 0).iter().map(|byte| i64::from(byte.count_ones())).sum(),
    ))
}

/// An index below a count.
fn index(values: &[Value], count: usize) -> Result<usize> {
    let index = int(values, 1, 0);
    usize::try_from(index).ok().filter(|at| *at < count).ok_or_else(|| {
        let message = format!("index {index} out of valid range, 0..{}", count as i64 - 1);
        SqlError::new(SqlState("2202E"), message)
    })
}

pub(super) fn get_byte(values: &[Value]) -> Result<Out> {
    let all = bytes(values, 0);
    Ok(Out::Int(all[index(values, all.len())?].into()))
}

pub(super) fn set_byte(values: &[Value]) -> Result<Out> {
    let mut all = bytes(values, 0).to_vec();
    let at = index(values, all.len())?;
    all[at] = int(values, 2, 0) as u8;
    Ok(Out::Bytes(all))
}

pub(super) fn get_bit(values: &[Value]) -> Result<Out> {
    let all = bytes(values, 0);
    let at = index(values, all.len() * 8)?;
    Ok(Out::Int((all[at / 8] >> (at % 8) & 1).into()))
}

pub(super) fn set_bit(values: &[Value]) -> Result<Out> {
    let mut all = bytes(values, 0).to_vec();
    let at = index(values, all.len() * 8)?;
    match int(values, 2, 0) {
        0 => all[at / 8] &= !(1 << (at % 8)),
        1 => all[at / 8] |= 1 << (at % 8),
        _ => return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, "new bit must be 0 or 1")),
    }
    Ok(Out::Bytes(all))
}
