//! What is left to test on candidate pairs: equal keys behind equal normalized keys, and the join's filter.

use arrow::array::{BooleanArray, UInt32Array};
use datafusion::common::Result;
use datafusion::common::cast::as_boolean_array;
use datafusion::physical_plan::joins::utils::JoinFilter;

use super::keys::Verify;
use crate::join::output::{SideColumns, SideRows, gather, keep_pairs};

/// The pairs whose keys are equal and that the filter accepts, where there is something to compare.
pub fn tested(
    verify: Option<&Verify>,
    filter: Option<&JoinFilter>,
    (build, probe): (&dyn SideColumns, &dyn SideColumns),
    (mut build_rows, mut probe_rows): (UInt32Array, UInt32Array),
) -> Result<(UInt32Array, UInt32Array)> {
    if let Some(verify) = verify {
        let equal = verify.equal(&build_rows, &probe_rows)?;
        (build_rows, probe_rows) = keep_pairs(build_rows, probe_rows, &equal);
    }
    if let Some(filter) = filter.filter(|_| !build_rows.is_empty()) {
        let accepted = accepted(filter, (build, probe), &build_rows, &probe_rows)?;
        (build_rows, probe_rows) = keep_pairs(build_rows, probe_rows, &accepted);
    }
    Ok((build_rows, probe_rows))
}

fn accepted(
    filter: &JoinFilter,
    (build, probe): (&dyn SideColumns, &dyn SideColumns),
    build_rows: &UInt32Array,
    probe_rows: &UInt32Array,
) -> Result<BooleanArray> {
    let rows = build_rows.len();
    let pairs = gather(
        filter.column_indices(),
        filter.schema(),
        (build, SideRows::Picked(build_rows)),
        (probe, SideRows::Picked(probe_rows)),
        None,
        rows,
    )?;
    let accepted = filter.expression().evaluate(&pairs)?.into_array(rows)?;
    Ok(as_boolean_array(&accepted)?.clone())
}
