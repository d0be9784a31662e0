//! FOR UPDATE and FOR SHARE in the queries within a statement: in FROM, in WHERE, in WITH, in what INSERT reads.
//!
//! Their rows are locked before the statement runs. A query that takes some of its rows (LIMIT, SKIP LOCKED) is run then, once,
//! and what it gave stands in its place; the others are run where they stand, over the snapshot in which their rows were locked.
//! Where a query locks what it reads of views, partitions and queries in its FROM, these are queries that lock.
//!
//! Where that can be, parameters of the statement stand for what was run at once: then all of them keep their plans (`stages`).

mod handed_on;

use super::stages::{self, Stages, Stands};
use super::{describe_tree, for_update, run_locked, run_tree, with};
use crate::catalog::bind::{Binder, fold};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::names::refers_to;
use crate::pg::outcome::{ColumnDesc, Outcome};
use crate::pg::parse::select;
use crate::pg::walk::VisitMut;
use crate::session::{Prepared, Session};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Cte, Expr, Ident, NonBlock, ObjectName, ObjectNamePart, Query, SelectItem, SetExpr, Statement,
    TableFactor, UnaryOperator, Value, VisitorMut, With,
};
use futures::TryStreamExt;
use std::ops::ControlFlow;

/// A query within the statement that locks rows, with the queries of WITH around it that it may name.
struct Inner {
    stands: Stands,
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
    let is_whole = prepared.tree().is_some_and(|own| std::ptr::eq(own, tree)) && !session.surroundings.are_some();
    if is_whole && let Some(known) = stages::known(session, prepared) {
        return run_stages(session, &known, params).await.map(Some);
    }
    let binder = session.binder();
    let find = |params: Option<usize>| {
        let mut rest = tree.clone();
        let mut finder = Finder {
            binder: &binder,
            whole,
            params,
            around: Vec::new(),
            found: Vec::new(),
        };
        match rest.visit(&mut finder) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok((rest, finder.found)),
        }
    };
    let (rest, found) = find(is_whole.then_some(prepared.param_fields.len()))?;
    if found.is_empty() {
        return Ok(None);
    }
    // What does not come again is not worth it.
    if is_whole && prepared.slot.is_repeated() {
        let parts = found.into_iter();
        let parts = parts
            .map(|inner| (inner.stands, Statement::Query(inner.query)))
            .collect();
        if let Some(made) = Stages::keep(session, prepared, parts, rest) {
            return run_stages(session, &made, params).await.map(Some);
        }
    }
    let (rest, found) = find(None)?;
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
            match &inner.stands {
                Stands::Rows(name) if first => {
                    let query = Statement::Query(inner.query.clone());
                    // Plans that are kept are the whole statement's.
                    let own = Prepared {
                        params: prepared.params.clone(),
                        param_data_types: prepared.param_data_types.clone(),
                        param_fields: prepared.param_fields.clone(),
                        ..Prepared::without_parameters(prepared.statement.clone())
                    };
                    let outcome = Box::pin(run_tree(session, &own, &query, params)).await?;
                    let (columns, batches) = rows_of(outcome).await?;
                    let relation = with::rows_as(name.clone(), |_| None, &columns, batches)?;
                    session.surroundings.relations.push(relation);
                }
                Stands::Itself => moved |= for_update::lock(session, prepared, &inner.query, params).await?.moved,
                _ => {}
            }
        }
        // Over a newer snapshot, those before may find other rows.
        if !moved {
            return Ok(());
        }
        first = false;
    }
}

async fn rows_of(outcome: Outcome) -> Result<(Vec<ColumnDesc>, Vec<RecordBatch>)> {
    match outcome {
        Outcome::Rows { columns, stream, .. } => Ok((columns, stream.try_collect().await?)),
        _ => Err(SqlError::internal("a query gives no rows")),
    }
}

/// The same with plans that are kept.
async fn run_stages(session: &mut Session, stages: &Stages, params: &[ScalarValue]) -> Result<Outcome> {
    let mut values = params.to_vec();
    let mut first = true;
    loop {
        let mut moved = false;
        for (at, (stands, own)) in stages.parts.iter().enumerate() {
            match (stands, own.query()) {
                (Stands::Itself, Some(query)) => {
                    let given = values[..own.param_fields.len()].to_vec();
                    moved |= for_update::lock(session, own, query, &given).await?.moved;
                }
                _ if first => stages.run_part(session, at, &mut values).await?,
                _ => {}
            }
        }
        // Over a newer snapshot, those before may find other rows.
        if !moved {
            return stages.run_rest(session, &values).await;
        }
        first = false;
    }
}

struct Finder<'a> {
    binder: &'a Binder,
    /// Whether the outermost query is the statement itself, which locks its own rows.
    whole: bool,
    /// How many parameters there are, where values are to be parameters after them.
    params: Option<usize>,
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
        let stands = if skips || changes || query.limit_clause.is_some() || query.fetch.is_some() {
            let name = format!("\u{1}locked {}", self.found.len());
            let relation = ObjectName(vec![ObjectNamePart::Identifier(Ident::with_quote('"', &name))]);
            let Statement::Query(rows) = select::over(relation, vec![SelectItem::Wildcard(Default::default())]) else {
                return ControlFlow::Break(SqlError::internal("a SELECT is no query"));
            };
            *query = *rows;
            Stands::Rows(name)
        } else {
            query.locks.clear();
            Stands::Itself
        };
        self.found.push(Inner { stands, query: own });
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        let Some(params) = self.params else {
            return ControlFlow::Continue(());
        };
        let before = self.found.iter().filter(|inner| inner.stands.is_parameter()).count();
        let Some(last) = self.found.last_mut() else {
            return ControlFlow::Continue(());
        };
        let is_last = |query: &Query| matches!(&last.stands, Stands::Rows(name) if is_over(query, name));
        let value = Value::Placeholder(format!("${}", params + before + 1));
        let value = Box::new(Expr::Value(value.into()));
        match expr {
            Expr::Subquery(query) if is_last(query) => {
                last.stands = Stands::Value;
                *expr = *value;
            }
            Expr::InSubquery {
                expr: left,
                subquery,
                negated,
            } if is_last(subquery) && !matches!(left.as_ref(), Expr::Tuple(_)) => {
                last.stands = Stands::Values;
                let is_among = Expr::AnyOp {
                    left: left.clone(),
                    compare_op: BinaryOperator::Eq,
                    right: value,
                    is_some: false,
                };
                *expr = match negated {
                    true => Expr::UnaryOp {
                        op: UnaryOperator::Not,
                        expr: Box::new(Expr::Nested(Box::new(is_among))),
                    },
                    false => is_among,
                };
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Whether a query is all of the relation that stands for one.
fn is_over(query: &Query, name: &str) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return false;
    };
    match select.from.as_slice() {
        [only] => matches!(&only.relation, TableFactor::Table { name: own, .. }
            if own.0.last().and_then(|part| part.as_ident()).is_some_and(|part| part.value == name)),
        _ => false,
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
}
