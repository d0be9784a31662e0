//! Whether expressions over one table's columns are the same, whatever statement said them, and whether conditions imply another.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, IsNotNullExpr, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;

type Expr = Arc<dyn PhysicalExpr>;

/// Whether rows of which all of `given` are true have `wanted` true, as far as is seen: each of its parts is one of the given ones,
/// or says that something is not NULL which a given one compares.
pub fn implies(given: &[Expr], wanted: &Expr, table: &Schema) -> bool {
    let given: Vec<&Expr> = given.iter().flat_map(split_conjunction).collect();
    let compares = |wanted: &Expr| {
        given.iter().any(|given| {
            given.downcast_ref::<BinaryExpr>().is_some_and(|given| {
                given.op().supports_propagation()
                    && (is_same(given.left(), wanted, table) || is_same(given.right(), wanted, table))
            })
        })
    };
    split_conjunction(wanted).into_iter().all(|wanted| {
        given.iter().any(|given| is_same(given, wanted, table))
            || wanted
                .downcast_ref::<IsNotNullExpr>()
                .is_some_and(|wanted| compares(wanted.arg()))
    })
}

/// Whether two expressions have the same value in every row of a table, as far as is seen. What tells equal ones apart is passed
/// over: names, casts to the type that there is, constants that are computed.
pub fn is_same(a: &Expr, b: &Expr, table: &Schema) -> bool {
    let (a, b) = (bare(a, table), bare(b, table));
    let all = |a: &[Expr], b: &[Expr]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b, table));
    if let (Some(a), Some(b)) = (a.downcast_ref::<Column>(), b.downcast_ref::<Column>()) {
        return a.index() == b.index();
    }
    if let (Some(a), Some(b)) = (constant(a), constant(b)) {
        return a == b;
    }
    if let (Some(a), Some(b)) = (
        a.downcast_ref::<ScalarFunctionExpr>(),
        b.downcast_ref::<ScalarFunctionExpr>(),
    ) {
        return a.fun() == b.fun() && a.return_type() == b.return_type() && all(a.args(), b.args());
    }
    if let (Some(a), Some(b)) = (a.downcast_ref::<BinaryExpr>(), b.downcast_ref::<BinaryExpr>()) {
        return a.op() == b.op() && is_same(a.left(), b.left(), table) && is_same(a.right(), b.right(), table);
    }
    if let (Some(a), Some(b)) = (a.downcast_ref::<CastExpr>(), b.downcast_ref::<CastExpr>()) {
        return a.cast_type() == b.cast_type() && is_same(a.expr(), b.expr(), table);
    }
    // The rest as they are over the same inputs.
    let (of_a, of_b) = (a.children(), b.children());
    let same_inputs = of_a.len() == of_b.len() && of_a.iter().zip(&of_b).all(|(a, b)| is_same(a, b, table));
    let over_these = || Arc::clone(b).with_new_children(of_a.iter().copied().cloned().collect());
    same_inputs && (a == b || over_these().is_ok_and(|b| *a == b))
}

/// An expression without casts to the type that it has.
fn bare<'a>(expr: &'a Expr, table: &Schema) -> &'a Expr {
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) if cast.expr().data_type(table).is_ok_and(|of| of == *cast.cast_type()) => bare(cast.expr(), table),
        _ => expr,
    }
}

/// The value of an expression over no columns. Texts have one type.
pub fn constant(expr: &Expr) -> Option<ScalarValue> {
    let value = match expr.downcast_ref::<Literal>() {
        Some(literal) => literal.value().clone(),
        None if !collect_columns(expr).is_empty() || is_volatile(expr) => return None,
        None => {
            let options = RecordBatchOptions::new().with_row_count(Some(1));
            let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).ok()?;
            let value = expr.evaluate(&row).ok()?.into_array(1).ok()?;
            ScalarValue::try_from_array(&value, 0).ok()?
        }
    };
    match value.data_type().is_string() {
        true => value.cast_to(&DataType::Utf8View).ok(),
        false => Some(value),
    }
}
