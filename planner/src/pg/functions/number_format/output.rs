//! `to_char` of a number: PostgreSQL's formatter, digit by digit.

use super::pattern::{Key, Pattern, PatternNode, SignAt};
use crate::pg::error::{Result, SqlError};
use tenon_storage::numeric::Numeric;

/// A number to be written.
pub(super) enum Number {
    Exact(Numeric),
    /// And its type's significant decimal digits.
    Float(f64, usize),
}

impl Number {
    fn is_special(&self) -> bool {
        match self {
            Number::Exact(value) => value.scale().is_none(),
            Number::Float(value, _) => !value.is_finite(),
        }
    }
}

pub(super) fn to_char(number: &Number, pattern: &Pattern) -> Result<String> {
    let mut pattern = pattern.clone();
    if pattern.roman {
        let whole = match number {
            Number::Exact(value) => value.to_i64().ok().flatten(),
            Number::Float(value, _) => Some(*value as i64),
        };
        let digits = whole.and_then(roman).unwrap_or_else(|| "#".repeat(15));
        return Ok(Writer::new(pattern, digits, 0, '+').written());
    }
    if pattern.scientific {
        return Ok(scientific(number, &pattern));
    }
    let scale = pattern.multiplied as i64;
    let (negative, digits) = match number {
        Number::Exact(value) => {
            let value = match (pattern.multiply, value) {
                (true, Numeric::Finite(own)) => {
                    let unscaled = own.unscaled.mul(&tenon_storage::numeric::Int::power(scale as u32));
                    tenon_storage::numeric::Finite::new(unscaled, own.scale).into()
                }
                _ => value.clone(),
            };
            let rounded = value.round(pattern.behind as i64);
            let text = rounded
                .map_err(|_| SqlError::internal("a number by its pattern"))?
                .to_string();
            match text.strip_prefix('-') {
                Some(digits) => (true, digits.to_string()),
                None => (false, text),
            }
        }
        Number::Float(value, significant) => {
            let value = if pattern.multiply {
                value * 10f64.powi(scale as i32)
            } else {
                *value
            };
            let whole = format!("{:.0}", value.abs()).len();
            if !number.is_special() {
                pattern.behind = pattern.behind.min(significant.saturating_sub(whole));
            }
            let text = match value {
                v if v.is_nan() => "NaN".to_string(),
                v if v.is_infinite() => "Infinity".to_string(),
                v => format!("{:.*}", pattern.behind, v.abs()),
            };
            (value < 0.0, text)
        }
    };
    pattern.before += pattern.multiplied;
    let whole = digits.find('.').unwrap_or(digits.len());
    let (digits, spaces) = if whole > pattern.before {
        let mut filled = "#".repeat(pattern.before);
        filled.push('.');
        filled.push_str(&"#".repeat(pattern.behind));
        (filled, 0)
    } else {
        (digits, pattern.before - whole)
    };
    let sign = if negative { '-' } else { '+' };
    Ok(Writer::new(pattern, digits, spaces, sign).written())
}

fn scientific(number: &Number, pattern: &Pattern) -> String {
    if number.is_special() {
        let mut out = format!(" {}", "#".repeat(pattern.before));
        out.push('.');
        out.push_str(&"#".repeat(pattern.behind + 4));
        return out;
    }
    let text = match number {
        Number::Exact(value) => value.to_scientific(pattern.behind),
        Number::Float(value, _) => {
            let text = format!("{value:.*e}", pattern.behind);
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let exponent: i32 = exponent.parse().unwrap_or(0);
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
    };
    if text.starts_with('-') {
        text
    } else {
        format!(" {text}")
    }
}

fn roman(number: i64) -> Option<String> {
    const PARTS: [(i64, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    if !(1..4000).contains(&number) {
        return None;
    }
    let (mut rest, mut out) = (number, String::new());
    for (value, letters) in PARTS {
        while rest >= value {
            out.push_str(letters);
            rest -= value;
        }
    }
    Some(out)
}

/// One number on its way through a pattern.
struct Writer {
    pattern: Pattern,
    number: Vec<u8>,
    /// Where in the number the next digit is.
    at: usize,
    /// Places before the number's first digit.
    spaces: usize,
    sign: char,
    sign_written: bool,
    /// Of a filled pattern with a point: the last digit that is not dropped.
    last_relevant: Option<usize>,
    count: usize,
    /// Digit places met.
    current: usize,
    /// Whether a digit is written.
    inside: bool,
    out: String,
}

impl Writer {
    fn new(mut pattern: Pattern, number: String, spaces: usize, sign: char) -> Writer {
        pattern.zero_start = pattern.zero_start.saturating_sub(1);
        let mut sign_written = false;
        if pattern.roman {
            let fill = pattern.fill;
            let nodes = std::mem::take(&mut pattern.nodes);
            pattern = Pattern {
                nodes,
                fill,
                roman: true,
                ..Pattern::default()
            };
        }
        if pattern.plus || pattern.minus {
            sign_written = !pattern.plus || pattern.minus;
        } else {
            if sign != '-' && pattern.fill {
                pattern.brackets = false;
            }
            sign_written |= sign == '+' && pattern.fill && !pattern.sign;
            if pattern.sign_at == SignAt::Before && pattern.before == pattern.before_sign {
                pattern.sign_at = SignAt::Behind;
            }
        }
        let number = number.into_bytes();
        let mut count = (pattern.before + pattern.behind).saturating_sub(1);
        let mut last_relevant = None;
        if pattern.fill && pattern.point {
            last_relevant = number.iter().position(|byte| *byte == b'.').map(|point| {
                let last = number[point..].iter().rposition(|byte| *byte != b'0').unwrap_or(0);
                let mut relevant = point + last;
                if pattern.zero_end > spaces {
                    // The digits that a 0 stands for stay.
                    relevant = relevant.max((number.len() - 1).min(pattern.zero_end - spaces));
                }
                relevant
            });
        }
        if !sign_written && spaces == 0 {
            count += 1;
        }
        Writer {
            pattern,
            number,
            at: 0,
            spaces,
            sign,
            sign_written,
            last_relevant,
            count,
            current: 0,
            inside: false,
            out: String::new(),
        }
    }

    fn digit(&self) -> Option<u8> {
        self.number.get(self.at).copied()
    }

    fn relevant_is_point(&self) -> bool {
        self.last_relevant.is_some_and(|at| self.number[at] == b'.')
    }

    /// `0.1` by `9.9` is ` .1`.
    fn is_leading_zero(&self) -> bool {
        !self.pattern.zero && self.at == 0 && self.digit() == Some(b'0') && self.pattern.behind != 0
    }

    fn written(mut self) -> String {
        let nodes = std::mem::take(&mut self.pattern.nodes);
        for node in nodes {
            let (fill, negative) = (self.pattern.fill, self.sign == '-');
            let key = match node {
                PatternNode::Text(text) => {
                    self.out.push(text);
                    continue;
                }
                PatternNode::Key(key) => key,
            };
            match key {
                Key::Nine | Key::Zero | Key::Point | Key::LocalePoint => self.place(key),
                Key::Comma | Key::Group if self.inside => self.out.push(','),
                Key::Comma | Key::Group if fill => {}
                Key::Comma | Key::Group | Key::Currency => self.out.push(' '),
                Key::Roman | Key::RomanLower => {
                    let text = String::from_utf8_lossy(&self.number).into_owned();
                    let text = if key == Key::Roman { text } else { text.to_lowercase() };
                    match fill {
                        true => self.out.push_str(&text),
                        false => self.out.push_str(&format!("{text:>15}")),
                    }
                }
                Key::Ordinal | Key::OrdinalLower => {
                    let none = self.pattern.roman || self.number.first() == Some(&b'#') || negative;
                    if !none && !self.pattern.point {
                        let ending = ordinal(&self.number);
                        match key {
                            Key::Ordinal => self.out.push_str(&ending.to_uppercase()),
                            _ => self.out.push_str(ending),
                        }
                    }
                }
                Key::Minus if negative => self.out.push('-'),
                Key::Plus if !negative => self.out.push('+'),
                Key::Minus | Key::Plus if !fill => self.out.push(' '),
                Key::SignAlone => self.out.push(self.sign),
                _ => {}
            }
        }
        self.out
    }

    /// One place of the number.
    fn place(&mut self, key: Key) {
        if self.pattern.roman {
            return;
        }
        self.inside = false;
        let starts = self.current >= self.spaces || (self.pattern.zero && self.pattern.zero_start == self.current);
        if !self.sign_written && starts && (!self.is_leading_zero() || self.relevant_is_point()) {
            self.write_sign();
        }
        if self.current < self.spaces && (self.pattern.zero_start > self.current || !self.pattern.zero) {
            if !self.pattern.fill {
                self.out.push(' ');
            }
        } else if self.pattern.zero && self.current < self.spaces {
            self.out.push('0');
            self.inside = true;
        } else {
            self.write_digit(key);
        }
        let mut end = self.count + usize::from(self.spaces > 0) + usize::from(self.pattern.point);
        if self.last_relevant == Some(self.at) {
            end = self.current;
        }
        if self.current + 1 == end {
            if self.sign_written && self.pattern.brackets {
                self.out.push(if self.sign == '+' { ' ' } else { '>' });
            } else if self.pattern.sign && self.pattern.sign_at == SignAt::Behind {
                self.out.push(self.sign);
            }
        }
        self.current += 1;
    }

    fn write_sign(&mut self) {
        if self.pattern.sign {
            if self.pattern.sign_at == SignAt::Before {
                self.out.push(self.sign);
                self.sign_written = true;
            }
            return;
        }
        if self.pattern.brackets {
            self.out.push(if self.sign == '+' { ' ' } else { '<' });
        } else if self.sign == '-' {
            self.out.push('-');
        } else if !self.pattern.fill {
            self.out.push(' ');
        }
        self.sign_written = true;
    }

    fn write_digit(&mut self, key: Key) {
        match self.digit() {
            Some(b'.') => {
                if !self.relevant_is_point() || self.pattern.fill {
                    self.out.push('.');
                }
            }
            digit => {
                if self.last_relevant.is_some_and(|last| self.at > last) && key != Key::Zero {
                    // Dropped.
                } else if self.is_leading_zero() {
                    if !self.pattern.fill {
                        self.out.push(' ');
                    } else if self.relevant_is_point() {
                        self.out.push('0');
                    }
                } else if let Some(digit) = digit {
                    self.out.push(char::from(digit));
                    self.inside = true;
                }
            }
        }
        if self.at < self.number.len() {
            self.at += 1;
        }
    }
}

fn ordinal(number: &[u8]) -> &'static str {
    let teen = number.len() > 1 && number[number.len() - 2] == b'1';
    match number.last() {
        Some(b'1') if !teen => "st",
        Some(b'2') if !teen => "nd",
        Some(b'3') if !teen => "rd",
        _ => "th",
    }
}
