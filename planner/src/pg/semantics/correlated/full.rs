//! A full join with a subquery in its condition that refers to its rows: the left join, and the right side's rows that have no
//! match in it, for whom the condition is tested anew.

use crate::pg::occurring::is_volatile;
use datafusion::common::alias::AliasGenerator;
use datafusion::common::{Column, JoinType, Result, not_impl_err};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, LogicalPlanBuilder, lit};
use std::sync::Arc;

pub(super) fn apart(join: Join, names: &AliasGenerator) -> Result<LogicalPlan> {
    let columns = join.schema.columns();
    let whole = LogicalPlan::Join(join.clone());
    if is_volatile(&whole)? {
        return not_impl_err!("a correlated subquery in the condition of a full join over what is volatile");
    }
    let matched = names.next("__matched");
    let own = join.left.schema().columns().into_iter().map(Expr::Column);
    let marked = LogicalPlanBuilder::from(join.left.as_ref().clone())
        .project(own.chain([lit(true).alias(&matched)]))?
        .build()?;
    let of_type = |left: Arc<LogicalPlan>, kind: JoinType| {
        Join::try_new(
            left,
            join.right.clone(),
            join.on.clone(),
            join.filter.clone(),
            kind,
            join.join_constraint,
            join.null_equality,
            false,
        )
    };
    let left = LogicalPlan::Join(of_type(join.left.clone(), JoinType::Left)?);
    let right = LogicalPlan::Join(of_type(Arc::new(marked), JoinType::Right)?);
    let unmatched = LogicalPlanBuilder::from(right)
        .filter(Expr::Column(Column::from_name(matched)).is_null())?
        .build()?;
    // A union tells columns of equal names not apart.
    let single: Vec<String> = columns.iter().map(|_| names.next("__of_full")).collect();
    let renamed = |plan: LogicalPlan| {
        let columns = columns.iter().cloned().map(Expr::Column);
        let exprs = columns.zip(&single).map(|(column, name)| column.alias(name));
        LogicalPlanBuilder::from(plan).project(exprs)?.build()
    };
    let all = LogicalPlanBuilder::from(renamed(left)?).union(renamed(unmatched)?)?;
    let back = columns.iter().zip(&single).map(|(column, name)| {
        let own = Expr::Column(Column::from_name(name));
        own.alias_qualified(column.relation.clone(), column.name.clone())
    });
    all.project(back)?.build()
}
