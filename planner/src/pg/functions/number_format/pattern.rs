//! The patterns of `to_char(number, pattern)` and `to_number`: their keywords, and what they say of the whole.

use crate::pg::error::{Result, SqlError, state};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Comma,
    Point,
    Zero,
    Blank,
    LocalePoint,
    Scientific,
    Fill,
    Group,
    Currency,
    Minus,
    Nine,
    Plus,
    Brackets,
    Roman,
    RomanLower,
    SignAlone,
    Sign,
    Ordinal,
    OrdinalLower,
    Multiply,
    /// A keyword without effect here.
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PatternNode {
    Key(Key),
    Text(char),
}

/// By length, so that the longest that fits comes first.
const KEYS: [(&str, Key); 40] = [
    ("EEEE", Key::Scientific),
    ("eeee", Key::Scientific),
    ("FM", Key::Fill),
    ("fm", Key::Fill),
    ("MI", Key::Minus),
    ("mi", Key::Minus),
    ("PL", Key::Plus),
    ("pl", Key::Plus),
    ("PR", Key::Brackets),
    ("pr", Key::Brackets),
    ("RN", Key::Roman),
    ("rn", Key::RomanLower),
    ("SG", Key::SignAlone),
    ("sg", Key::SignAlone),
    ("SP", Key::Nothing),
    ("sp", Key::Nothing),
    ("TH", Key::Ordinal),
    ("th", Key::OrdinalLower),
    (",", Key::Comma),
    (".", Key::Point),
    ("0", Key::Zero),
    ("9", Key::Nine),
    ("B", Key::Blank),
    ("b", Key::Blank),
    ("C", Key::Nothing),
    ("c", Key::Nothing),
    ("D", Key::LocalePoint),
    ("d", Key::LocalePoint),
    ("G", Key::Group),
    ("g", Key::Group),
    ("L", Key::Currency),
    ("l", Key::Currency),
    ("S", Key::Sign),
    ("s", Key::Sign),
    ("V", Key::Multiply),
    ("v", Key::Multiply),
    ("Th", Key::Nothing),
    ("tH", Key::Nothing),
    ("Pr", Key::Nothing),
    ("pR", Key::Nothing),
];

/// Where S stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SignAt {
    #[default]
    Nowhere,
    Before,
    Behind,
}

/// What the keywords say together.
#[derive(Clone, Debug, Default)]
pub(super) struct Pattern {
    pub nodes: Vec<PatternNode>,
    /// Digits before the point, and behind.
    pub before: usize,
    pub behind: usize,
    pub sign_at: SignAt,
    pub sign: bool,
    /// Digits before S.
    pub before_sign: usize,
    /// Digits behind V.
    pub multiplied: usize,
    pub zero_start: usize,
    pub zero_end: usize,
    pub zero: bool,
    pub point: bool,
    pub fill: bool,
    pub brackets: bool,
    pub minus: bool,
    pub plus: bool,
    pub roman: bool,
    pub multiply: bool,
    pub scientific: bool,
}

fn nodes(format: &str) -> Vec<PatternNode> {
    let mut nodes = Vec::new();
    let mut rest = format;
    while let Some(next) = rest.chars().next() {
        if let Some((name, key)) = KEYS
            .iter()
            .find(|(name, key)| *key != Key::Nothing && rest.starts_with(name))
        {
            nodes.push(PatternNode::Key(*key));
            rest = &rest[name.len()..];
            continue;
        }
        if let Some((name, _)) = KEYS[..20]
            .iter()
            .find(|(name, key)| *key == Key::Nothing && rest.starts_with(name))
        {
            rest = &rest[name.len()..];
            continue;
        }
        if matches!(next, 'C' | 'c') {
            rest = &rest[1..];
            continue;
        }
        rest = &rest[next.len_utf8()..];
        match next {
            // Text between quotes is literal, a backslash before a quote or another backslash too.
            '"' => {
                while let Some(quoted) = rest.chars().next() {
                    rest = &rest[quoted.len_utf8()..];
                    let literal = match quoted {
                        '"' => break,
                        '\\' => rest.chars().next().inspect(|next| rest = &rest[next.len_utf8()..]),
                        other => Some(other),
                    };
                    nodes.extend(literal.map(PatternNode::Text));
                }
            }
            '\\' if rest.starts_with('"') => {
                rest = &rest[1..];
                nodes.push(PatternNode::Text('"'));
            }
            other => nodes.push(PatternNode::Text(other)),
        }
    }
    nodes
}

fn bad(message: &str) -> SqlError {
    SqlError::new(state::SYNTAX_ERROR, message)
}

impl Pattern {
    /// # Errors
    /// 42601 for keywords that do not go together.
    pub fn parse(format: &str) -> Result<Pattern> {
        let mut own = Pattern {
            nodes: nodes(format),
            ..Pattern::default()
        };
        for node in own.nodes.clone() {
            if let PatternNode::Key(key) = node {
                own.take(key)?;
            }
        }
        Ok(own)
    }

    fn take(&mut self, key: Key) -> Result<()> {
        if self.scientific && key != Key::Scientific {
            return Err(bad("\"EEEE\" must be the last pattern used"));
        }
        match key {
            Key::Nine | Key::Zero if self.brackets => {
                let shown = if key == Key::Nine { "9" } else { "0" };
                return Err(bad(&format!("\"{shown}\" must be ahead of \"PR\"")));
            }
            Key::Nine if self.multiply => self.multiplied += 1,
            Key::Nine if self.point => self.behind += 1,
            Key::Nine => self.before += 1,
            Key::Zero => {
                if !self.zero && !self.point {
                    self.zero = true;
                    self.zero_start = self.before + 1;
                }
                match self.point {
                    true => self.behind += 1,
                    false => self.before += 1,
                }
                self.zero_end = self.before + self.behind;
            }
            Key::Point | Key::LocalePoint => {
                if self.point {
                    return Err(bad("multiple decimal points"));
                }
                if self.multiply {
                    return Err(bad("cannot use \"V\" and decimal point together"));
                }
                self.point = true;
            }
            Key::Fill => self.fill = true,
            Key::Sign => {
                if self.sign {
                    return Err(bad("cannot use \"S\" twice"));
                }
                if self.plus || self.minus || self.brackets {
                    return Err(bad("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"));
                }
                self.sign = true;
                if self.point {
                    self.sign_at = SignAt::Behind;
                } else {
                    self.sign_at = SignAt::Before;
                    self.before_sign = self.before;
                }
            }
            Key::Minus | Key::Plus | Key::SignAlone => {
                if self.sign {
                    let name = match key {
                        Key::Minus => "MI",
                        Key::Plus => "PL",
                        _ => "SG",
                    };
                    return Err(bad(&format!("cannot use \"S\" and \"{name}\" together")));
                }
                self.minus |= key != Key::Plus;
                self.plus |= key != Key::Minus;
            }
            Key::Brackets => {
                if self.sign || self.plus || self.minus {
                    return Err(bad("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"));
                }
                self.brackets = true;
            }
            Key::Roman | Key::RomanLower => self.roman = true,
            Key::Multiply => {
                if self.point {
                    return Err(bad("cannot use \"V\" and decimal point together"));
                }
                self.multiply = true;
            }
            Key::Scientific => {
                if self.scientific {
                    return Err(bad("cannot use \"EEEE\" twice"));
                }
                let others = [
                    self.fill,
                    self.sign,
                    self.brackets,
                    self.minus,
                    self.plus,
                    self.roman,
                    self.multiply,
                ];
                if others.contains(&true) {
                    return Err(bad("\"EEEE\" is incompatible with other formats")
                        .detail("\"EEEE\" may only be used together with digit and decimal point patterns."));
                }
                self.scientific = true;
            }
            _ => {}
        }
        Ok(())
    }
}
