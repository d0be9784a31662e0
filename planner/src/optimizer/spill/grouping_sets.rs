//! Aggregates over distinct values by several grouping sets, in plans that go through files: each row once for each set, and
//! one aggregation over all of them.

use super::distinct::{distinct, without_distinct};
use crate::pg::occurring::is_volatile;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, cast, col, lit, when};
use datafusion::optimizer::OptimizerConfig;
use std::sync::Arc;

/// The aggregation by one set of keys and the set's number; None where it is left as it is.
pub(crate) fn expanded(aggregate: &Aggregate, config: &dyn OptimizerConfig) -> Result<Option<LogicalPlan>> {
    let Aggregate {
        input,
        group_expr,
        aggr_expr,
        schema,
        ..
    } = aggregate;
    let [Expr::GroupingSet(sets)] = group_expr.as_slice() else {
        return Ok(None);
    };
    let evaluated = sets.distinct_expr().into_iter().chain(aggr_expr);
    if !aggr_expr.iter().any(|call| distinct(call).is_some()) || evaluated.into_iter().any(Expr::is_volatile) {
        return Ok(None);
    }
    let keys: Vec<Expr> = sets.distinct_expr().into_iter().cloned().collect();
    let number_type = schema.field(keys.len()).data_type();
    let numbers = numbers(sets, &keys);
    // A set without keys has a row where there are no rows at all.
    let is_whole = |number: &u64| *number & whole(&keys) == whole(&keys);
    let (wholes, numbers): (Vec<u64>, Vec<u64>) = numbers.into_iter().partition(is_whole);
    if numbers.is_empty() || wholes.len() > 1 || !wholes.is_empty() && is_volatile(input)? {
        return Ok(None);
    }
    let set = config.alias_generator().next("__set");
    let rows = numbers.iter().map(|number| vec![lit(*number)]).collect();
    let rows = LogicalPlanBuilder::values(rows)?.project([col("column1").alias(&set)])?;
    let rows = rows.cross_join(input.as_ref().clone())?.build()?;
    let mut outputs: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).collect();
    let mut group: Vec<Expr> = Vec::with_capacity(keys.len() + 1);
    for (at, key) in keys.iter().enumerate() {
        let name = config.alias_generator().next("__key");
        let bit = lit(1u64 << (keys.len() - 1 - at));
        let none = lit(ScalarValue::try_from(&key.get_type(input.schema())?)?);
        let absent = Expr::eq(col(&set) & bit.clone(), bit);
        outputs.push(when(absent, none).otherwise(key.clone())?.alias(&name));
        group.push(col(name));
    }
    group.push(col(&set));
    // Sorts need less at a time than sets of values, of which each branch would have some.
    let plain = |input: LogicalPlan, group: Vec<Expr>| -> Result<LogicalPlan> {
        let aggregate = Aggregate::try_new(Arc::new(input), group, aggr_expr.clone())?;
        Ok(match without_distinct(&aggregate, config)? {
            Some(plain) => plain,
            None => LogicalPlan::Aggregate(aggregate),
        })
    };
    let rows = LogicalPlanBuilder::from(rows).project(outputs)?.build()?;
    let mut plan = LogicalPlanBuilder::from(plain(rows, group)?);
    if let [only] = wholes.as_slice() {
        let all = plain(input.as_ref().clone(), Vec::new())?;
        let calls = all.schema().columns().into_iter().map(Expr::Column);
        let mut outputs = Vec::with_capacity(schema.fields().len());
        for key in &keys {
            outputs.push(lit(ScalarValue::try_from(&key.get_type(input.schema())?)?));
        }
        outputs.push(lit(*only));
        outputs.extend(calls);
        let named = outputs.into_iter().zip(plan.schema().fields());
        let named: Vec<Expr> = named.map(|(value, field)| value.alias(field.name())).collect();
        let all = LogicalPlanBuilder::from(all).project(named)?.build()?;
        plan = plan.union(all)?;
    }
    let plan = plan.build()?;
    let named = plan.schema().columns().into_iter().zip(schema.iter()).enumerate();
    let named = named.map(|(at, (column, (qualifier, field)))| {
        let value = match at == keys.len() {
            true => cast(Expr::Column(column), number_type.clone()),
            false => Expr::Column(column),
        };
        value.alias_qualified(qualifier.cloned(), field.name())
    });
    let named: Vec<Expr> = named.collect();
    LogicalPlanBuilder::from(plan).project(named)?.build().map(Some)
}

/// The number of a set without keys.
fn whole(keys: &[Expr]) -> u64 {
    (1 << keys.len()) - 1
}

/// The number of each set, as DataFusion has it: a bit for each key that it lacks, and above these how many such sets there
/// were before it.
fn numbers(sets: &GroupingSet, keys: &[Expr]) -> Vec<u64> {
    let of = |set: &[&Expr]| {
        let bits = keys.iter().map(|key| u64::from(!set.contains(&key)));
        bits.fold(0, |number, bit| number << 1 | bit)
    };
    let mut numbers: Vec<u64> = Vec::new();
    let mut add = |number: u64| {
        let before = numbers.iter().filter(|known| **known & whole(keys) == number).count() as u64;
        numbers.push(before << keys.len() | number);
    };
    match sets {
        GroupingSet::Rollup(all) => {
            (0..=all.len()).for_each(|length| add(of(&all[..length].iter().collect::<Vec<_>>())))
        }
        GroupingSet::Cube(all) => (0u64..1 << all.len()).for_each(|picked| {
            let set = all.iter().enumerate().filter(|(at, _)| picked >> at & 1 == 1);
            add(of(&set.map(|(_, key)| key).collect::<Vec<_>>()));
        }),
        GroupingSet::GroupingSets(all) => all.iter().for_each(|set| add(of(&set.iter().collect::<Vec<_>>()))),
    }
    numbers
}
