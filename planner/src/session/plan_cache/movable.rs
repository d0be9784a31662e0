//! Plans that are run over other versions of their tables than they were made for.
//!
//! What a version of a table tells goes into a plan in many ways: constants in the place of aggregates, empty inputs left
//! out, sorts that are not needed, the choice of joins. So only plans of which all that is known are moved: those of nodes
//! that do the same over any rows (`optimizer/few.rs`), in which every table that the query reads is still read, whose scans
//! have ordered columns where they had some when the plan was made, and whose joins find the indexes that they look rows up in.
//! Indexes of scans are chosen anew whenever a plan is moved.

use crate::optimizer::execution::{current, detached, scans};
use crate::optimizer::few::is_movable_node;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;
use tenon_executor::join::IndexJoinExec;
use tenon_executor::scan::ascends_like;
use tenon_storage::{DatabaseState, TableDefinition};

/// Tables that differ by fewer rows are of the same size.
const ROWS_FEW: u64 = 1000;
/// Tables whose rows have become so many times as many, or as few, deserve another plan.
const GROWTH: u64 = 4;

#[derive(Debug)]
pub(super) struct Movable {
    plan: Arc<dyn ExecutionPlan>,
    tables: Vec<Read>,
    /// Its joins that look rows up in an index.
    joins: Vec<Arc<dyn ExecutionPlan>>,
}

/// A table that the plan reads.
#[derive(Debug)]
struct Read {
    definition: Arc<TableDefinition>,
    /// When the plan was made.
    rows: u64,
    /// Columns that ascended then.
    ascending: Vec<usize>,
}

impl Movable {
    /// A plan of a query that reads tables `reads` times; None where it cannot be moved.
    pub fn of(plan: &Arc<dyn ExecutionPlan>, reads: usize) -> Option<Self> {
        if !are_movable(plan) {
            return None;
        }
        let mut found = vec![];
        scans(plan, &mut found);
        if found.len() != reads {
            return None;
        }
        let tables = found.iter().map(|scan| Read {
            definition: scan.table().definition().clone(),
            rows: scan.table().rows(),
            ascending: scan.ascending().to_vec(),
        });
        let tables = tables.collect();
        let plan = detached(plan).ok()?;
        let mut joins = vec![];
        index_joins(&plan, &mut joins);
        Some(Self { plan, tables, joins })
    }

    pub fn plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.plan
    }

    /// Whether it may be run over a state's tables. What names mean is known to be the same.
    pub fn fits(&self, state: &DatabaseState) -> bool {
        self.tables.iter().all(|read| {
            let found = state.table(&read.definition.schema_name, &read.definition.name);
            found.is_some_and(|table| {
                Arc::ptr_eq(table.definition(), &read.definition)
                    && is_alike(table.rows(), read.rows)
                    && ascends_like(table, &read.ascending)
            })
        }) && self.joins.iter().all(|join| finds_index(join, state))
    }
}

fn are_movable(plan: &Arc<dyn ExecutionPlan>) -> bool {
    is_movable_node(plan) && plan.children().into_iter().all(are_movable)
}

fn index_joins(plan: &Arc<dyn ExecutionPlan>, found: &mut Vec<Arc<dyn ExecutionPlan>>) {
    if plan.is::<IndexJoinExec>() {
        found.push(Arc::clone(plan));
    }
    plan.children().into_iter().for_each(|child| index_joins(child, found));
}

/// Whether the index that a join looks rows up in is there for a state's table, or soon made.
fn finds_index(join: &Arc<dyn ExecutionPlan>, state: &DatabaseState) -> bool {
    let Some(join) = join.downcast_ref::<IndexJoinExec>() else {
        return false;
    };
    current(state, join.inner()).is_ok_and(|table| join.reader_of(table).is_some())
}

/// Whether tables of so many rows are planned alike.
fn is_alike(rows: u64, other: u64) -> bool {
    let (less, more) = (rows.min(other), rows.max(other));
    more - less <= ROWS_FEW || more / GROWTH <= less
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (rows, other, alike) in [
            (0, 1000, true),
            (0, 1001, false),
            (1000, 4000, true),
            (1000, 4004, false),
            (u64::MAX, u64::MAX, true),
        ] {
            assert_eq!(is_alike(rows, other), alike, "{rows} {other}");
            assert_eq!(is_alike(other, rows), alike, "{rows} {other}");
        }
    }
}
