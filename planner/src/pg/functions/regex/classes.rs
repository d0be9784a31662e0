//! Bracket expressions and class escapes, in the engine's spelling.

use super::ast::RegexNode;
use super::flags::invalid;
use super::read::Reader;
use crate::pg::error::Result;
use std::fmt::Write;

/// What a class of POSIX holds, as the inside of the engine's brackets.
fn named(name: &str) -> Option<&'static str> {
    Some(match name {
        "alpha" => r"\p{Alphabetic}",
        "digit" => r"\p{Nd}",
        "alnum" => r"\p{Alphabetic}\p{Nd}",
        "word" => r"\p{Alphabetic}\p{Nd}_",
        "upper" => r"\p{Uppercase}",
        "lower" => r"\p{Lowercase}",
        "space" => r"\s",
        "blank" => r" \t",
        "punct" => r"\p{P}\p{S}",
        "cntrl" => r"\p{Cc}",
        "graph" => r"[^\s\p{Cc}]",
        "print" => r"[^\p{Cc}]",
        "xdigit" => "0-9A-Fa-f",
        "ascii" => r"\x{0}-\x{7F}",
        _ => return None,
    })
}

/// `\d` and its kin.
pub(super) fn escape(c: char) -> Option<&'static str> {
    Some(match c {
        'd' => r"\p{Nd}",
        'D' => r"[^\p{Nd}]",
        's' => r"\s",
        'S' => r"[^\s]",
        'w' => r"\p{Alphabetic}\p{Nd}_",
        'W' => r"[^\p{Alphabetic}\p{Nd}_]",
        _ => return None,
    })
}

/// A character that stands for itself, in brackets or out of them.
pub(super) fn push_char(c: char, out: &mut String) {
    if c.is_ascii_alphanumeric() || !c.is_ascii() {
        out.push(c);
    } else {
        let _ = write!(out, "\\x{{{:X}}}", u32::from(c));
    }
}

enum Item {
    One(char),
    Many(&'static str),
}

/// A bracket expression whose `[` is behind.
pub(super) fn bracket(reader: &mut Reader) -> Result<RegexNode> {
    let open = || invalid("brackets [] not balanced");
    let negated = reader.skip("^");
    let (mut items, mut first) = (String::new(), true);
    loop {
        match reader.peek().ok_or_else(open)? {
            ']' if !first => {
                reader.next();
                break;
            }
            // A dash is one at the beginning, at the end, or as the end of a range.
            '-' if !first && !reader.starts_with("-]") => return Err(invalid("invalid character range")),
            _ => {}
        }
        first = false;
        let low = match item(reader)? {
            Item::Many(class) => {
                items.push_str(class);
                if reader.starts_with("-") && !reader.starts_with("-]") {
                    return Err(invalid("invalid character range"));
                }
                continue;
            }
            Item::One(low) => low,
        };
        push_char(low, &mut items);
        if reader.starts_with("-") && !reader.starts_with("-]") {
            reader.next();
            if reader.peek().is_none() {
                return Err(open());
            }
            let Item::One(high) = item(reader)? else {
                return Err(invalid("invalid character range"));
            };
            if high < low {
                return Err(invalid("invalid character range"));
            }
            items.push('-');
            push_char(high, &mut items);
        }
    }
    if negated && reader.flags.stop_at_lines {
        items.push_str("\\n");
    }
    Ok(RegexNode::Class { negated, items })
}

fn item(reader: &mut Reader) -> Result<Item> {
    for (open, close, wrong) in [
        ("[:", ":]", "invalid character class"),
        ("[=", "=]", "invalid collating element"),
        ("[.", ".]", "invalid collating element"),
    ] {
        if !reader.skip(open) {
            continue;
        }
        let mut name = String::new();
        while !reader.skip(close) {
            name.push(reader.next().ok_or_else(|| invalid("brackets [] not balanced"))?);
        }
        if open == "[:" {
            return named(&name).map(Item::Many).ok_or_else(|| invalid(wrong));
        }
        let mut chars = name.chars();
        return match (chars.next(), chars.next()) {
            (Some(c), None) => Ok(Item::One(c)),
            _ => collating(&name).map(Item::One).ok_or_else(|| invalid(wrong)),
        };
    }
    match reader.next() {
        Some('\\') => {
            if let Some(class) = reader.peek().and_then(escape) {
                reader.next();
                return Ok(Item::Many(class));
            }
            reader.escaped_char().map(Item::One)
        }
        Some(c) => Ok(Item::One(c)),
        None => Err(invalid("brackets [] not balanced")),
    }
}

/// Characters with names, as `[.hyphen.]`.
fn collating(name: &str) -> Option<char> {
    Some(match name {
        "NUL" => '\0',
        "alert" => '\u{7}',
        "backspace" => '\u{8}',
        "tab" => '\t',
        "newline" => '\n',
        "vertical-tab" => '\u{b}',
        "form-feed" => '\u{c}',
        "carriage-return" => '\r',
        "space" => ' ',
        "exclamation-mark" => '!',
        "quotation-mark" => '"',
        "number-sign" => '#',
        "dollar-sign" => '$',
        "percent-sign" => '%',
        "ampersand" => '&',
        "apostrophe" => '\'',
        "left-parenthesis" => '(',
        "right-parenthesis" => ')',
        "asterisk" => '*',
        "plus-sign" => '+',
        "comma" => ',',
        "hyphen" | "hyphen-minus" => '-',
        "period" | "full-stop" => '.',
        "slash" | "solidus" => '/',
        "colon" => ':',
        "semicolon" => ';',
        "less-than-sign" => '<',
        "equals-sign" => '=',
        "greater-than-sign" => '>',
        "question-mark" => '?',
        "commercial-at" => '@',
        "left-square-bracket" => '[',
        "backslash" | "reverse-solidus" => '\\',
        "right-square-bracket" => ']',
        "circumflex" | "circumflex-accent" => '^',
        "underscore" | "low-line" => '_',
        "grave-accent" => '`',
        "left-brace" | "left-curly-bracket" => '{',
        "vertical-line" => '|',
        "right-brace" | "right-curly-bracket" => '}',
        "tilde" => '~',
        "DEL" => '\u{7f}',
        _ => return None,
    })
}
