//! CREATE and DROP TYPE.

use super::Definition;
use crate::bind::fold;
use datafusion::sql::sqlparser::ast::{DataType, ObjectName};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// What a type is made of.
#[derive(Clone, Debug)]
pub(crate) enum NewType {
    Composite(Vec<(String, DataType)>),
    /// Ranges, base types and shells.
    Other,
}

/// From the name on.
pub(super) fn create(parser: &mut Parser<'_>) -> Result<Definition, ParserError> {
    let name = parser.parse_object_name(false)?;
    if parser.parse_keyword(Keyword::AS) && parser.consume_token(&Token::LParen) {
        let mut columns = Vec::new();
        while !parser.consume_token(&Token::RParen) {
            if !columns.is_empty() {
                parser.expect_token(&Token::Comma)?;
            }
            let column = fold(&parser.parse_identifier()?);
            columns.push((column, parser.parse_data_type()?));
            if parser.parse_keyword(Keyword::COLLATE) {
                parser.parse_object_name(false)?;
            }
        }
        let of = NewType::Composite(columns);
        return Ok(Definition::CreateType { name, of });
    }
    while parser.peek_token().token != Token::EOF {
        parser.next_token();
    }
    Ok(Definition::CreateType {
        name,
        of: NewType::Other,
    })
}

/// From the names on.
pub(super) fn drop(parser: &mut Parser<'_>) -> Result<Definition, ParserError> {
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let names: Vec<ObjectName> = parser.parse_comma_separated(|parser| parser.parse_object_name(false))?;
    let cascade = parser.parse_keyword(Keyword::CASCADE);
    let _ = !cascade && parser.parse_keyword(Keyword::RESTRICT);
    Ok(Definition::DropType {
        if_exists,
        names,
        cascade,
    })
}
