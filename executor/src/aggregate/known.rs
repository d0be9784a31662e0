//! Counts, smallest and largest values of a whole table, which its statistics know: no row is read for them.

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, new_null_array};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;
use tenon_storage::{Bound, TableStatistics};

use super::spec::GroupSpec;
use crate::scan::ScanExec;

/// Nodes that give the rows of their input.
const HANDS_ON: [&str; 4] = [
    "CoalescePartitionsExec",
    "CooperativeExec",
    "PiecesExec",
    "UnorderedExec",
];

/// The row that a grouping without keys gives of `input`; None where statistics do not know it.
pub(super) fn known(input: &Arc<dyn ExecutionPlan>, spec: &GroupSpec) -> Result<Option<RecordBatch>> {
    let of_all = spec.keys.is_empty() && spec.sets.is_empty() && spec.filters.iter().all(Option::is_none);
    let Some(scan) = scan(input).filter(|scan| of_all && scan.gives_all()) else {
        return Ok(None);
    };
    let statistics = scan.table().statistics();
    let mut columns = Vec::with_capacity(spec.aggregates.len());
    for (aggregate, field) in spec.aggregates.iter().zip(spec.schema.fields()) {
        match value(aggregate, scan, statistics, field.data_type()) {
            Some(value) if value.data_type() == field.data_type() => columns.push(value),
            _ => return Ok(None),
        }
    }
    if columns.is_empty() {
        return Ok(None);
    }
    // As a scan that reads them all is counted.
    let usage = &scan.table().definition().usage;
    usage.scan();
    usage.scanned(statistics.rows as usize);
    Ok(Some(RecordBatch::try_new(Arc::clone(&spec.schema), columns)?))
}

fn scan(input: &Arc<dyn ExecutionPlan>) -> Option<&ScanExec> {
    let mut input = input;
    while HANDS_ON.contains(&input.name()) && input.fetch().is_none() {
        input = input.children().first()?;
    }
    input.downcast_ref()
}

fn value(
    aggregate: &AggregateFunctionExpr,
    scan: &ScanExec,
    statistics: &TableStatistics,
    data_type: &DataType,
) -> Option<ArrayRef> {
    let args = aggregate.expressions();
    let [arg] = args.as_slice() else { return None };
    if aggregate.is_distinct() || !aggregate.order_bys().is_empty() {
        return None;
    }
    let count = |rows: u64| Some(Arc::new(Int64Array::from(vec![i64::try_from(rows).ok()?])) as ArrayRef);
    let name = aggregate.fun().name();
    if let Some(literal) = arg.downcast_ref::<Literal>() {
        return match name == "count" && !literal.value().is_null() {
            true => count(statistics.rows),
            false => None,
        };
    }
    let at = *scan.columns().get(arg.downcast_ref::<Column>()?.index())?;
    let column = statistics.columns.get(at)?;
    let values = column.rows.checked_sub(column.null_count)?;
    let bound = match name {
        "count" => return count(values),
        "min" => &column.min,
        "max" => &column.max,
        _ => return None,
    };
    // Of floats that are equal, and of numerics, the bounds are not the values that are found among the rows.
    let is_value = |bound: &Bound| match bound {
        Bound::Int(_) | Bound::Decimal(_) => true,
        Bound::Float(value) => !value.is_nan() && *value != 0.0,
        Bound::Bytes(_) => *data_type == DataType::Utf8View,
        Bound::Bool(_) => false,
    };
    match bound {
        Some(bound) if column.bounds_met && is_value(bound) => bound.to_array(data_type),
        None if values == 0 => Some(new_null_array(data_type, 1)),
        _ => None,
    }
}
