//! Words that stand for others.

use super::is_solid;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

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
