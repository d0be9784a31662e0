//! NOT IN over a subquery as a join that knows nulls.

use crate::optimizer::spill::windows::spills;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, NullEquality, Result};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::utils::{can_hash, conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, ExprSchemable, Filter, JoinType, LogicalPlan, LogicalPlanBuilder, col, lit};
use datafusion::optimizer::decorrelate_predicate_subquery::DecorrelatePredicateSubquery;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// `DecorrelatePredicateSubquery` (DataFusion 55.2) makes an anti join of NOT IN whose nulls are known where the equality
/// becomes its only key: not where the left side is a constant, or the subquery is correlated; and it asks whether columns
/// may be null, and not what is computed of them. Here the join is made for keys alone, and what else there is becomes
/// `NOT EXISTS (... WHERE (x = v) IS NOT FALSE)`.
#[derive(Debug, Default)]
pub struct DecorrelateNotIn(DecorrelatePredicateSubquery);

impl OptimizerRule for DecorrelateNotIn {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        // DataFusion's rule goes into subqueries by itself.
        let plan = plan.map_subqueries(|subquery| subquery.transform_down(|plan| self.rewrite(plan, config)))?;
        let plan = plan.transform_data(|plan| match plan {
            LogicalPlan::Filter(filter) if split_conjunction(&filter.predicate).into_iter().any(is_not_in) => {
                without_not_in(filter, config).map(Transformed::yes)
            }
            plan => Ok(Transformed::no(plan)),
        })?;
        let plan = plan.transform_data(|plan| match plan {
            LogicalPlan::Filter(filter) => with_heads(filter),
            plan => Ok(Transformed::no(plan)),
        })?;
        plan.transform_data(|plan| self.0.rewrite(plan, config))
    }
}

/// DataFusion's rule asks a subquery for its first expression, which VALUES and nodes of others do not tell: a projection does.
fn with_heads(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let Filter { predicate, input, .. } = filter;
    let headed = predicate.transform(|expr| match expr {
        Expr::InSubquery(mut found) if found.subquery.subquery.head_output_expr()?.is_none() => {
            let named = LogicalPlanBuilder::new_from_arc(found.subquery.subquery).alias("\u{1}items")?;
            let columns: Vec<Expr> = named.schema().columns().into_iter().map(Expr::Column).collect();
            found.subquery.subquery = Arc::new(named.project(columns)?.build()?);
            Ok(Transformed::yes(Expr::InSubquery(found)))
        }
        expr => Ok(Transformed::no(expr)),
    })?;
    headed.map_data(|predicate| Ok(LogicalPlan::Filter(Filter::try_new(predicate, input)?)))
}

fn is_not_in(condition: &Expr) -> bool {
    match condition {
        Expr::InSubquery(found) => found.negated,
        Expr::Not(inner) => matches!(inner.as_ref(), Expr::InSubquery(found) if !found.negated),
        _ => false,
    }
}

/// The left side and the subquery of a NOT IN; what else it is.
fn not_in(condition: Expr) -> std::result::Result<InSubquery, Expr> {
    match condition {
        condition if !is_not_in(&condition) => Err(condition),
        Expr::InSubquery(found) => Ok(found),
        Expr::Not(inner) => not_in(match *inner {
            Expr::InSubquery(found) => Expr::InSubquery(InSubquery { negated: true, ..found }),
            other => other,
        }),
        other => Err(other),
    }
}

fn without_not_in(filter: Filter, config: &dyn OptimizerConfig) -> Result<LogicalPlan> {
    let mut input = Arc::unwrap_or_clone(filter.input);
    let mut rest = Vec::new();
    for condition in split_conjunction_owned(filter.predicate) {
        let InSubquery {
            expr,
            subquery,
            negated,
        } = match not_in(condition) {
            Ok(found) => found,
            Err(other) => {
                rest.push(other);
                continue;
            }
        };
        // What refers to a row further out stays for those who run it row by row.
        if expr.contains_outer()
            || expr
                .exists(|expr| Ok(matches!(expr, Expr::ScalarSubquery(inner) if !inner.outer_ref_columns.is_empty())))?
        {
            rest.push(Expr::InSubquery(InSubquery {
                expr,
                subquery,
                negated,
            }));
            continue;
        }
        let is_key = subquery.outer_ref_columns.is_empty()
            && expr.any_column_refs()
            && !expr.is_volatile()
            && can_hash(&expr.get_type(input.schema())?);
        if is_key {
            input = anti_join(input, *expr, subquery, config)?;
        } else {
            rest.push(not_exists(&input, *expr, subquery)?);
        }
    }
    match conjunction(rest) {
        Some(rest) => Ok(LogicalPlan::Filter(Filter::try_new(rest, Arc::new(input))?)),
        None => Ok(input),
    }
}

fn anti_join(left: LogicalPlan, expr: Expr, subquery: Subquery, config: &dyn OptimizerConfig) -> Result<LogicalPlan> {
    let alias = config.alias_generator().next("__correlated_sq");
    let right = LogicalPlanBuilder::from(Arc::unwrap_or_clone(subquery.subquery))
        .alias(alias)?
        .build()?;
    let (qualifier, field) = right.schema().qualified_field(0);
    let value = Expr::Column(Column::from((qualifier, field)));
    let mut nulls = field.is_nullable() || expr.nullable(left.schema())?;
    let mut left = left;
    if nulls && spills(config) && is_repeatable(&right)? {
        left = where_nulls_allow(left, expr.clone(), &right, value.clone(), config)?;
        nulls = false;
    }
    let condition = expr.eq(value);
    let no_keys = (Vec::<Column>::new(), Vec::<Column>::new());
    LogicalPlanBuilder::from(left)
        .join_detailed_with_options(
            right,
            JoinType::LeftAnti,
            no_keys,
            Some(condition),
            NullEquality::NullEqualsNothing,
            nulls,
        )?
        .build()
}

/// The rows on the left that NOT IN leaves to be compared: all, where there is nothing on the right, and otherwise those that
/// are not null, where nothing on the right is. A join that knows nulls keeps all of the right in memory, others go through
/// files.
fn where_nulls_allow(
    left: LogicalPlan,
    expr: Expr,
    right: &LogicalPlan,
    value: Expr,
    config: &dyn OptimizerConfig,
) -> Result<LogicalPlan> {
    let name = || config.alias_generator().next("__count");
    let (rows, values) = (name(), name());
    let columns: Vec<Expr> = left.schema().columns().into_iter().map(Expr::Column).collect();
    let counts = LogicalPlanBuilder::from(right.clone())
        .aggregate(
            Vec::<Expr>::new(),
            [count(lit(1i64)).alias(&rows), count(value).alias(&values)],
        )?
        .build()?;
    let (rows, values) = (col(rows), col(values));
    let allowed = rows.clone().eq(lit(0i64)).or(rows.eq(values).and(expr.is_not_null()));
    LogicalPlanBuilder::from(left)
        .cross_join(counts)?
        .filter(allowed)?
        .project(columns)?
        .build()
}

/// Whether a plan gives the same rows when it runs again.
fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let varies = plan.exists(|node| {
        let mut varies = matches!(node, LogicalPlan::Limit(_) | LogicalPlan::Extension(_));
        node.apply_expressions(|expr| {
            varies = varies || expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(varies)
    })?;
    Ok(!varies)
}

/// That no row of the subquery equals the expression, or may equal it.
fn not_exists(outer: &LogicalPlan, expr: Expr, subquery: Subquery) -> Result<Expr> {
    let Subquery {
        subquery: plan,
        mut outer_ref_columns,
        spans,
    } = subquery;
    let expr = expr
        .transform_up(|expr| match expr {
            Expr::Column(column) => {
                let (_, field) = outer.schema().qualified_field_from_column(&column)?;
                let reference = Expr::OuterReferenceColumn(field.clone(), column);
                if !outer_ref_columns.contains(&reference) {
                    outer_ref_columns.push(reference.clone());
                }
                Ok(Transformed::yes(reference))
            }
            other => Ok(Transformed::no(other)),
        })
        .data()?;
    let value = Expr::Column(Column::from(plan.schema().qualified_field(0)));
    let may_equal = expr.eq(value).is_not_false();
    let mut plan = LogicalPlanBuilder::from(plan).filter(may_equal)?;
    if outer_ref_columns.is_empty() {
        plan = plan.limit(0, Some(1))?;
    }
    Ok(Expr::Exists(Exists {
        subquery: Subquery {
            subquery: Arc::new(plan.build()?),
            outer_ref_columns,
            spans,
        },
        negated: true,
    }))
}
