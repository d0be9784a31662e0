//! The grammar of COPY, in PostgreSQL's new spelling (options in parentheses) and its old one (`CSV HEADER`).

use super::unnested;
use crate::pg::names::fold;
use crate::pg::tokens::only;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Query, Statement};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{IsOptional, Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub source: Source,
    /// COPY ... TO.
    pub to: bool,
    pub place: CopyEndpoint,
    /// Names in lower case with their values, in the order given.
    pub options: Vec<(String, OptionValue)>,
    /// WHERE, of COPY FROM.
    pub filter: Option<Expr>,
}

#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A relation with the listed columns; none listed: all.
    Relation(ObjectName, Vec<String>),
    Query(Box<Query>),
    /// INSERT, UPDATE or DELETE with RETURNING.
    Change(Box<Statement>),
}

#[derive(Clone, Debug)]
pub(crate) enum CopyEndpoint {
    /// STDIN or STDOUT.
    Client,
    File(String),
    Program,
}

#[derive(Clone, Debug)]
pub(crate) enum OptionValue {
    /// The name stands alone.
    Absent,
    Text(String),
    Columns(Vec<String>),
    /// `*`: all columns.
    Star,
}

/// Parses the statement; its first word, COPY, is the parser's next.
pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Copy, ParserError> {
    parser.expect_keyword_is(Keyword::COPY)?;
    let binary = parser.parse_keyword(Keyword::BINARY);
    let source = if parser.consume_token(&Token::LParen) {
        let changes = [Keyword::INSERT, Keyword::UPDATE, Keyword::DELETE];
        let source = if changes.iter().any(|word| parser.peek_keyword(*word)) {
            let mut change = parser.parse_statement()?;
            only::note(&mut change);
            Source::Change(Box::new(change))
        } else {
            let mut query = parser.parse_query()?;
            only::note(&mut query);
            match unnested(Statement::Query(query)) {
                Statement::Query(query) => Source::Query(query),
                change => Source::Change(Box::new(change)),
            }
        };
        parser.expect_token(&Token::RParen)?;
        source
    } else {
        let name = parser.parse_object_name(false)?;
        Source::Relation(name, columns(parser, IsOptional::Optional)?)
    };
    let to = match parser.parse_one_of_keywords(&[Keyword::FROM, Keyword::TO]) {
        Some(keyword) => keyword == Keyword::TO,
        None => return parser.expected("FROM or TO", parser.peek_token()),
    };
    if !matches!(source, Source::Relation(..)) && !to {
        return parser.expected("TO", parser.peek_token());
    }
    let place = if parser.parse_keyword(Keyword::STDIN) || parser.parse_keyword(Keyword::STDOUT) {
        CopyEndpoint::Client
    } else if parser.parse_keyword(Keyword::PROGRAM) {
        parser.parse_literal_string()?;
        CopyEndpoint::Program
    } else {
        CopyEndpoint::File(parser.parse_literal_string()?)
    };
    let mut options = Vec::new();
    if binary {
        options.push(("format".into(), OptionValue::Text("binary".into())));
    }
    let _ = parser.parse_keyword(Keyword::WITH);
    if parser.consume_token(&Token::LParen) {
        loop {
            options.push(option(parser)?);
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
        parser.expect_token(&Token::RParen)?;
    } else {
        while parser.peek_token().token != Token::EOF && !parser.peek_keyword(Keyword::WHERE) {
            options.push(old_option(parser)?);
        }
    }
    let filter = match parser.parse_keyword(Keyword::WHERE) {
        true => Some(parser.parse_expr()?),
        false => None,
    };
    Ok(Copy {
        source,
        to,
        place,
        options,
        filter,
    })
}

fn columns(parser: &mut Parser<'_>, optional: IsOptional) -> Result<Vec<String>, ParserError> {
    let idents = parser.parse_parenthesized_column_list(optional, false)?;
    Ok(idents.iter().map(fold).collect())
}

/// `name [value]` inside the parentheses.
fn option(parser: &mut Parser<'_>) -> Result<(String, OptionValue), ParserError> {
    let name = fold(&parser.parse_identifier()?);
    let value = match parser.peek_token().token {
        Token::Comma | Token::RParen => OptionValue::Absent,
        Token::LParen => OptionValue::Columns(columns(parser, IsOptional::Mandatory)?),
        Token::Mul => {
            parser.next_token();
            OptionValue::Star
        }
        Token::Word(word) => {
            parser.next_token();
            let text = if word.quote_style.is_some() {
                word.value
            } else {
                word.value.to_lowercase()
            };
            OptionValue::Text(text)
        }
        Token::Number(digits, _) => {
            parser.next_token();
            OptionValue::Text(digits)
        }
        _ => OptionValue::Text(parser.parse_literal_string()?),
    };
    Ok((name, value))
}

/// One option of the old spelling.
fn old_option(parser: &mut Parser<'_>) -> Result<(String, OptionValue), ParserError> {
    let text = |parser: &mut Parser<'_>| {
        let _ = parser.parse_keyword(Keyword::AS);
        parser.parse_literal_string().map(OptionValue::Text)
    };
    let token = parser.next_token();
    let Token::Word(word) = &token.token else {
        return parser.expected("an option of COPY", token);
    };
    Ok(match word.value.to_lowercase().as_str() {
        format @ ("csv" | "binary") => ("format".into(), OptionValue::Text(format.into())),
        "header" => ("header".into(), OptionValue::Absent),
        "freeze" => ("freeze".into(), OptionValue::Absent),
        name @ ("delimiter" | "null" | "quote" | "escape" | "encoding") => (name.into(), text(parser)?),
        "force" => {
            let name = if parser.parse_keywords(&[Keyword::NOT, Keyword::NULL]) {
                "force_not_null"
            } else if parser.parse_keyword(Keyword::NULL) {
                "force_null"
            } else {
                let quote = parser.next_token();
                match &quote.token {
                    Token::Word(word) if word.value.eq_ignore_ascii_case("quote") => "force_quote",
                    _ => return parser.expected("QUOTE, NULL or NOT NULL", quote),
                }
            };
            if parser.consume_token(&Token::Mul) {
                return Ok((name.into(), OptionValue::Star));
            }
            let mut names = vec![fold(&parser.parse_identifier()?)];
            while parser.consume_token(&Token::Comma) {
                names.push(fold(&parser.parse_identifier()?));
            }
            (name.into(), OptionValue::Columns(names))
        }
        _ => return parser.expected("an option of COPY", token),
    })
}
