//! Reads PostgreSQL's advanced regular expressions.

use super::ast::{Anchor, RegexNode};
use super::classes;
use super::flags::{Flags, invalid};
use crate::pg::error::Result;

/// Most repetitions that a bound may ask for.
const REPEAT_MAX: u32 = 255;
/// How deep groups may nest.
const DEPTH_MAX: usize = 200;

pub(super) struct Read {
    pub node: RegexNode,
    pub flags: Flags,
    pub groups: u32,
}

pub(super) fn read(pattern: &str, flags: Flags) -> Result<Read> {
    let mut reader = Reader {
        chars: pattern.chars().collect(),
        at: 0,
        flags,
        groups: 0,
        closed: Vec::new(),
        in_look: 0,
        depth: 0,
    };
    reader.director()?;
    if reader.flags.literal {
        let chars = reader.chars[reader.at..].iter().map(|c| RegexNode::Char(*c)).collect();
        return Ok(Read {
            node: RegexNode::Concat(chars),
            flags: reader.flags,
            groups: 0,
        });
    }
    let node = reader.alternatives()?;
    if reader.at < reader.chars.len() {
        return Err(invalid("parentheses () not balanced"));
    }
    Ok(Read {
        node,
        flags: reader.flags,
        groups: reader.groups,
    })
}

pub(super) struct Reader {
    chars: Vec<char>,
    at: usize,
    pub(super) flags: Flags,
    groups: u32,
    /// Which groups a back reference may name.
    closed: Vec<u32>,
    in_look: usize,
    depth: usize,
}

impl Reader {
    pub(super) fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let c = self.peek();
        self.at += usize::from(c.is_some());
        c
    }

    pub(super) fn skip(&mut self, text: &str) -> bool {
        let found = self.starts_with(text);
        if found {
            self.at += text.chars().count();
        }
        found
    }

    pub(super) fn starts_with(&self, text: &str) -> bool {
        let rest = self.chars[self.at..].iter().copied();
        rest.zip(text.chars()).filter(|(a, b)| a == b).count() == text.chars().count()
            && self.chars.len() - self.at >= text.chars().count()
    }

    /// `***:`, `***=` and `(?letters)` at the beginning.
    fn director(&mut self) -> Result<()> {
        if self.flags.literal {
            return Ok(());
        }
        if self.skip("***") {
            match self.next() {
                Some('=') => {
                    self.flags.literal = true;
                    return Ok(());
                }
                Some(':') => {}
                _ => return Err(invalid("quantifier operand invalid")),
            }
        }
        if self.starts_with("(?") && self.chars.get(self.at + 2).is_some_and(char::is_ascii_alphabetic) {
            self.at += 2;
            loop {
                match self.next() {
                    Some(')') => break,
                    Some(letter) if self.flags.set(letter)? => {}
                    _ => return Err(invalid("invalid embedded option")),
                }
            }
        }
        Ok(())
    }

    fn alternatives(&mut self) -> Result<RegexNode> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(invalid("regular expression is too complex"));
        }
        let mut branches = vec![self.branch()?];
        while self.peek() == Some('|') {
            self.at += 1;
            branches.push(self.branch()?);
        }
        self.depth -= 1;
        Ok(match branches.len() {
            1 => branches.remove(0),
            _ => RegexNode::Either(branches),
        })
    }

    fn branch(&mut self) -> Result<RegexNode> {
        let mut parts = Vec::new();
        loop {
            self.skip_blank()?;
            match self.peek() {
                None | Some('|' | ')') => return Ok(RegexNode::Concat(parts)),
                Some(_) => parts.push(self.quantified()?),
            }
        }
    }

    /// Blanks and comments of the expanded syntax, and comments in parentheses.
    fn skip_blank(&mut self) -> Result<()> {
        loop {
            if self.skip("(?#") {
                while self.next().is_some_and(|c| c != ')') {}
            } else if self.flags.expanded && self.peek().is_some_and(char::is_whitespace) {
                self.at += 1;
            } else if self.flags.expanded && self.peek() == Some('#') {
                while self.next().is_some_and(|c| c != '\n') {}
            } else {
                return Ok(());
            }
        }
    }

    fn quantified(&mut self) -> Result<RegexNode> {
        let atom = self.atom()?;
        self.skip_blank()?;
        let (min, max, fixed) = match self.peek() {
            Some('*') => (0, None, false),
            Some('+') => (1, None, false),
            Some('?') => (0, Some(1), false),
            Some('{') if self.chars.get(self.at + 1).is_some_and(char::is_ascii_digit) => self.bound()?,
            _ => return Ok(atom),
        };
        self.at += 1;
        if matches!(atom, RegexNode::Anchor(_) | RegexNode::Look { .. }) {
            return Err(invalid("quantifier operand invalid"));
        }
        let greedy = !self.skip("?");
        if matches!(self.peek(), Some('*' | '+' | '?')) {
            return Err(invalid("quantifier operand invalid"));
        }
        Ok(RegexNode::Repeat {
            inner: Box::new(atom),
            min,
            max,
            greedy,
            fixed,
        })
    }

    /// `{m}`, `{m,}` or `{m,n}`, up to its closing brace.
    fn bound(&mut self) -> Result<(u32, Option<u32>, bool)> {
        self.at += 1;
        let min = self.count()?;
        let (max, fixed) = match self.peek() {
            Some(',') => {
                self.at += 1;
                match self.peek() {
                    Some(c) if c.is_ascii_digit() => (Some(self.count()?), false),
                    _ => (None, false),
                }
            }
            _ => (Some(min), true),
        };
        match self.peek() {
            Some('}') if max.is_none_or(|max| min <= max) => Ok((min, max, fixed)),
            Some('}') => Err(invalid("invalid repetition count(s)")),
            None => Err(invalid("braces {} not balanced")),
            Some(_) => Err(invalid("invalid repetition count(s)")),
        }
    }

    fn count(&mut self) -> Result<u32> {
        let mut count = 0;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            count = (count * 10 + digit).min(REPEAT_MAX + 1);
            self.at += 1;
        }
        if count > REPEAT_MAX {
            return Err(invalid("invalid repetition count(s)"));
        }
        Ok(count)
    }

    fn atom(&mut self) -> Result<RegexNode> {
        Ok(match self.next() {
            Some('.') => RegexNode::Any,
            Some('^') => RegexNode::Anchor(Anchor::Start),
            Some('$') => RegexNode::Anchor(Anchor::End),
            Some('*' | '+' | '?') => return Err(invalid("quantifier operand invalid")),
            Some('{') if self.peek().is_some_and(|c| c.is_ascii_digit()) => {
                return Err(invalid("quantifier operand invalid"));
            }
            Some('[') if self.skip("[:<:]]") => RegexNode::Anchor(Anchor::WordStart),
            Some('[') if self.skip("[:>:]]") => RegexNode::Anchor(Anchor::WordEnd),
            Some('[') => classes::bracket(self)?,
            Some('(') => self.group()?,
            Some('\\') => self.escape()?,
            Some(c) => RegexNode::Char(c),
            None => RegexNode::Concat(Vec::new()),
        })
    }

    fn group(&mut self) -> Result<RegexNode> {
        let looks = [
            ("?<=", false, false),
            ("?<!", false, true),
            ("?=", true, false),
            ("?!", true, true),
        ];
        for (sign, ahead, negated) in looks {
            if self.skip(sign) {
                self.in_look += 1;
                let inner = Box::new(self.alternatives()?);
                self.in_look -= 1;
                self.close()?;
                return Ok(RegexNode::Look { inner, ahead, negated });
            }
        }
        let captures = !self.skip("?:") && self.in_look == 0;
        if captures && self.peek() == Some('?') {
            return Err(invalid("quantifier operand invalid"));
        }
        let own = self.groups + 1;
        self.groups += u32::from(captures);
        let inner = Box::new(self.alternatives()?);
        self.close()?;
        if captures {
            self.closed.push(own);
        }
        Ok(RegexNode::Group { inner, captures })
    }

    fn close(&mut self) -> Result<()> {
        match self.next() {
            Some(')') => Ok(()),
            _ => Err(invalid("parentheses () not balanced")),
        }
    }

    fn escape(&mut self) -> Result<RegexNode> {
        let bad = || invalid("invalid escape \\ sequence");
        let c = self.peek().ok_or_else(bad)?;
        let anchor = match c {
            'A' => Some(Anchor::TextStart),
            'Z' => Some(Anchor::TextEnd),
            'm' => Some(Anchor::WordStart),
            'M' => Some(Anchor::WordEnd),
            'y' => Some(Anchor::WordEdge),
            'Y' => Some(Anchor::NoWordEdge),
            _ => None,
        };
        if let Some(anchor) = anchor {
            self.at += 1;
            return Ok(RegexNode::Anchor(anchor));
        }
        if let Some(items) = classes::escape(c) {
            self.at += 1;
            return Ok(RegexNode::Class {
                negated: false,
                items: items.into(),
            });
        }
        if ('1'..='9').contains(&c) {
            let digits: String = self.chars[self.at..]
                .iter()
                .take_while(|c| c.is_ascii_digit())
                .take(4)
                .collect();
            let number = digits.parse().unwrap_or(0);
            if digits.len() == 1 || number <= self.groups {
                self.at += digits.len();
                if !self.closed.contains(&number) || self.in_look > 0 {
                    return Err(invalid("invalid backreference number"));
                }
                return Ok(RegexNode::Reference(number));
            }
        }
        self.escaped_char().map(RegexNode::Char)
    }

    /// The character that an escape stands for; the backslash is behind.
    pub(super) fn escaped_char(&mut self) -> Result<char> {
        let bad = || invalid("invalid escape \\ sequence");
        let c = self.next().ok_or_else(bad)?;
        Ok(match c {
            c if !c.is_ascii_alphanumeric() => c,
            'a' => '\u{7}',
            'b' => '\u{8}',
            'B' => '\\',
            'c' => char::from_u32(u32::from(self.next().ok_or_else(bad)?) & 0x1f).ok_or_else(bad)?,
            'e' => '\u{1b}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'u' => self.digits(16, 4, 4)?,
            'U' => self.digits(16, 8, 8)?,
            'x' => self.digits(16, 1, 255)?,
            '0'..='9' => {
                self.at -= 1;
                self.digits(8, 1, 3)?
            }
            _ => return Err(bad()),
        })
    }

    fn digits(&mut self, base: u32, least: usize, most: usize) -> Result<char> {
        let (mut value, mut count) = (0u32, 0);
        while count < most
            && let Some(digit) = self.peek().and_then(|c| c.to_digit(base))
        {
            value = value.saturating_mul(base).saturating_add(digit);
            count += 1;
            self.at += 1;
        }
        char::from_u32(value)
            .filter(|_| count >= least)
            .ok_or_else(|| invalid("invalid escape \\ sequence"))
    }
}
