//! Subqueries over system tables that have no rows, and those that give a name of a table.

use super::{expressions, is_named};
use crate::catalog::bind::fold;
use crate::pg::walk::taken;
use crate::pg::walk::{self, Visit};
use datafusion::sql::sqlparser::ast::{
    self, Expr, Function, FunctionArguments, ObjectName, Query, SelectItem, SetExpr, TableFactor, Visitor,
};
use std::ops::ControlFlow;

/// A system table without rows, whose columns are arrays that policies are listed in; and the function that lists the options of
/// foreign data, of which there are none.
const EMPTY_TABLES: &[&str] = &["pg_policy", "pg_options_to_table"];

/// The column of pg_publication_rel, a table without rows, that `\d` spreads out by its subscripts.
const PUBLISHED: &str = "prattrs";

/// `ARRAY(SELECT ...)` over a system table without rows.
pub(super) fn is_empty_array(function: &Function) -> bool {
    let FunctionArguments::Subquery(query) = &function.args else {
        return false;
    };
    is_named(function, "array") && reads_any(query, EMPTY_TABLES)
}

/// A scalar subquery over the triggers of a partition's ancestors, or over the columns of a publication: there are none.
pub(super) fn is_null(query: &Query) -> bool {
    is_of_publication(query) || reads_any(query, &["pg_trigger"]) && reads_any(query, &["pg_partition_ancestors"])
}

fn reads_any(query: &Query, tables: &[&str]) -> bool {
    struct Finder<'a>(&'a [&'a str]);
    impl Visitor for Finder<'_> {
        type Break = ();
        fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
            let last = relation.0.last().and_then(|part| part.as_ident()).map(fold);
            match last {
                Some(name) if self.0.contains(&name.as_str()) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    query.visit(&mut Finder(tables)).is_break()
}

fn is_of_publication(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return false;
    };
    let named = |expr: &Expr| match expr {
        Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|name| fold(name) == PUBLISHED),
        _ => false,
    };
    let calls = select.from.iter().filter_map(|table| match &table.relation {
        TableFactor::Table { args, .. } => args.as_ref(),
        _ => None,
    });
    calls.flat_map(|call| expressions(&call.args)).any(|argument| {
        let found = |expr: &Expr, _| match named(expr) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        walk::expressions(&argument, found).is_break()
    })
}

/// `(SELECT x::regclass FROM ...)` becomes `(SELECT x FROM ...)::regclass`: a subquery's value keeps no type of PostgreSQL's.
pub(super) fn cast_outside(query: &mut Query) -> Option<ast::DataType> {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] =
        select.projection.as_mut_slice()
    else {
        return None;
    };
    let Expr::Cast {
        kind: ast::CastKind::DoubleColon,
        expr,
        data_type: data_type @ ast::DataType::Regclass,
        ..
    } = item
    else {
        return None;
    };
    let (inner, to) = (taken(expr.as_mut()), data_type.clone());
    *item = inner;
    Some(to)
}
