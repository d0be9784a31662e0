//! An aggregate's FILTER is tested before its arguments are computed: `sum(1 / k) FILTER (WHERE k <> 0)`. DataFusion computes
//! the arguments of all rows; under a CASE it does so only where the FILTER holds.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::{Expr, when};

pub(super) fn aggregate(mut call: AggregateFunction) -> Result<Transformed<AggregateFunction>> {
    let Some(filter) = call.params.filter.clone().filter(|filter| is_repeatable(filter)) else {
        return Ok(Transformed::no(call));
    };
    let mut changed = false;
    for expr in &mut call.params.args {
        changed |= guard(expr, &filter)?;
    }
    for key in &mut call.params.order_by {
        changed |= guard(&mut key.expr, &filter)?;
    }
    Ok(Transformed::new_transformed(call, changed))
}

pub(super) fn window(mut call: Box<WindowFunction>) -> Result<Transformed<Box<WindowFunction>>> {
    let Some(filter) = call.params.filter.clone().filter(|filter| is_repeatable(filter)) else {
        return Ok(Transformed::no(call));
    };
    let mut changed = false;
    for expr in &mut call.params.args {
        changed |= guard(expr, &filter)?;
    }
    Ok(Transformed::new_transformed(call, changed))
}

/// Puts an expression under the condition, if it computes anything.
fn guard(expr: &mut Expr, filter: &Expr) -> Result<bool> {
    let computes = expr.exists(|node| Ok(!matches!(node, Expr::Column(_) | Expr::Literal(..) | Expr::Alias(_))))?;
    let constant = expr.column_refs().is_empty();
    let guarded = matches!(expr, Expr::Case(case) if case.expr.is_none()
        && case.when_then_expr.first().is_some_and(|(when, _)| when.as_ref() == filter));
    if !computes || constant || guarded {
        return Ok(false);
    }
    *expr = when(filter.clone(), std::mem::take(expr)).end()?;
    Ok(true)
}

fn is_repeatable(filter: &Expr) -> bool {
    let subquery = filter.exists(|node| {
        Ok(matches!(
            node,
            Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)
        ))
    });
    !filter.is_volatile() && !subquery.unwrap_or(true)
}
