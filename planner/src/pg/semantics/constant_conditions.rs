//! Conditions over no columns, `WHERE 1 / 0 = 1`, are computed while planning, as in PostgreSQL: what fails there fails
//! though no row may ask for it. The optimizer would leave such a one to the rows.

use datafusion::arrow::array::{Array, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr::create_physical_expr;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct ConstantConditions;

impl AnalyzerRule for ConstantConditions {
    fn name(&self) -> &str {
        "constant_conditions"
    }

    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::Filter(filter) = node {
                check(&filter.predicate, options)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(plan)
    }
}

/// Whether an expression gives the same whatever the row and the session.
fn is_constant(expr: &Expr) -> bool {
    let mut constant = true;
    let walked = expr.apply(|expr| {
        constant &= match expr {
            // A call that does not compute all of its arguments (coalesce) cannot be computed before it is simplified.
            Expr::ScalarFunction(call) => {
                call.func.signature().volatility == Volatility::Immutable && !call.func.short_circuits()
            }
            Expr::Literal(..)
            | Expr::Alias(_)
            | Expr::BinaryExpr(_)
            | Expr::Not(_)
            | Expr::Negative(_)
            | Expr::Cast(_)
            | Expr::Between(_)
            | Expr::InList(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNotFalse(_) => true,
            _ => false,
        };
        Ok(match constant {
            true => TreeNodeRecursion::Continue,
            false => TreeNodeRecursion::Stop,
        })
    });
    constant && walked.is_ok()
}

/// Computes the constant ones among conditions, up to the first that no row satisfies.
fn check(predicate: &Expr, options: &ConfigOptions) -> Result<()> {
    for condition in split_conjunction(predicate) {
        if !is_constant(condition) {
            continue;
        }
        if !holds(condition, options)? {
            return Ok(());
        }
    }
    Ok(())
}

fn holds(condition: &Expr, options: &ConfigOptions) -> Result<bool> {
    let mut props = ExecutionProps::new();
    props.config_options = Some(Arc::new(options.clone()));
    let context = PhysicalPlanningContext::default();
    let computed = create_physical_expr(condition, &DFSchema::empty(), &props, &context)?;
    let one = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &one)?;
    let value = computed.evaluate(&row)?.into_array(1)?;
    let is_true = |value: &BooleanArray| value.is_valid(0) && value.value(0);
    Ok(*value.data_type() != DataType::Boolean || is_true(value.as_boolean()))
}
