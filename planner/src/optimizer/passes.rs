//! Which rules run over a logical plan, when, and why not the others.
//!
//! DataFusion runs every rule over the whole plan, in passes until one changes nothing. Most rules are about something that
//! the plan has not. So a rule is run only
//!
//! - where its subject occurs (`OF_ANALYSIS`, `OF_OPTIMIZER`): a walk that copies nothing tells what does;
//! - where it has not left this very plan as it is before: the last pass of all is one that changes nothing;
//! - once, where more of it is of no use (`ONCE`).
//!
//! In builds with debug assertions each rule that is left out for the first two reasons is run all the same, over a copy, which
//! it must leave as it is: every trial of the server tries this. And a trial (`all_rules`) compares whole plans.

use super::deep;
use super::in_place::applied;
use super::shared_filters;
use crate::pg::errors::to_datafusion;
use crate::pg::occurring::{Kinds, Occurring};
use crate::pg::planning;
use datafusion::common::{Result, internal_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::logical_plan::assert_expected_schema;
use datafusion::logical_expr::{InvariantLevel, LogicalPlan};
use foldhash::fast::FixedState;
use std::hash::BuildHasher;

/// The kinds that an analyzer rule is about; of those that are not here, all there is.
const OF_ANALYSIS: [(&str, Kinds); 21] = [
    ("rows_again", Kinds::FILTER),
    ("plan_array_literals", Kinds::CALL),
    ("numbers_in_arrays", Kinds::CALL),
    ("sets_in_lists", Kinds::CALL),
    ("drop_unseen_orders", Kinds::SORT),
    ("records_of_nulls", Kinds::NULL_TEST),
    (
        "literals_beside_intervals",
        Kinds::BETWEEN.or(Kinds::IN_LIST).or(Kinds::WINDOW_CALL),
    ),
    ("drop_implied_equalities", Kinds::FILTER),
    ("constant_conditions", Kinds::FILTER),
    ("frames_of_peers", Kinds::WINDOW),
    ("keys_below_windows", Kinds::WINDOW),
    ("sliding_frames", Kinds::WINDOW),
    ("outer_columns_take_types", Kinds::OUTER_REFERENCE),
    (
        "correlated",
        Kinds::SUBQUERY
            .or(Kinds::OUTER_REFERENCE)
            .or(Kinds::LATERAL)
            .or(Kinds::OUTER_JOIN),
    ),
    ("arguments_once", Kinds::VOLATILE),
    ("volatile_columns_late", Kinds::VOLATILE),
    ("effects_of_rows", Kinds::VOLATILE),
    ("limits_by_value", Kinds::LIMIT),
    ("names_of_their_own", Kinds::SUBQUERY.or(Kinds::LATERAL)),
    ("subqueries_anywhere", Kinds::SUBQUERY.or(Kinds::OUTER_REFERENCE)),
    ("terms_of_recursion", Kinds::RECURSION),
];

/// The same of rules of the optimizer.
const OF_OPTIMIZER: [(&str, Kinds); 20] = [
    ("rewrite_set_comparison", Kinds::SET_COMPARISON),
    ("optimize_unions", Kinds::UNION),
    ("tenon_counted_windows", Kinds::WINDOW),
    ("tenon_numbered_ordered_sets", Kinds::AGGREGATE),
    ("eliminate_group_by_constant", Kinds::AGGREGATE),
    ("replace_distinct_aggregate", Kinds::DISTINCT),
    ("decorrelate_predicate_subquery", Kinds::SUBQUERY),
    ("scalar_subquery_to_join", Kinds::SCALAR_SUBQUERY),
    ("decorrelate_lateral_join", Kinds::LATERAL),
    ("extract_equijoin_predicate", Kinds::JOIN_CONDITION),
    ("eliminate_duplicated_expr", Kinds::SORT.or(Kinds::AGGREGATE)),
    ("eliminate_filter", Kinds::FILTER),
    ("eliminate_cross_join", Kinds::JOIN),
    ("tenon_look_up_values", Kinds::SCALAR_SUBQUERY),
    ("eliminate_limit", Kinds::LIMIT),
    ("push_down_limit", Kinds::LIMIT),
    ("propagate_empty_relation", Kinds::EMPTY),
    ("eliminate_outer_join", Kinds::OUTER_JOIN),
    ("push_down_filter", Kinds::FILTER.or(Kinds::JOIN_CONDITION)),
    ("single_distinct_aggregation_to_group_by", Kinds::DISTINCT_CALL),
];

/// Rules of the first pass alone. The one puts joins in another order, which statistics decide afterwards (`join_order`); what it
/// takes for conditions of joins, `push_down_filter` would put in its place again.
const ONCE: [&str; 1] = ["eliminate_cross_join"];

/// Rules that leave what they have made as it is, where groups are not grouped again and projections that meet are one.
const SETTLES: [&str; 1] = ["optimize_projections"];

/// A subquery's value takes the type of the column as it was before.
const UNSETTLED: Kinds = Kinds::REGROUPING.or(Kinds::PROJECTED_TWICE).or(Kinds::SCALAR_SUBQUERY);

/// Looks at a plan; fails where it is too large.
fn occurring(plan: &LogicalPlan) -> Result<Occurring> {
    let found = Occurring::of(plan, (planning::NODES_MAX, planning::DEPTH_MAX))?;
    planning::fits(found.nodes, found.depth).map_err(to_datafusion)?;
    Ok(found)
}

fn subject(rules: &[(&str, Kinds)], rule: &str) -> Option<Kinds> {
    rules.iter().find(|(name, _)| *name == rule).map(|(_, kinds)| *kinds)
}

fn concerns(subject: Option<Kinds>, found: Kinds) -> bool {
    planning::all_rules() || subject.is_none_or(|subject| found.has(subject))
}

/// The plan analyzed.
pub(crate) fn analyzed(state: &SessionState, mut plan: LogicalPlan) -> Result<LogicalPlan> {
    let (analyzer, options) = (state.analyzer(), state.config_options());
    plan.check_invariants(InvariantLevel::Always)?;
    let mut found = Some(occurring(&plan)?);
    for rule in &analyzer.rules {
        let kinds = match found {
            Some(found) => found.kinds,
            None => found.insert(occurring(&plan)?).kinds,
        };
        if concerns(subject(&OF_ANALYSIS, rule.name()), kinds) {
            planning::check().map_err(to_datafusion)?;
            plan = rule
                .analyze(plan, options)
                .map_err(|error| error.context(rule.name()))?;
            found = None;
        } else if cfg!(debug_assertions) && hash(&rule.analyze(plan.clone(), options)?) != hash(&plan) {
            return internal_err!("{} changes a plan in which nothing of it occurs", rule.name());
        }
    }
    deep::check(&plan)?;
    Ok(plan)
}

/// The plan analyzed and optimized.
pub(crate) fn optimized(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    optimized_whole(state, analyzed(state, plan)?)
}

/// A statement's analyzed plan optimized.
pub(crate) fn optimized_whole(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    let (mut plan, kinds) = by_rules(state, plan)?;
    if kinds.has(Kinds::SHARED_ROWS) {
        // Rows within rows: the outer ones first.
        for _ in 0..state.config_options().optimizer.max_passes {
            match shared_filters::pushed(&plan)? {
                Some(filtered) => plan = by_rules(state, filtered)?.0,
                None => break,
            }
        }
    }
    Ok(plan)
}

/// An analyzed plan optimized. It may be a part of another, so that nothing is said of who else reads its shared rows.
pub(crate) fn optimized_analyzed(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(by_rules(state, plan)?.0)
}

/// The plan as the rules leave it, and what occurs in it.
fn by_rules(state: &SessionState, mut plan: LogicalPlan) -> Result<(LogicalPlan, Kinds)> {
    let rules = &state.optimizer().rules;
    let all = |plan: &LogicalPlan| Occurring::of(plan, (usize::MAX, usize::MAX)).map(|found| found.kinds);
    let mut kinds = all(&plan)?;
    let mut seen = vec![hash(&plan)];
    let mut now = seen[0];
    // By rule: the plan that it leaves as it is.
    let mut left: Vec<Option<u64>> = vec![None; rules.len()];
    for pass in 0..state.config_options().optimizer.max_passes {
        for (rule, left) in rules.iter().zip(&mut left) {
            let subqueries = kinds.has(Kinds::SUBQUERY);
            if *left == Some(now) && !planning::all_rules() {
                if cfg!(debug_assertions) {
                    let made = applied(rule.as_ref(), plan.clone(), state, subqueries)?.data;
                    if hash(&made) != now {
                        let (plan, made) = (plan.display_indent(), made.display_indent());
                        return internal_err!("{} changes a plan that it had done with:\n{plan}\n{made}", rule.name());
                    }
                }
                continue;
            }
            if pass > 0 && ONCE.contains(&rule.name()) && !planning::all_rules() {
                continue;
            }
            if !concerns(subject(&OF_OPTIMIZER, rule.name()), kinds) {
                if cfg!(debug_assertions) {
                    let made = applied(rule.as_ref(), plan.clone(), state, subqueries)?.data;
                    if hash(&made) != now {
                        let (plan, made) = (plan.display_indent(), made.display_indent());
                        return internal_err!(
                            "{} changes a plan in which nothing of it occurs:\n{plan}\n{made}",
                            rule.name()
                        );
                    }
                }
                continue;
            }
            planning::check().map_err(to_datafusion)?;
            let schema = plan.schema().clone();
            let made = applied(rule.as_ref(), plan, state, subqueries)
                .map_err(|error| error.context(format!("Optimizer rule '{}' failed", rule.name())))?;
            plan = made.data;
            // Not all rules say it when they have changed something.
            let before = std::mem::replace(&mut now, hash(&plan));
            if now != before {
                assert_expected_schema(&schema, &plan)?;
            }
            if now != before {
                kinds = all(&plan)?;
            }
            if now == before || SETTLES.contains(&rule.name()) && !kinds.has(UNSETTLED) {
                *left = Some(now);
            }
            if cfg!(debug_assertions) {
                planning::has_columns_of_inputs(&plan)?;
            }
        }
        if seen.contains(&now) {
            break;
        }
        seen.push(now);
    }
    deep::check(&plan)?;
    Ok((plan, kinds))
}

/// What tells plans apart. Of their columns it says nothing of which decide others.
pub(crate) fn hash(plan: &LogicalPlan) -> u64 {
    FixedState::default().hash_one(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::rules;
    use crate::pg::semantics;
    use datafusion::execution::session_state::SessionStateBuilder;
    use std::collections::HashSet;

    /// A rule that has another name now would be left out unnoticed, or never.
    #[test]
    fn rules_that_are_named_exist() {
        let own = rules::logical();
        let names: HashSet<&str> = own.iter().map(|rule| rule.name()).collect();
        let named = OF_OPTIMIZER.iter().map(|(rule, _)| rule);
        for rule in named.chain(&ONCE).chain(&SETTLES) {
            assert!(names.contains(rule), "{rule}");
        }
        let state = semantics::install(SessionStateBuilder::new_with_default_features()).build();
        let names: HashSet<&str> = state.analyzer().rules.iter().map(|rule| rule.name()).collect();
        for (rule, _) in &OF_ANALYSIS {
            assert!(names.contains(rule), "{rule}");
        }
    }
}
