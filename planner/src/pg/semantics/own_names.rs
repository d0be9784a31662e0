//! Names of their own for the columns by which a subquery is correlated, where others there have the same.
//!
//! DataFusion (55.2) makes a join of a correlated subquery under one alias, and finds the columns of the join's condition by
//! their names alone: of `EXISTS (SELECT * FROM x, y WHERE o.b < y.b)`, where x has a `b` too, it would take that one.
//! What IN compares gets one too: a conversion of a column there would be called as the same conversion in a condition. So
//! does a column there that is called by its name alone: DataFusion asks the mark join of IN below OR for it twice.

use super::correlated::subquery_of;
use datafusion::common::alias::AliasGenerator;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, LogicalPlanBuilder, Projection};
use datafusion::optimizer::AnalyzerRule;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct NamesOfTheirOwn;

impl AnalyzerRule for NamesOfTheirOwn {
    fn name(&self) -> &str {
        "names_of_their_own"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let names = AliasGenerator::new();
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Subquery(mut lateral) => {
                let inner = renamed(Arc::unwrap_or_clone(lateral.subquery), &names)?;
                lateral.subquery = Arc::new(inner.data);
                Ok(Transformed::new_transformed(
                    LogicalPlan::Subquery(lateral),
                    inner.transformed,
                ))
            }
            node => node.map_expressions(|expr| expr.transform_up(|expr| in_expression(expr, &names))),
        })
        .data()
    }
}

fn in_expression(mut expr: Expr, names: &AliasGenerator) -> Result<Transformed<Expr>> {
    if subquery_of(&expr).is_none() {
        return Ok(Transformed::no(expr));
    }
    let subquery = match &mut expr {
        Expr::ScalarSubquery(subquery) => subquery,
        Expr::Exists(exists) => &mut exists.subquery,
        Expr::InSubquery(within) => &mut within.subquery,
        _ => return Ok(Transformed::no(expr)),
    };
    let plan = renamed(subquery.subquery.as_ref().clone(), names)?;
    let changed = plan.transformed;
    subquery.subquery = Arc::new(plan.data);
    if let Expr::InSubquery(within) = &mut expr
        && !within.subquery.outer_ref_columns.is_empty()
        && let LogicalPlan::Projection(projection) = within.subquery.subquery.as_ref()
        && let [value] = projection.expr.as_slice()
        && !matches!(value, Expr::Column(_))
    {
        let named = value.clone().unalias().alias(names.next("\u{1}value"));
        let projection = Projection::try_new(vec![named], Arc::clone(&projection.input))?;
        within.subquery.subquery = Arc::new(LogicalPlan::Projection(projection));
        return Ok(Transformed::yes(expr));
    }
    if let Expr::InSubquery(within) = &mut expr
        && within.subquery.outer_ref_columns.is_empty()
        && is_called_by_name_alone(&within.subquery.subquery)?
    {
        let plan = Arc::unwrap_or_clone(Arc::clone(&within.subquery.subquery));
        let value = Expr::Column(plan.schema().columns().remove(0));
        let named = value.alias(names.next("\u{1}value"));
        within.subquery.subquery = Arc::new(LogicalPlanBuilder::from(plan).project([named])?.build()?);
        return Ok(Transformed::yes(expr));
    }
    Ok(Transformed::new_transformed(expr, changed))
}

/// Whether the expression that gives a plan's first column reads one of that column's own name, and says of no relation.
fn is_called_by_name_alone(plan: &LogicalPlan) -> Result<bool> {
    let name = plan.schema().field(0).name();
    Ok(plan.head_output_expr()?.is_some_and(|value| {
        let mut read = value.column_refs().into_iter();
        read.any(|column| column.relation.is_none() && column.name == *name)
    }))
}

/// A subquery's plan with names of their own for what its correlated conditions read.
fn renamed(plan: LogicalPlan, names: &AliasGenerator) -> Result<Transformed<LogicalPlan>> {
    let mut correlated = 0;
    plan.apply(|node| {
        correlated += usize::from(matches!(node, LogicalPlan::Filter(filter) if filter.predicate.contains_outer()));
        Ok(TreeNodeRecursion::Continue)
    })?;
    match correlated {
        0 => Ok(Transformed::no(plan)),
        filters => below(plan, &mut Vec::new(), filters > 1, names),
    }
}

/// `above`: the rows between the node and the subquery's own. `always`: other conditions may read columns of the same name.
fn below(
    plan: LogicalPlan,
    above: &mut Vec<DFSchemaRef>,
    always: bool,
    names: &AliasGenerator,
) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Filter(filter) if filter.predicate.contains_outer() => {
            above.push(filter.input.schema().clone());
            let input = below(Arc::unwrap_or_clone(filter.input), above, always, names);
            above.pop();
            let input = input?;
            let filter = Filter::try_new(filter.predicate, Arc::new(input.data))?;
            let read = read_beside_outer(&filter);
            let alike = |column: &Column| {
                let among = read.iter().filter(|other| other.name == column.name).count() > 1;
                let own = [filter.input.schema().clone()];
                let mut rows = if above.is_empty() { own.iter() } else { above.iter() };
                let named = |row: &DFSchemaRef| {
                    let mut fields = row.iter();
                    fields.any(|(relation, field)| *field.name() == column.name && relation != column.relation.as_ref())
                };
                among || rows.any(named)
            };
            if read.is_empty() || !always && !read.iter().any(alike) {
                let filter = LogicalPlan::Filter(filter);
                return Ok(Transformed::new_transformed(filter, input.transformed));
            }
            with_names(filter, read, names).map(Transformed::yes)
        }
        LogicalPlan::Subquery(_) => Ok(Transformed::no(plan)),
        plan => {
            above.push(plan.schema().clone());
            let done = plan.map_children(|child| below(child, above, always, names));
            above.pop();
            done
        }
    }
}

/// The columns of a filter's input in those of its conditions that read an outer row too.
fn read_beside_outer(filter: &Filter) -> Vec<Column> {
    let conditions = split_conjunction(&filter.predicate).into_iter();
    let mut read: Vec<Column> = conditions
        .filter(|condition| condition.contains_outer())
        .flat_map(|condition| condition.column_refs().into_iter().cloned())
        .collect();
    read.sort();
    read.dedup();
    read
}

/// The filter over copies of the columns; its rows are those that it had.
fn with_names(filter: Filter, read: Vec<Column>, names: &AliasGenerator) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = filter.input.schema().columns().into_iter().map(Expr::Column).collect();
    let copies: HashMap<Column, String> = read
        .into_iter()
        .map(|column| {
            let copy = names.next(&format!("\u{1}{}", column.name));
            (column, copy)
        })
        .collect();
    let mut below = columns.clone();
    let mut made: Vec<(&Column, &String)> = copies.iter().collect();
    made.sort();
    below.extend(
        made.into_iter()
            .map(|(column, copy)| Expr::Column(column.clone()).alias(copy)),
    );
    let conditions = split_conjunction_owned(filter.predicate).into_iter().map(|condition| {
        if !condition.contains_outer() {
            return Ok(condition);
        }
        let copied = condition.transform_up(|expr| {
            Ok(match &expr {
                Expr::Column(column) => match copies.get(column) {
                    Some(copy) => Transformed::yes(Expr::Column(Column::new_unqualified(copy))),
                    None => Transformed::no(expr),
                },
                _ => Transformed::no(expr),
            })
        });
        copied.data()
    });
    let conditions = conditions.collect::<Result<Vec<_>>>()?;
    LogicalPlanBuilder::from(filter.input)
        .project(below)?
        .filter(conjunction(conditions).unwrap_or_default())?
        .project(columns)?
        .build()
}
