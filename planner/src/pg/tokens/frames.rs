//! Frame clauses: `EXCLUDE ...`, which becomes part of the
//! window's name, and offsets that begin with a string (`'1 day'::interval PRECEDING`), which get parentheses.

use super::{is, is_solid};
use crate::pg::functions::window::frame::Exclude;
use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// What separates a window's name from what its frame excludes.
const MARK: char = '\u{1}';

pub(super) fn mark(tokens: &mut Vec<TokenWithSpan>) {
    let frames = |token: &TokenWithSpan| is(token, &["PRECEDING", "FOLLOWING", "EXCLUDE"]);
    if tokens.iter().any(frames) {
        exclusions(tokens);
        offsets(tokens);
    }
}

fn exclusions(tokens: &mut Vec<TokenWithSpan>) {
    let mut open: Vec<usize> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at].token {
            Token::LParen => open.push(at),
            Token::RParen => drop(open.pop()),
            _ if is(&tokens[at], &["EXCLUDE"]) => {
                let rest: Vec<usize> = (at + 1..tokens.len())
                    .filter(|at| is_solid(&tokens[*at]))
                    .take(3)
                    .collect();
                let word = |nth: usize, word: &str| rest.get(nth).is_some_and(|at| is(&tokens[*at], &[word]));
                let (name, words) = match () {
                    () if word(0, "CURRENT") && word(1, "ROW") => ("current row", 2),
                    () if word(0, "NO") && word(1, "OTHERS") => ("no others", 2),
                    () if word(0, "GROUP") => ("group", 1),
                    () if word(0, "TIES") => ("ties", 1),
                    () => ("", 0),
                };
                let closes = rest.get(words).is_some_and(|at| tokens[*at].token == Token::RParen);
                if let Some(&from) = open.last()
                    && words > 0
                    && closes
                {
                    tokens.drain(at..=rest[words - 1]);
                    note(tokens, from, name);
                    // One token more or none stands before this place: the closing parenthesis is still ahead.
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// Adds to the name of the window that begins at a parenthesis.
fn note(tokens: &mut Vec<TokenWithSpan>, open: usize, name: &str) {
    let next = (open + 1..tokens.len()).find(|at| is_solid(&tokens[*at]));
    if let Some(next) = next
        && let Token::Word(word) = &mut tokens[next].token
        && word.keyword == Keyword::NoKeyword
    {
        if word.quote_style.is_none() {
            word.value = word.value.to_lowercase();
            word.quote_style = Some('"');
        }
        word.value = format!("{}{MARK}{name}", word.value);
        return;
    }
    let span = tokens[open].span;
    tokens.insert(open + 1, super::name(format!("{MARK}{name}"), span));
}

fn offsets(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        let starts = is(&tokens[at], &["ROWS", "RANGE", "GROUPS", "BETWEEN", "AND"]);
        let next = (at + 1..tokens.len()).find(|at| is_solid(&tokens[*at]));
        at += 1;
        let Some(from) = next.filter(|_| starts) else { continue };
        if !matches!(tokens[from].token, Token::SingleQuotedString(_)) {
            continue;
        }
        let (mut depth, mut end) = (0, None);
        for (place, token) in tokens.iter().enumerate().skip(from) {
            match &token.token {
                Token::LParen => depth += 1,
                Token::RParen if depth == 0 => break,
                Token::RParen => depth -= 1,
                _ if depth == 0 && is(token, &["PRECEDING", "FOLLOWING"]) => {
                    end = Some(place);
                    break;
                }
                _ if depth == 0 && is(token, &["AND", "BETWEEN"]) => break,
                _ => {}
            }
        }
        if let Some(end) = end {
            let (first, last) = (tokens[from].span, tokens[end].span);
            let paren = |token, span| TokenWithSpan { token, span };
            tokens.insert(end, paren(Token::RParen, last));
            tokens.insert(from, paren(Token::LParen, first));
        }
    }
}

/// A window's own name, and the rest of it that says what is excluded.
pub(crate) fn parted(name: Option<Ident>) -> (Option<Ident>, Option<Ident>) {
    let Some(name) = name else { return (None, None) };
    match name.value.split_once(MARK) {
        None => (Some(name), None),
        Some((own, excluded)) => {
            let with = |value: String| Ident {
                value,
                quote_style: Some('"'),
                span: name.span,
            };
            let own = (!own.is_empty()).then(|| with(own.to_string()));
            (own, Some(with(format!("{MARK}{excluded}"))))
        }
    }
}

/// What the rest of a name says.
pub(crate) fn kind(excluded: &Ident) -> Exclude {
    match excluded.value.trim_start_matches(MARK) {
        "current row" => Exclude::CurrentRow,
        "group" => Exclude::Group,
        "ties" => Exclude::Ties,
        _ => Exclude::Nothing,
    }
}
