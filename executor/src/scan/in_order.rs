//! Rows that a scan gives in the order of the sort above it, as an index has them, until the sort has enough: whatever filters and
//! joins there are between. Where that takes long, the others are read as they lie.

use std::sync::Arc;

use datafusion::common::Result;
use foldhash::{HashMap, HashMapExt};

use super::exec::ScanExec;
use super::first::{First, Ordered, STEP};
use super::top::Top;
use crate::index::InOrder;

/// The part of all rows so far that is given next.
const GIVEN_PART: usize = 8;

/// How far a running scan is.
#[derive(Default)]
pub(super) enum Progress {
    #[default]
    NotAsked,
    InOrder(Box<Giving>),
    /// What was not given yet is read as it lies.
    Rest(Arc<Given>),
    Done,
}

/// What a partition does next.
pub(super) enum Next {
    /// It looks at these rows, in the table's order.
    Rows(Vec<(u32, u32)>),
    /// It reads what was not given.
    Rest(Arc<Given>),
    Nothing,
}

/// Rows that were given, ascending, by their segment.
#[derive(Default)]
pub(super) struct Given(HashMap<u32, Vec<u32>>);

/// Rows that are being given.
pub(super) struct Giving {
    rows: InOrder,
    lacks_nulls: bool,
    looked_at_max: usize,
    /// At a time, at least.
    step: usize,
    /// In the index's order.
    given: Vec<(u32, u32)>,
}

impl Progress {
    /// `scan` is below a sort that wants `first`, of which `top` knows.
    pub fn next(&mut self, scan: &ScanExec, first: First, top: &mut Top) -> Result<Next> {
        if let Progress::NotAsked = self {
            *self = match scan.ordered(first, true)? {
                Some(ordered) => Progress::InOrder(Box::new(Giving::new(&ordered, first))),
                None => Progress::Rest(Arc::default()),
            };
        }
        if let Progress::InOrder(giving) = self {
            match giving.next(scan, top)? {
                Next::Rows(rows) => return Ok(Next::Rows(rows)),
                Next::Rest(given) => *self = Progress::Rest(given),
                Next::Nothing => *self = Progress::Done,
            }
        }
        Ok(match self {
            Progress::Rest(given) => Next::Rest(Arc::clone(given)),
            _ => Next::Nothing,
        })
    }
}

impl Giving {
    fn new(ordered: &Ordered, first: First) -> Self {
        Self {
            rows: ordered.rows(),
            lacks_nulls: ordered.lacks_nulls,
            looked_at_max: ordered.looked_at_max,
            step: first.rows.max(STEP),
            given: vec![],
        }
    }

    fn next(&mut self, scan: &ScanExec, top: &mut Top) -> Result<Next> {
        let segments = scan.table().segments();
        if let Some((segment, row)) = self.given.last()
            && !top.goes_on_behind(&segments[*segment as usize], *row as usize)?
        {
            return Ok(Next::Nothing);
        }
        let left = self.looked_at_max.saturating_sub(self.given.len());
        // Others may have been given theirs, of which the sort has seen nothing yet.
        let step = self.step.max((self.given.len() / GIVEN_PART).min(scan.batch_rows()));
        let mut next: Vec<_> = self.rows.by_ref().take(step.min(left)).collect();
        if next.is_empty() {
            return Ok(match left == 0 || self.lacks_nulls {
                true => Next::Rest(Arc::new(Given::of(&self.given))),
                false => Next::Nothing,
            });
        }
        let usage = &scan.table().definition().usage;
        usage.looked_up(usize::from(self.given.is_empty()), next.len());
        self.given.extend(&next);
        next.sort_unstable();
        Ok(Next::Rows(next))
    }
}

impl Given {
    fn of(rows: &[(u32, u32)]) -> Self {
        let mut given: HashMap<u32, Vec<u32>> = HashMap::new();
        for (segment, row) in rows {
            given.entry(*segment).or_default().push(*row);
        }
        given.values_mut().for_each(|rows| rows.sort_unstable());
        Self(given)
    }

    /// Whether any row of a segment was.
    pub fn has_any(&self, segment: usize) -> bool {
        self.0.contains_key(&(segment as u32))
    }

    /// Takes out of these rows of a segment those that were.
    pub fn retain_others(&self, segment: usize, rows: &mut Vec<u32>) {
        if let Some(given) = self.0.get(&(segment as u32)) {
            rows.retain(|row| given.binary_search(row).is_err());
        }
    }
}
