//! Arrays of one dimension as text: `{1,NULL,"a b"}`.

use crate::error::{ErrorKind, Result, StorageError};
use std::fmt::Write;

/// The items; None for NULL.
pub fn array_items(text: &str) -> Result<Vec<Option<String>>> {
    let bad = || {
        let message = format!("malformed array literal: \"{text}\"");
        StorageError::new(ErrorKind::InvalidText, message)
    };
    let inner = text
        .trim()
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .ok_or_else(bad)?;
    let (mut items, mut rest) = (Vec::new(), inner.trim_start());
    if rest.is_empty() {
        return Ok(items);
    }
    loop {
        let mut item = String::new();
        let quoted = rest.starts_with('"');
        let mut characters = rest[usize::from(quoted)..].char_indices();
        let mut end = None;
        while let Some((at, c)) = characters.next() {
            match c {
                '\\' => item.push(characters.next().ok_or_else(bad)?.1),
                '"' if quoted => {
                    end = Some(at + 2);
                    break;
                }
                ',' if !quoted => {
                    end = Some(at);
                    break;
                }
                '{' | '}' | '"' if !quoted => return Err(bad()),
                c => item.push(c),
            }
        }
        let end = match end {
            Some(end) => end,
            None if quoted => return Err(bad()),
            None => rest.len(),
        };
        items.push(match quoted {
            true => Some(item),
            false if item.trim().is_empty() => return Err(bad()),
            false if item.trim().eq_ignore_ascii_case("null") => None,
            false => Some(item.trim().to_owned()),
        });
        rest = rest[end..].trim_start();
        match rest.strip_prefix(',') {
            Some(more) => rest = more.trim_start(),
            None if rest.is_empty() => return Ok(items),
            None => return Err(bad()),
        }
    }
}

/// Writes items as `array_out` does: quoted where they would be read otherwise.
pub fn write_array<'a>(items: impl Iterator<Item = Option<&'a str>>, out: &mut String) {
    out.push('{');
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(',');
        }
        let Some(item) = item else {
            out.push_str("NULL");
            continue;
        };
        let special = |c: char| c.is_ascii_whitespace() || c == '\u{b}' || "{},\"\\".contains(c);
        if !item.is_empty() && !item.contains(special) && !item.eq_ignore_ascii_case("null") {
            out.push_str(item);
            continue;
        }
        out.push('"');
        for c in item.chars() {
            if matches!(c, '"' | '\\') {
                out.push('\\');
            }
            let _ = out.write_char(c);
        }
        out.push('"');
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_come_back() {
        let items = [Some("1"), None, Some(""), Some("a b"), Some("NULL"), Some("q\"\\{}")];
        let mut text = String::new();
        write_array(items.into_iter(), &mut text);
        assert_eq!(text, r#"{1,NULL,"","a b","NULL","q\"\\{}"}"#);
        let back = array_items(&text).unwrap();
        assert_eq!(back.iter().map(Option::as_deref).collect::<Vec<_>>(), items);
        let mixed = array_items(r#"{"a,b", c\,d ,"x\"y","NULL"}"#).unwrap();
        assert_eq!(mixed, ["a,b", "c,d", "x\"y", "NULL"].map(|item| Some(item.to_owned())));
        assert!(array_items("{1,").is_err());
        assert!(array_items("1").is_err());
        assert_eq!(array_items(" { } ").unwrap().len(), 0);
    }
}
