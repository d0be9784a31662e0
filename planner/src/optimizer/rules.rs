//! Which of DataFusion's rules run. Each costs a walk over every plan, so those that can change none of Tenon's are left
//! out.

use std::sync::Arc;

use datafusion::optimizer::{Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

use crate::optimizer::spill::collected::CollectedLists;
use crate::optimizer::spill::inputs::SpillInputs;
use crate::optimizer::spill::ordered_sets::NumberedOrderedSets;
use crate::optimizer::spill::windows::CountedWindows;
use crate::pg::planning;

use super::cross_joins::EliminateCrossJoinOfOneEquality;
use super::dependencies::{EliminateKeysOfOrders, NeededColumns, ReplaceDistinct};
use super::distinct::SingleDistinctOfOneArgument;
use super::equi_joins::ExtractKeysOfOneEquality;
use super::filters::PushDownFilterToGroups;
use super::group_keys::EliminateKeysOfOthers;
use super::group_tops::TopsOfGroups;
use super::laterals::DecorrelateLateral;
use super::limits::PushDownLimitInRange;
use super::many_first::SortsOfManyFirst;
use super::not_in::DecorrelateNotIn;
use super::outer_joins::EliminateOuterJoinBelowFunctions;
use super::pieces::Pieces;
use super::projections::PushDownProjections;
use super::repeated::EliminateWhatRepeats;
use super::row_order::{FoldOrders, UnfoldOrders};
use super::shared_limits::SortsByAllKeys;
use super::simplify::SimplifyWhatCanBe;
use super::unions::{PropagateEmptyInUnions, UnionsOfUnions};
use super::value_lookups::LookUpValues;
use super::{TenonOperators, TenonWindows};

/// Logical rules that are off by their settings, or that serve struct fields in files; and the one that makes semi joins
/// of inner joins, which depends on how the joins are nested and so runs when they are ordered (`order_joins`).
const LOGICAL_UNUSED: [&str; 5] = [
    "eliminate_join",
    "unions_to_filter",
    "filter_null_join_keys",
    "extract_leaf_expressions",
    "push_down_leaf_projections",
];

/// Physical rules for DataFusion's own aggregations, joins and file scans, which Tenon's nodes have replaced; and the check
/// of plans' orders, which refuses right ones: above a filter that equates a column's cast with another column it takes the
/// one column for the other in the order that is there, but not in the order that is asked for.
const PHYSICAL_UNUSED: [&str; 9] = [
    "SanityCheckPlan",
    "LimitedDistinctAggregation",
    "FilterPushdown",
    "FilterPushdown(Post)",
    "WindowTopN",
    "LimitAggregation",
    "HashJoinBuffering",
    "TopKRepartition",
    "PushdownSort",
];

/// The rule after which constants are literals.
const SIMPLIFYING: &str = "simplify_expressions";

/// The rule that pushes conditions down.
const PUSHING: &str = "push_down_filter";

/// The rule that sorts, merges and spreads rows.
const ENFORCING: &str = "EnsureRequirements";

pub fn logical() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules = Optimizer::new().rules;
    rules.retain(|rule| !LOGICAL_UNUSED.contains(&rule.name()));
    let mended: [Arc<dyn OptimizerRule + Send + Sync>; 16] = [
        Arc::new(DecorrelateLateral::default()),
        Arc::new(DecorrelateNotIn::default()),
        Arc::new(EliminateCrossJoinOfOneEquality::default()),
        Arc::new(EliminateKeysOfOthers::default()),
        Arc::new(EliminateWhatRepeats::default()),
        Arc::new(EliminateKeysOfOrders::default()),
        Arc::new(EliminateOuterJoinBelowFunctions::default()),
        Arc::new(ExtractKeysOfOneEquality::default()),
        Arc::new(NeededColumns::default()),
        Arc::new(PropagateEmptyInUnions::default()),
        Arc::new(PushDownFilterToGroups::default()),
        Arc::new(PushDownLimitInRange::default()),
        Arc::new(ReplaceDistinct::default()),
        Arc::new(SimplifyWhatCanBe::default()),
        Arc::new(SingleDistinctOfOneArgument::default()),
        Arc::new(UnionsOfUnions::default()),
    ];
    for rule in &mut rules {
        if let Some(own) = mended.iter().find(|own| own.name() == rule.name()) {
            *rule = own.clone();
        }
    }
    if let Some(at) = rules.iter().position(|rule| rule.name() == SIMPLIFYING) {
        rules.insert(at + 1, Arc::new(CountedWindows));
        rules.insert(at + 2, Arc::new(NumberedOrderedSets));
    }
    // What is pushed down to a join may be one of its keys, which the rules that follow look at.
    if let Some(at) = rules.iter().position(|rule| rule.name() == PUSHING) {
        rules.insert(at + 1, Arc::new(ExtractKeysOfOneEquality::default()));
        rules.insert(at + 2, Arc::new(LookUpValues));
    }
    rules
}

/// Tenon's operators first, then what DataFusion's plans still need.
pub fn physical() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> = vec![Arc::new(TenonOperators)];
    let mut others = PhysicalOptimizer::new().rules;
    others.retain(|rule| !PHYSICAL_UNUSED.contains(&rule.name()));
    rules.push(Arc::new(FoldOrders));
    for mut rule in others {
        if rule.name() == PushDownProjections.name() {
            rule = Arc::new(PushDownProjections);
        }
        let enforces = rule.name() == ENFORCING;
        rules.push(rule);
        if enforces {
            rules.push(Arc::new(UnfoldOrders));
            rules.push(Arc::new(SortsByAllKeys));
        }
    }
    rules.push(Arc::new(TenonWindows));
    rules.push(Arc::new(TopsOfGroups));
    rules.push(Arc::new(SortsOfManyFirst));
    rules.push(Arc::new(CollectedLists));
    rules.push(Arc::new(Pieces));
    rules.push(Arc::new(SpillInputs));
    planning::checked(rules, || Arc::new(planning::Checkpoint))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule that DataFusion has renamed would run again unnoticed.
    #[test]
    fn unused_rules_exist() {
        let logical = Optimizer::new().rules;
        for name in LOGICAL_UNUSED {
            assert!(logical.iter().any(|rule| rule.name() == name), "{name}");
        }
        for name in [SIMPLIFYING, PUSHING] {
            assert!(logical.iter().any(|rule| rule.name() == name), "{name}");
        }
        let physical = PhysicalOptimizer::new().rules;
        for name in PHYSICAL_UNUSED {
            assert!(physical.iter().any(|rule| rule.name() == name), "{name}");
        }
        assert!(physical.iter().any(|rule| rule.name() == ENFORCING));
        assert!(physical.iter().any(|rule| rule.name() == PushDownProjections.name()));
    }
}
