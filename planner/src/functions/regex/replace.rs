//! `regexp_replace`, and all matches of a text one after the other.

use super::{Pattern, Spans};
use crate::error::Result;
use crate::functions::row::{TEXT_MAX, too_long};

/// The byte behind the character at `at`.
fn step(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(at + 1, |c| at + c.len_utf8())
}

/// Calls `take` with each match from a byte on, until it says stop.
pub(super) fn each_match(
    pattern: &Pattern,
    text: &str,
    from: usize,
    mut take: impl FnMut(Spans) -> bool,
) -> Result<()> {
    let mut at = from;
    while at <= text.len() {
        let Some(found) = pattern.find(text, at)? else {
            return Ok(());
        };
        let Some((start, end)) = found[0] else { return Ok(()) };
        at = if end > start { end } else { step(text, end) };
        if !take(found) {
            return Ok(());
        }
    }
    Ok(())
}

/// Replaces the match number `nth` from a byte on, or all of them where it is 0.
pub(super) fn replace(pattern: &Pattern, text: &str, replacement: &str, from: usize, nth: usize) -> Result<String> {
    let (mut out, mut done, mut count) = (String::new(), 0, 0);
    each_match(pattern, text, from, |found| {
        count += 1;
        if nth > 0 && count < nth {
            return true;
        }
        let Some((start, end)) = found[0] else { return false };
        out.push_str(&text[done..start]);
        expand(replacement, text, &found, &mut out);
        done = end;
        nth == 0 && out.len() <= TEXT_MAX
    })?;
    out.push_str(&text[done..]);
    match out.len() > TEXT_MAX {
        true => Err(too_long()),
        false => Ok(out),
    }
}

/// `\1` to `\9` are groups, `\&` is the match, `\\` a backslash.
fn expand(replacement: &str, text: &str, found: &Spans, out: &mut String) {
    let mut chars = replacement.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let group = match chars.next() {
            Some(digit @ '1'..='9') => digit as usize - '0' as usize,
            Some('&') => 0,
            Some('\\') => {
                out.push('\\');
                continue;
            }
            Some(other) => {
                out.push('\\');
                out.push(other);
                continue;
            }
            None => {
                out.push('\\');
                continue;
            }
        };
        if let Some(Some((start, end))) = found.get(group) {
            out.push_str(&text[*start..*end]);
        }
    }
}
