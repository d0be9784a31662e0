//! Which of DataFusion's hash joins become `JoinExec`.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{NullEquality, Result};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use tenon_executor::join::{JoinExec, JoinSpec};

/// `plan` as a `JoinExec`, if it is a hash join that `JoinExec` computes; else `plan`.
pub fn replace(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else {
        return Ok(plan);
    };
    let (left, right) = (join.left().schema(), join.right().schema());
    let nullable = |key: &Arc<dyn PhysicalExpr>, schema| key.nullable(schema).unwrap_or(true);
    let null_keys = join.on().iter().any(|(l, r)| nullable(l, &left) || nullable(r, &right));
    if join.null_equality() != NullEquality::NullEqualsNothing || (join.null_aware && null_keys) {
        return Ok(plan);
    }
    for (l, r) in join.on() {
        let (left_type, right_type) = (l.data_type(&left)?, r.data_type(&right)?);
        if left_type != right_type || !is_key(&left_type) {
            return Ok(plan);
        }
    }
    let (schema, indices) = build_join_schema(&left, &right, join.join_type());
    let (schema, output) = match &join.projection {
        None => (schema, indices),
        Some(projection) => (
            schema.project(projection)?,
            projection.iter().map(|&at| indices[at].clone()).collect(),
        ),
    };
    let (build_keys, probe_keys) = join.on().iter().cloned().unzip();
    let spec = JoinSpec {
        build_keys,
        probe_keys,
        join_type: *join.join_type(),
        filter: join.filter().cloned(),
        output,
    };
    Ok(Arc::new(JoinExec::new(
        Arc::clone(join.left()),
        Arc::clone(join.right()),
        spec,
        Arc::new(schema),
    )))
}

/// Types whose equality Arrow's comparison kernel decides as SQL does.
fn is_key(data_type: &DataType) -> bool {
    use DataType::*;
    tenon_executor::keys::is_exact(data_type)
        || matches!(
            data_type,
            Utf8 | Utf8View | LargeUtf8 | Binary | BinaryView | LargeBinary | FixedSizeBinary(_)
        )
        || matches!(data_type, UInt64 | Decimal128(..) | Decimal256(..) | Interval(_))
}
