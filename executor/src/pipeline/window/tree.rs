//! The largest of any rows that follow each other: a tree whose nodes have the largest of 16 below them.

use std::sync::Arc;

use arrow::datatypes::Schema;

use super::super::flow::Flow;
use super::super::fragment::{Fragment, Input, Source};
use crate::codegen::Translated;

/// Nodes below a node, as `kernels/pipeline.cuh` has it.
const FANOUT: u64 = 16;

/// An array whose first words are so many leaves, which are zeros at first, with room for the nodes above.
pub fn room(fragment: &mut Fragment, leaves: u64) -> usize {
    let nodes = levels(leaves)
        .iter()
        .fold(0u64, |sum, level| sum.saturating_add(*level));
    fragment.array(nodes, 8, Some(0))
}

/// Nodes of each level, the leaves first.
fn levels(leaves: u64) -> Vec<u64> {
    let mut levels = vec![leaves.max(1)];
    while let Some(&last) = levels.last().filter(|last| **last > 1) {
        levels.push(last.div_ceil(FANOUT));
    }
    levels
}

/// Pipelines that find the nodes above the leaves, one level after the other.
pub fn grown(fragment: &mut Fragment, tree: usize, leaves: u64) -> Translated<()> {
    let levels = levels(leaves);
    let mut first = 0;
    for pair in levels.windows(2) {
        let [below, own] = [pair[0], pair[1]];
        let mut flow = Flow::new(Source::Numbers(own), Arc::new(Schema::empty()), own);
        flow.stage = fragment.gathered();
        let nodes = flow.array(Input::Array(tree), "u64");
        let (first_at, below_at) = (flow.number(first), flow.number(below));
        flow.line(&format!(
            "{nodes}[{first_at} + {below_at} + row] = most_below({nodes} + {first_at}, {below_at}, row);"
        ));
        flow.finish(fragment)?;
        first += below;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::levels;

    #[test]
    fn a_tree_ends_in_one_node() {
        assert_eq!(levels(0), [1]);
        assert_eq!(levels(1), [1]);
        assert_eq!(levels(16), [16, 1]);
        assert_eq!(levels(17), [17, 2, 1]);
        assert_eq!(levels(5000), [5000, 313, 20, 2, 1]);
    }
}
