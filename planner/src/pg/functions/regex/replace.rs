//! `regexp_replace`, and all matches of a text one after the other.

use super::{Pattern, Spans};
use crate::pg::bounds;
use crate::pg::error::Result;
use crate::pg::errors::from_datafusion;
use crate::pg::functions::row::{TEXT_MAX, too_long};

/// The byte behind the character at `at`.
fn step(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(at + 1, |c| at + c.len_utf8())
}

/// Calls `take` with each match from a byte on, until it says stop.
pub(super) fn each_match(
    pattern: &Pattern,
    text: &str,
    from: usize,
    mut take: impl FnMut(Spans) -> Result<bool>,
) -> Result<()> {
    let mut at = from;
    while at <= text.len() {
        bounds::check(0).map_err(|error| from_datafusion(&error))?;
        let Some(found) = pattern.find(text, at)? else {
            return Ok(());
        };
        let Some((start, end)) = found[0] else { return Ok(()) };
        at = if end > start { end } else { step(text, end) };
        if !take(found)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Replaces the match number `nth` from a byte on, or all of them where it is 0.
pub(super) fn replace(pattern: &Pattern, text: &str, replacement: &str, from: usize, nth: usize) -> Result<String> {
    let (mut out, mut done, mut count) = (Bounded::default(), 0, 0);
    each_match(pattern, text, from, |found| {
        count += 1;
        if nth > 0 && count < nth {
            return Ok(true);
        }
        let Some((start, end)) = found[0] else { return Ok(false) };
        out.push(&text[done..start])?;
        expand(replacement, text, &found, &mut out)?;
        done = end;
        Ok(nth == 0)
    })?;
    out.push(&text[done..])?;
    Ok(out.0)
}

/// A text that asks before it grows.
#[derive(Default)]
struct Bounded(String);

/// What is longer is asked for.
const ASKED_BYTES_MIN: usize = 1 << 20;

impl Bounded {
    fn push(&mut self, piece: &str) -> Result<()> {
        let wanted = self.0.len() + piece.len();
        if wanted > TEXT_MAX {
            return Err(too_long());
        }
        if wanted > self.0.capacity().max(ASKED_BYTES_MIN) {
            let more = wanted.max(2 * self.0.len()).min(TEXT_MAX);
            // Beside what there is, which is copied.
            bounds::check(more as u64 / 2).map_err(|error| from_datafusion(&error))?;
            self.0.reserve_exact(more - self.0.len());
        }
        self.0.push_str(piece);
        Ok(())
    }
}

/// `\1` to `\9` are groups, `\&` is the match, `\\` a backslash.
fn expand(replacement: &str, text: &str, found: &Spans, out: &mut Bounded) -> Result<()> {
    let mut rest = replacement;
    while let Some(at) = rest.find('\\') {
        out.push(&rest[..at])?;
        rest = &rest[at + 1..];
        let next = rest.chars().next();
        let group = match next {
            Some(digit @ '1'..='9') => digit as usize - '0' as usize,
            Some('&') => 0,
            Some('\\') | None => {
                out.push("\\")?;
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            Some(_) => {
                out.push("\\")?;
                continue;
            }
        };
        rest = &rest[1..];
        if let Some(Some((start, end))) = found.get(group) {
            out.push(&text[*start..*end])?;
        }
    }
    out.push(rest)
}
