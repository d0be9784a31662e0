//! Intervals compare by their length: a month has 30 days, a day 24 hours. So `1 month` equals `30 days`, in
//! comparisons, groups, orders and joins, though the two are shown as they are.
//!
//! More than 400 lines because comparisons, groups, orders and joins of intervals are rewritten by one rule.
//!
//! An analyzer rule after type coercion: wherever two intervals are compared, their lengths take their place. A group or
//! a set of distinct rows shows one of its equal intervals.

use super::fields;
use crate::pg::named;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, IntervalMonthDayNanoArray};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, ScalarValue};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{
    AggregateFunction, Between, Case, InList, NullTreatment, ScalarFunction, Sort, WindowFunction,
};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, ColumnarValue, Distinct, DistinctOn, Expr, LogicalPlan, LogicalPlanBuilder, Operator,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, WindowFrameUnits, cast,
};
use datafusion::optimizer::AnalyzerRule;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};
use tenon_storage::datetime::Span;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

#[derive(Debug)]
pub(super) struct IntervalsByLength;

impl AnalyzerRule for IntervalsByLength {
    fn name(&self) -> &str {
        "intervals_by_length"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut found = false;
        plan.apply_with_subqueries(|node| {
            let of = |schema: &DFSchema| schema.fields().iter().any(|field| is_interval(field.data_type()));
            found = found || !hands_on(node) && of(node.schema()) || mentions(node)?;
            Ok(match found {
                true => datafusion::common::tree_node::TreeNodeRecursion::Stop,
                false => datafusion::common::tree_node::TreeNodeRecursion::Continue,
            })
        })?;
        if !found {
            return Ok(plan);
        }
        plan.transform_up_with_subqueries(rewrite_node).map(|done| done.data)
    }
}

/// Whether a node has its inputs' columns and no others.
fn hands_on(node: &LogicalPlan) -> bool {
    use LogicalPlan::*;
    matches!(
        node,
        Filter(_) | Sort(_) | Limit(_) | Join(_) | SubqueryAlias(_) | Subquery(_)
    )
}

fn is_interval(of: &DataType) -> bool {
    matches!(of, DataType::Interval(_))
}

/// Whether an expression of the node makes an interval.
fn mentions(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found = found
            || expr.exists(|expr| {
                Ok(match expr {
                    Expr::Literal(value, _) => is_interval(&value.data_type()),
                    Expr::Cast(cast) => is_interval(cast.field.data_type()),
                    Expr::ScalarFunction(call) => call.func.name().contains("interval") || call.func.name() == "parse",
                    _ => false,
                })
            })?;
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

fn rewrite_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        let source = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
        schema.merge(&source);
    }
    let plan = named::map_expressions(plan, |expr| expr.transform_up(|expr| rewrite_expr(expr, &schema)))?;
    let changed = plan.transformed;
    let by_length = |expr: Expr| length_where(expr, &schema);
    let plan = match plan.data {
        LogicalPlan::Sort(mut sort) => {
            sort.expr = sorts(sort.expr, &schema)?;
            return Ok(Transformed::yes(LogicalPlan::Sort(sort)));
        }
        LogicalPlan::Join(mut join) if !join.on.is_empty() => {
            let on = std::mem::take(&mut join.on);
            join.on = on
                .into_iter()
                .map(|(a, b)| Ok((by_length(a)?, by_length(b)?)))
                .collect::<Result<_>>()?;
            return Ok(Transformed::yes(LogicalPlan::Join(join)));
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let of = input.schema().clone();
            if !of.fields().iter().any(|field| is_interval(field.data_type())) {
                return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::All(input))));
            }
            let keys = of.columns().into_iter().map(Expr::Column).collect();
            let aggregate = Aggregate::try_new(input, keys, Vec::new())?;
            return LENGTHS.grouped(aggregate, of).map(Transformed::yes);
        }
        LogicalPlan::Distinct(Distinct::On(on)) => {
            let DistinctOn {
                on_expr,
                select_expr,
                sort_expr,
                input,
                ..
            } = on;
            let on_expr = on_expr.into_iter().map(by_length).collect::<Result<_>>()?;
            let sort_expr = sort_expr.map(|keys| sorts(keys, &schema)).transpose()?;
            let on = DistinctOn::try_new(on_expr, select_expr, sort_expr, input)?;
            return Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(on))));
        }
        LogicalPlan::Aggregate(aggregate) => {
            let plain = !aggregate
                .group_expr
                .iter()
                .any(|expr| matches!(expr, Expr::GroupingSet(_)));
            let keys = aggregate.group_expr.iter();
            let types: Vec<DataType> = keys.filter_map(|expr| fields::data_type(expr, &schema).ok()).collect();
            if plain && types.iter().any(is_interval) {
                let of = aggregate.schema.clone();
                return LENGTHS.grouped(aggregate, of).map(Transformed::yes);
            }
            LogicalPlan::Aggregate(aggregate)
        }
        other => other,
    };
    match changed {
        true => Ok(Transformed::yes(plan.recompute_schema()?)),
        false => Ok(Transformed::no(plan)),
    }
}

/// Values that are equal, though they are shown apart.
pub(super) struct Likeness {
    /// Whether an expression has such values.
    pub differs: fn(&Expr, &DFSchema) -> bool,
    /// What is equal where they are.
    pub key: fn(Expr) -> Expr,
}

const LENGTHS: Likeness = Likeness {
    differs: |expr, schema| fields::data_type(expr, schema).is_ok_and(|of| is_interval(&of)),
    key: length,
};

impl Likeness {
    /// Groups by what is equal, and gives each group one of its values, under the names that the groups had.
    pub(super) fn grouped(&self, aggregate: Aggregate, names: DFSchemaRef) -> Result<LogicalPlan> {
        let Aggregate {
            input,
            group_expr,
            aggr_expr,
            ..
        } = aggregate;
        let (mut keys, mut firsts) = (Vec::new(), Vec::new());
        let mut shown: Vec<Option<usize>> = Vec::new();
        // A key that stands twice is one column.
        let mut once = HashSet::new();
        let group_expr = group_expr.into_iter().filter(|key| once.insert(key.clone()));
        for (at, key) in group_expr.enumerate() {
            if !(self.differs)(&key, input.schema()) {
                keys.push(key);
                shown.push(None);
                continue;
            }
            let plain = key.clone().unalias();
            keys.push((self.key)(plain.clone()).alias(format!("interval_length_{at}")));
            shown.push(Some(firsts.len()));
            let first = AggregateFunction::new_udf(
                first_value_udaf(),
                vec![plain],
                false,
                None,
                Vec::new(),
                Some(NullTreatment::RespectNulls),
            );
            firsts.push(Expr::AggregateFunction(first).alias(format!("interval_shown_{at}")));
        }
        let (groups, aggregates) = (keys.len(), aggr_expr.len());
        let mut all = aggr_expr;
        all.extend(firsts);
        let made = Aggregate::try_new(input, keys, all)?;
        let columns = made.schema.columns();
        let outputs = (0..groups + aggregates).map(|at| {
            let from = match shown.get(at).copied().flatten() {
                Some(first) => groups + aggregates + first,
                None => at,
            };
            let (qualifier, field) = names.qualified_field(at);
            let column = columns[from].clone();
            match column == Column::new(qualifier.cloned(), field.name()) {
                true => Expr::Column(column),
                false => Expr::Column(column).alias_qualified(qualifier.cloned(), field.name()),
            }
        });
        let outputs: Vec<Expr> = outputs.collect();
        LogicalPlanBuilder::from(LogicalPlan::Aggregate(made))
            .project(outputs)?
            .build()
    }
}

fn sorts(keys: Vec<Sort>, schema: &DFSchema) -> Result<Vec<Sort>> {
    let keys = keys.into_iter().map(|key| {
        Ok(Sort {
            expr: length_where(key.expr, schema)?,
            ..key
        })
    });
    keys.collect()
}

/// An interval's length in its place; any other expression as it is.
fn length_where(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    match fields::data_type(&expr, schema) {
        Ok(of) if is_interval(&of) => Ok(length(expr)),
        _ => Ok(expr),
    }
}

fn rewrite_expr(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let interval = |expr: &Expr| fields::data_type(expr, schema).is_ok_and(|of| is_interval(&of));
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(op) && interval(&left) && interval(&right) => {
            let compared = BinaryExpr::new(Box::new(length(*left)), op, Box::new(length(*right)));
            Transformed::yes(Expr::BinaryExpr(compared))
        }
        Expr::Between(between) if interval(&between.expr) => Transformed::yes(Expr::Between(Between {
            expr: Box::new(length(*between.expr)),
            negated: between.negated,
            low: Box::new(length(*between.low)),
            high: Box::new(length(*between.high)),
        })),
        Expr::InList(list) if interval(&list.expr) => Transformed::yes(Expr::InList(InList {
            expr: Box::new(length(*list.expr)),
            list: list.list.into_iter().map(length).collect(),
            negated: list.negated,
        })),
        Expr::InSubquery(mut within) if interval(&within.expr) => {
            let plan = within.subquery.subquery.as_ref().clone();
            let found = plan.schema().columns().into_iter().next();
            if let Some(found) = found {
                let of_lengths = LogicalPlanBuilder::from(plan)
                    .project(vec![length(Expr::Column(found))])?
                    .build()?;
                within.subquery.subquery = Arc::new(of_lengths);
                *within.expr = length(*within.expr);
            }
            Transformed::yes(Expr::InSubquery(within))
        }
        Expr::ScalarFunction(call) if call.args.first().is_some_and(interval) => of_values(call),
        Expr::Case(mut case) if case.expr.as_ref().is_some_and(|expr| interval(expr)) => {
            case.expr = case.expr.map(|expr| Box::new(length(*expr)));
            for (when, _) in &mut case.when_then_expr {
                **when = length(std::mem::replace(when.as_mut(), Expr::Literal(ScalarValue::Null, None)));
            }
            Transformed::yes(Expr::Case(case))
        }
        Expr::AggregateFunction(mut call) => {
            let counted = call.params.distinct && call.func.name() == "count";
            if counted {
                let args = std::mem::take(&mut call.params.args);
                let args = args.into_iter().map(|arg| length_where(arg, schema));
                call.params.args = args.collect::<Result<_>>()?;
            }
            let keys = std::mem::take(&mut call.params.order_by);
            call.params.order_by = sorts(keys, schema)?;
            Transformed::yes(Expr::AggregateFunction(call))
        }
        other => Transformed::no(other),
    })
}

/// Before type coercion, which knows no interval beside a text and no window ordered by intervals: literals beside
/// intervals are intervals, and windows take their lengths.
#[derive(Debug)]
pub(super) struct LiteralsBesideIntervals;

impl AnalyzerRule for LiteralsBesideIntervals {
    fn name(&self) -> &str {
        "literals_beside_intervals"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            let mut found = false;
            node.apply_expressions(|expr| {
                found = found
                    || expr.exists(|expr| {
                        Ok(matches!(
                            expr,
                            Expr::Between(_) | Expr::InList(_) | Expr::WindowFunction(_)
                        ))
                    })?;
                Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
            })?;
            if !found {
                return Ok(Transformed::no(node));
            }
            let schema = merge_schema(&node.inputs());
            if !schema.fields().is_empty() && !schema.fields().iter().any(|field| special(field.data_type())) {
                return Ok(Transformed::no(node));
            }
            named::map_expressions(node, |expr| expr.transform_up(|expr| beside(expr, &schema)))
        })
        .map(|done| done.data)
    }
}

/// Types that DataFusion does not bring texts to, or brings to nanoseconds.
fn special(of: &DataType) -> bool {
    crate::pg::functions::datetime::exact(of).is_some()
}

/// A point in time as the timestamp that it is compared with.
fn as_stamp(expr: Expr, stamp: &DataType, schema: &DFSchema) -> Expr {
    match fields::data_type(&expr, schema) {
        Ok(DataType::Date32) => crate::pg::functions::datetime::comparable(expr, stamp.clone()),
        Ok(of) if of != *stamp && matches!(of, DataType::Timestamp(..)) => cast(expr, stamp.clone()),
        _ => expr,
    }
}

fn beside(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let of = |expr: &Expr| fields::data_type(expr, schema).ok().filter(special);
    let as_type = |expr: Expr, of: &DataType| match &expr {
        Expr::Literal(value, _) if value.try_as_str().is_some() => cast(expr, of.clone()),
        _ => expr,
    };
    // Dates beside timestamps are timestamps.
    let common = |types: Vec<DataType>| {
        let of = |wanted: fn(&DataType) -> bool| types.iter().find(|of| wanted(of)).cloned();
        let mixed = types.windows(2).any(|pair| pair[0] != pair[1]);
        let stamp = of(|of| matches!(of, DataType::Timestamp(_, Some(_))))
            .or_else(|| of(|of| matches!(of, DataType::Timestamp(..))));
        stamp.filter(|_| mixed)
    };
    Ok(match expr {
        Expr::Between(mut between) => match of(&between.expr) {
            Some(found) => {
                *between.low = as_type(*between.low, &found);
                *between.high = as_type(*between.high, &found);
                let all = [&between.expr, &between.low, &between.high].into_iter();
                if let Some(stamp) = common(all.filter_map(|expr| of(expr)).collect()) {
                    *between.expr = as_stamp(*between.expr, &stamp, schema);
                    *between.low = as_stamp(*between.low, &stamp, schema);
                    *between.high = as_stamp(*between.high, &stamp, schema);
                }
                Transformed::yes(Expr::Between(between))
            }
            None => Transformed::no(Expr::Between(between)),
        },
        Expr::InList(mut list) => match of(&list.expr) {
            Some(found) => {
                list.list = list.list.into_iter().map(|item| as_type(item, &found)).collect();
                Transformed::yes(Expr::InList(list))
            }
            None => Transformed::no(Expr::InList(list)),
        },
        Expr::WindowFunction(call) => window(call, schema)?,
        other => Transformed::no(other),
    })
}

fn window(mut call: Box<WindowFunction>, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let parts = std::mem::take(&mut call.params.partition_by);
    let parts = parts.into_iter().map(|part| length_where(part, schema));
    call.params.partition_by = parts.collect::<Result<_>>()?;
    let frame = &call.params.window_frame;
    let by_value = frame.units == WindowFrameUnits::Range && !(frame.start_bound.is_unbounded());
    if !by_value {
        let keys = std::mem::take(&mut call.params.order_by);
        call.params.order_by = sorts(keys, schema)?;
    }
    Ok(Transformed::yes(Expr::WindowFunction(call)))
}

fn compares(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

fn length(expr: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::new_from_impl(Length {
            signature: Signature::any(1, Volatility::Immutable),
        }))
    });
    FUNCTION.call(vec![expr])
}

/// `greatest`, `least` and `nullif` of intervals.
fn of_values(call: ScalarFunction) -> Transformed<Expr> {
    let greatest = match (call.func.name(), call.args.as_slice()) {
        ("nullif", [a, b]) => {
            let same = BinaryExpr::new(Box::new(length(a.clone())), Operator::Eq, Box::new(length(b.clone())));
            let null = Expr::Literal(ScalarValue::IntervalMonthDayNano(None), None);
            let case = Case::new(
                None,
                vec![(Box::new(Expr::BinaryExpr(same)), Box::new(null))],
                Some(Box::new(a.clone())),
            );
            return Transformed::yes(Expr::Case(case));
        }
        ("greatest", _) => true,
        ("least", _) => false,
        _ => return Transformed::no(Expr::ScalarFunction(call)),
    };
    let function = Extreme {
        greatest,
        signature: Signature::variadic_any(Volatility::Immutable),
    };
    Transformed::yes(Arc::new(ScalarUDF::new_from_impl(function)).call(call.args))
}

/// The longest or the shortest of a row's intervals.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    greatest: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Extreme {
    fn name(&self) -> &str {
        if self.greatest {
            "longest_interval"
        } else {
            "shortest_interval"
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let columns = args.args.iter().map(|arg| {
            let values = arg.to_array(rows)?;
            Ok(datafusion::arrow::compute::cast(&values, &INTERVAL)?)
        });
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        let found = (0..rows).map(|row| {
            let valid = columns.iter().filter(|column| column.is_valid(row));
            let values = valid.map(|column| column.as_primitive::<IntervalMonthDayNanoType>().value(row));
            let length = |value: &IntervalMonthDayNano| Span::from(*value).length_us();
            match self.greatest {
                true => values.reduce(|a, b| if length(&b) > length(&a) { b } else { a }),
                false => values.reduce(|a, b| if length(&b) < length(&a) { b } else { a }),
            }
        });
        let found: IntervalMonthDayNanoArray = found.collect();
        Ok(ColumnarValue::Array(Arc::new(found)))
    }
}

/// An interval's length in microseconds.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Length {
    signature: Signature,
}

const LENGTH: DataType = DataType::Decimal128(36, 0);

impl ScalarUDFImpl for Length {
    fn name(&self) -> &str {
        "interval_length"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(LENGTH)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let rows = if scalar { 1 } else { args.number_rows };
        let values = args.args[0].to_array(rows)?;
        let values: ArrayRef = match values.data_type() {
            DataType::Interval(_) => datafusion::arrow::compute::cast(
                &values,
                &DataType::Interval(datafusion::arrow::datatypes::IntervalUnit::MonthDayNano),
            )?,
            _ => datafusion::arrow::array::new_null_array(
                &DataType::Interval(datafusion::arrow::datatypes::IntervalUnit::MonthDayNano),
                rows,
            ),
        };
        let lengths: Decimal128Array = values
            .as_primitive::<IntervalMonthDayNanoType>()
            .unary::<_, Decimal128Type>(|value| Span::from(value).length_us())
            .with_precision_and_scale(36, 0)?;
        let lengths: ArrayRef = Arc::new(lengths);
        Ok(match scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&lengths, 0)?),
            false => ColumnarValue::Array(lengths),
        })
    }
}
