//! Texts without their comments: what frameworks write there, such as which request a statement is of, is another in each.

use std::borrow::Cow;

/// The text with a space for each comment. One in which it is not sure what is a comment stays as it is.
pub(super) fn without_comments(sql: &str) -> Cow<'_, str> {
    match sql.contains("--") || sql.contains("/*") {
        true => cut(sql).map_or(Cow::Borrowed(sql), Cow::Owned),
        false => Cow::Borrowed(sql),
    }
}

fn cut(sql: &str) -> Option<String> {
    let bytes = sql.as_bytes();
    let mut made = String::with_capacity(sql.len());
    let (mut at, mut kept) = (0, 0);
    while let Some(&byte) = bytes.get(at) {
        let comment = match (byte, bytes.get(at + 1)) {
            // E'...' and its like have escapes, and so may have what is called alike.
            (b'\'', _) if at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || b"_&".contains(&bytes[at - 1])) => {
                return None;
            }
            (b'\'' | b'"', _) => {
                at += 1 + sql[at + 1..].find(byte as char)? + 1;
                continue;
            }
            // A string between dollars.
            (b'$', next) if !next.is_some_and(u8::is_ascii_digit) => return None,
            (b'-', Some(b'-')) => at + sql[at..].find(['\n', '\r']).unwrap_or(sql.len() - at),
            (b'/', Some(b'*')) => end_of_block(bytes, at)?,
            _ => {
                at += 1;
                continue;
            }
        };
        made.push_str(&sql[kept..at]);
        made.push(' ');
        (at, kept) = (comment, comment);
    }
    made.push_str(&sql[kept..]);
    Some(made)
}

/// The end of a comment that begins here; comments may lie in it.
fn end_of_block(bytes: &[u8], start: usize) -> Option<usize> {
    let (mut at, mut depth) = (start, 0);
    loop {
        match bytes.get(at..at + 2)? {
            b"/*" => (at, depth) = (at + 2, depth + 1),
            b"*/" => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::without_comments;

    #[test]
    fn comments_become_spaces() {
        for (sql, expected) in [
            ("/* a:1 */ SELECT 1", "  SELECT 1"),
            ("SELECT 1 -- one\n+ 2 --", "SELECT 1  \n+ 2  "),
            ("SELECT/* a /* b */ c */1", "SELECT 1"),
            (
                "SELECT '--', \"/*\", 'it''s /*' /*é*/",
                "SELECT '--', \"/*\", 'it''s /*'  ",
            ),
            ("SELECT 1-1/2*3", "SELECT 1-1/2*3"),
            ("SELECT $1 /**/", "SELECT $1  "),
            // It is not sure, or wrong.
            ("SELECT E'\\' /*' /* */", "SELECT E'\\' /*' /* */"),
            ("SELECT $$ /* $$", "SELECT $$ /* $$"),
            ("SELECT 1 /* /* */", "SELECT 1 /* /* */"),
            ("SELECT ' --", "SELECT ' --"),
        ] {
            assert_eq!(without_comments(sql), expected, "{sql}");
        }
    }
}
