//! The clauses about partitions: of CREATE TABLE, taken out of its tokens before the parser reads it; and of ALTER TABLE,
//! `ATTACH PARTITION name FOR VALUES ...` and `DETACH PARTITION name`.

use super::{Action, take_words};
use crate::pg::dialect::TenonDialect;
use crate::pg::rewrite::call;
use datafusion::sql::sqlparser::ast::{CreateTable, Expr, ForValues, ObjectName, PartitionBoundValue};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// The type that a column of PARTITION OF has, where none is written.
const OF_PARENT: &str = "\u{1}of parent";

/// What CREATE TABLE says of partitions.
#[derive(Default)]
pub(crate) struct Clauses {
    of: Option<(ObjectName, ForValues)>,
    by: Option<Expr>,
}

impl Clauses {
    pub(crate) fn note(self, create: &mut CreateTable) {
        if let Some((parent, values)) = self.of {
            create.partition_of = Some(parent);
            create.for_values = Some(values);
        }
        create.partition_by = self.by.map(Box::new).or(create.partition_by.take());
    }
}

/// Takes the clauses out of the tokens of CREATE TABLE.
pub(crate) fn take(tokens: &mut Vec<TokenWithSpan>) -> Result<Clauses, ParserError> {
    let mut clauses = Clauses::default();
    if let Some(start) = outside(tokens, 0, &["partition", "of"]) {
        let end = outside(tokens, start, &["default"]).into_iter();
        let end = end.chain(outside(tokens, start, &["for", "values"])).min();
        let Some(values_at) = end else {
            return Err(ParserError::ParserError(
                "Expected: a partition bound, found: EOF".into(),
            ));
        };
        let mut parser = over(&tokens[values_at..]);
        let values = values(&mut parser)?;
        let until = cut(&tokens[values_at..], left(&parser));
        tokens.drain(values_at..values_at + until);
        let mut parser = over(&tokens[start..values_at]);
        let _ = take_words(&mut parser, &["partition", "of"]);
        let parent = parser.parse_object_name(false)?;
        let until = cut(&tokens[start..values_at], left(&parser));
        let mut list: Vec<TokenWithSpan> = tokens.drain(start..values_at).skip(until).collect();
        mark_columns(&mut list);
        tokens.splice(start..start, list);
        clauses.of = Some((parent, values));
    }
    if let Some(start) = outside(tokens, 0, &["partition", "by"]) {
        let mut parser = over(&tokens[start..]);
        let _ = take_words(&mut parser, &["partition", "by"]);
        let strategy = parser.parse_identifier()?;
        parser.expect_token(&Token::LParen)?;
        let keys = parser.parse_comma_separated(key)?;
        parser.expect_token(&Token::RParen)?;
        let until = cut(&tokens[start..], left(&parser));
        tokens.drain(start..start + until);
        clauses.by = Some(call(&strategy.value.to_lowercase(), keys));
    }
    Ok(clauses)
}

/// `column [COLLATE name] [operator class]`
fn key(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    let expr = parser.parse_expr()?;
    if let Token::Word(_) = parser.peek_token().token {
        parser.parse_object_name(false)?;
    }
    Ok(expr)
}

fn is_space(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

fn over(tokens: &[TokenWithSpan]) -> Parser<'static> {
    Parser::new(&TenonDialect).with_tokens_with_locations(tokens.to_vec())
}

/// How many tokens that are no space a parser has left.
fn left(parser: &Parser<'_>) -> usize {
    let mut at = 0;
    while parser.peek_nth_token(at).token != Token::EOF {
        at += 1;
    }
    at
}

/// How many of the tokens come before the last ones that are no space.
fn cut(tokens: &[TokenWithSpan], left: usize) -> usize {
    let solid = |token: &TokenWithSpan| !is_space(token) && token.token != Token::EOF;
    let all: Vec<usize> = (0..tokens.len()).filter(|at| solid(&tokens[*at])).collect();
    all.get(all.len() - left.min(all.len()))
        .copied()
        .unwrap_or(tokens.len())
}

/// Where these words stand next to each other outside of parentheses.
fn outside(tokens: &[TokenWithSpan], from: usize, words: &[&str]) -> Option<usize> {
    let solid: Vec<usize> = (from..tokens.len()).filter(|at| !is_space(&tokens[*at])).collect();
    let says = |at: usize, word: &str| matches!(&tokens[at].token, Token::Word(own) if own.quote_style.is_none() && own.value.eq_ignore_ascii_case(word));
    let mut depth = 0;
    for (nth, at) in solid.iter().enumerate() {
        match tokens[*at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ if depth == 0 => {
                let mut pairs = words.iter().enumerate();
                if pairs.all(|(more, word)| solid.get(nth + more).is_some_and(|at| says(*at, word))) {
                    return Some(*at);
                }
            }
            _ => {}
        }
    }
    None
}

/// The columns of PARTITION OF have no types: each gets a name for its parent's.
fn mark_columns(tokens: &mut Vec<TokenWithSpan>) {
    let constraints = ["constraint", "check", "primary", "unique", "exclude", "foreign"];
    let (mut depth, mut starts) = (0, false);
    let mut at = 0;
    while at < tokens.len() {
        if is_space(&tokens[at]) {
            at += 1;
            continue;
        }
        let span = tokens[at].span;
        match &tokens[at].token {
            Token::LParen => {
                depth += 1;
                starts = depth == 1;
            }
            Token::RParen => depth -= 1,
            Token::Comma => starts = depth == 1,
            Token::Word(word) if starts => {
                starts = false;
                let is_constraint =
                    word.quote_style.is_none() && constraints.iter().any(|own| word.value.eq_ignore_ascii_case(own));
                if !is_constraint {
                    if outside(tokens, at + 1, &["with", "options"])
                        .is_some_and(|with| tokens[at + 1..with].iter().all(is_space))
                    {
                        let mut words = 2;
                        tokens.retain({
                            let mut nth = 0;
                            move |token| {
                                nth += 1;
                                let goes = nth > at + 1 && words > 0 && !is_space(token);
                                words -= usize::from(goes);
                                !goes
                            }
                        });
                    }
                    let token = Token::Word(Word {
                        value: OF_PARENT.into(),
                        quote_style: Some('"'),
                        keyword: Keyword::NoKeyword,
                    });
                    tokens.insert(at + 1, TokenWithSpan { token, span });
                }
            }
            _ => starts = false,
        }
        at += 1;
    }
}

#[derive(Clone, Debug)]
pub(crate) enum PartitionChange {
    Attach(ObjectName, ForValues),
    Detach(ObjectName),
    /// Of an index to that of what its table is part of.
    AttachIndex(ObjectName),
}

/// Parses from the first word; None where it is another action, with nothing taken.
pub(super) fn action(parser: &mut Parser<'_>) -> Result<Option<Action>, ParserError> {
    let change = if take_words(parser, &["attach", "partition"]) {
        let name = parser.parse_object_name(false)?;
        match parser.peek_token().token {
            Token::EOF | Token::SemiColon => PartitionChange::AttachIndex(name),
            _ => PartitionChange::Attach(name, values(parser)?),
        }
    } else if take_words(parser, &["detach", "partition"]) {
        let name = parser.parse_object_name(false)?;
        let _ = take_words(parser, &["concurrently"]) || take_words(parser, &["finalize"]);
        PartitionChange::Detach(name)
    } else {
        return Ok(None);
    };
    Ok(Some(Action::Partition(change)))
}

/// `DEFAULT` or `FOR VALUES ...`
fn values(parser: &mut Parser<'_>) -> Result<ForValues, ParserError> {
    if take_words(parser, &["default"]) {
        return Ok(ForValues::Default);
    }
    if take_words(parser, &["for", "values", "in"]) {
        parser.expect_token(&Token::LParen)?;
        let values = parser.parse_comma_separated(Parser::parse_expr)?;
        parser.expect_token(&Token::RParen)?;
        return Ok(ForValues::In(values));
    }
    if take_words(parser, &["for", "values", "from"]) {
        let from = end(parser)?;
        if !take_words(parser, &["to"]) {
            let next = parser.peek_token();
            return parser.expected("TO", next);
        }
        return Ok(ForValues::From { from, to: end(parser)? });
    }
    if take_words(parser, &["for", "values", "with"]) {
        parser.expect_token(&Token::LParen)?;
        let (mut modulus, mut remainder) = (None, None);
        loop {
            if take_words(parser, &["modulus"]) {
                modulus = Some(parser.parse_literal_uint()?);
            } else if take_words(parser, &["remainder"]) {
                remainder = Some(parser.parse_literal_uint()?);
            }
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
        parser.expect_token(&Token::RParen)?;
        if let (Some(modulus), Some(remainder)) = (modulus, remainder) {
            return Ok(ForValues::With { modulus, remainder });
        }
    }
    let next = parser.peek_token();
    parser.expected("a partition bound", next)
}

fn end(parser: &mut Parser<'_>) -> Result<Vec<PartitionBoundValue>, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let values = parser.parse_comma_separated(|parser| {
        Ok(if take_words(parser, &["minvalue"]) {
            PartitionBoundValue::MinValue
        } else if take_words(parser, &["maxvalue"]) {
            PartitionBoundValue::MaxValue
        } else {
            PartitionBoundValue::Expr(parser.parse_expr()?)
        })
    })?;
    parser.expect_token(&Token::RParen)?;
    Ok(values)
}
