//! `nextval('s'::regclass)`: the functions of sequences take a name as it is.

use super::function_name;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Value,
};

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

/// The text by which an expression names a relation: `'s'::regclass`, whose type is spelt as `pg_get_expr` has it from here on,
/// or `nextval('s')`.
pub(crate) fn relation_text(expr: &mut Expr) -> Option<&mut String> {
    let named = match expr {
        Expr::Cast { expr, data_type, .. } if is_regclass(data_type) => {
            *data_type = DataType::Custom(ObjectName::from(vec![Ident::new("regclass")]), Vec::new());
            expr.as_mut()
        }
        Expr::Function(call) if OF_SEQUENCES.contains(&function_name(call).as_str()) => {
            let FunctionArguments::List(list) = &mut call.args else {
                return None;
            };
            let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) = list.args.first_mut() else {
                return None;
            };
            first
        }
        _ => return None,
    };
    match named {
        Expr::Value(value) => match &mut value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

pub(crate) fn is_regclass(data_type: &DataType) -> bool {
    match data_type {
        DataType::Regclass => true,
        DataType::Custom(name, _) => match crate::pg::names::parts(name).as_slice() {
            [own] => own == "regclass",
            [schema, own] => schema == "pg_catalog" && own == "regclass",
            _ => false,
        },
        _ => false,
    }
}
