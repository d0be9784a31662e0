//! Which calls of a statement's text return sets: asked before names are those of the registry.

use super::functions;
use crate::pg::rewrite::function_name;
use crate::pg::walk::{Visit, first_call};
use datafusion::sql::sqlparser::ast::Function;
use std::collections::HashSet;
use std::sync::LazyLock;

static NAMES: LazyLock<HashSet<String>> =
    LazyLock::new(|| functions().iter().map(|function| function.name().to_string()).collect());

pub(crate) fn is_set(call: &Function) -> bool {
    NAMES.contains(&function_name(call))
}

/// Whether there is a call of a function that returns a set, those within queries aside.
pub(crate) fn has_set<T: Visit>(tree: &T) -> bool {
    first_call(tree, |call| is_set(call).then_some(())).is_some()
}
