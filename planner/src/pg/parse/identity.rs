//! `GENERATED ... AS IDENTITY (options)`: the parser takes a sequence's options in one order only, PostgreSQL in any. They are
//! put into the parser's order before it reads them.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

fn word(token: &TokenWithSpan) -> Option<String> {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_lowercase()),
        _ => None,
    }
}

/// The place of an option in the parser's order, by its first words.
fn rank(first: &str, second: Option<&str>) -> Option<usize> {
    match (first, second) {
        ("increment", _) => Some(0),
        ("minvalue", _) | ("no", Some("minvalue")) => Some(1),
        ("maxvalue", _) | ("no", Some("maxvalue")) => Some(2),
        ("start", _) => Some(3),
        ("cache", _) => Some(4),
        ("cycle", _) | ("no", Some("cycle")) => Some(5),
        _ => None,
    }
}

pub(crate) fn order_options(tokens: &mut [TokenWithSpan]) {
    let is_solid = |token: &TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
    let mut at = 0;
    while at < tokens.len() {
        let is_identity = word(&tokens[at]).as_deref() == Some("identity");
        let open = (at + 1..tokens.len()).find(|next| is_solid(&tokens[*next]));
        at += 1;
        let Some(open) = open.filter(|open| is_identity && tokens[*open].token == Token::LParen) else {
            continue;
        };
        let Some(close) = (open..tokens.len()).find(|end| tokens[*end].token == Token::RParen) else {
            return;
        };
        order(&mut tokens[open + 1..close]);
    }
}

fn order(tokens: &mut [TokenWithSpan]) {
    // Each option is its tokens up to the next one's first word.
    let mut options: Vec<(usize, Vec<TokenWithSpan>)> = Vec::new();
    let mut after_no = false;
    for at in 0..tokens.len() {
        let second = tokens[at + 1..].iter().find_map(word);
        let rank = word(&tokens[at]).and_then(|first| rank(&first, second.as_deref()));
        match rank.filter(|_| !after_no) {
            Some(rank) => options.push((rank, vec![tokens[at].clone()])),
            None => match options.last_mut() {
                Some((_, own)) => own.push(tokens[at].clone()),
                None => options.push((0, vec![tokens[at].clone()])),
            },
        }
        match word(&tokens[at]) {
            Some(own) => after_no = own == "no",
            None if matches!(tokens[at].token, Token::Whitespace(_)) => {}
            None => after_no = false,
        }
    }
    options.sort_by_key(|(rank, _)| *rank);
    let ordered = options.into_iter().flat_map(|(_, own)| own);
    for (place, token) in tokens.iter_mut().zip(ordered) {
        *place = token;
    }
}
