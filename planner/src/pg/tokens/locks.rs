//! The locking clause before LIMIT, OFFSET or FETCH, where PostgreSQL takes it too: the parser wants it behind them. It wants
//! one name behind OF: a clause of several becomes several.

use super::{is, is_solid};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// Puts the clauses behind the limits that follow them. FOR UPDATE and FOR SHARE are the only ones by now.
pub(super) fn behind_limits(tokens: &mut [TokenWithSpan]) {
    for at in 0..tokens.len() {
        if let Some((limits, end)) = limits_behind(tokens, at) {
            tokens[at..end].rotate_left(limits - at);
        }
    }
}

/// Makes a clause for each of the names behind OF.
pub(super) fn apart(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        at += match clauses(tokens, at) {
            Some((end, apart)) => {
                let length = apart.len();
                tokens.splice(at..end, apart);
                length
            }
            None => 1,
        };
    }
}

/// The clauses that the one which begins here stands for, where it names several relations, and where it ends.
fn clauses(tokens: &[TokenWithSpan], at: usize) -> Option<(usize, Vec<TokenWithSpan>)> {
    let end = behind_clause(tokens, at)?;
    let of = behind(tokens, behind(tokens, at));
    if !is(tokens.get(of)?, &["of"]) {
        return None;
    }
    let last = |token: &TokenWithSpan| is(token, &["nowait", "skip"]);
    // What is behind a comma or OF is a name, whatever it says.
    let mut names = vec![behind(tokens, of)];
    let mut names_end = names[0] + 1;
    while let Some(next) = tokens
        .get(names_end)
        .filter(|next| names_end < end && !(is_solid(next) && last(next)))
    {
        let follows = matches!(next.token, Token::Comma | Token::Period);
        let name = behind(tokens, names_end);
        if next.token == Token::Comma {
            names.push(name);
        }
        names_end = if follows { name + 1 } else { names_end + 1 };
    }
    if names.len() < 2 {
        return None;
    }
    let mut apart = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let name_end = names.get(index + 1).map_or(names_end, |next| *next);
        let own = tokens[*name..name_end]
            .iter()
            .filter(|token| is_solid(token) && token.token != Token::Comma);
        let space = TokenWithSpan {
            token: Token::Whitespace(Whitespace::Space),
            span: tokens[*name].span,
        };
        apart.extend_from_slice(&tokens[at..=of]);
        apart.push(space.clone());
        apart.extend(own.cloned());
        apart.push(space.clone());
        apart.extend_from_slice(&tokens[names_end..end]);
        apart.push(space);
    }
    Some((end, apart))
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
