//! PostgreSQL's meaning of expressions where DataFusion's differs: an analyzer rule that runs after type coercion, when
//! every conversion is an explicit cast.
//!
//! - integer `+`, `-`, `*` fail on overflow (22003), and float division by zero fails (22012): `arithmetic`;
//! - text becomes a value by PostgreSQL's input rules (22P02, 22007): `parse`;
//! - numbers become integers by rounding, not by cutting: `to_integer`;
//! - values become text as the wire writes them: `to_text`;
//! - a float beside a numeric stays one, before coercion makes it a numeric: `floats`;
//! - a FILTER is tested before the arguments of its aggregate: `filtered`;
//! - lists that exclude each other say nothing of a null: `in_lists`;
//! - a subquery's order goes where nobody sees it: `unseen_orders`;
//! - correlated subqueries that are no joins are run row by row: `correlated`;
//! - functions that return sets: `sets`;
//! - subqueries stand anywhere, and give one row: `subqueries`;
//! - `sum` and `avg` get the implementation that their argument's type asks for: `functions::aggregate`.

mod arithmetic;
mod casts;
mod correlated;
mod filtered;
mod floats;
mod in_lists;
mod limits;
mod parse;
mod sets;
mod subqueries;
mod to_integer;
mod to_text;
mod unseen_orders;

use crate::functions::aggregate;
use crate::optimizer::implied_equalities::DropImpliedEqualities;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};
use datafusion::optimizer::{Analyzer, AnalyzerRule};
use std::sync::Arc;

/// Adds the rules.
pub(crate) fn install(builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = vec![
        Arc::new(crate::planning::Checkpoint),
        Arc::new(crate::functions::array_literal::PlanArrayLiterals),
        Arc::new(unseen_orders::DropUnseenOrders),
        Arc::new(DropImpliedEqualities),
        Arc::new(floats::FloatsStay),
    ];
    rules.extend(Analyzer::new().rules);
    rules.push(Arc::new(PostgresSemantics));
    rules.push(Arc::new(correlated::Correlated));
    rules.push(Arc::new(sets::SetsInLists));
    rules.push(Arc::new(limits::LimitsByValue));
    rules.push(Arc::new(subqueries::SubqueriesAnywhere));
    builder.with_analyzer_rules(rules)
}

#[derive(Debug)]
struct PostgresSemantics;

impl AnalyzerRule for PostgresSemantics {
    fn name(&self) -> &str {
        "postgres_semantics"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(rewrite_node)
            .map(|rewritten| rewritten.data)
    }
}

fn rewrite_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    // Most nodes have nothing to rewrite: look before the schema is merged and names are saved.
    let mut touched = false;
    plan.apply_expressions(|expr| {
        touched = touched || expr.exists(|expr| Ok(is_candidate(expr)))?;
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    })?;
    if !touched {
        return Ok(Transformed::no(plan));
    }
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        let source = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
        schema.merge(&source);
    }
    let names = NamePreserver::new(&plan);
    let rewritten = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let expr = expr.transform_up(|expr| rewrite_expr(expr, &schema))?;
        Ok(expr.update_data(|expr| name.restore(expr)))
    })?;
    if rewritten.transformed {
        return Ok(Transformed::yes(rewritten.data.recompute_schema()?));
    }
    Ok(rewritten)
}

fn is_candidate(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => arithmetic::is_candidate(binary.op) || in_lists::is_candidate(binary),
        Expr::Cast(_) | Expr::AggregateFunction(_) | Expr::WindowFunction(_) => true,
        _ => false,
    }
}

fn rewrite_expr(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Cast(cast) => casts::rewrite(cast, schema),
        Expr::BinaryExpr(binary) if matches!(binary.op, Operator::And | Operator::Or) => Ok(in_lists::rewrite(binary)),
        Expr::BinaryExpr(binary) => arithmetic::rewrite(binary, schema),
        Expr::AggregateFunction(call) => {
            let call = filtered::aggregate(call)?;
            let lowered = aggregate::lower(call.data, schema)?;
            Ok(Transformed::new_transformed(
                lowered.data,
                lowered.transformed || call.transformed,
            ))
        }
        Expr::WindowFunction(call) => {
            let call = filtered::window(call)?;
            let lowered = aggregate::lower_window(call.data, schema)?;
            Ok(Transformed::new_transformed(
                lowered.data,
                lowered.transformed || call.transformed,
            ))
        }
        other => Ok(Transformed::no(other)),
    }
}
