//! SEARCH and CYCLE of WITH RECURSIVE: columns that say where a row was found, and whether it closes a cycle.
//!
//! More than 400 lines because the clauses, their grammar and what they become stand together.
//!
//! ```text
//! w (a) AS (L UNION ALL R) SEARCH DEPTH FIRST BY a SET s CYCLE a SET c USING p
//! =
//! w (a, s, c, p) AS (
//!     SELECT l.*, ARRAY[ROW(a)], false, ARRAY[ROW(a)] FROM (L) l (a)
//!     UNION ALL
//!     SELECT r.a, r.s || ROW(a), CASE WHEN ROW(a) = ANY (r.p) THEN true ELSE false END, r.p || ROW(a) FROM (R with s and p, WHERE NOT c) r (a, s, p))
//! ```

use super::{DIALECT, NESTING_MAX};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::functions::NULLABLE;
use crate::pg::lex;
use crate::pg::names::fold;
use crate::pg::walk::VisitMut;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Cte, Expr, Ident, ObjectNamePart, Query, SelectItem, SetExpr, SetOperator, SetQuantifier,
    TableAliasColumnDef, TableFactor, VisitorMut,
};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;
use tenon_storage::quote;

/// What stands between a query's name and the number of its clauses.
const MARK: &str = "\u{1}clauses ";

#[derive(Clone, Debug, Default)]
pub(super) struct Clauses {
    search: Option<Search>,
    cycle: Option<Cycle>,
}

#[derive(Clone, Debug)]
struct Search {
    depth_first: bool,
    by: Vec<String>,
    sequence: String,
}

#[derive(Clone, Debug)]
struct Cycle {
    by: Vec<String>,
    mark: String,
    /// The values of the mark, in a cycle and not.
    values: (String, String),
    path: String,
}

fn is(token: Option<&TokenWithSpan>, word: &str) -> bool {
    matches!(token.map(|token| &token.token), Some(Token::Word(own)) if own.quote_style.is_none() && own.value.eq_ignore_ascii_case(word))
}

/// Takes the clauses out of the tokens, and notes their number in the names of their queries.
pub(super) fn take(tokens: &mut Vec<TokenWithSpan>) -> std::result::Result<Vec<Clauses>, ParserError> {
    let mut found = Vec::new();
    let mut from = 0;
    loop {
        let solid: Vec<usize> = (0..tokens.len())
            .filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_)))
            .collect();
        let token = |place: usize| solid.get(place).map(|at| &tokens[*at]);
        let begins = |place: &usize| {
            let search = is(token(place + 1), "search") && is(token(place + 3), "first") && is(token(place + 4), "by");
            let cycle =
                is(token(place + 1), "cycle") && matches!(token(place + 2).map(|t| &t.token), Some(Token::Word(_)));
            token(*place).is_some_and(|token| token.token == Token::RParen) && (search || cycle)
        };
        let Some(close) = (from..solid.len()).find(begins) else {
            return Ok(found);
        };
        from = close + 1;
        let Some(name) = name_before(tokens, &solid, close) else {
            continue;
        };
        let mut parser = Parser::new(&DIALECT)
            .with_recursion_limit(NESTING_MAX)
            .with_tokens_with_locations(solid[close + 1..].iter().map(|at| tokens[*at].clone()).collect());
        let clauses = clauses(&mut parser)?;
        let rest = parser.peek_token().span.start;
        let end = solid[close + 1..]
            .iter()
            .copied()
            .find(|at| tokens[*at].span.start == rest)
            .unwrap_or(tokens.len());
        if let Token::Word(word) = &mut tokens[name].token {
            if word.quote_style.is_none() {
                word.value = word.value.to_lowercase();
                word.quote_style = Some('"');
            }
            word.value = format!("{}{MARK}{}", word.value, found.len());
        }
        found.push(clauses);
        tokens.drain(solid[close] + 1..end);
    }
}

/// The name of the query of WITH that ends at a parenthesis.
fn name_before(tokens: &[TokenWithSpan], solid: &[usize], close: usize) -> Option<usize> {
    let opening = |close: usize| {
        let mut depth = 0usize;
        (0..=close).rev().find(|place| {
            match tokens[solid[*place]].token {
                Token::RParen => depth += 1,
                Token::LParen => depth -= 1,
                _ => {}
            }
            depth == 0
        })
    };
    let token = |place: usize| tokens.get(solid[place]);
    let mut place = opening(close)?.checked_sub(1)?;
    if is(token(place), "materialized") {
        place = place.checked_sub(1)?;
        if is(token(place), "not") {
            place = place.checked_sub(1)?;
        }
    }
    if !is(token(place), "as") {
        return None;
    }
    place = place.checked_sub(1)?;
    if tokens[solid[place]].token == Token::RParen {
        place = opening(place)?.checked_sub(1)?;
    }
    matches!(tokens[solid[place]].token, Token::Word(_)).then(|| solid[place])
}

fn take_words(parser: &mut Parser<'_>, words: &[&str]) -> bool {
    super::definition::take_words(parser, words)
}

fn clauses(parser: &mut Parser<'_>) -> std::result::Result<Clauses, ParserError> {
    let name = |parser: &mut Parser<'_>| Ok(fold(&parser.parse_identifier()?));
    let expected = |parser: &mut Parser<'_>, what: &str| {
        let next = parser.peek_token();
        parser.expected(what, next)
    };
    let mut out = Clauses::default();
    if take_words(parser, &["search"]) {
        let depth_first = take_words(parser, &["depth"]);
        if !depth_first && !take_words(parser, &["breadth"]) {
            return expected(parser, "DEPTH or BREADTH");
        }
        if !take_words(parser, &["first", "by"]) {
            return expected(parser, "FIRST BY");
        }
        let by = parser.parse_comma_separated(name)?;
        if !take_words(parser, &["set"]) {
            return expected(parser, "SET");
        }
        out.search = Some(Search {
            depth_first,
            by,
            sequence: name(parser)?,
        });
    }
    if take_words(parser, &["cycle"]) {
        let by = parser.parse_comma_separated(name)?;
        if !take_words(parser, &["set"]) {
            return expected(parser, "SET");
        }
        let mark = name(parser)?;
        let mut values = ("true".to_string(), "false".to_string());
        if take_words(parser, &["to"]) {
            values.0 = parser.parse_expr()?.to_string();
            if !take_words(parser, &["default"]) {
                return expected(parser, "DEFAULT");
            }
            values.1 = parser.parse_expr()?.to_string();
        }
        if !take_words(parser, &["using"]) {
            return expected(parser, "USING");
        }
        out.cycle = Some(Cycle {
            by,
            mark,
            values,
            path: name(parser)?,
        });
    }
    Ok(out)
}

/// Spells the clauses out in the queries that they are of.
pub(super) fn expand<T: VisitMut>(tree: &mut T, clauses: &[Clauses]) -> Result<()> {
    struct Expander<'a>(&'a [Clauses]);
    impl VisitorMut for Expander<'_> {
        type Break = SqlError;

        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
            let Some(with) = &mut query.with else {
                return ControlFlow::Continue(());
            };
            for cte in &mut with.cte_tables {
                let Some((name, number)) = cte.alias.name.value.split_once(MARK) else {
                    continue;
                };
                let (name, number) = (name.to_string(), number.parse::<usize>().unwrap_or_default());
                cte.alias.name = Ident::with_quote('"', name);
                if let Some(clauses) = self.0.get(number)
                    && let Err(error) = spell_out(cte, clauses, with.recursive)
                {
                    return ControlFlow::Break(error);
                }
            }
            ControlFlow::Continue(())
        }
    }
    match tree.visit(&mut Expander(clauses)) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The names of a query's columns, where it says them.
fn names_of(cte: &Cte, left: &SetExpr) -> Result<Vec<String>> {
    if !cte.alias.columns.is_empty() {
        return Ok(cte.alias.columns.iter().map(|column| fold(&column.name)).collect());
    }
    let name = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(fold(name)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(fold),
        _ => None,
    };
    let names: Option<Vec<String>> = match left {
        SetExpr::Select(select) => select.projection.iter().map(name).collect(),
        _ => None,
    };
    names.ok_or_else(|| {
        SqlError::unsupported("SEARCH or CYCLE of a query whose columns have no names")
            .hint("List the columns behind the query's name.")
    })
}

fn check(names: &[String], by: &[String], what: &str) -> Result<()> {
    for (at, column) in by.iter().enumerate() {
        if !names.contains(column) {
            let message = format!("{what} column \"{column}\" not in WITH query column list");
            return Err(SqlError::new(state::SYNTAX_ERROR, message));
        }
        if by[..at].contains(column) {
            let message = format!("{what} column \"{column}\" specified more than once");
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
        }
    }
    Ok(())
}

fn spell_out(cte: &mut Cte, clauses: &Clauses, recursive: bool) -> Result<()> {
    let own = fold(&cte.alias.name);
    if !recursive || !crate::pg::names::refers_to(&cte.query, &own) {
        return Err(SqlError::new(state::SYNTAX_ERROR, "WITH query is not recursive"));
    }
    let wrong = |side: &str| {
        let message = format!("with a SEARCH or CYCLE clause, the {side} side of the UNION must be a SELECT");
        SqlError::new(
            if side == "left" {
                state::FEATURE_NOT_SUPPORTED
            } else {
                state::SYNTAX_ERROR
            },
            message,
        )
    };
    let SetExpr::SetOperation {
        op: SetOperator::Union,
        set_quantifier,
        left,
        right,
    } = cte.query.body.as_ref()
    else {
        // Refused where recursion is.
        return Ok(());
    };
    if !matches!(left.as_ref(), SetExpr::Select(_) | SetExpr::Values(_)) {
        return Err(wrong("left"));
    }
    let SetExpr::Select(right) = right.as_ref() else {
        return Err(wrong("right"));
    };
    let names = names_of(cte, left)?;
    let mut right = right.clone();
    let known = right
        .from
        .iter()
        .flat_map(|table| std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation)))
        .find_map(|factor| match factor {
            TableFactor::Table { name, alias, .. } => {
                let last = name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
                (last.as_deref() == Some(own.as_str()))
                    .then(|| alias.as_ref().map_or_else(|| own.clone(), |alias| fold(&alias.name)))
            }
            _ => None,
        });
    // The columns that are added are not the query's own.
    if let ([SelectItem::Wildcard(_)], [only], Some(known)) =
        (right.projection.as_slice(), right.from.as_slice(), &known)
        && only.joins.is_empty()
    {
        let own = names.iter().map(|name| {
            let column = [known, name].map(|part| Ident::with_quote('"', part));
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(column.to_vec()))
        });
        right.projection = own.collect();
    }
    let known = known.ok_or_else(|| {
        SqlError::unsupported_as(
            "with a SEARCH or CYCLE clause, the recursive reference to WITH query must be at the top level of its right-hand SELECT",
        )
    })?;
    let row = |alias: &str, by: &[String], first: &str| {
        let columns: Vec<String> = by
            .iter()
            .map(|name| format!("\"{alias}\".{}", quote::name(name)))
            .collect();
        format!("ROW({first}{})", columns.join(", "))
    };
    let (l, r) = ("\u{1}l", "\u{1}r");
    let (mut first, mut next, mut carried, mut added) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut carry = |column: &str| {
        let place = format!("\u{1}carried {}", carried.len());
        carried.push(place.clone());
        right.projection.push(SelectItem::ExprWithAlias {
            expr: Expr::CompoundIdentifier(vec![Ident::with_quote('"', &known), Ident::with_quote('"', column)]),
            alias: Ident::with_quote('"', place.clone()),
        });
        format!("\"{r}\".\"{place}\"")
    };
    if let Some(search) = &clauses.search {
        check(&names, &search.by, "search")?;
        let before = carry(&search.sequence);
        if search.depth_first {
            first.push(format!("ARRAY[{}]", row(l, &search.by, "")));
            next.push(format!("{before} || {}", row(r, &search.by, "")));
        } else {
            first.push(row(l, &search.by, "0::int8, "));
            next.push(row(r, &search.by, &format!("get_field({before}, 'f1') + 1, ")));
        }
        added.push(search.sequence.clone());
    }
    if let Some(cycle) = &clauses.cycle {
        check(&names, &cycle.by, "cycle")?;
        let before = carry(&cycle.path);
        let (yes, no) = &cycle.values;
        let here = row(r, &cycle.by, "");
        first.extend([
            format!("\"{NULLABLE}\"({no})"),
            format!("ARRAY[{}]", row(l, &cycle.by, "")),
        ]);
        next.push(format!(
            "\"{NULLABLE}\"(CASE WHEN {here} = ANY ({before}) THEN {yes} ELSE {no} END)"
        ));
        next.push(format!("{before} || {here}"));
        added.extend([cycle.mark.clone(), cycle.path.clone()]);
        let mark = Expr::CompoundIdentifier(vec![
            Ident::with_quote('"', &known),
            Ident::with_quote('"', &cycle.mark),
        ]);
        let open = Expr::BinaryOp {
            left: Box::new(mark),
            op: BinaryOperator::NotEq,
            right: Box::new(super::parse_expression(yes)?),
        };
        right.selection = Some(match right.selection.take() {
            Some(own) => Expr::BinaryOp {
                left: Box::new(Expr::Nested(Box::new(own))),
                op: BinaryOperator::And,
                right: Box::new(open),
            },
            None => open,
        });
    }
    for name in &added {
        if names.contains(name) || added.iter().filter(|other| *other == name).count() > 1 {
            let message = format!("column name \"{name}\" already used in WITH query column list");
            return Err(SqlError::new(state::SYNTAX_ERROR, message));
        }
    }
    let list =
        |names: &mut dyn Iterator<Item = &String>| names.map(|name| quote::name(name)).collect::<Vec<_>>().join(", ");
    let all = match set_quantifier {
        SetQuantifier::All => "UNION ALL",
        _ => "UNION",
    };
    let columns: Vec<String> = names
        .iter()
        .map(|name| format!("\"{r}\".{}", quote::name(name)))
        .collect();
    let text = format!(
        "SELECT \"{l}\".*, {} FROM ({left}) AS \"{l}\" ({}) {all} SELECT {}, {} FROM ({right}) AS \"{r}\" ({})",
        first.join(", "),
        list(&mut names.iter()),
        columns.join(", "),
        next.join(", "),
        list(&mut names.iter().chain(&carried)),
    );
    let mut parser = Parser::new(&DIALECT)
        .with_recursion_limit(NESTING_MAX)
        .with_tokens_with_locations(lex::tokenize(&text, true)?);
    let query = parser
        .parse_query()
        .map_err(|error| SqlError::new(state::SYNTAX_ERROR, format!("syntax error: {error}")))?;
    cte.query.body = query.body;
    cte.alias.columns = names
        .iter()
        .chain(&added)
        .map(|name| TableAliasColumnDef {
            name: Ident::with_quote('"', name),
            data_type: None,
        })
        .collect();
    Ok(())
}
