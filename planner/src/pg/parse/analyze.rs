//! The grammar of ANALYZE, and of VACUUM ANALYZE.

use crate::pg::names::fold;
use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

#[derive(Clone, Debug)]
pub(crate) struct Analyze {
    /// The command tag.
    pub tag: &'static str,
    pub verbose: bool,
    /// Tables with the listed columns, none listed: all. No table: every table.
    pub targets: Vec<(ObjectName, Vec<String>)>,
}

/// Parses the statement from its first word.
pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Analyze, ParserError> {
    let tag = if parser.parse_keyword(Keyword::VACUUM) {
        "VACUUM"
    } else {
        "ANALYZE"
    };
    parser.expect_keyword_is(Keyword::ANALYZE)?;
    let mut verbose = parser.parse_keyword(Keyword::VERBOSE);
    if parser.consume_token(&Token::LParen) {
        for (name, on) in parser.parse_comma_separated(option)? {
            match name.as_str() {
                "verbose" => verbose = on,
                "skip_locked" | "buffer_usage_limit" => {}
                other => {
                    let message = format!("unrecognized ANALYZE option \"{other}\"");
                    return Err(ParserError::ParserError(message));
                }
            }
        }
        parser.expect_token(&Token::RParen)?;
    }
    let at_end = matches!(parser.peek_token().token, Token::EOF | Token::SemiColon);
    let targets = if at_end {
        Vec::new()
    } else {
        parser.parse_comma_separated(target)?
    };
    Ok(Analyze { tag, verbose, targets })
}

/// A name with its truth value, true where none is given.
fn option(parser: &mut Parser<'_>) -> Result<(String, bool), ParserError> {
    let name = fold(&parser.parse_identifier()?);
    if matches!(parser.peek_token().token, Token::Comma | Token::RParen) {
        return Ok((name, true));
    }
    let value = parser.next_token();
    match value.token.to_string().trim_matches('\'').to_lowercase().as_str() {
        "true" | "on" | "1" => Ok((name, true)),
        "false" | "off" | "0" => Ok((name, false)),
        _ => Err(ParserError::ParserError(format!("{name} requires a Boolean value"))),
    }
}

fn target(parser: &mut Parser<'_>) -> Result<(ObjectName, Vec<String>), ParserError> {
    let name = parser.parse_object_name(false)?;
    let mut columns = Vec::new();
    if parser.consume_token(&Token::LParen) {
        let names = parser.parse_comma_separated(|parser| parser.parse_identifier())?;
        columns = names.iter().map(fold).collect();
        parser.expect_token(&Token::RParen)?;
    }
    Ok((name, columns))
}
