//! DataFusion's rule that pushes filters down, where it is right.

use crate::pg::nodes::Materialized;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ExprSchema, JoinType, Result, ScalarValue};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Aggregate, BinaryExpr, Expr, Filter, Join, LogicalPlan, Operator, lit};
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// `PushDownFilter` (DataFusion 55.2) takes a condition without columns, such as a scalar subquery, below every
/// aggregation. One over all rows, and a grouping set without keys, make a row of none: there conditions stay above, also
/// those that exclude each other, which the rule makes a condition without columns (`n = 1 AND n = 2` is `false`).
/// Volatile ones stay above what makes other rows than it reads. What is read in many places is filtered above. And it takes a condition on one of two columns that a join
/// equates for one on the other: floats may be equal and be told apart.
#[derive(Debug, Default)]
pub struct PushDownFilterToGroups(PushDownFilter);

impl OptimizerRule for PushDownFilterToGroups {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Filter(filter) => self.filter(filter, config),
            LogicalPlan::Join(join) => self.join(join, config),
            other => Ok(Transformed::no(other)),
        }
    }
}

impl PushDownFilterToGroups {
    fn filter(&self, mut filter: Filter, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        // Merged here: DataFusion's rule goes on below by itself.
        if let LogicalPlan::Filter(below) = filter.input.as_ref() {
            let mut conditions = split_conjunction_owned(below.predicate.clone());
            for condition in split_conjunction_owned(filter.predicate) {
                if !conditions.contains(&condition) {
                    conditions.push(condition);
                }
            }
            let predicate = conjunction(conditions).unwrap_or_else(|| lit(true));
            let merged = Filter::try_new(predicate, Arc::clone(&below.input))?;
            return self.filter(merged, config).map(|done| Transformed::yes(done.data));
        }
        let conditions = comparable(split_conjunction_owned(filter.predicate.clone()));
        let (stay, go): (Vec<Expr>, Vec<Expr>) = conditions
            .into_iter()
            .partition(|condition| stays_above(condition, &filter.input));
        let (stay, Some(go)) = (conjunction(stay), conjunction(go)) else {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        };
        let unchanged = stay.is_some().then(|| filter.clone());
        filter.predicate = go;
        if let LogicalPlan::Join(join) = filter.input.as_ref() {
            let hide = hiding(join, &filter.predicate);
            filter.input = Arc::new(LogicalPlan::Join(told_apart(join.clone(), hide)));
        }
        let pushed = self.0.rewrite(LogicalPlan::Filter(filter), config)?.map_data(shown)?;
        match (stay, unchanged) {
            (Some(_), Some(unchanged)) if !pushed.transformed => Ok(Transformed::no(LogicalPlan::Filter(unchanged))),
            (Some(stay), _) => pushed.map_data(|input| Ok(LogicalPlan::Filter(Filter::try_new(stay, input.into())?))),
            _ => Ok(pushed),
        }
    }

    fn join(&self, join: Join, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if join.filter.as_ref().is_some_and(Expr::is_volatile) {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        }
        let hide = match &join.filter {
            Some(condition) => hiding(&join, condition),
            None => hidden,
        };
        let join = LogicalPlan::Join(told_apart(join, hide));
        self.0.rewrite(join, config)?.map_data(shown)
    }
}

/// Conditions as DataFusion's rule compares them right: where several are on one column it takes two equalities that are not
/// written alike for ones that exclude each other (`2 = n AND n = 2`, `n = 0.0 AND n = -0.0`), and does not see that
/// `5 < n` is stricter than `n >= 5`. Literals stand on the right here, and of equalities with one value there is one.
fn comparable(conditions: Vec<Expr>) -> Vec<Expr> {
    if conditions.len() < 2 {
        return conditions;
    }
    let mut seen = HashSet::new();
    let mut values: HashMap<Expr, ScalarValue> = HashMap::new();
    let conditions = conditions.into_iter().map(literal_on_the_right);
    let kept = conditions.filter(|condition| {
        let first = match equality(condition) {
            // Beside another value it excludes, whatever else there is.
            Some((column, value)) => match values.get(column) {
                Some(other) => !is_same(other, value),
                None => values.insert(column.clone(), value.clone()).is_none(),
            },
            None => true,
        };
        first && seen.insert(condition.clone())
    });
    kept.collect()
}

fn literal_on_the_right(condition: Expr) -> Expr {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if left.as_literal().is_some() && matches!(*right, Expr::Column(_)) =>
        {
            match op.swap() {
                Some(swapped) => Expr::BinaryExpr(BinaryExpr::new(right, swapped, left)),
                None => Expr::BinaryExpr(BinaryExpr::new(left, op, right)),
            }
        }
        other => other,
    }
}

/// What an equality with a literal says is equal to it.
fn equality(condition: &Expr) -> Option<(&Expr, &ScalarValue)> {
    match condition {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq,
            right,
        }) => Some((left, right.as_literal()?)),
        _ => None,
    }
}

/// Whether two literals are one value: of floats, a zero may be of another sign.
fn is_same(one: &ScalarValue, other: &ScalarValue) -> bool {
    let float = |value: &ScalarValue| match value {
        ScalarValue::Float32(value) => value.map(f64::from),
        ScalarValue::Float64(value) => *value,
        _ => None,
    };
    match (float(one), float(other)) {
        (Some(one), Some(other)) => one == other || one.is_nan() && other.is_nan(),
        _ => one == other,
    }
}

fn stays_above(condition: &Expr, input: &LogicalPlan) -> bool {
    match input {
        LogicalPlan::Aggregate(aggregate) => condition.is_volatile() || makes_rows(aggregate),
        LogicalPlan::Window(_) | LogicalPlan::Join(_) | LogicalPlan::Distinct(_) => condition.is_volatile(),
        LogicalPlan::Extension(extension) => condition.is_volatile() || extension.node.as_any().is::<Materialized>(),
        _ => false,
    }
}

fn makes_rows(aggregate: &Aggregate) -> bool {
    let keys = &aggregate.group_expr;
    keys.is_empty() || keys.iter().any(|key| matches!(key, Expr::GroupingSet(_)))
}

/// Nothing is inferred from keys that are no mere columns.
fn told_apart(mut join: Join, of: fn(Expr, &DFSchema) -> Expr) -> Join {
    for (left, right) in &mut join.on {
        *left = of(std::mem::take(left), join.left.schema());
        *right = of(std::mem::take(right), join.right.schema());
    }
    join
}

/// Which keys to hide. Beside an outer join DataFusion asks whether a condition is true of nulls, by computing it of nulls
/// without a type, which functions are not made for.
fn hiding(join: &Join, condition: &Expr) -> fn(Expr, &DFSchema) -> Expr {
    let calls = |expr: &Expr| Ok(matches!(expr, Expr::ScalarFunction(_)));
    match join.join_type != JoinType::Inner && condition.exists(calls).unwrap_or(true) {
        true => |key, _| key.alias("key"),
        false => hidden,
    }
}

fn hidden(key: Expr, schema: &DFSchema) -> Expr {
    let is_float = |column| {
        let field = schema.field_from_column(column);
        field.is_ok_and(|field| matches!(field.data_type(), DataType::Float32 | DataType::Float64))
    };
    match &key {
        Expr::Column(column) if is_float(column) => key.alias("key"),
        _ => key,
    }
}

/// The joins' keys again.
fn shown(plan: LogicalPlan) -> Result<LogicalPlan> {
    let unalias = |key: Expr, _: &DFSchema| key.unalias();
    Ok(match plan {
        LogicalPlan::Join(join) => LogicalPlan::Join(told_apart(join, unalias)),
        LogicalPlan::Filter(mut filter) => {
            if let LogicalPlan::Join(join) = filter.input.as_ref() {
                filter.input = Arc::new(LogicalPlan::Join(told_apart(join.clone(), unalias)));
            }
            LogicalPlan::Filter(filter)
        }
        other => other,
    })
}
