//! From a value to text.

use super::Json;
use std::fmt::{self, Write};

impl fmt::Display for Json {
    /// As `jsonb_out` has it: `{"a": 1, "b": [1, 2]}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(value) => write!(f, "{value}"),
            Json::Number(text) => f.write_str(text),
            Json::String(text) => write_string(text, f),
            Json::Moment(moment) => write!(f, "\"{moment}\""),
            Json::Array(items) => {
                f.write_char('[')?;
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{item}")?;
                }
                f.write_char(']')
            }
            Json::Object(pairs) => {
                f.write_char('{')?;
                for (at, (key, value)) in pairs.iter().enumerate() {
                    if at > 0 {
                        f.write_str(", ")?;
                    }
                    write_string(key, f)?;
                    write!(f, ": {value}")?;
                }
                f.write_char('}')
            }
        }
    }
}

impl Json {
    /// Without any blanks, as functions on `json` write it.
    pub fn compact(&self, out: &mut String) {
        match self {
            Json::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    item.compact(out);
                }
                out.push(']');
            }
            Json::Object(pairs) => {
                out.push('{');
                for (at, (key, value)) in pairs.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    let _ = write_string(key, out);
                    out.push(':');
                    value.compact(out);
                }
                out.push('}');
            }
            scalar => {
                let _ = write!(out, "{scalar}");
            }
        }
    }

    /// A line for each value, as `jsonb_pretty` has it.
    pub fn pretty(&self, indent: usize, out: &mut String) {
        let line = |indent: usize, out: &mut String| {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', 4 * indent));
        };
        match self {
            Json::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    line(indent + 1, out);
                    item.pretty(indent + 1, out);
                }
                line(indent, out);
                out.push(']');
            }
            Json::Object(pairs) => {
                out.push('{');
                for (at, (key, value)) in pairs.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    line(indent + 1, out);
                    let _ = write_string(key, out);
                    out.push_str(": ");
                    value.pretty(indent + 1, out);
                }
                line(indent, out);
                out.push('}');
            }
            scalar => {
                let _ = write!(out, "{scalar}");
            }
        }
    }
}

/// A string between quotes, with what JSON wants escaped.
pub fn write_string(text: &str, out: &mut impl Write) -> fmt::Result {
    out.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => out.write_str("\\\"")?,
            '\\' => out.write_str("\\\\")?,
            '\u{8}' => out.write_str("\\b")?,
            '\u{c}' => out.write_str("\\f")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            control if control < ' ' => write!(out, "\\u{:04x}", control as u32)?,
            other => out.write_char(other)?,
        }
    }
    out.write_char('"')
}
