//! CREATE, ALTER and DROP EXTENSION.

use super::{Definition, take_words};
use crate::pg::names::fold;
use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

#[derive(Clone, Debug)]
pub(crate) enum ExtensionChange {
    Create {
        if_not_exists: bool,
        name: String,
        schema: Option<Ident>,
        version: Option<String>,
    },
    /// ALTER EXTENSION ... UPDATE: to the only version that there is.
    Update { name: String, version: Option<String> },
    Drop {
        if_exists: bool,
        names: Vec<String>,
        cascade: bool,
    },
}

/// From the first word on.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Definition, ParserError> {
    if take_words(parser, &["create", "extension"]) {
        return create(parser);
    }
    if take_words(parser, &["alter", "extension"]) {
        let name = fold(&parser.parse_identifier()?);
        if !take_words(parser, &["update"]) {
            return Ok(Definition::Refused("ALTER EXTENSION but UPDATE".into()));
        }
        let version = match take_words(parser, &["to"]) {
            true => Some(version(parser)?),
            false => None,
        };
        return Ok(Definition::Extension(ExtensionChange::Update { name, version }));
    }
    let _ = take_words(parser, &["drop", "extension"]);
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let names = parser.parse_comma_separated(|parser| Ok(fold(&parser.parse_identifier()?)))?;
    let cascade = parser.parse_keyword(Keyword::CASCADE);
    let _ = !cascade && parser.parse_keyword(Keyword::RESTRICT);
    Ok(Definition::Extension(ExtensionChange::Drop {
        if_exists,
        names,
        cascade,
    }))
}

fn create(parser: &mut Parser<'_>) -> Result<Definition, ParserError> {
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = fold(&parser.parse_identifier()?);
    let (mut schema, mut of_version) = (None, None);
    let _ = parser.parse_keyword(Keyword::WITH);
    loop {
        if take_words(parser, &["schema"]) {
            schema = Some(parser.parse_identifier()?);
        } else if take_words(parser, &["version"]) {
            of_version = Some(version(parser)?);
        } else if !parser.parse_keyword(Keyword::CASCADE) {
            break;
        }
    }
    Ok(Definition::Extension(ExtensionChange::Create {
        if_not_exists,
        name,
        schema,
        version: of_version,
    }))
}

/// A name or a string.
fn version(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    match parser.peek_token().token {
        Token::SingleQuotedString(text) => {
            parser.next_token();
            Ok(text)
        }
        _ => Ok(fold(&parser.parse_identifier()?)),
    }
}
