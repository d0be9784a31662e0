//! What a join computes, apart from its inputs.

use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};

use super::choice::Choice;
use super::condition::CompiledFilter;
use super::cost::Predicate;
use super::path::Operator;
use super::ranges::RangeCondition;

/// What is joined, apart from the inputs.
#[derive(Debug, Clone)]
pub struct JoinSpec {
    pub build_keys: Vec<PhysicalExprRef>,
    pub probe_keys: Vec<PhysicalExprRef>,
    pub join_type: JoinType,
    pub filter: Option<JoinFilter>,
    /// What the filter says of order, where there are no keys.
    pub range: Option<RangeCondition>,
    /// IS NOT DISTINCT FROM: nulls are equal.
    pub null_equal: bool,
    /// NOT IN: a null on either side of the key is a partner of everything.
    pub null_aware: bool,
    /// Whether the probe side can stream: Arrow decides the equality of the keys as SQL does, and nulls match nothing.
    pub streams: bool,
    /// Partitions of the output at least, where the probe side need not stream.
    pub partitions: usize,
    /// Source of each output column.
    pub output: Vec<ColumnIndex>,
}

impl JoinSpec {
    pub(crate) fn reads_build(&self, index: usize) -> bool {
        self.reads(JoinSide::Left, index)
    }

    pub(crate) fn reads_probe(&self, index: usize) -> bool {
        self.reads(JoinSide::Right, index)
    }

    /// Whether the output or the filter reads a column of a side.
    fn reads(&self, side: JoinSide, index: usize) -> bool {
        let filter = self.filter.as_ref().map_or(&[][..], |f| f.column_indices());
        let mut read = self.output.iter().chain(filter);
        read.any(|column| column.side == side && column.index == index)
    }

    /// Whether all that comes out is how many pairs there are.
    pub(super) fn wants_count(&self) -> bool {
        self.join_type == JoinType::Inner && self.output.is_empty()
    }

    /// Whether probe rows that equal no build row leave no trace in the output, so that they may be dropped early.
    pub fn drops_unmatched_probe_rows(&self) -> bool {
        use JoinType::*;
        let drops = match self.join_type {
            Inner | Left | LeftSemi | RightSemi | LeftAnti | LeftMark => true,
            Right | Full | RightAnti | RightMark => false,
        };
        drops && !self.null_equal && !self.null_aware
    }

    /// The expressions whose values operators work on: keys, or a range's key and ends.
    pub(super) fn operands(&self, side: JoinSide) -> Vec<PhysicalExprRef> {
        match &self.range {
            Some(range) if range.sorted == side => vec![Arc::clone(&range.key)],
            Some(range) => range
                .lows
                .iter()
                .chain(&range.highs)
                .map(|end| Arc::clone(&end.expr))
                .collect(),
            None if side == JoinSide::Left => self.build_keys.clone(),
            None => self.probe_keys.clone(),
        }
    }

    /// Takes note of a condition that the device cannot test, as far as types tell.
    pub(super) fn note_condition(&self, choice: &mut Choice) {
        let ranged = self.build_keys.is_empty() && choice.path.operator != Operator::Ninlj;
        let decided = ranged && self.range.as_ref().is_some_and(|range| range.whole);
        let filter = self.filter.as_ref().filter(|_| choice.path.on_gpu && !decided);
        let Some(why) = filter.and_then(CompiledFilter::refusal) else {
            return;
        };
        // Without keys and ranges all pairs would have to come to the host.
        match self.build_keys.is_empty() && !ranged {
            true => choice.leave_gpu(&why),
            false => choice.leave_condition_to_host(&why),
        }
    }

    pub(super) fn predicate(&self) -> Predicate {
        match &self.range {
            _ if !self.build_keys.is_empty() => Predicate::Equality,
            Some(range) => Predicate::Range {
                sorted: range.sorted,
                both_ends: range.ends() == 2,
            },
            None => Predicate::Other,
        }
    }
}
