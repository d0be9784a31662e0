//! Plans over few rows, evaluated at once by whoever asks: without tasks, streams, contexts, metrics and memory that is
//! reserved, none of which pays for a thousand rows. Such a plan is not copied before it runs, since nothing of the run stays
//! in it.
//!
//! A thread that serves clients does this, so that all of it must be bounded: a scan of few rows or by an index, and above
//! it what takes the same short time for each row and makes values of fixed width.
//!
//! More than 400 lines because what such a plan may be and how it is evaluated must agree.

use super::execution::current;
use super::parameters::{parameter, value, valued};
use super::pieces::PiecesExec;
use super::row_order::{AppendExec, appended};
use super::top_filters::same_rows;
use crate::pg::nodes::{LimitByValueExec, ProjectSetExec};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{concat_batches, filter_record_batch};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NegativeExpr,
    NotExpr, TryCastExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::{SortExec, sort_batch};
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use std::borrow::Cow;
use std::sync::Arc;
use tenon_executor::aggregate::GroupExec;
use tenon_executor::expr::{FastLike, NarrowArithmetic, NarrowComparison};
use tenon_executor::index::is_worth_lookups;
use tenon_executor::join::{IndexJoinExec, JoinExec};
use tenon_executor::pipeline::OffloadExec;
use tenon_executor::scan::{First, ScanExec};
use tenon_storage::{DatabaseState, SqlType, TableVersion};

/// Rows that a plan may read.
const ROWS_MAX: usize = 4096;
/// The same where it makes texts of others, or compares them in more than their order.
const LIGHT_ROWS_MAX: usize = 512;
/// Bytes that the texts of these rows may have.
const LIGHT_BYTES_MAX: usize = 64 << 10;
/// Rows that are looked up for a join.
const LOOKUPS_MAX: usize = 256;
/// Nodes above each other.
const DEPTH_MAX: usize = 8;
/// Expressions of a plan, with their parts.
const EXPRESSIONS_MAX: usize = 256;
/// What a value that the statement gives may take, bytes.
const VALUE_BYTES_MAX: usize = 1024;

/// Functions that take a short time for each row, whatever it holds, and do not change.
const FUNCTIONS: [&str; 14] = [
    "checked_add",
    "checked_subtract",
    "checked_multiply",
    "checked_divide",
    "to_integer",
    "decimal_from",
    "decimal_to",
    "convert_time",
    "parameter",
    "abs",
    "only_row",
    "or_null",
    // A parameter's items, of which there are few.
    "any_eq",
    "all_ne",
];

/// Functions of which the same is true for short values: they take a time in proportion to these. Some of them give something else each
/// time, and do nothing else.
const LIGHT_FUNCTIONS: [&str; 116] = [
    "\u{1}composite",
    "\u{1}subscript",
    "age",
    "array_append",
    "array_cat",
    "array_length",
    "array_lower",
    "array_position",
    "array_prepend",
    "array_remove",
    "array_replace",
    "array_to_json",
    "array_to_string",
    "array_upper",
    "ascii",
    "btrim",
    "cardinality",
    "ceil",
    "character_length",
    "chr",
    "clock_timestamp",
    "concat",
    "concat_ws",
    "convert",
    "date_difference",
    "date_part",
    "date_plus",
    "date_trunc",
    "decode",
    "encode",
    "extract",
    "floor",
    "gen_random_uuid",
    "greatest",
    "initcap",
    "isempty",
    "json_array_element",
    "json_array_element_text",
    "json_array_length",
    "json_at_path",
    "json_at_path_text",
    "json_build_array",
    "json_build_object",
    "json_extract_path",
    "json_extract_path_text",
    "json_object_field",
    "json_object_field_text",
    "json_typeof",
    "jsonb_array_length",
    "jsonb_build_array",
    "jsonb_build_object",
    "jsonb_concat",
    "jsonb_delete_key",
    "jsonb_delete_path",
    "jsonb_exists",
    "jsonb_extract_path",
    "jsonb_extract_path_text",
    "jsonb_insert",
    "jsonb_set",
    "jsonb_typeof",
    "least",
    "left",
    "length",
    "lower",
    "lower_inc",
    "ltrim",
    "make_array",
    "make_date",
    "make_interval",
    "make_time",
    "make_timestamp",
    "make_timestamptz",
    "md5",
    "mod",
    "nullif",
    "num_nonnulls",
    "num_nulls",
    "numeric_add",
    "numeric_div",
    "numeric_mul",
    "numeric_sub",
    "octet_length",
    "parse",
    "position",
    "quote_ident",
    "quote_literal",
    "quote_nullable",
    "random",
    "reverse",
    "right",
    "round",
    "row_to_json",
    "rtrim",
    "sign",
    "signum",
    "split_part",
    "starts_with",
    "strpos",
    "substring",
    "tenon_negate",
    "textcat",
    "timestamp_difference",
    "timestamp_plus_interval",
    "timestamptz_plus_interval",
    "timezone",
    "to_char",
    "to_json",
    "to_jsonb",
    "to_text",
    "to_timestamp",
    "translate",
    "trim",
    "trunc",
    "upper",
    "upper_bound",
    "upper_inc",
];

/// Aggregates that keep one value, or two.
const AGGREGATES: [&str; 8] = ["count", "sum", "min", "max", "avg", "bool_and", "bool_or", "single_row"];

/// Whether [`rows`] may evaluate such a plan, if it finds the rows few enough.
pub(crate) fn is_candidate(plan: &Arc<dyn ExecutionPlan>) -> bool {
    is_short_plan(plan) && !reads_rows(plan)
}

/// The same of a plan whose source of rows stands for those that it is given.
pub(crate) fn is_over_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    is_short_plan(plan) && reads_rows(plan)
}

fn is_short_plan(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut expressions = 0;
    are_known(plan, DEPTH_MAX, &mut expressions).unwrap_or(false) && expressions <= EXPRESSIONS_MAX
}

fn reads_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<DataSourceExec>() || plan.children().into_iter().any(reads_rows)
}

fn are_known(plan: &Arc<dyn ExecutionPlan>, depth: usize, expressions: &mut usize) -> Result<bool> {
    if depth == 0 {
        return Ok(false);
    }
    let known = if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        scan.runtime().is_empty()
    } else if let Some(join) = plan.downcast_ref::<IndexJoinExec>() {
        join.is_plain() && join.inner().runtime().is_empty()
    } else if let Some(node) = plan.downcast_ref::<OffloadExec>() {
        !node.is_asked_for()
    } else if plan.is::<GroupExec>() {
        has_short_groups(plan)
    } else if let Some(sets) = plan.downcast_ref::<ProjectSetExec>() {
        sets.is_of_items()
    } else {
        plan.is::<DataSourceExec>() || is_movable_node(plan) && !plan.is::<JoinExec>()
    };
    // An empty plan may have several partitions, each with its rows.
    let whole = !plan.is::<PlaceholderRowExec>() || plan.properties().partitioning.partition_count() == 1;
    let schema = plan.children().first().map_or_else(
        || match plan.downcast_ref::<ScanExec>() {
            Some(scan) => Arc::clone(scan.full_schema()),
            None => plan.schema(),
        },
        |input| input.schema(),
    );
    let mut short = known && whole;
    // What is evaluated over no more rows than such take a short time for.
    let few = plan.is::<ScanExec>() || plan.is::<ProjectionExec>() || plan.is::<FilterExec>() || plan.is::<GroupExec>();
    let mut look = |expr: &Arc<dyn PhysicalExpr>| {
        short = short && is_short(expr, &schema, few, expressions)?;
        Ok(TreeNodeRecursion::Continue)
    };
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        // As they were given: over the table's columns.
        scan.given().iter().try_for_each(|expr| look(expr).map(drop))?;
    } else if let Some(join) = plan.downcast_ref::<IndexJoinExec>() {
        let inner = join.inner();
        for condition in inner.given() {
            short = short && is_short(condition, inner.full_schema(), true, expressions)?;
        }
    } else if let Some(sort) = plan.downcast_ref::<SortExec>() {
        // What it tells the scan below is not evaluated.
        let mut keys = sort.expr().iter();
        keys.try_for_each(|key| look(&key.expr).map(drop))?;
    } else if plan.is::<GroupExec>() {
        evaluated(plan).iter().try_for_each(|expr| look(expr).map(drop))?;
    } else if !plan.is::<RepartitionExec>() && !plan.is::<DataSourceExec>() {
        // Where rows go is not asked.
        plan.apply_expressions(&mut look).map(drop)?;
    }
    if !short {
        return Ok(false);
    }
    for input in plan.children() {
        if !are_known(input, depth - 1, expressions)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a node does the same over other versions of the tables below it, wherever their statistics have changed.
pub(crate) fn is_movable_node(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<ScanExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<FilterExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<LimitByValueExec>()
        || plan.is::<ProjectSetExec>()
        || plan.is::<SortExec>()
        || hands_rows_on(plan)
        || plan.is::<GroupExec>()
        || plan.is::<JoinExec>()
        || plan.is::<IndexJoinExec>()
        || plan.is::<OffloadExec>()
        || plan.is::<AppendExec>()
        || (plan.is::<PlaceholderRowExec>() && plan.schema().fields().is_empty())
        || plan.is::<EmptyExec>()
}

/// Whether a node only hands on the rows of its input.
pub(crate) fn hands_rows_on(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<CoalescePartitionsExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<PiecesExec>()
}

/// Whether a plan aggregates rows by functions that keep none of them.
fn has_short_groups(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let Some(group) = plan.downcast_ref::<GroupExec>() else {
        return false;
    };
    let spec = group.spec();
    let known = |aggregate: &Arc<AggregateFunctionExpr>| {
        let plain = !aggregate.is_distinct() && aggregate.order_bys().is_empty();
        plain && AGGREGATES.contains(&aggregate.fun().name())
    };
    spec.sets.is_empty() && spec.aggregates.iter().all(known)
}

/// Whether an expression takes a short time for each row, or if `few` for each of a few.
fn is_short(expr: &Arc<dyn PhysicalExpr>, schema: &Schema, few: bool, expressions: &mut usize) -> Result<bool> {
    let mut short = true;
    expr.apply(|expr| {
        *expressions += 1;
        let plain = expr.is::<Column>() || expr.downcast_ref::<Literal>().is_some_and(|l| is_small(l.value()));
        let known = match (
            expr.downcast_ref::<BinaryExpr>(),
            expr.downcast_ref::<ScalarFunctionExpr>(),
        ) {
            (Some(binary), _) => is_short_operator(*binary.op()),
            (None, Some(call)) => parameter(expr).is_some() || FUNCTIONS.contains(&call.name()),
            (None, None) => {
                expr.is::<IsNullExpr>()
                    || expr.is::<IsNotNullExpr>()
                    || expr.is::<NotExpr>()
                    || expr.is::<NegativeExpr>()
                    || expr.is::<InListExpr>()
                    || expr.is::<CaseExpr>()
                    || expr.is::<CastExpr>()
                    || expr.is::<TryCastExpr>()
                    || expr.is::<NarrowArithmetic>()
                    || expr.is::<NarrowComparison>()
            }
        };
        let fixed = |of: DataType| of.is_primitive() || matches!(of, DataType::Boolean | DataType::Null);
        short = plain
            || is_copy(expr, schema)
            || is_given_text(expr)
            || (few && is_light(expr))
            || (known && (parameter(expr).is_some() || fixed(expr.data_type(schema)?)));
        Ok(match short {
            true => TreeNodeRecursion::Continue,
            false => TreeNodeRecursion::Stop,
        })
    })?;
    Ok(short)
}

/// Whether an expression is a column's value, or one that the statement gives, or of a `char(n)` what is there without the
/// blanks at its end.
fn is_copy(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() else {
        return false;
    };
    match (call.name(), call.args()) {
        ("tenon_unpadded", args) => args.iter().all(|arg| arg.is::<Column>()),
        ("rtrim", [text, blank]) if blank.is::<Literal>() => {
            let field = text.return_field(schema);
            field.is_ok_and(|field| SqlType::from_field(&field) == Some(SqlType::Bpchar))
                && (text.is::<Column>() || text.is::<Literal>() || parameter(text).is_some())
        }
        _ => false,
    }
}

/// Whether an expression takes a time in proportion to the values of which it is made.
fn is_light(expr: &Arc<dyn PhysicalExpr>) -> bool {
    match expr.downcast_ref::<ScalarFunctionExpr>() {
        Some(call) => LIGHT_FUNCTIONS.binary_search(&call.name()).is_ok(),
        None => {
            // What has a fixed width takes the same time for each row.
            let makes_text = |cast: &CastExpr| {
                let to = cast.cast_type();
                !to.is_primitive() && *to != DataType::Boolean
            };
            expr.is::<CaseExpr>()
                || expr.downcast_ref::<CastExpr>().is_some_and(makes_text)
                || expr.is::<LikeExpr>()
                || expr.is::<FastLike>()
        }
    }
}

/// What a node evaluates over its input's rows.
fn evaluated(plan: &Arc<dyn ExecutionPlan>) -> Vec<Arc<dyn PhysicalExpr>> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        projection.expr().iter().map(|own| Arc::clone(&own.expr)).collect()
    } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        vec![Arc::clone(filter.predicate())]
    } else if let Some(group) = plan.downcast_ref::<GroupExec>() {
        let spec = group.spec();
        let arguments = spec.aggregates.iter().flat_map(|one| one.expressions());
        let filters = spec.filters.iter().flatten().cloned();
        let keys = spec.keys.iter().map(|(key, _)| Arc::clone(key));
        arguments.chain(filters).chain(keys).collect()
    } else {
        vec![]
    }
}

/// Whether expressions are all evaluated in a short time over these rows.
fn are_light(exprs: &[Arc<dyn PhysicalExpr>], batches: &[RecordBatch]) -> bool {
    let makes = |expr: &Arc<dyn PhysicalExpr>| expr.exists(|part| Ok(is_light(part))).unwrap_or(true);
    if !exprs.iter().any(makes) {
        return true;
    }
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let columns = || batches.iter().flat_map(RecordBatch::columns);
    rows <= LIGHT_ROWS_MAX && columns().map(text_bytes).sum::<usize>() <= LIGHT_BYTES_MAX
}

/// What an array's values of no fixed width have.
fn text_bytes(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().lengths().map(|bytes| bytes as usize).sum(),
        DataType::BinaryView => array.as_binary_view().lengths().map(|bytes| bytes as usize).sum(),
        of if of.is_primitive() || *of == DataType::Boolean => 0,
        _ => array.to_data().get_slice_memory_size().unwrap_or(usize::MAX),
    }
}

/// Whether an expression is a text that the statement gives, in the form that its column has.
fn is_given_text(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.downcast_ref::<CastExpr>().is_some_and(|cast| {
        let given = cast.expr().is::<Literal>() || parameter(cast.expr()).is_some();
        given && cast.cast_type().is_string()
    })
}

fn is_short_operator(op: Operator) -> bool {
    use Operator::*;
    matches!(
        op,
        Eq | NotEq | Lt | LtEq | Gt | GtEq | Plus | Minus | Multiply | Divide | Modulo | And | Or | IsDistinctFrom
    ) || matches!(op, IsNotDistinctFrom | BitwiseAnd | BitwiseOr | BitwiseXor)
}

fn is_small(value: &ScalarValue) -> bool {
    let of = value.data_type();
    of.is_primitive() || matches!(of, DataType::Boolean | DataType::Null) || value.size() <= VALUE_BYTES_MAX
}

/// What a plan is evaluated with.
#[derive(Clone, Copy, Default)]
pub(crate) struct Given<'a> {
    /// Values for the parameters that it leaves open.
    pub values: Option<&'a [ScalarValue]>,
    /// The state whose tables it reads in place of those that it was made for.
    pub state: Option<&'a DatabaseState>,
    /// What its source of rows stands for.
    pub rows: Option<&'a RecordBatch>,
    /// What its scan is taken to give.
    pub scanned: Option<&'a [RecordBatch]>,
}

/// The rows of a plan that [`is_candidate`]; None where they may be many.
pub(crate) fn rows(plan: &Arc<dyn ExecutionPlan>, given: Given<'_>) -> Result<Option<Vec<RecordBatch>>> {
    if !given.values.unwrap_or_default().iter().all(is_small) {
        return Ok(None);
    }
    evaluate(plan, given)
}

fn evaluate(plan: &Arc<dyn ExecutionPlan>, given: Given<'_>) -> Result<Option<Vec<RecordBatch>>> {
    let values = given.values;
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        if let Some(scanned) = given.scanned {
            return Ok(Some(scanned.to_vec()));
        }
        let table = table(scan, given)?;
        if let Some(key) = key(scan.given(), values.unwrap_or_default())
            && let Some(rows) = scan.rows_of_key(table, &key, ROWS_MAX)?
        {
            return Ok(Some(rows));
        }
        return read(as_given(scan, table, given)?.as_ref());
    }
    if plan.is::<PlaceholderRowExec>() {
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(plan.schema(), vec![], &options)?;
        return Ok(Some(vec![row]));
    }
    if let (true, Some(rows)) = (plan.is::<DataSourceExec>(), given.rows) {
        let schema = plan.schema();
        let columns = schema.fields().iter().map(|field| rows.schema().index_of(field.name()));
        let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
        return Ok((rows.num_rows() <= ROWS_MAX).then_some(vec![rows.project(&columns)?]));
    }
    if let Some(join) = plan.downcast_ref::<IndexJoinExec>() {
        return look_up(join, given);
    }
    if plan.is::<AppendExec>() {
        let mut all = vec![];
        for input in plan.children() {
            let Some(batches) = evaluate(input, given)? else {
                return Ok(None);
            };
            for batch in &batches {
                all.push(appended(batch, &plan.schema())?);
            }
        }
        return Ok(Some(all));
    }
    let [input] = plan.children()[..] else {
        return Ok(plan.is::<EmptyExec>().then(Vec::new));
    };
    let first = match plan.downcast_ref::<SortExec>() {
        Some(sort) => first_rows(sort, given)?,
        None => None,
    };
    let given = Given {
        scanned: first.as_deref().or(given.scanned),
        ..given
    };
    let Some(batches) = evaluate(input, given)? else {
        return Ok(None);
    };
    if !are_light(&evaluated(plan), &batches) {
        return Ok(None);
    }
    let batches = if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        project(projection, batches, values)?
    } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        limited(self::filter(filter, batches, values)?, 0, filter.fetch())
    } else if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
        limited(batches, limit.skip(), limit.fetch())
    } else if let Some(limit) = plan.downcast_ref::<LocalLimitExec>() {
        limited(batches, 0, Some(limit.fetch()))
    } else if let Some(limit) = plan.downcast_ref::<LimitByValueExec>() {
        let valued = limit.with_bounds_changed(|bound| with_values(&bound, values))?;
        let (skip, fetch) = valued.rows()?;
        limited(batches, skip, Some(fetch))
    } else if let Some(sets) = plan.downcast_ref::<ProjectSetExec>() {
        match sets.few(batches, |arg| with_values(arg, values), LIGHT_ROWS_MAX)? {
            Some(rows) => rows,
            None => return Ok(None),
        }
    } else if let Some(sort) = plan.downcast_ref::<SortExec>() {
        let rows = concat_batches(&sort.input().schema(), &batches)?;
        vec![sort_batch(&rows, sort.expr(), sort.fetch())?]
    } else if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
        let rows = concat_batches(&merge.input().schema(), &batches)?;
        vec![sort_batch(&rows, merge.expr(), merge.fetch())?]
    } else if let Some(group) = plan.downcast_ref::<GroupExec>() {
        match group.spec().keys.is_empty() {
            true => vec![aggregate(group, &batches)?],
            false => vec![group.spec().groups_of(&batches)?],
        }
    } else {
        limited(batches, 0, plan.fetch())
    };
    Ok(Some(batches))
}

/// The version of its table that a scan reads.
fn table<'a>(scan: &'a ScanExec, given: Given<'a>) -> Result<&'a Arc<TableVersion>> {
    match given.state {
        Some(state) => current(state, scan),
        None => Ok(scan.table()),
    }
}

/// A scan of a version of its table, with the values in its filters.
fn as_given<'a>(scan: &'a ScanExec, table: &Arc<TableVersion>, given: Given<'_>) -> Result<Cow<'a, ScanExec>> {
    let valued = |filter| with_values(&filter, given.values);
    Ok(match given.state {
        Some(_) => Cow::Owned(scan.of_version(table, valued)?),
        None if given.values.is_some() && !scan.given().is_empty() => Cow::Owned(scan.with_filters_changed(valued)?),
        None => Cow::Borrowed(scan),
    })
}

/// The rows of a join that looks up those of its outer side.
fn look_up(join: &IndexJoinExec, given: Given<'_>) -> Result<Option<Vec<RecordBatch>>> {
    let Some(outer) = evaluate(join.outer(), given)? else {
        return Ok(None);
    };
    let table = table(join.inner(), given)?;
    let rows: usize = outer.iter().map(RecordBatch::num_rows).sum();
    let reader = match rows <= LOOKUPS_MAX {
        true => join.reader_of(table),
        false => None,
    };
    let Some(reader) = reader else {
        return Ok(None);
    };
    let outer = concat_batches(&join.outer().schema(), &outer)?;
    let inner = as_given(join.inner(), table, given)?.into_owned();
    let pairs_max = rows_max(&inner);
    let is_open = |key: &Arc<dyn PhysicalExpr>| key.exists(|part| Ok(parameter(part).is_some())).unwrap_or(true);
    let join = match join.spec().lookup.equal.iter().any(is_open) {
        true => &join.with_values_changed(|expr| with_values(&expr, given.values))?,
        false => join,
    };
    let joined = join.join_few(outer, inner, reader, pairs_max)?;
    Ok(joined.map(|rows| vec![rows]))
}

/// The rows of the scan below a sort that keeps its first rows, or as many of them as an index has to give for that.
fn first_rows(sort: &SortExec, given: Given<'_>) -> Result<Option<Vec<RecordBatch>>> {
    let key = sort.expr().first();
    let (Some(rows), Some(column)) = (sort.fetch(), key.expr.downcast_ref::<Column>()) else {
        return Ok(None);
    };
    let (mut plan, mut column) = (sort.input(), column.index());
    let scan = loop {
        if let Some(scan) = plan.downcast_ref::<ScanExec>() {
            break scan;
        }
        let (Some(source), [input], None) = (same_rows(plan, column), &plan.children()[..], plan.fetch()) else {
            return Ok(None);
        };
        (plan, column) = (*input, source);
    };
    let (column, table) = (scan.columns()[column], table(scan, given)?);
    let mut indexes = table.definition().all_indexes();
    if !is_worth_lookups(table) || !indexes.any(|index| index.columns.contains(&column)) {
        return Ok(None);
    }
    let first = First {
        column,
        options: key.options,
        rows,
    };
    let scan = as_given(scan, table, given)?;
    scan.read_first(first, sort.expr().len() > 1, rows_max(&scan))
}

/// The columns that the conditions compare with values, where they say nothing else than that those are equal.
fn key(conditions: &[Arc<dyn PhysicalExpr>], values: &[ScalarValue]) -> Option<Vec<(usize, ScalarValue)>> {
    fn add(
        condition: &Arc<dyn PhysicalExpr>,
        values: &[ScalarValue],
        key: &mut Vec<(usize, ScalarValue)>,
    ) -> Option<()> {
        let binary = condition.downcast_ref::<BinaryExpr>()?;
        if *binary.op() == Operator::And {
            add(binary.left(), values, key)?;
            return add(binary.right(), values, key);
        }
        let (column, other) = match binary.left().downcast_ref::<Column>() {
            Some(column) => (column, binary.right()),
            None => (binary.right().downcast_ref::<Column>()?, binary.left()),
        };
        let is_new = key.iter().all(|(known, _)| *known != column.index());
        (*binary.op() == Operator::Eq && is_new).then_some(())?;
        key.push((column.index(), value(other, values)?));
        Some(())
    }
    let mut key = vec![];
    conditions.iter().try_for_each(|one| add(one, values, &mut key))?;
    (!key.is_empty()).then_some(key)
}

fn read(scan: &ScanExec) -> Result<Option<Vec<RecordBatch>>> {
    match scan.rows_read_max() {
        Some(rows) if rows <= rows_max(scan) => scan.read_few().map(Some),
        _ => Ok(None),
    }
}

/// Rows that a scan may look at.
fn rows_max(scan: &ScanExec) -> usize {
    let is_light = |filter: &Arc<dyn PhysicalExpr>| filter.exists(|part| Ok(is_light(part))).unwrap_or(true);
    match scan.given().iter().any(is_light) {
        true => LIGHT_ROWS_MAX,
        false => ROWS_MAX,
    }
}

fn with_values(expr: &Arc<dyn PhysicalExpr>, values: Option<&[ScalarValue]>) -> Result<Arc<dyn PhysicalExpr>> {
    match values {
        Some(values) if expr.exists(|expr| Ok(parameter(expr).is_some()))? => valued(Arc::clone(expr), values),
        _ => Ok(Arc::clone(expr)),
    }
}

fn project(
    projection: &ProjectionExec,
    batches: Vec<RecordBatch>,
    values: Option<&[ScalarValue]>,
) -> Result<Vec<RecordBatch>> {
    let exprs = projection
        .expr()
        .iter()
        .map(|projected| with_values(&projected.expr, values));
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let schema = projection.schema();
    let projected = batches.into_iter().map(|batch| {
        let rows = batch.num_rows();
        let columns = exprs.iter().map(|expr| expr.evaluate(&batch)?.into_array(rows));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let columns = columns.collect::<Result<_>>()?;
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&schema),
            columns,
            &options,
        )?)
    });
    projected.collect()
}

fn filter(filter: &FilterExec, batches: Vec<RecordBatch>, values: Option<&[ScalarValue]>) -> Result<Vec<RecordBatch>> {
    let predicate = with_values(filter.predicate(), values)?;
    let filtered = batches.into_iter().map(|batch| {
        let passes = predicate.evaluate(&batch)?.into_array(batch.num_rows())?;
        let batch = filter_record_batch(&batch, as_boolean_array(&passes)?)?;
        Ok(match filter.projection() {
            Some(columns) => batch.project(columns)?,
            None => batch,
        })
    });
    filtered.collect()
}

/// One row of all.
fn aggregate(group: &GroupExec, batches: &[RecordBatch]) -> Result<RecordBatch> {
    let spec = group.spec();
    let mut columns = vec![];
    for (aggregate, filter) in spec.aggregates.iter().zip(&spec.filters) {
        let mut accumulator = aggregate.create_accumulator()?;
        for batch in batches {
            let filtered = match filter {
                Some(filter) => {
                    let passes = filter.evaluate(batch)?.into_array(batch.num_rows())?;
                    Some(filter_record_batch(batch, as_boolean_array(&passes)?)?)
                }
                None => None,
            };
            let batch = filtered.as_ref().unwrap_or(batch);
            let arguments = aggregate.expressions().into_iter();
            let arguments = arguments.map(|expr| expr.evaluate(batch)?.into_array(batch.num_rows()));
            accumulator.update_batch(&arguments.collect::<Result<Vec<_>>>()?)?;
        }
        columns.push(accumulator.evaluate()?.to_array()?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(&spec.schema),
        columns,
        &options,
    )?)
}

/// The rows after `skip`, at most `fetch`.
fn limited(batches: Vec<RecordBatch>, mut skip: usize, fetch: Option<usize>) -> Vec<RecordBatch> {
    let mut left = fetch.unwrap_or(usize::MAX);
    let mut kept = vec![];
    for batch in batches {
        let from = skip.min(batch.num_rows());
        let rows = (batch.num_rows() - from).min(left);
        skip -= from;
        left -= rows;
        if rows > 0 {
            kept.push(batch.slice(from, rows));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    #[test]
    fn functions_are_in_order() {
        assert!(super::LIGHT_FUNCTIONS.is_sorted());
    }
}
