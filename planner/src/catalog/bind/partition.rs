//! A partition in FROM: the rows of its table that its bound lets in.

use super::Binder;
use crate::catalog::partitions;
use crate::pg::error::{Result, SqlError};
use crate::pg::parse::parse;
use crate::pg::rewrite::rewrite;
use crate::pg::statement::Kind;
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::logical_expr::TableSource;
use std::sync::Arc;
use tenon_storage::Partition;

pub(super) fn source(binder: &Binder, partition: &Partition) -> Result<Arc<dyn TableSource>> {
    // Its rows are read by the right to read it.
    let binder = binder.deeper()?.trusted();
    let sql = partitions::query(&binder.snapshot, partition)?;
    let Some(Kind::Sql(mut tree)) = parse(&sql)?.into_iter().next().map(|first| first.kind) else {
        return Err(SqlError::internal("a partition has no query"));
    };
    rewrite(tree.as_mut());
    let plan = binder.plan(*tree, Vec::new())?;
    Ok(provider_as_source(Arc::new(ViewTable::new(plan, None))))
}
