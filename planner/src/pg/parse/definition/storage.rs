//! Storage parameters: `(fillfactor = 70, toast.vacuum_truncate, ...)`. The parser knows some of their spellings, in some places: the
//! lists of CREATE become texts (`tokens::clauses`), which are read here like those of ALTER.

use super::{Action, is_word};
use crate::pg::dialect::TenonDialect;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::tokens::clauses::LIST;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, SqlOption, Value};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StorageParameter {
    pub namespace: Option<String>,
    pub name: String,
    pub value: Option<String>,
}

impl StorageParameter {
    /// What it is set to: what has no value is true.
    pub(crate) fn value(&self) -> &str {
        self.value.as_deref().unwrap_or("true")
    }
}

/// The parameters of a list's text.
pub(crate) fn of_text(text: &str) -> Result<Vec<StorageParameter>> {
    let refused = |error: ParserError| SqlError::new(state::SYNTAX_ERROR, error.to_string());
    let mut parser = Parser::new(&TenonDialect).try_with_sql(text).map_err(refused)?;
    list(&mut parser).map_err(refused)
}

/// The parameters among the options of CREATE TABLE and CREATE MATERIALIZED VIEW.
pub(crate) fn of_options(options: &[SqlOption]) -> Result<Vec<StorageParameter>> {
    for option in options {
        if let SqlOption::KeyValue { key, value } = option
            && key.value == LIST
        {
            return text(value).map_or_else(|| Ok(Vec::new()), of_text);
        }
    }
    Ok(Vec::new())
}

/// The same of CREATE INDEX.
pub(crate) fn of_expressions(options: &[Expr]) -> Result<Vec<StorageParameter>> {
    for option in options {
        if let Expr::BinaryOp {
            left,
            op: BinaryOperator::Eq,
            right,
        } = option
            && matches!(left.as_ref(), Expr::Identifier(name) if name.value == LIST)
        {
            return text(right).map_or_else(|| Ok(Vec::new()), of_text);
        }
    }
    Ok(Vec::new())
}

fn text(value: &Expr) -> Option<&str> {
    match value {
        Expr::Value(own) => match &own.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// `[namespace.]name [= value], ...`
fn list(parser: &mut Parser<'_>) -> std::result::Result<Vec<StorageParameter>, ParserError> {
    parser.parse_comma_separated(one)
}

fn one(parser: &mut Parser<'_>) -> std::result::Result<StorageParameter, ParserError> {
    let mut name = word(parser)?;
    let mut namespace = None;
    if parser.consume_token(&Token::Period) {
        namespace = Some(std::mem::replace(&mut name, word(parser)?));
    }
    let value = match parser.consume_token(&Token::Eq) {
        true => Some(value(parser)?),
        false => None,
    };
    Ok(StorageParameter { namespace, name, value })
}

/// A name, which may be any word.
fn word(parser: &mut Parser<'_>) -> std::result::Result<String, ParserError> {
    let next = parser.next_token();
    match &next.token {
        Token::Word(word) if word.quote_style.is_none() => Ok(word.value.to_lowercase()),
        Token::Word(word) => Ok(word.value.clone()),
        _ => parser.expected("a name", next),
    }
}

fn value(parser: &mut Parser<'_>) -> std::result::Result<String, ParserError> {
    let minus = parser.consume_token(&Token::Minus);
    if !minus {
        let _ = parser.consume_token(&Token::Plus);
    }
    let next = parser.next_token();
    match &next.token {
        Token::Number(digits, _) => Ok(format!("{}{digits}", if minus { "-" } else { "" })),
        Token::SingleQuotedString(text) if !minus => Ok(text.clone()),
        Token::Word(_) if !minus => {
            parser.prev_token();
            word(parser)
        }
        _ => parser.expected("a value", next),
    }
}

/// `SET (...)` or `RESET (...)`
pub(super) fn action(parser: &mut Parser<'_>) -> std::result::Result<Action, ParserError> {
    let is_set = is_word(parser, "set");
    parser.next_token();
    parser.expect_token(&Token::LParen)?;
    let parameters = list(parser)?;
    parser.expect_token(&Token::RParen)?;
    Ok(Action::Parameters { is_set, parameters })
}
