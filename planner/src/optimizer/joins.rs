//! DataFusion's joins as `JoinExec`.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter, build_join_schema};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use tenon_executor::join::{JoinExec, JoinSpec, RangeCondition};
use tenon_executor::options::JoinOptions;

type Plan = Arc<dyn ExecutionPlan>;

/// `plan` as a `JoinExec`, if it is a join. `partitions` is what joins without keys split their work into.
pub fn replace(plan: Plan, partitions: usize) -> Result<Plan> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return hash_join(join).map(|made| made.unwrap_or_else(|| Arc::clone(&plan)));
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        let (left, right) = (join.left(), join.right());
        let sides = (&*left.schema(), &*right.schema());
        let output = output(sides, *join.join_type(), join.projection().as_deref());
        let columns = (plan.schema(), output);
        return keyless((left, right), *join.join_type(), join.filter(), columns, partitions);
    }
    if let Some(join) = plan.downcast_ref::<CrossJoinExec>() {
        let inputs = (join.left(), join.right());
        let output = output((&inputs.0.schema(), &inputs.1.schema()), JoinType::Inner, None);
        return keyless(inputs, JoinType::Inner, None, (plan.schema(), output), partitions);
    }
    Ok(plan)
}

/// The plan with the choice of every join foreseen, for so many cores. Fails where the session asks for an operator that cannot be.
pub fn choose(plan: Plan, options: &JoinOptions, cores: usize) -> Result<Plan> {
    let chosen = plan.transform_up(|node| match node.downcast_ref::<JoinExec>() {
        Some(join) => Ok(Transformed::yes(Arc::new(join.planned(options, cores)?) as Plan)),
        None => Ok(Transformed::no(node)),
    })?;
    Ok(chosen.data)
}

/// None where the two sides' keys differ in type.
fn hash_join(join: &HashJoinExec) -> Result<Option<Plan>> {
    let (left, right) = (join.left().schema(), join.right().schema());
    let nullable = |key: &Arc<dyn PhysicalExpr>, schema| key.nullable(schema).unwrap_or(true);
    let null_keys = join.on().iter().any(|(l, r)| nullable(l, &left) || nullable(r, &right));
    let null_equal = join.null_equality() == NullEquality::NullEqualsNull;
    let null_aware = join.null_aware && null_keys;
    let mut streams = !null_equal && !null_aware;
    for (l, r) in join.on() {
        let key = l.data_type(&left)?;
        if key != r.data_type(&right)? {
            return Ok(None);
        }
        streams &= is_arrow_key(&key);
    }
    let (build_keys, probe_keys) = join.on().iter().cloned().unzip();
    let output = output((&left, &right), *join.join_type(), join.projection.as_deref());
    let spec = JoinSpec {
        build_keys,
        probe_keys,
        join_type: *join.join_type(),
        filter: join.filter().cloned(),
        range: None,
        null_equal,
        null_aware,
        streams,
        partitions: 0,
        output,
    };
    let inputs = (Arc::clone(join.left()), Arc::clone(join.right()));
    Ok(Some(Arc::new(JoinExec::new(inputs.0, inputs.1, spec, join.schema()))))
}

fn keyless(
    (left, right): (&Plan, &Plan),
    join_type: JoinType,
    filter: Option<&JoinFilter>,
    (schema, output): (SchemaRef, Vec<ColumnIndex>),
    partitions: usize,
) -> Result<Plan> {
    let range = match filter {
        Some(filter) => RangeCondition::of(filter)?,
        None => None,
    };
    let spec = JoinSpec {
        build_keys: vec![],
        probe_keys: vec![],
        join_type,
        filter: filter.cloned(),
        range,
        null_equal: false,
        null_aware: false,
        streams: true,
        partitions,
        output,
    };
    let inputs = (Arc::clone(left), Arc::clone(right));
    Ok(Arc::new(JoinExec::new(inputs.0, inputs.1, spec, schema)))
}

/// Where the output's columns come from.
fn output((left, right): (&Schema, &Schema), join_type: JoinType, projection: Option<&[usize]>) -> Vec<ColumnIndex> {
    let (_, indices) = build_join_schema(left, right, &join_type);
    match projection {
        None => indices,
        Some(projection) => projection.iter().map(|&at| indices[at].clone()).collect(),
    }
}

/// Types whose equality Arrow's comparison kernel decides as SQL does.
fn is_arrow_key(data_type: &DataType) -> bool {
    use DataType::*;
    tenon_executor::keys::is_integer_key(data_type)
        || matches!(
            data_type,
            Utf8 | Utf8View | LargeUtf8 | Binary | BinaryView | LargeBinary | FixedSizeBinary(_)
        )
        || matches!(data_type, UInt64 | Decimal128(..) | Decimal256(..) | Interval(_))
}
