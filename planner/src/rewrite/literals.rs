//! Integer literals: `int4` where they fit, as in PostgreSQL. DataFusion reads each as `int8`.
//!
//! A literal becomes a cast, which the optimizer folds. Places where DataFusion wants a bare literal (positions in
//! ORDER BY and GROUP BY, LIMIT, arguments of functions that look at them while planning) get it back.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, LimitClause, OrderByKind,
    Query, Select, Value, WindowType,
};

/// Functions whose result type follows their argument's, so that the literal's type matters.
const TYPED_BY_ARGUMENTS: [&str; 10] = [
    "coalesce", "greatest", "least", "nullif", "abs", "sum", "avg", "min", "max", "mod",
];

pub(super) fn type_literal(expr: &mut Expr) {
    match expr {
        Expr::Value(value) => {
            if let Value::Number(digits, false) = &value.value
                && digits.parse::<i32>().is_ok()
            {
                let bare = Box::new(Expr::Value(value.clone()));
                *expr = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: bare,
                    data_type: DataType::Int4(None),
                    array: false,
                    format: None,
                };
            }
        }
        Expr::Function(function) => {
            let keeps =
                function.over.is_none() && TYPED_BY_ARGUMENTS.contains(&super::function_name(function).as_str());
            if !keeps && let FunctionArguments::List(list) = &mut function.args {
                for argument in &mut list.args {
                    let (FunctionArg::Unnamed(FunctionArgExpr::Expr(inner))
                    | FunctionArg::Named {
                        arg: FunctionArgExpr::Expr(inner),
                        ..
                    }
                    | FunctionArg::ExprNamed {
                        arg: FunctionArgExpr::Expr(inner),
                        ..
                    }) = argument
                    else {
                        continue;
                    };
                    restore(inner);
                }
            }
            if let Some(WindowType::WindowSpec(window)) = &mut function.over {
                if let Some(frame) = &mut window.window_frame {
                    restore_bound(&mut frame.start_bound);
                    if let Some(end) = &mut frame.end_bound {
                        restore_bound(end);
                    }
                }
                window.partition_by.iter_mut().for_each(restore);
            }
        }
        // A cast decides the type anyway.
        Expr::Cast { expr, .. } => restore(expr),
        Expr::Substring {
            substring_from,
            substring_for,
            ..
        } => {
            substring_from
                .iter_mut()
                .chain(substring_for)
                .for_each(|bound| restore(bound));
        }
        Expr::Interval(interval) => restore(&mut interval.value),
        Expr::CompoundFieldAccess { access_chain, .. } => {
            use datafusion::sql::sqlparser::ast::{AccessExpr, Subscript};
            for access in access_chain {
                if let AccessExpr::Subscript(Subscript::Index { index }) = access {
                    restore(index);
                }
            }
        }
        _ => {}
    }
}

fn restore_bound(bound: &mut datafusion::sql::sqlparser::ast::WindowFrameBound) {
    use datafusion::sql::sqlparser::ast::WindowFrameBound;
    if let WindowFrameBound::Preceding(Some(count)) | WindowFrameBound::Following(Some(count)) = bound {
        restore(count);
    }
}

/// Takes the cast off a literal again, also behind a sign.
fn restore(expr: &mut Expr) {
    match expr {
        Expr::Cast {
            kind: CastKind::Cast,
            expr: inner,
            data_type: DataType::Int4(None),
            ..
        } => {
            if let Expr::Value(value) = inner.as_ref()
                && matches!(value.value, Value::Number(..))
            {
                *expr = Expr::Value(value.clone());
            }
        }
        Expr::UnaryOp { expr: inner, .. } => restore(inner),
        _ => {}
    }
}

pub(super) fn restore_positions_in_select(select: &mut Select) {
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        for key in keys {
            restore(key);
            if let Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) = key {
                sets.iter_mut().flatten().for_each(restore);
            }
        }
    }
    if let Some(datafusion::sql::sqlparser::ast::Distinct::On(keys)) = &mut select.distinct {
        keys.iter_mut().for_each(restore);
    }
}

pub(super) fn restore_positions_in_query(query: &mut Query) {
    if let Some(order) = &mut query.order_by
        && let OrderByKind::Expressions(keys) = &mut order.kind
    {
        keys.iter_mut().for_each(|key| restore(&mut key.expr));
    }
    match &mut query.limit_clause {
        Some(LimitClause::LimitOffset { limit, offset, .. }) => {
            limit.iter_mut().for_each(restore);
            offset.iter_mut().for_each(|offset| restore(&mut offset.value));
        }
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
            restore(offset);
            restore(limit);
        }
        None => {}
    }
    if let Some(fetch) = &mut query.fetch {
        fetch.quantity.iter_mut().for_each(restore);
    }
}
