//! SIMILAR TO: patterns of the SQL standard as regular expressions.

use crate::pg::error::{Result, SqlError, SqlState};

/// The regular expression of a pattern. Two of the escape character with a double quote part it in three, of which the second is
/// what SUBSTRING gives.
pub(crate) fn similar_to_regex(pattern: &str, escape: Option<char>) -> Result<String> {
    let mut out = String::from("^(?:");
    let (mut quotes, mut escaped, mut in_class) = (0, false, false);
    for c in pattern.chars() {
        if escaped {
            escaped = false;
            if c == '"' && !in_class {
                match quotes {
                    0 => out.push_str("){1,1}?("),
                    1 => out.push_str("){1,1}(?:"),
                    _ => {
                        return Err(SqlError::new(
                            SqlState("2200C"),
                            "SQL regular expression may not contain more than two escape-double-quote separators",
                        ));
                    }
                }
                quotes += 1;
            } else {
                out.push('\\');
                out.push(c);
            }
        } else if Some(c) == escape {
            escaped = true;
        } else if in_class {
            if c == '\\' {
                out.push('\\');
            }
            out.push(c);
            in_class = c != ']';
        } else {
            match c {
                '[' => {
                    out.push(c);
                    in_class = true;
                }
                '%' => out.push_str(".*"),
                '_' => out.push('.'),
                '(' => out.push_str("(?:"),
                '\\' | '.' | '^' | '$' => {
                    out.push('\\');
                    out.push(c);
                }
                _ => out.push(c),
            }
        }
    }
    out.push_str(")$");
    Ok(out)
}

/// The character of an ESCAPE clause; None for an empty one.
pub(crate) fn escape_char(text: &str) -> Result<Option<char>> {
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (first, None) => Ok(first),
        _ => Err(SqlError::new(SqlState("22025"), "invalid escape string")
            .hint("Escape string must be empty or one character.")),
    }
}
