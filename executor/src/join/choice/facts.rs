//! What is known of a join when its operator is chosen.

use datafusion::common::JoinSide;

use crate::join::machine::Machine;

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

/// The device as it is now.
#[derive(Debug, Clone, PartialEq)]
pub enum DeviceState {
    /// With the reason.
    Absent(String),
    /// The simulator is right but slow: taken only when asked for.
    Present {
        simulated: bool,
        free_bytes: u64,
        /// Work of other joins that it has before it.
        queued_s: f64,
    },
    /// It was there, and has failed for good.
    Lost(String),
}

impl DeviceState {
    pub fn queued_s(&self) -> f64 {
        match self {
            Self::Present { queued_s, .. } => *queued_s,
            Self::Absent(_) | Self::Lost(_) => 0.0,
        }
    }

    pub fn free_bytes(&self) -> u64 {
        match self {
            Self::Present { free_bytes, .. } => *free_bytes,
            Self::Absent(_) | Self::Lost(_) => 0,
        }
    }
}

/// One input. What is not known is none or false.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SideFacts {
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
pub struct IndexFacts {
    /// The side whose rows are looked up.
    pub outer: JoinSide,
    /// Rows that a scan of the other side's table reads.
    pub table_rows: usize,
}

#[derive(Debug, Clone)]
pub struct Facts {
    pub predicate: Predicate,
    /// Whether the probe side can stream past a table of the build side (equal keys with Arrow's equality, or none).
    pub streams: bool,
    /// Whether both sides have been collected, so that nothing can stream any more.
    pub at_hand: bool,
    pub build: SideFacts,
    pub probe: SideFacts,
    /// Bytes of a key in words.
    pub key_bytes: usize,
    /// Rows that the planner expects.
    pub output_rows: Option<usize>,
    pub index: Option<IndexFacts>,
    pub device: DeviceState,
    /// Cores that the query may use.
    pub cores: usize,
    pub machine: Machine,
}

impl Facts {
    pub(super) fn side(&self, side: JoinSide) -> &SideFacts {
        match side {
            JoinSide::Right => &self.probe,
            _ => &self.build,
        }
    }

    /// Pairs that the join finds: as the planner expects, no more than keys without duplicates allow.
    pub fn pairs_expected(&self) -> usize {
        let rows = |side: &SideFacts| side.rows.unwrap_or(0);
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
