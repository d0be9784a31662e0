//! `SELECT t.* FROM s.t`, and `count(t.*)`: the planner knows the relation as `s.t`, and finds columns by the last part of that,
//! but not stars.

use crate::pg::names::fold;
use crate::pg::walk::{VisitMut, leaves};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, ObjectNamePart, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, TableFactor, VisitorMut,
};
use std::ops::ControlFlow;

/// Calls relations in stars as FROM does.
pub(super) fn in_select(select: &mut Select) {
    let named = select.from.iter().flat_map(leaves).filter_map(|factor| match factor {
        TableFactor::Table { name, alias: None, .. } if name.0.len() > 1 => Some(name.clone()),
        _ => None,
    });
    let named: Vec<ObjectName> = named.collect();
    if named.is_empty() {
        return;
    }
    let mut stars = Stars { named, queries: 0 };
    for item in &mut select.projection {
        match item {
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => stars.qualify(name),
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                let _ = expr.visit(&mut stars);
            }
            _ => {}
        }
    }
    if let Some(condition) = &mut select.having {
        let _ = condition.visit(&mut stars);
    }
}

struct Stars {
    /// The names, of several parts, of tables that have no other one.
    named: Vec<ObjectName>,
    /// Subqueries around the place, which may have relations of these names.
    queries: usize,
}

impl Stars {
    fn qualify(&self, name: &mut ObjectName) {
        let [ObjectNamePart::Identifier(only)] = name.0.as_slice() else {
            return;
        };
        let wanted = fold(only);
        let is_own = |own: &&ObjectName| {
            let last = own.0.last().and_then(ObjectNamePart::as_ident);
            last.is_some_and(|last| fold(last) == wanted)
        };
        if let Some(own) = self.named.iter().find(is_own) {
            *name = own.clone();
        }
    }
}

impl VisitorMut for Stars {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        // Others take whole rows, by the relation's last name.
        if let Expr::Function(function) = expr
            && self.queries == 0
            && super::function_name(function) == "count"
            && let FunctionArguments::List(list) = &mut function.args
            && list.duplicate_treatment.is_none()
        {
            for argument in &mut list.args {
                if let FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) = argument {
                    self.qualify(name);
                }
            }
        }
        ControlFlow::Continue(())
    }
}
