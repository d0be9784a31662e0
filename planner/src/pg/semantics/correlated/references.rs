//! References to the row of an enclosing query: which a plan has, and placeholders in their place.

use super::subquery_of;
use crate::pg::named;
use crate::pg::nodes::Binding;
use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery, Placeholder};
use datafusion::logical_expr::logical_plan::{Subquery, Values};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection, Union};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

type Reference = (FieldRef, Column);

/// The references of a plan to rows outside of it.
pub(in crate::pg::semantics) fn free(plan: &LogicalPlan) -> Result<Vec<Reference>> {
    let mut found = Vec::new();
    collect(plan, &mut Vec::new(), &mut found)?;
    Ok(found)
}

/// `hidden`: the rows of enclosing queries that are inside the plan.
fn collect(plan: &LogicalPlan, hidden: &mut Vec<DFSchemaRef>, found: &mut Vec<Reference>) -> Result<()> {
    let own = Arc::new(merge_schema(&plan.inputs()));
    plan.apply_expressions(|expr| {
        expr.apply(|expr| {
            if let Expr::OuterReferenceColumn(field, column) = expr
                && !hidden.iter().any(|schema| schema.has_column(column))
                && !found.iter().any(|(_, known)| known == column)
            {
                found.push((field.clone(), column.clone()));
            }
            if let Some(subquery) = subquery_of(expr) {
                hidden.push(own.clone());
                let inner = collect(&subquery.subquery, hidden, found);
                hidden.pop();
                inner?;
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    match plan {
        LogicalPlan::Join(join) => {
            collect(&join.left, hidden, found)?;
            collect_right(&join.right, join.left.schema(), hidden, found)
        }
        plan => {
            for input in plan.inputs() {
                collect(input, hidden, found)?;
            }
            Ok(())
        }
    }
}

/// What is LATERAL on the right of a join may refer to its left.
fn collect_right(
    right: &LogicalPlan,
    left: &DFSchemaRef,
    hidden: &mut Vec<DFSchemaRef>,
    found: &mut Vec<Reference>,
) -> Result<()> {
    if !has_lateral(right)? {
        return collect(right, hidden, found);
    }
    hidden.push(left.clone());
    let inner = collect(right, hidden, found);
    hidden.pop();
    inner
}

/// Whether a part of FROM is LATERAL.
pub(in crate::pg::semantics) fn has_lateral(plan: &LogicalPlan) -> Result<bool> {
    Ok(match plan {
        LogicalPlan::Subquery(_) => true,
        LogicalPlan::SubqueryAlias(alias) => has_lateral(&alias.input)?,
        LogicalPlan::Join(join) => has_lateral(&join.left)? || has_lateral(&join.right)?,
        LogicalPlan::Projection(projection) => has_lateral(&projection.input)?,
        _ => false,
    })
}

/// The plan with placeholders for its references to rows of `row`, and what they stand for.
pub(super) fn substituted(plan: LogicalPlan, row: &DFSchema) -> Result<(LogicalPlan, Vec<Binding>)> {
    let mut substitution = Substitution::new(row);
    let plan = substitution.plan(plan, &mut Vec::new())?;
    Ok((plan, substitution.bindings))
}

/// An expression over a row and the columns of a subquery, with placeholders for the row's.
pub(super) fn of_row(expr: Expr, row: &DFSchema, subquery: &DFSchema) -> Result<(Expr, Vec<Binding>)> {
    let mut substitution = Substitution::new(row);
    let expr = expr.transform_down(|expr| match expr {
        Expr::Column(column) if !subquery.has_column(&column) && row.has_column(&column) => {
            let (_, field) = row.qualified_field_from_column(&column)?;
            let field = field.clone();
            Ok(Transformed::yes(substitution.placeholder(&field, &column)))
        }
        expr if subquery_of(&expr).is_some() => {
            let hidden = &mut vec![Arc::new(subquery.clone())];
            let expr = substitution.in_subquery(expr, hidden)?;
            Ok(Transformed::new(expr, true, TreeNodeRecursion::Jump))
        }
        expr => Ok(Transformed::no(expr)),
    })?;
    // What IN compares is the row's own.
    let expr = expr.data.transform_up(|expr| match expr {
        Expr::InSubquery(mut found) => {
            let (value, more) = of_row(*found.expr, row, subquery)?;
            substitution.bindings.extend(more);
            found.expr = Box::new(value);
            Ok(Transformed::yes(Expr::InSubquery(found)))
        }
        expr => Ok(Transformed::no(expr)),
    })?;
    Ok((expr.data, substitution.bindings))
}

/// Those of the references that a plan still has.
pub(super) fn settled(plan: &LogicalPlan, references: &[Expr]) -> Vec<Expr> {
    let left = free(plan).unwrap_or_default();
    let kept = references.iter().filter(|expr| match expr {
        Expr::OuterReferenceColumn(_, column) => left.iter().any(|(_, known)| known == column),
        _ => true,
    });
    kept.cloned().collect()
}

struct Substitution<'a> {
    row: &'a DFSchema,
    bindings: Vec<Binding>,
}

/// Placeholders of all plans differ: one may stand inside another's subquery.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl<'a> Substitution<'a> {
    fn new(row: &'a DFSchema) -> Self {
        Self {
            row,
            bindings: Vec::new(),
        }
    }

    fn placeholder(&mut self, field: &FieldRef, column: &Column) -> Expr {
        let value = Expr::Column(column.clone());
        let id = match self.bindings.iter().find(|known| known.value == value) {
            Some(known) => known.id.clone(),
            None => {
                let id = format!("$row{}", NEXT.fetch_add(1, Ordering::Relaxed));
                self.bindings.push(Binding { value, id: id.clone() });
                id
            }
        };
        let field = field.as_ref().clone().with_nullable(true);
        Expr::Placeholder(Placeholder {
            id,
            field: Some(Arc::new(field)),
        })
    }

    fn plan(&mut self, plan: LogicalPlan, hidden: &mut Vec<DFSchemaRef>) -> Result<LogicalPlan> {
        let before = plan.schema().clone();
        // Inputs first: a node's schema follows from them.
        let plan = match plan {
            LogicalPlan::Join(mut join) => {
                let left = join.left.schema().clone();
                let lateral = has_lateral(&join.right)?;
                join.left = Arc::new(self.plan(Arc::unwrap_or_clone(join.left), hidden)?);
                if lateral {
                    hidden.push(left);
                }
                let right = self.plan(Arc::unwrap_or_clone(join.right), hidden);
                if lateral {
                    hidden.pop();
                }
                join.right = Arc::new(right?);
                LogicalPlan::Join(join)
            }
            LogicalPlan::Subquery(subquery) => {
                let inner = self.plan(Arc::unwrap_or_clone(subquery.subquery), hidden)?;
                let references = settled(&inner, &subquery.outer_ref_columns);
                return Ok(match references.is_empty() {
                    true => inner,
                    false => LogicalPlan::Subquery(Subquery {
                        subquery: Arc::new(inner),
                        outer_ref_columns: references,
                        spans: subquery.spans,
                    }),
                });
            }
            plan => plan
                .map_children(|child| self.plan(child, hidden).map(Transformed::yes))
                .data()?,
        };
        let own = Arc::new(merge_schema(&plan.inputs()));
        let mut changed = false;
        let plan = named::map_expressions(plan, |expr| {
            let expr = expr.transform_down(|expr| match expr {
                Expr::OuterReferenceColumn(field, column)
                    if self.row.has_column(&column) && !hidden.iter().any(|schema| schema.has_column(&column)) =>
                {
                    Ok(Transformed::yes(self.placeholder(&field, &column)))
                }
                expr if subquery_of(&expr).is_some() => {
                    hidden.push(own.clone());
                    let inner = self.in_subquery(expr, hidden);
                    hidden.pop();
                    Ok(Transformed::new(inner?, true, TreeNodeRecursion::Jump))
                }
                expr => Ok(Transformed::no(expr)),
            })?;
            changed |= expr.transformed;
            Ok(expr)
        })
        .data()?;
        if let LogicalPlan::Values(values) = plan {
            return if changed {
                self.rows(values)
            } else {
                Ok(LogicalPlan::Values(values))
            };
        }
        if let LogicalPlan::Projection(projection) = plan {
            // The names stay those that were told.
            let named = projection.expr.into_iter().zip(before.iter());
            let named = named.map(|(expr, (qualifier, field))| match &expr {
                Expr::Column(_) => expr,
                _ => expr.unalias().alias_qualified(qualifier.cloned(), field.name()),
            });
            let projection = Projection::try_new(named.collect(), projection.input)?;
            return Ok(LogicalPlan::Projection(projection));
        }
        plan.recompute_schema()
    }

    fn in_subquery(&mut self, expr: Expr, hidden: &mut Vec<DFSchemaRef>) -> Result<Expr> {
        let mut within = |subquery: Subquery| {
            let inner = self.plan(Arc::unwrap_or_clone(subquery.subquery), hidden)?;
            Ok::<_, datafusion::error::DataFusionError>(Subquery {
                outer_ref_columns: settled(&inner, &subquery.outer_ref_columns),
                subquery: Arc::new(inner),
                spans: subquery.spans,
            })
        };
        Ok(match expr {
            Expr::ScalarSubquery(subquery) => Expr::ScalarSubquery(within(subquery)?),
            Expr::Exists(Exists { subquery, negated }) => Expr::Exists(Exists {
                subquery: within(subquery)?,
                negated,
            }),
            Expr::InSubquery(InSubquery {
                expr,
                subquery,
                negated,
            }) => {
                let subquery = within(subquery)?;
                // The value is the enclosing query's own expression.
                let own = hidden.pop();
                let value = expr.transform_down(|expr| match expr {
                    Expr::OuterReferenceColumn(field, column)
                        if self.row.has_column(&column) && !hidden.iter().any(|schema| schema.has_column(&column)) =>
                    {
                        Ok(Transformed::yes(self.placeholder(&field, &column)))
                    }
                    expr => Ok(Transformed::no(expr)),
                });
                hidden.extend(own);
                Expr::InSubquery(InSubquery::new(Box::new(value?.data), subquery, negated))
            }
            other => other,
        })
    }

    /// VALUES over a row's columns: DataFusion computes VALUES while it plans, so each row is a projection.
    fn rows(&mut self, values: Values) -> Result<LogicalPlan> {
        let schema = values.schema;
        let mut rows = Vec::with_capacity(values.values.len());
        for row in values.values {
            let items = row.into_iter().zip(schema.fields());
            let items = items.map(|(value, field)| {
                let value = datafusion::logical_expr::cast(value.unalias(), field.data_type().clone());
                value.alias(field.name())
            });
            let row = LogicalPlanBuilder::empty(true)
                .project(items.collect::<Vec<_>>())?
                .build()?;
            rows.push(Arc::new(row));
        }
        match rows.len() {
            1 => Ok(Arc::unwrap_or_clone(rows.remove(0))),
            _ => Ok(LogicalPlan::Union(Union::try_new_with_loose_types(rows)?)),
        }
    }
}
