//! Spellings of CREATE TABLE that the parser does not know.

use crate::pg::error::{Result, SqlError, state};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// `CREATE TABLE t (a, b) AS ...`: the parser wants types, and gets some that nobody reads.
pub(super) fn type_names_of_a_query(tokens: &mut Vec<TokenWithSpan>) {
    let solid: Vec<usize> = (0..tokens.len())
        .filter(|&at| !matches!(tokens[at].token, Token::Whitespace(_) | Token::EOF))
        .collect();
    let word = |place: usize| match solid.get(place).map(|&at| &tokens[at].token) {
        Some(Token::Word(word)) => Some(word),
        _ => None,
    };
    let keyword = |place: usize| word(place).map(|word| word.keyword);
    if keyword(0) != Some(Keyword::CREATE) {
        return;
    }
    let Some(table) = (1..4).find(|&place| keyword(place) == Some(Keyword::TABLE)) else {
        return;
    };
    let is = |place: usize, wanted: Token| solid.get(place).is_some_and(|&at| tokens[at].token == wanted);
    let mut open = table + 2;
    if keyword(table + 1) == Some(Keyword::IF) && keyword(table + 2) == Some(Keyword::NOT) {
        open += 3;
    }
    while is(open, Token::Period) {
        open += 2;
    }
    if !is(open, Token::LParen) {
        return;
    }
    let mut names = Vec::new();
    let mut place = open + 1;
    loop {
        if word(place).is_none() {
            return;
        }
        names.push(solid[place]);
        match solid.get(place + 1).map(|&at| &tokens[at].token) {
            Some(Token::Comma) => place += 2,
            Some(Token::RParen) => break,
            _ => return,
        }
    }
    if !(place..solid.len()).any(|place| keyword(place) == Some(Keyword::AS)) {
        return;
    }
    for at in names.into_iter().rev() {
        let mut token = tokens[at].clone();
        token.token = Token::make_word("text", None);
        tokens.insert(at + 1, token);
    }
}

/// `CREATE TABLE ... USING heap`: there is that one access method of tables, and the clause goes.
pub(super) fn access_method(tokens: &mut Vec<TokenWithSpan>) -> Result<()> {
    let solid: Vec<usize> = (0..tokens.len())
        .filter(|&at| !matches!(tokens[at].token, Token::Whitespace(_) | Token::EOF))
        .collect();
    let mut depth = 0;
    for pair in solid.windows(2) {
        match &tokens[pair[0]].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::Word(word) if depth == 0 && word.quote_style.is_none() => match word.keyword {
                Keyword::AS => break,
                Keyword::USING => {
                    let Token::Word(method) = &tokens[pair[1]].token else {
                        break;
                    };
                    let method = match method.quote_style {
                        Some(_) => method.value.clone(),
                        None => method.value.to_lowercase(),
                    };
                    if method != "heap" {
                        let message = format!("access method \"{method}\" does not exist");
                        return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
                    }
                    tokens.drain(pair[0]..=pair[1]);
                    break;
                }
                _ => {}
            },
            _ => {}
        }
    }
    Ok(())
}

/// `CREATE TABLE t OF type`
pub(super) fn names_type_of_table(tokens: &[TokenWithSpan]) -> bool {
    let solid = tokens
        .iter()
        .filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let mut names = solid.map_while(|token| match &token.token {
        Token::Word(word) => Some(word.keyword),
        Token::Period => Some(Keyword::NoKeyword),
        _ => None,
    });
    // PARTITION OF is another thing, and taken out before.
    names.any(|word| word == Keyword::TABLE) && names.skip(1).any(|word| word == Keyword::OF)
}
