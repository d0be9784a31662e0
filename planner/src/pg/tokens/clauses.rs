//! Clauses that the parser does not know: those that change nothing here, that are short for others, and that stay as marks.

use super::{is, is_solid, name};
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// The name that the text of a list of storage parameters has among the parser's options.
pub(crate) const LIST: &str = "\u{1}parameters";
/// What a comment begins with that stands for the storage parameters of a constraint.
pub(crate) const PARAMETERS: &str = "\u{1}parameters ";
/// What stands among the columns that a foreign key references, before those that ON DELETE sets.
pub(crate) const ON_DELETE_SET: &str = "\u{1}on delete set";
/// The same of ON UPDATE, which has no such list.
pub(crate) const ON_UPDATE_SET: &str = "\u{1}on update set";

fn solid(tokens: &[TokenWithSpan]) -> Vec<usize> {
    (0..tokens.len())
        .filter(|at| is_solid(&tokens[*at]) && tokens[*at].token != Token::EOF)
        .collect()
}

/// Whether the solid tokens from a place on are these words.
fn says(tokens: &[TokenWithSpan], places: &[usize], place: usize, words: &[&str]) -> bool {
    let said = |(at, word): (usize, &&str)| places.get(place + at).is_some_and(|at| is(&tokens[*at], &[word]));
    words.iter().enumerate().all(said)
}

pub(super) fn mark(tokens: &mut Vec<TokenWithSpan>) {
    let places = solid(tokens);
    if says(tokens, &places, 0, &["drop", "index", "concurrently"]) {
        tokens.remove(places[2]);
        return;
    }
    let creates = says(tokens, &places, 0, &["create"]);
    if !creates && !says(tokens, &places, 0, &["alter"]) {
        return;
    }
    let is_table = (1..4).any(|place| says(tokens, &places, place, &["table"]));
    if is_table {
        included(tokens);
        set_columns(tokens);
    }
    let others: [&[&str]; 3] = [&["materialized", "view"], &["index"], &["unique", "index"]];
    if is_table || creates && others.iter().any(|words| says(tokens, &places, 1, words)) {
        parameters(tokens, !creates);
    }
    let places = solid(tokens);
    let mut taken: Vec<usize> = Vec::new();
    let mut truths: Vec<usize> = Vec::new();
    for place in 1..places.len() {
        let closes = |at: usize| places.get(at).is_some_and(|at| tokens[*at].token == Token::RParen);
        // There is no table that inherits from another.
        if closes(place - 1) && says(tokens, &places, place, &["no", "inherit"]) {
            taken.extend([places[place], places[place + 1]]);
        }
        if creates && closes(place - 1) && says(tokens, &places, place, &["without", "oids"]) {
            taken.extend([places[place], places[place + 1]]);
        }
        // There is one tablespace.
        let default = |at: &usize| matches!(&tokens[*at].token, Token::Word(word) if word.value == "pg_default");
        if creates && says(tokens, &places, place, &["tablespace"]) && places.get(place + 1).is_some_and(default) {
            taken.extend([places[place], places[place + 1]]);
        }
        // `WITH (security_barrier)` is `WITH (security_barrier = true)`.
        let option = ["security_barrier", "security_invoker"];
        if creates
            && is(&tokens[places[place]], &option)
            && (closes(place + 1)
                || places
                    .get(place + 1)
                    .is_some_and(|at| tokens[*at].token == Token::Comma))
        {
            truths.push(places[place]);
        }
    }
    let mut edits: Vec<(usize, bool)> = taken.into_iter().map(|at| (at, false)).collect();
    edits.extend(truths.into_iter().map(|at| (at, true)));
    edits.sort_unstable();
    for (at, is_truth) in edits.into_iter().rev() {
        if is_truth {
            let span = tokens[at].span;
            let made = |token| TokenWithSpan { token, span };
            let truth = [made(Token::Eq), made(Token::make_keyword("TRUE"))];
            tokens.splice(at + 1..at + 1, truth);
        } else {
            tokens.remove(at);
        }
    }
    if creates {
        recursive_view(tokens);
    }
}

/// `UNIQUE (a) INCLUDE (b)`: the parser has a place for a comment there, which PostgreSQL has not.
fn included(tokens: &mut Vec<TokenWithSpan>) {
    loop {
        let places = solid(tokens);
        let token = |place: usize| places.get(place).map(|at| &tokens[*at].token);
        let found = (1..places.len()).find(|place| {
            is(&tokens[places[*place]], &["include"])
                && token(place - 1) == Some(&Token::RParen)
                && token(place + 1) == Some(&Token::LParen)
        });
        let Some(found) = found else { return };
        let Some(end) = (found..places.len()).find(|place| token(*place) == Some(&Token::RParen)) else {
            return;
        };
        let columns: Vec<String> = (found + 2..end).filter_map(token).map(ToString::to_string).collect();
        let span = tokens[places[found]].span;
        let comment = comment(columns.join(" ").replace(" , ", ","), span);
        tokens.splice(places[found]..=places[end], comment);
    }
}

fn comment(text: String, span: Span) -> [TokenWithSpan; 2] {
    let made = |token| TokenWithSpan { token, span };
    [
        made(Token::make_keyword("COMMENT")),
        made(Token::SingleQuotedString(text)),
    ]
}

/// `WITH (name = value, ...)`: the list becomes one text, that of a constraint a comment.
fn parameters(tokens: &mut Vec<TokenWithSpan>, of_constraints: bool) {
    let mut from = 0;
    loop {
        let places = solid(tokens);
        let token = |place: usize| places.get(place).map(|at| &tokens[*at].token);
        let mut depth = 0;
        let mut found = None;
        for place in 0..places.len() {
            match token(place) {
                Some(Token::LParen) => depth += 1,
                Some(Token::RParen) => depth -= 1,
                // The query.
                Some(_) if depth == 0 && !of_constraints && is(&tokens[places[place]], &["as"]) => break,
                Some(_) if place >= from && place > 0 && is(&tokens[places[place]], &["with"]) => {
                    let is_bound = is(&tokens[places[place - 1]], &["values"]);
                    if token(place + 1) == Some(&Token::LParen) && !is_bound {
                        found = Some((place, depth > 0 || of_constraints));
                        break;
                    }
                }
                _ => {}
            }
        }
        let Some((found, is_constraint)) = found else { return };
        let Some(end) = (found..places.len()).find(|place| token(*place) == Some(&Token::RParen)) else {
            return;
        };
        let words: Vec<String> = (found + 2..end).filter_map(token).map(ToString::to_string).collect();
        let (text, span) = (words.join(" "), tokens[places[found]].span);
        let made = |token| TokenWithSpan { token, span };
        match is_constraint {
            true => {
                let comment = comment(format!("{PARAMETERS}{text}"), span);
                tokens.splice(places[found]..=places[end], comment);
            }
            false => {
                let listed = [name(LIST, span), made(Token::Eq), made(Token::SingleQuotedString(text))];
                tokens.splice(places[found + 2]..places[end], listed);
            }
        }
        from = found + 1;
    }
}

/// `ON DELETE SET NULL (a)`: the columns go among the referenced ones, behind a mark.
fn set_columns(tokens: &mut Vec<TokenWithSpan>) {
    let mut from = 0;
    loop {
        let places = solid(tokens);
        let token = |place: usize| places.get(place).map(|at| &tokens[*at].token);
        let found = (from..places.len()).find(|place| {
            (says(tokens, &places, *place, &["on", "delete", "set"])
                || says(tokens, &places, *place, &["on", "update", "set"]))
                && places
                    .get(place + 3)
                    .is_some_and(|at| is(&tokens[*at], &["null", "default"]))
                && token(place + 4) == Some(&Token::LParen)
        });
        let Some(found) = found else { return };
        from = found + 1;
        let is_update = is(&tokens[places[found + 1]], &["update"]);
        let Some(references) = (0..found)
            .rev()
            .find(|place| is(&tokens[places[*place]], &["references"]))
        else {
            continue;
        };
        let Some(end) = (found..places.len()).find(|place| token(*place) == Some(&Token::RParen)) else {
            return;
        };
        let mut last = references + 1;
        while token(last + 1) == Some(&Token::Period) {
            last += 2;
        }
        let span = tokens[places[found]].span;
        let made = |token| TokenWithSpan { token, span };
        let mark = name(if is_update { ON_UPDATE_SET } else { ON_DELETE_SET }, span);
        let columns: Vec<TokenWithSpan> = tokens[places[found + 5]..places[end]].to_vec();
        let listed = token(last + 1) == Some(&Token::LParen);
        let into = match listed {
            true => (last..found).find(|place| token(*place) == Some(&Token::RParen)),
            false => Some(last + 1),
        };
        let Some(into) = into.and_then(|place| places.get(place).copied()) else {
            return;
        };
        tokens.drain(places[found + 4]..=places[end]);
        let mut all = vec![match listed {
            true => made(Token::Comma),
            false => made(Token::LParen),
        }];
        all.extend([mark, made(Token::Comma)]);
        all.extend(columns);
        if !listed {
            all.push(made(Token::RParen));
        }
        tokens.splice(into..into, all);
    }
}

/// `CREATE RECURSIVE VIEW v (a) AS query` is `CREATE VIEW v (a) AS WITH RECURSIVE v (a) AS (query) SELECT a FROM v`.
fn recursive_view(tokens: &mut Vec<TokenWithSpan>) {
    let places = solid(tokens);
    let word = |at: usize, word: &str| places.get(at).is_some_and(|at| is(&tokens[*at], &[word]));
    let Some(recursive) = (1..6).find(|at| word(*at, "recursive") && word(*at + 1, "view")) else {
        return;
    };
    let token = |at: usize| places.get(at).map(|at| &tokens[*at].token);
    let open = (recursive..places.len()).find(|at| token(*at) == Some(&Token::LParen));
    let Some(open) = open else { return };
    let close = (open..places.len()).find(|at| token(*at) == Some(&Token::RParen));
    let Some(close) = close.filter(|close| word(*close + 1, "as")) else {
        return;
    };
    let own = |from: usize, to: usize| tokens[places[from]..=places[to]].to_vec();
    let span = tokens[places[recursive]].span;
    let keyword = |word: &str| TokenWithSpan {
        token: Token::make_keyword(word),
        span,
    };
    let symbol = |token: Token| TokenWithSpan { token, span };
    // The view's own name, without its schema.
    let view = match token(open - 1) {
        Some(Token::Word(word)) => name(
            match word.quote_style {
                Some(_) => word.value.clone(),
                None => word.value.to_lowercase(),
            },
            span,
        ),
        _ => return,
    };
    let columns = own(open, close);
    let query = own(close + 2, places.len() - 1);
    let mut out = own(0, recursive - 1);
    out.extend(own(recursive + 1, close + 1));
    out.extend([keyword("WITH"), keyword("RECURSIVE"), view.clone()]);
    out.extend(columns.clone());
    out.extend([keyword("AS"), symbol(Token::LParen)]);
    out.extend(query);
    out.extend([symbol(Token::RParen), keyword("SELECT")]);
    out.extend(columns[1..columns.len() - 1].to_vec());
    out.extend([keyword("FROM"), view]);
    *tokens = out;
}
