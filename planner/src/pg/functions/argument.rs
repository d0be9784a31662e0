//! An argument of a function in SQL that is computed once a call, however often its parameter stands in the function's body:
//! `with_argument(number, argument, body)` is the body's value, in which `argument(number, like)` is the argument's, of the type
//! of `like`. What plans have of them becomes columns (`semantics::arguments_once`); neither is ever evaluated.

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// No names that a client could write without quotes.
pub(crate) const ARGUMENT: &str = "\u{1}argument";
pub(crate) const WITH_ARGUMENT: &str = "\u{1}with argument";

/// Either of them.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Argument {
    name: &'static str,
    signature: Signature,
}

impl Argument {
    fn new(name: &'static str) -> Self {
        let arguments = if name == ARGUMENT { 2 } else { 3 };
        Self {
            name,
            signature: Signature::any(arguments, Volatility::Volatile),
        }
    }
}

pub(crate) fn function(name: &'static str) -> ScalarUDF {
    ScalarUDF::new_from_impl(Argument::new(name))
}

impl ScalarUDFImpl for Argument {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.last() {
            Some(of) => Ok(of.clone()),
            None => internal_err!("no argument"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields.last() {
            Some(field) => Ok(field.as_ref().clone().with_nullable(true).into()),
            None => internal_err!("no argument"),
        }
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("an argument of a function is no column")
    }
}

/// The number, the value and the body of a call of `with_argument`.
pub(crate) fn of_call(expr: &Expr) -> Option<(i64, &Expr, &Expr)> {
    let Expr::ScalarFunction(call) = expr else { return None };
    match call.args.as_slice() {
        [number, value, body] if call.name() == WITH_ARGUMENT => Some((self::number(number)?, value, body)),
        _ => None,
    }
}

fn number(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(ScalarValue::Int64(number), _) => *number,
        Expr::Literal(ScalarValue::Int32(number), _) => number.map(i64::from),
        Expr::Cast(cast) => number(&cast.expr),
        _ => None,
    }
}

fn is_argument(expr: &Expr, wanted: i64) -> bool {
    match expr {
        Expr::ScalarFunction(call) => call.name() == ARGUMENT && call.args.first().and_then(number) == Some(wanted),
        _ => false,
    }
}

/// A body with a value in the place of an argument; `within`: what stands for the value in queries within the body.
pub(crate) fn filled(body: Expr, wanted: i64, value: &Expr, within: &Expr) -> Result<Transformed<Expr>> {
    let put = |expr: Expr| match expr {
        expr if is_argument(&expr, wanted) => Ok(Transformed::yes(value.clone())),
        Expr::ScalarSubquery(query) => Ok(filled_query(query, wanted, within)?.update_data(Expr::ScalarSubquery)),
        Expr::Exists(mut exists) => {
            let query = filled_query(exists.subquery, wanted, within)?;
            exists.subquery = query.data;
            Ok(Transformed::new_transformed(Expr::Exists(exists), query.transformed))
        }
        Expr::InSubquery(mut list) => {
            let query = filled_query(list.subquery, wanted, within)?;
            list.subquery = query.data;
            Ok(Transformed::new_transformed(Expr::InSubquery(list), query.transformed))
        }
        Expr::SetComparison(mut comparison) => {
            let query = filled_query(comparison.subquery, wanted, within)?;
            comparison.subquery = query.data;
            Ok(Transformed::new_transformed(
                Expr::SetComparison(comparison),
                query.transformed,
            ))
        }
        expr => Ok(Transformed::no(expr)),
    };
    body.transform_up(put)
}

fn filled_query(mut query: Subquery, wanted: i64, within: &Expr) -> Result<Transformed<Subquery>> {
    let plan = Arc::unwrap_or_clone(query.subquery);
    let plan = plan.transform_up(|node| {
        let names = NamePreserver::new(&node);
        let node = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let put = filled(expr, wanted, within, within)?;
            Ok(put.update_data(|expr| name.restore(expr)))
        })?;
        match node.transformed {
            true => Ok(Transformed::yes(node.data.recompute_schema()?)),
            false => Ok(node),
        }
    })?;
    query.subquery = Arc::new(plan.data);
    if plan.transformed && matches!(within, Expr::OuterReferenceColumn(..)) {
        query.outer_ref_columns.push(within.clone());
    }
    Ok(Transformed::new_transformed(query, plan.transformed))
}

/// An expression in which arguments are computed wherever they stand: for where there are no rows to have them as columns.
pub(crate) fn everywhere(expr: Expr) -> Result<Expr> {
    let put = |expr: Expr| {
        let Some((number, value, body)) = of_call(&expr) else {
            return Ok(Transformed::no(expr));
        };
        Ok(Transformed::yes(filled(body.clone(), number, value, value)?.data))
    };
    expr.transform_up(put).data()
}
