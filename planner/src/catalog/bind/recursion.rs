//! WITH RECURSIVE: which queries refer to which, and where PostgreSQL lets a query refer to itself.

use super::fold;
use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::functions::aggregate::names::has_aggregate;
use crate::pg::names::{counts, refers_to};
use datafusion::sql::sqlparser::ast::{
    Cte, Join, JoinOperator, LimitClause, ObjectNamePart, Query, Select, SetExpr, SetOperator, SetQuantifier,
    TableFactor, TableWithJoins,
};
use std::collections::{BTreeSet, HashMap};

const INVALID_RECURSION: SqlState = SqlState("42P19");

/// The same for queries of which some change data, none of which names itself.
pub(crate) fn order_changes(ctes: &mut Vec<Cte>) -> Result<()> {
    order(ctes)?;
    ctes.iter().try_for_each(check)
}

/// Puts the queries of WITH RECURSIVE into an order in which each comes after those that it names.
pub(super) fn order(ctes: &mut Vec<Cte>) -> Result<()> {
    let places = ctes.iter().enumerate();
    let places: HashMap<String, usize> = places.map(|(at, cte)| (fold(&cte.alias.name), at)).collect();
    let mut named_by: Vec<Vec<usize>> = vec![Vec::new(); ctes.len()];
    let mut missing: Vec<usize> = vec![0; ctes.len()];
    for (at, cte) in ctes.iter().enumerate() {
        let names = counts(&cte.query).into_keys();
        for other in names.filter_map(|name| places.get(&name)).filter(|other| **other != at) {
            named_by[*other].push(at);
            missing[at] += 1;
        }
    }
    // Of those that could come next, the one that was written first.
    let mut ready: BTreeSet<usize> = (0..ctes.len()).filter(|&at| missing[at] == 0).collect();
    let mut placed: Vec<usize> = Vec::with_capacity(ctes.len());
    while let Some(next) = ready.pop_first() {
        placed.push(next);
        for &at in &named_by[next] {
            missing[at] -= 1;
            if missing[at] == 0 {
                ready.insert(at);
            }
        }
    }
    if placed.len() < ctes.len() {
        let message = "mutual recursion between WITH items is not implemented";
        return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
    }
    *ctes = placed.iter().map(|&at| ctes[at].clone()).collect();
    Ok(())
}

/// Refuses what PostgreSQL refuses of a query that refers to itself.
pub(super) fn check(cte: &Cte) -> Result<()> {
    let name = fold(&cte.alias.name);
    if !refers_to(&cte.query, &name) {
        return Ok(());
    }
    let mut query = cte.query.as_ref();
    while let (SetExpr::Query(inner), None) = (query.body.as_ref(), &query.with) {
        query = inner;
    }
    if matches!(
        query.body.as_ref(),
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)
    ) {
        let message = format!("recursive query \"{name}\" must not contain data-modifying statements");
        return Err(SqlError::new(INVALID_RECURSION, message));
    }
    let SetExpr::SetOperation {
        op: SetOperator::Union,
        left,
        right,
        ..
    } = query.body.as_ref()
    else {
        let message =
            format!("recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] recursive-term");
        return Err(SqlError::new(INVALID_RECURSION, message));
    };
    let mut walker = Walker { name: &name, seen: 0 };
    walker.body(left, Place::NonRecursive)?;
    walker.body(right, Place::Fine)?;
    if let Some(with) = &query.with {
        for inner in &with.cte_tables {
            walker.query(&inner.query, Place::Subquery)?;
        }
    }
    let refused = |what: &str| {
        let message = format!("{what} in a recursive query is not implemented");
        Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message))
    };
    if query.order_by.is_some() {
        return refused("ORDER BY");
    }
    if let Some(limit) = &query.limit_clause {
        let offset = matches!(
            limit,
            LimitClause::LimitOffset { offset: Some(_), .. } | LimitClause::OffsetCommaLimit { .. }
        );
        return refused(if offset { "OFFSET" } else { "LIMIT" });
    }
    if query.fetch.is_some() {
        return refused("LIMIT");
    }
    if !query.locks.is_empty() {
        return refused("FOR UPDATE/SHARE");
    }
    Ok(())
}

/// Where a reference stands.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Fine,
    NonRecursive,
    Subquery,
    OuterJoin,
    Intersect,
    Except,
}

struct Walker<'a> {
    name: &'a str,
    seen: usize,
}

impl Walker<'_> {
    fn met(&mut self, place: Place) -> Result<()> {
        let within = match place {
            Place::Fine => {
                self.seen += 1;
                if self.seen == 1 {
                    return Ok(());
                }
                "more than once"
            }
            Place::NonRecursive => "within its non-recursive term",
            Place::Subquery => "within a subquery",
            Place::OuterJoin => "within an outer join",
            Place::Intersect => "within INTERSECT",
            Place::Except => "within EXCEPT",
        };
        let message = format!(
            "recursive reference to query \"{}\" must not appear {within}",
            self.name
        );
        Err(SqlError::new(INVALID_RECURSION, message))
    }

    fn query(&mut self, query: &Query, place: Place) -> Result<()> {
        if let Some(with) = &query.with {
            for cte in &with.cte_tables {
                self.query(&cte.query, place)?;
            }
            if with.cte_tables.iter().any(|cte| fold(&cte.alias.name) == self.name) {
                return Ok(());
            }
        }
        self.body(&query.body, place)?;
        for part in [
            refers_to(&query.order_by, self.name),
            refers_to(&query.limit_clause, self.name),
        ] {
            if part {
                self.met(Place::Subquery)?;
            }
        }
        Ok(())
    }

    fn body(&mut self, body: &SetExpr, place: Place) -> Result<()> {
        match body {
            SetExpr::Select(select) => self.select(select, place),
            SetExpr::Query(query) => self.query(query, place),
            SetExpr::SetOperation {
                op,
                set_quantifier,
                left,
                right,
            } => {
                let all = matches!(set_quantifier, SetQuantifier::All | SetQuantifier::AllByName);
                let (first, second) = match (place, op) {
                    (Place::Fine, SetOperator::Intersect) if all => (Place::Intersect, Place::Intersect),
                    (Place::Fine, SetOperator::Except | SetOperator::Minus) if all => (Place::Except, Place::Except),
                    (Place::Fine, SetOperator::Except | SetOperator::Minus) => (place, Place::Except),
                    _ => (place, place),
                };
                self.body(left, first)?;
                self.body(right, second)
            }
            other if refers_to(other, self.name) => self.met(place),
            _ => Ok(()),
        }
    }

    fn select(&mut self, select: &Select, place: Place) -> Result<()> {
        let before = self.seen;
        for table in &select.from {
            self.table(table, place)?;
        }
        let direct = place == Place::Fine && self.seen > before && select.from.iter().any(|table| self.names(table));
        if direct && (has_aggregate(&select.projection) || has_aggregate(&select.having)) {
            let message = "aggregate functions are not allowed in a recursive query's recursive term";
            return Err(SqlError::new(INVALID_RECURSION, message));
        }
        let mut rest = select.clone();
        rest.from.clear();
        if refers_to(&rest, self.name) {
            self.met(if place == Place::NonRecursive {
                place
            } else {
                Place::Subquery
            })?;
        }
        Ok(())
    }

    /// Whether the relation stands in FROM itself, not in a subquery there.
    fn names(&self, table: &TableWithJoins) -> bool {
        let own = |factor: &TableFactor| match factor {
            TableFactor::Table { name, .. } => {
                matches!(name.0.as_slice(), [ObjectNamePart::Identifier(only)] if fold(only) == self.name)
            }
            TableFactor::NestedJoin { table_with_joins, .. } => self.names(table_with_joins),
            _ => false,
        };
        own(&table.relation) || table.joins.iter().any(|join| own(&join.relation))
    }

    fn table(&mut self, table: &TableWithJoins, place: Place) -> Result<()> {
        // The left side of a join is all that stands before it.
        let outer_later = |from: usize| {
            place == Place::Fine
                && table.joins[from..]
                    .iter()
                    .any(|join| matches!(kind(join), Kind::Right | Kind::Full))
        };
        let inside = |outer: bool| if outer { Place::OuterJoin } else { place };
        self.factor(&table.relation, inside(outer_later(0)))?;
        for (at, join) in table.joins.iter().enumerate() {
            let outer = place == Place::Fine && matches!(kind(join), Kind::Left | Kind::Full);
            self.factor(&join.relation, inside(outer || outer_later(at + 1)))?;
            if refers_to(&join.join_operator, self.name) {
                self.met(Place::Subquery)?;
            }
        }
        Ok(())
    }

    fn factor(&mut self, factor: &TableFactor, place: Place) -> Result<()> {
        match factor {
            TableFactor::Derived { subquery, .. } => self.query(subquery, place),
            TableFactor::NestedJoin { table_with_joins, .. } => self.table(table_with_joins, place),
            other if refers_to(other, self.name) => self.met(place),
            _ => Ok(()),
        }
    }
}

enum Kind {
    Inner,
    Left,
    Right,
    Full,
}

fn kind(join: &Join) -> Kind {
    match join.join_operator {
        JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => Kind::Left,
        JoinOperator::Right(_) | JoinOperator::RightOuter(_) => Kind::Right,
        JoinOperator::FullOuter(_) => Kind::Full,
        _ => Kind::Inner,
    }
}
