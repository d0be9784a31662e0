//! What is known of a join when its operator is chosen.

use datafusion::common::JoinSide;

use super::parameters::CostParameters;
use crate::device::DeviceState;

/// What a join's condition offers to an operator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Predicate {
    Equality,
    /// `sorted` is the side whose key is bounded by the other side's expressions, on one end or on both.
    Range {
        sorted: JoinSide,
        both_ends: bool,
    },
    Other,
}

/// One input. What is not known is none or false.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SideInputs {
    pub rows: Option<usize>,
    /// Bytes of a row's columns that the join reads.
    pub row_bytes: usize,
    /// Whether its one key ascends from row to row.
    pub ascending: bool,
    /// Largest minus smallest value of its one key, where that is a number.
    pub key_span: Option<u64>,
    /// Whether about no two rows have one key.
    pub unique: bool,
}

/// An index over one side's table that answers the condition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IndexInputs {
    /// The side whose rows are looked up.
    pub outer: JoinSide,
    /// Rows that a scan of the other side's table reads.
    pub table_rows: usize,
}

/// What a choice is made from.
#[derive(Debug, Clone)]
pub struct CostInputs {
    pub predicate: Predicate,
    /// Whether the probe side can stream past a table of the build side (equal keys with Arrow's equality, or none).
    pub streams: bool,
    /// Whether both sides have been materialized, so that nothing can stream any more.
    pub at_hand: bool,
    pub build: SideInputs,
    pub probe: SideInputs,
    /// Bytes of a key in words.
    pub key_bytes: usize,
    /// Rows that the planner expects.
    pub output_rows: Option<usize>,
    pub index: Option<IndexInputs>,
    pub device: DeviceState,
    /// Cores that the query may use.
    pub cores: usize,
    pub parameters: CostParameters,
}

impl CostInputs {
    pub(in crate::join) fn side(&self, side: JoinSide) -> &SideInputs {
        match side {
            JoinSide::Right => &self.probe,
            _ => &self.build,
        }
    }

    /// Pairs that the join finds: as the planner expects, no more than keys without duplicates allow.
    pub fn pairs_expected(&self) -> usize {
        let rows = |side: &SideInputs| side.rows.unwrap_or(0);
        let (build, probe) = (rows(&self.build), rows(&self.probe));
        let mut pairs = self.output_rows.unwrap_or(build.max(probe));
        if self.predicate == Predicate::Equality {
            if self.build.unique {
                pairs = pairs.min(probe);
            }
            if self.probe.unique {
                pairs = pairs.min(build);
            }
        }
        pairs
    }
}
