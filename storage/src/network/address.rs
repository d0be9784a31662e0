//! Addresses of hosts with the masks of their networks: the bytes that columns of `inet` and `cidr` hold, texts, the wire.

use super::{CIDR_BYTES, INET_BYTES};
use crate::error::{ErrorKind, Result, StorageError};
use crate::parse::Invalid;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

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
