//! Words that stand for others.

use super::{is, is_solid, name};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// `SET [LOCAL] SESSION AUTHORIZATION x` and `RESET SESSION AUTHORIZATION` name a setting.
pub(super) fn session_authorization(tokens: &mut Vec<TokenWithSpan>) {
    let solid: Vec<usize> = (0..tokens.len()).filter(|at| is_solid(&tokens[*at])).take(4).collect();
    let says = |place: usize, words: &[&str]| solid.get(place).is_some_and(|at| is(&tokens[*at], words));
    let sets = says(0, &["set"]);
    if !sets && !says(0, &["reset"]) {
        return;
    }
    let scoped = usize::from(sets && says(1, &["local", "session"]) && says(2, &["session"]));
    if says(1 + scoped, &["session"]) && says(2 + scoped, &["authorization"]) {
        let (first, last) = (solid[1 + scoped], solid[2 + scoped]);
        let span = tokens[first].span;
        let mut setting = vec![name("session_authorization", span)];
        if sets {
            setting.push(TokenWithSpan { token: Token::Eq, span });
        }
        tokens.splice(first..=last, setting);
    }
}

/// `ORDER BY x USING <` is ascending, with `>` descending; ABORT is ROLLBACK.
pub(super) fn respell(tokens: &mut Vec<TokenWithSpan>) {
    if let Some(first) = tokens.iter_mut().find(|token| is_solid(token))
        && matches!(&first.token, Token::Word(word) if word.keyword == Keyword::ABORT)
    {
        first.token = Token::make_word("ROLLBACK", None);
    }
    let mut at = 0;
    while at < tokens.len() {
        if matches!(&tokens[at].token, Token::Word(word) if word.keyword == Keyword::USING)
            && let Some(next) = (at + 1..tokens.len()).find(|next| is_solid(&tokens[*next]))
            && let Some(direction) = match tokens[next].token {
                Token::Lt => Some("ASC"),
                Token::Gt => Some("DESC"),
                _ => None,
            }
        {
            tokens[at].token = Token::make_word(direction, None);
            tokens.drain(at + 1..=next);
        }
        at += 1;
    }
}
