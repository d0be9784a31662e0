//! Set-returning functions in a select list: their calls become `ProjectSet` below the projection.
//!
//! All calls that have none in their own arguments run side by side; those around them follow in a ProjectSet above.
//! Where ORDER BY asks for none of the sets it comes first, so that LIMIT ends the sets. Elsewhere sets are refused.

use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::functions::sets::called;
use crate::pg::nodes::{ProjectSet, SetCall};
use datafusion::common::alias::AliasGenerator;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    Distinct, DistinctOn, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection, Sort,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct SetsInLists;

impl AnalyzerRule for SetsInLists {
    fn name(&self) -> &str {
        "sets_in_lists"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut found = false;
        plan.apply_with_subqueries(|node| {
            found = found || has(node)?;
            Ok(if found {
                TreeNodeRecursion::Stop
            } else {
                TreeNodeRecursion::Continue
            })
        })?;
        if !found {
            return Ok(plan);
        }
        let names = AliasGenerator::new();
        let plan = plan
            .transform_down_with_subqueries(|node| rewrite(node, &names))
            .data()?;
        // What was unique below a set is not above it: the schemas still say so.
        plan.transform_up_with_subqueries(|node| node.recompute_schema().map(Transformed::yes))
            .data()
    }
}

pub(super) fn is_set(expr: &Expr) -> bool {
    called(expr).is_some()
}

/// Whether an expression calls a set function, its subqueries apart.
pub(super) fn contains_set(expr: &Expr) -> Result<bool> {
    expr.exists(|expr| Ok(is_set(expr)))
}

fn has(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found = found || contains_set(expr)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

fn rewrite(node: LogicalPlan, names: &AliasGenerator) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Sort(sort) => sorted(sort, names),
        node if !has(&node)? => Ok(Transformed::no(node)),
        LogicalPlan::Projection(projection) => {
            let input = Arc::unwrap_or_clone(projection.input);
            expand(projection.expr, input, false, names).map(Transformed::yes)
        }
        LogicalPlan::Aggregate(mut aggregate) => {
            for call in &aggregate.aggr_expr {
                if contains_set(call)? {
                    return Err(refused(
                        "aggregate function calls cannot contain set-returning function calls",
                    ));
                }
            }
            let mut items: Vec<Expr> = aggregate
                .input
                .schema()
                .columns()
                .into_iter()
                .map(Expr::Column)
                .collect();
            for key in &mut aggregate.group_expr {
                let taken = std::mem::take(key);
                *key = computed_below(taken, &mut items)?;
            }
            let input = expand(items, aggregate.input.as_ref().clone(), false, names)?;
            let again = LogicalPlanBuilder::from(input).aggregate(aggregate.group_expr, aggregate.aggr_expr)?;
            again.build().map(Transformed::yes)
        }
        LogicalPlan::Distinct(Distinct::On(on)) if follows_distinct(&on)? => {
            let columns = on.input.schema().columns().into_iter().map(Expr::Column);
            let rows = DistinctOn::try_new(on.on_expr, columns.collect(), on.sort_expr, on.input)?;
            let rows = LogicalPlan::Distinct(Distinct::On(rows));
            expand(on.select_expr, rows, false, names).map(Transformed::yes)
        }
        LogicalPlan::Distinct(Distinct::On(on)) => {
            let mut items: Vec<Expr> = on.input.schema().columns().into_iter().map(Expr::Column).collect();
            let mut below = |exprs: Vec<Expr>| {
                let below = exprs.into_iter().map(|expr| {
                    let name = expr.schema_name().to_string();
                    Ok(match contains_set(&expr)? {
                        true => computed_below(expr.unalias(), &mut items)?.alias(name),
                        false => expr,
                    })
                });
                below.collect::<Result<Vec<_>>>()
            };
            let select_expr = below(on.select_expr)?;
            let on_expr = below(on.on_expr)?;
            let sort_expr = match on.sort_expr {
                Some(keys) => {
                    let exprs = below(keys.iter().map(|key| key.expr.clone()).collect())?;
                    let keys = keys.into_iter().zip(exprs);
                    Some(keys.map(|(key, expr)| key.with_expr(expr.unalias())).collect())
                }
                None => None,
            };
            let input = expand(items, Arc::unwrap_or_clone(on.input), false, names)?;
            let again = DistinctOn::try_new(on_expr, select_expr, sort_expr, Arc::new(input))?;
            Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(again))))
        }
        LogicalPlan::Filter(_) => Err(refused("set-returning functions are not allowed in WHERE")),
        LogicalPlan::Join(_) => Err(refused("set-returning functions are not allowed in JOIN conditions")),
        LogicalPlan::Values(_) => Err(refused("set-returning functions are not allowed in VALUES")),
        LogicalPlan::Limit(_) => Err(refused("set-returning functions are not allowed in LIMIT")),
        LogicalPlan::Window(_) => Err(refused(
            "window function calls cannot contain set-returning function calls",
        )),
        node => Ok(Transformed::no(node)),
    }
}

/// Whether sets are spread after DISTINCT ON: ORDER BY stands there and asks for none of them.
fn follows_distinct(on: &DistinctOn) -> Result<bool> {
    let Some(keys) = &on.sort_expr else {
        return Ok(false);
    };
    let mut found = false;
    for expr in on.on_expr.iter().chain(keys.iter().map(|key| &key.expr)) {
        found = found || contains_set(expr)?;
    }
    Ok(!found)
}

/// A key with its sets as columns of the input, which are called as DataFusion calls the key.
fn computed_below(key: Expr, items: &mut Vec<Expr>) -> Result<Expr> {
    if let Expr::GroupingSet(_) = key {
        return key
            .map_children(|child| computed_below(child, items).map(Transformed::yes))
            .data();
    }
    if !contains_set(&key)? {
        return Ok(key);
    }
    let column = Column::new_unqualified(key.schema_name().to_string());
    let item = key.unalias().alias(&column.name);
    if !items.contains(&item) {
        items.push(item);
    }
    Ok(Expr::Column(column))
}

fn refused(message: &str) -> DataFusionError {
    to_datafusion(SqlError::new(state::FEATURE_NOT_SUPPORTED, message))
}

/// The projection of `exprs`, whose sets become ProjectSet below it.
pub(super) fn expand(
    mut exprs: Vec<Expr>,
    mut input: LogicalPlan,
    outer: bool,
    names: &AliasGenerator,
) -> Result<LogicalPlan> {
    for expr in &exprs {
        check(expr)?;
    }
    let plain = Projection::try_new(exprs.clone(), Arc::new(input.clone()))?;
    loop {
        let mut calls = Vec::new();
        let schema = input.schema().clone();
        for expr in &mut exprs {
            let taken = std::mem::replace(expr, datafusion::logical_expr::lit(true));
            *expr = taken
                .transform_down(|expr| taken_out(expr, &schema, &mut calls, names))
                .data()?;
        }
        if calls.is_empty() {
            break;
        }
        input = ProjectSet::plan(input, calls, outer)?;
    }
    let named = exprs
        .into_iter()
        .zip(plain.schema.iter())
        .map(|(expr, (qualifier, field))| match &expr {
            Expr::Column(column) if column.name == *field.name() && column.relation.as_ref() == qualifier => expr,
            _ => expr.unalias().alias_qualified(qualifier.cloned(), field.name()),
        });
    LogicalPlanBuilder::from(input)
        .project(named.collect::<Vec<_>>())?
        .build()
}

/// The column of an innermost call's set in place of the call.
fn taken_out(
    expr: Expr,
    schema: &DFSchema,
    calls: &mut Vec<SetCall>,
    names: &AliasGenerator,
) -> Result<Transformed<Expr>> {
    let Some((call, function)) = called(&expr) else {
        return Ok(Transformed::no(expr));
    };
    for arg in &call.args {
        if contains_set(arg)? {
            return Ok(Transformed::no(expr));
        }
    }
    let (_, field) = expr.to_field(schema)?;
    let name = names.next("\u{1}set");
    let field = field.as_ref().clone().with_name(&name).with_nullable(true);
    calls.push(SetCall {
        function: function.clone(),
        args: call.args.clone(),
        field: Arc::new(field),
    });
    let column = Expr::Column(Column::new_unqualified(name));
    Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
}

/// Refuses sets inside what evaluates its arguments as it sees fit.
fn check(expr: &Expr) -> Result<()> {
    expr.apply(|expr| {
        let what = match expr {
            Expr::Case(_) => "CASE",
            Expr::ScalarFunction(call) if call.name() == "coalesce" => "COALESCE",
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        let inner = |child: &Expr| contains_set(child);
        let mut found = false;
        expr.apply_children(|child| {
            found = found || inner(child)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        if found {
            return Err(to_datafusion(
                SqlError::new(
                    state::FEATURE_NOT_SUPPORTED,
                    format!("set-returning functions are not allowed in {what}"),
                )
                .hint("You might be able to move the set-returning function into a LATERAL FROM item."),
            ));
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map(|_| ())
}

/// ORDER BY: sets among its keys are columns of the select list, or join it unseen; where there are none, it goes below
/// the sets.
fn sorted(sort: Sort, names: &AliasGenerator) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = sort.input.as_ref() else {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    };
    let mut keyed = false;
    for key in &sort.expr {
        keyed = keyed || contains_set(&key.expr)?;
    }
    if keyed {
        return keyed_by_sets(&sort, projection, names).map(Transformed::yes);
    }
    let mut sets = Vec::with_capacity(projection.expr.len());
    for expr in &projection.expr {
        sets.push(contains_set(expr)?);
    }
    if !sets.contains(&true) || sort.fetch.is_some() {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    }
    // What each key is below the projection; None: it is a set.
    let schema = projection.schema.clone();
    let mut possible = true;
    let mut keys = sort.expr.clone();
    for key in &mut keys {
        let below = key.expr.clone().transform_up(|expr| {
            let Expr::Column(column) = &expr else {
                return Ok(Transformed::no(expr));
            };
            let at = schema.index_of_column(column)?;
            possible &= !sets[at];
            Ok(Transformed::yes(projection.expr[at].clone().unalias()))
        })?;
        key.expr = below.data;
    }
    if !possible {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    }
    let input = LogicalPlanBuilder::from(projection.input.as_ref().clone())
        .sort(keys)?
        .build()?;
    expand(projection.expr.clone(), input, false, names).map(Transformed::yes)
}

fn keyed_by_sets(sort: &Sort, projection: &Projection, names: &AliasGenerator) -> Result<LogicalPlan> {
    let mut items = projection.expr.clone();
    let columns = projection.schema.columns();
    let mut keys = sort.expr.clone();
    for key in &mut keys {
        if !contains_set(&key.expr)? {
            continue;
        }
        let wanted = key.expr.clone().unalias();
        let known = projection.expr.iter().position(|item| item.clone().unalias() == wanted);
        key.expr = Expr::Column(match known {
            Some(at) => columns[at].clone(),
            None => {
                let name = names.next("\u{1}key");
                items.push(wanted.alias(&name));
                Column::new_unqualified(name)
            }
        });
    }
    let shown = items.len() == columns.len();
    let input = expand(items, projection.input.as_ref().clone(), false, names)?;
    let sorted = LogicalPlanBuilder::from(input).sort_with_limit(keys, sort.fetch)?;
    match shown {
        true => sorted.build(),
        false => sorted.project(columns.into_iter().map(Expr::Column))?.build(),
    }
}
