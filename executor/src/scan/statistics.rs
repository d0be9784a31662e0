//! Storage's exact statistics in DataFusion's terms.

use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use tenon_storage::types::NUMERIC;
use tenon_storage::{Bound, TableVersion};

/// Statistics of a whole table; columns of `schema` beyond the table's are unknown.
pub(super) fn of_table(table: &TableVersion, schema: &SchemaRef) -> Statistics {
    let own = table.statistics();
    let column_statistics = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(at, field)| match own.columns.get(at) {
            Some(column) => {
                let known = match column.bounds_met {
                    true => Precision::Exact,
                    false => Precision::Inexact,
                };
                let bound = |bound: &Option<Bound>| match bound {
                    // Bounds of numerics say nothing of their display scale, so that they are no results.
                    Some(bound) if *field.data_type() != NUMERIC => bound
                        .to_array(field.data_type())
                        .and_then(|one| ScalarValue::try_from_array(&one, 0).ok())
                        .map_or(Precision::Absent, known),
                    _ => Precision::Absent,
                };
                let distinct = table.distinct(at) as usize;
                ColumnStatistics {
                    null_count: Precision::Exact(column.null_count as usize),
                    min_value: bound(&column.min),
                    max_value: bound(&column.max),
                    sum_value: Precision::Absent,
                    distinct_count: Precision::Inexact(distinct),
                    byte_size: Precision::Absent,
                }
            }
            None => ColumnStatistics::new_unknown(),
        })
        .collect();
    Statistics {
        num_rows: Precision::Exact(own.rows as usize),
        total_byte_size: Precision::Inexact(table.bytes()),
        column_statistics,
    }
}
