//! Operators before ANY and ALL that the parser knows nowhere but between two values: `x && ANY (y)` is `x ~ ANY (mark((y)))`, whose
//! name says which operator it was. `~` binds as these do.

use super::sets::closing;
use super::{is, is_solid, name};
use crate::pg::rewrite::QUANTIFIED;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

pub(super) fn mark(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().any(|token| is(token, &["ANY", "SOME", "ALL"])) {
        return;
    }
    let solid: Vec<usize> = (0..tokens.len()).filter(|at| is_solid(&tokens[*at])).collect();
    // From the last: those before stay where they are.
    for place in (0..solid.len().saturating_sub(2)).rev() {
        let (at, word, opens) = (solid[place], solid[place + 1], solid[place + 2]);
        if !is(&tokens[word], &["ANY", "SOME", "ALL"])
            || tokens[opens].token != Token::LParen
            || !is_unknown_there(&tokens[at].token)
        {
            continue;
        }
        let Some(closes) = closing(tokens, opens) else { continue };
        let span = tokens[at].span;
        let operator = std::mem::replace(&mut tokens[at].token, Token::Tilde);
        let made = |token| TokenWithSpan { token, span };
        // A subquery as an argument has parentheses of its own.
        tokens.splice(closes..closes, [made(Token::RParen), made(Token::RParen)]);
        let called = [
            name(format!("{QUANTIFIED}{operator}"), span),
            made(Token::LParen),
            made(Token::LParen),
        ];
        tokens.splice(opens + 1..opens + 1, called);
    }
}

/// Operators other than those that the parser takes before ANY and ALL.
fn is_unknown_there(token: &Token) -> bool {
    matches!(
        token,
        Token::CustomBinaryOperator(_)
            | Token::Overlap
            | Token::AtArrow
            | Token::ArrowAt
            | Token::ShiftLeft
            | Token::ShiftRight
            | Token::CaretAt
            | Token::Question
            | Token::QuestionPipe
            | Token::QuestionAnd
            | Token::AtAt
            | Token::AtQuestion
            | Token::AmpersandLeftAngleBracket
            | Token::AmpersandRightAngleBracket
    )
}
