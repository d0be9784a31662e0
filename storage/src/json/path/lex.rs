//! The words of a jsonpath.

use super::{PathError, Result};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A bare word.
    Word(String),
    /// Between double quotes.
    Text(String),
    /// `$name` or `$"name"`.
    Variable(String),
    Number(String),
    Symbol(&'static str),
    End,
}

const SYMBOLS: [&str; 28] = [
    "**", "&&", "||", "==", "!=", "<>", "<=", ">=", "$", "@", "?", "(", ")", "[", "]", "{", "}", ".", ",", "*", "+",
    "-", "/", "%", "!", "<", ">", "=",
];

pub(super) fn syntax<T>(message: impl Into<String>) -> Result<T> {
    Err(PathError::Hard("42601", message.into()))
}

pub(super) fn tokens(text: &str) -> Result<Vec<Token>> {
    let characters: Vec<char> = text.chars().collect();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < characters.len() {
        let c = characters[at];
        if c.is_ascii_whitespace() {
            at += 1;
        } else if c == '/' && characters.get(at + 1) == Some(&'*') {
            let end = (at + 2..characters.len()).find(|at| characters[*at..].starts_with(&['*', '/']));
            let Some(end) = end else {
                return syntax("unexpected end of comment of jsonpath input");
            };
            at = end + 2;
        } else if c == '"' {
            let (text, end) = quoted(&characters, at)?;
            out.push(Token::Text(text));
            at = end;
        } else if c == '$'
            && characters
                .get(at + 1)
                .is_some_and(|next| *next == '"' || !is_special(*next))
        {
            let (name, end) = match characters[at + 1] {
                '"' => quoted(&characters, at + 1)?,
                _ => word(&characters, at + 1)?,
            };
            out.push(Token::Variable(name));
            at = end;
        } else if c.is_ascii_digit() || (c == '.' && characters.get(at + 1).is_some_and(char::is_ascii_digit)) {
            let end = number(&characters, at)?;
            out.push(Token::Number(characters[at..end].iter().collect()));
            at = end;
        } else if let Some(symbol) = SYMBOLS
            .iter()
            .find(|symbol| characters[at..].starts_with(&symbol.chars().collect::<Vec<_>>()))
        {
            out.push(Token::Symbol(symbol));
            at += symbol.len();
        } else if is_special(c) {
            return syntax(format!("syntax error at or near \"{c}\" of jsonpath input"));
        } else {
            let (name, end) = word(&characters, at)?;
            out.push(Token::Word(name));
            at = end;
        }
    }
    out.push(Token::End);
    Ok(out)
}

fn is_special(c: char) -> bool {
    c.is_ascii_whitespace() || "?%$.[]{}()|&!=<>@#,*:-+/\"".contains(c)
}

/// Digits, with what follows them that is no blank or operator refused.
fn number(characters: &[char], start: usize) -> Result<usize> {
    let mut at = start;
    let digits = |mut at: usize| {
        while characters.get(at).is_some_and(char::is_ascii_digit) {
            at += 1;
        }
        at
    };
    at = digits(at);
    let whole = at > start;
    if whole && characters[start] == '0' && at > start + 1 {
        return syntax("trailing junk after numeric literal of jsonpath input");
    }
    if characters.get(at) == Some(&'.') && (characters.get(at + 1).is_some_and(char::is_ascii_digit) || whole) {
        // `1.type()` is no number followed by a method.
        let end = digits(at + 1);
        let next = characters.get(end);
        if end == at + 1 && next.is_some_and(|next| !is_special(*next) && !matches!(next, 'e' | 'E')) {
            return syntax("trailing junk after numeric literal of jsonpath input");
        }
        at = end;
    }
    if matches!(characters.get(at), Some('e' | 'E')) {
        let sign = usize::from(matches!(characters.get(at + 1), Some('+' | '-')));
        let end = digits(at + 1 + sign);
        if end == at + 1 + sign {
            return syntax("trailing junk after numeric literal of jsonpath input");
        }
        at = end;
    }
    match characters.get(at) {
        Some(next) if !is_special(*next) => syntax("trailing junk after numeric literal of jsonpath input"),
        _ => Ok(at),
    }
}

fn quoted(characters: &[char], start: usize) -> Result<(String, usize)> {
    let (mut out, mut at) = (String::new(), start + 1);
    loop {
        match characters.get(at) {
            None => return syntax("unexpected end of quoted string of jsonpath input"),
            Some('"') => return Ok((out, at + 1)),
            Some('\\') => at = escape(characters, at, &mut out)?,
            Some(c) => {
                out.push(*c);
                at += 1;
            }
        }
    }
}

fn word(characters: &[char], start: usize) -> Result<(String, usize)> {
    let (mut out, mut at) = (String::new(), start);
    while let Some(c) = characters.get(at).filter(|c| !is_special(**c)) {
        if *c == '\\' {
            at = escape(characters, at, &mut out)?;
        } else {
            out.push(*c);
            at += 1;
        }
    }
    Ok((out, at))
}

/// What follows a backslash; gives where the rest begins.
fn escape(characters: &[char], start: usize, out: &mut String) -> Result<usize> {
    let hex = |from: usize, count: usize| {
        let digits: String = characters.get(from..from + count)?.iter().collect();
        u32::from_str_radix(&digits, 16).ok()
    };
    let bad = || PathError::Hard("42601", "invalid Unicode escape sequence of jsonpath input".into());
    let Some(c) = characters.get(start + 1) else {
        return syntax("unexpected end after backslash of jsonpath input");
    };
    let simple = |c: char, out: &mut String| {
        out.push(c);
        Ok(start + 2)
    };
    match c {
        'b' => simple('\u{8}', out),
        'f' => simple('\u{c}', out),
        'n' => simple('\n', out),
        'r' => simple('\r', out),
        't' => simple('\t', out),
        'v' => simple('\u{b}', out),
        'x' => {
            let code = hex(start + 2, 2);
            let code = code.ok_or_else(|| {
                PathError::Hard(
                    "42601",
                    "invalid hexadecimal character sequence of jsonpath input".into(),
                )
            })?;
            push(code, out)?;
            Ok(start + 4)
        }
        'u' => {
            let (code, end) = match characters.get(start + 2) {
                Some('{') => {
                    let close = (start + 3..characters.len().min(start + 10)).find(|at| characters[*at] == '}');
                    let close = close.ok_or_else(bad)?;
                    (hex(start + 3, close - start - 3).ok_or_else(bad)?, close + 1)
                }
                _ => (hex(start + 2, 4).ok_or_else(bad)?, start + 6),
            };
            if !(0xd800..0xe000).contains(&code) {
                push(code, out)?;
                return Ok(end);
            }
            let orphan = |detail: &str| {
                Err(PathError::Hard(
                    "22P02",
                    format!("invalid input syntax for type json: {detail}"),
                ))
            };
            if code >= 0xdc00 {
                return orphan("Unicode low surrogate must follow a high surrogate.");
            }
            let low = match characters.get(end..end + 2) {
                Some(['\\', 'u']) => hex(end + 2, 4),
                _ => None,
            };
            match low {
                Some(low @ 0xdc00..=0xdfff) => {
                    push(0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00), out)?;
                    Ok(end + 6)
                }
                Some(0xd800..=0xdbff) => orphan("Unicode high surrogate must not follow a high surrogate."),
                _ => orphan("Unicode low surrogate must follow a high surrogate."),
            }
        }
        other => simple(*other, out),
    }
}

fn push(code: u32, out: &mut String) -> Result<()> {
    match char::from_u32(code) {
        Some('\0') => Err(PathError::Hard("22P05", "unsupported Unicode escape sequence".into())),
        Some(c) => {
            out.push(c);
            Ok(())
        }
        None => syntax("invalid Unicode escape sequence of jsonpath input"),
    }
}
