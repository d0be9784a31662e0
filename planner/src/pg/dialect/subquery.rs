//! Subqueries that begin with a word that the parser does not look for behind a parenthesis: `(VALUES (1))`, and
//! `((SELECT 1) UNION SELECT 2)`; and lists after IN whose first item begins with a subquery.

use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// The subquery in the parenthesis that comes next, if it is one of those.
pub(super) fn parenthesized(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    let values = keyword(parser, 1) == Keyword::VALUES && parser.peek_nth_token_ref(2).token == Token::LParen;
    if !values && !is_united(parser) {
        return None;
    }
    parser.next_token();
    let query = parser.parse_query().and_then(|query| {
        parser.expect_token(&Token::RParen)?;
        Ok(Expr::Subquery(query))
    });
    Some(query)
}

fn keyword(parser: &Parser, nth: usize) -> Keyword {
    match &parser.peek_nth_token_ref(nth).token {
        Token::Word(word) => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// Whether a query in parentheses of its own, and what unites it with another, is next.
fn is_united(parser: &Parser) -> bool {
    begins_inside(parser, 0)
        && behind_inner(parser).is_some_and(|next| match next {
            Token::Word(word) => matches!(word.keyword, Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT),
            _ => false,
        })
}

/// Whether the parenthesis at the `nth` token from here, that after IN, holds a list whose first item begins with a subquery:
/// `((SELECT 1), 2)`, `((SELECT 1) + 1)`.
pub(super) fn begins_list(parser: &Parser, nth: usize) -> bool {
    use Keyword::{EXCEPT, FETCH, FOR, INTERSECT, LIMIT, OFFSET, ORDER, UNION};
    begins_inside(parser, nth)
        && behind_inner(parser).is_some_and(|next| match next {
            Token::RParen => false,
            Token::Word(word) => !matches!(
                word.keyword,
                UNION | INTERSECT | EXCEPT | ORDER | LIMIT | OFFSET | FETCH | FOR
            ),
            _ => true,
        })
}

/// Whether a query in parentheses of its own begins behind the one at the `nth` token from here.
fn begins_inside(parser: &Parser, nth: usize) -> bool {
    let opens = |nth: usize| parser.peek_nth_token_ref(nth).token == Token::LParen;
    if !opens(nth) || !opens(nth + 1) {
        return false;
    }
    let inner = (nth + 2..).find(|nth| !opens(*nth));
    inner.is_some_and(|nth| matches!(keyword(parser, nth), Keyword::SELECT | Keyword::WITH | Keyword::VALUES))
}

/// What follows the first parenthesis inside the next one.
fn behind_inner<'a>(parser: &'a Parser) -> Option<&'a Token> {
    // By places: each look at the nth token from here would count to it.
    let (mut depth, mut at) = (0usize, parser.index());
    loop {
        match &parser.token_at(at).token {
            Token::EOF => return None,
            Token::LParen => depth += 1,
            Token::RParen if depth == 2 => break,
            Token::RParen => depth = depth.checked_sub(1)?,
            _ => {}
        }
        at += 1;
    }
    (at + 1..).find_map(|at| match &parser.token_at(at).token {
        Token::Whitespace(_) => None,
        token => Some(token),
    })
}
