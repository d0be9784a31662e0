//! What is known of a column's values: computed once when a segment is built, merged for tables.

pub mod bound;
pub mod column;
pub mod sketch;

pub use bound::Bound;
pub use column::ColumnStatistics;
pub use sketch::Sketch;

/// A table version's statistics: exact counts and bounds, estimated distinct counts.
#[derive(Clone, Debug, Default)]
pub struct TableStatistics {
    pub rows: u64,
    /// One a column, in the table's order.
    pub columns: Vec<ColumnStatistics>,
}

impl TableStatistics {
    /// Of a table with no rows.
    pub fn empty(columns: usize) -> Self {
        Self {
            rows: 0,
            columns: vec![ColumnStatistics::empty(); columns],
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
