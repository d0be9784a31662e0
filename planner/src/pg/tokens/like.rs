//! LIKE and ILIKE before ANY and ALL of a subquery, by the operators that they stand for: the parser knows ANY there only of arrays,
//! and ALL not at all.

use super::{is, is_solid};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

pub(super) fn as_operators(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().any(|token| is(token, &["LIKE", "ILIKE"])) {
        return;
    }
    let solid: Vec<usize> = (0..tokens.len()).filter(|at| is_solid(&tokens[*at])).collect();
    // From the last: those before stay where they are.
    for place in (0..solid.len()).rev() {
        let at = solid[place];
        let next = |more: usize| solid.get(place + more).map(|at| &tokens[*at]);
        let subquery = is(&tokens[at], &["LIKE", "ILIKE"])
            && next(1).is_some_and(|token| is(token, &["ANY", "SOME", "ALL"]))
            && next(2).is_some_and(|token| token.token == Token::LParen)
            && next(3).is_some_and(|token| is(token, &["SELECT", "VALUES", "WITH"]));
        if !subquery {
            continue;
        }
        let folds = is(&tokens[at], &["ILIKE"]);
        let before = place.checked_sub(1).map(|before| solid[before]);
        let negated = before.filter(|before| is(&tokens[*before], &["NOT"]));
        tokens[at].token = match (negated.is_some(), folds) {
            (false, false) => Token::DoubleTilde,
            (false, true) => Token::DoubleTildeAsterisk,
            (true, false) => Token::ExclamationMarkDoubleTilde,
            (true, true) => Token::ExclamationMarkDoubleTildeAsterisk,
        };
        if let Some(not) = negated {
            tokens.remove(not);
        }
    }
}
