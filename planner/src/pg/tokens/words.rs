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
                // Those of texts byte by byte, as all are compared here.
                ref other if other.to_string() == "~<~" => Some("ASC"),
                ref other if other.to_string() == "~>~" => Some("DESC"),
                _ => None,
            }
        {
            tokens[at].token = Token::make_word(direction, None);
            tokens.drain(at + 1..=next);
        }
        at += 1;
    }
}

/// `FOR NO KEY UPDATE` and `FOR KEY SHARE` lock like FOR UPDATE and FOR SHARE.
pub(super) fn row_locks(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        if is(&tokens[at], &["for"]) {
            let next: Vec<usize> = (at + 1..tokens.len())
                .filter(|at| is_solid(&tokens[*at]))
                .take(3)
                .collect();
            let says = |place: usize, word: &str| next.get(place).is_some_and(|at| is(&tokens[*at], &[word]));
            if says(0, "no") && says(1, "key") && says(2, "update") {
                tokens.drain(next[0]..next[2]);
            } else if says(0, "key") && says(1, "share") {
                tokens.drain(next[0]..next[1]);
            }
        }
        at += 1;
    }
}

/// `x = ANY (VALUES ...)` is `x = ANY (SELECT * FROM (VALUES ...))`.
pub(super) fn any_of_values(tokens: &mut Vec<TokenWithSpan>) {
    let solid: Vec<usize> = (0..tokens.len()).filter(|at| is_solid(&tokens[*at])).collect();
    // Where parentheses of VALUES open and close.
    let (mut open, mut edits): (Vec<bool>, Vec<(usize, bool)>) = (Vec::new(), Vec::new());
    for (place, &at) in solid.iter().enumerate() {
        match tokens[at].token {
            Token::LParen => {
                let next = solid.get(place + 1).is_some_and(|at| is(&tokens[*at], &["values"]));
                let before = place.checked_sub(1).map(|before| &tokens[solid[before]]);
                let values = next && before.is_some_and(|token| is(token, &["any", "all", "some"]));
                if values {
                    edits.push((at, true));
                }
                open.push(values);
            }
            Token::RParen if open.pop() == Some(true) => edits.push((at, false)),
            _ => {}
        }
    }
    for (at, opens) in edits.into_iter().rev() {
        let span = tokens[at].span;
        let made = |token| TokenWithSpan { token, span };
        let word = |word: &str| made(Token::make_word(word, None));
        let more = match opens {
            true => vec![word("SELECT"), made(Token::Mul), word("FROM"), made(Token::LParen)],
            false => vec![made(Token::RParen), word("AS"), name("\u{1}values", span)],
        };
        let place = if opens { at + 1 } else { at };
        tokens.splice(place..place, more);
    }
}

/// `t.*::text` and `(t.*)::text` are `t::text`.
pub(super) fn cast_rows(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = tokens.len();
    while at > 0 {
        at -= 1;
        if tokens[at].token != Token::DoubleColon {
            continue;
        }
        let before = |from: usize| (0..from).rev().find(|at| is_solid(&tokens[*at]));
        let closing = |at: &usize| tokens[*at].token == Token::RParen;
        let Some(star) = before(at).and_then(|last| if closing(&last) { before(last) } else { Some(last) }) else {
            continue;
        };
        if let Some(period) = before(star).filter(|period| tokens[*period].token == Token::Period)
            && let Some(word) = before(period)
            && tokens[star].token == Token::Mul
            && matches!(tokens[word].token, Token::Word(_))
        {
            tokens.drain(word + 1..=star);
            at = word;
        }
    }
}

/// What stands before INTO in a SELECT of nothing.
pub(crate) const NO_COLUMN: &str = "\u{1}no column";

/// `SELECT`, `SELECT WHERE ...`, `SELECT UNION ...`: a SELECT of nothing has one row, which the parser finds in a FROM.
pub(super) fn select_nothing(tokens: &mut Vec<TokenWithSpan>) {
    let solid: Vec<usize> = (0..tokens.len()).filter(|at| is_solid(&tokens[*at])).collect();
    let joins = |at: usize| is(&tokens[at], &["union", "intersect", "except"]);
    let clause = |at: usize| {
        let words = [
            "where", "group", "having", "window", "order", "limit", "offset", "fetch", "for",
        ];
        is(&tokens[at], &words)
    };
    // A column, or a label, that is called so.
    let named = |place: usize| {
        let before = place.checked_sub(1).map(|place| &tokens[solid[place]]);
        before.is_some_and(|before| before.token == Token::Period || is(before, &["as"]))
    };
    let bare = (0..solid.len()).filter(|place| {
        let ends = |at: usize| matches!(tokens[at].token, Token::RParen | Token::SemiColon | Token::EOF);
        let next = solid.get(place + 1).copied();
        let nothing = next.is_none_or(|at| ends(at) || joins(at) || clause(at));
        is(&tokens[solid[*place]], &["select"]) && nothing && !named(*place)
    });
    let bare: Vec<usize> = bare.map(|place| solid[place]).collect();
    // `SELECT INTO t`: what stands there is taken out again.
    let into = (0..solid.len()).filter(|place| {
        let next = solid.get(place + 1).copied();
        let end = solid.get(place + 2).copied();
        let is_target = end.is_some_and(|at| matches!(tokens[at].token, Token::Word(_)));
        is(&tokens[solid[*place]], &["select"])
            && next.is_some_and(|at| is(&tokens[at], &["into"]))
            && is_target
            && !named(*place)
    });
    let into: Vec<usize> = into.map(|place| solid[place]).collect();
    for at in into.into_iter().rev() {
        let span = tokens[at].span;
        tokens.insert(at + 1, name(NO_COLUMN, span));
    }
    for at in bare.into_iter().rev() {
        let span = tokens[at].span;
        let made = |token| TokenWithSpan { token, span };
        let word = |word: &str| made(Token::make_word(word, None));
        let row = [
            word("FROM"),
            made(Token::LParen),
            word("SELECT"),
            made(Token::Number("1".into(), false)),
            made(Token::RParen),
            word("AS"),
            name("\u{1}nothing", span),
        ];
        tokens.splice(at + 1..at + 1, row);
    }
}
