//! `ARRAY[a, b]` over columns. DataFusion plans array literals where no enclosing query is known, so that a column of one
//! is not found; as a function's arguments its items are. Before types are settled the function becomes what planners make
//! of the literal.

use crate::pg::functions::expr_planners;
use crate::pg::named;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, internal_err};
use datafusion::logical_expr::planner::PlannerResult;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use std::collections::HashMap;
use std::sync::Arc;

/// Its name, which no client can write.
pub(crate) const ARRAY_LITERAL: &str = "\u{1}array";

#[derive(Debug, PartialEq, Eq, Hash)]
struct ArrayLiteral {
    signature: Signature,
}

pub(super) fn udf() -> ScalarUDF {
    ScalarUDF::new_from_impl(ArrayLiteral {
        signature: Signature::variadic_any(Volatility::Immutable),
    })
}

fn planned(mut items: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
    for planner in expr_planners() {
        items = match planner.plan_array_literal(items, schema)? {
            PlannerResult::Planned(expr) => return Ok(expr),
            PlannerResult::Original(items) => items,
        };
    }
    internal_err!("nobody plans array literals")
}

fn name(kind: usize) -> String {
    format!("item{kind}")
}

/// Whether fields differ by nothing but their names.
fn alike(a: &Field, b: &Field) -> bool {
    (a.data_type(), a.is_nullable(), a.metadata()) == (b.data_type(), b.is_nullable(), b.metadata())
}

impl ScalarUDFImpl for ArrayLiteral {
    fn name(&self) -> &str {
        ARRAY_LITERAL
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("an array literal has a field")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        // Items of one kind share a column: a column's name is compared with those before it.
        let mut kinds = Vec::new();
        let items = args.arg_fields.iter().map(|field| {
            let kind = kinds.iter().position(|kind: &&FieldRef| alike(kind, field));
            let kind = kind.unwrap_or_else(|| {
                kinds.push(field);
                kinds.len() - 1
            });
            Expr::Column(Column::new_unqualified(name(kind)))
        });
        let items: Vec<Expr> = items.collect();
        let fields = kinds.iter().enumerate();
        let fields = fields.map(|(kind, field)| Arc::new(Field::clone(field).with_name(name(kind))));
        let schema = DFSchema::from_unqualified_fields(fields.collect(), HashMap::new())?;
        let array = planned(items, &schema)?;
        Ok(array.to_field(&schema)?.1)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("an array literal that was not planned")
    }
}

/// Puts what planners make of array literals in their place.
#[derive(Debug)]
pub(crate) struct PlanArrayLiterals;

fn is_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.name() == ARRAY_LITERAL)
}

impl AnalyzerRule for PlanArrayLiterals {
    fn name(&self) -> &str {
        "plan_array_literals"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            let mut found = false;
            node.apply_expressions(|expr| {
                found = found || expr.exists(|expr| Ok(is_literal(expr)))?;
                Ok(TreeNodeRecursion::Continue)
            })?;
            if !found {
                return Ok(Transformed::no(node));
            }
            let schema = merge_schema(&node.inputs());
            let node = named::map_expressions(node, |expr| {
                expr.transform_up(|expr| match expr {
                    Expr::ScalarFunction(call) if call.name() == ARRAY_LITERAL => {
                        planned(call.args, &schema).map(Transformed::yes)
                    }
                    other => Ok(Transformed::no(other)),
                })
            })?;
            Ok(Transformed::yes(node.data.recompute_schema()?))
        })
        .data()
    }
}
