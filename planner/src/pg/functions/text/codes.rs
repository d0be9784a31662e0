//! Characters and their codes.

use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::functions::partition_hash::with_seed;
use crate::pg::functions::row::{Out, Value, bytes, int, text};
use unicode_normalization::UnicodeNormalization;

pub(super) fn ascii(values: &[Value]) -> Result<Out> {
    Ok(Out::Int(
        text(values, 0).chars().next().map_or(0, |c| i64::from(u32::from(c))),
    ))
}

/// The hash of a text by which PostgreSQL's hash indexes find it.
pub(super) fn hash(values: &[Value]) -> Result<Out> {
    let hash = with_seed(text(values, 0).as_bytes(), 0) as u32;
    Ok(Out::Int((hash as i32).into()))
}

/// The one of 64 bits, with a seed.
pub(super) fn hash_extended(values: &[Value]) -> Result<Out> {
    let seed = int(values, 1, 0) as u64;
    Ok(Out::Int(with_seed(text(values, 0).as_bytes(), seed) as i64))
}

pub(super) fn chr(values: &[Value]) -> Result<Out> {
    let code = int(values, 0, 0);
    let told = |message: String| SqlError::new(state::PROGRAM_LIMIT_EXCEEDED, message);
    match code {
        ..0 => {
            let message = "character number must be positive";
            Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message))
        }
        0 => Err(told("null character not permitted".into())),
        0x11_0000.. => Err(told(format!("requested character too large for encoding: {code}"))),
        _ => match char::from_u32(code as u32) {
            Some(c) => Ok(Out::Text(c.to_string())),
            None => Err(told(format!("requested character not valid for encoding: {code}"))),
        },
    }
}

#[derive(Clone, Copy)]
enum Form {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
}

fn form(values: &[Value]) -> Result<Form> {
    let name = match values.get(1) {
        Some(_) => text(values, 1),
        None => "NFC",
    };
    Ok(match name.to_ascii_uppercase().as_str() {
        "NFC" => Form::Nfc,
        "NFD" => Form::Nfd,
        "NFKC" => Form::Nfkc,
        "NFKD" => Form::Nfkd,
        _ => {
            let message = format!("invalid normalization form: {name}");
            return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
        }
    })
}

fn normalized(text: &str, form: Form) -> String {
    match form {
        Form::Nfc => text.nfc().collect(),
        Form::Nfd => text.nfd().collect(),
        Form::Nfkc => text.nfkc().collect(),
        Form::Nfkd => text.nfkd().collect(),
    }
}

pub(super) fn normalize(values: &[Value]) -> Result<Out> {
    Ok(Out::Text(normalized(text(values, 0), form(values)?)))
}

pub(super) fn is_normalized(values: &[Value]) -> Result<Out> {
    let subject = text(values, 0);
    Ok(Out::Bool(normalized(subject, form(values)?) == subject))
}

/// `\XXXX`, `\+XXXXXX`, `\uXXXX` and `\UXXXXXXXX` for characters.
pub(super) fn unistr(values: &[Value]) -> Result<Out> {
    let wrong = |message: &str| SqlError::new(state::SYNTAX_ERROR, message);
    let bad =
        || wrong("invalid Unicode escape").hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.");
    let (mut out, mut rest, mut high) = (String::new(), text(values, 0), None::<u32>);
    while let Some(c) = rest.chars().next() {
        if c != '\\' || rest.starts_with("\\\\") {
            if high.is_some() {
                return Err(wrong("invalid Unicode surrogate pair"));
            }
            out.push(c);
            rest = &rest[if c == '\\' { 2 } else { c.len_utf8() }..];
            continue;
        }
        let (skip, digits) = match rest.as_bytes().get(1) {
            Some(b'+') => (2, 6),
            Some(b'u') => (2, 4),
            Some(b'U') => (2, 8),
            _ => (1, 4),
        };
        let hex = rest
            .get(skip..skip + digits)
            .filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let code = hex.and_then(|hex| u32::from_str_radix(hex, 16).ok()).ok_or_else(bad)?;
        rest = &rest[skip + digits..];
        let code = match (high.take(), code) {
            (None, 0xd800..=0xdbff) => {
                high = Some(code);
                continue;
            }
            (None, 0xdc00..=0xdfff) => return Err(wrong("invalid Unicode surrogate pair")),
            (None, code) => code,
            (Some(high), 0xdc00..=0xdfff) => 0x10000 + ((high - 0xd800) << 10) + (code - 0xdc00),
            (Some(_), _) => return Err(wrong("invalid Unicode surrogate pair")),
        };
        match char::from_u32(code) {
            Some('\0') | None => {
                return Err(wrong("invalid Unicode escape value"));
            }
            Some(c) => out.push(c),
        }
    }
    match high {
        Some(_) => Err(wrong("invalid Unicode surrogate pair")),
        None => Ok(Out::Text(out)),
    }
}

enum Encoding {
    Utf8,
    Ascii,
    Latin1,
}

fn encoding(name: &str, role: &str) -> Result<Encoding> {
    let folded: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    match folded.to_ascii_lowercase().as_str() {
        "utf8" | "unicode" => Ok(Encoding::Utf8),
        "sqlascii" => Ok(Encoding::Ascii),
        "latin1" | "iso88591" => Ok(Encoding::Latin1),
        _ => {
            let message = format!("invalid {role} encoding name \"{name}\"");
            Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message))
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| format!("0x{byte:02x}"))
        .collect::<Vec<_>>()
        .join(" ")
}

pub(super) fn convert_from(values: &[Value]) -> Result<Out> {
    let all = bytes(values, 0);
    let text = match encoding(text(values, 1), "source")? {
        Encoding::Latin1 => all.iter().map(|byte| char::from(*byte)).collect(),
        Encoding::Utf8 | Encoding::Ascii => match std::str::from_utf8(all) {
            Ok(text) => text.to_string(),
            Err(error) => {
                let from = error.valid_up_to();
                let bad = &all[from..error.error_len().map_or(all.len(), |width| from + width)];
                let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown(bad));
                return Err(SqlError::new(state::CHARACTER_NOT_IN_REPERTOIRE, message));
            }
        },
    };
    match text.contains('\0') {
        true => Err(SqlError::new(
            state::CHARACTER_NOT_IN_REPERTOIRE,
            "invalid byte sequence for encoding \"UTF8\": 0x00",
        )),
        false => Ok(Out::Text(text)),
    }
}

pub(super) fn convert_to(values: &[Value]) -> Result<Out> {
    let subject = text(values, 0);
    Ok(Out::Bytes(match encoding(text(values, 1), "destination")? {
        Encoding::Utf8 | Encoding::Ascii => subject.as_bytes().to_vec(),
        Encoding::Latin1 => {
            let byte = |c: char| {
                u8::try_from(u32::from(c)).map_err(|_| {
                    let message = format!(
                        "character with byte sequence {} in encoding \"UTF8\" has no equivalent in encoding \"LATIN1\"",
                        shown(c.encode_utf8(&mut [0; 4]).as_bytes())
                    );
                    SqlError::new(SqlState("22P05"), message)
                })
            };
            subject.chars().map(byte).collect::<Result<_>>()?
        }
    }))
}
