//! A case as a plan, run by one operator.

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int64Type, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{JoinSide, Result, ScalarValue};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::functions::{string, unicode};
use datafusion::logical_expr::{Operator, ScalarUDF};
use datafusion::physical_expr::expressions::{BinaryExpr, Column, cast, in_list, is_null, like, lit};
use datafusion::physical_expr::{PhysicalExprRef, ScalarFunctionExpr};
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter, build_join_schema};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionConfig;
use tenon_executor::join::{ChunkLimits, JoinExec, JoinSpec, RangeCondition};
use tenon_executor::options::{JoinOperator, JoinOptions};

use super::inputs::{Case, KeyType, Range, Residual};
use super::reference::Row;

/// The rows, and what EXPLAIN shows of the join afterwards.
pub async fn rows(case: &Case, options: JoinOptions) -> Result<(Vec<Row>, String)> {
    rows_within(case, options, context(options, ChunkLimits::default())).await
}

pub async fn rows_within(case: &Case, options: JoinOptions, context: TaskContext) -> Result<(Vec<Row>, String)> {
    let plan = planned(case, options)?;
    let batches = collect(Arc::clone(&plan), Arc::new(context)).await?;
    let shown = shown(&plan);
    Ok((sorted_rows(case, &batches), shown))
}

pub fn context(options: JoinOptions, streaming: ChunkLimits) -> TaskContext {
    let config = SessionConfig::new()
        .with_batch_size(50)
        .with_extension(Arc::new(options))
        .with_extension(Arc::new(streaming));
    TaskContext::default().with_session_config(config)
}

pub fn planned(case: &Case, options: JoinOptions) -> Result<Arc<dyn ExecutionPlan>> {
    Ok(Arc::new(plan(case)?.planned(&options, 2)?))
}

/// The join without columns, of which only the number of rows is left.
pub fn counting(case: &Case, options: JoinOptions) -> Result<Arc<dyn ExecutionPlan>> {
    Ok(Arc::new(plan(case)?.with_output(&[]).planned(&options, 2)?))
}

pub fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
    DisplayableExecutionPlan::new(plan.as_ref()).one_line().to_string()
}

pub fn sorted_rows(case: &Case, batches: &[RecordBatch]) -> Vec<Row> {
    let mut rows: Vec<Row> = batches.iter().flat_map(|batch| rows_of(case, batch)).collect();
    rows.sort_unstable();
    rows
}

/// Whether the case's condition is one for this operator.
pub fn is_possible(case: &Case, operator: JoinOperator) -> bool {
    match operator {
        JoinOperator::Hj | JoinOperator::Triton => case.has_keys(),
        JoinOperator::Streamed => streams(case) && (case.has_keys() || case.build.v.len() <= 64),
        JoinOperator::Smj | JoinOperator::Inlj => case.has_keys() || is_ranged(case),
        _ => true,
    }
}

/// Whether the probe side can flow past a table of the build side.
fn streams(case: &Case) -> bool {
    let arrow = |key: &KeyType| !matches!(key, KeyType::Float32 | KeyType::Float64 | KeyType::List);
    !case.null_equal && !case.null_aware && case.keys.iter().all(arrow)
}

/// Whether the filter bounds one side by the other.
fn is_ranged(case: &Case) -> bool {
    !matches!(case.range, Range::None | Range::Differs) && case.range_type.has_order()
        || matches!(
            case.residual,
            Residual::Less | Residual::TextLess | Residual::Lower | Residual::Longer
        )
}

fn input(case: &Case, build: bool) -> Result<(Arc<Schema>, Arc<dyn ExecutionPlan>)> {
    let (schema, batches) = case.batches(if build { &case.build } else { &case.probe });
    // Two partitions, uneven.
    let cut = batches.len().min(2);
    let partitions = [batches[..cut].to_vec(), batches[cut..].to_vec()];
    let plan = MemorySourceConfig::try_new_exec(&partitions, Arc::clone(&schema), None)?;
    Ok((schema, plan))
}

fn plan(case: &Case) -> Result<JoinExec> {
    let (build_schema, build) = input(case, true)?;
    let (probe_schema, probe) = input(case, false)?;
    let keys: Vec<PhysicalExprRef> = (1..=case.keys.len()).map(column).collect();
    let filter = filter(case, &build_schema, &probe_schema);
    let range = match &filter {
        Some(filter) if !case.has_keys() => RangeCondition::of(filter)?,
        _ => None,
    };
    assert_eq!(range.is_some(), is_ranged(case) && !case.has_keys(), "{case:?}");
    let (schema, output) = build_join_schema(&build_schema, &probe_schema, &case.join_type);
    let spec = JoinSpec {
        build_keys: keys.clone(),
        probe_keys: keys,
        join_type: case.join_type,
        filter,
        range,
        null_equal: case.null_equal,
        null_aware: case.null_aware,
        streams: streams(case),
        partitions: if case.has_keys() { 0 } else { 3 },
        output,
    };
    Ok(JoinExec::new(build, probe, spec, Arc::new(schema)))
}

fn column(at: usize) -> PhysicalExprRef {
    Arc::new(Column::new(&format!("c{at}"), at))
}

/// Over `b.x`, `b.y`, `b.v`, `b.t`, `p.x`, `p.y`, `p.v`, `p.t`.
fn filter(case: &Case, build: &Schema, probe: &Schema) -> Option<JoinFilter> {
    let first = 1 + case.keys.len();
    let indices: Vec<ColumnIndex> = [JoinSide::Left, JoinSide::Right]
        .into_iter()
        .flat_map(|side| (first..first + 4).map(move |index| ColumnIndex { index, side }))
        .collect();
    let fields: Vec<_> = indices
        .iter()
        .map(|index| match index.side {
            JoinSide::Left => build.field(index.index).clone(),
            _ => probe.field(index.index).clone(),
        })
        .collect();
    let compared = |left: usize, op: Operator, right: usize| -> PhysicalExprRef {
        Arc::new(BinaryExpr::new(column(left), op, column(right)))
    };
    let (bx, by, bv, bt, px, py, pv, pt) = (0, 1, 2, 3, 4, 5, 6, 7);
    let mut conditions = match case.range {
        Range::None => vec![],
        Range::Below => vec![compared(bx, Operator::Lt, px)],
        Range::BuildBetween => vec![compared(bx, Operator::GtEq, px), compared(bx, Operator::LtEq, py)],
        Range::ProbeBetween => vec![compared(px, Operator::Gt, bx), compared(px, Operator::LtEq, by)],
        Range::Differs => vec![compared(bx, Operator::NotEq, px)],
    };
    let schema = Arc::new(Schema::new(fields));
    match case.residual {
        Residual::None => {}
        Residual::Less => conditions.push(compared(bv, Operator::Lt, pv)),
        Residual::Sum => {
            let sum = compared(bv, Operator::Plus, pv);
            conditions.push(Arc::new(BinaryExpr::new(sum, Operator::Gt, lit(3i16))));
        }
        Residual::NullOrNotIn => {
            let listed = in_list(column(pv), vec![lit(1i16), lit(-1i16)], &true, &schema).unwrap();
            let either = BinaryExpr::new(is_null(column(bv)).unwrap(), Operator::Or, listed);
            conditions.push(Arc::new(either));
        }
        Residual::TextLess => conditions.push(compared(bt, Operator::Lt, pt)),
        Residual::Like => conditions.push(like(false, false, column(bt), column(pt), &schema).unwrap()),
        Residual::NotLike => conditions.push(like(true, false, column(pt), column(bt), &schema).unwrap()),
        Residual::Lower => {
            let lower = call(string::lower(), vec![column(bt)], &schema);
            conditions.push(Arc::new(BinaryExpr::new(lower, Operator::Eq, column(pt))));
        }
        Residual::StartsWith => {
            conditions.push(call(string::starts_with(), vec![column(bt), column(pt)], &schema));
        }
        Residual::Joined => {
            let joined = compared(bt, Operator::StringConcat, pt);
            let wanted = lit(ScalarValue::Utf8View(Some("ab".into())));
            conditions.push(Arc::new(BinaryExpr::new(joined, Operator::Eq, wanted)));
        }
        Residual::Longer => {
            let length = call(unicode::character_length(), vec![column(bt)], &schema);
            let wide = cast(column(pv), &schema, DataType::Int32).unwrap();
            conditions.push(Arc::new(BinaryExpr::new(length, Operator::Gt, wide)));
        }
        Residual::Quotient => {
            let quotient = Arc::new(BinaryExpr::new(column(bv), Operator::Divide, column(pv)));
            let two = BinaryExpr::new(quotient, Operator::Eq, lit(2i16));
            let either = BinaryExpr::new(Arc::new(two), Operator::Or, is_null(column(pv)).unwrap());
            conditions.push(Arc::new(either));
        }
    }
    let both = |left, right| Arc::new(BinaryExpr::new(left, Operator::And, right)) as PhysicalExprRef;
    let expression = conditions.into_iter().reduce(both)?;
    Some(JoinFilter::new(expression, indices, schema))
}

fn call(function: Arc<ScalarUDF>, arguments: Vec<PhysicalExprRef>, schema: &Schema) -> PhysicalExprRef {
    let options = Arc::new(ConfigOptions::default());
    Arc::new(ScalarFunctionExpr::try_new(function, arguments, schema, options).unwrap())
}

/// Row numbers of both sides and the mark: the first column of a side is its row number.
fn rows_of(case: &Case, batch: &RecordBatch) -> Vec<Row> {
    use datafusion::common::JoinType::*;
    let columns = case.keys.len() + 5;
    let (build, probe) = match case.join_type {
        LeftSemi | LeftAnti | LeftMark => (Some(0), None),
        RightSemi | RightAnti | RightMark => (None, Some(0)),
        _ => (Some(0), Some(columns)),
    };
    let number = |at: Option<usize>, row: usize| {
        let column = batch.column(at?).as_primitive::<Int64Type>();
        column.is_valid(row).then(|| column.value(row))
    };
    let mark = batch.columns().last().filter(|c| *c.data_type() == DataType::Boolean);
    let mark = mark.filter(|_| matches!(case.join_type, LeftMark | RightMark));
    (0..batch.num_rows())
        .map(|row| {
            let mark = mark.map(|column| column.as_boolean().value(row));
            (number(build, row), number(probe, row), mark)
        })
        .collect()
}
