//! Parentheses where the parser knows none: around what `FETCH FIRST` counts, and around a query that EXPLAIN has no options for.

use super::sets::{closing, next};
use super::{is, is_solid};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// `FETCH FIRST (n) ROWS ONLY` is `LIMIT (n)`. With TIES the parentheses around a value go, and its cast.
pub(super) fn fetched(tokens: &mut [TokenWithSpan]) {
    for at in 0..tokens.len() {
        if is(&tokens[at], &["fetch"]) {
            let _ = fetched_at(tokens, at);
        }
    }
}

fn fetched_at(tokens: &mut [TokenWithSpan], at: usize) -> Option<()> {
    let first = next(tokens, at)?;
    let open = next(tokens, first)?;
    if !is(&tokens[first], &["first", "next"]) || tokens[open].token != Token::LParen {
        return None;
    }
    let close = closing(tokens, open)?;
    let rows = next(tokens, close)?;
    let last = next(tokens, rows)?;
    if !is(&tokens[rows], &["row", "rows"]) {
        return None;
    }
    if is(&tokens[last], &["only"]) {
        tokens[at].token = Token::make_keyword("LIMIT");
        for gone in [first, rows, last] {
            tokens[gone].token = Token::Whitespace(Whitespace::Space);
        }
        return Some(());
    }
    let value = next(tokens, open)?;
    let behind = next(tokens, value)?;
    let is_value = matches!(tokens[value].token, Token::Number(..) | Token::Placeholder(_));
    if is_value && (behind == close || tokens[behind].token == Token::DoubleColon) {
        for gone in (open..=close).filter(|gone| *gone != value) {
            tokens[gone].token = Token::Whitespace(Whitespace::Space);
        }
    }
    Some(())
}

/// `EXPLAIN (SELECT ...)`: an option that changes nothing, in the place where the parser looks for some.
pub(super) fn explained(tokens: &mut Vec<TokenWithSpan>) {
    let Some(first) = tokens
        .iter()
        .position(is_solid)
        .filter(|at| is(&tokens[*at], &["explain"]))
    else {
        return;
    };
    let Some(open) = next(tokens, first).filter(|open| tokens[*open].token == Token::LParen) else {
        return;
    };
    let begins =
        |token: &TokenWithSpan| token.token == Token::LParen || is(token, &["select", "with", "values", "table"]);
    if !next(tokens, open).is_some_and(|inner| begins(&tokens[inner])) {
        return;
    }
    let span = tokens[open].span;
    let option = [
        Token::LParen,
        Token::make_keyword("COSTS"),
        Token::Whitespace(Whitespace::Space),
        Token::make_keyword("ON"),
        Token::RParen,
        Token::Whitespace(Whitespace::Space),
    ];
    let option = option.map(|token| TokenWithSpan { token, span });
    tokens.splice(open..open, option);
}
