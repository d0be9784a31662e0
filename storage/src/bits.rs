//! Bit strings (`bit`, `bit varying`): a value is its bits as the characters `0` and `1`, in an Arrow type of its own.
//! The order of such strings is PostgreSQL's order of bit strings, and each is what output functions write.

use crate::error::{ErrorKind, Result, StorageError};
use crate::parse::Invalid;
use crate::types::SqlType;
use arrow::array::{ArrayRef, AsArray, BinaryArray};
use arrow::datatypes::DataType;
use std::sync::Arc;

/// What holds bit strings. Byte strings are never of this type.
pub const BITS: DataType = DataType::Binary;
/// Longest n in `bit(n)`, as in PostgreSQL.
pub const BITS_MAX: u32 = 83_886_080;

/// The number of bits that a type's values have, or may have at most.
fn limit(of: SqlType) -> Option<usize> {
    match of {
        SqlType::BitOf(length) | SqlType::VarBitOf(length) => Some(length as usize),
        _ => None,
    }
}

/// 22026 or 22001 for bits that a type does not hold.
pub fn check_length(length: usize, of: SqlType) -> Result<()> {
    match of {
        SqlType::BitOf(wanted) if length != wanted as usize => {
            let message = format!("bit string length {length} does not match type bit({wanted})");
            Err(StorageError::new(ErrorKind::StringLengthMismatch, message))
        }
        SqlType::VarBitOf(most) if length > most as usize => {
            let message = format!("bit string too long for type bit varying({most})");
            Err(StorageError::new(ErrorKind::StringTooLong, message))
        }
        _ => Ok(()),
    }
}

/// Bits from text: binary digits, or after `x` hexadecimal ones.
pub fn parse(text: &[u8], of: SqlType) -> Result<Vec<u8>, Invalid> {
    let (digits, hex) = match text {
        [b'b' | b'B', digits @ ..] => (digits, false),
        [b'x' | b'X', digits @ ..] => (digits, true),
        digits => (digits, false),
    };
    let length = if hex { 4 * digits.len() } else { digits.len() };
    if length > BITS_MAX as usize {
        let message = format!("bit string length exceeds the maximum allowed ({BITS_MAX})");
        return Err(Invalid::other(ErrorKind::ProgramLimit, message));
    }
    check_length(length, of).map_err(|error| Invalid::Other(Box::new(error)))?;
    let radix = if hex { 16 } else { 2 };
    if let Some(at) = digits.iter().position(|digit| !char::from(*digit).is_digit(radix)) {
        let shown = String::from_utf8_lossy(&digits[at..])
            .chars()
            .next()
            .unwrap_or_default();
        let kind = if hex { "hexadecimal" } else { "binary" };
        let message = format!("\"{shown}\" is not a valid {kind} digit");
        return Err(Invalid::other(ErrorKind::InvalidText, message));
    }
    if !hex {
        return Ok(digits.to_vec());
    }
    let bits = digits.iter().flat_map(|digit| {
        let value = char::from(*digit).to_digit(16).unwrap_or(0);
        (0..4).rev().map(move |at| character(value >> at & 1 == 1))
    });
    Ok(bits.collect())
}

/// The character of a bit.
pub fn character(set: bool) -> u8 {
    if set { b'1' } else { b'0' }
}

/// Bits in the binary format: their number, then bytes that begin with the first.
pub fn write_wire(bits: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bits.len() as i32).to_be_bytes());
    out.extend(bits.chunks(8).map(packed));
}

/// Up to eight bits as a byte, the first as its highest.
pub fn packed(bits: &[u8]) -> u8 {
    bits.iter()
        .enumerate()
        .fold(0, |byte, (at, bit)| byte | (bit & 1) << (7 - at))
}

/// Bits from the binary format; what is beyond their number does not count.
pub fn read_wire(bytes: &[u8], of: SqlType) -> Result<Vec<u8>> {
    let malformed = || StorageError::new(ErrorKind::InvalidBinary, "invalid length in external bit string");
    let (length, bytes) = bytes.split_first_chunk::<4>().ok_or_else(malformed)?;
    let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| malformed())?;
    if length > BITS_MAX as usize || bytes.len() != length.div_ceil(8) {
        return Err(malformed());
    }
    check_length(length, of)?;
    let bit = |at: usize| character(bytes[at / 8] >> (7 - at % 8) & 1 == 1);
    Ok((0..length).map(bit).collect())
}

/// Bits as an explicit cast to a type makes them: `bit(n)` fills up with zeros, and both types cut.
pub fn cast(bits: &[u8], to: SqlType) -> Vec<u8> {
    let mut made = bits[..bits.len().min(limit(to).unwrap_or(bits.len()))].to_vec();
    if let SqlType::BitOf(length) = to {
        made.resize(length as usize, b'0');
    }
    made
}

/// 22026 or 22001 where a column's value has another length than its type.
pub(crate) fn check_lengths(array: ArrayRef, of: SqlType) -> Result<ArrayRef> {
    for bits in array.as_binary::<i32>().iter().flatten() {
        check_length(bits.len(), of)?;
    }
    Ok(array)
}

/// The array of some values.
pub fn array<T: AsRef<[u8]>>(values: impl IntoIterator<Item = Option<T>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<BinaryArray>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(text: &str) -> Vec<u8> {
        parse(text.as_bytes(), SqlType::VarBit).unwrap()
    }

    #[test]
    fn text_and_wire() {
        assert_eq!(bits("101"), b"101");
        assert_eq!(bits("x1F"), b"00011111");
        assert_eq!(bits(""), b"");
        for (text, wire) in [
            ("", vec![0, 0, 0, 0]),
            ("101", vec![0, 0, 0, 3, 0xa0]),
            ("x1F8", vec![0, 0, 0, 12, 0x1f, 0x80]),
        ] {
            let mut out = Vec::new();
            write_wire(&bits(text), &mut out);
            assert_eq!(out, wire);
            assert_eq!(read_wire(&wire, SqlType::VarBit).unwrap(), bits(text));
        }
        assert!(read_wire(&[0, 0, 0, 9, 0], SqlType::VarBit).is_err());
        assert!(read_wire(&[0xff, 0xff, 0xff, 0xff], SqlType::VarBit).is_err());
        assert!(read_wire(&[0, 0], SqlType::VarBit).is_err());
    }

    #[test]
    fn lengths() {
        let state = |text: &str, of| match parse(text.as_bytes(), of) {
            Err(invalid) => invalid.into_error(of, text).sqlstate(),
            Ok(_) => "00000",
        };
        assert_eq!(state("101", SqlType::BitOf(4)), "22026");
        assert_eq!(state("101", SqlType::VarBitOf(2)), "22001");
        assert_eq!(state("121", SqlType::BitOf(3)), "22P02");
        assert_eq!(state("xG", SqlType::BitOf(4)), "22P02");
        assert_eq!(cast(b"101", SqlType::BitOf(5)), b"10100");
        assert_eq!(cast(b"101", SqlType::BitOf(2)), b"10");
        assert_eq!(cast(b"101", SqlType::VarBitOf(5)), b"101");
    }
}
