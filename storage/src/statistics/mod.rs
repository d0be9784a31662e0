//! What is known of a column's values: counts and bounds, computed once when a segment is built and merged for tables
//! (`column`, `sketch`), and kept in files (`text`); how they are spread, sampled when a query or ANALYZE asks (`distribution`, `lazy`).

pub mod bound;
pub mod column;
pub mod distribution;
pub(crate) mod lazy;
pub mod sketch;
mod text;

pub use bound::Bound;
pub use column::ColumnStatistics;
pub use distribution::Distribution;
pub use lazy::analyze_count;
pub use sketch::Sketch;

/// A table version's statistics: exact counts, bounds, estimated distinct counts.
#[derive(Clone, Debug, Default)]
pub struct TableStatistics {
    pub rows: u64,
    /// One a column, in the table's order.
    pub columns: Vec<ColumnStatistics>,
    /// Rows that were removed since the bounds and the distinct counts were taken.
    pub(crate) removed: u64,
}

impl TableStatistics {
    /// Of a table with no rows.
    pub fn empty(columns: usize) -> Self {
        Self {
            rows: 0,
            columns: vec![ColumnStatistics::empty(); columns],
            removed: 0,
        }
    }

    /// Adds the statistics of rows that follow.
    pub fn append(&mut self, rows: u64, columns: &[ColumnStatistics]) {
        self.rows += rows;
        for (own, next) in self.columns.iter_mut().zip(columns) {
            own.append(next);
        }
    }
}
