//! `SELECT t.* FROM s.t`, and `count(t.*)`: the planner knows the relation as `s.t`, and finds columns by the last part of that,
//! but not stars.

use crate::pg::names::fold;
use crate::pg::walk::{change_inner_first, leaves};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, ObjectNamePart, Select, SelectItem,
    SelectItemQualifiedWildcardKind, TableFactor,
};

/// Calls relations in stars as FROM does.
pub(super) fn in_select(select: &mut Select) {
    // Of several parts, and without another name.
    let named = select.from.iter().flat_map(leaves).filter_map(|factor| match factor {
        TableFactor::Table { name, alias: None, .. } if name.0.len() > 1 => Some(name.clone()),
        _ => None,
    });
    let named: Vec<ObjectName> = named.collect();
    if named.is_empty() {
        return;
    }
    let mut exprs: Vec<&mut Expr> = select.having.iter_mut().collect();
    for item in &mut select.projection {
        match item {
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                qualify(name, &named)
            }
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => exprs.push(expr),
            _ => {}
        }
    }
    for expr in exprs {
        change_inner_first(expr, |expr, within| {
            // Subqueries may have relations of these names.
            if !within {
                count(expr, &named);
            }
        });
    }
}

/// `count(t.*)`. Others take whole rows, by the relation's last name.
fn count(expr: &mut Expr, named: &[ObjectName]) {
    if let Expr::Function(function) = expr
        && super::function_name(function) == "count"
        && let FunctionArguments::List(list) = &mut function.args
        && list.duplicate_treatment.is_none()
    {
        for argument in &mut list.args {
            if let FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) = argument {
                qualify(name, named);
            }
        }
    }
}

fn qualify(name: &mut ObjectName, named: &[ObjectName]) {
    let [ObjectNamePart::Identifier(only)] = name.0.as_slice() else {
        return;
    };
    let wanted = fold(only);
    let is_own = |own: &&ObjectName| {
        let last = own.0.last().and_then(ObjectNamePart::as_ident);
        last.is_some_and(|last| fold(last) == wanted)
    };
    if let Some(own) = named.iter().find(is_own) {
        *name = own.clone();
    }
}
