//! DataFusion's type coercion, where there is something to coerce.

use crate::pg::occurring::only_columns;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::resolve_grouping_function::ResolveGroupingFunction;
use datafusion::optimizer::analyzer::type_coercion::{TypeCoercion, TypeCoercionRewriter};
use std::sync::Arc;

/// `TypeCoercion` (DataFusion 55.2) makes the schema of each node's inputs, and then that of the node, anew. Most nodes are over
/// columns as they are; and a node has another schema where its own expressions are others now, or an input has.
#[derive(Debug, Default)]
pub(super) struct CoerceWhatDiffers(TypeCoercion);

impl AnalyzerRule for CoerceWhatDiffers {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        let whole = match cfg!(debug_assertions) {
            true => Some(self.0.analyze(plan.clone(), options)?),
            false => None,
        };
        let mut other_columns = false;
        let coerced = plan
            .transform_up_with_subqueries(|node| {
                // What stands above may have been made for the columns of its first input.
                other_columns |= matches!(node, LogicalPlan::Union(_));
                let node = coerced(node)?;
                if !node.transformed && !other_columns {
                    return Ok(node);
                }
                let before = Arc::clone(node.data.schema());
                let plan = node.data.recompute_schema()?;
                other_columns |= before != *plan.schema();
                Ok(Transformed::yes(plan))
            })
            .data()?;
        match whole {
            Some(whole) if whole != coerced => internal_err!("types are coerced otherwise in the whole plan"),
            _ => Ok(coerced),
        }
    }
}

/// DataFusion's rule that computes `grouping(...)`, with what the nodes above know of its columns then.
#[derive(Debug, Default)]
pub(super) struct GroupingAndColumns(ResolveGroupingFunction);

impl AnalyzerRule for GroupingAndColumns {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        self.0
            .analyze(plan, options)?
            .transform_up_with_subqueries(|node| Ok(Transformed::yes(node.recompute_schema()?)))
            .data()
    }
}

/// One node over inputs whose types are coerced.
fn coerced(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let looks_at_types = matches!(
        node,
        LogicalPlan::Filter(_) | LogicalPlan::Join(_) | LogicalPlan::Union(_) | LogicalPlan::Limit(_)
    );
    if !looks_at_types && only_columns(&node)? {
        return Ok(Transformed::no(node));
    }
    let schema = match (node.inputs().as_slice(), &node) {
        ([input], _) => Arc::clone(input.schema()),
        (_, LogicalPlan::TableScan(scan)) => Arc::new(DFSchema::try_from_qualified_schema(
            scan.table_name.clone(),
            &scan.source.schema(),
        )?),
        (inputs, _) => Arc::new(merge_schema(inputs)),
    };
    let node = match node {
        LogicalPlan::Filter(mut filter) => {
            filter.predicate = filter.predicate.cast_to(&DataType::Boolean, &schema)?;
            LogicalPlan::Filter(filter)
        }
        node => node,
    };
    let mut rewriter = TypeCoercionRewriter::new(&schema);
    let names = NamePreserver::new(&node);
    let coerced = node.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(expr.rewrite(&mut rewriter)?.update_data(|expr| name.restore(expr)))
    })?;
    coerced
        .map_data(|node| rewriter.coerce_plan(node))
        .map(|node| Transformed::yes(node.data))
}
