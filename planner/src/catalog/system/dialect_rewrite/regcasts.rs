//! Casts to the aliases of oid: `'t'::regclass` is an oid, and prints as a name.
//!
//! The cast becomes a call that gives the oid. Where the value is shown, as an output column or by a further cast to text,
//! it becomes a call that gives the name.

use super::super::regnames::RegType;
use super::call;
use crate::catalog::bind::fold;
use crate::catalog::system::columns::{has_oids, vector_of};
use crate::catalog::system::functions::{reg_name, reg_oid};
use crate::catalog::system::vectors;
use crate::pg::walk::taken;
use datafusion::sql::sqlparser::ast::{
    Array, ArrayElemTypeDef, BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, ObjectName, OrderByKind, Query, SelectItem, SetExpr, Statement, Value,
};

/// The alias that a type name stands for.
fn alias_of(data_type: &DataType) -> Option<RegType> {
    match data_type {
        DataType::Regclass => Some(RegType::Class),
        DataType::Custom(name, _) => RegType::named(&name.0.last()?.as_ident().map(fold)?),
        _ => None,
    }
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Text | DataType::Varchar(_) | DataType::CharacterVarying(_) => true,
        DataType::Custom(name, _) => {
            let last = name.0.last().and_then(|part| part.as_ident()).map(fold);
            matches!(last.as_deref(), Some("text" | "name" | "varchar"))
        }
        _ => false,
    }
}

/// Whether an expression is what `pg_typeof` gives, here the name of a type.
fn is_type_name(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_type_name(inner),
        Expr::Function(Function { name, .. }) => is_named(name, "pg_typeof"),
        _ => false,
    }
}

/// Columns of system tables that are functions: names here.
const FUNCTIONS: &[&str] = &[
    "amhandler",
    "oprcode",
    "oprjoin",
    "oprrest",
    "prsend",
    "prsheadline",
    "prslextype",
    "prsstart",
    "prstoken",
    "tmplinit",
    "tmpllexize",
    "typinput",
    "typoutput",
    "typreceive",
    "typsend",
];

/// The name of a column, without what it is of.
fn column_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(fold(name)),
        Expr::CompoundIdentifier(parts) => parts.last().map(fold),
        _ => None,
    }
}

fn is_function_name(expr: &Expr) -> bool {
    column_name(expr).is_some_and(|name| FUNCTIONS.contains(&name.as_str()))
}

/// A function's name beside a column of oids stands for its own.
fn compare_functions(function: &mut Expr, other: &Expr) {
    if is_function_name(function) && column_name(other).is_some_and(|name| has_oids(&name)) {
        let name = taken(function);
        *function = call("to_regproc", vec![name]);
    }
}

fn is_named(name: &ObjectName, wanted: &str) -> bool {
    let last = name.0.last().and_then(|part| part.as_ident()).map(fold);
    last.as_deref() == Some(wanted)
}

/// Rewrites a cast whose operand has been rewritten already, or a comparison of a type's name with an oid.
pub(super) fn rewrite(expr: &mut Expr) {
    match expr {
        Expr::BinaryOp {
            left,
            op: BinaryOperator::StringConcat,
            right,
        } => {
            show(left);
            show(right);
            return;
        }
        // Whose arguments become texts.
        Expr::Function(function)
            if ["concat", "concat_ws", "format"]
                .iter()
                .any(|name| is_named(&function.name, name)) =>
        {
            if let FunctionArguments::List(list) = &mut function.args {
                for argument in &mut list.args {
                    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) = argument {
                        show(argument);
                    }
                }
            }
            return;
        }
        _ => {}
    }
    let oid = reg_oid(RegType::Type);
    let looked_up = |name: &mut Expr| {
        let operand = taken(name);
        *name = call(&reg_oid(RegType::Type), vec![operand]);
    };
    if let Expr::BinaryOp {
        left,
        op: BinaryOperator::Eq | BinaryOperator::NotEq,
        right,
    } = expr
    {
        // None is `-`.
        if is_function_name(left)
            && matches!(right.as_ref(), Expr::Value(value) if matches!(&value.value, Value::Number(number, _) if number == "0"))
        {
            **right = Expr::Value(Value::SingleQuotedString("-".into()).into());
        }
        compare_vectors(left, right);
        compare_vectors(right, left);
        compare_functions(left, right);
        compare_functions(right, left);
        if is_function_name(left) {
            show(right);
        }
        if is_function_name(right) {
            show(left);
        }
        let is_oid = |expr: &Expr| matches!(expr, Expr::Function(Function { name, .. }) if is_named(name, &oid));
        if is_type_name(left) && is_oid(right) {
            looked_up(left);
        } else if is_type_name(right) && is_oid(left) {
            looked_up(right);
        }
        return;
    }
    if let Expr::Cast {
        expr: operand,
        data_type: DataType::Custom(to, _),
        array: false,
        ..
    } = expr
        && is_named(to, "oid")
    {
        if is_type_name(operand) {
            looked_up(operand);
            return;
        }
        if is_function_name(operand) {
            let operand = taken(operand.as_mut());
            *expr = call("to_regproc", vec![operand]);
            return;
        }
    }
    if let Some(elements) = listed(expr) {
        *expr = elements;
        return;
    }
    let Expr::Cast {
        expr: operand,
        data_type,
        array: false,
        ..
    } = expr
    else {
        return;
    };
    if is_text(data_type) {
        show(operand);
    } else if let Some(reader) = vector_reader(data_type) {
        let operand = taken(operand.as_mut());
        *expr = call(&reader, vec![operand]);
    } else if let Some(alias) = alias_of(data_type) {
        let operand = taken(operand.as_mut());
        // The regproc columns of system tables hold names.
        let is_text = matches!(&operand, Expr::Value(_));
        let function = match alias {
            RegType::Proc | RegType::Procedure if !is_text => reg_name(alias),
            _ => reg_oid(alias),
        };
        *expr = call(&function, vec![operand]);
    }
}

/// What reads a value as `oidvector` or `int2vector`.
fn vector_reader(data_type: &DataType) -> Option<String> {
    match data_type {
        DataType::Custom(name, _) => vectors::reader(&name.0.last()?.as_ident().map(fold)?),
        _ => None,
    }
}

/// A literal beside a column of vectors is one.
fn compare_vectors(column: &Expr, value: &mut Expr) {
    let Some(of) = column_name(column).and_then(|name| vector_of(&name)) else {
        return;
    };
    if let (Some(reader), Expr::Value(literal)) = (vectors::reader(of), &*value)
        && matches!(literal.value, Value::SingleQuotedString(_))
    {
        let literal = taken(value);
        *value = call(&reader, vec![literal]);
    }
}

/// `'{int4,text}'::regtype[]` and `ARRAY['int4', 'text']::regtype[]` as an array of oids.
fn listed(expr: &Expr) -> Option<Expr> {
    let Expr::Cast {
        expr: operand,
        data_type: DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)),
        ..
    } = expr
    else {
        return None;
    };
    let alias = alias_of(element)?;
    let text = match operand.as_ref() {
        Expr::Value(text) => text,
        Expr::Array(array) if !array.elem.iter().any(|elem| matches!(elem, Expr::Array(_))) => {
            let elem = array.elem.iter().map(|elem| call(&reg_oid(alias), vec![elem.clone()]));
            return Some(Expr::Array(Array {
                elem: elem.collect(),
                named: true,
            }));
        }
        _ => return None,
    };
    let names = text.value.clone().into_string()?;
    let names = names.strip_prefix('{')?.strip_suffix('}')?.split(',');
    let elem = names.map(|name| {
        let name = Value::SingleQuotedString(name.trim().to_string());
        call(&reg_oid(alias), vec![Expr::Value(name.into())])
    });
    Some(Expr::Array(Array {
        elem: elem.collect(),
        named: true,
    }))
}

/// Turns the call that gives an oid into the one that gives its name.
fn show(expr: &mut Expr) {
    match expr {
        Expr::Nested(inner) => show(inner),
        Expr::Array(array) => array.elem.iter_mut().for_each(show),
        Expr::Function(Function { name, .. }) => {
            let Some(own) = name.0.last().and_then(|part| part.as_ident()).map(fold) else {
                return;
            };
            if let Some(alias) = RegType::looked_up_by(&own) {
                let found = taken(expr);
                *expr = call(&reg_name(alias), vec![found]);
                return;
            }
            let aliases = [
                RegType::Class,
                RegType::Type,
                RegType::Proc,
                RegType::Procedure,
                RegType::Namespace,
                RegType::Role,
            ];
            if let Some(alias) = aliases.into_iter().find(|alias| reg_oid(*alias) == own) {
                *name = ObjectName::from(vec![Ident::new(reg_name(alias))]);
            }
        }
        _ => {}
    }
}

/// Shows the output columns of a statement by name.
pub(super) fn show_outputs(statement: &mut Statement) {
    if let Statement::Query(query) = statement {
        sort_by_oids(query);
        show_columns(&mut query.body);
    }
}

/// An output column that is shown by name is sorted by its oid, as PostgreSQL's types compare.
fn sort_by_oids(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return;
    };
    let Some(OrderByKind::Expressions(keys)) = query.order_by.as_mut().map(|order| &mut order.kind) else {
        return;
    };
    if select.distinct.is_some() {
        return;
    }
    for key in keys {
        let found = match &key.expr {
            Expr::Value(value) => match &value.value {
                Value::Number(number, _) => {
                    let at = number.parse::<usize>().ok().and_then(|at| at.checked_sub(1));
                    at.and_then(|at| select.projection.get(at))
                }
                _ => None,
            },
            Expr::Identifier(name) => select
                .projection
                .iter()
                .find(|item| matches!(item, SelectItem::ExprWithAlias { alias, .. } if fold(alias) == fold(name))),
            _ => None,
        };
        if let Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = found
            && is_oid_of(expr)
        {
            key.expr = expr.clone();
        }
    }
}

/// Whether it is what a cast to an alias of oid has become.
fn is_oid_of(expr: &Expr) -> bool {
    let aliases = [RegType::Class, RegType::Type, RegType::Namespace, RegType::Role];
    match expr {
        Expr::Nested(inner) => is_oid_of(inner),
        Expr::Function(Function { name, .. }) => aliases.iter().any(|alias| is_named(name, &reg_oid(*alias))),
        _ => false,
    }
}

fn show_columns(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            for item in &mut select.projection {
                if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                    show(expr);
                }
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            show_columns(left);
            show_columns(right);
        }
        SetExpr::Query(query) => show_columns(&mut query.body),
        _ => {}
    }
}
