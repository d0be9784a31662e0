//! Which calls of a statement's text return sets: asked before names are those of the registry.

use super::functions;
use crate::pg::rewrite::function_name;
use crate::pg::walk::{Visit, expressions};
use datafusion::sql::sqlparser::ast::{Expr, Function};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::LazyLock;

static NAMES: LazyLock<HashSet<String>> =
    LazyLock::new(|| functions().iter().map(|function| function.name().to_string()).collect());

pub(crate) fn is_set(call: &Function) -> bool {
    NAMES.contains(&function_name(call))
}

/// Whether there is a call of a function that returns a set, those within queries aside.
pub(crate) fn has_set<T: Visit>(tree: &T) -> bool {
    let found = expressions(tree, |expr, within| match expr {
        Expr::Function(call) if !within && is_set(call) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}
