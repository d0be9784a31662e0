//! CREATE and DROP FUNCTION.

use super::{Definition, is_word, is_word_at, take_words};
use crate::pg::names::fold;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Value};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use tenon_storage::{FunctionArgument, FunctionResult};

#[derive(Clone, Debug)]
pub(crate) struct CreateFunction {
    pub or_replace: bool,
    /// A procedure returns nothing, and is no function.
    pub is_procedure: bool,
    pub name: ObjectName,
    pub arguments: Vec<FunctionArgument>,
    /// OUT arguments: the columns of what it returns.
    pub out: Vec<(String, String)>,
    pub returns: Option<FunctionResult>,
    pub language: Option<String>,
    pub body: Option<String>,
    pub volatility: char,
    pub strict: bool,
}

/// From `CREATE [OR REPLACE] {FUNCTION | PROCEDURE}` on.
pub(super) fn create(parser: &mut Parser<'_>, or_replace: bool, is_procedure: bool) -> Result<Definition, ParserError> {
    let mut function = CreateFunction {
        or_replace,
        is_procedure,
        name: parser.parse_object_name(false)?,
        arguments: Vec::new(),
        out: Vec::new(),
        returns: None,
        language: None,
        body: None,
        volatility: 'v',
        strict: false,
    };
    parser.expect_token(&Token::LParen)?;
    if !parser.consume_token(&Token::RParen) {
        loop {
            argument(parser, &mut function)?;
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
        parser.expect_token(&Token::RParen)?;
    }
    if take_words(parser, &["returns", "table"]) {
        parser.expect_token(&Token::LParen)?;
        let columns = parser.parse_comma_separated(|parser| {
            let name = fold(&parser.parse_identifier()?);
            Ok((name, parser.parse_data_type()?.to_string()))
        })?;
        parser.expect_token(&Token::RParen)?;
        function.returns = Some(FunctionResult::Table(columns));
    } else if take_words(parser, &["returns", "setof"]) {
        function.returns = Some(FunctionResult::Set(type_name(parser)?));
    } else if is_word(parser, "returns") && !is_word_at(parser, 1, "null") {
        parser.next_token();
        function.returns = Some(FunctionResult::Scalar(type_name(parser)?));
    }
    while option(parser, &mut function)? {}
    Ok(Definition::CreateFunction(Box::new(function)))
}

/// A type as it is written; that of a column (`table.column%TYPE`) stays unknown.
fn type_name(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    let written = parser.parse_data_type()?.to_string();
    Ok(if written.contains('"') {
        written
    } else {
        written.to_lowercase()
    })
}

/// `[mode] [name] type [{DEFAULT | =} value]`
fn argument(parser: &mut Parser<'_>, function: &mut CreateFunction) -> Result<(), ParserError> {
    let mut is_out = false;
    let mut is_in = true;
    if take_words(parser, &["inout"]) {
        is_out = true;
    } else if take_words(parser, &["out"]) {
        (is_out, is_in) = (true, false);
    } else {
        let _ = take_words(parser, &["variadic"]) || (!is_type_at(parser, 1) && take_words(parser, &["in"]));
    }
    let named = !is_type_at(parser, 1);
    let name = match named {
        true => Some(fold(&parser.parse_identifier()?)),
        false => None,
    };
    let sql_type = type_name(parser)?;
    let default = if parser.parse_keyword(Keyword::DEFAULT) || parser.consume_token(&Token::Eq) {
        Some(parser.parse_expr()?.to_string())
    } else {
        None
    };
    if is_out {
        let column = name
            .clone()
            .unwrap_or_else(|| format!("column{}", function.out.len() + 1));
        function.out.push((column, sql_type.clone()));
    }
    if is_in {
        function.arguments.push(FunctionArgument {
            name,
            sql_type,
            default,
        });
    }
    Ok(())
}

/// Whether the token before `at` can only be a type, because of what stands at `at`.
fn is_type_at(parser: &Parser<'_>, at: usize) -> bool {
    let two_words = [
        ("double", "precision"),
        ("character", "varying"),
        ("timestamp", "with"),
        ("timestamp", "without"),
        ("time", "with"),
        ("time", "without"),
        ("bit", "varying"),
    ];
    if two_words
        .iter()
        .any(|(first, second)| is_word_at(parser, at - 1, first) && is_word_at(parser, at, second))
    {
        return true;
    }
    is_word_at(parser, at, "default")
        || matches!(
            parser.peek_nth_token(at).token,
            Token::Comma | Token::RParen | Token::LParen | Token::LBracket | Token::Eq | Token::Period | Token::EOF
        )
}

/// One of the clauses after the result's type; false where there is none.
fn option(parser: &mut Parser<'_>, function: &mut CreateFunction) -> Result<bool, ParserError> {
    if take_words(parser, &["language"]) {
        let next = parser.next_token();
        function.language = Some(match next.token {
            Token::Word(word) if word.quote_style.is_some() => word.value,
            other => other.to_string().trim_matches('\'').to_lowercase(),
        });
    } else if take_words(parser, &["immutable"]) {
        function.volatility = 'i';
    } else if take_words(parser, &["stable"]) {
        function.volatility = 's';
    } else if take_words(parser, &["volatile"]) {
        function.volatility = 'v';
    } else if take_words(parser, &["strict"]) || take_words(parser, &["returns", "null", "on", "null", "input"]) {
        function.strict = true;
    } else if take_words(parser, &["called", "on", "null", "input"])
        || take_words(parser, &["not", "leakproof"])
        || take_words(parser, &["leakproof"])
        || take_words(parser, &["window"])
        || take_words(parser, &["external"])
    {
    } else if take_words(parser, &["security"])
        || take_words(parser, &["parallel"])
        || take_words(parser, &["cost"])
        || take_words(parser, &["rows"])
        || take_words(parser, &["support"])
    {
        parser.next_token();
    } else if take_words(parser, &["set"]) {
        parser.parse_object_name(false)?;
        let _ = parser.consume_token(&Token::Eq) || parser.parse_keyword(Keyword::TO);
        parser.parse_comma_separated(|parser| parser.parse_expr())?;
    } else if take_words(parser, &["as"]) {
        function.body = Some(text(parser)?);
        // The symbol in a library.
        if parser.consume_token(&Token::Comma) {
            text(parser)?;
        }
    } else if take_words(parser, &["return"]) {
        function.body = Some(format!("SELECT {}", parser.parse_expr()?));
        function.language.get_or_insert_with(|| "sql".into());
    } else if take_words(parser, &["begin", "atomic"]) {
        let mut statements = Vec::new();
        while !take_words(parser, &["end"]) {
            if parser.consume_token(&Token::SemiColon) {
                continue;
            }
            statements.push(parser.parse_statement()?.to_string());
        }
        function.body = Some(statements.join("; "));
        function.language.get_or_insert_with(|| "sql".into());
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// From `DO` on: the block, and its language before or behind it.
pub(super) fn anonymous(parser: &mut Parser<'_>) -> Result<Definition, ParserError> {
    let (mut language, mut body) = (None, None);
    loop {
        if language.is_none() && take_words(parser, &["language"]) {
            language = Some(match parser.peek_token().token {
                Token::Word(_) => fold(&parser.parse_identifier()?),
                _ => text(parser)?,
            });
        } else if body.is_none() && !matches!(parser.peek_token().token, Token::EOF | Token::SemiColon) {
            body = Some(text(parser)?);
        } else {
            break;
        }
    }
    match body {
        Some(body) => Ok(Definition::Do {
            language: language.unwrap_or_else(|| "plpgsql".into()),
            body,
        }),
        None => parser.expected("a string", parser.peek_token()),
    }
}

fn text(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    let next = parser.peek_token();
    match parser.parse_expr()? {
        Expr::Value(value) => match value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Ok(text),
            Value::DollarQuotedString(text) => Ok(text.value),
            _ => parser.expected("a string", next),
        },
        _ => parser.expected("a string", next),
    }
}

/// From `DROP {FUNCTION | PROCEDURE | ROUTINE}` on: names, each with the types of its arguments where they are given.
pub(super) fn drop(parser: &mut Parser<'_>) -> Result<Definition, ParserError> {
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let names = parser.parse_comma_separated(|parser| {
        let name = parser.parse_object_name(false)?;
        let mut arguments = None;
        if parser.consume_token(&Token::LParen) {
            let mut of = CreateFunction {
                or_replace: false,
                is_procedure: false,
                name: name.clone(),
                arguments: Vec::new(),
                out: Vec::new(),
                returns: None,
                language: None,
                body: None,
                volatility: 'v',
                strict: false,
            };
            if !parser.consume_token(&Token::RParen) {
                loop {
                    argument(parser, &mut of)?;
                    if !parser.consume_token(&Token::Comma) {
                        break;
                    }
                }
                parser.expect_token(&Token::RParen)?;
            }
            arguments = Some(of.arguments.into_iter().map(|own| own.sql_type).collect());
        }
        Ok((name, arguments))
    })?;
    let _ = parser.parse_one_of_keywords(&[Keyword::CASCADE, Keyword::RESTRICT]);
    Ok(Definition::DropFunction { if_exists, names })
}
