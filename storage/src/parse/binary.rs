//! Byte strings and UUIDs.

use super::{Invalid, trim};
use crate::error::ErrorKind;

/// `\x` and hexadecimal digits, or the escape format (`\\`, `\ooo`).
pub fn parse_bytea(text: &[u8]) -> Result<Vec<u8>, Invalid> {
    if let Some(hex) = text.strip_prefix(b"\\x") {
        return parse_hex(hex);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        rest = match (first, after) {
            (b'\\', [b'\\', after @ ..]) => {
                bytes.push(b'\\');
                after
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                after
            }
            (b'\\', _) => {
                return Err(Invalid::other(
                    ErrorKind::InvalidText,
                    "invalid input syntax for type bytea",
                ));
            }
            _ => {
                bytes.push(*first);
                after
            }
        };
    }
    Ok(bytes)
}

fn parse_hex(text: &[u8]) -> Result<Vec<u8>, Invalid> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut digits = text.iter().filter(|byte| !byte.is_ascii_whitespace());
    while let Some(high) = digits.next() {
        let high = hex_digit(*high)?;
        let Some(low) = digits.next() else {
            let message = "invalid hexadecimal data: odd number of digits";
            return Err(Invalid::other(ErrorKind::InvalidParameter, message));
        };
        bytes.push(high << 4 | hex_digit(*low)?);
    }
    Ok(bytes)
}

fn hex_digit(byte: u8) -> Result<u8, Invalid> {
    match (byte as char).to_digit(16) {
        Some(digit) => Ok(digit as u8),
        None => {
            let message = format!("invalid hexadecimal digit: \"{}\"", byte.escape_ascii());
            Err(Invalid::other(ErrorKind::InvalidParameter, message))
        }
    }
}

/// 32 hexadecimal digits, a hyphen allowed after every fourth, braces around.
pub fn parse_uuid(text: &[u8]) -> Result<[u8; 16], Invalid> {
    let text = trim(text);
    let inner = match text {
        [b'{', inner @ .., b'}'] => inner,
        [b'{', ..] | [.., b'}'] => return Err(Invalid::Syntax),
        other => other,
    };
    let mut uuid = [0; 16];
    let mut digits = 0;
    let mut hyphen_allowed = false;
    for byte in inner {
        match (*byte as char).to_digit(16) {
            Some(digit) if digits < 32 => {
                uuid[digits / 2] = uuid[digits / 2] << 4 | digit as u8;
                digits += 1;
                hyphen_allowed = digits % 4 == 0 && digits < 32;
            }
            None if *byte == b'-' && hyphen_allowed => hyphen_allowed = false,
            _ => return Err(Invalid::Syntax),
        }
    }
    if digits == 32 { Ok(uuid) } else { Err(Invalid::Syntax) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytea() {
        assert_eq!(parse_bytea(b"\\xDEad be").unwrap(), [0xde, 0xad, 0xbe]);
        assert_eq!(parse_bytea(b"a\\\\b\\001\\377").unwrap(), b"a\\b\x01\xff");
        for bad in [&b"\\xabc"[..], b"\\xzz", b"a\\", b"\\9", b"\\400"] {
            assert!(parse_bytea(bad).is_err());
        }
    }

    #[test]
    fn uuid() {
        let expected = parse_uuid(b"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11").unwrap();
        assert_eq!(expected[..3], [0xa0, 0xee, 0xbc]);
        assert_eq!(parse_uuid(b"{A0EEBC999C0B4EF8BB6D6BB9BD380A11}").unwrap(), expected);
        assert_eq!(
            parse_uuid(b"a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11").unwrap(),
            expected
        );
        for bad in [
            "",
            "a0",
            "a0eebc99--9c0b-4ef8-bb6d-6bb9bd380a11",
            "{a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11-",
        ] {
            assert!(parse_uuid(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
