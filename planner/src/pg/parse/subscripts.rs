//! Spellings of arrays that the parser does not know: `UPDATE t SET a[2] = x` as `UPDATE t SET a = assign(a, x, 2)`, and
//! `f(VARIADIC a)` as `f(@@ a)`.

use crate::pg::functions::array::{ASSIGN, ASSIGN_SLICE, NO_LOWER, NO_UPPER};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

fn keyword(token: &TokenWithSpan) -> Keyword {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// Puts a prefix operator in VARIADIC's place.
pub(super) fn variadic(tokens: &mut [TokenWithSpan]) {
    let mut opens = false;
    for token in tokens {
        if opens
            && matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("variadic"))
        {
            token.token = Token::AtAt;
        }
        if !matches!(token.token, Token::Whitespace(_)) {
            opens = matches!(token.token, Token::LParen | Token::Comma);
        }
    }
}

/// Rewrites the tokens of an UPDATE's SET.
pub(super) fn assignments(tokens: &mut Vec<TokenWithSpan>) {
    let solid: Vec<usize> = (0..tokens.len())
        .filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_) | Token::EOF))
        .collect();
    if solid
        .first()
        .is_none_or(|first| keyword(&tokens[*first]) != Keyword::UPDATE)
    {
        return;
    }
    let Some(set) = solid.iter().position(|at| keyword(&tokens[*at]) == Keyword::SET) else {
        return;
    };
    let own: Vec<TokenWithSpan> = solid[set + 1..].iter().map(|at| tokens[*at].clone()).collect();
    let Some(rewritten) = rewritten(&own) else { return };
    let last = tokens.pop().filter(|token| token.token == Token::EOF);
    tokens.truncate(solid[set] + 1);
    tokens.extend(rewritten);
    tokens.extend(last);
}

/// The clause anew; None where nothing in it has subscripts.
fn rewritten(own: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let (mut out, mut at, mut found) = (Vec::with_capacity(own.len()), 0, false);
    loop {
        let end = expression_end(own, at);
        let item = &own[at..end];
        match subscripted(item) {
            Some(tokens) => {
                found = true;
                out.extend(tokens);
            }
            None => out.extend_from_slice(item),
        }
        match own.get(end) {
            Some(token) if token.token == Token::Comma => {
                out.push(token.clone());
                at = end + 1;
            }
            _ => {
                out.extend_from_slice(&own[end..]);
                return found.then_some(out);
            }
        }
    }
}

/// Where the assignment that begins at `from` ends.
fn expression_end(own: &[TokenWithSpan], from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in own.iter().enumerate().skip(from) {
        match &token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            Token::Comma if depth == 0 => return at,
            // IS DISTINCT FROM is no end.
            _ if depth == 0 && matches!(keyword(token), Keyword::FROM | Keyword::WHERE | Keyword::RETURNING) => {
                let distinct = at > from && keyword(&own[at - 1]) == Keyword::DISTINCT;
                if !distinct {
                    return at;
                }
            }
            _ => {}
        }
    }
    own.len()
}

/// `a[i] = value` as `a = assign(a, (value), i)`.
fn subscripted(item: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let (name, rest) = item.split_first()?;
    if !matches!(name.token, Token::Word(_)) || rest.first()?.token != Token::LBracket {
        return None;
    }
    let mut subscripts: Vec<Vec<Vec<TokenWithSpan>>> = Vec::new();
    let (mut at, mut sliced) = (0, false);
    while rest.get(at)?.token == Token::LBracket {
        let (mut depth, mut parts) = (1_usize, vec![Vec::new()]);
        at += 1;
        loop {
            let token = rest.get(at)?;
            match &token.token {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 {
                break;
            }
            match (&token.token, depth) {
                (Token::Colon, 1) => {
                    sliced = true;
                    parts.push(Vec::new());
                }
                _ => parts.last_mut()?.push(token.clone()),
            }
        }
        subscripts.push(parts);
    }
    if rest.get(at)?.token != Token::Eq {
        return None;
    }
    let spot = |token: Token| TokenWithSpan { token, span: name.span };
    let word = |value: &str| {
        spot(Token::Word(Word {
            value: value.into(),
            quote_style: Some('"'),
            keyword: Keyword::NoKeyword,
        }))
    };
    let number = |number: i32| {
        let digits = spot(Token::Number(number.unsigned_abs().to_string(), false));
        let sign = (number < 0).then(|| spot(Token::Minus));
        sign.into_iter().chain([digits]).collect::<Vec<_>>()
    };
    let mut out = vec![
        name.clone(),
        rest[at].clone(),
        word(if sliced { ASSIGN_SLICE } else { ASSIGN }),
        spot(Token::LParen),
        name.clone(),
        spot(Token::Comma),
        spot(Token::LParen),
    ];
    out.extend_from_slice(&rest[at + 1..]);
    out.push(spot(Token::RParen));
    for parts in subscripts {
        let bounds = match (sliced, parts.as_slice()) {
            (false, [one]) => vec![one.clone()],
            // Beside a slice, a single subscript is one from 1.
            (true, [one]) => vec![number(1), one.clone()],
            (true, [lower, upper]) => vec![
                if lower.is_empty() {
                    number(NO_LOWER)
                } else {
                    lower.clone()
                },
                if upper.is_empty() {
                    number(NO_UPPER)
                } else {
                    upper.clone()
                },
            ],
            _ => return None,
        };
        for bound in bounds {
            out.push(spot(Token::Comma));
            out.extend(bound);
        }
    }
    out.push(spot(Token::RParen));
    Some(out)
}

/// `x OPERATOR(pg_catalog.=) ANY (...)` as `x = ANY (...)`: the parser knows such operators between two values alone.
pub(super) fn named_operators(tokens: &mut Vec<TokenWithSpan>) {
    let is_word = |token: &Token, wanted: &[&str]| matches!(token, Token::Word(word) if wanted.iter().any(|own| word.value.eq_ignore_ascii_case(own)));
    let solid: Vec<usize> = (0..tokens.len())
        .filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_)))
        .collect();
    let mut gone = Vec::new();
    for at in solid.windows(7) {
        let token = |number: usize| &tokens[at[number]].token;
        let named = is_word(token(0), &["operator"])
            && *token(1) == Token::LParen
            && is_word(token(2), &["pg_catalog"])
            && *token(3) == Token::Period
            && *token(5) == Token::RParen;
        if named && is_word(token(6), &["any", "some", "all"]) {
            gone.extend([at[0], at[1], at[2], at[3], at[5]]);
        }
    }
    for at in gone.into_iter().rev() {
        tokens.remove(at);
    }
}
