//! Network addresses (`inet`, `cidr`) and addresses of interfaces (`macaddr`, `macaddr8`): their bytes in columns, which are in
//! PostgreSQL's order, their texts and their bytes on the wire. Those of rows (`tid`) are read and written with them.

mod address;
mod interface;

pub use address::Address;
pub use interface::widened;

use self::interface::{macaddr, macaddr8};
use crate::error::{ErrorKind, Result, StorageError};
use crate::parse::Invalid;
use crate::tid;
use crate::types::SqlType;
use arrow::array::{ArrayRef, FixedSizeBinaryBuilder};
use arrow::datatypes::DataType;
use std::io::Write;
use std::sync::Arc;

/// A family, the network's bytes, the length of its mask; and the address's own.
pub const INET_BYTES: usize = 34;
/// The same without an address.
const CIDR_BYTES: usize = 18;
pub const INET: DataType = DataType::FixedSizeBinary(INET_BYTES as i32);
pub const CIDR: DataType = DataType::FixedSizeBinary(CIDR_BYTES as i32);
pub const MACADDR: DataType = DataType::FixedSizeBinary(6);
pub const MACADDR8: DataType = DataType::FixedSizeBinary(8);

/// The text of a value of a column of one of these types.
pub fn write_text(of: SqlType, bytes: &[u8], out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = match of {
        SqlType::Inet => write!(out, "{}", Address::from_bytes(bytes)),
        SqlType::Cidr => {
            let network = Address::from_bytes(bytes);
            write!(out, "{}/{}", network.host(), network.mask)
        }
        SqlType::Tid => tid::write_text(bytes, out),
        _ => bytes
            .iter()
            .enumerate()
            .try_for_each(|(at, byte)| write!(out, "{}{byte:02x}", if at > 0 { ":" } else { "" })),
    };
}

/// The binary format of a value of a column of one of these types.
pub fn write_wire(of: SqlType, bytes: &[u8], out: &mut Vec<u8>) {
    match of {
        SqlType::Inet | SqlType::Cidr => Address::from_bytes(bytes).write_wire(of == SqlType::Cidr, out),
        SqlType::Tid => tid::write_wire(bytes, out),
        _ => out.extend_from_slice(bytes),
    }
}

/// A column's bytes of a text.
pub fn parse(text: &[u8], of: SqlType) -> Result<Vec<u8>, Invalid> {
    match of {
        SqlType::Inet => Ok(Address::parse(text, false)?.to_bytes(false)),
        SqlType::Cidr => Ok(Address::parse(text, true)?.to_bytes(true)),
        SqlType::Tid => tid::parse(text),
        SqlType::MacAddr => macaddr(text).map(|bytes| bytes.to_vec()),
        _ => macaddr8(text).map(|bytes| bytes.to_vec()),
    }
}

/// A column's bytes of the binary format's.
pub fn read_wire(bytes: &[u8], of: SqlType) -> Result<Vec<u8>> {
    let malformed = || StorageError::new(ErrorKind::InvalidBinary, "incorrect binary data format");
    match (of, bytes.len()) {
        (SqlType::Inet, _) => Ok(Address::read_wire(bytes, false)?.to_bytes(false)),
        (SqlType::Cidr, _) => Ok(Address::read_wire(bytes, true)?.to_bytes(true)),
        (SqlType::MacAddr, 6) | (SqlType::MacAddr8, 8) => Ok(bytes.to_vec()),
        (SqlType::Tid, _) => tid::read_wire(bytes).ok_or_else(malformed),
        // Six bytes are those of a `macaddr`.
        (SqlType::MacAddr8, 6) => Ok(widened(bytes)),
        _ => Err(malformed()),
    }
}

/// The array of some values of one of these types.
pub fn array<T: AsRef<[u8]>>(of: SqlType, values: impl IntoIterator<Item = Option<T>>) -> Result<ArrayRef> {
    let DataType::FixedSizeBinary(width) = of.data_type() else {
        return Err(StorageError::new(ErrorKind::Internal, format!("{of} is no address")));
    };
    let mut builder = FixedSizeBinaryBuilder::new(width);
    for value in values {
        match value {
            Some(value) => builder.append_value(value)?,
            None => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, of: SqlType) -> String {
        let bytes = match parse(text.as_bytes(), of) {
            Ok(bytes) => bytes,
            Err(invalid) => return invalid.into_error(of, text).sqlstate().to_string(),
        };
        let (mut out, mut wire) = (vec![], vec![]);
        write_text(of, &bytes, &mut out);
        write_wire(of, &bytes, &mut wire);
        assert_eq!(read_wire(&wire, of).unwrap(), bytes, "{text}");
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn texts() {
        for (text, inet, cidr) in [
            ("192.168.1.5", "192.168.1.5", "192.168.1.5/32"),
            ("192.168.1.5/24", "192.168.1.5/24", "22P02"),
            ("192.168.1/24", "192.168.1.0/24", "192.168.1.0/24"),
            ("10.1.0/20", "10.1.0.0/20", "10.1.0.0/20"),
            ("10", "22P02", "10.0.0.0/8"),
            ("10.1", "22P02", "10.1.0.0/16"),
            ("224", "22P02", "224.0.0.0/4"),
            ("192.168", "22P02", "192.168.0.0/24"),
            ("1.2.3.256", "22P02", "22P02"),
            ("1.2.3.4/33", "22P02", "22P02"),
            ("1.2.3.4.5", "22P02", "22P02"),
            ("", "22P02", "22P02"),
            ("::", "::", "::/128"),
            ("::1", "::1", "::1/128"),
            ("::1.2.3.4", "::1.2.3.4", "::1.2.3.4/128"),
            ("::ffff:1.2.3.4/120", "::ffff:1.2.3.4/120", "22P02"),
            ("10:23::f1/64", "10:23::f1/64", "22P02"),
            ("10:23::8000/113", "10:23::8000/113", "10:23::8000/113"),
            ("1:0:0:2:0:0:0:3", "1:0:0:2::3", "1:0:0:2::3/128"),
            ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8/128"),
            ("1::2::3", "22P02", "22P02"),
            ("::1/129", "22P02", "22P02"),
        ] {
            assert_eq!(shown(text, SqlType::Inet), inet, "inet {text}");
            assert_eq!(shown(text, SqlType::Cidr), cidr, "cidr {text}");
        }
    }

    #[test]
    fn interfaces() {
        let six = "08:00:2b:01:02:03";
        for text in [
            six,
            "08-00-2b-01-02-03",
            "08002b:010203",
            "08002b-010203",
            "0800.2b01.0203",
            "0800-2b01-0203",
            "08002b010203",
            "8:0:2B:1:2:3",
            " 08002b010203 ",
        ] {
            assert_eq!(shown(text, SqlType::MacAddr), six, "{text}");
        }
        for text in ["0800:2b01:0203", "08:00:2b:01:02", "08002b01020g", "", "08002b:0102:03"] {
            assert_eq!(shown(text, SqlType::MacAddr), "22P02", "{text}");
        }
        assert_eq!(shown("100:0:0:0:0:0", SqlType::MacAddr), "22003");
        let eight = "08:00:2b:ff:fe:01:02:03";
        for text in [six, eight, "08002b010203", "08002bfffe010203", "0800.2bff.fe01.0203"] {
            assert_eq!(shown(text, SqlType::MacAddr8), eight, "{text}");
        }
        for text in [
            "08:00-2b:01:02:03",
            "08:00:2b:01:02:03:04",
            "08002b01020",
            "08:00:2b:01:02:03:04:05:",
        ] {
            assert_eq!(shown(text, SqlType::MacAddr8), "22P02", "{text}");
        }
    }

    /// The order of the bytes is PostgreSQL's: families, bits that both masks cover, lengths of masks, all bits.
    #[test]
    fn order() {
        let ordered = [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "10.0.0.5/8",
            "10.0.0.0/9",
            "10.0.0.0/32",
            "10.0.0.1/32",
            "10.1.0.0/16",
            "11.0.0.0/8",
            "::/0",
            "::1/128",
            "10:23::f1/64",
        ];
        let bytes: Vec<Vec<u8>> = ordered
            .iter()
            .map(|text| parse(text.as_bytes(), SqlType::Inet).unwrap())
            .collect();
        assert!(bytes.is_sorted(), "{bytes:?}");
    }
}
