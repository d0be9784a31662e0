//! Rewrites of the parsed tree before DataFusion plans it: where PostgreSQL's reading of a query differs from
//! DataFusion's and the tree is the place to say so.
//!
//! - output columns get PostgreSQL's names (`names`);
//! - integer literals get PostgreSQL's types (`literals`);
//! - spellings that DataFusion does not know become ones that it does (`spellings`).

mod literals;
mod names;
mod spellings;

pub(crate) use names::{displayed_name, function_name};
pub(crate) use spellings::escape_by_backslash;

use datafusion::sql::sqlparser::ast::{Expr, Query, Select, VisitMut, VisitorMut};
use std::ops::ControlFlow;

/// Rewrites a statement, query or expression in place.
pub(crate) fn rewrite<T: VisitMut>(tree: &mut T) {
    let _ = tree.visit(&mut Rewriter);
}

/// Gives output columns PostgreSQL's names, and changes nothing else.
pub(crate) fn name_outputs<T: VisitMut>(tree: &mut T) {
    struct Namer;
    impl VisitorMut for Namer {
        type Break = ();
        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            names::name_outputs(select);
            ControlFlow::Continue(())
        }
    }
    let _ = tree.visit(&mut Namer);
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        names::name_outputs(select);
        spellings::refuse_full_using(select);
        if let Some(condition) = &mut select.selection {
            spellings::conditions(condition);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        literals::restore_positions_in_select(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        spellings::fetch_as_limit(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        literals::restore_positions_in_query(query);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        spellings::respell(expr);
        literals::type_literal(expr);
        ControlFlow::Continue(())
    }
}
