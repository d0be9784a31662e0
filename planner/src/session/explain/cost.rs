//! Costs for display, from the rows that the planner expects and the constants that order joins.

use super::Estimate;
use crate::optimizer::estimate::cost::{BUILD, OUTPUT, PROBE};

/// What one unit of the join order's cost is in PostgreSQL's.
const UNIT: f64 = 0.01;

/// How a node works on its inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Work {
    /// Reads this many rows of a table.
    Scan { rows: f64 },
    /// Hands rows on as they come.
    Stream,
    /// Hashes all of its input before it gives a row.
    Hash,
    /// Sorts all of its input.
    Sort,
    /// Hashes the second input, then streams the first past it.
    HashJoin,
    /// Keeps the second input and pairs every row of the first with every one of it.
    Loop,
}

/// Costs of a node that gives `rows` rows of `width` bytes.
pub(super) fn estimate(work: Work, rows: f64, width: usize, inputs: &[Estimate]) -> Estimate {
    let below = inputs.iter().fold(0.0, |sum, input| sum + input.total_cost);
    let first = inputs.first().copied().unwrap_or_default();
    let second = inputs.get(1).copied().unwrap_or_default();
    let read = inputs.iter().fold(0.0, |sum, input| sum + input.rows);
    let (startup_cost, own) = match work {
        Work::Scan { rows: scanned } => (0.0, UNIT * (PROBE * scanned + OUTPUT * rows)),
        Work::Stream => (
            inputs.iter().fold(0.0, |sum, input| sum + input.startup_cost),
            UNIT * OUTPUT * read,
        ),
        Work::Hash => {
            let own = UNIT * BUILD * read;
            (below + own, own + UNIT * OUTPUT * rows)
        }
        Work::Sort => {
            let own = UNIT * read * read.max(2.0).log2();
            (below + own, own + UNIT * OUTPUT * rows)
        }
        Work::HashJoin => {
            let build = UNIT * BUILD * second.rows;
            let startup = first.startup_cost + second.total_cost + build;
            (startup, build + UNIT * (PROBE * first.rows + OUTPUT * rows))
        }
        Work::Loop => {
            let pairs = UNIT * PROBE * first.rows * second.rows;
            (second.total_cost, pairs + UNIT * OUTPUT * rows)
        }
    };
    Estimate {
        rows,
        width,
        startup_cost,
        total_cost: (below + own).max(startup_cost),
    }
}
