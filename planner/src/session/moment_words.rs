//! Words in statements by which a time follows from when they are read: `'today'::date`, a parameter beside `now`.

/// The words.
pub(crate) const MOMENTS: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];

/// Whether a statement may read `now`, the only one of them that is a moment of the day.
pub(crate) fn mentions_now(sql: &str) -> bool {
    let text = sql.as_bytes();
    let is_letter = |at: Option<usize>| at.and_then(|at| text.get(at)).is_some_and(u8::is_ascii_alphabetic);
    let mut words = text.windows(3).enumerate();
    words.any(|(at, word)| {
        word.eq_ignore_ascii_case(b"now") && !is_letter(at.checked_sub(1)) && !is_letter(Some(at + 3))
    })
}

/// Whether a text may hold a date such as 'today', which is another one tomorrow.
pub(crate) fn names_a_moment(sql: &str) -> bool {
    let sql = sql.to_lowercase();
    let named = |text: &str| {
        let mut words = text.split(|c: char| !c.is_alphabetic());
        words.any(|word| MOMENTS.contains(&word))
    };
    // Calls are told apart where it is sure what is a string.
    let sure = !["--", "/*", "\\", "$$"].iter().any(|begin| sql.contains(begin));
    let named_outside = |text: &str| named(&text.replace("now()", ""));
    match sure {
        true => sql.split('\'').enumerate().any(|(at, part)| match at % 2 {
            0 => named_outside(part),
            _ => named(part),
        }),
        false => named(&sql),
    }
}

#[cfg(test)]
mod tests {
    use super::{mentions_now, names_a_moment};

    #[test]
    fn moments_are_told_from_calls() {
        for sql in [
            "SELECT 'today'::date",
            "SELECT timestamp 'Now'",
            "SELECT now(), 'now()'::timestamp",
            "SELECT 1 /* ' */, 'now()'",
            "SELECT today",
            "SELECT '2now'::date, 'at today_'",
        ] {
            assert!(names_a_moment(sql), "{sql}");
        }
        assert!(mentions_now("SELECT 'Now'") && mentions_now("now") && !mentions_now("SELECT 'unknown' NOWAIT"));
        for sql in [
            "SELECT NOW()",
            "INSERT INTO t VALUES ('it''s', now())",
            "SELECT current_date",
            "SELECT known, 'unknown' FROM t FOR UPDATE NOWAIT",
        ] {
            assert!(!names_a_moment(sql), "{sql}");
        }
    }
}
