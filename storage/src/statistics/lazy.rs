//! What is found out of a table's columns when somebody asks: distinct counts, and how values are spread.

use super::distribution::{Distribution, SAMPLE_ROWS, SAMPLE_ROWS_ANALYZE};
use crate::segment::Segment;
use parking_lot::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Share of a table's rows that may have come or gone before a sample is taken anew.
const STALE_SHARE: f64 = 0.1;

static ANALYZED: AtomicU64 = AtomicU64::new(0);

/// How often ANALYZE has changed what is known of any table.
pub fn analyze_count() -> u64 {
    ANALYZED.load(Ordering::Acquire)
}

/// One a table version.
#[derive(Debug)]
pub(crate) struct LazyStatistics(Vec<LazyColumn>);

#[derive(Debug, Default)]
struct LazyColumn {
    distinct: OnceLock<u64>,
    distribution: RwLock<Option<Arc<Distribution>>>,
    /// Rows that were replaced since that was taken.
    replaced: u64,
}

impl LazyStatistics {
    pub fn new(columns: usize) -> Arc<Self> {
        Arc::new(Self((0..columns).map(|_| LazyColumn::default()).collect()))
    }

    /// For a version that follows with `rows` rows in the same columns, without `removed` of those of this one: samples are
    /// kept until they are stale.
    pub fn following(&self, rows: u64, removed: u64) -> Arc<Self> {
        let columns = self.0.iter().map(|column| {
            let known = column.distribution.read().clone();
            let replaced = column.replaced + removed;
            let fresh = known.filter(|known| {
                let changed = known.rows.abs_diff(rows).max(replaced) as f64;
                changed <= STALE_SHARE * known.rows as f64
            });
            LazyColumn {
                distinct: OnceLock::new(),
                replaced: if fresh.is_some() { replaced } else { 0 },
                distribution: RwLock::new(fresh),
            }
        });
        Arc::new(Self(columns.collect()))
    }

    pub fn distinct(&self, column: usize, count: impl FnOnce() -> u64) -> u64 {
        *self.0[column].distinct.get_or_init(count)
    }

    /// The column's distribution; samples the table if nobody has yet.
    pub fn distribution(&self, column: usize, segments: &[Arc<Segment>]) -> Arc<Distribution> {
        let own = &self.0[column].distribution;
        if let Some(known) = own.read().as_ref() {
            return known.clone();
        }
        let found = Arc::new(Distribution::of(segments, column, SAMPLE_ROWS));
        own.write().get_or_insert(found).clone()
    }

    /// Takes a larger sample, whatever is known.
    pub fn analyze(&self, column: usize, segments: &[Arc<Segment>]) {
        let found = Distribution::of(segments, column, SAMPLE_ROWS_ANALYZE);
        *self.0[column].distribution.write() = Some(Arc::new(found));
        ANALYZED.fetch_add(1, Ordering::AcqRel);
    }
}
