//! Subqueries that begin with a word that the parser does not look for behind a parenthesis: `(VALUES (1))`, and
//! `((SELECT 1) UNION SELECT 2)`.

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
    if parser.peek_nth_token_ref(1).token != Token::LParen {
        return false;
    }
    let inner = (2..).find(|nth| parser.peek_nth_token_ref(*nth).token != Token::LParen);
    let begins =
        inner.is_some_and(|nth| matches!(keyword(parser, nth), Keyword::SELECT | Keyword::WITH | Keyword::VALUES));
    if !begins {
        return false;
    }
    // By places: each look at the nth token from here would count to it.
    let (mut depth, mut at) = (0usize, parser.index());
    loop {
        match &parser.token_at(at).token {
            Token::EOF => return false,
            Token::LParen => depth += 1,
            Token::RParen if depth == 2 => break,
            Token::RParen => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    let next = (at + 1..).find_map(|at| match &parser.token_at(at).token {
        Token::Whitespace(_) => None,
        Token::Word(word) => Some(word.keyword),
        _ => Some(Keyword::NoKeyword),
    });
    matches!(next, Some(Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT))
}
