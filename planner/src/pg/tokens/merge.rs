//! What the parser's MERGE lacks: DO NOTHING, INSERT DEFAULT VALUES and OVERRIDING become columns that no table has.

use super::{is, is_solid};
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Tokenizer};

/// An action that does nothing sets this column.
pub(crate) const NOTHING: &str = "\u{1}nothing";
/// An INSERT of nothing but defaults names this column.
pub(crate) const DEFAULTS: &str = "\u{1}defaults";
/// OVERRIDING SYSTEM VALUE, and USER VALUE.
pub(crate) const OVERRIDING: [(&str, &str); 2] =
    [("system", "\u{1}overriding system"), ("user", "\u{1}overriding user")];

pub(super) fn mark(tokens: &mut Vec<TokenWithSpan>) {
    let Some(first) = tokens.iter().find(|token| is_solid(token)) else {
        return;
    };
    let merges = is(first, &["merge"]) || is(first, &["with", "explain", "prepare"]);
    if !merges || !tokens.iter().any(|token| is(token, &["merge"])) {
        return;
    }
    let solid: Vec<usize> = (0..tokens.len()).filter(|at| is_solid(&tokens[*at])).collect();
    let says = |place: usize, words: &[&str]| {
        let own = words.iter().enumerate();
        own.fold(true, |all, (at, word)| {
            all && solid.get(place + at).is_some_and(|at| is(&tokens[*at], &[word]))
        })
    };
    let mut matched = true;
    let mut edits: Vec<(std::ops::RangeInclusive<usize>, String)> = Vec::new();
    for place in 0..solid.len() {
        let span = |words: usize| solid[place]..=solid[place + words - 1];
        if says(place, &["when", "matched"]) {
            matched = true;
        } else if says(place, &["when", "not", "matched"]) {
            matched = false;
        } else if place > 0 && says(place - 1, &["then", "do", "nothing"]) {
            let text = match matched {
                true => format!("UPDATE SET \"{NOTHING}\" = NULL"),
                false => format!("INSERT (\"{NOTHING}\") VALUES (NULL)"),
            };
            edits.push((span(2), text));
        } else if says(place, &["insert", "default", "values"]) {
            edits.push((span(3), format!("INSERT (\"{DEFAULTS}\") VALUES (NULL)")));
        } else if place > 0 && says(place, &["overriding"]) && says(place + 2, &["value"]) {
            for (word, mark) in OVERRIDING {
                if !says(place + 1, &[word]) {
                    continue;
                }
                // Behind the list of columns, or where there is none.
                match tokens[solid[place - 1]].token {
                    Token::RParen => {
                        edits.push((solid[place - 1]..=solid[place + 2], format!(", \"{mark}\")")));
                    }
                    _ => edits.push((span(3), format!("(\"{mark}\")"))),
                }
            }
        }
    }
    for (range, text) in edits.into_iter().rev() {
        let spelt = spelt(&text, tokens[*range.start()].span);
        tokens.splice(range, spelt);
    }
}

fn spelt(text: &str, span: Span) -> Vec<TokenWithSpan> {
    let dialect = datafusion::sql::sqlparser::dialect::PostgreSqlDialect {};
    let tokens = Tokenizer::new(&dialect, text).tokenize().unwrap_or_default();
    tokens.into_iter().map(|token| TokenWithSpan { token, span }).collect()
}
