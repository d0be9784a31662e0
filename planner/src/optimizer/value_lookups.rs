//! Rows of an indexed table whose column equals a scalar subquery's value, as a join with that one value: the index finds them,
//! where a filter would read the table.

use crate::pg::functions::aggregate::single::{ONLY_ROW, SINGLE_ROW};
use crate::pg::semantics::subqueries::gives_one_row;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, Filter, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, SubqueryAlias, TableScan,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;
use tenon_executor::index::is_worth_lookups;
use tenon_executor::scan::SegmentTable;

#[derive(Debug)]
pub struct LookUpValues;

impl OptimizerRule for LookUpValues {
    fn name(&self) -> &str {
        "tenon_look_up_values"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = plan else {
            return Ok(Transformed::no(plan));
        };
        let mut conditions = split_conjunction_owned(filter.predicate.clone());
        let found = conditions
            .iter()
            .position(|condition| looked_up(condition, &filter.input).is_some());
        let Some(found) = found else {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        };
        let condition = conditions.remove(found);
        let Some((column, value)) = looked_up(&condition, &filter.input) else {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        };
        let (column, value) = (column.clone(), value.clone());
        let Filter { input, .. } = filter;
        let columns = input.schema().columns();
        let rest = match conjunction(conditions) {
            Some(rest) => LogicalPlan::Filter(Filter::try_new(rest, input)?),
            None => Arc::unwrap_or_clone(input),
        };
        let name = config.alias_generator().next("__value");
        let value = LogicalPlanBuilder::from(of_one_row(value, &name)?)
            .alias(name.as_str())?
            .build()?;
        let key = Column::new(Some(name.as_str()), name.as_str());
        let joined = LogicalPlanBuilder::from(rest)
            .join(value, JoinType::Inner, (vec![column], vec![key]), None)?
            .project(columns.into_iter().map(Expr::Column))?;
        joined.build().map(Transformed::yes)
    }
}

/// The column of an indexed table that a condition equates with a scalar subquery's value, and the value.
fn looked_up<'a>(condition: &'a Expr, input: &LogicalPlan) -> Option<(&'a Column, &'a Expr)> {
    let Expr::BinaryExpr(BinaryExpr {
        left,
        op: Operator::Eq,
        right,
    }) = condition
    else {
        return None;
    };
    let (column, value) = match (left.as_ref(), right.as_ref()) {
        (Expr::Column(column), value) | (value, Expr::Column(column)) => (column, value),
        _ => return None,
    };
    let mut subqueries = 0;
    let plain = value.exists(|part| {
        Ok(match part {
            Expr::ScalarSubquery(Subquery { outer_ref_columns, .. }) => {
                subqueries += 1;
                !outer_ref_columns.is_empty()
            }
            part => part.is_volatile_node() || part.as_literal().is_none() && part.any_column_refs(),
        })
    });
    let is_one = plain.is_ok_and(|other| !other) && subqueries == 1;
    (is_one && is_indexed(column, input)).then_some((column, value))
}

/// Whether an index of a table has the column as its first.
fn is_indexed(column: &Column, input: &LogicalPlan) -> bool {
    let scan = match input {
        LogicalPlan::TableScan(scan) => scan,
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. }) => return is_indexed(column, input),
        _ => return false,
    };
    let TableScan { source, .. } = scan;
    let Ok(provider) = source_as_provider(source) else {
        return false;
    };
    let Some(table) = provider.downcast_ref::<SegmentTable>().map(SegmentTable::table) else {
        return false;
    };
    let definition = table.definition();
    let Some(at) = definition.column_index(&column.name) else {
        return false;
    };
    let mut indexes = definition.all_indexes();
    is_worth_lookups(table) && indexes.any(|index| index.columns.first() == Some(&at))
}

/// A row with the value as its only column: NULL where the subquery has no row, and an error where it has several.
fn of_one_row(value: Expr, name: &str) -> Result<LogicalPlan> {
    let mut rows = None;
    let value = value
        .transform_up(|part| match part {
            Expr::ScalarSubquery(subquery) => {
                let plan = Arc::unwrap_or_clone(subquery.subquery);
                let of = Expr::Column(plan.schema().columns().remove(0));
                let (plan, value) = match gives_one_row(&plan) {
                    true => (plan, of),
                    false => {
                        let single =
                            AggregateFunction::new_udf(SINGLE_ROW.clone(), vec![of], false, None, Vec::new(), None);
                        let plan = LogicalPlanBuilder::from(plan)
                            .aggregate(Vec::<Expr>::new(), vec![Expr::AggregateFunction(single)])?
                            .build()?;
                        let value = Expr::Column(plan.schema().columns().remove(0));
                        (plan, ONLY_ROW.call(vec![value]))
                    }
                };
                rows = Some(plan);
                Ok(Transformed::yes(value))
            }
            part => Ok(Transformed::no(part)),
        })
        .data()?;
    LogicalPlanBuilder::from(rows.unwrap_or_default())
        .project([value.alias(name)])?
        .build()
}
