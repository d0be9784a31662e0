//! A query's text without the literals that may be parameters of it.
//!
//! A literal is taken out only where that cannot change what the text means: a number or a string to whose left stand a column
//! and a comparison, and to whose right the condition ends. `LIMIT 5`, `5::text`, `ORDER BY 1`, `interval '1 day'`, `a[5]` and
//! `numeric(5,2)` all look otherwise. What is not sure to be read as PostgreSQL's lexer reads it is left alone.

/// A literal that was taken out.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    /// Digits alone.
    Integer(String),
    /// Digits with a point among them.
    Decimal(String),
    Text(String),
}

/// A text and what was taken out of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cut {
    /// What the texts have in common that differ in these literals alone. Kinds of literals are told apart.
    pub key: String,
    /// The text with `$1`, `$2`, ... in the literals' places.
    pub text: String,
    pub literals: Vec<Literal>,
}

/// What stands before a literal.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    /// A word that may name a column.
    Name,
    /// A column and a comparison.
    Comparison,
    /// A column and BETWEEN, a literal after that, and AND after that.
    Between,
    Low,
    LowAnd,
}

/// Words that end a condition.
const ENDS: [&str; 12] = [
    "and",
    "or",
    "group",
    "order",
    "limit",
    "having",
    "union",
    "except",
    "intersect",
    "offset",
    "fetch",
    "window",
];
/// Words that are no columns.
const NO_NAMES: [&str; 22] = [
    "and", "or", "not", "where", "select", "end", "null", "true", "false", "any", "all", "some", "on", "case", "when",
    "then", "else", "having", "by", "in", "is", "like",
];

/// Cuts a text; literals whose numbers, from 0, are `pinned` stay. None for a text that is no query or has something
/// in it that another lexer might read otherwise.
pub(super) fn cut(sql: &str, pinned: &[usize]) -> Option<Cut> {
    let bytes = sql.as_bytes();
    let start = sql.find(|c: char| !c.is_ascii_whitespace())?;
    if !bytes.get(start..start + 6)?.eq_ignore_ascii_case(b"select") {
        return None;
    }
    let mut made = Cut {
        key: String::with_capacity(sql.len()),
        text: String::with_capacity(sql.len()),
        literals: vec![],
    };
    let (mut at, mut kept, mut found) = (start, 0, 0);
    let mut before = Before::Nothing;
    while let Some(&byte) = bytes.get(at) {
        let next = match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {
                at += 1;
                continue;
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let end = end_of_word(bytes, at);
                // E'...', U&"..." and their like.
                if matches!(bytes.get(end), Some(b'\'' | b'"' | b'&' | b'$'))
                    || bytes.get(end).is_some_and(|b| !b.is_ascii())
                {
                    return None;
                }
                let word = &sql[at..end];
                let is = |name: &str| word.eq_ignore_ascii_case(name);
                before = match before {
                    Before::Name if is("between") => Before::Between,
                    Before::Low if is("and") => Before::LowAnd,
                    _ if NO_NAMES.iter().any(|name| is(name)) => Before::Nothing,
                    _ => Before::Name,
                };
                at = end;
                continue;
            }
            b'"' => {
                let end = at + 1 + sql[at + 1..].find('"')? + 1;
                if bytes.get(end) == Some(&b'"') {
                    return None;
                }
                before = Before::Name;
                at = end;
                continue;
            }
            b'0'..=b'9' => number(bytes, at)?,
            b'\'' => string(sql, at)?,
            b'(' | b')' | b',' | b'[' | b']' | b';' | b':' => {
                before = Before::Nothing;
                at += 1;
                continue;
            }
            // The column of a table.
            b'.' if before == Before::Name => {
                at += 1;
                continue;
            }
            b'=' | b'<' | b'>' | b'!' | b'+' | b'-' | b'*' | b'/' | b'%' | b'|' | b'^' => {
                let end = at + bytes[at..].iter().take_while(|byte| is_operator(**byte)).count();
                let operator = &sql[at..end];
                if operator.contains("--") || operator.contains("/*") {
                    return None;
                }
                let compares = matches!(operator, "=" | "<" | ">" | "<=" | ">=" | "<>" | "!=");
                before = match before {
                    Before::Name if compares => Before::Comparison,
                    _ => Before::Nothing,
                };
                at = end;
                continue;
            }
            _ => return None,
        };
        let (end, literal) = next;
        let is_low = before == Before::Between;
        let fits = match before {
            Before::Comparison | Before::LowAnd => ends_condition(sql, end),
            Before::Between => follows(sql, end, &["and"]),
            _ => false,
        };
        if let (true, Some(literal)) = (fits, literal) {
            if !pinned.contains(&found) {
                let kind = match literal {
                    Literal::Integer(_) => "$i",
                    Literal::Decimal(_) => "$d",
                    Literal::Text(_) => "$t",
                };
                made.literals.push(literal);
                made.key.push_str(&sql[kept..at]);
                made.key.push_str(kind);
                made.text.push_str(&sql[kept..at]);
                made.text.push_str(&format!("${}", made.literals.len()));
                kept = end;
            }
            found += 1;
        }
        before = if is_low { Before::Low } else { Before::Nothing };
        at = end;
    }
    made.key.push_str(&sql[kept..]);
    made.text.push_str(&sql[kept..]);
    Some(made)
}

fn is_operator(byte: u8) -> bool {
    b"=<>!+-*/%|^~@#&`?".contains(&byte)
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || !byte.is_ascii()
}

fn end_of_word(bytes: &[u8], at: usize) -> usize {
    at + bytes[at..]
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
        .count()
}

/// The end of a number, and its value where it is a plain one. None where letters follow.
fn number(bytes: &[u8], at: usize) -> Option<(usize, Option<Literal>)> {
    let digits = |from: usize| from + bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(at);
    let end = match bytes.get(whole) {
        Some(b'.') => digits(whole + 1),
        _ => whole,
    };
    if bytes.get(end).is_some_and(|byte| is_of_word(*byte) || *byte == b'.') {
        return None;
    }
    let text = String::from_utf8_lossy(&bytes[at..end]).into_owned();
    let literal = match end - whole {
        0 => Some(Literal::Integer(text)),
        // No digit after the point.
        1 => None,
        _ => Some(Literal::Decimal(text)),
    };
    Some((end, literal))
}

/// The end of a string, and its value. None where there is none, or a backslash in it, which may escape.
fn string(sql: &str, at: usize) -> Option<(usize, Option<Literal>)> {
    let mut end = at + 1;
    loop {
        end += sql[end..].find('\'')? + 1;
        if sql.as_bytes().get(end) != Some(&b'\'') {
            break;
        }
        end += 1;
    }
    let value = &sql[at + 1..end - 1];
    if value.contains(['\\', '\0']) {
        return None;
    }
    Some((end, Some(Literal::Text(value.replace("''", "'")))))
}

/// Whether a condition ends here.
fn ends_condition(sql: &str, at: usize) -> bool {
    let rest = sql[at..].trim_ascii_start();
    rest.is_empty() || rest.starts_with([')', ';']) || follows(sql, at, &ENDS)
}

/// Whether one of the words comes next.
fn follows(sql: &str, at: usize, words: &[&str]) -> bool {
    let rest = sql[at..].trim_ascii_start();
    let word = &rest[..end_of_word(rest.as_bytes(), 0)];
    let plain = rest.as_bytes().get(word.len()).is_none_or(|byte| !is_of_word(*byte));
    // `1and` is read by some and refused by others.
    rest.len() < sql[at..].len() && plain && words.iter().any(|one| word.eq_ignore_ascii_case(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(sql: &str) -> (String, Vec<Literal>) {
        let cut = cut(sql, &[]).unwrap();
        (cut.text, cut.literals)
    }

    #[test]
    fn literals_beside_columns_are_taken_out() {
        use Literal::*;
        let (text, literals) =
            parts("select a from t where t.k=5 and (v <> 'it''s') or \"d\" >= 1.50 order by 1 limit 5");
        assert_eq!(
            text,
            "select a from t where t.k=$1 and (v <> $2) or \"d\" >= $3 order by 1 limit 5"
        );
        assert_eq!(
            literals,
            [Integer("5".into()), Text("it's".into()), Decimal("1.50".into())]
        );
        let (text, literals) = parts("SELECT 1 FROM t WHERE k BETWEEN 3 AND 7 AND 5 = k;");
        assert_eq!(text, "SELECT 1 FROM t WHERE k BETWEEN $1 AND $2 AND 5 = k;");
        assert_eq!(literals, [Integer("3".into()), Integer("7".into())]);
        let pinned = cut("SELECT 1 FROM t WHERE k = 3 AND v = 'x'", &[0]).unwrap();
        assert_eq!(
            (pinned.text.as_str(), pinned.key.as_str()),
            (
                "SELECT 1 FROM t WHERE k = 3 AND v = $1",
                "SELECT 1 FROM t WHERE k = 3 AND v = $t"
            )
        );
        assert_ne!(
            cut("SELECT 1 FROM t WHERE v = 3", &[]).unwrap().key,
            cut("SELECT 1 FROM t WHERE v = '3'", &[]).unwrap().key
        );
    }

    #[test]
    fn others_stay() {
        for sql in [
            "SELECT 5, 'a' FROM t",
            "SELECT a FROM t WHERE k = 5::text",
            "SELECT a FROM t WHERE k = 5 + 1",
            "SELECT a FROM t WHERE k = -5",
            "SELECT a FROM t WHERE k =- 5",
            "SELECT a FROM t WHERE d = date '2024-01-01'",
            "SELECT a FROM t WHERE k = 'a' 'b'",
            "SELECT a FROM t WHERE k = 'a' COLLATE \"C\"",
            "SELECT a FROM t WHERE d > now() - interval '1 day'",
            "SELECT a[5] FROM t WHERE k = a[5]",
            "SELECT a::numeric(5,2) FROM t GROUP BY 1 HAVING NULL = 5",
            "SELECT a FROM t WHERE k IN (1, 2) LIMIT 5 OFFSET 7",
            "SELECT k = 5 AS five, CASE WHEN k = 5 THEN 1 END FROM t",
            "SELECT a FROM t WHERE k = 5. AND k = 1",
        ] {
            let found = cut(sql, &[]).unwrap();
            let expected = sql.replace("AND k = 1", "AND k = $1");
            assert_eq!(found.text, expected);
        }
        for sql in [
            "INSERT INTO t VALUES (5)",
            "SELECT $1",
            "SELECT E'a\\'b' WHERE k = 5",
            "SELECT a FROM t WHERE k = 'a\\' AND v = 'b'",
            "SELECT a -- k = 5\n FROM t",
            "SELECT a /* 'x */ FROM t",
            "SELECT U&'x' FROM t",
            "SELECT a FROM t WHERE k = 5e3",
            "SELECT a FROM t WHERE k = 'a",
            "SELECT $$a$$",
            "SEL",
        ] {
            assert_eq!(cut(sql, &[]), None, "{sql}");
        }
    }
}
