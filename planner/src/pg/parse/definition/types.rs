//! CREATE, ALTER and DROP TYPE.

use super::{Definition, take_words};
use crate::pg::names::fold;
use datafusion::sql::sqlparser::ast::{DataType, ObjectName};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// What a type is made of.
#[derive(Clone, Debug)]
pub(crate) enum NewType {
    Composite(Vec<(String, DataType)>),
    Enum(Vec<String>),
    Range(RangeOptions),
    /// Base types and shells.
    Other,
}

/// `AS RANGE (...)`.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeOptions {
    pub subtype: Option<DataType>,
    /// The others: names and what is given for them.
    pub others: Vec<(String, ObjectName)>,
}

/// What ALTER TYPE changes.
#[derive(Clone, Debug)]
pub(crate) enum TypeChange {
    AddValue {
        if_not_exists: bool,
        label: String,
        /// Beside this label: before it where true.
        beside: Option<(bool, String)>,
    },
    RenameValue(String, String),
    Rename(String),
    SetSchema(String),
    /// Of a composite type: one or several.
    Attributes(Vec<AttributeChange>),
    RenameAttribute(String, String),
    Other,
}

#[derive(Clone, Debug)]
pub(crate) enum AttributeChange {
    Add(String, DataType),
    Drop { name: String, if_exists: bool },
    Type(String, DataType),
}

/// From the name on.
pub(super) fn create(parser: &mut Parser<'_>) -> Result<Definition, ParserError> {
    let name = parser.parse_object_name(false)?;
    if take_words(parser, &["as", "enum"]) {
        parser.expect_token(&Token::LParen)?;
        let mut labels = Vec::new();
        while !parser.consume_token(&Token::RParen) {
            if !labels.is_empty() {
                parser.expect_token(&Token::Comma)?;
            }
            labels.push(parser.parse_literal_string()?);
        }
        let of = NewType::Enum(labels);
        return Ok(Definition::CreateType { name, of });
    }
    if take_words(parser, &["as", "range"]) {
        parser.expect_token(&Token::LParen)?;
        let mut options = RangeOptions::default();
        while !parser.consume_token(&Token::RParen) {
            if options.subtype.is_some() || !options.others.is_empty() {
                parser.expect_token(&Token::Comma)?;
            }
            let option = fold(&parser.parse_identifier()?);
            parser.expect_token(&Token::Eq)?;
            match option.as_str() {
                "subtype" => options.subtype = Some(parser.parse_data_type()?),
                _ => options.others.push((option, parser.parse_object_name(false)?)),
            }
        }
        let of = NewType::Range(options);
        return Ok(Definition::CreateType { name, of });
    }
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

/// From the name on.
pub(super) fn alter(parser: &mut Parser<'_>) -> Result<Definition, ParserError> {
    let name = parser.parse_object_name(false)?;
    let change = if take_words(parser, &["add", "value"]) {
        let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
        let label = parser.parse_literal_string()?;
        let before = take_words(parser, &["before"]);
        let beside = match before || take_words(parser, &["after"]) {
            true => Some((before, parser.parse_literal_string()?)),
            false => None,
        };
        TypeChange::AddValue {
            if_not_exists,
            label,
            beside,
        }
    } else if take_words(parser, &["rename", "value"]) {
        let from = parser.parse_literal_string()?;
        parser.expect_keyword_is(Keyword::TO)?;
        TypeChange::RenameValue(from, parser.parse_literal_string()?)
    } else if take_words(parser, &["rename", "attribute"]) {
        let from = fold(&parser.parse_identifier()?);
        parser.expect_keyword_is(Keyword::TO)?;
        let to = fold(&parser.parse_identifier()?);
        cascade(parser);
        TypeChange::RenameAttribute(from, to)
    } else if let Some(first) = attribute_change(parser)? {
        let mut changes = vec![first];
        while parser.consume_token(&Token::Comma) {
            match attribute_change(parser)? {
                Some(next) => changes.push(next),
                None => return parser.expected_ref("ADD, DROP or ALTER ATTRIBUTE", parser.peek_token_ref()),
            }
        }
        TypeChange::Attributes(changes)
    } else if take_words(parser, &["rename", "to"]) {
        TypeChange::Rename(fold(&parser.parse_identifier()?))
    } else if take_words(parser, &["set", "schema"]) {
        TypeChange::SetSchema(fold(&parser.parse_identifier()?))
    } else {
        if take_words(parser, &["owner", "to"]) {
            let to = super::role::name(parser)?;
            let (tag, of) = ("ALTER TYPE".to_string(), super::grant::Owned::Type(name));
            return Ok(Definition::OwnerTo { tag, of, to });
        }
        while parser.peek_token().token != Token::EOF {
            parser.next_token();
        }
        TypeChange::Other
    };
    Ok(Definition::AlterType { name, change })
}

/// What concerns tables that are of a type, of which there are none.
fn cascade(parser: &mut Parser<'_>) {
    let _ = parser.parse_one_of_keywords(&[Keyword::CASCADE, Keyword::RESTRICT]);
}

/// `ADD ATTRIBUTE`, `DROP ATTRIBUTE` and `ALTER ATTRIBUTE`.
fn attribute_change(parser: &mut Parser<'_>) -> Result<Option<AttributeChange>, ParserError> {
    let collate = |parser: &mut Parser<'_>| -> Result<(), ParserError> {
        if parser.parse_keyword(Keyword::COLLATE) {
            parser.parse_object_name(false)?;
        }
        Ok(())
    };
    let change = if take_words(parser, &["add", "attribute"]) {
        let name = fold(&parser.parse_identifier()?);
        let data_type = parser.parse_data_type()?;
        collate(parser)?;
        AttributeChange::Add(name, data_type)
    } else if take_words(parser, &["drop", "attribute"]) {
        let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        let name = fold(&parser.parse_identifier()?);
        AttributeChange::Drop { name, if_exists }
    } else if take_words(parser, &["alter", "attribute"]) {
        let name = fold(&parser.parse_identifier()?);
        let _ = take_words(parser, &["set", "data"]);
        parser.expect_keyword_is(Keyword::TYPE)?;
        let data_type = parser.parse_data_type()?;
        collate(parser)?;
        AttributeChange::Type(name, data_type)
    } else {
        return Ok(None);
    };
    cascade(parser);
    Ok(Some(change))
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
