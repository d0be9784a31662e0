//! The options of CREATE SEQUENCE, ALTER SEQUENCE and identity columns, in any order.

use super::{is_word, take_words};
use datafusion::sql::sqlparser::ast::{self, DataType, ObjectName, SequenceOptions as Known};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// What is said of a sequence; None: not a word.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequenceOptions {
    pub data_type: Option<DataType>,
    pub increment: Option<i64>,
    /// `Some(None)`: NO MINVALUE.
    pub min: Option<Option<i64>>,
    pub max: Option<Option<i64>>,
    pub start: Option<i64>,
    /// `Some(None)`: at the start value.
    pub restart: Option<Option<i64>>,
    pub cache: Option<i64>,
    pub cycle: Option<bool>,
    /// SEQUENCE NAME, of an identity column.
    pub name: Option<ObjectName>,
    /// `Some(None)`: OWNED BY NONE.
    pub owner: Option<Option<ObjectName>>,
    /// An option that was given twice.
    pub repeated: bool,
}

impl SequenceOptions {
    /// Whether anything is said but OWNED BY.
    pub(crate) fn says_more_than_owner(&self) -> bool {
        self.data_type.is_some()
            || self.increment.is_some()
            || self.min.is_some()
            || self.max.is_some()
            || self.start.is_some()
            || self.restart.is_some()
            || self.cache.is_some()
            || self.cycle.is_some()
    }
}

/// Parses options as long as there are some.
pub(crate) fn options(parser: &mut Parser<'_>) -> Result<SequenceOptions, ParserError> {
    let mut out = SequenceOptions::default();
    loop {
        let repeated = if take_words(parser, &["as"]) {
            out.data_type.replace(parser.parse_data_type()?).is_some()
        } else if take_words(parser, &["increment"]) {
            let _ = take_words(parser, &["by"]);
            out.increment.replace(number(parser)?).is_some()
        } else if take_words(parser, &["no", "minvalue"]) {
            out.min.replace(None).is_some()
        } else if take_words(parser, &["minvalue"]) {
            out.min.replace(Some(number(parser)?)).is_some()
        } else if take_words(parser, &["no", "maxvalue"]) {
            out.max.replace(None).is_some()
        } else if take_words(parser, &["maxvalue"]) {
            out.max.replace(Some(number(parser)?)).is_some()
        } else if take_words(parser, &["start"]) {
            let _ = take_words(parser, &["with"]);
            out.start.replace(number(parser)?).is_some()
        } else if take_words(parser, &["restart"]) {
            let with = take_words(parser, &["with"]);
            let at = match parser.peek_token().token {
                _ if with => Some(number(parser)?),
                Token::Number(..) | Token::Minus | Token::Plus => Some(number(parser)?),
                _ => None,
            };
            out.restart.replace(at).is_some()
        } else if take_words(parser, &["cache"]) {
            out.cache.replace(number(parser)?).is_some()
        } else if take_words(parser, &["no", "cycle"]) {
            out.cycle.replace(false).is_some()
        } else if take_words(parser, &["cycle"]) {
            out.cycle.replace(true).is_some()
        } else if take_words(parser, &["sequence", "name"]) {
            out.name.replace(parser.parse_object_name(false)?).is_some()
        } else if take_words(parser, &["owned", "by"]) {
            let owner = match is_word(parser, "none") {
                true => {
                    parser.next_token();
                    None
                }
                false => Some(parser.parse_object_name(false)?),
            };
            out.owner.replace(owner).is_some()
        } else {
            return Ok(out);
        };
        out.repeated |= repeated;
    }
}

fn number(parser: &mut Parser<'_>) -> Result<i64, ParserError> {
    let negative = parser.consume_token(&Token::Minus);
    let _ = !negative && parser.consume_token(&Token::Plus);
    let next = parser.next_token();
    let Token::Number(digits, _) = &next.token else {
        return parser.expected("a number", next);
    };
    let signed = if negative { format!("-{digits}") } else { digits.clone() };
    match signed.parse() {
        Ok(number) => Ok(number),
        Err(_) => parser.expected("a bigint", next),
    }
}

impl SequenceOptions {
    /// What the parser found in the declaration of an identity column.
    pub(crate) fn of_identity(known: &[Known]) -> Self {
        let mut out = Self::default();
        let value = |expr: &ast::Expr| expr.to_string().replace(' ', "").parse::<i64>().ok();
        for option in known {
            match option {
                Known::IncrementBy(by, _) => out.increment = value(by),
                Known::MinValue(min) => out.min = Some(min.as_ref().and_then(value)),
                Known::MaxValue(max) => out.max = Some(max.as_ref().and_then(value)),
                Known::StartWith(start, _) => out.start = value(start),
                Known::Cache(cache) => out.cache = value(cache),
                // The parser has it the other way round.
                Known::Cycle(no) => out.cycle = Some(!no),
            }
        }
        out
    }
}
