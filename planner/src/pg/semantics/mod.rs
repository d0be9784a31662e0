//! PostgreSQL's meaning of expressions where DataFusion's differs: an analyzer rule that runs after type coercion, when
//! every conversion is an explicit cast.
//!
//! - integer `+`, `-`, `*` fail on overflow (22003), and float division by zero fails (22012): `arithmetic`;
//! - text becomes a value by PostgreSQL's input rules (22P02, 22007): `parse`;
//! - numbers become integers by rounding, not by cutting: `to_integer`;
//! - values become text as the wire writes them: `to_text`;
//! - numbers that get one type get PostgreSQL's, before coercion gives them another: `numeric::unify`;
//! - references to an enclosing query's row have the types that it got: `outer_types`, and name groups' keys where it has
//!   groups: `ungrouped`;
//! - a FILTER is tested before the arguments of its aggregate: `filtered`;
//! - records beside NULL and beside each other: `records`;
//! - conditions over no columns are computed at once: `constant_conditions`;
//! - dates and times change their type by the session's zone: `times`;
//! - intervals compare by their length: `intervals`;
//! - the two zeros of floats are equal: `zeros`;
//! - blanks at the end of a `bpchar` do not count: `blanks`;
//! - arrays keep their dimensions, whatever array type they are cast to: `array_depths`;
//! - literals take the types of their neighbours: `resolve`;
//! - lists that exclude each other say nothing of a null: `in_lists`;
//! - a subquery's order goes where nobody sees it: `unseen_orders`;
//! - correlated subqueries that are no joins are run row by row: `correlated`;
//! - what correlates a subquery has names of its own: `own_names`;
//! - functions that return sets: `sets`; the one row of an aggregate several times: `repeated`;
//! - functions in FROM that do something are called: `effects`;
//! - arguments of functions in SQL are computed once a call: `arguments_once`;
//! - volatile functions are called after ORDER BY: `volatile_columns`; once for OVER and the column that is the same:
//!   `window_keys`;
//! - what a window function gives over frames that move is in no order: `sliding`;
//! - subqueries stand anywhere, and give one row: `subqueries`;
//! - calls of functions and `||` look before they make something long: `bounds`;
//! - `sum` and `avg` get the implementation that their argument's type asks for: `functions::aggregate`.

mod arguments_once;
pub(crate) mod arithmetic;
pub(crate) mod array_depths;
mod array_numbers;
mod blanks;
pub(crate) mod call_names;
mod casts;
mod coercion;
mod constant_conditions;
mod correlated;
mod effects;
mod expansion;
pub(crate) mod fields;
mod filtered;
mod implied_equalities;
mod in_lists;
mod intervals;
mod limits;
mod outer_aggregates;
mod outer_types;
mod own_names;
mod parse;
mod peers;
mod records;
mod recursion_terms;
mod repeated;
pub(crate) mod resolve;
mod sets;
mod sliding;
pub(crate) mod subqueries;
mod times;
mod to_integer;
pub(crate) mod to_text;
mod ungrouped;
mod unions;
mod unseen_orders;
mod volatile_columns;
mod volatile_conditions;
mod window_keys;
pub(crate) mod zeros;

pub(crate) use self::correlated::without_marks;
use self::implied_equalities::DropImpliedEqualities;
pub(crate) use self::repeated::{TIMES, function as repeated};
use crate::pg::bounds;
use crate::pg::conventions;
use crate::pg::errors::to_datafusion;
use crate::pg::functions::{aggregate, enums, json};
use crate::pg::named;
use crate::pg::numeric::unify::NumbersOfOneType;
use crate::pg::planning;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, SortExpr, lit};
use datafusion::optimizer::{Analyzer, AnalyzerRule};
use std::sync::Arc;
use tenon_storage::datetime::Conventions;

/// Adds the rules.
pub(crate) fn install(builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = vec![
        Arc::new(repeated::RowsAgain),
        // While its arguments are the keys of the groups as they were written.
        Arc::new(coercion::GroupingAndColumns::default()),
        Arc::new(crate::pg::functions::array_literal::PlanArrayLiterals),
        Arc::new(array_depths::ArraysKeepDepths),
        Arc::new(unseen_orders::DropUnseenOrders),
        Arc::new(records::RecordsOfNulls),
        Arc::new(intervals::LiteralsBesideIntervals),
        Arc::new(DropImpliedEqualities),
        Arc::new(resolve::LiteralsTakeTypes),
        Arc::new(blanks::BlanksAtEnds),
        Arc::new(array_numbers::NumbersInArrays),
        Arc::new(NumbersOfOneType),
        Arc::new(peers::FramesOfPeers),
    ];
    for rule in Analyzer::new().rules {
        let coercion = coercion::CoerceWhatDiffers::default();
        if rule.name() == coercion.name() {
            rules.push(Arc::new(coercion));
        } else if !rules.iter().any(|own| own.name() == rule.name()) {
            rules.push(rule);
        }
    }
    rules.push(Arc::new(outer_types::OuterColumnsTakeTypes));
    rules.push(Arc::new(PostgresSemantics));
    rules.push(Arc::new(constant_conditions::ConstantConditions));
    rules.push(Arc::new(expansion::Expansion));
    rules.push(Arc::new(arguments_once::ArgumentsOnce));
    rules.push(Arc::new(window_keys::KeysBelowWindows));
    rules.push(Arc::new(intervals::IntervalsByLength));
    rules.push(Arc::new(effects::EffectsOfRows));
    rules.push(Arc::new(correlated::Correlated));
    rules.push(Arc::new(sets::SetsInLists));
    rules.push(Arc::new(volatile_columns::VolatileColumnsLate));
    rules.push(Arc::new(limits::LimitsByValue));
    rules.push(Arc::new(own_names::NamesOfTheirOwn));
    rules.push(Arc::new(subqueries::SubqueriesAnywhere));
    rules.push(Arc::new(sliding::SlidingFrames));
    rules.push(Arc::new(recursion_terms::TermsOfRecursion));
    builder.with_analyzer_rules(rules)
}

/// PostgreSQL's meaning of an expression over no columns.
pub(crate) fn of_constant(expr: Expr, conventions: &Conventions) -> Result<Expr> {
    let schema = DFSchema::empty();
    let done = expr.transform_up(|expr| rewrite_expr(expr, &schema, conventions))?;
    Ok(done.data)
}

#[derive(Debug)]
struct PostgresSemantics;

impl AnalyzerRule for PostgresSemantics {
    fn name(&self) -> &str {
        "postgres_semantics"
    }

    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        let conventions = conventions::of(options);
        let rewritten = plan.transform_up_with_subqueries(|node| rewrite_node(node, &conventions))?;
        match rewritten.transformed {
            true => unions::renewed(rewritten.data),
            false => Ok(rewritten.data),
        }
    }
}

/// ORDER BY a jsonb is by its own order, not its text's; the zeros of floats are equal; NULL in a record is its greatest value, wherever NULLs stand.
fn order_json(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Sort(mut sort) = plan else {
        return Ok(Transformed::no(plan));
    };
    let apart = records::nulls_apart(&mut sort.expr, sort.input.schema())?;
    let changed = order_keys(&mut sort.expr, sort.input.schema())?;
    Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), changed || apart))
}

fn order_keys(keys: &mut [SortExpr], schema: &DFSchema) -> Result<bool> {
    let mut changed = false;
    for key in keys {
        if fields::data_type(&key.expr, schema)? == DataType::LargeUtf8 {
            let own = std::mem::replace(&mut key.expr, lit(true));
            key.expr = json::ordered(own);
            changed = true;
        }
        changed |= zeros::all(std::slice::from_mut(&mut key.expr), schema);
    }
    Ok(changed)
}

fn rewrite_node(plan: LogicalPlan, conventions: &Conventions) -> Result<Transformed<LogicalPlan>> {
    planning::check().map_err(to_datafusion)?;
    let Transformed {
        data: plan,
        transformed: sorted,
        ..
    } = order_json(plan)?;
    let (plan, distinct) = zeros::distinct_on(plan)?;
    let sorted = sorted || distinct;
    // Most nodes have nothing to rewrite: look before the schema is merged and names are saved.
    let mut touched = false;
    plan.apply_expressions(|expr| {
        touched = touched || expr.exists(|expr| Ok(is_candidate(expr)))?;
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    })?;
    if !touched {
        return Ok(Transformed::new_transformed(plan, sorted));
    }
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        let source = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
        schema.merge(&source);
    }
    let rewritten = named::map_expressions(plan, |expr| {
        expr.transform_up(|expr| rewrite_expr(expr, &schema, conventions))
    })?;
    if rewritten.transformed {
        return Ok(Transformed::yes(rewritten.data.recompute_schema()?));
    }
    Ok(Transformed::new_transformed(rewritten.data, sorted))
}

fn is_candidate(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => {
            binary.op == Operator::StringConcat
                || arithmetic::is_candidate(binary.op)
                || records::is_candidate(binary.op)
                || in_lists::is_candidate(binary)
        }
        Expr::ScalarFunction(_) | Expr::Cast(_) | Expr::AggregateFunction(_) | Expr::WindowFunction(_) => true,
        Expr::Between(_) => true,
        Expr::InList(list) => in_lists::is_mixed(list),
        Expr::Case(case) => case.expr.is_some() || volatile_conditions::has_them(case),
        _ => false,
    }
}

fn rewrite_expr(expr: Expr, schema: &DFSchema, conventions: &Conventions) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Cast(cast) => casts::rewrite(cast, schema, conventions),
        Expr::InList(list) => Ok(in_lists::apart(list)),
        Expr::Case(case) if volatile_conditions::has_them(&case) => Ok(volatile_conditions::compared(case)),
        Expr::Case(case) => Ok(zeros::case(case, schema)),
        Expr::Between(between) => records::between(between, schema),
        Expr::BinaryExpr(binary) if in_lists::is_candidate(&binary) => Ok(in_lists::rewrite(binary)),
        Expr::BinaryExpr(binary) if binary.op == Operator::StringConcat => texts_joined(binary, schema),
        Expr::BinaryExpr(binary) if records::is_candidate(binary.op) => records::rewrite(binary, schema),
        Expr::BinaryExpr(binary) => arithmetic::rewrite(binary, schema),
        Expr::AggregateFunction(mut call) => {
            let unmarked = outer_aggregates::check(&mut call)?;
            let told_apart = call.params.distinct && zeros::all(&mut call.params.args, schema);
            // DISTINCT sorts, which the results of these show.
            let shown = call.params.distinct && matches!(call.func.name(), "array_agg" | "string_agg");
            let unsorted = shown && call.params.order_by.is_empty();
            if unsorted {
                let value = call.params.args.first().cloned();
                call.params.order_by.extend(value.map(|value| value.sort(true, false)));
            }
            let sorted = unsorted || !call.params.distinct && order_keys(&mut call.params.order_by, schema)?;
            let call = filtered::aggregate(call)?;
            let lowered = aggregate::lower(call.data, schema)?;
            Ok(Transformed::new_transformed(
                lowered.data,
                lowered.transformed || call.transformed || sorted || unmarked || told_apart,
            ))
        }
        Expr::WindowFunction(mut call) => {
            let sorted = order_keys(&mut call.params.order_by, schema)?;
            let sorted = zeros::all(&mut call.params.partition_by, schema) || sorted;
            let call = filtered::window(call)?;
            let lowered = aggregate::lower_window(call.data, schema)?;
            Ok(Transformed::new_transformed(
                lowered.data,
                lowered.transformed || call.transformed || sorted,
            ))
        }
        Expr::ScalarFunction(call) => {
            let call = enums::computed_late(call, schema)?;
            let of_arrays = records::extreme(call.data, schema)?;
            let changed = call.transformed || of_arrays.transformed;
            let bounded = bounds::bounded(of_arrays.data);
            Ok(Transformed::new_transformed(
                bounded.data,
                bounded.transformed || changed,
            ))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn texts_joined(binary: BinaryExpr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_text = |expr: &Expr| fields::data_type(expr, schema).map(|own| own.is_string());
    if !is_text(&binary.left)? || !is_text(&binary.right)? {
        return Ok(Transformed::no(Expr::BinaryExpr(binary)));
    }
    let joined = bounds::concat::function().call(vec![*binary.left, *binary.right]);
    Ok(Transformed::yes(joined))
}
