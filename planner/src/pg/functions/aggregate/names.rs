//! Which calls of a statement's text are aggregates: asked before names are those of the registry.

use super::functions;
use crate::pg::rewrite::function_name;
use crate::pg::walk::{Visit, first_call};
use datafusion::functions_aggregate::all_default_aggregate_functions;
use datafusion::sql::sqlparser::ast::Function;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// Those that a statement's rewrite makes others of.
const REWRITTEN: [&str; 7] = [
    "every",
    "json_agg",
    "json_object_agg",
    "jsonb_agg",
    "jsonb_object_agg",
    "mode",
    "percentile_disc",
];

static NAMES: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let mut names: HashSet<String> = REWRITTEN.iter().map(|name| name.to_string()).collect();
    let own = functions();
    let all = all_default_aggregate_functions();
    for function in all.iter().map(AsRef::as_ref).chain(&own) {
        names.insert(function.name().to_string());
        names.extend(function.aliases().iter().cloned());
    }
    names
});

/// Other names of Tenon's own aggregates, with those that their columns are called by.
static OTHERS: LazyLock<HashMap<String, String>> = LazyLock::new(|| {
    let mut others = HashMap::new();
    for function in functions() {
        let named = |alias: &String| (alias.clone(), function.name().to_string());
        others.extend(function.aliases().iter().map(named));
    }
    others
});

/// The name of a function's columns.
pub(crate) fn of_columns(name: String) -> String {
    OTHERS.get(&name).cloned().unwrap_or(name)
}

/// Whether a call is an aggregate's, over rows or as a window function.
pub(crate) fn is_aggregate(call: &Function) -> bool {
    !call.within_group.is_empty() || NAMES.contains(&function_name(call))
}

/// Whether there is an aggregate over rows, those within queries aside.
pub(crate) fn has_aggregate<T: Visit>(tree: &T) -> bool {
    let aggregate = |call: &Function| (call.over.is_none() && is_aggregate(call)).then_some(());
    first_call(tree, aggregate).is_some()
}

/// What items of a select list call that gives no value a row, as the errors of FOR UPDATE name it; queries within them do
/// not count.
pub(crate) fn call_over_rows<T: Visit>(items: &T) -> Option<&'static str> {
    first_call(items, |call| match call.over {
        Some(_) => Some("window functions"),
        None => is_aggregate(call).then_some("aggregate functions"),
    })
}
