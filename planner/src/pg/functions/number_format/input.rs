//! `to_number`: text read by a pattern.

use super::pattern::{Key, Pattern, PatternNode, SignAt};
use crate::pg::error::{Result, SqlError, state};
use tenon_storage::numeric::{Finite, Int, Numeric};

pub(super) fn to_number(text: &str, pattern: &Pattern) -> Result<Numeric> {
    if pattern.scientific || pattern.roman {
        let name = if pattern.roman { "RN" } else { "EEEE" };
        let message = format!("\"{name}\" not supported for input");
        return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
    }
    let mut reader = Reader {
        input: text.chars().collect(),
        at: 0,
        negative: None,
        digits: String::new(),
        before: 0,
        behind: 0,
        point: false,
        pattern,
    };
    reader.read();
    let (scale, sign) = (reader.behind, if reader.negative == Some(true) { "-" } else { "" });
    let digits = reader.digits.trim_end_matches('.');
    let written = format!("{sign}{digits}");
    let value = Numeric::parse(written.as_bytes()).map_err(|_| {
        let message = format!(
            "invalid input syntax for type numeric: \"{}{digits}\"",
            if sign.is_empty() { " " } else { sign }
        );
        SqlError::new(state::INVALID_TEXT_REPRESENTATION, message)
    })?;
    let precision = (pattern.before + pattern.multiplied + scale) as i32;
    let fitted = value
        .fitted(precision.max(1), scale as i32)
        .ok_or_else(|| SqlError::from(tenon_storage::parse::numeric_overflow(precision, scale as i32)))?;
    if !pattern.multiply {
        return Ok(fitted);
    }
    // Divided by 10^n, with the digits of PostgreSQL's power of it.
    let places = pattern.multiplied as u32;
    let factor = Finite::new(Int::power(16_u32.saturating_sub(places)), 16);
    fitted
        .mul(&factor.into())
        .map_err(|_| SqlError::internal("a number by its pattern"))
}

struct Reader<'a> {
    input: Vec<char>,
    at: usize,
    negative: Option<bool>,
    digits: String,
    before: usize,
    behind: usize,
    point: bool,
    pattern: &'a Pattern,
}

impl Reader<'_> {
    fn next(&self) -> Option<char> {
        self.input.get(self.at).copied()
    }

    fn read(&mut self) {
        for node in &self.pattern.nodes {
            if self.at >= self.input.len() {
                return;
            }
            match node {
                PatternNode::Text(_) => self.at += 1,
                PatternNode::Key(Key::Nine | Key::Zero) => self.place(true),
                PatternNode::Key(Key::Point | Key::LocalePoint) => self.place(false),
                PatternNode::Key(Key::Comma | Key::Group) => {
                    if self.next() == Some(',') {
                        self.at += 1;
                    }
                }
                PatternNode::Key(Key::Currency) => self.skip(1),
                PatternNode::Key(Key::Ordinal | Key::OrdinalLower) => self.skip(2),
                PatternNode::Key(Key::Minus) => self.sign('-'),
                PatternNode::Key(Key::Plus) => self.sign('+'),
                PatternNode::Key(Key::SignAlone) => {
                    self.sign('-');
                    self.sign('+');
                }
                PatternNode::Key(_) => {}
            }
        }
    }

    /// Skips characters that are no part of a number.
    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            match self.next() {
                Some(next) if !(next.is_ascii_digit() || ".,+-".contains(next)) => self.at += 1,
                _ => return,
            }
        }
    }

    fn sign(&mut self, sign: char) {
        if self.next() == Some(sign) {
            self.negative.get_or_insert(sign == '-');
            self.at += 1;
        }
    }

    fn place(&mut self, digit: bool) {
        if self.next() == Some(' ') {
            self.at += 1;
        }
        let untouched = self.before + self.behind == 0;
        if self.negative.is_none() && digit && untouched {
            match self.next() {
                Some('-') => self.negative = Some(true),
                Some('<') if self.pattern.brackets => self.negative = Some(true),
                Some('+') => self.negative = Some(false),
                _ => {}
            }
            if self.negative.is_some() {
                self.at += 1;
            }
        }
        let mut read = false;
        match self.next() {
            Some(next) if next.is_ascii_digit() => {
                if self.point && self.behind == self.pattern.behind {
                    return;
                }
                self.digits.push(next);
                match self.point {
                    true => self.behind += 1,
                    false => self.before += 1,
                }
                read = true;
            }
            Some('.') if self.pattern.point && !self.point => {
                self.digits.push('.');
                self.point = true;
                read = true;
            }
            None => return,
            _ => {}
        }
        if self.negative.is_none() && self.before + self.behind > 0 {
            let behind = self.input.get(self.at + 1);
            if self.pattern.sign && read && behind.is_some_and(|next| !next.is_ascii_digit()) {
                let own = behind.filter(|next| matches!(next, '-' | '+')).copied();
                if own.is_some() && (self.pattern.sign_at != SignAt::Nowhere) {
                    self.negative = own.map(|sign| sign == '-');
                    self.at += 1;
                }
            } else if !read && !self.pattern.sign && (self.pattern.plus || self.pattern.minus) {
                self.negative = match self.next() {
                    Some('-') => Some(true),
                    Some('+') => Some(false),
                    _ => None,
                };
            }
        }
        self.at += 1;
    }
}
