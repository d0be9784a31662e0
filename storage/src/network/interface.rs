//! Addresses of interfaces: the texts of `macaddr` and `macaddr8`.

use crate::error::ErrorKind;
use crate::parse::Invalid;

/// A `macaddr` as a `macaddr8`.
pub fn widened(bytes: &[u8]) -> Vec<u8> {
    let (before, behind) = bytes.split_at(bytes.len().min(3));
    [before, &[0xff, 0xfe], behind].concat()
}

/// Six octets between colons or hyphens, or two, three or six of each other's digits together.
pub(super) fn macaddr(text: &[u8]) -> Result<[u8; 6], Invalid> {
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
pub(super) fn macaddr8(text: &[u8]) -> Result<[u8; 8], Invalid> {
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
