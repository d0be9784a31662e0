//! The terms of WITH RECURSIVE give the columns that the query is said to have.
//!
//! A plan says of a cast that it is NULL where what is cast is; what runs it asks the type alone, which may always be. And a
//! column of a declared length is a text that knows it. DataFusion (55.2) refuses terms whose columns differ in such things.

use datafusion::arrow::datatypes::Fields;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Projection};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct TermsOfRecursion;

impl AnalyzerRule for TermsOfRecursion {
    fn name(&self) -> &str {
        "terms_of_recursion"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            let LogicalPlan::RecursiveQuery(mut query) = node else {
                return Ok(Transformed::no(node));
            };
            let fields = query.schema.fields().clone();
            query.static_term = Arc::new(term(Arc::unwrap_or_clone(query.static_term), &fields)?);
            query.recursive_term = Arc::new(term(Arc::unwrap_or_clone(query.recursive_term), &fields)?);
            Ok(Transformed::yes(LogicalPlan::RecursiveQuery(query)))
        })
        .data()
    }
}

fn term(plan: LogicalPlan, wanted: &Fields) -> Result<LogicalPlan> {
    let plan = exact(plan)?;
    let LogicalPlan::Projection(projection) = &plan else {
        return Ok(plan);
    };
    let schema = projection.input.schema();
    let exprs = projection.expr.iter().zip(wanted).map(|(expr, field)| {
        let own = expr.to_field(schema)?.1;
        if own.metadata() == field.metadata() || own.data_type() != field.data_type() {
            return Ok(expr.clone());
        }
        let (qualifier, name) = expr.qualified_name();
        let field = Arc::new(field.as_ref().clone().with_nullable(own.is_nullable()));
        let cast = Cast::new_from_field(Box::new(expr.clone().unalias()), field);
        Ok(Expr::Cast(cast).alias_qualified(qualifier, name))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    Projection::try_new(exprs, Arc::clone(&projection.input)).map(LogicalPlan::Projection)
}

/// Has casts of what is never NULL say that they are not, in the projections that a term ends with.
fn exact(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(Projection { expr, input, .. }) = plan else {
        return Ok(plan);
    };
    let input = Arc::new(exact(Arc::unwrap_or_clone(input))?);
    let schema = input.schema();
    let not_null = |expr: Expr| match expr {
        Expr::Cast(mut cast) if cast.field.is_nullable() && !cast.expr.nullable(schema)? => {
            cast.field = Arc::new(cast.field.as_ref().clone().with_nullable(false));
            Ok(Transformed::yes(Expr::Cast(cast)))
        }
        expr => Ok(Transformed::no(expr)),
    };
    let exprs = expr.into_iter().map(|expr| expr.transform_up(not_null).data());
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    Projection::try_new(exprs, input).map(LogicalPlan::Projection)
}
