//! What EXPLAIN shows of DataFusion's own nodes.

use super::Value;
use super::cost::Work;
use super::describe::{Facts, aggregate, conjunction, first, join_facts, list, picked};
use super::expr::{sort_key, text};
use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter, build_join_schema};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::windows::BoundedWindowAggExec;
use std::sync::Arc;
use tenon_executor::window::WindowExec;

type Plan = Arc<dyn ExecutionPlan>;

/// Whether the second child streams past the first.
pub(super) fn is_join(plan: &Plan) -> bool {
    matches!(
        plan.name(),
        "HashJoinExec" | "SortMergeJoinExec" | "NestedLoopJoinExec" | "CrossJoinExec"
    )
}

fn count(rows: usize) -> Value {
    Value::Count(rows as u64)
}

pub(super) fn facts(plan: &Plan, names: &[&[String]]) -> Facts {
    let input = first(names);
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        return Facts::new("Sort", Work::Sort, input.to_vec())
            .property("Sort Key", list(sort.expr().iter().map(|key| sort_key(key, input))))
            .property("Limit", sort.fetch().map(count))
            .phase("sort");
    }
    if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
        return Facts::new("Gather Merge", Work::Stream, input.to_vec())
            .property("Sort Key", list(merge.expr().iter().map(|key| sort_key(key, input))))
            .property("Limit", merge.fetch().map(count));
    }
    if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
        return Facts::new("Limit", Work::Stream, input.to_vec())
            .property("Limit", limit.fetch().map(count))
            .property("Offset", (limit.skip() > 0).then(|| count(limit.skip())));
    }
    if let Some(limit) = plan.downcast_ref::<LocalLimitExec>() {
        return Facts::new("Limit", Work::Stream, input.to_vec()).property("Limit", count(limit.fetch()));
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let output = match filter.projection() {
            Some(columns) => columns.iter().filter_map(|&at| input.get(at).cloned()).collect(),
            None => input.to_vec(),
        };
        return Facts::new("Filter", Work::Stream, output)
            .property("Filter", Value::Text(text(filter.predicate(), input)));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let computed = projection.expr().iter();
        let computed = computed.filter(|e| e.expr.downcast_ref::<Column>().is_none());
        let output = projection.expr().iter().map(|e| text(&e.expr, input)).collect();
        return Facts::new("Projection", Work::Stream, output)
            .property("Expressions", list(computed.map(|e| text(&e.expr, input))));
    }
    if let Some(own) = plan.downcast_ref::<AggregateExec>() {
        return of_aggregate(own, names);
    }
    if let Some(window) = plan.downcast_ref::<WindowExec>() {
        return of_window(window.window_expr(), input);
    }
    if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
        return of_window(window.window_expr(), input);
    }
    if is_join(plan) {
        return of_join(plan, names);
    }
    let kind = match plan.name() {
        "CoalescePartitionsExec" => "Gather".to_string(),
        "RepartitionExec" => "Redistribute".to_string(),
        "UnionExec" | "InterleaveExec" | "AppendExec" => "Append".to_string(),
        "EmptyExec" | "PlaceholderRowExec" => "Result".to_string(),
        "DataSourceExec" => "Values Scan".to_string(),
        "LazyMemoryExec" => "Function Scan".to_string(),
        "WorkTableExec" => "WorkTable Scan".to_string(),
        "RecursiveQueryExec" => "Recursive Union".to_string(),
        "UnnestExec" | "ProjectSetExec" => "ProjectSet".to_string(),
        "LimitByValueExec" => "Limit".to_string(),
        other => spaced(other.strip_suffix("Exec").unwrap_or(other)),
    };
    let work = if names.is_empty() {
        Work::Scan { rows: 0.0 }
    } else {
        Work::Stream
    };
    let output = if names.len() == 1 && input.len() == plan.schema().fields().len() {
        input.to_vec()
    } else {
        plan.schema()
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect()
    };
    Facts::new(&kind, work, output)
}

fn of_aggregate(own: &AggregateExec, names: &[&[String]]) -> Facts {
    let mode = match own.mode() {
        AggregateMode::Partial => "Partial",
        AggregateMode::Final | AggregateMode::FinalPartitioned => "Finalize",
        _ => "",
    };
    let keys = own.group_expr().expr().iter();
    let keys: Vec<String> = keys.map(|(key, _)| text(key, first(names))).collect();
    // A final step's expressions are still those over the first step's input.
    let argument_names = if mode == "Finalize" { &[] } else { names };
    let mut facts = aggregate(mode, keys, own.aggr_expr(), argument_names).phase("aggregate");
    if facts.node.output.len() != own.schema().fields().len() {
        facts.node.output = own.schema().fields().iter().map(|field| field.name().clone()).collect();
    }
    facts
}

fn of_window(exprs: &[Arc<dyn WindowExpr>], input: &[String]) -> Facts {
    let names: Vec<String> = exprs.iter().map(|e| e.name().to_string()).collect();
    let output = input.iter().chain(&names).cloned().collect();
    Facts::new("WindowAgg", Work::Stream, output).property("Window", list(names))
}

fn of_join(plan: &Plan, names: &[&[String]]) -> Facts {
    let (probe, build) = (first(names), names.get(1).copied().unwrap_or_default());
    let filter_text = |filter: &JoinFilter| {
        let names = picked(filter.column_indices(), names);
        Value::Text(text(filter.expression(), &names))
    };
    let output = |join_type: &JoinType, projection: Option<&[usize]>| {
        let children = plan.children();
        let (_, columns) = build_join_schema(&children[0].schema(), &children[1].schema(), join_type);
        match projection {
            Some(kept) => picked(&kept.iter().map(|&at| columns[at].clone()).collect::<Vec<_>>(), names),
            None => picked(&columns, names),
        }
    };
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let keys = join.on().iter();
        let keys = conjunction(keys.map(|(b, p)| format!("({} = {})", text(p, probe), text(b, build))));
        let output = output(join.join_type(), join.projection.as_deref());
        return join_facts("Hash", *join.join_type(), Work::HashJoin, output)
            .property("Hash Cond", keys)
            .property("Join Filter", join.filter().map(filter_text))
            .phase("probe");
    }
    if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        let keys = join.on().iter();
        let keys = conjunction(keys.map(|(b, p)| format!("({} = {})", text(p, probe), text(b, build))));
        let output = output(&join.join_type(), None);
        return join_facts("Merge", join.join_type(), Work::Stream, output).property("Merge Cond", keys);
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        let output = output(join.join_type(), join.projection().as_deref());
        return join_facts("Nested Loop", *join.join_type(), Work::Loop, output)
            .property("Join Filter", join.filter().map(filter_text))
            .phase("join");
    }
    let all = |side: JoinSide, names: &[String]| {
        let columns = (0..names.len()).map(move |index| ColumnIndex { index, side });
        columns.collect::<Vec<_>>()
    };
    let columns = [all(JoinSide::Left, build), all(JoinSide::Right, probe)].concat();
    debug_assert!(plan.downcast_ref::<CrossJoinExec>().is_some());
    join_facts("Nested Loop", JoinType::Inner, Work::Loop, picked(&columns, names)).phase("join")
}

/// `PartialSort` as `Partial Sort`.
fn spaced(name: &str) -> String {
    let mut out = String::new();
    for (at, letter) in name.char_indices() {
        if at > 0 && letter.is_uppercase() {
            out.push(' ');
        }
        out.push(letter);
    }
    out
}
