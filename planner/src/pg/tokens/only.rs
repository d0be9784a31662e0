//! `ONLY t`, `ONLY (t)` and `t *`: the tables of a statement without what they are made of, and with it.
//!
//! The parser has neither: the star goes, and ONLY becomes a mark on the table's name, which `note` takes off again and puts where
//! the tree of a table has a place that PostgreSQL has no use for.

use super::{is, is_solid, name};
use crate::pg::walk::VisitMut;
use datafusion::sql::sqlparser::ast::{CreateIndex, Ident, IndexOption, ObjectNamePart, TableFactor, VisitorMut};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// What the name of a table begins with that stands alone, and what its tree then has for partitions.
const ONLY: &str = "\u{1}only ";

/// Statements that the parser knows ONLY in, or that name no tables.
const OTHERS: &[&str] = &[
    "alter", "truncate", "lock", "grant", "revoke", "set", "start", "begin", "fetch", "move",
];
/// What a table stands behind.
const BEFORE: &[&str] = &["from", "join", "update", "using"];
/// What a list begins with.
const CLAUSES: &[&str] = &[
    "select",
    "from",
    "where",
    "group",
    "order",
    "having",
    "set",
    "values",
    "on",
    "using",
    "returning",
    "limit",
    "window",
];
/// What stands behind a table, but for the name that it is given.
const BEHIND: &[&str] = &[
    "as",
    "where",
    "set",
    "join",
    "left",
    "right",
    "full",
    "inner",
    "cross",
    "natural",
    "on",
    "using",
    "group",
    "having",
    "window",
    "order",
    "limit",
    "offset",
    "fetch",
    "for",
    "union",
    "except",
    "intersect",
    "returning",
    "tablesample",
];

pub(super) fn mark(tokens: &mut Vec<TokenWithSpan>) {
    let solid: Vec<usize> = (0..tokens.len()).filter(|at| is_solid(&tokens[*at])).collect();
    if solid.first().is_none_or(|first| is(&tokens[*first], OTHERS)) {
        return;
    }
    let merges = is(&tokens[solid[0]], &["merge"]);
    let word = |place: usize, word: &str| tokens.get(at(&solid, place)).is_some_and(|token| is(token, &[word]));
    let indexes = word(0, "create") && (word(1, "index") || word(1, "unique") && word(2, "index"));
    let is_before = |place: usize| {
        let token = &tokens[solid[place]];
        let clause = || {
            (0..place)
                .rev()
                .map(|place| &tokens[solid[place]])
                .find(|token| is(token, CLAUSES))
        };
        is(token, BEFORE)
            || merges && is(token, &["into"])
            || indexes && is(token, &["on"])
            || token.token == Token::Comma && clause().is_some_and(|clause| is(clause, &["from", "using"]))
    };
    let mut gone = Vec::new();
    let mut alone = Vec::new();
    for place in 1..solid.len() {
        let token = &tokens[solid[place]];
        if is(token, &["only"]) && is_before(place - 1) {
            let nested = tokens
                .get(at(&solid, place + 1))
                .is_some_and(|token| token.token == Token::LParen);
            let first = place + 1 + usize::from(nested);
            let Some(last) = name_from(tokens, &solid, first) else {
                continue;
            };
            if nested {
                if tokens
                    .get(at(&solid, last + 1))
                    .is_none_or(|token| token.token != Token::RParen)
                {
                    continue;
                }
                gone.extend([solid[place + 1], solid[last + 1]]);
            }
            gone.push(solid[place]);
            alone.push(solid[last]);
        } else if token.token == Token::Mul && is_behind(tokens.get(at(&solid, place + 1)), indexes) {
            let Some(first) = name_to(tokens, &solid, place - 1) else {
                continue;
            };
            if first > 0 && is_before(first - 1) {
                gone.push(solid[place]);
            }
        }
    }
    for last in alone {
        if let Token::Word(word) = &tokens[last].token {
            let own = match word.quote_style {
                Some(_) => word.value.clone(),
                None => word.value.to_lowercase(),
            };
            tokens[last] = name(format!("{ONLY}{own}"), tokens[last].span);
        }
    }
    gone.sort_unstable();
    for at in gone.into_iter().rev() {
        tokens.remove(at);
    }
}

/// The place of a token among all, past their end where there is none.
fn at(solid: &[usize], place: usize) -> usize {
    solid.get(place).copied().unwrap_or(usize::MAX)
}

/// The last token of a name that begins there.
fn name_from(tokens: &[TokenWithSpan], solid: &[usize], first: usize) -> Option<usize> {
    let token = |place: usize| tokens.get(at(solid, place)).map(|token| &token.token);
    let mut last = first;
    loop {
        match (token(last), token(last + 1)) {
            (Some(Token::Word(_)), Some(Token::Period)) => last += 2,
            (Some(Token::Word(_)), _) => return Some(last),
            _ => return None,
        }
    }
}

/// The first token of a name that ends there.
fn name_to(tokens: &[TokenWithSpan], solid: &[usize], last: usize) -> Option<usize> {
    let token = |place: usize| tokens.get(at(solid, place)).map(|token| &token.token);
    let mut first = last;
    loop {
        match (token(first), first.checked_sub(1).and_then(token)) {
            (Some(Token::Word(_)), Some(Token::Period)) => first = first.checked_sub(2)?,
            (Some(Token::Word(_)), _) => return Some(first),
            _ => return None,
        }
    }
}

fn is_behind(token: Option<&TokenWithSpan>, indexes: bool) -> bool {
    token.is_none_or(|token| {
        matches!(
            token.token,
            Token::EOF | Token::SemiColon | Token::Comma | Token::RParen
        ) || is(token, BEHIND)
            || indexes && token.token == Token::LParen
    })
}

/// Takes the mark off the names of a parsed statement's tables.
pub(crate) fn note(tree: &mut impl VisitMut) {
    let _ = tree.visit(&mut Noted);
}

/// The same of the table of CREATE INDEX: among its options the parser has places for a comment.
pub(crate) fn note_index(create: &mut CreateIndex) {
    if let Some(ObjectNamePart::Identifier(last)) = create.table_name.0.last_mut()
        && let Some(own) = last.value.strip_prefix(ONLY)
    {
        last.value = own.to_string();
        create.index_options.push(IndexOption::Comment(ONLY.into()));
    }
}

/// Whether CREATE INDEX is of a table alone.
pub(crate) fn is_index_alone(create: &CreateIndex) -> bool {
    create.index_options == [IndexOption::Comment(ONLY.into())]
}

/// Whether it is a table that stands alone; it does so no more.
pub(crate) fn take(factor: &mut TableFactor) -> bool {
    match factor {
        TableFactor::Table { partitions, .. } if partitions.iter().any(|own| own.value == ONLY) => {
            partitions.clear();
            true
        }
        _ => false,
    }
}

struct Noted;

impl VisitorMut for Noted {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, partitions, .. } = factor
            && let Some(ObjectNamePart::Identifier(last)) = name.0.last_mut()
            && let Some(own) = last.value.strip_prefix(ONLY)
        {
            last.value = own.to_string();
            partitions.push(Ident::new(ONLY));
        }
        ControlFlow::Continue(())
    }
}
