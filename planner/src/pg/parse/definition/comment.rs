//! `COMMENT ON object IS 'text'`.

use super::{RoleName, take_words};
use crate::pg::names::fold;
use datafusion::sql::sqlparser::ast::{DataType, ObjectName, Value};
use datafusion::sql::sqlparser::keywords::Keyword;
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
    /// With the word for it, and the types of its arguments where they are given.
    Function(&'static str, ObjectName, Option<Vec<String>>),
    Role(RoleName),
    Database(String),
    DomainConstraint {
        name: String,
        domain: ObjectName,
    },
    /// A rule, trigger or policy of a relation: its kind and name.
    OfRelation(&'static str, String, ObjectName),
    /// What nobody has here: its kind, and its name.
    Absent(&'static str, String),
    /// Kept nowhere: what every server has.
    Other,
}

/// Kinds of objects of which there are none.
const ABSENT: [(&[&str], &str); 7] = [
    (&["statistics"], "statistics object"),
    (&["publication"], "publication"),
    (&["subscription"], "subscription"),
    (&["server"], "server"),
    (&["foreign", "data", "wrapper"], "foreign-data wrapper"),
    (&["event", "trigger"], "event trigger"),
    (&["large", "object"], "large object"),
];

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
        let name = fold(&parser.parse_identifier()?);
        if !take_words(parser, &["on"]) {
            let next = parser.peek_token();
            return parser.expected("ON", next);
        }
        match take_words(parser, &["domain"]) {
            true => Commented::DomainConstraint {
                name,
                domain: parser.parse_object_name(false)?,
            },
            false => Commented::Constraint {
                name,
                table: parser.parse_object_name(false)?,
            },
        }
    } else if let Some(word) = ["function", "procedure", "routine"]
        .into_iter()
        .find(|word| take_words(parser, &[word]))
    {
        let (name, arguments) = super::function::signature(parser)?;
        Commented::Function(word, name, arguments)
    } else if take_words(parser, &["role"]) {
        Commented::Role(super::role::name(parser)?)
    } else if take_words(parser, &["database"]) {
        Commented::Database(fold(&parser.parse_identifier()?))
    } else if let Some(word) = ["rule", "trigger", "policy"]
        .into_iter()
        .find(|word| take_words(parser, &[word]))
    {
        let name = fold(&parser.parse_identifier()?);
        parser.expect_keyword_is(Keyword::ON)?;
        Commented::OfRelation(word, name, parser.parse_object_name(false)?)
    } else if take_words(parser, &["foreign", "table"]) {
        Commented::Relation("foreign table", parser.parse_object_name(false)?)
    } else if let Some((_, word)) = ABSENT.into_iter().find(|(words, _)| take_words(parser, words)) {
        let name = match parser.peek_token().token {
            Token::Number(number, _) => {
                parser.next_token();
                number
            }
            _ => parser.parse_object_name(false)?.to_string(),
        };
        Commented::Absent(word, name)
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
        let text = match parser.parse_value()?.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) | Value::UnicodeStringLiteral(text) => {
                text
            }
            Value::DollarQuotedString(text) => text.value,
            _ => return parser.expected("a string", next),
        };
        Some(text).filter(|text| !text.is_empty())
    };
    Ok(Comment { on, text })
}

fn skip_to_is(parser: &mut Parser<'_>) {
    while !super::is_word(parser, "is") && parser.peek_token().token != Token::EOF {
        parser.next_token();
    }
}
