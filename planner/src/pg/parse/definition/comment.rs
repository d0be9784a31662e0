//! `COMMENT ON object IS 'text'`.

use super::take_words;
use datafusion::sql::sqlparser::ast::{DataType, ObjectName, Value};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

#[derive(Clone, Debug)]
pub(crate) struct Comment {
    pub on: Commented,
    /// None takes the comment away.
    pub text: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum Commented {
    /// With the word for what it has to be.
    Relation(&'static str, ObjectName),
    Column(ObjectName),
    Index(ObjectName),
    Schema(ObjectName),
    Constraint {
        name: String,
        table: ObjectName,
    },
    Domain(ObjectName),
    Type(DataType),
    /// Kept nowhere: databases, roles and others that Tenon has one of, or none.
    Other,
}

/// Parses from the word ON.
pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Comment, ParserError> {
    let _ = take_words(parser, &["on"]);
    let on = if take_words(parser, &["table"]) {
        Commented::Relation("table", parser.parse_object_name(false)?)
    } else if take_words(parser, &["view"]) {
        Commented::Relation("view", parser.parse_object_name(false)?)
    } else if take_words(parser, &["materialized", "view"]) {
        Commented::Relation("materialized view", parser.parse_object_name(false)?)
    } else if take_words(parser, &["sequence"]) {
        Commented::Relation("sequence", parser.parse_object_name(false)?)
    } else if take_words(parser, &["column"]) {
        Commented::Column(parser.parse_object_name(false)?)
    } else if take_words(parser, &["index"]) {
        Commented::Index(parser.parse_object_name(false)?)
    } else if take_words(parser, &["schema"]) {
        Commented::Schema(parser.parse_object_name(false)?)
    } else if take_words(parser, &["domain"]) {
        Commented::Domain(parser.parse_object_name(false)?)
    } else if take_words(parser, &["type"]) {
        Commented::Type(parser.parse_data_type()?)
    } else if take_words(parser, &["constraint"]) {
        let name = crate::pg::names::fold(&parser.parse_identifier()?);
        if !take_words(parser, &["on"]) {
            let next = parser.peek_token();
            return parser.expected("ON", next);
        }
        let table = match take_words(parser, &["domain"]) {
            true => {
                skip_to_is(parser);
                None
            }
            false => Some(parser.parse_object_name(false)?),
        };
        table.map_or(Commented::Other, |table| Commented::Constraint { name, table })
    } else {
        skip_to_is(parser);
        Commented::Other
    };
    if !take_words(parser, &["is"]) {
        let next = parser.peek_token();
        return parser.expected("IS", next);
    }
    let text = if take_words(parser, &["null"]) {
        None
    } else {
        let next = parser.peek_token();
        match parser.parse_value()?.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) | Value::UnicodeStringLiteral(text) => {
                Some(text).filter(|text| !text.is_empty())
            }
            Value::DollarQuotedString(text) => Some(text.value),
            _ => return parser.expected("a string", next),
        }
    };
    Ok(Comment { on, text })
}

fn skip_to_is(parser: &mut Parser<'_>) {
    while !super::is_word(parser, "is") && parser.peek_token().token != Token::EOF {
        parser.next_token();
    }
}
