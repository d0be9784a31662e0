//! Locks on what a query reads of views, partitions and queries in its FROM, which are queries that lock.

use super::Finder;
use crate::catalog::bind::fold;
use crate::catalog::through::{self, Use};
use crate::pg::error::{Result, SqlError};
use crate::pg::parse::{parse_query, select};
use crate::session::statements::for_update;
use datafusion::sql::sqlparser::ast::{
    Ident, LockClause, ObjectName, ObjectNamePart, Query, SelectItem, SetExpr, Statement, TableAlias, TableFactor,
};
use tenon_storage::Relation;

impl Finder<'_> {
    /// A lock on a query, a view or a partition in FROM is one on the rows that it reads.
    pub(super) fn hand_on(&self, query: &mut Query) -> Result<()> {
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
