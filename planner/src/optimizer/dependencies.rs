//! Which columns decide others, above groups.
//!
//! Rules leave out keys of groups and orders that others decide, and DISTINCT over a key. An aggregation of DataFusion 55.2
//! (`aggregate_functional_dependencies`) takes a column that decides others of its input, and may be there in many rows, for
//! one that decides each row of its groups: with `p.a` a primary key, the groups by `p.a, t.b` of a join would be one for
//! each `p.a`. So before one of DataFusion's rules goes by what a plan says of that, it is made to say what is true.

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Dependency, FunctionalDependence, FunctionalDependencies, Result};
use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan};
use datafusion::optimizer::eliminate_duplicated_expr::EliminateDuplicatedExpr;
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::replace_distinct_aggregate::ReplaceDistinctWithAggregate;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::collections::BTreeSet;
use std::sync::Arc;

/// `EliminateDuplicatedExpr`.
#[derive(Debug, Default)]
pub struct EliminateKeysOfOrders(EliminateDuplicatedExpr);

impl OptimizerRule for EliminateKeysOfOrders {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, mut plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match &mut plan {
            LogicalPlan::Sort(sort) => mend(&mut sort.input)?,
            // It would be made anew as it is.
            LogicalPlan::Aggregate(aggregate) if !has_equals(&aggregate.group_expr) => {
                return Ok(Transformed::no(plan));
            }
            _ => {}
        }
        self.0.rewrite(plan, config)
    }
}

/// `ReplaceDistinctWithAggregate`.
#[derive(Debug, Default)]
pub struct ReplaceDistinct(ReplaceDistinctWithAggregate);

impl OptimizerRule for ReplaceDistinct {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, mut plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::Distinct(Distinct::All(input)) = &mut plan {
            mend(input)?;
        }
        self.0.rewrite(plan, config)
    }
}

/// `OptimizeProjections`.
#[derive(Debug, Default)]
pub struct NeededColumns(OptimizeProjections);

impl OptimizerRule for NeededColumns {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        self.0.rewrite(mended(plan)?, config)
    }
}

fn has_equals(keys: &[Expr]) -> bool {
    keys.iter().enumerate().any(|(at, key)| keys[..at].contains(key))
}

fn mend(plan: &mut Arc<LogicalPlan>) -> Result<()> {
    *plan = Arc::new(mended(std::mem::take(Arc::make_mut(plan)))?);
    Ok(())
}

/// The plan with what is true of its columns.
pub fn mended(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut wrong = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Aggregate(aggregate) = node
            && !aggregate.input.schema().functional_dependencies().is_empty()
        {
            let partial = |dependence: &FunctionalDependence| dependence.mode == Dependency::Multi;
            wrong = of_groups(aggregate).is_some_and(|deps| {
                // All that it knows would be said of each row.
                deps.iter().any(partial) && deps != *aggregate.schema.functional_dependencies()
            });
        }
        Ok(match wrong {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    if !wrong {
        return Ok(plan);
    }
    let mended = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Aggregate(mut aggregate) => {
            if let Some(deps) = of_groups(&aggregate) {
                let schema = aggregate.schema.as_ref().clone();
                aggregate.schema = Arc::new(schema.with_functional_dependencies(deps)?);
            }
            Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
        }
        // Those with a schema of their own that is made from their inputs'.
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Join(_) | LogicalPlan::Window(_) => {
            Ok(Transformed::yes(node.recompute_schema()?))
        }
        node => Ok(Transformed::no(node)),
    })?;
    Ok(mended.data)
}

/// What is true of an aggregation's rows if it is of its input's; None: nothing is said of grouping sets.
fn of_groups(aggregate: &Aggregate) -> Option<FunctionalDependencies> {
    if aggregate
        .group_expr
        .iter()
        .any(|key| matches!(key, Expr::GroupingSet(_)))
    {
        return None;
    }
    let input = aggregate.input.schema();
    // A key that is named twice is one column.
    let mut keys: Vec<&Expr> = Vec::new();
    for key in &aggregate.group_expr {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let columns = keys.iter().map(|key| match key {
        Expr::Column(column) => input.maybe_index_of_column(column),
        _ => None,
    });
    let columns: Vec<Option<usize>> = columns.collect();
    let width = aggregate.schema.fields().len();
    if width != columns.len() + aggregate.aggr_expr.len() {
        return None;
    }
    let key = |column: &usize| columns.iter().position(|own| own.as_ref() == Some(column));
    let mut deps = Vec::new();
    let mut unique = columns.is_empty();
    for dependence in input.functional_dependencies().iter() {
        let source: Option<Vec<usize>> = dependence.source_indices.iter().map(key).collect();
        let Some(source) = source else { continue };
        let decided = closure(input.functional_dependencies(), &dependence.source_indices);
        let decides = |column: &Option<usize>| column.is_some_and(|column| decided.contains(&column));
        let of_groups = FunctionalDependence::new(source, Vec::new(), dependence.nullable);
        deps.push(match columns.iter().all(decides) {
            true => {
                unique = true;
                FunctionalDependence {
                    target_indices: (0..width).collect(),
                    ..of_groups.with_mode(Dependency::Single)
                }
            }
            false => FunctionalDependence {
                target_indices: (0..columns.len()).filter(|&at| decides(&columns[at])).collect(),
                ..of_groups.with_mode(Dependency::Multi)
            },
        });
    }
    if !unique {
        let fields = aggregate.schema.fields();
        let nullable = fields[..columns.len()].iter().any(|field| field.is_nullable());
        let all = FunctionalDependence::new((0..columns.len()).collect(), (0..width).collect(), nullable);
        deps.push(all.with_mode(Dependency::Single));
    }
    Some(FunctionalDependencies::new(deps))
}

/// The columns that these decide, themselves among them.
fn closure(deps: &FunctionalDependencies, source: &[usize]) -> BTreeSet<usize> {
    let mut decided: BTreeSet<usize> = source.iter().copied().collect();
    loop {
        let before = decided.len();
        for dependence in deps.iter() {
            if dependence.source_indices.iter().all(|column| decided.contains(column)) {
                decided.extend(&dependence.target_indices);
            }
        }
        if decided.len() == before {
            return decided;
        }
    }
}
