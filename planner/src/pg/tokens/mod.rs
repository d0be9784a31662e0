//! What the parser does not know, repaired among its tokens. The rewrites of the parsed tree find the marks again: names
//! that begin with U+0001.

mod arrays;
pub(crate) mod clauses;
pub(crate) mod frames;
pub(crate) mod joins;
mod like;
mod locks;
pub(crate) mod merge;
pub(crate) mod only;
mod parenthesized;
mod quantified;
pub(crate) mod sets;
mod temporal;
pub(crate) mod words;

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Word};

/// Repairs the tokens of a statement.
pub(crate) fn repair(tokens: &mut Vec<TokenWithSpan>) {
    clauses::mark(tokens);
    parenthesized::explained(tokens);
    parenthesized::fetched(tokens);
    arrays::respell(tokens);
    frames::mark(tokens);
    joins::parenthesize(tokens);
    joins::aliases(tokens);
    like::as_operators(tokens);
    merge::mark(tokens);
    only::mark(tokens);
    quantified::mark(tokens);
    sets::mark(tokens);
    temporal::mark(tokens);
    words::respell(tokens);
    words::session_authorization(tokens);
    words::row_locks(tokens);
    locks::apart(tokens);
    locks::behind_limits(tokens);
    words::any_of_values(tokens);
    words::cast_rows(tokens);
    words::select_nothing(tokens);
}

fn is(token: &TokenWithSpan, words: &[&str]) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none()
        && words.iter().any(|known| word.value.eq_ignore_ascii_case(known)))
}

fn is_solid(token: &TokenWithSpan) -> bool {
    !matches!(token.token, Token::Whitespace(_))
}

/// An identifier as a token.
fn name(value: impl Into<String>, span: Span) -> TokenWithSpan {
    let word = Word {
        value: value.into(),
        quote_style: Some('"'),
        keyword: Keyword::NoKeyword,
    };
    TokenWithSpan {
        token: Token::Word(word),
        span,
    }
}
