//! Calls whose arguments are parted by words.

use super::BASE;
use crate::pg::rewrite::call;
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, TrimWhereField, Value};
use datafusion::sql::sqlparser::dialect::{Dialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

type Parsed = Result<Option<Expr>, ParserError>;

/// SUBSTRING with SIMILAR, or with FOR before FROM or alone; None for other forms.
pub(super) fn substring(parser: &mut Parser) -> Parsed {
    parser.maybe_parse(|parser| {
        parser.next_token();
        parser.expect_token(&Token::LParen)?;
        let text = parser.parse_subexpr(BASE.prec_value(Precedence::Like))?;
        let (mut from, mut length) = (None, None);
        if parser.parse_keyword(Keyword::SIMILAR) {
            let pattern = parser.parse_expr()?;
            parser.expect_keyword(Keyword::ESCAPE)?;
            let escape = parser.parse_expr()?;
            parser.expect_token(&Token::RParen)?;
            return Ok(call("tenon_substring_similar", vec![text, pattern, escape]));
        }
        for _ in 0..2 {
            if from.is_none() && parser.parse_keyword(Keyword::FROM) {
                from = Some(Box::new(parser.parse_expr()?));
            } else if length.is_none() && parser.parse_keyword(Keyword::FOR) {
                length = Some(Box::new(parser.parse_expr()?));
            }
        }
        if from.is_none() && length.is_none() {
            return parser.expected_ref("FROM or FOR", parser.peek_token_ref());
        }
        parser.expect_token(&Token::RParen)?;
        let one = || Box::new(Expr::Value(Value::Number("1".into(), false).into()));
        Ok(Expr::Substring {
            expr: Box::new(text),
            substring_from: from.or_else(|| Some(one())),
            substring_for: length,
            special: false,
            shorthand: false,
        })
    })
}

/// OVERLAY as a plain call; None where it has words.
pub(super) fn overlay(parser: &mut Parser) -> Parsed {
    parser.maybe_parse(|parser| {
        parser.next_token();
        parser.parse_function(ObjectName::from(vec![Ident::new("overlay")]))
    })
}

/// TRIM with a FROM right behind what it begins with; None for other forms.
pub(super) fn trim(parser: &mut Parser) -> Parsed {
    parser.maybe_parse(|parser| {
        parser.next_token();
        parser.expect_token(&Token::LParen)?;
        let side = parser.parse_one_of_keywords(&[Keyword::BOTH, Keyword::LEADING, Keyword::TRAILING]);
        let from = parser.parse_keyword(Keyword::FROM);
        if !from && side.is_none() {
            return parser.expected_ref("FROM", parser.peek_token_ref());
        }
        let text = parser.parse_expr()?;
        let characters = match parser.consume_token(&Token::Comma) {
            true => Some(vec![parser.parse_expr()?]),
            false => None,
        };
        parser.expect_token(&Token::RParen)?;
        let name = match side {
            Some(Keyword::LEADING) => TrimWhereField::Leading,
            Some(Keyword::TRAILING) => TrimWhereField::Trailing,
            _ => TrimWhereField::Both,
        };
        Ok(Expr::Trim {
            expr: Box::new(text),
            trim_where: Some(name),
            trim_what: None,
            trim_characters: characters,
        })
    })
}
