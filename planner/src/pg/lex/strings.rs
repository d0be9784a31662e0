//! Strings and quoted names in all their forms.

use super::{Lexer, is_blank, is_name_part, is_name_start};
use crate::pg::error::{Result, SqlError, state};
use datafusion::sql::sqlparser::ast::DollarQuotedString;
use datafusion::sql::sqlparser::tokenizer::Token;
use tenon_storage::SqlType;
use tenon_storage::quote::cut_name;

impl Lexer<'_> {
    /// The string or quoted name that starts here, if one does.
    pub(super) fn string(&mut self) -> Result<Option<Token>> {
        let start = self.at;
        let token = match (self.byte(0), self.byte(1), self.byte(2)) {
            (b'\'', ..) if self.conforming => Token::SingleQuotedString(self.plain(0)?),
            (b'\'', ..) => Token::SingleQuotedString(self.escaped(0)?),
            (b'e' | b'E', b'\'', _) => Token::SingleQuotedString(self.escaped(1)?),
            (b'n' | b'N', b'\'', _) => Token::SingleQuotedString(self.plain(1)?),
            (b'b' | b'B' | b'x' | b'X', b'\'', _) => self.bits()?,
            (b'u' | b'U', b'&', b'\'') if self.conforming => {
                let raw = self.plain(2)?;
                Token::SingleQuotedString(self.unicode(&raw, start)?)
            }
            (b'u' | b'U', b'&', b'\'') => {
                let told = SqlError::new(
                    state::FEATURE_NOT_SUPPORTED,
                    "unsafe use of string constant with Unicode escapes",
                );
                return Err(told.detail(
                    "String constants with Unicode escapes cannot be used when standard_conforming_strings is off.",
                ));
            }
            (b'"', ..) => {
                let name = self.name(0)?;
                Token::make_word(cut_name(&name), Some('"'))
            }
            (b'u' | b'U', b'&', b'"') => {
                let raw = self.name(2)?;
                let name = self.unicode(&raw, start)?;
                Token::make_word(cut_name(&name), Some('"'))
            }
            (b'$', ..) => return self.dollar(),
            _ => return Ok(None),
        };
        Ok(Some(token))
    }

    /// The string of bits that starts here, in binary digits.
    fn bits(&mut self) -> Result<Token> {
        let (start, base) = (self.at, self.byte(0));
        let digits = self.plain(1)?;
        let text = format!("{}{digits}", char::from(base));
        match tenon_storage::bits::parse(text.as_bytes(), SqlType::VarBit) {
            Ok(bits) => Ok(Token::SingleQuotedByteStringLiteral(
                bits.into_iter().map(char::from).collect(),
            )),
            Err(invalid) => {
                let refused = SqlError::from(invalid.into_error(SqlType::VarBit, &text));
                Err(refused.position(self.text[..start].chars().count() + 1))
            }
        }
    }

    /// Between quotes, a doubled quote for one.
    fn quoted(&mut self, prefix: usize, quote: char, message: &str) -> Result<String> {
        let start = self.at;
        self.take(prefix + 1);
        let mut out = String::new();
        loop {
            out.push_str(self.take_while(|c| c != quote));
            match (self.byte(0), self.byte(1)) {
                (0, _) if self.rest().is_empty() => return Err(self.error(message, start)),
                (_, next) if char::from(next) == quote => {
                    self.take(2);
                    out.push(quote);
                }
                _ => {
                    self.take(1);
                    if quote != '\'' || !self.goes_on() {
                        return Ok(out);
                    }
                }
            }
        }
    }

    fn plain(&mut self, prefix: usize) -> Result<String> {
        self.quoted(prefix, '\'', "unterminated quoted string")
    }

    fn name(&mut self, prefix: usize) -> Result<String> {
        let start = self.at;
        let name = self.quoted(prefix, '"', "unterminated quoted identifier")?;
        if name.is_empty() {
            return Err(self.error("zero-length delimited identifier", start));
        }
        Ok(name)
    }

    /// Whether the string goes on behind a line break, and if so, moves there.
    fn goes_on(&mut self) -> bool {
        let (at, place) = (self.at, self.place);
        let mut lines = 0;
        loop {
            lines += self.take_while(is_blank).matches(['\n', '\r']).count();
            if !self.rest().starts_with("--") {
                break;
            }
            self.take_while(|c| c != '\n' && c != '\r');
        }
        if lines > 0 && self.byte(0) == b'\'' {
            self.take(1);
            return true;
        }
        (self.at, self.place) = (at, place);
        false
    }

    /// A string with backslash escapes, which may be of bytes.
    fn escaped(&mut self, prefix: usize) -> Result<String> {
        let start = self.at;
        self.take(prefix + 1);
        let mut out: Vec<u8> = Vec::new();
        loop {
            out.extend_from_slice(self.take_while(|c| c != '\'' && c != '\\').as_bytes());
            match (self.byte(0), self.byte(1)) {
                (b'\'', b'\'') => {
                    self.take(2);
                    out.push(b'\'');
                }
                (b'\'', _) => {
                    self.take(1);
                    if !self.goes_on() {
                        break;
                    }
                }
                (b'\\', _) if self.rest().len() > 1 => self.escape(&mut out)?,
                _ => {
                    let rest = self.rest().len();
                    self.take(rest);
                    return Err(self.error("unterminated quoted string", start));
                }
            }
        }
        if let Some(zero) = out.iter().position(|byte| *byte == 0) {
            return Err(bad_bytes(&out[zero..=zero]));
        }
        String::from_utf8(out).map_err(|error| {
            let from = error.utf8_error().valid_up_to();
            let width = error.utf8_error().error_len();
            let bytes = error.as_bytes();
            bad_bytes(&bytes[from..width.map_or(bytes.len(), |width| from + width)])
        })
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.take(1);
        let Some(c) = self.rest().chars().next() else {
            return Ok(());
        };
        match c {
            'b' => out.push(8),
            'f' => out.push(12),
            'n' => out.push(b'\n'),
            'r' => out.push(b'\r'),
            't' => out.push(b'\t'),
            '0'..='7' => {
                let digits = self
                    .rest()
                    .bytes()
                    .take(3)
                    .take_while(|b| (b'0'..=b'7').contains(b))
                    .count();
                let value = u32::from_str_radix(self.take(digits), 8).unwrap_or(0);
                out.push((value & 0xff) as u8);
                return Ok(());
            }
            'x' if self.byte(1).is_ascii_hexdigit() => {
                self.take(1);
                let digits = self.rest().bytes().take(2).take_while(u8::is_ascii_hexdigit).count();
                out.push(u8::from_str_radix(self.take(digits), 16).unwrap_or(0));
                return Ok(());
            }
            'u' | 'U' => {
                let first = self.code_point()?;
                let point = match first {
                    0xd800..=0xdbff if self.byte(0) == b'\\' && matches!(self.byte(1), b'u' | b'U') => {
                        self.take(1);
                        pair(first, self.code_point()?)
                    }
                    other => char::from_u32(other),
                };
                let Some(point) = point else {
                    return Err(self.error("invalid Unicode surrogate pair", self.at));
                };
                out.extend_from_slice(point.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            other => out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
        self.take(c.len_utf8());
        Ok(())
    }

    /// `u` and four hexadecimal digits, or `U` and eight.
    fn code_point(&mut self) -> Result<u32> {
        let digits = if self.byte(0) == b'u' { 4 } else { 8 };
        let hex = self
            .rest()
            .get(1..1 + digits)
            .filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        let point = hex.and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let Some(point) = point else {
            return Err(
                SqlError::new(crate::pg::error::SqlState("22025"), "invalid Unicode escape")
                    .hint("Unicode escapes must be \\uXXXX or \\UXXXXXXXX."),
            );
        };
        self.take(1 + digits);
        Ok(point)
    }

    /// `$tag$ ... $tag$`.
    fn dollar(&mut self) -> Result<Option<Token>> {
        let rest = self.rest();
        let Some(end) = rest[1..].find('$').map(|end| end + 1) else {
            return Ok(None);
        };
        let tag = &rest[1..end];
        let named = |tag: &str| tag.starts_with(is_name_start) && tag.chars().all(|c| is_name_part(c) && c != '$');
        if !tag.is_empty() && !named(tag) {
            return Ok(None);
        }
        let (start, fence) = (self.at, &rest[..=end]);
        let Some(length) = rest[fence.len()..].find(fence) else {
            self.take(rest.len());
            return Err(self.error("unterminated dollar-quoted string", start));
        };
        let value = rest[fence.len()..fence.len() + length].to_string();
        self.take(2 * fence.len() + length);
        Ok(Some(Token::DollarQuotedString(DollarQuotedString {
            value,
            tag: Some(tag.to_string()).filter(|tag| !tag.is_empty()),
        })))
    }

    /// The escapes of `U&''`, and the UESCAPE that may follow.
    fn unicode(&mut self, raw: &str, start: usize) -> Result<String> {
        let escape = self.escape_character()?;
        let (mut out, mut chars) = (String::new(), raw.chars().peekable());
        let wrong = |message: &str| {
            let position = self.text[..start].chars().count() + 1;
            SqlError::new(state::SYNTAX_ERROR, message).position(position)
        };
        let bad = || wrong("invalid Unicode escape").hint("Unicode escapes must be \\XXXX or \\+XXXXXX.");
        let mut high: Option<u32> = None;
        while let Some(c) = chars.next() {
            if c != escape || chars.peek() == Some(&escape) {
                if c == escape {
                    chars.next();
                }
                if high.is_some() {
                    return Err(wrong("invalid Unicode surrogate pair"));
                }
                out.push(c);
                continue;
            }
            let digits = if chars.next_if_eq(&'+').is_some() { 6 } else { 4 };
            let mut point = 0;
            for _ in 0..digits {
                let digit = chars.next().and_then(|c| c.to_digit(16)).ok_or_else(bad)?;
                point = point * 16 + digit;
            }
            let decoded = match (high.take(), point) {
                (None, 0xd800..=0xdbff) => {
                    high = Some(point);
                    continue;
                }
                (Some(high), low) => pair(high, low),
                (None, 0) => None,
                (None, point) => char::from_u32(point),
            };
            match decoded {
                Some(decoded) => out.push(decoded),
                None if (0xdc00..=0xdfff).contains(&point) => return Err(wrong("invalid Unicode surrogate pair")),
                None => return Err(wrong("invalid Unicode escape value")),
            }
        }
        match high {
            Some(_) => Err(wrong("invalid Unicode surrogate pair")),
            None => Ok(out),
        }
    }

    fn escape_character(&mut self) -> Result<char> {
        let (at, place) = (self.at, self.place);
        self.skip_blank()?;
        let word = self.take_while(is_name_part);
        if !word.eq_ignore_ascii_case("uescape") {
            (self.at, self.place) = (at, place);
            return Ok('\\');
        }
        self.skip_blank()?;
        let start = self.at;
        if self.byte(0) != b'\'' {
            return Err(self.error("UESCAPE must be followed by a simple string literal", start));
        }
        let told = self.plain(0)?;
        let mut chars = told.chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) if !c.is_ascii_hexdigit() && !matches!(c, '+' | '\'' | '"') && !is_blank(c) => Ok(c),
            _ => Err(self.error("invalid Unicode escape character", start)),
        }
    }
}

/// The character of two surrogates.
fn pair(high: u32, low: u32) -> Option<char> {
    if !(0xdc00..=0xdfff).contains(&low) {
        return None;
    }
    char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
}

fn bad_bytes(bytes: &[u8]) -> SqlError {
    let shown: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
    let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
    SqlError::new(state::CHARACTER_NOT_IN_REPERTOIRE, message)
}
