//! `CREATE TABLE ... (LIKE table INCLUDING ...)`, anywhere in the list of columns. The parser knows it only alone: before it
//! reads the statement, each becomes a column of a type that nobody can write, which says what it stands for.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// The name of that type.
pub(crate) const MARK: &str = "\u{1}like";

/// Puts such columns into the tokens of CREATE TABLE.
pub(super) fn mark(tokens: &mut Vec<TokenWithSpan>) {
    let is_word = |token: &TokenWithSpan, word: &str| matches!(&token.token, Token::Word(own) if own.quote_style.is_none() && own.value.eq_ignore_ascii_case(word));
    let is_space = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let Some(open) = tokens.iter().position(|token| token.token == Token::LParen) else {
        return;
    };
    let (mut at, mut depth) = (open + 1, 1);
    let mut starts_element = true;
    while at < tokens.len() && depth > 0 {
        if is_space(&tokens[at]) {
            at += 1;
            continue;
        }
        if depth == 1 && starts_element && is_word(&tokens[at], "like") {
            let end = (at..tokens.len()).find(|end| matches!(tokens[*end].token, Token::Comma | Token::RParen));
            let Some(end) = end else { return };
            let words: Vec<String> = tokens[at + 1..end]
                .iter()
                .filter(|token| !is_space(token))
                .map(|token| token.token.to_string())
                .collect();
            let options_at = words
                .iter()
                .position(|word| ["including", "excluding"].contains(&word.to_lowercase().as_str()));
            let options_at = options_at.unwrap_or(words.len());
            let span = tokens[at].span;
            let token = |token: Token| TokenWithSpan { token, span };
            let quoted = |value: String| {
                token(Token::Word(Word {
                    value,
                    quote_style: Some('"'),
                    keyword: Keyword::NoKeyword,
                }))
            };
            let mut marked = vec![quoted(format!("{MARK}{at}")), quoted(MARK.into()), token(Token::LParen)];
            marked.push(token(Token::SingleQuotedString(words[..options_at].concat())));
            for word in &words[options_at..] {
                marked.push(token(Token::Comma));
                marked.push(token(Token::SingleQuotedString(word.to_lowercase())));
            }
            marked.push(token(Token::RParen));
            let after = at + marked.len();
            tokens.splice(at..end, marked);
            at = after;
            continue;
        }
        match tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        starts_element = depth == 1 && tokens[at].token == Token::Comma;
        at += 1;
    }
}
