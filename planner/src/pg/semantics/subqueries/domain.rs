//! Correlation by anything but equality, below an aggregate. DataFusion groups the subquery by the columns that equal the
//! outer row's, and has none here. So the outer rows' own values are joined to the subquery's rows, by the condition, and
//! the outer row finds its group by equality with them:
//!
//! ```sql
//! (SELECT max(b) FROM u WHERE u.a < t.x)
//! (SELECT max(b) FROM (SELECT DISTINCT x FROM t) d JOIN u ON u.a < d.x WHERE d.x = t.x)
//! ```
//!
//! Unnesting Arbitrary Queries (Neumann and Kemper, BTW 2015) calls those values the domain of the dependent join. Only
//! conditions that NULL cannot satisfy are taken: an outer NULL equals no value of the domain.

use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, LogicalPlan, LogicalPlanBuilder, Operator};

/// The subquery with its correlated conditions made equalities, where they are not; `outer` is the plan whose rows it is
/// evaluated for.
pub(super) fn by_equality(plan: LogicalPlan, outer: &LogicalPlan, names: &AliasGenerator) -> Result<LogicalPlan> {
    if outer.contains_outer_reference() {
        return Ok(plan);
    }
    plan.transform_down(|node| {
        let LogicalPlan::Filter(filter) = node else {
            return Ok(Transformed::no(node));
        };
        let conditions = split_conjunction_owned(filter.predicate.clone());
        let (correlated, own): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(Expr::contains_outer);
        if correlated.iter().all(is_equality) || !correlated.iter().all(rejects_null) {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        }
        let found = over_domain(&filter, correlated, own, outer, names)?;
        Ok(Transformed::new(found, true, TreeNodeRecursion::Jump))
    })
    .data()
}

/// Whether a scalar subquery's correlated conditions are equalities, or become some.
pub(in crate::pg::semantics) fn is_taken(condition: &Expr) -> bool {
    let conditions = split_conjunction(condition);
    let correlated = || conditions.iter().filter(|condition| condition.contains_outer());
    correlated().all(|condition| is_equality(condition)) || correlated().all(|condition| rejects_null(condition))
}

/// `column = outer value`, which is pulled over aggregates as it is.
pub(super) fn is_equality(condition: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr {
        left,
        op: Operator::Eq,
        right,
    }) = condition
    else {
        return false;
    };
    let is_column = |expr: &Expr| match expr {
        Expr::Column(_) => true,
        Expr::Cast(Cast { expr, .. }) => matches!(expr.as_ref(), Expr::Column(_)),
        _ => false,
    };
    (is_column(left) && !right.any_column_refs()) || (is_column(right) && !left.any_column_refs())
}

/// A comparison of columns and arithmetic: never true where one of them is NULL.
fn rejects_null(condition: &Expr) -> bool {
    fn is_strict(expr: &Expr) -> bool {
        match expr {
            Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::Literal(..) => true,
            Expr::Cast(Cast { expr, .. }) => is_strict(expr),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let arithmetic = matches!(
                    op,
                    Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide
                );
                arithmetic && is_strict(left) && is_strict(right)
            }
            Expr::ScalarFunction(call) if call.name().starts_with("checked_") => call.args.iter().all(is_strict),
            _ => false,
        }
    }
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let compares = matches!(
                op,
                Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
            );
            compares && is_strict(left) && is_strict(right)
        }
        _ => false,
    }
}

fn over_domain(
    filter: &Filter,
    correlated: Vec<Expr>,
    own: Vec<Expr>,
    outer: &LogicalPlan,
    names: &AliasGenerator,
) -> Result<LogicalPlan> {
    let domain = names.next("__domain");
    let mut referred: Vec<(Expr, Column, Column)> = Vec::new();
    let mut conditions = Vec::new();
    for condition in correlated {
        let condition = condition.transform_up(|expr| {
            let Expr::OuterReferenceColumn(_, column) = &expr else {
                return Ok(Transformed::no(expr));
            };
            let at = match referred.iter().position(|(_, known, _)| known == column) {
                Some(at) => at,
                None => {
                    let own = Column::new(Some(domain.as_str()), format!("value{}", referred.len()));
                    referred.push((expr.clone(), column.clone(), own));
                    referred.len() - 1
                }
            };
            Ok(Transformed::yes(Expr::Column(referred[at].2.clone())))
        })?;
        conditions.push(condition.data);
    }
    let values = referred
        .iter()
        .map(|(_, column, own)| Expr::Column(column.clone()).alias(own.name.as_str()));
    let values = LogicalPlanBuilder::from(outer.clone())
        .project(values)?
        .distinct()?
        .alias(domain.as_str())?
        .build()?;
    let mut rows = LogicalPlanBuilder::from(filter.input.as_ref().clone());
    if let Some(own) = conjunction(own) {
        rows = rows.filter(own)?;
    }
    let joined = rows.join_on(values, JoinType::Inner, conditions)?;
    let equal = referred
        .into_iter()
        .map(|(outer, _, own)| Expr::Column(own).eq(outer))
        .reduce(Expr::and);
    match equal {
        Some(equal) => joined.filter(equal)?.build(),
        None => joined.build(),
    }
}
