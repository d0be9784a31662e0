//! Beside a numeric, a float stays a float: the numeric becomes one. DataFusion would make both numerics of 15 digits
//! after the point. Runs before type coercion.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, Projection, Union, cast};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// Functions whose arguments become one type.
const OF_ONE_TYPE: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];

#[derive(Debug)]
pub(super) struct FloatsStay;

impl AnalyzerRule for FloatsStay {
    fn name(&self) -> &str {
        "floats_stay"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut changed = false;
        let plan = plan.transform_up_with_subqueries(|node| {
            let node = rewrite_node(node)?;
            changed |= node.transformed;
            if changed {
                return Ok(Transformed::yes(node.data.recompute_schema()?));
            }
            Ok(node)
        })?;
        Ok(plan.data)
    }
}

fn rewrite_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::Union(union) = node {
        return rewrite_union(union);
    }
    let schema = merge_schema(&node.inputs());
    node.map_expressions(|expr| expr.transform_up(|expr| rewrite_expr(expr, &schema)))
}

fn rewrite_expr(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(mut binary) if is_comparison(&binary.op) => {
            let changed = unify(vec![&mut binary.left, &mut binary.right], schema);
            Ok(Transformed::new_transformed(Expr::BinaryExpr(binary), changed))
        }
        Expr::InList(mut list) => {
            let mut all: Vec<&mut Expr> = vec![&mut list.expr];
            all.extend(&mut list.list);
            let changed = unify(all, schema);
            Ok(Transformed::new_transformed(Expr::InList(list), changed))
        }
        Expr::Between(mut between) => {
            let changed = unify(vec![&mut between.expr, &mut between.low, &mut between.high], schema);
            Ok(Transformed::new_transformed(Expr::Between(between), changed))
        }
        Expr::Case(mut case) => {
            let mut results: Vec<&mut Expr> = Vec::new();
            let mut compared: Vec<&mut Expr> = Vec::new();
            for (when, then) in &mut case.when_then_expr {
                compared.push(when);
                results.push(then);
            }
            results.extend(case.else_expr.as_deref_mut());
            let mut changed = unify(results, schema);
            if let Some(base) = case.expr.as_deref_mut() {
                compared.push(base);
                changed |= unify(compared, schema);
            }
            Ok(Transformed::new_transformed(Expr::Case(case), changed))
        }
        Expr::ScalarFunction(mut call) if OF_ONE_TYPE.contains(&call.name()) => {
            let changed = unify(call.args.iter_mut().collect(), schema);
            Ok(Transformed::new_transformed(Expr::ScalarFunction(call), changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Casts the numerics among expressions that get one type, where one of them is a float.
fn unify(exprs: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let types: Vec<Option<DataType>> = exprs.iter().map(|expr| expr.get_type(schema).ok()).collect();
    let float = types.iter().flatten().any(DataType::is_floating);
    let mut changed = false;
    for (expr, own) in exprs.into_iter().zip(types) {
        if float && own.is_some_and(|own| own.is_decimal()) {
            let own = std::mem::take(expr);
            *expr = cast(own, DataType::Float64);
            changed = true;
        }
    }
    changed
}

fn rewrite_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let width = union.inputs.first().map_or(0, |input| input.schema().fields().len());
    let same = union.inputs.iter().all(|input| input.schema().fields().len() == width);
    let mixed: Vec<bool> = (0..width)
        .map(|at| {
            let types = || {
                union
                    .inputs
                    .iter()
                    .map(move |input| input.schema().field(at).data_type())
            };
            same && types().any(DataType::is_floating) && types().any(DataType::is_decimal)
        })
        .collect();
    if !mixed.contains(&true) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let inputs = union.inputs.iter().map(|input| {
        let columns = input.schema().columns().into_iter().enumerate();
        let exprs = columns.map(|(at, column)| {
            let decimal = input.schema().field(at).data_type().is_decimal();
            let name = column.name.clone();
            let qualifier = column.relation.clone();
            match mixed[at] && decimal {
                true => cast(Expr::Column(column), DataType::Float64).alias_qualified(qualifier, name),
                false => Expr::Column(column),
            }
        });
        let projection = Projection::try_new(exprs.collect(), input.clone())?;
        Ok(Arc::new(LogicalPlan::Projection(projection)))
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(
        inputs,
    )?)))
}

fn is_comparison(op: &Operator) -> bool {
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
