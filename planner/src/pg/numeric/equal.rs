//! Where a plan itself asks which values are equal, or in which order they are, numerics are asked by their keys: values
//! that differ in their display scale alone are equal. A group shows one of its values.

use super::compare::{key, letters, trimmed};
use super::unify::{is_numeric, keyed, pair_by_keys};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::functions_aggregate::min_max::min_udaf;
use datafusion::logical_expr::expr::{GroupingSet, InSubquery, WindowFunction};
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, LogicalPlan, Projection, SortExpr, Subquery, WindowFrame, WindowFrameBound,
    WindowFrameUnits, col, when,
};
use std::sync::Arc;
use tenon_storage::types::NUMERIC;

/// One node whose inputs and expressions are rewritten.
pub(super) fn rewrite(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Sort(mut sort) => {
            let changed = by_keys(&mut sort.expr, sort.input.schema());
            Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), changed))
        }
        LogicalPlan::Aggregate(aggregate) => grouped(aggregate),
        LogicalPlan::Distinct(Distinct::All(input)) => {
            if input
                .schema()
                .fields()
                .iter()
                .all(|field| *field.data_type() != NUMERIC)
            {
                return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::All(input))));
            }
            let columns = input.schema().columns().into_iter().map(Expr::Column).collect();
            let rewritten = grouped(Aggregate::try_new(input, columns, vec![])?)?;
            Ok(Transformed::yes(rewritten.data))
        }
        LogicalPlan::Distinct(Distinct::On(on)) => {
            let DistinctOn {
                mut on_expr,
                select_expr,
                mut sort_expr,
                input,
                schema,
            } = on;
            let mut changed = false;
            for expr in on_expr.iter_mut().filter(|expr| is_numeric(expr, input.schema())) {
                *expr = key(std::mem::take(expr));
                changed = true;
            }
            if let Some(sort) = &mut sort_expr {
                changed |= by_keys(sort, input.schema());
            }
            let on = DistinctOn {
                on_expr,
                select_expr,
                sort_expr,
                input,
                schema,
            };
            let node = LogicalPlan::Distinct(Distinct::On(on));
            Ok(Transformed::new_transformed(node, changed))
        }
        LogicalPlan::Join(mut join) => {
            let mut changed = false;
            for (left, right) in &mut join.on {
                if pair_by_keys((left, join.left.schema()), (right, join.right.schema())) {
                    *left = keyed(left, join.left.schema())?;
                    *right = keyed(right, join.right.schema())?;
                    changed = true;
                }
            }
            Ok(Transformed::new_transformed(LogicalPlan::Join(join), changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn by_keys(sorts: &mut [SortExpr], schema: &DFSchema) -> bool {
    let mut changed = false;
    for sort in sorts.iter_mut().filter(|sort| is_numeric(&sort.expr, schema)) {
        sort.expr = key(std::mem::take(&mut sort.expr));
        changed = true;
    }
    changed
}

/// Expressions that group, sort or look up by themselves.
pub(super) fn rewrite_expr(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::AggregateFunction(mut call) => {
            if !call.params.distinct {
                let changed = by_keys(&mut call.params.order_by, schema);
                return Ok(Transformed::new_transformed(Expr::AggregateFunction(call), changed));
            }
            let mut changed = false;
            match call.func.name() {
                // Those tell values apart by their keys, and show one of each as it is.
                "sum" | "avg" | "array_agg" | "stddev" | "stddev_pop" | "stddev_samp" | "variance" | "var_pop"
                | "var_samp" => {}
                name => {
                    let (counts, extreme) = (name == "count", matches!(name, "min" | "max"));
                    for arg in call.params.args.iter_mut().filter(|arg| is_numeric(arg, schema)) {
                        changed = true;
                        match (counts, extreme) {
                            (true, _) => *arg = key(std::mem::take(arg)),
                            // The first of all is the first of those that differ.
                            (_, true) => call.params.distinct = false,
                            _ => *arg = trimmed(std::mem::take(arg)),
                        }
                    }
                    changed |= by_keys(&mut call.params.order_by, schema);
                }
            }
            Ok(Transformed::new_transformed(Expr::AggregateFunction(call), changed))
        }
        Expr::WindowFunction(call) => {
            let WindowFunction { fun, mut params } = *call;
            // The key of RANGE with an offset is reckoned with.
            let mut changed = false;
            let ordered = params.order_by.iter_mut().filter(|sort| is_numeric(&sort.expr, schema));
            for sort in ordered.filter(|_| !has_offset(&params.window_frame)) {
                sort.expr = letters(std::mem::take(&mut sort.expr));
                changed = true;
            }
            for expr in params.partition_by.iter_mut().filter(|expr| is_numeric(expr, schema)) {
                *expr = key(std::mem::take(expr));
                changed = true;
            }
            let call = Expr::WindowFunction(Box::new(WindowFunction { fun, params }));
            Ok(Transformed::new_transformed(call, changed))
        }
        Expr::InSubquery(InSubquery {
            expr,
            subquery,
            negated,
        }) => {
            let inner = subquery.subquery.schema();
            let asked = inner.columns().into_iter().next().map(Expr::Column);
            let numeric = asked.is_some_and(|asked| pair_by_keys((&expr, schema), (&asked, inner)));
            if !numeric || inner.fields().len() != 1 {
                let unchanged = InSubquery::new(expr, subquery, negated);
                return Ok(Transformed::no(Expr::InSubquery(unchanged)));
            }
            let name = inner.field(0).name().clone();
            let asked = keyed(&Expr::Column(inner.columns().remove(0)), inner)?.alias(name);
            let plan = Projection::try_new(vec![asked], subquery.subquery.clone())?;
            let subquery = Subquery {
                subquery: Arc::new(LogicalPlan::Projection(plan)),
                ..subquery
            };
            let expr = Box::new(keyed(&expr, schema)?);
            Ok(Transformed::yes(Expr::InSubquery(InSubquery::new(
                expr, subquery, negated,
            ))))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn has_offset(frame: &WindowFrame) -> bool {
    let offset = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) => !offset.is_null(),
        WindowFrameBound::CurrentRow => false,
    };
    frame.units == WindowFrameUnits::Range && (offset(&frame.start_bound) || offset(&frame.end_bound))
}

/// GROUP BY by keys, and over it the columns as they were: of each group the value with the fewest digits.
fn grouped(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let numeric: Vec<bool> = aggregate
        .group_expr
        .iter()
        .map(|expr| is_numeric(expr, aggregate.input.schema()))
        .collect();
    if let [Expr::GroupingSet(sets)] = aggregate.group_expr.as_slice() {
        let sets = sets.clone();
        return grouped_by_sets(aggregate, &sets);
    }
    if !numeric.contains(&true) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let (mut groups, mut functions, mut columns) = (Vec::new(), Vec::new(), Vec::new());
    for (at, (expr, numeric)) in aggregate.group_expr.iter().zip(&numeric).enumerate() {
        if *numeric {
            groups.push(key(expr.clone()).alias(format!("__key_{at}")));
            functions.push(min_udaf().call(vec![expr.clone()]).alias(format!("__value_{at}")));
            columns.push(col(Column::new_unqualified(format!("__value_{at}"))));
        } else {
            groups.push(expr.clone().alias(format!("__key_{at}")));
            columns.push(col(Column::new_unqualified(format!("__key_{at}"))));
        }
    }
    shown(&aggregate, groups, functions, columns).map(Transformed::yes)
}

/// The same of sets of keys: what a set leaves out has no key.
fn grouped_by_sets(aggregate: Aggregate, sets: &GroupingSet) -> Result<Transformed<LogicalPlan>> {
    let schema = aggregate.input.schema();
    let written: Vec<Expr> = sets.distinct_expr().into_iter().cloned().collect();
    if !written.iter().any(|expr| is_numeric(expr, schema)) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let (mut keys, mut functions, mut columns) = (Vec::new(), Vec::new(), Vec::new());
    for (at, expr) in written.iter().enumerate() {
        let name = format!("__key_{at}");
        let own = col(Column::new_unqualified(&name));
        if is_numeric(expr, schema) {
            let value = format!("__value_{at}");
            keys.push(key(expr.clone()).alias(name));
            functions.push(min_udaf().call(vec![expr.clone()]).alias(&value));
            columns.push(when(own.is_not_null(), col(Column::new_unqualified(value))).end()?);
        } else {
            keys.push(expr.clone().alias(name));
            columns.push(own);
        }
    }
    columns.push(col(Column::new_unqualified(Aggregate::INTERNAL_GROUPING_ID)));
    let key_of = |expr: &Expr| {
        let at = written.iter().position(|own| own == expr);
        at.map_or_else(|| expr.clone(), |at| keys[at].clone())
    };
    let keys_of = |exprs: &Vec<Expr>| exprs.iter().map(key_of).collect::<Vec<_>>();
    let sets = match sets {
        GroupingSet::Rollup(exprs) => GroupingSet::Rollup(keys_of(exprs)),
        GroupingSet::Cube(exprs) => GroupingSet::Cube(keys_of(exprs)),
        GroupingSet::GroupingSets(sets) => GroupingSet::GroupingSets(sets.iter().map(keys_of).collect()),
    };
    shown(&aggregate, vec![Expr::GroupingSet(sets)], functions, columns).map(Transformed::yes)
}

/// An aggregation by other keys, and over it the columns of the one that it replaces, first those that its keys are.
fn shown(
    aggregate: &Aggregate,
    groups: Vec<Expr>,
    mut functions: Vec<Expr>,
    mut columns: Vec<Expr>,
) -> Result<LogicalPlan> {
    for (at, expr) in aggregate.aggr_expr.iter().enumerate() {
        let name = format!("__function_{at}");
        functions.push(expr.clone().unalias().alias(&name));
        columns.push(col(Column::new_unqualified(name)));
    }
    let inner = Aggregate::try_new(Arc::clone(&aggregate.input), groups, functions)?;
    let outputs = aggregate.schema.iter();
    let named = columns.into_iter().zip(outputs);
    let named = named.map(|(column, (qualifier, field))| column.alias_qualified(qualifier.cloned(), field.name()));
    let projection = Projection::try_new(named.collect(), Arc::new(LogicalPlan::Aggregate(inner)))?;
    Ok(LogicalPlan::Projection(projection))
}
