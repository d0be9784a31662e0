//! `GENERATED ... AS IDENTITY (options)`: the parser takes a sequence's options in one order only, PostgreSQL in any. They are
//! put into the parser's order before it reads them. It does not know SEQUENCE NAME: the name goes where a collation stands.

use datafusion::sql::sqlparser::ast::{ObjectName, ObjectNamePart};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// What a collation's name begins with that is a sequence's.
const SEQUENCE: &str = "\u{1}sequence";

/// The name of the sequence that an identity column's collation is.
pub(crate) fn sequence_named(collation: &ObjectName) -> Option<ObjectName> {
    match collation.0.as_slice() {
        [ObjectNamePart::Identifier(first), name @ ..] if first.value == SEQUENCE => Some(ObjectName(name.to_vec())),
        _ => None,
    }
}

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

fn is_solid(token: &TokenWithSpan) -> bool {
    !matches!(token.token, Token::Whitespace(_))
}

pub(crate) fn order_options(tokens: &mut Vec<TokenWithSpan>) {
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
        let named = match is_added(&tokens[..open]) {
            true => Vec::new(),
            false => take_name(tokens, open, close),
        };
        let close = close - named.len();
        order(&mut tokens[open + 1..close]);
        let Some(span) = named.first().map(|token| token.span) else {
            continue;
        };
        let words = [
            Token::make_keyword("COLLATE"),
            Token::make_word(SEQUENCE, Some('"')),
            Token::Period,
        ];
        let words = words.into_iter().map(|token| TokenWithSpan { token, span });
        let name = named.into_iter().filter(is_solid).skip(2);
        let marked: Vec<_> = words.chain(name).collect();
        tokens.splice(close + 1..close + 1, marked);
    }
}

/// `ADD GENERATED ...`, of a column that is there: its grammar knows all options.
fn is_added(before: &[TokenWithSpan]) -> bool {
    let mut words = before.iter().rev().filter(|token| is_solid(token)).map(word);
    words.find(|word| word.as_deref() == Some("generated"));
    words.next().flatten().as_deref() == Some("add")
}

/// Takes SEQUENCE NAME and the name out of the options between two parentheses.
fn take_name(tokens: &mut Vec<TokenWithSpan>, open: usize, close: usize) -> Vec<TokenWithSpan> {
    let solid: Vec<usize> = (open + 1..close).filter(|at| is_solid(&tokens[*at])).collect();
    let says = |two: &[usize]| {
        word(&tokens[two[0]]).as_deref() == Some("sequence") && word(&tokens[two[1]]).as_deref() == Some("name")
    };
    let Some(first) = solid.windows(2).position(says) else {
        return Vec::new();
    };
    let mut last = first + 2;
    while solid
        .get(last + 2)
        .is_some_and(|_| tokens[solid[last + 1]].token == Token::Period)
    {
        last += 2;
    }
    match solid.get(last).map(|last| (*last, &tokens[*last].token)) {
        Some((last, Token::Word(_))) => tokens.drain(solid[first]..=last).collect(),
        _ => Vec::new(),
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
