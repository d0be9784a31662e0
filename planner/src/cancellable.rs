//! Plans that notice a cancel inside of long work: a join that makes millions of rows of one batch would otherwise keep
//! its thread until it is done, long after its client has gone.

use crate::error::Result;
use crate::errors::from_datafusion;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{CrossJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Makes nested loop joins check the token at each piece that their filter sees, and those and cross joins give the
/// thread back now and then.
pub(crate) fn cancellable(plan: Arc<dyn ExecutionPlan>, token: &CancellationToken) -> Result<Arc<dyn ExecutionPlan>> {
    let watched = plan.transform_up(|node| {
        if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
            let filter = join.filter().map(|filter| {
                let inner = Arc::clone(filter.expression());
                let watched = Watched {
                    inner,
                    token: token.clone(),
                };
                JoinFilter::new(
                    Arc::new(watched),
                    filter.column_indices().to_vec(),
                    Arc::clone(filter.schema()),
                )
            });
            let join = NestedLoopJoinExecBuilder::from(join).with_filter(filter).build()?;
            return Ok(Transformed::yes(
                Arc::new(CooperativeExec::new(Arc::new(join))) as Arc<dyn ExecutionPlan>
            ));
        }
        if node.downcast_ref::<CrossJoinExec>().is_some() {
            return Ok(Transformed::yes(
                Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>
            ));
        }
        Ok(Transformed::no(node))
    });
    watched
        .map(|transformed| transformed.data)
        .map_err(|error| from_datafusion(&error))
}

/// An expression that fails once the token is cancelled.
#[derive(Debug)]
struct Watched {
    inner: Arc<dyn PhysicalExpr>,
    token: CancellationToken,
}

impl PhysicalExpr for Watched {
    fn data_type(&self, schema: &Schema) -> DataFusionResult<DataType> {
        self.inner.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> DataFusionResult<bool> {
        self.inner.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> DataFusionResult<ColumnarValue> {
        if self.token.is_cancelled() {
            return Err(DataFusionError::External(Box::new(crate::run::canceled())));
        }
        self.inner.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> DataFusionResult<Arc<dyn PhysicalExpr>> {
        let inner = children.pop().unwrap_or_else(|| Arc::clone(&self.inner));
        Ok(Arc::new(Watched {
            inner,
            token: self.token.clone(),
        }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PartialEq for Watched {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for Watched {}

impl Hash for Watched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}
