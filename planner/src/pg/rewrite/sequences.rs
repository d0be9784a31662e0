//! `nextval('s'::regclass)`: the functions of sequences take a name as it is.

use super::function_name;
use datafusion::sql::sqlparser::ast::{DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments};

/// Functions whose first argument is a sequence.
pub(crate) const OF_SEQUENCES: [&str; 3] = ["nextval", "currval", "setval"];

pub(super) fn take_name(call: &mut Function) {
    if !OF_SEQUENCES.contains(&function_name(call).as_str()) {
        return;
    }
    let FunctionArguments::List(list) = &mut call.args else {
        return;
    };
    if let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(name))) = list.args.first_mut()
        && let Expr::Cast { expr, data_type, .. } = name
        && is_regclass(data_type)
        && matches!(expr.as_ref(), Expr::Value(_))
    {
        *name = (**expr).clone();
    }
}

pub(crate) fn is_regclass(data_type: &DataType) -> bool {
    match data_type {
        DataType::Regclass => true,
        DataType::Custom(name, _) => name.to_string().eq_ignore_ascii_case("regclass"),
        _ => false,
    }
}
