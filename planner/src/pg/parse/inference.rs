//! `ON CONFLICT (expressions) WHERE predicate`. The parser knows a list of columns only: what is more is put into names that
//! nobody can write, which hold the expressions' text.

use super::{DIALECT, NESTING_MAX, is_word, logic};
use crate::pg::walk::VisitMut;
use datafusion::sql::sqlparser::ast::{Expr, Ident};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// What the name of an expression begins with.
const KEY: &str = "\u{1}key ";

/// What the name of the predicate begins with.
const PREDICATE: &str = "\u{1}where ";

/// What an element of a conflict target is.
pub(crate) enum Element<'a> {
    Column(&'a Ident),
    /// The text of an expression.
    Key(&'a str),
    /// The text of the predicate of all.
    Predicate(&'a str),
}

impl Element<'_> {
    /// The name of an expression that is given by its text.
    pub(crate) fn of_key(text: &str) -> Ident {
        Ident::new(format!("{KEY}{text}"))
    }

    /// The name of the predicate.
    pub(crate) fn of_predicate(text: &str) -> Ident {
        Ident::new(format!("{PREDICATE}{text}"))
    }

    pub(crate) fn of(name: &Ident) -> Element<'_> {
        if let Some(text) = name.value.strip_prefix(KEY) {
            return Element::Key(text);
        }
        match name.value.strip_prefix(PREDICATE) {
            Some(text) => Element::Predicate(text),
            None => Element::Column(name),
        }
    }
}

/// Puts such names into a statement's tokens.
pub(super) fn mark(tokens: &mut Vec<TokenWithSpan>) -> Result<(), ParserError> {
    let mut at = 0;
    while let Some(open) = target(tokens, at) {
        at = open + 1;
        if let Some(end) = mark_one(tokens, open)? {
            at = end;
        }
    }
    Ok(())
}

fn is_solid(token: &TokenWithSpan) -> bool {
    !matches!(token.token, Token::Whitespace(_) | Token::EOF)
}

/// The parenthesis after the next ON CONFLICT.
fn target(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let mut before = [None, None];
    for (at, token) in tokens
        .iter()
        .enumerate()
        .skip(from)
        .filter(|(_, token)| is_solid(token))
    {
        if token.token == Token::LParen
            && let [Some(on), Some(conflict)] = before
            && is_word(on, "on")
            && is_word(conflict, "conflict")
        {
            return Some(at);
        }
        before = [before[1], Some(token)];
    }
    None
}

/// Marks the target that begins with a parenthesis; where its list ends now, if anything was marked.
fn mark_one(tokens: &mut Vec<TokenWithSpan>, open: usize) -> Result<Option<usize>, ParserError> {
    let mut elements: Vec<Vec<TokenWithSpan>> = vec![Vec::new()];
    let (mut depth, mut close) = (1, None);
    for (at, token) in tokens.iter().enumerate().skip(open + 1) {
        match token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            close = Some(at);
            break;
        }
        match (&token.token, elements.last_mut()) {
            (Token::Comma, _) if depth == 1 => elements.push(Vec::new()),
            (_, Some(last)) if is_solid(token) => last.push(token.clone()),
            _ => {}
        }
    }
    let Some(close) = close else { return Ok(None) };
    let after = (close + 1..tokens.len()).find(|at| is_solid(&tokens[*at]));
    let condition = after.filter(|at| is_word(&tokens[*at], "where"));
    let is_column =
        |element: &Vec<TokenWithSpan>| matches!(element.as_slice(), [one] if matches!(one.token, Token::Word(_)));
    if condition.is_none() && elements.iter().all(is_column) {
        return Ok(None);
    }
    let (mut names, mut end) = (Vec::new(), close);
    for element in elements {
        match is_column(&element) {
            true => names.extend(element.into_iter().map(|token| token.token)),
            false => names.push(named(KEY, element)?.0),
        }
    }
    if let Some(condition) = condition {
        let (name, read) = named(
            PREDICATE,
            tokens[condition + 1..]
                .iter()
                .filter(|token| is_solid(token))
                .cloned()
                .collect(),
        )?;
        names.push(name);
        let mut left = (condition + 1..tokens.len()).filter(|at| is_solid(&tokens[*at]));
        end = left.nth(read).unwrap_or(tokens.len()) - 1;
    }
    let span = tokens[open].span;
    let mut list = vec![Token::LParen];
    for (at, name) in names.into_iter().enumerate() {
        if at > 0 {
            list.push(Token::Comma);
        }
        list.push(name);
    }
    list.push(Token::RParen);
    let length = list.len();
    tokens.splice(open..=end, list.into_iter().map(|token| TokenWithSpan { token, span }));
    Ok(Some(open + length))
}

/// The expression that tokens begin with, as a name; how many of them it took. An element of the list takes all.
fn named(kind: &str, tokens: Vec<TokenWithSpan>) -> Result<(Token, usize), ParserError> {
    let mut parser = Parser::new(&DIALECT)
        .with_recursion_limit(NESTING_MAX)
        .with_tokens_with_locations(tokens);
    let mut expr = parser.parse_expr()?;
    let read = parser.index();
    if kind == KEY && parser.peek_token().token != Token::EOF {
        let next = parser.peek_token();
        return parser
            .expected("a comma or the end of the list", next)
            .map(|()| (Token::Comma, 0));
    }
    let _ = VisitMut::visit(&mut expr, &mut logic::Halved);
    while let Expr::Nested(inner) = expr {
        expr = *inner;
    }
    Ok((Token::make_word(&format!("{kind}{expr}"), Some('"')), read))
}
