//! Numbers within sums, which may be decimals together where they would be numerics elsewhere.

use super::digits;
use super::unify::OF_ONE_TYPE;
use crate::pg::semantics::fields;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, cast};

/// Within `sum` and `avg`, whose result has the largest scale anyway, integers beside decimals become decimals: `CASE WHEN
/// a THEN price ELSE 0 END`.
pub(super) fn decimals_in_sums(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let sums = match &expr {
        Expr::AggregateFunction(call) => matches!(call.func.name(), "sum" | "avg"),
        Expr::WindowFunction(call) => matches!(call.fun.name(), "sum" | "avg"),
        _ => false,
    };
    if !sums {
        return Transformed::no(expr);
    }
    let rewritten = expr.clone().transform_down(|inner| match inner {
        Expr::Case(mut case) => {
            let results = case.when_then_expr.iter_mut().map(|(_, then)| then.as_mut());
            let changed = to_one_decimal(results.chain(case.else_expr.as_deref_mut()).collect(), schema);
            Ok(Transformed::new_transformed(Expr::Case(case), changed))
        }
        Expr::ScalarFunction(mut call) if OF_ONE_TYPE.contains(&call.name()) => {
            let changed = to_one_decimal(call.args.iter_mut().collect(), schema);
            Ok(Transformed::new_transformed(Expr::ScalarFunction(call), changed))
        }
        other => Ok(Transformed::new(other, false, TreeNodeRecursion::Continue)),
    });
    rewritten.unwrap_or_else(|_| Transformed::no(expr))
}

fn to_one_decimal(exprs: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let types: Vec<Option<DataType>> = exprs.iter().map(|expr| fields::data_type(expr, schema).ok()).collect();
    let known = || types.iter().flatten().filter(|own| !own.is_null());
    let fits = |own: &DataType| matches!(own, DataType::Decimal128(..)) || own.is_integer();
    let decimal = known().any(DataType::is_decimal);
    if !decimal || !known().all(fits) {
        return false;
    }
    let scale = known().filter_map(digits).map(|(_, scale)| scale).max().unwrap_or(0);
    let whole = known()
        .filter_map(digits)
        .map(|(precision, own)| i32::from(precision) - i32::from(own));
    let precision = whole.max().unwrap_or(0) + i32::from(scale);
    let target = DataType::Decimal128(precision.clamp(1, 38) as u8, scale);
    let mut changed = false;
    for (expr, own) in exprs.into_iter().zip(types) {
        if own.is_some_and(|own| own != target) {
            *expr = cast(std::mem::take(expr), target.clone());
            changed = true;
        }
    }
    changed
}
