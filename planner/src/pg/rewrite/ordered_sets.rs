//! Ordered-set and hypothetical-set aggregates, in terms of others: `percentile_disc(f) WITHIN GROUP (ORDER BY x)` is a
//! function of `array_agg(x ORDER BY x)`, and `rank(v) WITHIN GROUP (ORDER BY x)` counts the rows before `v`.

use super::spellings::call;
use crate::pg::functions::ordered_set::{MODE, PERCENTILE_CONT, PERCENTILE_DISC};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, OrderByExpr, Value,
};

pub(super) fn respell(expr: &mut Expr) {
    if let Expr::Function(function) = expr
        && !function.within_group.is_empty()
        && function.over.is_none()
        && let Some(made) = of(function)
    {
        *expr = made;
    }
}

fn of(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    // Refused by the planner: it has two orders.
    if !list.clauses.is_empty() {
        return None;
    }
    let direct: Option<Vec<Expr>> = list
        .args
        .iter()
        .map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        })
        .collect();
    let direct = direct?;
    let keys = &function.within_group;
    let filter = function.filter.as_deref();
    match (
        super::function_name(function).as_str(),
        direct.as_slice(),
        keys.as_slice(),
    ) {
        ("percentile_disc", [fraction], [key]) => {
            Some(call(PERCENTILE_DISC, vec![gathered(key, filter), fraction.clone()]))
        }
        ("percentile_cont", [fraction], [key]) => {
            Some(call(PERCENTILE_CONT, vec![gathered(key, filter), fraction.clone()]))
        }
        ("mode", [], [key]) => Some(call(MODE, vec![gathered(key, filter)])),
        (name, values, keys) if values.len() == keys.len() => hypothetical(name, values, keys, filter),
        _ => None,
    }
}

/// The values that are not null, in order.
fn gathered(key: &OrderByExpr, filter: Option<&Expr>) -> Expr {
    let mut array = call("array_agg", vec![key.expr.clone()]);
    if let Expr::Function(function) = &mut array {
        if let FunctionArguments::List(list) = &mut function.args {
            list.clauses.push(FunctionArgumentClause::OrderBy(vec![key.clone()]));
        }
        let known = Expr::IsNotNull(Box::new(key.expr.clone()));
        function.filter = Some(Box::new(both(filter, known)));
    }
    array
}

/// A rank that a row of these values would have.
fn hypothetical(name: &str, values: &[Expr], keys: &[OrderByExpr], filter: Option<&Expr>) -> Option<Expr> {
    let pairs: Vec<(&Expr, &OrderByExpr)> = values.iter().zip(keys).collect();
    let before = nested(before(&pairs, false));
    let counted = |condition: Expr| count(None, Some(both(filter, condition)));
    let all = count(None, filter.cloned());
    let rank = match name {
        "rank" => binary(counted(before), BinaryOperator::Plus, number("1")),
        "dense_rank" => {
            let row = call("struct", keys.iter().map(|key| key.expr.clone()).collect());
            let groups = count(Some(row), Some(both(filter, before)));
            binary(groups, BinaryOperator::Plus, number("1"))
        }
        "percent_rank" => {
            // Of no rows none is before it, and zero is divided by one.
            let rows = call("greatest", vec![all, bigint("1")]);
            binary(float(counted(before)), BinaryOperator::Divide, float(rows))
        }
        "cume_dist" => {
            let upto = nested(self::before(&pairs, true));
            let more = |count: Expr| float(binary(count, BinaryOperator::Plus, number("1")));
            binary(more(counted(upto)), BinaryOperator::Divide, more(all))
        }
        _ => return None,
    };
    Some(nested(rank))
}

/// Whether a row comes before the values in the order of the keys, or with `equal` beside them.
fn before(pairs: &[(&Expr, &OrderByExpr)], equal: bool) -> Expr {
    let Some(((value, key), rest)) = pairs.split_first() else {
        return Expr::Value(Value::Boolean(equal).into());
    };
    let own = &key.expr;
    let descending = key.options.asc == Some(false);
    let nulls_first = key.options.nulls_first.unwrap_or(descending);
    let op = if descending {
        BinaryOperator::Gt
    } else {
        BinaryOperator::Lt
    };
    let is_null = |expr: &Expr, null: bool| match null {
        true => Expr::IsNull(Box::new(nested(expr.clone()))),
        false => Expr::IsNotNull(Box::new(nested(expr.clone()))),
    };
    let by_null = binary(
        is_null(own, nulls_first),
        BinaryOperator::And,
        is_null(value, !nulls_first),
    );
    let less = binary(own.clone(), op, (*value).clone());
    let tied = Expr::IsNotDistinctFrom(Box::new(nested(own.clone())), Box::new(nested((*value).clone())));
    let later = binary(nested(tied), BinaryOperator::And, nested(before(rest, equal)));
    let either = binary(nested(by_null), BinaryOperator::Or, nested(less));
    binary(nested(either), BinaryOperator::Or, nested(later))
}

fn count(distinct: Option<Expr>, filter: Option<Expr>) -> Expr {
    let mut counted = call("count", vec![]);
    if let Expr::Function(function) = &mut counted {
        if let FunctionArguments::List(list) = &mut function.args {
            let argument = match distinct {
                Some(row) => {
                    list.duplicate_treatment = Some(DuplicateTreatment::Distinct);
                    FunctionArgExpr::Expr(row)
                }
                None => FunctionArgExpr::Wildcard,
            };
            list.args.push(FunctionArg::Unnamed(argument));
        }
        function.filter = filter.map(Box::new);
    }
    counted
}

fn both(filter: Option<&Expr>, condition: Expr) -> Expr {
    match filter {
        Some(filter) => binary(nested(filter.clone()), BinaryOperator::And, condition),
        None => condition,
    }
}

fn nested(expr: Expr) -> Expr {
    match expr {
        expr @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Nested(_)) => expr,
        expr => Expr::Nested(Box::new(expr)),
    }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(nested(left)),
        op,
        right: Box::new(nested(right)),
    }
}

fn number(digits: &str) -> Expr {
    Expr::Value(Value::Number(digits.into(), false).into())
}

fn bigint(digits: &str) -> Expr {
    as_type(number(digits), DataType::Int8(None))
}

fn float(expr: Expr) -> Expr {
    as_type(expr, DataType::Float8)
}

fn as_type(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type,
        array: false,
        format: None,
    }
}
