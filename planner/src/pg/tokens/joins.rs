//! `a JOIN b JOIN c ON x ON y`: a join whose right side is a join gets the parentheses that the parser needs.
//! `a JOIN b USING (x) AS j`: the name goes to the end of the list.

use super::{is, is_solid, name};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// A join that waits for its condition.
struct Waiting {
    /// Where its right side begins.
    from: usize,
    /// Whether that side is a join.
    nested: bool,
}

pub(super) fn parenthesize(tokens: &mut Vec<TokenWithSpan>) {
    let joins = |token: &&TokenWithSpan| matches!(&token.token, Token::Word(word) if word.keyword == Keyword::JOIN);
    if tokens.iter().filter(joins).count() < 2 {
        return;
    }
    let mut waiting: Vec<Vec<Waiting>> = vec![Vec::new()];
    let mut parens: Vec<(usize, Token)> = Vec::new();
    let mut before = Keyword::NoKeyword;
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| is_solid(token)) {
        let mut keyword = Keyword::NoKeyword;
        match &token.token {
            Token::LParen => waiting.push(Vec::new()),
            Token::RParen if waiting.len() > 1 => drop(waiting.pop()),
            Token::Word(word) if word.quote_style.is_none() => keyword = word.keyword,
            _ => {}
        }
        let Some(here) = waiting.last_mut() else { return };
        match keyword {
            Keyword::JOIN => {
                if let Some(outer) = here.last_mut() {
                    outer.nested = true;
                }
                // These have no condition.
                if !matches!(before, Keyword::CROSS | Keyword::NATURAL) {
                    here.push(Waiting {
                        from: at + 1,
                        nested: false,
                    });
                }
            }
            Keyword::ON | Keyword::USING => {
                if let Some(join) = here.pop().filter(|join| join.nested) {
                    parens.push((join.from, Token::LParen));
                    parens.push((at, Token::RParen));
                }
            }
            _ => {}
        }
        // NATURAL [INNER | LEFT [OUTER] ...] JOIN
        let of_join = is(token, &["inner", "outer", "left", "right", "full"]);
        if !(of_join && before == Keyword::NATURAL) {
            before = keyword;
        }
    }
    // From the end, so that earlier places stay. Where both stand at one place, the one that closes comes first.
    parens.sort_by_key(|(at, token)| (*at, *token == Token::LParen));
    for (at, token) in parens.into_iter().rev() {
        let span = tokens[at].span;
        tokens.insert(at, TokenWithSpan { token, span });
    }
}

/// What the alias of a USING begins with at the end of the list.
const ALIAS: &str = "\u{1}as ";

pub(super) fn aliases(tokens: &mut Vec<TokenWithSpan>) {
    let solid: Vec<usize> = (0..tokens.len()).filter(|at| is_solid(&tokens[*at])).collect();
    let token = |place: usize| solid.get(place).map(|at| &tokens[*at]);
    let mut found = Vec::new();
    for place in 0..solid.len() {
        let begins = token(place).is_some_and(|token| is(token, &["using"]))
            && token(place + 1).is_some_and(|token| token.token == Token::LParen);
        if !begins {
            continue;
        }
        let mut end = place + 2;
        while let (Some(Token::Word(_)), Some(Token::Comma)) = (
            token(end).map(|token| &token.token),
            token(end + 1).map(|token| &token.token),
        ) {
            end += 2;
        }
        if token(end + 1).is_some_and(|token| token.token == Token::RParen)
            && token(end + 2).is_some_and(|token| is(token, &["as"]))
            && let Some(Token::Word(word)) = token(end + 3).map(|token| &token.token)
        {
            let alias = match word.quote_style {
                Some(_) => word.value.clone(),
                None => word.value.to_lowercase(),
            };
            found.push((solid[end + 1], solid[end + 3], alias));
        }
    }
    for (close, last, alias) in found.into_iter().rev() {
        let span = tokens[last].span;
        tokens.drain(close + 1..=last);
        let comma = TokenWithSpan {
            token: Token::Comma,
            span,
        };
        tokens.splice(close..close, [comma, name(format!("{ALIAS}{alias}"), span)]);
    }
}

/// The alias that a name in a list of USING stands for.
pub(crate) fn alias_of(name: &str) -> Option<&str> {
    name.strip_prefix(ALIAS)
}
