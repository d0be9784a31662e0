//! Spellings around FROM and INTO that the parser does not know.

use crate::pg::error::{Result, SqlError, state};
use crate::pg::tokens::words::NO_COLUMN;
use crate::pg::walk::VisitMut;
use datafusion::sql::sqlparser::ast::{self, Expr, Select, SelectInto, SelectItem, SetExpr, Statement, VisitorMut};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// `ROWS FROM (f(...), ...)`: the parser knows it as a function of that name, and takes its functions for arguments.
pub(super) fn mark_rows_from(tokens: &mut Vec<TokenWithSpan>) {
    let is = |token: Option<&TokenWithSpan>, keyword: Keyword| matches!(token.map(|token| &token.token), Some(Token::Word(word)) if word.keyword == keyword && word.quote_style.is_none());
    let solid: Vec<usize> = (0..tokens.len())
        .filter(|&at| !matches!(tokens[at].token, Token::Whitespace(_)))
        .collect();
    let marked: Vec<(usize, usize)> = solid
        .windows(3)
        .filter(|three| {
            is(tokens.get(three[0]), Keyword::ROWS)
                && is(tokens.get(three[1]), Keyword::FROM)
                && tokens[three[2]].token == Token::LParen
        })
        .map(|three| (three[0], three[1]))
        .collect();
    for (rows, from) in marked.into_iter().rev() {
        tokens[rows].token = Token::make_word(crate::pg::rewrite::ROWS_FROM, Some('"'));
        tokens.remove(from);
    }
}

/// `f(...) AS (a int, b text)`: the columns that a function returns, under its own name.
pub(super) fn name_definitions(tokens: &mut Vec<TokenWithSpan>) {
    let solid: Vec<usize> = (0..tokens.len())
        .filter(|&at| !matches!(tokens[at].token, Token::Whitespace(_) | Token::EOF))
        .collect();
    let token = |place: usize| solid.get(place).map(|&at| &tokens[at].token);
    let keyword = |place: usize| match token(place) {
        Some(Token::Word(word)) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    };
    let is_statement = |place: usize| {
        use Keyword::{DELETE, INSERT, MERGE, SELECT, TABLE, UPDATE, VALUES, WITH};
        keyword(place).is_some_and(|word| [DELETE, INSERT, MERGE, SELECT, TABLE, UPDATE, VALUES, WITH].contains(&word))
    };
    let is_word = |place: usize| matches!(token(place), Some(Token::Word(_)));
    let mut named = Vec::new();
    for close in 0..solid.len() {
        let defines = token(close) == Some(&Token::RParen)
            && keyword(close + 1) == Some(Keyword::AS)
            && token(close + 2) == Some(&Token::LParen)
            && is_word(close + 3)
            && is_word(close + 4)
            && !is_statement(close + 3);
        if !defines {
            continue;
        }
        let mut depth = 0;
        let open = (0..=close).rev().find(|&place| {
            match token(place) {
                Some(Token::RParen) => depth += 1,
                Some(Token::LParen) => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        if let Some(place) = open.and_then(|open| open.checked_sub(1))
            && let Some(name @ Token::Word(_)) = token(place)
        {
            named.push((solid[close + 1], name.clone()));
        }
    }
    for (at, name) in named.into_iter().rev() {
        let own = TokenWithSpan {
            token: name,
            span: tokens[at].span,
        };
        tokens.insert(at + 1, own);
    }
}

/// `TABLE t` is `SELECT * FROM t`.
pub(super) fn spell_out_table(tokens: &mut Vec<TokenWithSpan>) {
    let solid: Vec<usize> = (0..tokens.len())
        .filter(|&at| !matches!(tokens[at].token, Token::Whitespace(_) | Token::EOF))
        .collect();
    let keyword = |place: Option<usize>| match place.and_then(|place| solid.get(place)).map(|&at| &tokens[at].token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    };
    let with = keyword(Some(0)) == Some(Keyword::WITH);
    let begins_query = |place: usize| {
        let Some(before) = place.checked_sub(1) else {
            return true;
        };
        match &tokens[solid[before]].token {
            Token::LParen => true,
            Token::RParen => with,
            Token::Word(_) => matches!(
                keyword(Some(before)),
                Some(
                    Keyword::UNION
                        | Keyword::ALL
                        | Keyword::DISTINCT
                        | Keyword::INTERSECT
                        | Keyword::EXCEPT
                        | Keyword::AS
                        | Keyword::EXPLAIN
                )
            ),
            _ => false,
        }
    };
    // `INSERT INTO t AS x (a) TABLE u`, looked at from its end.
    let is_source = |mut place: usize| {
        let token = |at: Option<usize>| at.and_then(|at| solid.get(at)).map(|&at| &tokens[at].token);
        let back = |place: usize, by: usize| place.checked_sub(by);
        if token(back(place, 1)) == Some(&Token::RParen) {
            let open = (0..place).rev().find(|&at| token(Some(at)) == Some(&Token::LParen));
            place = open.unwrap_or_default();
        }
        if keyword(back(place, 2)) == Some(Keyword::AS) {
            place -= 2;
        }
        while matches!(token(back(place, 1)), Some(Token::Word(_))) && token(back(place, 2)) == Some(&Token::Period) {
            place -= 2;
        }
        keyword(back(place, 2)) == Some(Keyword::INTO) && keyword(back(place, 3)) == Some(Keyword::INSERT)
    };
    let found: Vec<usize> = (0..solid.len())
        .filter(|&place| {
            let named = matches!(solid.get(place + 1).map(|&at| &tokens[at].token), Some(Token::Word(_)));
            let called = solid
                .get(place + 2)
                .is_some_and(|&at| tokens[at].token == Token::LParen);
            keyword(Some(place)) == Some(Keyword::TABLE)
                && named
                && !called
                && (begins_query(place) || is_source(place))
        })
        .map(|place| solid[place])
        .collect();
    for at in found.into_iter().rev() {
        let span = tokens[at].span;
        let made = |token: Token| TokenWithSpan { token, span };
        let spelt = [
            made(Token::make_word("SELECT", None)),
            made(Token::Mul),
            made(Token::make_word("FROM", None)),
        ];
        tokens.splice(at..=at, spelt);
    }
}

/// The function that stands for a percentage with a seed.
pub(crate) const REPEATABLE: &str = "\u{1}repeatable";

/// `TABLESAMPLE m (p) REPEATABLE (s)`: the parser takes literals alone for s, and gets both as arguments of a function.
pub(super) fn mark_repeatable(tokens: &mut Vec<TokenWithSpan>) {
    let mut from = 0;
    while let Some(at) = (from..tokens.len()).find(|&at| {
        matches!(&tokens[at].token, Token::Word(word) if word.keyword == Keyword::TABLESAMPLE && word.quote_style.is_none())
    }) {
        from = at + 1;
        let Some(open) = (at..tokens.len()).find(|&place| tokens[place].token == Token::LParen) else {
            return;
        };
        let Some(close) = closing(tokens, open) else { return };
        let mut after = (close + 1..tokens.len()).filter(|&place| !matches!(tokens[place].token, Token::Whitespace(_)));
        let (Some(word), Some(second)) = (after.next(), after.next()) else {
            return;
        };
        let repeats = matches!(&tokens[word].token, Token::Word(word) if word.value.eq_ignore_ascii_case("repeatable"));
        if !repeats || tokens[second].token != Token::LParen {
            continue;
        }
        let Some(end) = closing(tokens, second) else { return };
        let made = |token: Token| TokenWithSpan {
            token,
            span: tokens[word].span,
        };
        let (last, comma) = (made(Token::RParen), made(Token::Comma));
        let function = [made(Token::make_word(REPEATABLE, Some('"'))), made(Token::LParen)];
        tokens.insert(end, last);
        tokens.splice(close..=second, [comma]);
        tokens.splice(open + 1..open + 1, function);
    }
}

fn closing(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    (open..tokens.len()).find(|&at| {
        match tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

/// `SELECT ... INTO t` is `CREATE TABLE t AS SELECT ...`, and stands nowhere else.
pub(super) fn select_into(statement: &mut Statement) -> Result<()> {
    if let Statement::Query(query) = statement
        && let Some(into) = leftmost(&mut query.body).and_then(|select| select.into.take())
    {
        if let Some(select) = leftmost(&mut query.body) {
            let is_mark = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(Expr::Identifier(name)) if name.value == NO_COLUMN);
            select.projection.retain(|item| !is_mark(item));
            if select.projection.is_empty() && select.from.is_empty() {
                // One row, as of any SELECT without FROM.
                if let Some(mut row) = super::parse_query("SELECT")?
                    && let Some(one) = leftmost(&mut row.body)
                {
                    select.from = std::mem::take(&mut one.from);
                }
            }
        }
        let mut created = table_as(&into)?;
        if let Statement::CreateTable(create) = &mut created {
            create.name = into.name;
            create.query = Some(query.clone());
        }
        *statement = created;
    }
    struct Finder;
    impl VisitorMut for Finder {
        type Break = ();
        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            match select.into {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        }
    }
    match statement.visit(&mut Finder) {
        ControlFlow::Break(()) => Err(SqlError::new(
            state::SYNTAX_ERROR,
            "SELECT ... INTO is not allowed here",
        )),
        ControlFlow::Continue(()) => Ok(()),
    }
}

fn leftmost(body: &mut SetExpr) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::SetOperation { left, .. } => leftmost(left),
        _ => None,
    }
}

fn table_as(into: &SelectInto) -> Result<Statement> {
    let text = match (into.temporary, into.unlogged) {
        (true, _) => "CREATE TEMPORARY TABLE t AS SELECT 1",
        (_, true) => "CREATE UNLOGGED TABLE t AS SELECT 1",
        _ => "CREATE TABLE t AS SELECT 1",
    };
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, text);
    let mut parsed: Vec<ast::Statement> = parsed.map_err(SqlError::internal)?;
    parsed.pop().ok_or_else(|| SqlError::internal("no statement"))
}

/// Whether a join that needs a condition has none.
pub(super) fn lacks_condition(table: &ast::TableWithJoins) -> bool {
    use ast::{JoinConstraint::None, JoinOperator as Of};
    let nested = |factor: &ast::TableFactor| match factor {
        ast::TableFactor::NestedJoin { table_with_joins, .. } => lacks_condition(table_with_joins),
        _ => false,
    };
    nested(&table.relation)
        || table.joins.iter().any(|join| {
            nested(&join.relation)
                || matches!(
                    join.join_operator,
                    Of::Join(None)
                        | Of::Inner(None)
                        | Of::Left(None)
                        | Of::LeftOuter(None)
                        | Of::Right(None)
                        | Of::RightOuter(None)
                        | Of::FullOuter(None)
                )
        })
}

/// `CREATE SCHEMA s CREATE TABLE ... CREATE VIEW ...`: the tokens of each statement; None where there is one.
pub(super) fn schema_elements(tokens: &[TokenWithSpan]) -> Option<Vec<Vec<TokenWithSpan>>> {
    let (mut depth, mut starts) = (0usize, vec![0]);
    let mut before: Option<&TokenWithSpan> = None;
    for (at, token) in tokens.iter().enumerate() {
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Word(word)
                if depth == 0
                    && before.is_some()
                    && word.quote_style.is_none()
                    && matches!(word.keyword, Keyword::CREATE | Keyword::GRANT) =>
            {
                starts.push(at);
            }
            _ => {}
        }
        before = Some(token);
    }
    if starts.len() < 2 {
        return None;
    }
    let ends = starts[1..].iter().copied().chain([tokens.len()]);
    Some(
        starts
            .iter()
            .zip(ends)
            .map(|(from, to)| tokens[*from..to].to_vec())
            .collect(),
    )
}
