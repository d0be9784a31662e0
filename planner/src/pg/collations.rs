//! Collations. Texts sort by code point, as they do by each of these; a name of another is refused where COLLATE gives it.

use super::error::{Result, SqlError, state};
use super::names::{fold, parts};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

pub(crate) const DEFAULT: &str = "default";

pub(crate) struct Collation {
    pub oid: i64,
    pub name: &'static str,
    pub provider: &'static str,
    /// -1: any.
    pub encoding: i64,
    /// The locale by which it compares and by which it tells letters.
    pub locale: Option<&'static str>,
}

pub(crate) const ALL: [Collation; 5] = [
    Collation {
        oid: 100,
        name: DEFAULT,
        provider: "d",
        encoding: -1,
        locale: None,
    },
    Collation {
        oid: 950,
        name: "C",
        provider: "c",
        encoding: -1,
        locale: Some("C"),
    },
    Collation {
        oid: 951,
        name: "POSIX",
        provider: "c",
        encoding: -1,
        locale: Some("POSIX"),
    },
    Collation {
        oid: 12_340,
        name: "ucs_basic",
        provider: "c",
        encoding: 6,
        locale: Some("C"),
    },
    Collation {
        oid: 12_341,
        name: "C.utf8",
        provider: "c",
        encoding: 6,
        locale: Some("C.utf8"),
    },
];

/// The oid of a column's collation.
pub(crate) fn oid(name: Option<&str>) -> i64 {
    let found = ALL.iter().find(|own| Some(own.name) == name);
    found.unwrap_or(&ALL[0]).oid
}

/// The collation of a name; 42704 where there is none.
pub(crate) fn named(name: &ObjectName) -> Result<&'static Collation> {
    let parts = parts(name);
    let found = match parts.as_slice() {
        [name] => ALL.iter().find(|own| own.name == name),
        [schema, name] if schema == "pg_catalog" => ALL.iter().find(|own| own.name == name),
        _ => None,
    };
    found.ok_or_else(|| {
        let message = format!(
            "collation \"{}\" for encoding \"UTF8\" does not exist",
            parts.last().map(String::as_str).unwrap_or_default()
        );
        let names = ALL.map(|own| format!("\"{}\"", own.name)).join(", ");
        SqlError::new(state::UNDEFINED_OBJECT, message).hint(format!(
            "Texts sort by code point. Collations by which they do are {names}."
        ))
    })
}

/// Looks up the name behind each COLLATE of a statement, and tells the place of one that is none.
pub(crate) fn check(tokens: &[TokenWithSpan], place: impl Fn(&TokenWithSpan) -> usize) -> Result<()> {
    let solid: Vec<&TokenWithSpan> = tokens
        .iter()
        .filter(|token| !matches!(token.token, Token::Whitespace(_)))
        .collect();
    let word = |at: usize| match solid.get(at).map(|token| &token.token) {
        Some(Token::Word(word)) => Some(Ident {
            value: word.value.clone(),
            quote_style: word.quote_style,
            span: solid[at].span,
        }),
        _ => None,
    };
    for (at, token) in solid.iter().enumerate() {
        let is_clause = word(at).is_some_and(|own| own.quote_style.is_none() && fold(&own) == "collate");
        let Some(first) = word(at + 1).filter(|own| is_clause && !own.value.starts_with('\u{1}')) else {
            continue;
        };
        let second = match solid.get(at + 2).map(|token| &token.token) {
            Some(Token::Period) => word(at + 3),
            _ => None,
        };
        let name = ObjectName::from(std::iter::once(first).chain(second).collect::<Vec<_>>());
        named(&name).map_err(|error| error.position(place(token)))?;
    }
    Ok(())
}
