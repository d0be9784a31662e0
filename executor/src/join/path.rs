//! The join paths: which operator computes a join, where, and how its sides come to it.

use std::fmt;

use crate::counts::COUNTS;

use datafusion::common::JoinSide;

/// The operators of He 2008, section 4, and the hash join of Lutz 2022.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Ninlj,
    Inlj,
    Smj,
    Hj,
    /// State may exceed the device; on the CPU it is HJ.
    Triton,
}

impl Operator {
    /// It has done a join.
    pub(crate) fn count(self, on_gpu: bool) {
        COUNTS.joins(self as usize, on_gpu).add(1);
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Operator::Ninlj => "NINLJ",
            Operator::Inlj => "INLJ",
            Operator::Smj => "SMJ",
            Operator::Hj => "HJ",
            Operator::Triton => "Triton",
        })
    }
}

/// One way to compute a join.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JoinPath {
    pub operator: Operator,
    pub on_gpu: bool,
    /// The probe side is not materialized.
    pub pipelined: bool,
    /// By an index that there is.
    pub indexed: bool,
    /// The side that the operator sorts or builds its table of.
    pub build: JoinSide,
}

impl JoinPath {
    /// Where it runs.
    pub fn device(&self) -> &'static str {
        if self.on_gpu { "gpu" } else { "cpu" }
    }
}
