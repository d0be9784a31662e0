//! WITH, before DataFusion plans it: queries in the order of their references, each name its own, recursion that
//! PostgreSQL refuses refused, and marks on queries that are to run once.
//!
//! DataFusion knows no name twice, inner or outer, and forgets ORDER BY, LIMIT and WITH of a query with UNION under WITH
//! RECURSIVE: such names are changed here, and such queries wrapped.

use super::recursion;
use super::relations::{ONCE_IF_COSTLY_MARK, ONCE_IF_VOLATILE_MARK, ONCE_MARK};
use super::{Binder, fold};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::functions::array_literal::ARRAY_LITERAL;
use crate::pg::names::{self, refers_to};
use crate::pg::parse::select;
use crate::pg::rewrite::call;
use crate::pg::walk::VisitMut;
use datafusion::sql::sqlparser::ast::{
    Cte, CteAsMaterialized, Expr, Ident, ObjectName, ObjectNamePart, Query, SelectItem, SetExpr, Statement, TableAlias,
    TableFactor, VisitorMut, With,
};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use tenon_storage::Relation;

/// Prepares all of a statement's WITH.
pub(super) fn prepare(binder: &Binder, statement: &mut Statement) -> Result<()> {
    let mut scopes = Scopes {
        binder,
        levels: Vec::new(),
        renamed: 0,
    };
    match statement.visit(&mut scopes) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The queries named by WITH around a place in a statement.
struct Scopes<'a> {
    binder: &'a Binder,
    levels: Vec<Level>,
    /// How often each name was taken.
    renamed: usize,
}

#[derive(Default)]
struct Level {
    /// What the client calls each query: its place, and what it is called now.
    names: HashMap<String, (usize, String)>,
    /// Queries of this WITH that the visitor has left.
    left: usize,
    recursive: bool,
}

impl Level {
    /// What a query is called now, if it is known where the visitor is.
    fn find(&self, name: &str) -> Option<&str> {
        let (place, own) = self.names.get(name)?;
        // A query knows those before it.
        (self.recursive || *place < self.left).then_some(own)
    }
}

impl VisitorMut for Scopes<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        if query.fetch.as_ref().is_some_and(|fetch| fetch.with_ties) && query.order_by.is_none() {
            let message = "WITH TIES cannot be specified without ORDER BY clause";
            return ControlFlow::Break(SqlError::new(state::SYNTAX_ERROR, message));
        }
        let level = match &mut query.with {
            Some(with) => match self.level(with) {
                Ok(level) => level,
                Err(error) => return ControlFlow::Break(error),
            },
            None => Level::default(),
        };
        self.levels.push(level);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        self.levels.pop();
        if let Some(outer) = self.levels.last_mut() {
            outer.left += 1;
        }
        let outermost = self.levels.is_empty();
        let named_twice: Vec<bool> = match &query.with {
            Some(with) if outermost => {
                let mut counts = names::counts(&query.body);
                for (name, count) in with.cte_tables.iter().flat_map(|cte| names::counts(&cte.query)) {
                    *counts.entry(name).or_default() += count;
                }
                let count = |cte: &Cte| counts.get(&fold(&cte.alias.name)).copied().unwrap_or_default();
                with.cte_tables.iter().map(|cte| count(cte) > 1).collect()
            }
            _ => Vec::new(),
        };
        if let Some(with) = &mut query.with {
            let recursive = with.recursive;
            for (at, cte) in with.cte_tables.iter_mut().enumerate() {
                finish(cte, recursive, named_twice.get(at).is_some_and(|twice| *twice));
            }
            with.recursive = with.cte_tables.iter().any(is_recursive);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        if let Expr::Array(array) = expr
            && !array.elem.iter().all(|item| matches!(item, Expr::Value(_)))
        {
            *expr = call(ARRAY_LITERAL, std::mem::take(&mut array.elem));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        let TableFactor::Table {
            name,
            alias,
            args: None,
            sample,
            ..
        } = factor
        else {
            return ControlFlow::Continue(());
        };
        let [ObjectNamePart::Identifier(only)] = name.0.as_slice() else {
            return ControlFlow::Continue(());
        };
        let wanted = fold(only);
        let Some(own) = self.find(&wanted) else {
            return ControlFlow::Continue(());
        };
        if sample.is_some() {
            let message = "TABLESAMPLE clause can only be applied to tables and materialized views";
            return ControlFlow::Break(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
        }
        if own != wanted {
            let own = own.to_string();
            if alias.is_none() {
                *alias = Some(TableAlias {
                    explicit: true,
                    name: Ident::with_quote('"', wanted),
                    columns: Vec::new(),
                    at: None,
                });
            }
            *name = ObjectName(vec![ObjectNamePart::Identifier(Ident::with_quote('"', own))]);
        }
        ControlFlow::Continue(())
    }
}

impl Scopes<'_> {
    fn find(&self, name: &str) -> Option<&str> {
        self.levels.iter().rev().find_map(|level| level.find(name))
    }

    /// Checks a WITH, orders it and gives its queries names that no enclosing WITH has.
    fn level(&mut self, with: &mut With) -> Result<Level> {
        let mut known: HashSet<String> = HashSet::new();
        for cte in &with.cte_tables {
            let name = fold(&cte.alias.name);
            if known.contains(&name) {
                let message = format!("WITH query name \"{name}\" specified more than once");
                return Err(SqlError::new(state::DUPLICATE_ALIAS, message));
            }
            if matches!(cte.query.body.as_ref(), SetExpr::Merge(_)) {
                return Err(SqlError::unsupported_as("MERGE not supported in WITH query"));
            }
            if matches!(
                cte.query.body.as_ref(),
                SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)
            ) {
                let message = "WITH clause containing a data-modifying statement must be at the top level";
                return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
            }
            known.insert(name);
        }
        if with.recursive {
            recursion::order(&mut with.cte_tables)?;
            for cte in &with.cte_tables {
                recursion::check(cte)?;
            }
        }
        bounded(&with.cte_tables)?;
        let mut names = HashMap::with_capacity(with.cte_tables.len());
        for (place, cte) in with.cte_tables.iter_mut().enumerate() {
            let name = fold(&cte.alias.name);
            let is_own = |level: &Level| level.names.get(&name).is_some_and(|(_, own)| *own == name);
            let taken = self.levels.iter().any(is_own);
            // DataFusion plans a view of that name even so, and this query may be the view's own.
            let taken = taken || matches!(self.binder.names().find(None, &name), Some(Relation::View(_)));
            let own = match taken {
                true => {
                    self.renamed += 1;
                    format!("{name}\u{1}{}", self.renamed)
                }
                false => name.clone(),
            };
            if own != name {
                cte.alias.name = Ident::with_quote('"', own.clone());
            }
            names.insert(name, (place, own));
        }
        Ok(Level {
            names,
            left: 0,
            recursive: with.recursive,
        })
    }
}

/// How often the queries of a WITH may stand in a plan, which has each where it is named.
const COPIES_MAX: usize = 4096;

/// Refuses queries that name each other so often that their plan would have no end.
fn bounded(ctes: &[Cte]) -> Result<()> {
    let mut sizes: HashMap<String, usize> = HashMap::with_capacity(ctes.len());
    for cte in ctes {
        let named = names::counts(&cte.query).into_iter();
        let named = named.filter_map(|(name, count)| Some(sizes.get(&name)?.saturating_mul(count)));
        let size = named.fold(1usize, usize::saturating_add);
        if size > COPIES_MAX {
            let message = format!("WITH query \"{}\" is too complex", fold(&cte.alias.name));
            return Err(SqlError::new(state::PROGRAM_LIMIT_EXCEEDED, message).detail(format!(
                "The queries that it names would be planned more than {COPIES_MAX} times."
            )));
        }
        sizes.insert(fold(&cte.alias.name), size);
    }
    Ok(())
}

/// Whether a query of WITH, its own name in place, refers to itself.
fn is_recursive(cte: &Cte) -> bool {
    refers_to(&cte.query, &fold(&cte.alias.name))
}

/// `shared`: the query is named more than once, and not within a subquery, which may have to run for each row.
fn finish(cte: &mut Cte, recursive: bool, shared: bool) {
    if recursive && is_recursive(cte) {
        share_with(&mut cte.query);
        return;
    }
    let mark = match cte.materialized {
        Some(CteAsMaterialized::Materialized) => ONCE_MARK,
        None if shared => ONCE_IF_COSTLY_MARK,
        _ => ONCE_IF_VOLATILE_MARK,
    };
    cte.materialized = None;
    let alias = TableAlias {
        explicit: true,
        name: Ident::with_quote('"', format!("{mark}{}", fold(&cte.alias.name))),
        columns: std::mem::take(&mut cte.alias.columns),
        at: None,
    };
    wrap(&mut cte.query, alias);
}

/// `SELECT * FROM (query) AS alias`.
fn wrap(query: &mut Box<Query>, alias: TableAlias) {
    let relation = TableFactor::Derived {
        lateral: false,
        subquery: std::mem::replace(query, template()),
        alias: Some(alias),
        sample: None,
    };
    let all = SelectItem::Wildcard(Default::default());
    *query = select::query(vec![all], vec![select::alone(relation)], None);
}

/// The WITH of a recursive query's own, for both of its sides.
fn share_with(query: &mut Query) {
    while let SetExpr::Query(inner) = query.body.as_mut()
        && query.with.is_none()
    {
        let inner = std::mem::replace(inner, template());
        *query = *inner;
    }
    let Some(with) = query.with.take() else { return };
    if let SetExpr::SetOperation { left, right, .. } = query.body.as_mut() {
        for side in [left, right] {
            let mut own = template();
            std::mem::swap(&mut own.body, side);
            own.with = Some(with.clone());
            **side = SetExpr::Query(own);
        }
    } else {
        query.with = Some(with);
    }
}

fn template() -> Box<Query> {
    select::query(Vec::new(), Vec::new(), None)
}
