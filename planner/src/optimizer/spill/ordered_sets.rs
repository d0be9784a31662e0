//! Ordered-set aggregates in plans that go through files.
//!
//! `percentile_disc`, `percentile_cont` and `mode` are functions of the list of all values in order, which cannot go through a
//! file. So the rows are sorted and numbered, and the lists hold no more than the one or two values that count.

use super::distinct::sorted_alike;
use super::windows::{spills, unnamed};
use crate::pg::functions::ordered_set::{MODE, PERCENTILE_CONT, PERCENTILE_DISC, float8};
use datafusion::arrow::array::Array;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::functions::math::expr_fn::{ceil, floor};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::{
    AggregateFunction, AggregateFunctionParams, ScalarFunction, Sort, WindowFunction,
};
use datafusion::logical_expr::{
    Aggregate, Expr, ExprFunctionExt, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Projection, WindowFrame,
    cast, col, lit, when,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::sync::Arc;
use tenon_storage::types::NUMERIC;

/// What names of lists begin with that hold no more than what counts: another pass leaves these alone.
const ORDERED: &str = "__ordered";

#[derive(Debug)]
pub(crate) struct NumberedOrderedSets;

impl OptimizerRule for NumberedOrderedSets {
    fn name(&self) -> &str {
        "tenon_numbered_ordered_sets"
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !spills(config) {
            return Ok(Transformed::no(plan));
        }
        plan.transform_up_with_subqueries(|node| match &node {
            LogicalPlan::Projection(projection) => match numbered(projection, config)? {
                Some(plan) => Ok(Transformed::yes(plan)),
                None => Ok(Transformed::no(node)),
            },
            _ => Ok(Transformed::no(node)),
        })
    }
}

/// The aggregation below a projection, and the conditions on groups between them.
fn parts(projection: &Projection) -> Option<(Vec<&Filter>, &Aggregate)> {
    let mut filters = Vec::new();
    let mut below = projection.input.as_ref();
    loop {
        match below {
            LogicalPlan::Filter(filter) => {
                filters.push(filter);
                below = filter.input.as_ref();
            }
            LogicalPlan::Aggregate(aggregate) => return Some((filters, aggregate)),
            _ => return None,
        }
    }
}

/// A function of all of a group's values: which aggregate gathers them, and the function's fraction.
fn use_of(expr: &Expr) -> Option<(&str, &Column, Option<&Expr>)> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else {
        return None;
    };
    match (func.name(), args.as_slice()) {
        (name @ (PERCENTILE_DISC | PERCENTILE_CONT), [Expr::Column(list), fraction]) => {
            Some((name, list, Some(fraction)))
        }
        (MODE, [Expr::Column(list)]) => Some((MODE, list, None)),
        _ => None,
    }
}

/// The projection over lists of few values; None where there is nothing to do.
fn numbered(projection: &Projection, config: &dyn OptimizerConfig) -> Result<Option<LogicalPlan>> {
    let Some((filters, aggregate)) = parts(projection) else {
        return Ok(None);
    };
    let Aggregate {
        group_expr, aggr_expr, ..
    } = aggregate;
    let sets = group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)));
    if sets || group_expr.iter().chain(aggr_expr).any(Expr::is_volatile) {
        return Ok(None);
    }
    let outputs = aggregate.schema.columns();
    // A key that is named twice is one column.
    let (keys, results) = outputs.split_at(outputs.len().saturating_sub(aggr_expr.len()));
    let of_keys = |column: &Column| keys.iter().position(|key| key == column);
    let mut lists: Vec<&Column> = results.iter().collect();
    lists.retain(|list| !list.name.starts_with(ORDERED) && list_of(aggregate, results, list).is_some());
    // What is used otherwise stays whole.
    let above = || {
        let conditions = filters.iter().map(|filter| &filter.predicate);
        projection.expr.iter().chain(conditions)
    };
    for expr in above() {
        expr.apply(|node| {
            if let Some((_, _, fraction)) = use_of(node)
                && fraction.is_none_or(|fraction| fraction.column_refs().into_iter().all(|of| of_keys(of).is_some()))
            {
                return Ok(TreeNodeRecursion::Jump);
            }
            if let Expr::Column(column) = node {
                lists.retain(|list| *list != column);
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    if lists.is_empty() {
        return Ok(None);
    }
    let mut numbering = Numbering {
        config,
        group_expr,
        rows: Arc::unwrap_or_clone(Arc::clone(&aggregate.input)),
        windows: Vec::new(),
        calls: Vec::new(),
    };
    let mut rewrite = |expr: &Expr| {
        expr.clone()
            .transform_down(|node| {
                let made = match use_of(&node) {
                    Some((name, list, fraction)) if lists.contains(&list) => {
                        let Some(call) = list_of(aggregate, results, list) else {
                            return Ok(Transformed::no(node));
                        };
                        let known = fraction.map(|fraction| {
                            let keys = |node: Expr| match &node {
                                Expr::Column(column) => match of_keys(column) {
                                    Some(at) => Ok(Transformed::yes(unnamed(&group_expr[at]).clone())),
                                    None => Ok(Transformed::no(node)),
                                },
                                _ => Ok(Transformed::no(node)),
                            };
                            Ok::<_, datafusion::error::DataFusionError>((
                                fraction.clone(),
                                fraction.clone().transform(keys).data()?,
                            ))
                        });
                        numbering.function(&node, name, call, known.transpose()?, &aggregate.schema)?
                    }
                    _ => None,
                };
                Ok(match made {
                    Some(made) => Transformed::new(made, true, TreeNodeRecursion::Jump),
                    None => Transformed::no(node),
                })
            })
            .data()
    };
    let conditions: Vec<Expr> = filters
        .iter()
        .map(|filter| rewrite(&filter.predicate))
        .collect::<Result<_>>()?;
    let values: Vec<Expr> = projection.expr.iter().map(&mut rewrite).collect::<Result<_>>()?;
    // Lists of which a use was left as it is stay, too.
    let left = |column: &Column| {
        let all = values.iter().chain(&conditions);
        all.into_iter().any(|expr| expr.column_refs().contains(column))
    };
    let kept = aggr_expr.iter().zip(results);
    let kept = kept.filter(|(_, column)| !lists.contains(column) || left(column));
    let calls = kept.map(|(call, _)| call.clone()).chain(numbering.calls).collect();
    let mut plan = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(numbering.rows), group_expr.clone(), calls)?);
    for condition in conditions.into_iter().rev() {
        plan = LogicalPlanBuilder::from(plan).filter(condition)?.build()?;
    }
    let named = values.into_iter().zip(&projection.expr).zip(projection.schema.iter());
    let named = named.map(|((value, before), (qualifier, field))| match value == *before {
        true => value,
        false => unnamed(&value)
            .clone()
            .alias_qualified(qualifier.cloned(), field.name()),
    });
    let named: Vec<Expr> = named.collect();
    LogicalPlanBuilder::from(plan).project(named)?.build().map(Some)
}

/// The call that gathers a list of values in order.
fn list_of<'a>(aggregate: &'a Aggregate, results: &[Column], list: &Column) -> Option<&'a AggregateFunction> {
    let at = results.iter().position(|column| column == list)?;
    match unnamed(aggregate.aggr_expr.get(at)?) {
        Expr::AggregateFunction(call)
            if call.func.name() == "array_agg"
                && !call.params.distinct
                && call.params.args.len() == 1
                && !call.params.order_by.is_empty() =>
        {
            Some(call)
        }
        _ => None,
    }
}

/// The rows below an aggregation with their numbers, and the aggregates that read these.
struct Numbering<'a> {
    config: &'a dyn OptimizerConfig,
    group_expr: &'a [Expr],
    rows: LogicalPlan,
    /// What is computed beside the rows, and its name.
    windows: Vec<(Expr, String)>,
    /// Under names of their own.
    calls: Vec<Expr>,
}

impl Numbering<'_> {
    /// What a function of a list becomes; None where it stays. `fraction`: above the aggregation and below it.
    fn function(
        &mut self,
        before: &Expr,
        name: &str,
        list: &AggregateFunction,
        fraction: Option<(Expr, Expr)>,
        schema: &DFSchema,
    ) -> Result<Option<Expr>> {
        let Expr::ScalarFunction(ScalarFunction { func, .. }) = before else {
            return Ok(None);
        };
        let admitted = list.params.filter.as_deref().cloned().unwrap_or_else(|| lit(true));
        let groups = self.group_expr.iter().map(unnamed).chain([&admitted]);
        let groups = groups.map(|key| sorted_alike(key, self.rows.schema()));
        let groups: Vec<Expr> = groups.collect::<Result<_>>()?;
        let Some((above, below)) = fraction else {
            let first = self.most_frequent(list, &groups)?.eq(lit(1u64));
            let list = self.few(list, admitted, first);
            return Ok(Some(func.call(vec![list])));
        };
        let rows = count_of_rows()
            .partition_by(groups.clone())
            .window_frame(WindowFrame::new(None));
        let rows = real(self.window(rows.build()?)?);
        let place = row_number().partition_by(groups).order_by(list.params.order_by.clone());
        let place = real(self.window(place.build()?)?);
        let item = before.get_type(schema)?;
        let counted = AggregateFunction::new_udf(
            count_udaf(),
            vec![lit(1i64)],
            false,
            Some(Box::new(admitted.clone())),
            Vec::new(),
            None,
        );
        let counted = self.call(counted);
        let mut one = |above: Expr, below: Expr| -> Result<Expr> {
            let within = |at: Expr| {
                when(at.clone().lt(lit(1.0)), lit(1.0))
                    .when(at.clone().gt(rows.clone()), rows.clone())
                    .otherwise(at)
            };
            if name == PERCENTILE_DISC {
                let wanted = within(ceil(below * rows.clone()))?;
                let list = self.few(list, admitted.clone(), place.clone().eq(wanted));
                return Ok(func.call(vec![list, above]));
            }
            let between = below * (rows.clone() - lit(1.0));
            let low = within(floor(between.clone()) + lit(1.0))?;
            let high = within(ceil(between) + lit(1.0))?;
            let wanted = place.clone().eq(low).or(place.clone().eq(high));
            let list = self.few(list, admitted.clone(), wanted);
            // Of the two values that are left.
            let between = above.clone() * (real(counted.clone()) - lit(1.0));
            let valid = above.clone().gt_eq(lit(0.0)).and(above.clone().lt_eq(lit(1.0)));
            let share = when(valid, between.clone() - floor(between)).otherwise(above)?;
            Ok(func.call(vec![list, share]))
        };
        match (&above, above.get_type(schema)?) {
            (Expr::Literal(ScalarValue::List(fractions), _), _) if fractions.is_valid(0) => {
                let fractions = fractions.value(0);
                let fractions = (0..fractions.len()).map(|at| {
                    let fraction = ScalarValue::try_from_array(&fractions, at)?;
                    Ok(lit(float(&fraction)?))
                });
                let fractions: Vec<Expr> = fractions.collect::<Result<_>>()?;
                if fractions.is_empty() {
                    return Ok(None);
                }
                let values = fractions.into_iter().map(|fraction| one(fraction.clone(), fraction));
                let values = make_array(values.collect::<Result<_>>()?);
                let none = Expr::Literal(ScalarValue::try_from(&item)?, None);
                let values = when(counted.gt(lit(0i64)), cast(values, item)).otherwise(none)?;
                Ok(Some(values))
            }
            (Expr::Literal(fraction, _), NUMERIC) => {
                let fraction = lit(float(fraction)?);
                one(fraction.clone(), fraction).map(Some)
            }
            (_, of) if of.is_numeric() => one(real(above), real(below)).map(Some),
            _ => Ok(None),
        }
    }

    /// Numbers of rows by how often there is their value.
    fn most_frequent(&mut self, list: &AggregateFunction, groups: &[Expr]) -> Result<Expr> {
        let mut alike = groups.to_vec();
        for key in &list.params.order_by {
            alike.push(sorted_alike(&key.expr, self.rows.schema())?);
        }
        let count = count_of_rows().partition_by(alike).window_frame(WindowFrame::new(None));
        let count = self.window(count.build()?)?;
        let mut order = vec![Sort::new(count, false, false)];
        order.extend(list.params.order_by.iter().cloned());
        self.window(row_number().partition_by(groups.to_vec()).order_by(order).build()?)
    }

    /// A column of the rows.
    fn window(&mut self, call: Expr) -> Result<Expr> {
        if let Some((_, name)) = self.windows.iter().find(|(known, _)| *known == call) {
            return Ok(col(name.as_str()));
        }
        let name = self.config.alias_generator().next("__place");
        let rows = LogicalPlanBuilder::from(self.rows.clone());
        self.rows = rows.window([call.clone().alias(&name)])?.build()?;
        self.windows.push((call, name.clone()));
        Ok(col(name))
    }

    /// The list of the wanted values.
    fn few(&mut self, list: &AggregateFunction, admitted: Expr, wanted: Expr) -> Expr {
        self.call(AggregateFunction {
            func: Arc::clone(&list.func),
            params: AggregateFunctionParams {
                filter: Some(Box::new(admitted.and(wanted))),
                ..list.params.clone()
            },
        })
    }

    fn call(&mut self, call: AggregateFunction) -> Expr {
        let name = self.config.alias_generator().next(ORDERED);
        self.calls.push(Expr::AggregateFunction(call).alias(&name));
        col(name)
    }
}

fn count_of_rows() -> Expr {
    Expr::from(WindowFunction::new(count_udaf(), vec![lit(1i64)]))
}

fn real(value: Expr) -> Expr {
    cast(value, DataType::Float64)
}

/// A number as a float.
fn float(value: &ScalarValue) -> Result<ScalarValue> {
    if value.data_type() != NUMERIC {
        return value.cast_to(&DataType::Float64);
    }
    ScalarValue::try_from_array(&float8(&value.to_array()?)?, 0)
}
