//! Grouping sets in grouping sets, empty ones among them, and `GROUP BY DISTINCT`. `rewrite::grouping` takes them apart.

use super::{is, is_solid, name};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Stands for GROUPING SETS inside of others, as the name of a function.
pub(crate) const SETS: &str = "\u{1}sets";
/// Stands for the empty set.
pub(crate) const EMPTY: &str = "\u{1}empty";
/// Stands, as the first key, for GROUP BY DISTINCT.
pub(crate) const DISTINCT: &str = "\u{1}distinct";

pub(super) fn mark(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().any(|token| is(token, &["GROUP"])) {
        return;
    }
    distinct(tokens);
    parenthesize(tokens);
    let (mut depth, mut outer): (usize, Option<usize>) = (0, None);
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => {
                depth = depth.saturating_sub(1);
                if outer.is_some_and(|outer| depth < outer) {
                    outer = None;
                }
            }
            _ => {}
        }
        if is(&tokens[at], &["GROUPING"])
            && let Some(sets) = next(tokens, at).filter(|sets| is(&tokens[*sets], &["SETS"]))
        {
            if outer.is_some() {
                let span = tokens[at].span;
                tokens.splice(at..=sets, [name(SETS, span)]);
            } else {
                outer = Some(depth + 1);
            }
        } else if outer.is_some_and(|outer| depth >= outer)
            && matches!(tokens[at].token, Token::LParen | Token::Comma)
            && let Some(open) = next(tokens, at).filter(|open| tokens[*open].token == Token::LParen)
            && let Some(close) = next(tokens, open).filter(|close| tokens[*close].token == Token::RParen)
        {
            let span = tokens[open].span;
            tokens.splice(open..=close, [name(EMPTY, span)]);
        }
        at += 1;
    }
}

/// `ROLLUP ((a + 1) * 2)`: to the parser the parentheses at the beginning of an element are all of it, and a list of columns, so
/// it gets others around. So does a query.
fn parenthesize(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = tokens.len();
    while at > 0 {
        at -= 1;
        if !is(&tokens[at], &["ROLLUP", "CUBE", "SETS"]) {
            continue;
        }
        let Some(open) = next(tokens, at).filter(|open| tokens[*open].token == Token::LParen) else {
            continue;
        };
        let mut start = open;
        while matches!(tokens[start].token, Token::LParen | Token::Comma) {
            let Some(first) = next(tokens, start) else { break };
            let Some(mut end) = end_of_element(tokens, first) else {
                break;
            };
            let is_query = |at| is(&tokens[at], &["SELECT", "WITH", "VALUES", "TABLE"]);
            if tokens[first].token == Token::LParen
                && let Some(behind) = closing(tokens, first).and_then(|close| next(tokens, close))
                && (behind < end || next(tokens, first).is_some_and(is_query))
            {
                let span = tokens[first].span;
                let made = |token| TokenWithSpan { token, span };
                tokens.insert(end, made(Token::RParen));
                tokens.insert(first, made(Token::LParen));
                end += 2;
            }
            start = end;
        }
    }
}

/// Where the parenthesis that opens is closed.
pub(super) fn closing(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0;
    (open..tokens.len()).find(|at| {
        match tokens[*at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

/// The comma or parenthesis that ends an element of a list.
fn end_of_element(tokens: &[TokenWithSpan], first: usize) -> Option<usize> {
    let mut depth = 0;
    (first..tokens.len()).find(|at| match tokens[*at].token {
        Token::LParen => {
            depth += 1;
            false
        }
        Token::RParen if depth > 0 => {
            depth -= 1;
            false
        }
        Token::RParen => true,
        Token::Comma => depth == 0,
        _ => false,
    })
}

fn distinct(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        if is(&tokens[at], &["GROUP"])
            && let Some(by) = next(tokens, at).filter(|by| is(&tokens[*by], &["BY"]))
            && let Some(word) = next(tokens, by).filter(|word| is(&tokens[*word], &["DISTINCT", "ALL"]))
        {
            let span = tokens[word].span;
            let comma = TokenWithSpan {
                token: Token::Comma,
                span,
            };
            // ALL says nothing; alone it is something else to the parser.
            match is(&tokens[word], &["DISTINCT"]) {
                true => drop(tokens.splice(word..=word, [name(DISTINCT, span), comma])),
                false => drop(tokens.remove(word)),
            }
        }
        at += 1;
    }
}

/// The next token that is no space.
pub(super) fn next(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    (at + 1..tokens.len()).find(|at| is_solid(&tokens[*at]))
}
