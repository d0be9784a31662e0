//! LIMIT and OFFSET by parameters, in plans for any values.
//!
//! A limit in a plan is a number: sorts, indexes and scans are told it. So a plan for any values reads at most as many rows as a
//! power of two says, and a limit by value above them leaves what LIMIT and OFFSET say then. It serves the values that come to
//! that power; others get a plan of their own.

use crate::pg::nodes::LimitByValue;
use crate::pg::occurring::{Kinds, Occurring};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, Limit, LogicalPlan, lit};
use std::sync::Arc;

/// Fewer rows are not told apart.
const ROWS_MIN: u64 = 32;

/// The limits by parameters that a plan has, and how many rows each is made for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OpenLimits(Vec<OpenLimit>);

#[derive(Clone, Debug, PartialEq)]
struct OpenLimit {
    skip: Count,
    fetch: Count,
    /// None: all.
    rows: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
enum Count {
    Given(Option<u64>),
    /// A parameter's value, from 0.
    Parameter(usize),
}

impl Count {
    fn of(expr: Option<&Expr>) -> Option<Self> {
        match expr.map(uncast) {
            None => Some(Count::Given(None)),
            Some(Expr::Literal(value, _)) => count(value).map(Count::Given),
            Some(Expr::Placeholder(Placeholder { id, .. })) => {
                let number: usize = id.strip_prefix('$')?.parse().ok()?;
                number.checked_sub(1).map(Count::Parameter)
            }
            Some(_) => None,
        }
    }

    fn value(&self, values: &[ScalarValue]) -> Option<Option<u64>> {
        match self {
            Count::Given(count) => Some(*count),
            Count::Parameter(index) => count(values.get(*index)?),
        }
    }
}

/// What a value says of rows; within: NULL, which is no bound. None: it is negative, or no count.
fn count(value: &ScalarValue) -> Option<Option<u64>> {
    match value {
        value if value.is_null() => Some(None),
        ScalarValue::Int64(Some(count)) => u64::try_from(*count).ok().map(Some),
        // Drivers send small numbers as such.
        ScalarValue::Int32(Some(count)) => u64::try_from(*count).ok().map(Some),
        ScalarValue::Int16(Some(count)) => u64::try_from(*count).ok().map(Some),
        _ => None,
    }
}

impl OpenLimit {
    fn of(limit: &Limit) -> Option<Self> {
        Some(Self {
            skip: Count::of(limit.skip.as_deref())?,
            fetch: Count::of(limit.fetch.as_deref())?,
            rows: None,
        })
    }

    /// How many rows a plan for these values reads.
    fn rows(&self, values: &[ScalarValue]) -> Option<Option<u64>> {
        let (skip, fetch) = (self.skip.value(values)?, self.fetch.value(values)?);
        let rows = fetch.and_then(|fetch| fetch.checked_add(skip.unwrap_or(0)));
        let power = rows.map(|rows| rows.max(ROWS_MIN).checked_next_power_of_two());
        Some(power.flatten().filter(|rows| i64::try_from(*rows).is_ok()))
    }
}

impl OpenLimits {
    /// Whether the plan serves these values.
    pub fn fit(&self, values: &[ScalarValue]) -> bool {
        self.0.iter().all(|limit| limit.rows(values) == Some(limit.rows))
    }
}

/// A plan, not analyzed yet, whose limits by parameters are such for all values like these. None: there is none.
pub(crate) fn opened(plan: LogicalPlan, values: &[ScalarValue]) -> Result<Option<(LogicalPlan, OpenLimits)>> {
    let mut limits = OpenLimits::default();
    let mut possible = true;
    let plan = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Limit(limit) if is_open(&limit) => {
            let known = OpenLimit::of(&limit);
            let rows = known.as_ref().and_then(|known| known.rows(values));
            let (Some(known), Some(rows)) = (known, rows) else {
                possible = false;
                return Ok(Transformed::no(LogicalPlan::Limit(limit)));
            };
            limits.0.push(OpenLimit { rows, ..known });
            bounded(limit, rows).map(Transformed::yes)
        }
        node => Ok(Transformed::no(node)),
    })?;
    let plan = plan.data;
    // What does something in each row must not come to more rows than the statement asks for.
    let acts = |plan| {
        Ok::<_, DataFusionError>(
            Occurring::of(plan, (usize::MAX, usize::MAX))?
                .kinds
                .has(Kinds::VOLATILE),
        )
    };
    let possible = possible && (limits.0.is_empty() || !acts(&plan)?);
    Ok(possible.then_some((plan, limits)))
}

fn is_open(limit: &Limit) -> bool {
    let mut bounds = limit.skip.iter().chain(&limit.fetch);
    bounds.any(|expr| matches!(uncast(expr), Expr::Placeholder(_)))
}

fn uncast(mut expr: &Expr) -> &Expr {
    while let Expr::Cast(cast) = expr {
        expr = &cast.expr;
    }
    expr
}

/// The limit by value, of so many rows. It goes below projections: what they compute may fail for rows that are not asked for.
fn bounded(limit: Limit, rows: Option<u64>) -> Result<LogicalPlan> {
    let Limit { skip, fetch, input } = limit;
    if let LogicalPlan::Projection(projection) = input.as_ref() {
        let below = Limit {
            skip,
            fetch,
            input: Arc::clone(&projection.input),
        };
        let below = bounded(below, rows)?;
        return LogicalPlan::Projection(projection.clone()).with_new_exprs(projection.expr.clone(), vec![below]);
    }
    let first = match rows {
        Some(rows) => Arc::new(LogicalPlan::Limit(Limit {
            skip: None,
            fetch: Some(Box::new(lit(rows as i64))),
            input,
        })),
        None => input,
    };
    let [skip, fetch] = [skip, fetch].map(|expr| expr.map(|expr| *expr));
    Ok(LimitByValue::plan(Arc::unwrap_or_clone(first), skip, fetch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_to_powers() {
        let limit = OpenLimit {
            skip: Count::Parameter(1),
            fetch: Count::Parameter(0),
            rows: None,
        };
        let rows = |fetch, skip| limit.rows(&[ScalarValue::Int64(fetch), ScalarValue::Int64(skip)]);
        assert_eq!(rows(Some(0), Some(0)), Some(Some(32)));
        assert_eq!(rows(Some(20), Some(12)), Some(Some(32)));
        assert_eq!(rows(Some(20), Some(13)), Some(Some(64)));
        assert_eq!(rows(Some(20), None), Some(Some(32)));
        assert_eq!(rows(None, Some(5)), Some(None));
        assert_eq!(rows(Some(i64::MAX), Some(i64::MAX)), Some(None));
        assert_eq!(rows(Some(-1), Some(5)), None);
        assert_eq!(rows(Some(1), Some(-5)), None);
        assert_eq!(limit.rows(&[ScalarValue::Int64(Some(1))]), None);
    }
}
