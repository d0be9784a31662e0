//! Checks that a text is JSON (RFC 8259). The text itself is what is stored.

use super::Invalid;
use crate::error::{ErrorKind, StorageError};
use crate::heap::Steps;

/// Deepest nesting accepted.
const DEPTH_MAX: usize = 6_000;

pub fn check_json(text: &str) -> Result<(), Invalid> {
    let mut checker = Checker {
        bytes: text.as_bytes(),
        at: 0,
        too_deep: false,
        steps: Steps::default(),
        stopped: false,
    };
    match checker.document() {
        Some(()) => Ok(()),
        None if checker.stopped => Err(Invalid::stopped()),
        None if checker.too_deep => Err(Invalid::other(ErrorKind::StackDepth, "stack depth limit exceeded")),
        None => {
            let detail = match text[floor_boundary(text, checker.at)..].chars().next() {
                None => "The input string ended unexpectedly.".to_string(),
                Some(_) => format!("Token \"{}\" is invalid.", token_at(text, checker.at)),
            };
            let error = StorageError::new(ErrorKind::InvalidText, "invalid input syntax for type json");
            Err(Invalid::Other(Box::new(error.detail(detail))))
        }
    }
}

fn floor_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

fn token_at(text: &str, at: usize) -> &str {
    let rest = &text[floor_boundary(text, at)..];
    let word = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
    let first = rest.chars().next().map_or(0, char::len_utf8);
    &rest[..word.max(first)]
}

struct Checker<'a> {
    bytes: &'a [u8],
    at: usize,
    too_deep: bool,
    steps: Steps,
    /// The statement that wants to know is to end.
    stopped: bool,
}

impl Checker<'_> {
    /// One value; open containers are on a stack, so depth costs no recursion.
    fn document(&mut self) -> Option<()> {
        let mut open: Vec<u8> = Vec::new();
        loop {
            // A value begins here.
            self.blanks();
            if open.len() > DEPTH_MAX {
                self.too_deep = true;
                return None;
            }
            self.stopped = self.steps.step().is_some();
            if self.stopped {
                return None;
            }
            match self.peek()? {
                b'{' => {
                    self.at += 1;
                    self.blanks();
                    if self.peek()? == b'}' {
                        self.at += 1;
                    } else {
                        self.key()?;
                        open.push(b'}');
                        continue;
                    }
                }
                b'[' => {
                    self.at += 1;
                    self.blanks();
                    if self.peek()? == b']' {
                        self.at += 1;
                    } else {
                        open.push(b']');
                        continue;
                    }
                }
                b'"' => self.string()?,
                b'-' | b'0'..=b'9' => self.number()?,
                b't' => self.word(b"true")?,
                b'f' => self.word(b"false")?,
                b'n' => self.word(b"null")?,
                _ => return None,
            }
            // A value has ended: close containers or go on in the innermost.
            loop {
                self.blanks();
                let Some(closer) = open.last().copied() else {
                    return (self.at == self.bytes.len()).then_some(());
                };
                match self.peek()? {
                    b',' => {
                        self.at += 1;
                        if closer == b'}' {
                            self.blanks();
                            self.key()?;
                        }
                        break;
                    }
                    byte if byte == closer => {
                        self.at += 1;
                        open.pop();
                    }
                    _ => return None,
                }
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn key(&mut self) -> Option<()> {
        (self.peek()? == b'"').then_some(())?;
        self.string()?;
        self.blanks();
        (self.peek()? == b':').then(|| self.at += 1)
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.bytes[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    fn string(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                b'\\' => {
                    match self.bytes.get(self.at + 1)? {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 2,
                        b'u' => {
                            let digits = self.bytes.get(self.at + 2..self.at + 6)?;
                            digits.iter().all(u8::is_ascii_hexdigit).then(|| self.at += 6)?;
                        }
                        _ => return None,
                    };
                }
                0..0x20 => return None,
                _ => self.at += 1,
            }
        }
    }

    fn number(&mut self) -> Option<()> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leading_zero = self.peek()? == b'0';
        (self.digits()? == 1 || !leading_zero).then_some(())?;
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<usize> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(self.at - start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json() {
        for good in [
            "null",
            " 1 ",
            "-0.5e+3",
            "\"a\\u00e9\\n\"",
            "[]",
            "{}",
            "[1, [2, {}], \"x\"]",
            "{\"a\": {\"b\": []}, \"c\": 1}",
            "0",
        ] {
            assert!(check_json(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "nul",
            "01",
            "1.",
            "[1,]",
            "[1",
            "{\"a\"}",
            "{a: 1}",
            "{\"a\": 1,}",
            "\"\\x\"",
            "\"a\nb\"",
            "1 2",
            "]",
            "é",
            "[é]",
            "\"\\u12\"",
            "-",
        ] {
            assert!(check_json(bad).is_err(), "{bad}");
        }
        assert!(check_json(&"[".repeat(1_000_000)).is_err());
    }
}
