//! Network addresses (`inet`, `cidr`) and addresses of interfaces (`macaddr`, `macaddr8`): their bytes in columns, which are in
//! PostgreSQL's order, their texts and their bytes on the wire.

use crate::error::{ErrorKind, Result, StorageError};
use crate::parse::Invalid;
use crate::types::SqlType;
use arrow::array::{ArrayRef, FixedSizeBinaryBuilder};
use arrow::datatypes::DataType;
use std::fmt;
use std::io::Write;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// A family, the network's bytes, the length of its mask; and the address's own.
pub const INET_BYTES: usize = 34;
/// The same without an address.
const CIDR_BYTES: usize = 18;
pub const INET: DataType = DataType::FixedSizeBinary(INET_BYTES as i32);
pub const CIDR: DataType = DataType::FixedSizeBinary(CIDR_BYTES as i32);
pub const MACADDR: DataType = DataType::FixedSizeBinary(6);
pub const MACADDR8: DataType = DataType::FixedSizeBinary(8);

/// What PostgreSQL calls the families on the wire.
const V4: u8 = 2;
const V6: u8 = 3;

/// An address of a host with the length of its network's mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub is_v6: bool,
    /// In its lowest 32 or 128 bits.
    pub bits: u128,
    /// Bits of the mask.
    pub mask: u8,
}

impl Address {
    /// An address alone.
    pub fn of_host(address: IpAddr) -> Address {
        match address {
            IpAddr::V4(own) => Address {
                is_v6: false,
                bits: own.to_bits().into(),
                mask: 32,
            },
            IpAddr::V6(own) => Address {
                is_v6: true,
                bits: own.to_bits(),
                mask: 128,
            },
        }
    }

    /// Bits of an address of the family.
    pub fn width(self) -> u8 {
        if self.is_v6 { 128 } else { 32 }
    }

    /// The bits of an address that are the host's.
    pub fn host_bits(self) -> u128 {
        match self.width() - self.mask {
            128 => u128::MAX,
            own => (1 << own) - 1,
        }
    }

    /// All bits of an address.
    pub fn all_bits(self) -> u128 {
        if self.is_v6 { u128::MAX } else { u32::MAX.into() }
    }

    /// The same with the host's bits zero.
    pub fn network(self) -> Address {
        Address {
            bits: self.bits & !self.host_bits(),
            ..self
        }
    }

    /// Whether another network's addresses are all within this one's.
    pub fn holds(self, other: Address) -> bool {
        self.is_v6 == other.is_v6 && self.mask <= other.mask && (self.bits ^ other.bits) & !self.host_bits() == 0
    }

    /// The address's bytes, those of IPv4 first.
    fn octets(self) -> [u8; 16] {
        let shift = 128 - u32::from(self.width());
        (self.bits << shift).to_be_bytes()
    }

    fn of_octets(is_v6: bool, octets: [u8; 16], mask: u8) -> Address {
        let bits = u128::from_be_bytes(octets) >> if is_v6 { 0 } else { 96 };
        Address { is_v6, bits, mask }
    }

    /// As columns of `inet` hold it, or those of `cidr`, from whose addresses the host's bits are gone.
    pub fn to_bytes(self, is_cidr: bool) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(INET_BYTES);
        bytes.push(if self.is_v6 { V6 } else { V4 });
        bytes.extend(self.network().octets());
        bytes.push(self.mask);
        if !is_cidr {
            bytes.extend(self.octets());
        }
        bytes
    }

    /// A value of a column of `inet` or `cidr`.
    pub fn from_bytes(bytes: &[u8]) -> Address {
        let mut octets = [0; 16];
        let address = bytes.get(CIDR_BYTES..INET_BYTES).or_else(|| bytes.get(1..17));
        octets.copy_from_slice(address.unwrap_or(&[0; 16]));
        let of = |at: usize| bytes.get(at).copied().unwrap_or(0);
        Address::of_octets(of(0) == V6, octets, of(17))
    }

    /// The text of an `inet` or a `cidr`.
    pub fn parse(text: &[u8], is_cidr: bool) -> Result<Address, Invalid> {
        let text = std::str::from_utf8(text).map_err(|_| Invalid::Syntax)?;
        let address = match (text.contains(':'), is_cidr) {
            (true, _) => v6(text),
            (false, true) => v4_network(text),
            (false, false) => v4(text),
        };
        let address = address.ok_or(Invalid::Syntax)?;
        if is_cidr && address.network() != address {
            let message = format!("invalid cidr value: \"{text}\"");
            let error = StorageError::new(ErrorKind::InvalidText, message);
            let error = error.detail("Value has bits set to right of mask.");
            return Err(Invalid::Other(Box::new(error)));
        }
        Ok(address)
    }

    /// The address without its mask.
    pub fn host(self) -> String {
        if !self.is_v6 {
            return std::net::Ipv4Addr::from(self.bits as u32).to_string();
        }
        let words: [u16; 8] = std::array::from_fn(|at| (self.bits >> (112 - 16 * at)) as u16);
        let zeros = longest_zeros(&words);
        let mut text = String::new();
        let mut at = 0;
        while at < 8 {
            if zeros.contains(&at) {
                text.push_str("::");
                at = zeros.end;
                continue;
            }
            if !text.is_empty() && !text.ends_with(':') {
                text.push(':');
            }
            // IPv4 addresses that IPv6 has.
            if at == 6 && (zeros == (0..6) || zeros == (0..5) && words[5] == 0xffff) {
                text += &std::net::Ipv4Addr::from(self.bits as u32).to_string();
                break;
            }
            text += &format!("{:x}", words[at]);
            at += 1;
        }
        text
    }

    /// Bytes as the binary format has them.
    pub fn write_wire(self, is_cidr: bool, out: &mut Vec<u8>) {
        let bytes = usize::from(self.width() / 8);
        let family = if self.is_v6 { V6 } else { V4 };
        out.extend([family, self.mask, u8::from(is_cidr), bytes as u8]);
        out.extend(&self.octets()[..bytes]);
    }

    /// What the binary format has.
    pub fn read_wire(bytes: &[u8], is_cidr: bool) -> Result<Address> {
        let name = if is_cidr { "cidr" } else { "inet" };
        let refused = |what: &str| {
            let message = format!("invalid {what} in external \"{name}\" value");
            StorageError::new(ErrorKind::InvalidBinary, message)
        };
        let [family, mask, _, length, address @ ..] = bytes else {
            return Err(refused("length"));
        };
        let width = match *family {
            V4 => 32,
            V6 => 128,
            _ => return Err(refused("address family")),
        };
        if *mask > width {
            return Err(refused("bits"));
        }
        if *length != width / 8 || address.len() != usize::from(*length) {
            return Err(refused("length"));
        }
        let mut octets = [0; 16];
        octets[..address.len()].copy_from_slice(address);
        let address = Address::of_octets(*family == V6, octets, *mask);
        if is_cidr && address.network() != address {
            let message = "invalid external \"cidr\" value";
            let error = StorageError::new(ErrorKind::InvalidBinary, message);
            return Err(error.detail("Value has bits set to right of mask."));
        }
        Ok(address)
    }
}

/// An `inet`: its mask where that is not the whole address.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host())?;
        match self.mask == self.width() {
            true => Ok(()),
            false => write!(f, "/{}", self.mask),
        }
    }
}

/// Where the most words beside each other are zero, two or more.
fn longest_zeros(words: &[u16; 8]) -> std::ops::Range<usize> {
    let mut longest = 0..0;
    let mut at = 0;
    while at < 8 {
        let zeros = words[at..].iter().take_while(|word| **word == 0).count();
        if zeros >= 2 && zeros > longest.len() {
            longest = at..at + zeros;
        }
        at += zeros.max(1);
    }
    longest
}

/// The octets before the mask, and the mask.
fn octets(text: &str) -> Option<(Vec<u8>, Option<u8>)> {
    let (address, mask) = match text.split_once('/') {
        Some((address, mask)) => (address, Some(decimal(mask, 32)?)),
        None => (text, None),
    };
    let octets: Option<Vec<u8>> = address.split('.').map(|octet| decimal(octet, 255)).collect();
    Some((octets.filter(|octets| octets.len() <= 4)?, mask))
}

fn decimal(text: &str, most: u32) -> Option<u8> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let value = text.bytes().try_fold(0_u32, |value, digit| {
        Some(10 * value + u32::from(digit.wrapping_sub(b'0'))).filter(|value| *value <= most)
    })?;
    digits.then_some(value as u8)
}

fn of_v4(octets: &[u8], mask: u8) -> Address {
    let mut all = [0; 16];
    all[..octets.len()].copy_from_slice(octets);
    Address::of_octets(false, all, mask)
}

/// Without a mask there are four octets, with one as many as it covers or more.
fn v4(text: &str) -> Option<Address> {
    let (octets, mask) = octets(text)?;
    let mask = mask.or((octets.len() == 4).then_some(32))?;
    (usize::from(mask / 8) <= octets.len()).then(|| of_v4(&octets, mask))
}

/// Without a mask it has the length of the network's class, or of the octets where these are more.
fn v4_network(text: &str) -> Option<Address> {
    let (octets, mask) = octets(text)?;
    let mask = mask.unwrap_or_else(|| {
        let class = match octets[0] {
            240.. => 32,
            224.. => 8,
            192.. => 24,
            128.. => 16,
            _ => 8,
        };
        match class.max(8 * octets.len() as u8) {
            8 if octets[0] == 224 => 4,
            mask => mask,
        }
    });
    Some(of_v4(&octets, mask))
}

fn v6(text: &str) -> Option<Address> {
    let (address, mask) = match text.split_once('/') {
        Some((address, mask)) => {
            let leads = mask.len() > 1 && mask.starts_with('0');
            (address, decimal(mask, 128).filter(|_| !leads)?)
        }
        None => (text, 128),
    };
    let address: Ipv6Addr = address.parse().ok()?;
    let own = Address::of_host(address.into());
    Some(Address { mask, ..own })
}

/// The text of a value of a column of one of these types.
pub fn write_text(of: SqlType, bytes: &[u8], out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = match of {
        SqlType::Inet => write!(out, "{}", Address::from_bytes(bytes)),
        SqlType::Cidr => {
            let network = Address::from_bytes(bytes);
            write!(out, "{}/{}", network.host(), network.mask)
        }
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
        _ => out.extend_from_slice(bytes),
    }
}

/// A column's bytes of a text.
pub fn parse(text: &[u8], of: SqlType) -> Result<Vec<u8>, Invalid> {
    match of {
        SqlType::Inet => Ok(Address::parse(text, false)?.to_bytes(false)),
        SqlType::Cidr => Ok(Address::parse(text, true)?.to_bytes(true)),
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

/// A `macaddr` as a `macaddr8`.
pub fn widened(bytes: &[u8]) -> Vec<u8> {
    let (before, behind) = bytes.split_at(bytes.len().min(3));
    [before, &[0xff, 0xfe], behind].concat()
}

/// Six octets between colons or hyphens, or two, three or six of each other's digits together.
fn macaddr(text: &[u8]) -> Result<[u8; 6], Invalid> {
    let text = std::str::from_utf8(text).map_err(|_| Invalid::Syntax)?;
    let own = text.trim_matches(|c: char| c.is_ascii_whitespace());
    let hex = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    for separator in [':', '-'] {
        let octets: Vec<&str> = own.split(separator).collect();
        if octets.len() != 6 || octets.iter().any(|octet| octet.is_empty() || !hex(octet)) {
            continue;
        }
        let octets = octets.iter().map(|octet| u8::from_str_radix(octet, 16));
        let octets: Vec<u8> = octets.collect::<std::result::Result<_, _>>().map_err(|_| {
            let message = format!("invalid octet value in \"macaddr\" value: \"{text}\"");
            Invalid::other(ErrorKind::NumericOutOfRange, message)
        })?;
        return octets.try_into().map_err(|_| Invalid::Syntax);
    }
    let grouped = [(':', 6), ('-', 6), ('.', 4), ('-', 4)]
        .iter()
        .any(|(separator, digits)| {
            let groups: Vec<&str> = own.split(*separator).collect();
            groups.len() == 12 / digits && groups.iter().all(|group| group.len() == *digits)
        });
    let digits: String = own.chars().filter(|c| c.is_ascii_hexdigit()).collect();
    let whole = own.len() == 12 && digits.len() == 12;
    if digits.len() != 12 || !(grouped || whole) {
        return Err(Invalid::Syntax);
    }
    let value = u64::from_str_radix(&digits, 16).map_err(|_| Invalid::Syntax)?;
    let bytes = value.to_be_bytes();
    bytes[2..].try_into().map_err(|_| Invalid::Syntax)
}

/// Six or eight octets of two digits, between which there may be separators of one kind.
fn macaddr8(text: &[u8]) -> Result<[u8; 8], Invalid> {
    let mut rest = text.trim_ascii();
    let (mut octets, mut separator) = (vec![], None);
    while let [high, low, behind @ ..] = rest {
        let digit = |byte: &u8| char::from(*byte).to_digit(16).ok_or(Invalid::Syntax);
        octets.push((digit(high)? << 4 | digit(low)?) as u8);
        rest = match behind {
            [own @ (b':' | b'-' | b'.'), behind @ ..] if octets.len() < 8 => {
                if *separator.get_or_insert(*own) != *own {
                    return Err(Invalid::Syntax);
                }
                behind
            }
            behind => behind,
        };
    }
    if !rest.is_empty() {
        return Err(Invalid::Syntax);
    }
    let octets = if octets.len() == 6 { widened(&octets) } else { octets };
    octets.try_into().map_err(|_| Invalid::Syntax)
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
