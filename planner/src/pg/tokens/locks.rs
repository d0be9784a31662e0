//! The locking clause before LIMIT, OFFSET or FETCH, where PostgreSQL takes it too: the parser wants it behind them.

use super::{is, is_solid};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Puts the clauses behind the limits that follow them. FOR UPDATE and FOR SHARE are the only ones by now.
pub(super) fn behind_limits(tokens: &mut [TokenWithSpan]) {
    for at in 0..tokens.len() {
        if let Some((limits, end)) = limits_behind(tokens, at) {
            tokens[at..end].rotate_left(limits - at);
        }
    }
}

/// Where the limits begin and end that stand behind the locking clauses that begin here.
fn limits_behind(tokens: &[TokenWithSpan], at: usize) -> Option<(usize, usize)> {
    let mut limits = behind_clause(tokens, at)?;
    while let Some(next) = behind_clause(tokens, limits) {
        limits = next;
    }
    if !is(tokens.get(limits)?, &["limit", "offset", "fetch"]) {
        return None;
    }
    let mut depth = 0;
    for (end, token) in tokens.iter().enumerate().skip(limits) {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth > 0 => depth -= 1,
            Token::RParen | Token::SemiColon | Token::EOF => return Some((limits, end)),
            // There is one clause, before or behind.
            Token::Word(_) if depth == 0 && is(token, &["for"]) => return None,
            Token::Word(_) if depth == 0 && ends_query(tokens, end) => return Some((limits, end)),
            _ => {}
        }
    }
    Some((limits, tokens.len()))
}

/// What stands behind a locking clause that begins here.
fn behind_clause(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let says = |at: usize, words: &[&str]| tokens.get(at).is_some_and(|token| is(token, words));
    let kind = behind(tokens, at);
    if !says(at, &["for"]) || !says(kind, &["update", "share"]) {
        return None;
    }
    let mut next = behind(tokens, kind);
    if says(next, &["of"]) {
        loop {
            next = behind(tokens, behind(tokens, next));
            let more = |token: &TokenWithSpan| matches!(token.token, Token::Comma | Token::Period);
            if !tokens.get(next).is_some_and(more) {
                break;
            }
        }
    }
    if says(next, &["nowait"]) {
        next = behind(tokens, next);
    } else if says(next, &["skip"]) && says(behind(tokens, next), &["locked"]) {
        next = behind(tokens, behind(tokens, next));
    }
    Some(next)
}

/// Whether the words of a statement around the query go on here.
fn ends_query(tokens: &[TokenWithSpan], at: usize) -> bool {
    let ties = || tokens.get(behind(tokens, at)).is_some_and(|next| is(next, &["ties"]));
    is(&tokens[at], &["on", "returning"]) || is(&tokens[at], &["with"]) && !ties()
}

/// The next token that is no space.
fn behind(tokens: &[TokenWithSpan], at: usize) -> usize {
    let next = (at + 1..tokens.len()).find(|next| is_solid(&tokens[*next]));
    next.unwrap_or(tokens.len())
}
