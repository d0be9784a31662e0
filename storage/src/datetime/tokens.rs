//! A text of a date, time or interval as tokens.

use crate::parse::Invalid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Digits, perhaps with a point.
    Number,
    /// Letters.
    Word,
    /// Digits or letters joined by `-`, `/` or `.`; also a zone's name with such marks.
    Date,
    /// Digits with colons.
    Time,
    /// A sign and digits.
    Signed,
    /// A sign and letters.
    Special,
}

/// A token in lower case.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub kind: Kind,
    pub text: String,
}

const TOKENS_MAX: usize = 25;
const BYTES_MAX: usize = 128;

/// Cuts a text at blanks, at punctuation that means nothing, and between letters and digits.
pub(super) fn tokens(text: &[u8]) -> Result<Vec<Token>, Invalid> {
    let mut cursor = Cursor { text, at: 0 };
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some(first) = cursor.peek() {
        if is_blank(first) {
            cursor.at += 1;
            continue;
        }
        let Some(token) = cursor.token(first)? else { continue };
        bytes += token.text.len() + 1;
        if found.len() == TOKENS_MAX || bytes > BYTES_MAX {
            return Err(Invalid::Syntax);
        }
        found.push(token);
    }
    Ok(found)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Moves past the bytes that `wanted` takes.
    fn skip(&mut self, wanted: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&wanted) {
            self.at += 1;
        }
    }

    fn next_is(&self, wanted: impl Fn(u8) -> bool) -> bool {
        self.peek().is_some_and(wanted)
    }

    fn since(&self, start: usize) -> String {
        String::from_utf8_lossy(&self.text[start..self.at]).to_ascii_lowercase()
    }

    /// The token that `first` begins; None for a mark that means nothing.
    fn token(&mut self, first: u8) -> Result<Option<Token>, Invalid> {
        let start = self.at;
        let kind = match first {
            b'0'..=b'9' => self.digits(),
            b'.' => {
                self.at += 1;
                self.skip(|byte| byte.is_ascii_digit());
                Kind::Number
            }
            letter if letter.is_ascii_alphabetic() => self.letters(start),
            b'+' | b'-' => {
                self.at += 1;
                self.skip(is_blank);
                let after = self.at;
                let kind = if self.next_is(|byte| byte.is_ascii_digit()) {
                    self.skip(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b'-'));
                    Kind::Signed
                } else if self.next_is(|byte| byte.is_ascii_alphabetic()) {
                    self.skip(|byte| byte.is_ascii_alphabetic());
                    Kind::Special
                } else {
                    return Err(Invalid::Syntax);
                };
                let text = format!("{}{}", char::from(first), self.since(after));
                return Ok(Some(Token { kind, text }));
            }
            mark if mark.is_ascii_punctuation() => {
                self.at += 1;
                return Ok(None);
            }
            _ => return Err(Invalid::Syntax),
        };
        let text = self.since(start);
        Ok(Some(Token { kind, text }))
    }

    fn digits(&mut self) -> Kind {
        self.skip(|byte| byte.is_ascii_digit());
        match self.peek() {
            Some(b':') => {
                self.skip(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.'));
                Kind::Time
            }
            Some(mark @ (b'-' | b'/' | b'.')) => {
                self.at += 1;
                if !self.next_is(|byte| byte.is_ascii_digit()) {
                    self.skip(|byte| byte.is_ascii_alphanumeric() || byte == mark);
                    return Kind::Date;
                }
                self.skip(|byte| byte.is_ascii_digit());
                if self.next_is(|byte| byte == mark) {
                    self.skip(|byte| byte.is_ascii_digit() || byte == mark);
                    return Kind::Date;
                }
                if mark == b'.' { Kind::Number } else { Kind::Date }
            }
            _ => Kind::Number,
        }
    }

    fn letters(&mut self, start: usize) -> Kind {
        self.skip(|byte| byte.is_ascii_alphabetic());
        let joined = match self.peek() {
            Some(b'-' | b'/' | b'.') => true,
            // A word that is no date's begins the name of a zone: `gmt+3`.
            Some(next) if next == b'+' || next.is_ascii_digit() => {
                super::words::date_word(&self.since(start)).is_none()
            }
            _ => false,
        };
        if !joined {
            return Kind::Word;
        }
        self.skip(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'/' | b'_' | b'.' | b':'));
        Kind::Date
    }
}
