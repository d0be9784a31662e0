//! The grammar of FETCH and MOVE.

use crate::pg::names::fold;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    pub cursor: String,
    pub direction: Direction,
    /// MOVE: goes there and gives no rows.
    pub is_move: bool,
}

/// Where to. Counts may be negative; None is ALL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward(Option<i64>),
    Backward(Option<i64>),
    Absolute(i64),
    Relative(i64),
}

/// Parses the statement from its first word.
pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Fetch, ParserError> {
    let is_move = parser.next_token().token.to_string().eq_ignore_ascii_case("move");
    let direction = direction(parser)?;
    let _ = parser.parse_one_of_keywords(&[Keyword::FROM, Keyword::IN]);
    let cursor = fold(&parser.parse_identifier()?);
    Ok(Fetch {
        cursor,
        direction,
        is_move,
    })
}

fn direction(parser: &mut Parser<'_>) -> Result<Direction, ParserError> {
    // Without FROM or IN, a word may be the cursor's name.
    if matches!(parser.peek_nth_token(1).token, Token::EOF) {
        return Ok(Direction::Forward(Some(1)));
    }
    Ok(match word(parser).as_deref() {
        Some("next") => Direction::Forward(Some(1)),
        Some("prior") => Direction::Backward(Some(1)),
        Some("first") => Direction::Absolute(1),
        Some("last") => Direction::Absolute(-1),
        Some("absolute") => Direction::Absolute(number(parser)?),
        Some("relative") => Direction::Relative(number(parser)?),
        Some("forward") => Direction::Forward(count(parser)?),
        Some("backward") => Direction::Backward(count(parser)?),
        Some("all") => Direction::Forward(None),
        Some(_) => {
            parser.prev_token();
            Direction::Forward(match is_number(parser) {
                true => Some(number(parser)?),
                false => Some(1),
            })
        }
        None => Direction::Forward(Some(number(parser)?)),
    })
}

/// The next word, taken; None where what follows is no word.
fn word(parser: &mut Parser<'_>) -> Option<String> {
    let token = parser.peek_token().token;
    let Token::Word(word) = token else { return None };
    let text = match word.quote_style {
        Some(_) => String::new(),
        None => word.value.to_lowercase(),
    };
    parser.next_token();
    Some(text)
}

fn is_number(parser: &Parser<'_>) -> bool {
    matches!(
        parser.peek_token().token,
        Token::Number(..) | Token::Minus | Token::Plus
    )
}

fn count(parser: &mut Parser<'_>) -> Result<Option<i64>, ParserError> {
    if parser.parse_keyword(Keyword::ALL) {
        return Ok(None);
    }
    if is_number(parser) {
        return number(parser).map(Some);
    }
    Ok(Some(1))
}

fn number(parser: &mut Parser<'_>) -> Result<i64, ParserError> {
    let negative = parser.consume_token(&Token::Minus);
    let _ = !negative && parser.consume_token(&Token::Plus);
    let next = parser.next_token();
    let Token::Number(digits, _) = &next.token else {
        return parser.expected("a count", next);
    };
    match digits.parse::<i64>() {
        Ok(number) => Ok(if negative { -number } else { number }),
        Err(_) => parser.expected("a count", next),
    }
}
