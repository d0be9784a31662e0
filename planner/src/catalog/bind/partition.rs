//! A partition in FROM: the rows of its table that its bound lets in.

use super::Binder;
use crate::catalog::partitions;
use crate::pg::error::{Result, SqlError};
use crate::pg::parse::parse;
use crate::pg::rewrite::rewrite;
use crate::pg::statement::Kind;
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::logical_expr::TableSource;
use datafusion::sql::sqlparser::ast::{Expr, Ident, SelectItem, SetExpr, Statement};
use std::sync::Arc;
use tenon_executor::scan::ADDRESS_FIELD;
use tenon_storage::Partition;

/// With the addresses of the rows where these are asked for.
pub(super) fn source(binder: &Binder, partition: &Partition, addressed: bool) -> Result<Arc<dyn TableSource>> {
    // Its rows are read by the right to read it.
    let mut binder = binder.deeper()?.trusted();
    binder.reads = binder.reads.within_partition();
    let sql = partitions::query(&binder.snapshot, partition)?;
    let Some(Kind::Sql(mut tree)) = parse(&sql)?.into_iter().next().map(|first| first.kind) else {
        return Err(SqlError::internal("a partition has no query"));
    };
    if let Statement::Query(query) = tree.as_mut()
        && let SetExpr::Select(select) = query.body.as_mut()
        && addressed
    {
        select.projection.push(SelectItem::ExprWithAlias {
            expr: Expr::Identifier(Ident::new("ctid")),
            alias: Ident::with_quote('"', ADDRESS_FIELD),
        });
    }
    rewrite(tree.as_mut());
    let plan = binder.plan(*tree, Vec::new())?;
    Ok(provider_as_source(Arc::new(ViewTable::new(plan, None))))
}
