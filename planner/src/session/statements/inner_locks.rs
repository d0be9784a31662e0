//! FOR UPDATE and FOR SHARE in the queries within a statement: in FROM, in WHERE, in WITH, in what INSERT reads.
//!
//! Their rows are locked before the statement runs. A query that takes some of its rows (LIMIT, SKIP LOCKED) is run then, once,
//! and what it gave stands in its place; the others are run where they stand, over the snapshot in which their rows were locked.
//! Where a query locks what it reads of views, partitions and queries in its FROM, these are queries that lock.

use super::{describe_tree, for_update, run_locked, run_tree, with};
use crate::catalog::bind::{Binder, fold};
use crate::catalog::through::{self, Use};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::names::refers_to;
use crate::pg::outcome::Outcome;
use crate::pg::parse::{parse_query, select};
use crate::pg::walk::VisitMut;
use crate::session::{Prepared, Session};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    Cte, Ident, LockClause, NonBlock, ObjectName, ObjectNamePart, Query, SelectItem, SetExpr, Statement, TableAlias,
    TableFactor, VisitorMut, With,
};
use futures::TryStreamExt;
use std::ops::ControlFlow;
use tenon_storage::Relation;

/// A query within the statement that locks rows, with the queries of WITH around it that it may name.
struct Inner {
    /// What stands for its rows, where it is run at once.
    name: Option<String>,
    query: Box<Query>,
}

/// Runs a statement with queries that lock rows within it; None for any other.
pub(super) async fn run(
    session: &mut Session,
    prepared: &Prepared,
    tree: &Statement,
    params: &[ScalarValue],
) -> Result<Option<Outcome>> {
    let whole = match tree {
        Statement::Query(_) | Statement::Declare { .. } => true,
        Statement::Insert(_)
        | Statement::Update(_)
        | Statement::Delete(_)
        | Statement::Merge(_)
        | Statement::CreateTable(_) => false,
        _ => return Ok(None),
    };
    let binder = session.binder();
    let mut rest = tree.clone();
    let mut finder = Finder {
        binder: &binder,
        whole,
        around: Vec::new(),
        found: Vec::new(),
    };
    if let ControlFlow::Break(error) = rest.visit(&mut finder) {
        return Err(error);
    }
    let found = finder.found;
    if found.is_empty() {
        return Ok(None);
    }
    let outer = session.surroundings.clone();
    let result = match lock_all(session, prepared, &found, params).await {
        Ok(()) => Box::pin(run_locked(session, prepared, &rest, params)).await,
        Err(error) => Err(error),
    };
    session.surroundings = outer;
    match result {
        // A query that names columns or queries around it cannot be run alone.
        Err(error) if [state::UNDEFINED_COLUMN, state::UNDEFINED_TABLE].contains(&error.state) => {
            let types: Vec<u32> = prepared.params.iter().map(|param| param.oid).collect();
            describe_tree(session, tree, &types)?;
            Err(SqlError::unsupported(
                "row locks in a query that names columns around it",
            ))
        }
        result => result.map(Some),
    }
}

async fn lock_all(session: &mut Session, prepared: &Prepared, found: &[Inner], params: &[ScalarValue]) -> Result<()> {
    let mut first = true;
    loop {
        let mut moved = false;
        for inner in found {
            match &inner.name {
                None => moved |= for_update::lock(session, prepared, &inner.query, params).await?.moved,
                Some(name) if first => {
                    let query = Statement::Query(inner.query.clone());
                    // Plans that are kept are the whole statement's.
                    let own = Prepared {
                        params: prepared.params.clone(),
                        param_data_types: prepared.param_data_types.clone(),
                        param_fields: prepared.param_fields.clone(),
                        ..Prepared::without_parameters(prepared.statement.clone())
                    };
                    let outcome = Box::pin(run_tree(session, &own, &query, params)).await?;
                    let Outcome::Rows { columns, stream, .. } = outcome else {
                        return Err(SqlError::internal("a query gives no rows"));
                    };
                    let batches: Vec<RecordBatch> = stream.try_collect().await?;
                    let relation = with::rows_as(name.clone(), |_| None, &columns, batches)?;
                    session.surroundings.relations.push(relation);
                }
                Some(_) => {}
            }
        }
        // Over a newer snapshot, those before may find other rows.
        if !moved {
            return Ok(());
        }
        first = false;
    }
}

struct Finder<'a> {
    binder: &'a Binder,
    /// Whether the outermost query is the statement itself, which locks its own rows.
    whole: bool,
    /// WITH of each query around, and which of the one before it the query is.
    around: Vec<(Option<With>, Option<usize>)>,
    found: Vec<Inner>,
}

impl VisitorMut for Finder<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        let with = self.around.last().and_then(|(with, _)| with.as_ref());
        let at = with.and_then(|with| with.cte_tables.iter().position(|cte| *cte.query == *query));
        if !query.locks.is_empty()
            && let Err(error) = self.hand_on(query)
        {
            return ControlFlow::Break(error);
        }
        self.around.push((query.with.clone(), at));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        let Some((_, at)) = self.around.pop() else {
            return ControlFlow::Continue(());
        };
        if query.locks.is_empty() || self.whole && self.around.is_empty() {
            return ControlFlow::Continue(());
        }
        let mut own = Box::new(query.clone());
        if let Err(error) = self.surround(&mut own, at) {
            return ControlFlow::Break(error);
        }
        let skips = query
            .locks
            .iter()
            .any(|lock| lock.nonblock == Some(NonBlock::SkipLocked));
        let changes = query.with.iter().any(|with| with.cte_tables.iter().any(with::changes));
        let name = if skips || changes || query.limit_clause.is_some() || query.fetch.is_some() {
            let name = format!("\u{1}locked {}", self.found.len());
            let relation = ObjectName(vec![ObjectNamePart::Identifier(Ident::with_quote('"', &name))]);
            let Statement::Query(rows) = select::over(relation, vec![SelectItem::Wildcard(Default::default())]) else {
                return ControlFlow::Break(SqlError::internal("a SELECT is no query"));
            };
            *query = *rows;
            Some(name)
        } else {
            query.locks.clear();
            None
        };
        self.found.push(Inner { name, query: own });
        ControlFlow::Continue(())
    }
}

impl Finder<'_> {
    /// Gives a query that is taken out of the statement the queries of WITH around it.
    fn surround(&self, query: &mut Query, at: Option<usize>) -> Result<()> {
        let next = self.around.iter().skip(1).map(|(_, at)| *at).chain([at]);
        let mut known: Vec<Cte> = Vec::new();
        let mut recursive = false;
        for ((with, _), inside) in self.around.iter().zip(next) {
            let Some(with) = with else { continue };
            recursive |= with.recursive;
            known.extend(
                with.cte_tables[..inside.unwrap_or(with.cte_tables.len())]
                    .iter()
                    .cloned(),
            );
        }
        let named = |cte: &Cte| refers_to(query, &fold(&cte.alias.name));
        if !known.iter().any(named) {
            return Ok(());
        }
        if known.iter().any(with::changes) {
            return Err(SqlError::unsupported("row locks in a query beside changes in WITH"));
        }
        let own = query.with.take();
        query.with = Some(With {
            with_token: own.as_ref().map_or_else(
                datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken::empty,
                |own| own.with_token.clone(),
            ),
            recursive: recursive || own.as_ref().is_some_and(|own| own.recursive),
            cte_tables: known
                .into_iter()
                .chain(own.into_iter().flat_map(|own| own.cte_tables))
                .collect(),
        });
        Ok(())
    }

    /// A lock on a query, a view or a partition in FROM is one on the rows that it reads.
    fn hand_on(&self, query: &mut Query) -> Result<()> {
        let locks = query.locks.clone();
        let mut shadowed: Vec<String> = Vec::new();
        let own = query.with.iter();
        for with in self.around.iter().flat_map(|(with, _)| with.iter()).chain(own) {
            shadowed.extend(with.cte_tables.iter().map(|cte| fold(&cte.alias.name)));
        }
        let SetExpr::Select(select) = query.body.as_mut() else {
            return Ok(());
        };
        for table in &mut select.from {
            let joined = table.joins.iter_mut().map(|join| &mut join.relation);
            for factor in std::iter::once(&mut table.relation).chain(joined) {
                self.hand_to(factor, &locks, &shadowed)?;
            }
        }
        Ok(())
    }

    fn hand_to(&self, factor: &mut TableFactor, locks: &[LockClause], shadowed: &[String]) -> Result<()> {
        let mine = |alias: &str| {
            let mine = locks.iter().filter(|lock| for_update::names(lock, alias));
            let mine = mine.map(|lock| LockClause {
                of: None,
                ..lock.clone()
            });
            mine.collect::<Vec<_>>()
        };
        match factor {
            TableFactor::Derived { subquery, alias, .. } => {
                let alias = alias.as_ref().map(|alias| fold(&alias.name)).unwrap_or_default();
                if !matches!(subquery.body.as_ref(), SetExpr::Values(_)) {
                    subquery.locks.extend(mine(&alias));
                }
                Ok(())
            }
            TableFactor::Table {
                name,
                alias,
                args: None,
                ..
            } => {
                let last = name.0.last().and_then(|part| part.as_ident()).map(fold);
                let last = last.unwrap_or_default();
                if name.0.len() == 1 && shadowed.contains(&last) {
                    return Ok(());
                }
                let known_as = alias.as_ref().map_or(last, |alias| fold(&alias.name));
                let locks = mine(&known_as);
                if locks.is_empty() {
                    return Ok(());
                }
                let Some((mut rows, mut columns)) = self.rows_of(name)? else {
                    return Ok(());
                };
                rows.locks = locks;
                let renamed = alias.iter().flat_map(|alias| &alias.columns);
                for (column, renamed) in columns.iter_mut().zip(renamed) {
                    *column = renamed.name.clone();
                }
                *factor = select::derived(rows, &known_as, &columns);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The query that a view or a partition is, and the names of its columns.
    fn rows_of(&self, name: &ObjectName) -> Result<Option<(Box<Query>, Vec<Ident>)>> {
        let quoted = |name: &str| Ident::with_quote('"', name);
        let through = match self.binder.names().relation(name) {
            Ok(Relation::Partition(partition)) => through::of_partition(self.binder, partition)?,
            Ok(Relation::View(view)) => match through::of(self.binder, view, Use::Update) {
                Ok(through) => through,
                Err(_) => {
                    let query = parse_query(&view.sql)?.ok_or_else(|| SqlError::internal("a view has no query"))?;
                    let columns = view.schema.fields().iter();
                    return Ok(Some((query, columns.map(|field| quoted(field.name())).collect())));
                }
            },
            _ => return Ok(None),
        };
        let names: Vec<Ident> = through.columns.iter().map(|(name, _)| quoted(name)).collect();
        let items = through
            .columns
            .into_iter()
            .map(|(_, expr)| SelectItem::UnnamedExpr(expr));
        let definition = through.table.definition();
        let base = [&definition.schema_name, &definition.name].map(|part| ObjectNamePart::Identifier(quoted(part)));
        let mut rows = select::over(ObjectName(base.to_vec()), items.collect());
        select::restrict(&mut rows, through.selection);
        let Statement::Query(mut rows) = rows else {
            return Err(SqlError::internal("a SELECT is no query"));
        };
        if let SetExpr::Select(select) = rows.body.as_mut()
            && let Some(TableFactor::Table { alias, .. }) = select.from.first_mut().map(|from| &mut from.relation)
        {
            *alias = Some(TableAlias {
                explicit: true,
                name: quoted(through::BASE),
                columns: Vec::new(),
                at: None,
            });
        }
        Ok(Some((rows, names)))
    }
}
