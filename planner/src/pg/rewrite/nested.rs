//! Spellings of arrays and json.

use super::spellings::{call, take};
use crate::pg::functions::array::{EVEN, FILL, SLICE, SUBSCRIPT};
use crate::pg::functions::json;
use crate::pg::walk::{null, taken};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, CastKind, DataType, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArgumentList, FunctionArguments, Ident, ObjectName, Subscript, UnaryOperator,
    Value, helpers::attached_token::AttachedToken,
};
use tenon_storage::parse::parse_array;

pub(super) fn respell(expr: &mut Expr) {
    match expr {
        Expr::Cast {
            expr: inner, data_type, ..
        } => {
            if matches!(data_type, DataType::Custom(name, _) if name.to_string().eq_ignore_ascii_case("jsonpath")) {
                *expr = call(json::PATH, vec![take(inner)]);
                return;
            }
            // Whatever a text says, it is nothing.
            if matches!(data_type, DataType::Custom(name, _) if name.to_string().eq_ignore_ascii_case("void"))
                && let Expr::Value(value) = inner.as_mut()
                && let Value::SingleQuotedString(text) = &mut value.value
            {
                text.clear();
            }
            dimension_cast(inner, data_type);
        }
        Expr::Function(function) => {
            if let Some(planned) = of_function(function) {
                *expr = planned;
            }
        }
        _ => {}
    }
}

fn of_function(function: &mut Function) -> Option<Expr> {
    let name = super::function_name(function);
    positional(&name, function);
    if let Some(null) = spread(function) {
        return Some(null);
    }
    if arguments(function).is_empty()
        && let Some(empty) = empty_json(&name)
    {
        return Some(empty);
    }
    let aggregate = json::AGGREGATES.iter().find(|(known, _)| *known == name);
    if let Some((name, of_arrays)) = aggregate {
        whole_rows(function);
        return aggregated(name, of_arrays, function);
    }
    match name.as_str() {
        // Its result has the type of jsonb's text.
        "string_agg" => {
            let own = Expr::Function(function.clone());
            Some(call(crate::pg::functions::TEXT, vec![own]))
        }
        "array_agg" => Some(call(EVEN, vec![Expr::Function(function.clone())])),
        "array_fill" => fill(function),
        _ => None,
    }
}

/// `f(t.*)`: an expression as others are, which becomes the row where relations are known.
fn whole_rows(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else {
        return;
    };
    for argument in &mut list.args {
        if let FunctionArg::Unnamed(argument) = argument
            && let FunctionArgExpr::QualifiedWildcard(name) = argument
        {
            *argument = FunctionArgExpr::Expr(Expr::QualifiedWildcard(name.clone(), AttachedToken::empty()));
        }
    }
}

/// `VARIADIC array`, which stands as a prefix operator: the array's items as arguments where they stand as they are. The
/// call is NULL where the array is.
fn spread(function: &mut Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &mut function.args else {
        return None;
    };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::UnaryOp {
        op: UnaryOperator::DoubleAt,
        expr,
    }))) = list.args.last()
    else {
        return None;
    };
    let (literal, element) = match expr.as_ref() {
        Expr::Cast { expr, data_type, .. } => (expr.as_ref(), Some(element_of(data_type).0.clone())),
        other => (other, None),
    };
    let items: Vec<Expr> = match literal {
        Expr::Array(array) => array.elem.clone(),
        Expr::Value(value) => match &value.value {
            Value::Null => return Some(null()),
            Value::SingleQuotedString(text) => {
                let items = parse_array(text).ok()?.items.into_iter();
                let item = |item: Option<String>| match item {
                    Some(item) => Expr::Value(Value::SingleQuotedString(item).into()),
                    None => null(),
                };
                items.map(item).collect()
            }
            _ => return None,
        },
        _ => return None,
    };
    list.args.pop();
    list.args.extend(items.into_iter().map(|item| {
        let typed = match &element {
            Some(element) => Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(item),
                data_type: element.clone(),
                array: false,
                format: None,
            },
            None => item,
        };
        FunctionArg::Unnamed(FunctionArgExpr::Expr(typed))
    }));
    None
}

/// The builders of json without arguments.
fn empty_json(name: &str) -> Option<Expr> {
    let (text, data_type) = match name {
        "json_build_array" => ("[]", DataType::JSON),
        "jsonb_build_array" => ("[]", DataType::JSONB),
        "json_build_object" => ("{}", DataType::JSON),
        "jsonb_build_object" => ("{}", DataType::JSONB),
        _ => return None,
    };
    Some(Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(Value::SingleQuotedString(text.into()).into())),
        data_type,
        array: false,
        format: None,
    })
}

/// Arguments given by name, of the functions whose parameters are known here.
fn positional(name: &str, function: &mut Function) {
    let parameters: &[&str] = match name {
        "jsonb_set" | "jsonb_set_lax" => &[
            "jsonb_in",
            "path",
            "replacement",
            "create_if_missing",
            "null_value_treatment",
        ],
        "jsonb_insert" => &["jsonb_in", "path", "replacement", "insert_after"],
        _ if name.starts_with("jsonb_path_") => &["target", "path", "vars", "silent"],
        _ => return,
    };
    let FunctionArguments::List(list) = &mut function.args else {
        return;
    };
    let at = |argument: &FunctionArg| match argument {
        FunctionArg::Named { name, .. } => parameters.iter().position(|own| name.value.eq_ignore_ascii_case(own)),
        FunctionArg::ExprNamed {
            name: Expr::Identifier(name),
            ..
        } => parameters.iter().position(|own| name.value.eq_ignore_ascii_case(own)),
        _ => None,
    };
    if !list.args.iter().any(|argument| at(argument).is_some()) {
        return;
    }
    let mut placed: Vec<FunctionArg> = Vec::new();
    for argument in std::mem::take(&mut list.args) {
        let position = at(&argument);
        let (FunctionArg::Named { arg, .. } | FunctionArg::ExprNamed { arg, .. } | FunctionArg::Unnamed(arg)) =
            argument;
        // The defaults of what is left out between.
        while position.is_some_and(|position| placed.len() < position) {
            let default = match parameters[placed.len()] {
                "vars" => Value::SingleQuotedString("{}".into()),
                "create_if_missing" => Value::Boolean(true),
                _ => Value::Null,
            };
            placed.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(default.into()))));
        }
        placed.push(FunctionArg::Unnamed(arg));
    }
    list.args = placed;
}

fn arguments(function: &mut Function) -> Vec<&mut Expr> {
    let FunctionArguments::List(list) = &mut function.args else {
        return Vec::new();
    };
    let exprs = list.args.iter_mut().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    exprs.collect()
}

/// An aggregate of json as one function of what `array_agg` gathers of each argument, with the same clauses.
fn aggregated(name: &str, of_arrays: &str, function: &Function) -> Option<Expr> {
    let mut own = function.clone();
    let count = arguments(&mut own).len();
    if count != if name.contains("object") { 2 } else { 1 } {
        return None;
    }
    if count == 2 && is_distinct(function) {
        return Some(call(of_arrays, vec![distinct_pairs(function)]));
    }
    let gathered = (0..count).map(|at| {
        let mut one = function.clone();
        one.name = ObjectName::from(vec![Ident::new("array_agg")]);
        if let FunctionArguments::List(list) = &mut one.args {
            let mut argument = list.args.swap_remove(at);
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = &mut argument {
                let own = taken(expr);
                *expr = call(json::CARRIED, vec![own.clone()]);
                // With DISTINCT the keys of ORDER BY are arguments, and must stay so.
                if list.duplicate_treatment == Some(DuplicateTreatment::Distinct) {
                    order_keys(list)
                        .filter(|key| **key == own)
                        .for_each(|key| *key = expr.clone());
                }
            }
            list.args = vec![argument];
        }
        Expr::Function(one)
    });
    Some(call(of_arrays, gathered.collect()))
}

/// The keys of ORDER BY within a call.
fn order_keys(list: &mut FunctionArgumentList) -> impl Iterator<Item = &mut Expr> {
    let clauses = list.clauses.iter_mut().filter_map(|clause| match clause {
        FunctionArgumentClause::OrderBy(keys) => Some(keys),
        _ => None,
    });
    clauses.flatten().map(|key| &mut key.expr)
}

fn is_distinct(function: &Function) -> bool {
    matches!(&function.args, FunctionArguments::List(list) if list.duplicate_treatment == Some(DuplicateTreatment::Distinct))
}

/// The pairs that differ, in one array.
fn distinct_pairs(function: &Function) -> Expr {
    let mut all = function.clone();
    all.name = ObjectName::from(vec![Ident::new("array_agg")]);
    let carried = |expr: &mut Expr| {
        let own = taken(expr);
        call(json::CARRIED, vec![own])
    };
    let pair = arguments(&mut all).into_iter().map(carried).collect();
    if let FunctionArguments::List(list) = &mut all.args {
        list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(call("struct", pair)))];
    }
    Expr::Function(all)
}

/// `array_fill(value, ARRAY[n, m])`: the number of dimensions is that of the list.
fn fill(function: &mut Function) -> Option<Expr> {
    let mut args = arguments(function);
    if let [_, _, bounds] = args.as_slice() {
        let bounds = sizes(bounds)?;
        let ones = bounds.iter().all(|bound| bound.to_string().contains('1'));
        if !ones || bounds.len() != sizes(args.get(1)?)?.len() {
            return None;
        }
    }
    let sizes = sizes(args.get(1)?)?;
    let value = std::mem::replace(args[0], null());
    let mut all = vec![value];
    all.extend(sizes);
    Some(call(FILL, all))
}

/// The items of a list of numbers that stands as it is.
fn sizes(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Array(array) => Some(array.elem.clone()),
        Expr::Cast { expr, .. } | Expr::Nested(expr) => sizes(expr),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => {
                let items = parse_array(text).ok()?.items.into_iter();
                let number = |item: Option<String>| Some(Expr::Value(Value::Number(item?, false).into()));
                items.map(number).collect()
            }
            _ => None,
        },
        _ => None,
    }
}

/// The declared number of dimensions means nothing in PostgreSQL; here it is what the literal or constructor has.
fn dimension_cast(inner: &mut Expr, data_type: &mut DataType) {
    let (element, declared) = element_of(data_type);
    if declared == 0 {
        return;
    }
    if matches!(inner, Expr::Array(array) if array.elem.is_empty()) {
        *inner = Expr::Value(Value::SingleQuotedString("{}".into()).into());
    }
    let depth = dimensions_of(inner).unwrap_or(declared);
    let element = element.clone();
    *data_type = (0..depth).fold(element, |item, _| {
        DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(item), None))
    });
}

pub(super) fn element_of(data_type: &DataType) -> (&DataType, usize) {
    match data_type {
        DataType::Array(ArrayElemTypeDef::SquareBracket(item, _) | ArrayElemTypeDef::AngleBracket(item)) => {
            let (element, depth) = element_of(item);
            (element, depth + 1)
        }
        other => (other, 0),
    }
}

/// How many dimensions an expression has, where it says so itself. A literal in parentheses has those of its type.
pub(super) fn dimensions_of(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(parse_array(text).ok()?.sizes.len()).filter(|depth| *depth > 0),
            _ => None,
        },
        Expr::Array(array) => match array.elem.first() {
            None | Some(Expr::Value(_)) => Some(1),
            Some(first) => Some(dimensions_of(first).unwrap_or_default() + 1),
        },
        Expr::Nested(inner) if !matches!(inner.as_ref(), Expr::Value(_)) => dimensions_of(inner),
        Expr::Cast { data_type, .. } => Some(element_of(data_type).1).filter(|depth| *depth > 0),
        _ => None,
    }
}

/// `a[1]`, `a[1:2]`, `t.a[1][2]` as functions.
pub(super) fn subscript(root: &mut Box<Expr>, chain: &[AccessExpr]) -> Option<Expr> {
    let mut base = root.as_ref().clone();
    let names = chain
        .iter()
        .take_while(|access| matches!(access, AccessExpr::Dot(Expr::Identifier(_))));
    let names: Vec<Ident> = names
        .filter_map(|access| match access {
            AccessExpr::Dot(Expr::Identifier(name)) => Some(name.clone()),
            _ => None,
        })
        .collect();
    let subscripts = &chain[names.len()..];
    if !names.is_empty() {
        let mut parts = match base {
            Expr::Identifier(first) => vec![first],
            Expr::CompoundIdentifier(parts) => parts,
            _ => return None,
        };
        parts.extend(names);
        base = Expr::CompoundIdentifier(parts);
    }
    let subscripts: Vec<&Subscript> = subscripts
        .iter()
        .map(|access| match access {
            AccessExpr::Subscript(subscript) => Some(subscript),
            AccessExpr::Dot(_) => None,
        })
        .collect::<Option<_>>()?;
    if subscripts.is_empty() {
        return None;
    }
    let _ = take(root);
    let number = |digits: &str| Expr::Value(Value::Number(digits.into(), false).into());
    let sliced = subscripts
        .iter()
        .any(|subscript| matches!(subscript, Subscript::Slice { .. }));
    let mut all = vec![base];
    for subscript in subscripts {
        match subscript {
            // Beside a slice, a single subscript is one from 1.
            Subscript::Index { index } if sliced => all.extend([number("1"), index.clone()]),
            Subscript::Index { index } => all.push(index.clone()),
            Subscript::Slice {
                lower_bound,
                upper_bound,
                ..
            } => {
                all.push(lower_bound.clone().unwrap_or_else(|| number("0")));
                all.push(upper_bound.clone().unwrap_or_else(|| number("2147483647")));
            }
        }
    }
    Some(call(if sliced { SLICE } else { SUBSCRIPT }, all))
}
