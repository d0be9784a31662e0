//! `tid`: the address of a row, a block and an offset in it. PostgreSQL counts pages of files and items on them; here they are the
//! two halves of a number that rows are counted by (`Segment::address`).

use crate::error::{ErrorKind, Result, StorageError};
use crate::parse::Invalid;
use arrow::datatypes::DataType;
use std::io::Write;

/// The block and the offset, the high byte first; and a byte that tells it from a `macaddr`, which is 0.
pub const TID: DataType = DataType::FixedSizeBinary(TID_BYTES as i32);
pub const TID_BYTES: usize = 7;
const BLOCK_BYTES: usize = 4;
const WIRE_BYTES: usize = 6;

fn bytes(block: u32, offset: u16) -> [u8; TID_BYTES] {
    let mut bytes = [0; TID_BYTES];
    bytes[..BLOCK_BYTES].copy_from_slice(&block.to_be_bytes());
    bytes[BLOCK_BYTES..WIRE_BYTES].copy_from_slice(&offset.to_be_bytes());
    bytes
}

/// The bytes of a row's address. No offset is 0, which is none of a row in PostgreSQL.
pub fn of_address(address: u64) -> Result<[u8; TID_BYTES]> {
    let offsets = u64::from(u16::MAX);
    match u32::try_from(address / offsets) {
        Ok(block) => Ok(bytes(block, (address % offsets) as u16 + 1)),
        Err(_) => {
            let message = "addresses of rows are exhausted until the server is started again";
            Err(StorageError::new(ErrorKind::ProgramLimit, message))
        }
    }
}

/// The address of which these are the bytes; None: it is no row's.
pub fn to_address(bytes: &[u8]) -> Option<u64> {
    let [a, b, c, d, high, low, ..] = *bytes else {
        return None;
    };
    let offset = u64::from(u16::from_be_bytes([high, low]).checked_sub(1)?);
    Some(u64::from(u32::from_be_bytes([a, b, c, d])) * u64::from(u16::MAX) + offset)
}

pub(crate) fn write_text(bytes: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
    let [a, b, c, d, high, low, ..] = *bytes else {
        return Ok(());
    };
    let (block, offset) = (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([high, low]));
    write!(out, "({block},{offset})")
}

pub(crate) fn write_wire(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend(bytes.iter().take(WIRE_BYTES));
}

pub(crate) fn read_wire(wire: &[u8]) -> Option<Vec<u8>> {
    let [a, b, c, d, high, low] = *wire else { return None };
    Some(bytes(u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([high, low])).to_vec())
}

/// `(block,offset)`. What stands before the one parenthesis or behind the other is passed over, as PostgreSQL does.
pub(crate) fn parse(text: &[u8]) -> Result<Vec<u8>, Invalid> {
    let read = || {
        let text = std::str::from_utf8(text).ok()?;
        let (_, text) = text.split_once('(')?;
        let (block, text) = text.split_once(',')?;
        let (offset, _) = text.split_once(')')?;
        let block: i64 = block.trim_start().parse().ok()?;
        // A negative one is that of the same bits.
        let block = u32::try_from(block).or_else(|_| i32::try_from(block).map(|block| block as u32));
        Some(bytes(block.ok()?, offset.trim_start().parse().ok()?))
    };
    read().map(|bytes| bytes.to_vec()).ok_or(Invalid::Syntax)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8]) -> String {
        let mut out = vec![];
        write_text(bytes, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn addresses_ascend_and_have_no_offset_of_nothing() {
        let addresses = [0, 1, 65_533, 65_534, 65_535, 65_536, 1 << 40];
        let bytes: Vec<_> = addresses.map(|address| of_address(address).unwrap()).into();
        assert!(bytes.is_sorted());
        let back: Vec<_> = bytes.iter().map(|bytes| to_address(bytes).unwrap()).collect();
        assert_eq!(back, addresses);
        let texts: Vec<String> = bytes.iter().map(|bytes| shown(bytes)).collect();
        let expected = [
            "(0,1)",
            "(0,2)",
            "(0,65534)",
            "(0,65535)",
            "(1,1)",
            "(1,2)",
            "(16777472,257)",
        ];
        assert_eq!(texts, expected);
        assert!(of_address(65_535 << 32).is_err());
    }

    #[test]
    fn texts() {
        for (text, expected) in [
            ("(0,1)", "(0,1)"),
            ("(4294967295,65535)", "(4294967295,65535)"),
            ("(-1, 3)x", "(4294967295,3)"),
            ("a ( 7,0)", "(7,0)"),
        ] {
            let bytes = parse(text.as_bytes()).unwrap_or_default();
            assert_eq!(shown(&bytes), expected, "{text}");
            let mut wire = vec![];
            write_wire(&bytes, &mut wire);
            assert_eq!(read_wire(&wire), Some(bytes), "{text}");
        }
        for text in [
            "",
            "(1)",
            "(1,2",
            "1,2",
            "(1,65536)",
            "(4294967296,1)",
            "(1,-1)",
            "(,1)",
            "(1,)",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
