//! From text to a value.

use super::{Json, number};
use crate::error::{ErrorKind, StorageError};
use crate::heap::Steps;
use crate::parse::{Invalid, check_json};

/// Deepest nesting of a value that is held as a tree.
const DEPTH_MAX: usize = 1_000;

impl Json {
    /// Reads `jsonb`.
    pub fn parse(text: &str) -> Result<Json, Invalid> {
        check_json(text)?;
        Self::of_checked(text, true)
    }

    /// Reads `json` whose objects keep their keys as they stand, and whose numbers their spelling.
    pub fn parse_verbatim(text: &str) -> Result<Json, Invalid> {
        check_json(text)?;
        Self::of_checked(text, false)
    }

    fn of_checked(text: &str, canonical: bool) -> Result<Json, Invalid> {
        let mut reader = Reader {
            text,
            at: 0,
            depth: 0,
            canonical,
            steps: Steps::default(),
        };
        reader.value()
    }
}

/// Reads what is known to be JSON.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    canonical: bool,
    steps: Steps,
}

impl Reader<'_> {
    fn next_byte(&mut self) -> u8 {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        bytes.get(self.at).copied().unwrap_or(0)
    }

    fn value(&mut self) -> Result<Json, Invalid> {
        if self.steps.step().is_some() {
            return Err(Invalid::stopped());
        }
        match self.next_byte() {
            b'{' => self.nested(|own| {
                let mut pairs = Vec::new();
                while own.next_byte() != b'}' {
                    if own.next_byte() == b',' {
                        own.at += 1;
                        own.next_byte();
                    }
                    let key = own.string()?;
                    own.next_byte();
                    own.at += 1;
                    pairs.push((key, own.value()?));
                }
                Ok(match own.canonical {
                    true => Json::object(pairs),
                    false => Json::Object(pairs),
                })
            }),
            b'[' => self.nested(|own| {
                let mut items = Vec::new();
                while own.next_byte() != b']' {
                    if own.next_byte() == b',' {
                        own.at += 1;
                    }
                    items.push(own.value()?);
                }
                Ok(Json::Array(items))
            }),
            b'"' => Ok(Json::String(self.string()?)),
            b't' => Ok(self.word(4, Json::Bool(true))),
            b'f' => Ok(self.word(5, Json::Bool(false))),
            b'n' => Ok(self.word(4, Json::Null)),
            _ => self.number(),
        }
    }

    fn word(&mut self, length: usize, value: Json) -> Json {
        self.at += length;
        value
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Result<Json, Invalid>) -> Result<Json, Invalid> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Invalid::other(ErrorKind::StackDepth, "stack depth limit exceeded"));
        }
        self.at += 1;
        let value = read(self)?;
        self.at += 1;
        self.depth -= 1;
        Ok(value)
    }

    fn number(&mut self) -> Result<Json, Invalid> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
        let text = &rest[..end.unwrap_or(rest.len())];
        self.at += text.len().max(1);
        if !self.canonical {
            return Ok(Json::Number(text.to_owned()));
        }
        let plain = number::plain(text);
        plain
            .map(Json::Number)
            .ok_or_else(|| Invalid::other(ErrorKind::NumericOutOfRange, "value overflows numeric format"))
    }

    fn string(&mut self) -> Result<String, Invalid> {
        let (text, end) = unescape(self.text, self.at)?;
        self.at = end;
        Ok(text)
    }
}

/// The text of the string that begins with the quote at `start`, and where what follows begins.
pub(super) fn unescape(text: &str, start: usize) -> Result<(String, usize), Invalid> {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (String::new(), start + 1);
    loop {
        let plain = bytes[at..].iter().position(|byte| matches!(byte, b'"' | b'\\'));
        let Some(plain) = plain else {
            return Ok((out, bytes.len()));
        };
        out.push_str(&text[at..at + plain]);
        at += plain;
        if bytes[at] == b'"' {
            return Ok((out, at + 1));
        }
        let escaped = bytes.get(at + 1).copied().unwrap_or(0);
        at += 2;
        out.push(match escaped {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let (c, end) = unicode(text, at)?;
                at = end;
                c
            }
            other => char::from(other),
        });
    }
}

/// The character whose four digits begin at `at`, or of a pair of such.
fn unicode(text: &str, at: usize) -> Result<(char, usize), Invalid> {
    let code = |at: usize| {
        text.get(at..at + 4)
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
    };
    let bad = |detail: &str| {
        let error = StorageError::new(ErrorKind::InvalidText, "invalid input syntax for type json");
        Invalid::Other(Box::new(error.detail(detail.to_string())))
    };
    let orphan = || bad("Unicode low surrogate must follow a high surrogate.");
    match code(at).ok_or_else(orphan)? {
        0 => {
            let error = StorageError::new(ErrorKind::Untranslatable, "unsupported Unicode escape sequence");
            let error = error.detail("\\u0000 cannot be converted to text.".to_string());
            Err(Invalid::Other(Box::new(error)))
        }
        high @ 0xd800..=0xdbff => {
            let low = match text.get(at + 4..at + 6) {
                Some("\\u") => code(at + 6),
                _ => None,
            };
            match low {
                Some(low @ 0xdc00..=0xdfff) => {
                    let c = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                    Ok((char::from_u32(c).ok_or_else(orphan)?, at + 10))
                }
                Some(0xd800..=0xdbff) => Err(bad("Unicode high surrogate must not follow a high surrogate.")),
                _ => Err(orphan()),
            }
        }
        other => Ok((char::from_u32(other).ok_or_else(orphan)?, at + 4)),
    }
}
