//! CREATE, ALTER and DROP FUNCTION.

use super::{Definition, is_word, is_word_at, take_words};
use crate::pg::names::fold;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Value};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use tenon_storage::{FunctionArgument, FunctionParameter, FunctionResult};

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
    /// The body is no string: what it names is looked up now.
    pub bound: bool,
    /// All as they are declared, OUT arguments and columns of the result among them.
    pub parameters: Vec<FunctionParameter>,
    pub options: FunctionChanges,
    /// The extension that it is made for.
    pub extension: Option<String>,
}

/// What CREATE or ALTER says of a function beside what it computes; None: nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct FunctionChanges {
    pub volatility: Option<char>,
    pub strict: Option<bool>,
    pub security_definer: Option<bool>,
    pub leakproof: Option<bool>,
    pub parallel: Option<String>,
    pub cost: Option<f64>,
    pub rows: Option<f64>,
    /// None: RESET.
    pub settings: Vec<(String, Option<String>)>,
    pub reset_all: bool,
    /// One was said twice.
    pub repeated: bool,
}

impl FunctionChanges {
    fn is_none(&self) -> bool {
        let said = self.volatility.is_some() || self.parallel.is_some() || self.cost.is_some() || self.rows.is_some();
        let flags = [self.strict, self.security_definer, self.leakproof];
        !said && flags.iter().all(Option::is_none) && self.settings.is_empty() && !self.reset_all
    }
}

/// What ALTER FUNCTION does.
#[derive(Clone, Debug)]
pub(crate) enum FunctionChange {
    Rename(String),
    SetSchema(String),
    Options(FunctionChanges),
}

impl CreateFunction {
    fn named(name: ObjectName, or_replace: bool, is_procedure: bool) -> Self {
        Self {
            or_replace,
            is_procedure,
            name,
            arguments: Vec::new(),
            out: Vec::new(),
            returns: None,
            language: None,
            body: None,
            bound: false,
            parameters: Vec::new(),
            options: FunctionChanges::default(),
            extension: None,
        }
    }
}

/// From `CREATE [OR REPLACE] {FUNCTION | PROCEDURE}` on.
pub(super) fn create(parser: &mut Parser<'_>, or_replace: bool, is_procedure: bool) -> Result<Definition, ParserError> {
    let mut function = CreateFunction::named(parser.parse_object_name(false)?, or_replace, is_procedure);
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
        function
            .parameters
            .extend(columns.iter().map(|(name, sql_type)| FunctionParameter {
                mode: 't',
                name: Some(name.clone()),
                sql_type: sql_type.clone(),
            }));
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
    let (mut is_out, mut is_in, mut is_variadic) = (false, true, false);
    if take_words(parser, &["inout"]) {
        is_out = true;
    } else if take_words(parser, &["out"]) {
        (is_out, is_in) = (true, false);
    } else if parser.consume_token(&Token::AtAt) || take_words(parser, &["variadic"]) {
        // The word stands as an operator already.
        is_variadic = true;
    } else if !is_type_at(parser, 1) {
        let _ = take_words(parser, &["in"]);
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
    function.parameters.push(FunctionParameter {
        mode: match (is_in, is_out) {
            (true, true) => 'b',
            (false, _) => 'o',
            (true, false) if is_variadic => 'v',
            (true, false) => 'i',
        },
        name: name.clone(),
        sql_type: sql_type.clone(),
    });
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

/// One of the clauses that CREATE and ALTER both have; false where there is none.
fn common_option(parser: &mut Parser<'_>, options: &mut FunctionChanges) -> Result<bool, ParserError> {
    fn put<T>(place: &mut Option<T>, value: T, repeated: &mut bool) {
        *repeated |= place.replace(value).is_some();
    }
    let repeated = &mut options.repeated;
    let _ = is_word(parser, "external") && is_word_at(parser, 1, "security") && take_words(parser, &["external"]);
    if take_words(parser, &["immutable"]) {
        put(&mut options.volatility, 'i', repeated);
    } else if take_words(parser, &["stable"]) {
        put(&mut options.volatility, 's', repeated);
    } else if take_words(parser, &["volatile"]) {
        put(&mut options.volatility, 'v', repeated);
    } else if take_words(parser, &["strict"]) || take_words(parser, &["returns", "null", "on", "null", "input"]) {
        put(&mut options.strict, true, repeated);
    } else if take_words(parser, &["called", "on", "null", "input"]) {
        put(&mut options.strict, false, repeated);
    } else if take_words(parser, &["not", "leakproof"]) {
        put(&mut options.leakproof, false, repeated);
    } else if take_words(parser, &["leakproof"]) {
        put(&mut options.leakproof, true, repeated);
    } else if take_words(parser, &["security", "definer"]) {
        put(&mut options.security_definer, true, repeated);
    } else if take_words(parser, &["security", "invoker"]) {
        put(&mut options.security_definer, false, repeated);
    } else if take_words(parser, &["parallel"]) {
        put(&mut options.parallel, fold(&parser.parse_identifier()?), repeated);
    } else if take_words(parser, &["cost"]) {
        put(&mut options.cost, number(parser)?, repeated);
    } else if take_words(parser, &["rows"]) {
        put(&mut options.rows, number(parser)?, repeated);
    } else if take_words(parser, &["support"]) {
        parser.parse_object_name(false)?;
    } else if take_words(parser, &["set"]) {
        let name = parser.parse_object_name(false)?.to_string().to_lowercase();
        if !take_words(parser, &["from", "current"]) {
            let _ = parser.consume_token(&Token::Eq) || parser.parse_keyword(Keyword::TO);
            let values = parser.parse_comma_separated(setting)?;
            options.settings.push((name, Some(values.join(", "))));
        }
    } else if take_words(parser, &["reset", "all"]) {
        options.settings.clear();
        options.reset_all = true;
    } else if take_words(parser, &["reset"]) {
        let name = parser.parse_object_name(false)?.to_string().to_lowercase();
        options.settings.push((name, None));
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn number(parser: &mut Parser<'_>) -> Result<f64, ParserError> {
    let next = parser.peek_token();
    let written = parser.parse_expr()?.to_string();
    written.parse().or_else(|_| parser.expected("a number", next))
}

/// A value of SET.
fn setting(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    Ok(match parser.parse_expr()? {
        Expr::Identifier(name) => fold(&name),
        Expr::Value(value) => match value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => text,
            other => other.to_string(),
        },
        other => other.to_string(),
    })
}

/// From `ALTER {FUNCTION | PROCEDURE | ROUTINE} name [(types)]` on; None leaves it to others.
pub(super) fn alter(parser: &mut Parser<'_>) -> Result<Option<FunctionChange>, ParserError> {
    if take_words(parser, &["rename", "to"]) {
        return Ok(Some(FunctionChange::Rename(fold(&parser.parse_identifier()?))));
    }
    if take_words(parser, &["set", "schema"]) {
        return Ok(Some(FunctionChange::SetSchema(fold(&parser.parse_identifier()?))));
    }
    let mut changes = FunctionChanges::default();
    while common_option(parser, &mut changes)? {}
    let _ = take_words(parser, &["restrict"]);
    Ok((!changes.is_none()).then_some(FunctionChange::Options(changes)))
}

/// One of the clauses after the result's type; false where there is none.
fn option(parser: &mut Parser<'_>, function: &mut CreateFunction) -> Result<bool, ParserError> {
    if take_words(parser, &["language"]) {
        let next = parser.next_token();
        function.language = Some(match next.token {
            Token::Word(word) if word.quote_style.is_some() => word.value,
            other => other.to_string().trim_matches('\'').to_lowercase(),
        });
    } else if take_words(parser, &["window"]) || common_option(parser, &mut function.options)? {
    } else if take_words(parser, &["as"]) {
        function.body = Some(text(parser)?);
        // The symbol in a library.
        if parser.consume_token(&Token::Comma) {
            text(parser)?;
        }
    } else if take_words(parser, &["return"]) {
        function.body = Some(format!("SELECT {}", parser.parse_expr()?));
        function.bound = true;
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
        function.bound = true;
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
    let names = parser.parse_comma_separated(signature)?;
    let cascade = parser.parse_one_of_keywords(&[Keyword::CASCADE, Keyword::RESTRICT]) == Some(Keyword::CASCADE);
    Ok(Definition::DropFunction {
        if_exists,
        names,
        cascade,
    })
}

/// A function's name, and the types of its arguments where they are given, in parentheses.
pub(super) fn signature(parser: &mut Parser<'_>) -> Result<(ObjectName, Option<Vec<String>>), ParserError> {
    let name = parser.parse_object_name(false)?;
    if !parser.consume_token(&Token::LParen) {
        return Ok((name, None));
    }
    let mut of = CreateFunction::named(name, false, false);
    if !parser.consume_token(&Token::RParen) {
        loop {
            argument(parser, &mut of)?;
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
        parser.expect_token(&Token::RParen)?;
    }
    let arguments = of.arguments.into_iter().map(|own| own.sql_type).collect();
    Ok((of.name, Some(arguments)))
}
