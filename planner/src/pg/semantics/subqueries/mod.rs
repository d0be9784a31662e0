//! Subqueries where DataFusion plans none.
//!
//! - EXISTS in a select list becomes a mark join: a column that tells for each row whether the subquery has one;
//! - in aggregates, sort keys and window functions a subquery is first computed by a projection below;
//! - a correlated scalar subquery that may give several rows is aggregated to its only one (21000), or to its first,
//!   where it ends in LIMIT 1;
//! - window functions in a correlated subquery see the rows of one outer row: `windows`;
//! - VALUES with subqueries get these from a projection above;
//! - a scalar subquery may have no row, so it may be NULL whatever its column says.

pub(super) mod domain;
mod one_row;
mod values;
mod windows;

use crate::pg::named;
use datafusion::common::alias::AliasGenerator;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result, not_impl_err};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::Exists;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Subquery, SubqueryAlias};
use datafusion::logical_expr::utils::{conjunction, expr_to_columns, split_conjunction};
use datafusion::logical_expr::{Distinct, DistinctOn, Expr, Filter, LogicalPlan, LogicalPlanBuilder, SortExpr, lit};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::decorrelate::PullUpCorrelatedExpr;
pub(crate) use one_row::gives_one_row;
use one_row::{aggregate, of_one_row};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct SubqueriesAnywhere;

impl AnalyzerRule for SubqueriesAnywhere {
    fn name(&self) -> &str {
        "subqueries_anywhere"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let names = AliasGenerator::new();
        plan.transform_up_with_subqueries(|node| rewrite(node, &names)).data()
    }
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_))
}

/// Whether a projection, aggregation or sort has to be changed for it.
fn is_in_the_way(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
        Expr::Exists(_) => true,
        _ => false,
    }
}

fn is_value(expr: &Expr) -> bool {
    matches!(expr, Expr::Exists(_) | Expr::ScalarSubquery(_))
}

/// Whether an aggregate orders its rows by a subquery, which its state would compute apart from the plan.
fn orders_by_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::AggregateFunction(call) if call.params.order_by.iter().any(|key| {
        key.expr.exists(|expr| Ok(is_subquery(expr))).unwrap_or(true)
    }))
}

fn has(node: &LogicalPlan, wanted: fn(&Expr) -> bool) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found = found || expr.exists(|expr| Ok(wanted(expr)))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

fn rewrite(node: LogicalPlan, names: &AliasGenerator) -> Result<Transformed<LogicalPlan>> {
    let (node, changed) = match node {
        LogicalPlan::SubqueryAlias(alias) if is_correlated(&alias.input)? => (renamed(&alias)?, true),
        node => (node, false),
    };
    if !has(&node, is_subquery)? {
        return Ok(Transformed::new_transformed(node, changed));
    }
    if let LogicalPlan::Values(values) = node {
        return rewrite(values::filled_in(values)?, names).data().map(Transformed::yes);
    }
    if let LogicalPlan::Distinct(Distinct::On(distinct)) = node {
        let over = distinct_over(distinct, names)?;
        return over.map_children(|input| rewrite(input, names));
    }
    let outer = match node.inputs().as_slice() {
        [input] => Some((*input).clone()),
        _ => None,
    };
    let node = named::map_expressions(node, |expr| {
        expr.transform_up(|expr| of_one_row(expr, outer.as_ref(), names))
    })?
    .data
    .recompute_schema()?;
    let node = match node {
        LogicalPlan::Projection(_) => marked(node, names)?,
        LogicalPlan::Aggregate(_) if has(&node, orders_by_subquery)? => lifted(node, is_value, names)?,
        LogicalPlan::Aggregate(_) | LogicalPlan::Sort(_) | LogicalPlan::Window(_) if has(&node, is_in_the_way)? => {
            lifted(node, is_in_the_way, names)?
        }
        LogicalPlan::Join(mut join) if join.join_type == JoinType::Inner => match join.filter.take() {
            Some(filter) => LogicalPlan::Filter(Filter::try_new(filter, Arc::new(LogicalPlan::Join(join)))?),
            None => LogicalPlan::Join(join),
        },
        node => node,
    };
    Ok(Transformed::yes(node))
}

/// Whether the plan itself refers to an outer row; what LATERAL puts in it has an outer row of its own.
fn is_correlated(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        if matches!(node, LogicalPlan::Subquery(_)) {
            return Ok(TreeNodeRecursion::Jump);
        }
        found = found || node.contains_outer_reference();
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// An aliased subquery as a projection. Pulling conditions up adds columns to what is below, which a projection passes on
/// and an alias does not.
fn renamed(alias: &SubqueryAlias) -> Result<LogicalPlan> {
    let columns = alias.input.schema().columns().into_iter();
    let names = alias.schema.fields().iter().map(|field| field.name().clone());
    let exprs = columns
        .zip(names)
        .map(|(column, name)| Expr::Column(column).alias_qualified(Some(alias.alias.clone()), name));
    LogicalPlanBuilder::from(alias.input.as_ref().clone())
        .project(exprs)?
        .build()
}

/// Computes the subqueries in a node's expressions by a projection below it, those that are wanted there.
fn lifted(node: LogicalPlan, wanted: fn(&Expr) -> bool, names: &AliasGenerator) -> Result<LogicalPlan> {
    let columns = node.schema().columns();
    let input = node.inputs()[0].clone();
    let mut items: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut found: Vec<(Expr, Column)> = Vec::new();
    let node = named::map_expressions(node, |expr| {
        expr.transform_down(|expr| {
            if !wanted(&expr) {
                return Ok(Transformed::no(expr));
            }
            let known = found.iter().find(|(known, _)| *known == expr);
            let column = match known {
                Some((_, column)) => column.clone(),
                None => {
                    let column = Column::new_unqualified(names.next("__subquery"));
                    items.push(expr.clone().alias(&column.name));
                    found.push((expr, column.clone()));
                    column
                }
            };
            Ok(Transformed::new(Expr::Column(column), true, TreeNodeRecursion::Jump))
        })
    })?
    .data;
    let below = LogicalPlanBuilder::from(input).project(items)?.build()?;
    let below = marked(below, names)?;
    let exprs = node.expressions();
    let above = node.with_new_exprs(exprs, vec![below])?;
    if matches!(above, LogicalPlan::Aggregate(_)) {
        return Ok(above);
    }
    LogicalPlanBuilder::from(above)
        .project(columns.into_iter().map(Expr::Column))?
        .build()
}

/// DISTINCT ON with its subqueries in a projection below: DataFusion cannot rewrite its order.
pub(super) fn distinct_over(distinct: DistinctOn, names: &AliasGenerator) -> Result<LogicalPlan> {
    let input = distinct.input.as_ref().clone();
    let mut items: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut found: Vec<(Expr, Expr)> = Vec::new();
    let mut below = |expr: Expr| -> Result<Expr> {
        if !expr.exists(|expr| Ok(is_subquery(expr)))? {
            return Ok(expr);
        }
        let own = expr.clone().unalias();
        let known = found.iter().find(|(known, _)| *known == own);
        let column = match known {
            Some((_, column)) => column.clone(),
            None => {
                let column = Column::new_unqualified(names.next("__subquery"));
                items.push(own.clone().alias(&column.name));
                found.push((own, Expr::Column(column.clone())));
                Expr::Column(column)
            }
        };
        let (qualifier, name) = expr.qualified_name();
        Ok(column.alias_qualified(qualifier, name))
    };
    let select = distinct.select_expr.into_iter().map(&mut below);
    let select = select.collect::<Result<Vec<_>>>()?;
    let on = distinct.on_expr.into_iter().map(|expr| Ok(below(expr)?.unalias()));
    let on = on.collect::<Result<Vec<_>>>()?;
    let keys = distinct.sort_expr.map(|keys| {
        let keys = keys.into_iter().map(|key| {
            let expr = below(key.expr)?.unalias();
            Ok(SortExpr { expr, ..key })
        });
        keys.collect::<Result<Vec<_>>>()
    });
    let below = LogicalPlanBuilder::from(input).project(items)?.build()?;
    let distinct = DistinctOn::try_new(on, select, keys.transpose()?, Arc::new(below))?;
    Ok(LogicalPlan::Distinct(Distinct::On(distinct)))
}

/// A projection whose EXISTS are marks.
fn marked(node: LogicalPlan, names: &AliasGenerator) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(projection) = &node else {
        return Ok(node);
    };
    let mut input = projection.input.as_ref().clone();
    let kept = NamePreserver::new(&node);
    let mut exprs = Vec::with_capacity(projection.expr.len());
    for expr in &projection.expr {
        let name = kept.save(expr);
        let expr = expr.clone().transform_down(|expr| {
            let Expr::Exists(exists) = expr else {
                return Ok(Transformed::no(expr));
            };
            let mark = mark(&mut input, exists, names)?;
            Ok(Transformed::new(mark, true, TreeNodeRecursion::Jump))
        })?;
        exprs.push(name.restore(expr.data));
    }
    LogicalPlanBuilder::from(input).project(exprs)?.build()
}

/// A filter whose conditions on the row outside have no subqueries over its own rows: a projection below computes these, since
/// such a condition becomes a join's.
fn below_filter(node: LogicalPlan, names: &AliasGenerator) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(filter) = &node else {
        return Ok(Transformed::no(node));
    };
    let columns: Vec<Expr> = filter.input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut items = columns.clone();
    let mut conditions = Vec::new();
    for condition in split_conjunction(&filter.predicate) {
        let condition = condition.clone();
        if !condition.contains_outer() {
            conditions.push(condition);
            continue;
        }
        let lifted = condition.transform_down(|expr| match expr {
            Expr::ScalarSubquery(subquery) if !subquery.outer_ref_columns.is_empty() => {
                let name = names.next("__subquery");
                items.push(Expr::ScalarSubquery(subquery).alias(&name));
                let column = Expr::Column(Column::new_unqualified(name));
                Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
            }
            expr => Ok(Transformed::no(expr)),
        });
        conditions.push(lifted.data()?);
    }
    if items.len() == columns.len() {
        return Ok(Transformed::no(node));
    }
    LogicalPlanBuilder::from(filter.input.as_ref().clone())
        .project(items)?
        .filter(conjunction(conditions).unwrap_or_else(|| lit(true)))?
        .project(columns)?
        .build()
        .map(Transformed::yes)
}

/// What tells whether the subquery has a row; `input` gets the join that computes it.
fn mark(input: &mut LogicalPlan, exists: Exists, names: &AliasGenerator) -> Result<Expr> {
    let Exists { subquery, negated } = exists;
    let plan = subquery.subquery.as_ref().clone();
    if subquery.outer_ref_columns.is_empty() {
        let one = LogicalPlanBuilder::from(plan).limit(0, Some(1))?.build()?;
        let counted = Expr::ScalarSubquery(Subquery {
            subquery: Arc::new(aggregate(one, count(lit(1i64)))?),
            outer_ref_columns: Vec::new(),
            spans: subquery.spans,
        });
        return Ok(match negated {
            true => counted.eq(lit(0i64)),
            false => counted.gt(lit(0i64)),
        });
    }
    let alias = names.next("__exists");
    let mut pull_up = PullUpCorrelatedExpr::new().with_exists_sub_query(true);
    let plan = plan.transform_up(|node| below_filter(node, names)).data()?;
    let plan = plan.rewrite(&mut pull_up).data()?;
    if !pull_up.can_pull_up {
        return not_impl_err!("Physical plan does not support logical expression Exists");
    }
    let right = LogicalPlanBuilder::from(plan).alias(alias.as_str())?.build()?;
    let correlated: BTreeSet<Column> = pull_up.correlated_subquery_cols_map.into_values().flatten().collect();
    let condition = conjunction(pull_up.join_filters).unwrap_or_else(|| lit(true));
    let condition = condition
        .transform_up(|expr| match expr {
            Expr::Column(column) if correlated.contains(&column) => Ok(Transformed::yes(Expr::Column(Column::new(
                Some(alias.as_str()),
                column.name,
            )))),
            other => Ok(Transformed::no(other)),
        })
        .data()?;
    let mut needed = HashSet::new();
    expr_to_columns(&condition, &mut needed)?;
    let needed: Vec<Expr> = right
        .schema()
        .columns()
        .into_iter()
        .filter(|column| needed.contains(column))
        .map(Expr::Column)
        .collect();
    let right = match needed.is_empty() {
        true => right,
        false => LogicalPlanBuilder::from(right).project(needed)?.build()?,
    };
    *input = LogicalPlanBuilder::from(std::mem::take(input))
        .join_on(right, JoinType::LeftMark, Some(condition))?
        .build()?;
    let mark = Expr::Column(Column::new(Some(alias), "mark"));
    Ok(if negated { !mark } else { mark })
}
