//! `int4 ARRAY` and `int4 ARRAY[3]`: the standard's names of `int4[]` and `int4[3]`.

use super::{is, is_solid};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Words that a type's name ends with, or that stand before its lengths; those that are no keywords may be types of the user's.
const TYPES: &[&str] = &[
    "bigint",
    "bit",
    "bool",
    "boolean",
    "bytea",
    "char",
    "character",
    "date",
    "dec",
    "decimal",
    "float",
    "float4",
    "float8",
    "int",
    "int2",
    "int4",
    "int8",
    "integer",
    "interval",
    "json",
    "jsonb",
    "name",
    "numeric",
    "precision",
    "real",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timestamptz",
    "timetz",
    "uuid",
    "varbit",
    "varchar",
    "varying",
    "zone",
];

pub(super) fn respell(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 1;
    while at < tokens.len() {
        if is(&tokens[at], &["array"]) && ends_type(&tokens[..at]) {
            let next = (at + 1..tokens.len()).find(|next| is_solid(&tokens[*next]));
            let sized = next.is_some_and(|next| tokens[next].token == Token::LBracket);
            let span = tokens[at].span;
            let brackets = [Token::LBracket, Token::RBracket].map(|token| TokenWithSpan { token, span });
            tokens.splice(at..=at, brackets.into_iter().filter(|_| !sized));
        }
        at += 1;
    }
}

fn ends_type(before: &[TokenWithSpan]) -> bool {
    let Some(last) = before.iter().rposition(is_solid) else {
        return false;
    };
    let is_type = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => word.keyword == Keyword::NoKeyword || is(token, TYPES),
        _ => false,
    };
    if before[last].token != Token::RParen {
        return is_type(&before[last]);
    }
    // A length, a precision.
    let mut depth = 0;
    let open = before[..=last].iter().rposition(|token| {
        match token.token {
            Token::RParen => depth += 1,
            Token::LParen => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    let named = open.and_then(|open| before[..open].iter().rfind(|token| is_solid(token)));
    named.is_some_and(|named| is(named, TYPES))
}
