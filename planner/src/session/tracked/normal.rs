//! What statements have in common that differ in constants, white space, comments and the case of words alone: a text with `$n`
//! in the constants' places, and a number made of its tokens.
//!
//! PostgreSQL numbers a statement by its analysed tree, here it is the text: the same name in another schema is the same, an
//! alias makes another. Constants are what PostgreSQL takes for such: `ORDER BY 1`, `IS NULL`, `varchar(5)` have none. A
//! parameter counts as the same as a constant.

use super::pieces::{Piece, Token, before, is, pieces};

/// A statement without its constants.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Normal {
    pub text: String,
    pub id: i64,
}

/// FNV-1a, 64 bits: the same in every process and version.
struct Hash(u64);

impl Hash {
    fn add(&mut self, bytes: impl Iterator<Item = u8>) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// The number of what stays as it is: a command, whose constants are not told apart from the rest.
pub(super) fn verbatim(sql: &str) -> Normal {
    let mut hash = Hash(0xcbf2_9ce4_8422_2325);
    hash.add(sql.bytes());
    Normal {
        text: sql.to_owned(),
        id: number(hash),
    }
}

/// 0 stands for no number.
fn number(hash: Hash) -> i64 {
    let id = hash.0 as i64;
    if id == 0 { 1 } else { id }
}

/// Of what is explained, or prepared, the first token.
fn inner(sql: &str, pieces: &[Piece]) -> usize {
    const BEGINNINGS: [&str; 9] = [
        "select", "with", "values", "table", "insert", "update", "delete", "merge", "execute",
    ];
    let first = match pieces {
        [first, ..] if is(sql, Some(first), &["explain"]) => {
            let mut depth = 0;
            pieces.iter().position(|piece| {
                depth += i32::from(is(sql, Some(piece), &["("])) - i32::from(is(sql, Some(piece), &[")"]));
                depth == 0 && is(sql, Some(piece), &BEGINNINGS)
            })
        }
        [first, ..] if is(sql, Some(first), &["prepare"]) => {
            let named = pieces.iter().position(|piece| is(sql, Some(piece), &["as"]));
            named.map(|at| at + 1)
        }
        _ => None,
    };
    first.unwrap_or(0)
}

/// A query or a change of rows. What is explained or prepared has its own number, whatever stands before it.
pub(super) fn normal(sql: &str) -> Normal {
    let pieces = pieces(sql);
    let first = inner(sql, &pieces);
    let text = |piece: &Piece| &sql[piece.start..piece.end];
    let highest = pieces.iter().filter(|piece| piece.token == Token::Parameter);
    let highest = highest.filter_map(|piece| text(piece)[1..].parse::<u32>().ok()).max();
    let mut next = highest.unwrap_or(0);
    let mut made = String::with_capacity(sql.len());
    let mut hash = Hash(0xcbf2_9ce4_8422_2325);
    let mut kept = 0;
    let mut lists = Lists::default();
    let mut at = 0;
    while at < pieces.len() {
        let signed = is_signed(sql, &pieces, at);
        let piece = pieces[at + usize::from(signed)];
        let constant = match piece.token {
            Token::Number => !lists.is_position(sql, &pieces, at) && !is_of_type(sql, &pieces, at),
            Token::Literal => true,
            Token::Word => is_constant_word(sql, &pieces, at),
            _ => false,
        };
        if constant {
            next = next.saturating_add(1);
            made.push_str(&sql[kept..pieces[at].start]);
            made.push_str(&format!("${next}"));
            kept = piece.end;
            at += usize::from(signed);
        }
        lists.pass(sql, &pieces, at);
        match piece.token {
            _ if at < first => {}
            _ if constant => hash.add(b"$ ".iter().copied()),
            Token::Parameter => hash.add(b"$ ".iter().copied()),
            // As the parser folds them.
            Token::Word => hash.add(
                text(&pieces[at])
                    .bytes()
                    .map(|byte| byte.to_ascii_lowercase())
                    .chain([b' ']),
            ),
            Token::Quoted => hash.add(folded(text(&pieces[at])).bytes().chain([b' '])),
            _ => hash.add(text(&pieces[at]).bytes().chain([b' '])),
        }
        at += 1;
    }
    made.push_str(&sql[kept..]);
    Normal {
        text: made,
        id: number(hash),
    }
}

/// A quoted name as a plain one where it could have been that.
fn folded(quoted: &str) -> &str {
    let inner = &quoted[1..quoted.len().max(2) - 1];
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    match !inner.is_empty() && inner.bytes().all(plain) && !inner.starts_with(|c: char| c.is_ascii_digit()) {
        true => inner,
        false => quoted,
    }
}

/// Words after which a value begins, so that a minus after them is its sign.
const VALUE_NEXT: [&str; 24] = [
    "select",
    "where",
    "and",
    "or",
    "not",
    "in",
    "between",
    "limit",
    "offset",
    "values",
    "when",
    "then",
    "else",
    "by",
    "on",
    "having",
    "returning",
    "set",
    "like",
    "from",
    "distinct",
    "all",
    "case",
    "using",
];

/// Whether a minus stands here that belongs to the number after it.
fn is_signed(sql: &str, pieces: &[Piece], at: usize) -> bool {
    if !is(sql, pieces.get(at), &["-"]) || pieces.get(at + 1).is_none_or(|next| next.token != Token::Number) {
        return false;
    }
    match before(pieces, at) {
        None => true,
        Some(piece) if piece.token == Token::Word => is(sql, Some(piece), &VALUE_NEXT),
        Some(piece) if piece.token == Token::Sign => !is(sql, Some(piece), &[")", "]"]),
        Some(_) => false,
    }
}

/// TRUE, FALSE and NULL where they are values, and ALL of LIMIT.
fn is_constant_word(sql: &str, pieces: &[Piece], at: usize) -> bool {
    let previous = before(pieces, at);
    // EXTRACT's field is a string to PostgreSQL.
    if is(sql, previous, &["("]) && is(sql, before(pieces, at - 1), &["extract"]) {
        return is(sql, pieces.get(at + 1), &["from"]);
    }
    if is(sql, previous, &["limit"]) && is(sql, pieces.get(at), &["all"]) {
        return true;
    }
    // ON DELETE SET NULL and its like are of commands; a column's name is quoted.
    let is_tested =
        is(sql, previous, &["not"]) && (is(sql, before(pieces, at - 1), &["is"]) || is(sql, pieces.get(at), &["null"]));
    is(sql, pieces.get(at), &["true", "false", "null"]) && !is(sql, previous, &["is", "."]) && !is_tested
}

/// Whether a number is of a type: `numeric(10, 2)` after `::` or AS.
fn is_of_type(sql: &str, pieces: &[Piece], at: usize) -> bool {
    // No type has more than two numbers; a list of values may be as long as a text.
    let mut open = at;
    loop {
        match before(pieces, open) {
            Some(piece) if is(sql, Some(piece), &["("]) => break,
            Some(piece) if at - open < 2 && (piece.token == Token::Number || is(sql, Some(piece), &[","])) => open -= 1,
            _ => return false,
        }
    }
    // Over the type's name, of several words where it has such: `character varying(5)`.
    let mut name = open - 1;
    while before(pieces, name).is_some_and(|piece| matches!(piece.token, Token::Word | Token::Quoted)) {
        name -= 1;
        if is(sql, pieces.get(name), &["as"]) {
            return true;
        }
    }
    name < open - 1 && is(sql, before(pieces, name), &["::"])
}

/// Lists after ORDER BY and GROUP BY, by the depth of parentheses that they are in.
#[derive(Default)]
struct Lists {
    depth: usize,
    open: Vec<usize>,
}

/// What comes after an item of such a list.
const AFTER_ITEM: [&str; 19] = [
    ",",
    ")",
    ";",
    "asc",
    "desc",
    "nulls",
    "using",
    "limit",
    "offset",
    "fetch",
    "having",
    "order",
    "union",
    "except",
    "intersect",
    "for",
    "window",
    "rows",
    "range",
];

impl Lists {
    /// Whether a number stands for an output column.
    fn is_position(&self, sql: &str, pieces: &[Piece], at: usize) -> bool {
        let first = is(sql, before(pieces, at), &["by", ","]);
        let last = pieces.get(at + 1).is_none() || is(sql, pieces.get(at + 1), &AFTER_ITEM);
        self.open.last() == Some(&self.depth) && first && last
    }

    fn pass(&mut self, sql: &str, pieces: &[Piece], at: usize) {
        let piece = pieces.get(at);
        if is(sql, piece, &["("]) {
            self.depth += 1;
        } else if is(sql, piece, &[")"]) {
            self.depth = self.depth.saturating_sub(1);
            while self.open.last().is_some_and(|depth| *depth > self.depth) {
                self.open.pop();
            }
        } else if is(sql, piece, &["by"]) && is(sql, before(pieces, at), &["order", "group"]) {
            self.open.push(self.depth);
        } else if self.open.last() == Some(&self.depth) && is(sql, piece, &AFTER_ITEM[7..]) {
            self.open.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As PostgreSQL's pg_stat_statements shows them.
    #[test]
    fn constants_are_parameters() {
        for (sql, shown) in [
            ("SELECT 1", "SELECT $1"),
            ("SELECT  a, 'x' FROM t WHERE k = 5", "SELECT  a, $1 FROM t WHERE k = $2"),
            ("SELECT -1, a - 1, a * -1, (a)-1", "SELECT $1, a - $2, a * $3, (a)-$4"),
            ("SELECT a FROM t WHERE a=-5", "SELECT a FROM t WHERE a=$1"),
            (
                "SELECT a FROM t WHERE b = $1 AND c IN (1, 2.5, 1e-3, .5)",
                "SELECT a FROM t WHERE b = $1 AND c IN ($2, $3, $4, $5)",
            ),
            (
                "SELECT a, b FROM t ORDER BY 1, 2 DESC LIMIT 5",
                "SELECT a, b FROM t ORDER BY 1, 2 DESC LIMIT $1",
            ),
            (
                "SELECT a FROM (SELECT 1 AS a ORDER BY 1) s GROUP BY 1 HAVING count(*) > 1 LIMIT ALL",
                "SELECT a FROM (SELECT $1 AS a ORDER BY 1) s GROUP BY 1 HAVING count(*) > $2 LIMIT $3",
            ),
            (
                "SELECT a FROM t ORDER BY a + 1, 2",
                "SELECT a FROM t ORDER BY a + $1, 2",
            ),
            (
                "SELECT '1'::numeric(10, 2), CAST(a AS varchar(5)), a::character varying(7), f(3)",
                "SELECT $1::numeric(10, 2), CAST(a AS varchar(5)), a::character varying(7), f($2)",
            ),
            (
                "SELECT NULL, true WHERE a IS NOT NULL AND b IS TRUE AND NOT false",
                "SELECT $1, $2 WHERE a IS NOT NULL AND b IS TRUE AND NOT $3",
            ),
            (
                "SELECT date '2020-01-01', E'a\\'b', $$x$$, $q$'$q$, B'01', U&'x', 'it''s' -- 5\n, /* '6 /* 7 */ */ \"A\"\"1\"",
                "SELECT date $1, $2, $3, $4, $5, $6, $7 -- 5\n, /* '6 /* 7 */ */ \"A\"\"1\"",
            ),
            (
                "INSERT INTO t VALUES (1, 'é', DEFAULT)",
                "INSERT INTO t VALUES ($1, $2, DEFAULT)",
            ),
            (
                "UPDATE t SET a = a + 1 WHERE k1 = 10",
                "UPDATE t SET a = a + $1 WHERE k1 = $2",
            ),
            (
                "SELECT extract(year FROM d), extract(d)",
                "SELECT extract($1 FROM d), extract(d)",
            ),
            ("SELECT 'not ended", "SELECT $1"),
            ("SELECT 5, $a$ not ended $b$", "SELECT $1, $2"),
        ] {
            assert_eq!(normal(sql).text, shown, "{sql}");
        }
    }

    /// What grows with the square of a text is not bearable for texts of megabytes.
    #[test]
    fn long_texts_take_time_by_their_length() {
        let repeated = |item: &str| item.repeat(400_000);
        for sql in [
            format!("SELECT a IN ({}1)", repeated("1, ")),
            format!("SELECT {}1", repeated("- ")),
            format!("SELECT a{}", repeated(" b")),
            format!("SELECT {}", repeated("$a$ $b ")),
            format!(
                "SELECT {}",
                (0..400_000).map(|n| format!("$a{n}$ ")).collect::<String>()
            ),
            format!("SELECT {}", repeated("(ORDER BY ")),
            format!("SELECT {}", repeated("ORDER BY 1) ")),
            format!("SELECT {}", repeated("/* ")),
            format!("SELECT {}", repeated("'a' ")),
        ] {
            let begun = std::time::Instant::now();
            normal(&sql);
            assert!(
                begun.elapsed().as_secs() < 10,
                "{} took {:?}",
                &sql[..40],
                begun.elapsed()
            );
        }
    }

    #[test]
    fn numbers_are_those_of_what_is_said() {
        let id = |sql: &str| normal(sql).id;
        let one = id("SELECT a FROM t WHERE k = 5");
        for same in [
            "select A\nfrom  T /* here */ where K=7",
            "SELECT a FROM t WHERE k = $1",
            "SELECT \"a\" FROM t WHERE k = -3 -- there",
            "SELECT a FROM t WHERE k = 'x'",
        ] {
            assert_eq!(id(same), one, "{same}");
        }
        for other in [
            "SELECT b FROM t WHERE k = 5",
            "SELECT a FROM t WHERE k > 5",
            "SELECT \"A\" FROM t WHERE k = 5",
            "SELECT a FROM t WHERE k IN (5)",
        ] {
            assert_ne!(id(other), one, "{other}");
        }
        for around in [
            "EXPLAIN",
            "EXPLAIN (VERBOSE, COSTS off)",
            "explain analyze verbose",
            "PREPARE p(int) AS",
        ] {
            assert_eq!(id(&format!("{around} SELECT a FROM t WHERE k = 5")), one, "{around}");
        }
        assert_ne!(id("SELECT 1 ORDER BY 1"), id("SELECT 1 ORDER BY 2"));
        assert_ne!(verbatim("SET a = 1").id, verbatim("SET a = 2").id);
        // It is written to logs: it must be the same in all versions.
        assert_eq!(verbatim("").id, 0xcbf2_9ce4_8422_2325_u64 as i64);
    }
}
