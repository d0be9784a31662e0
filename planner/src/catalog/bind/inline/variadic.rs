//! Calls of functions whose last argument takes any number of values: these are the items of an array, unless the call says
//! VARIADIC, which gives the array itself.

use super::Arguments;
use crate::pg::rewrite::{VARIADIC, function_name};
use datafusion::sql::sqlparser::ast::{
    Array, Expr, Function as Call, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator,
};
use tenon_storage::Function;

/// Whether a function's last argument takes any number of values.
pub(super) fn is_variadic(function: &Function) -> bool {
    function.parameters.iter().any(|own| own.mode == 'v')
}

/// The array of an argument that says VARIADIC.
pub(super) fn array_of(value: &Expr) -> Option<&Expr> {
    match value {
        Expr::UnaryOp {
            op: UnaryOperator::DoubleAt,
            expr,
        } => Some(expr),
        Expr::Function(call) if function_name(call) == VARIADIC => only_argument(call),
        _ => None,
    }
}

fn only_argument(call: &Call) -> Option<&Expr> {
    match &call.args {
        FunctionArguments::List(list) => match list.args.as_slice() {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(only))] => Some(only),
            _ => None,
        },
        _ => None,
    }
}

/// The arguments with an array in the place of those that the last one takes; None where they are not the function's.
pub(super) fn gathered(function: &Function, given: &Arguments) -> Option<Arguments> {
    let said = given.last().and_then(|(name, value)| Some((name, array_of(value)?)));
    if let Some((name, array)) = said {
        let mut given = given[..given.len() - 1].to_vec();
        given.push((name.clone(), array.clone()));
        return is_variadic(function).then_some(given);
    }
    let fixed = match is_variadic(function) {
        true => function.arguments.len().saturating_sub(1),
        false => return Some(given.clone()),
    };
    if given.len() <= fixed || given.iter().any(|(name, _)| name.is_some()) {
        return Some(given.clone());
    }
    let items = given[fixed..].iter().map(|(_, value)| value.clone()).collect();
    let array = Expr::Array(Array {
        elem: items,
        named: true,
    });
    let mut given = given[..fixed].to_vec();
    given.push((None, array));
    Some(given)
}
