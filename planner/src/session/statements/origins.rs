//! Which columns of tables a query's columns are, as clients are told of them: those that are passed on as they are.

use crate::pg::outcome::{ColumnDesc, Origin};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Distinct, Expr, JoinType, LogicalPlan};
use tenon_executor::scan::SegmentTable;
use tenon_storage::SqlType;

/// Where a column comes from, and its modifier there, or in the cast that makes it.
type Passed = (Option<Origin>, i32);

/// Adds to the columns of a plan where they come from; to those of `numeric`, whose arrays do not say it, what their table or
/// their cast says of their digits.
pub(super) fn told(plan: &LogicalPlan, mut columns: Vec<ColumnDesc>) -> Vec<ColumnDesc> {
    for (column, origin) in columns.iter_mut().zip(of(plan)) {
        column.origin = origin.and_then(|(origin, _)| origin);
        if let (1700 | 1231, Some((_, typmod))) = (column.pg_type.oid, origin) {
            column.pg_type.typmod = typmod;
        }
    }
    columns
}

fn of(plan: &LogicalPlan) -> Vec<Option<Passed>> {
    let unknown = || vec![None; plan.schema().fields().len()];
    match plan {
        LogicalPlan::Projection(projection) => {
            let below = of(&projection.input);
            let schema = projection.input.schema();
            let origin = |expr: &Expr| {
                let mut expr = expr;
                while let Expr::Alias(alias) = expr {
                    expr = &alias.expr;
                }
                match expr {
                    Expr::Column(column) => below.get(schema.maybe_index_of_column(column)?).copied().flatten(),
                    Expr::Cast(cast) => Some((None, SqlType::from_field(&cast.field)?.typmod())),
                    _ => None,
                }
            };
            projection.expr.iter().map(origin).collect()
        }
        LogicalPlan::Filter(filter) => of(&filter.input),
        LogicalPlan::Sort(sort) => of(&sort.input),
        LogicalPlan::Limit(limit) => of(&limit.input),
        LogicalPlan::Distinct(Distinct::All(input)) => of(input),
        LogicalPlan::SubqueryAlias(alias) => of(&alias.input),
        LogicalPlan::Join(join) => match join.join_type {
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
                [of(&join.left), of(&join.right)].concat()
            }
            _ => unknown(),
        },
        LogicalPlan::TableScan(scan) => {
            let provider = source_as_provider(&scan.source).ok();
            let Some(table) = provider.as_ref().and_then(|own| own.downcast_ref::<SegmentTable>()) else {
                return unknown();
            };
            let table = table.table();
            let columns = &table.definition().columns;
            let origin = |name: &String| {
                let at = columns.iter().position(|column| column.name == *name)?;
                let origin = Origin {
                    table: table.oid(),
                    column: i16::try_from(at + 1).ok()?,
                };
                Some((Some(origin), columns[at].sql_type.typmod()))
            };
            scan.projected_schema
                .fields()
                .iter()
                .map(|field| origin(field.name()))
                .collect()
        }
        _ => unknown(),
    }
}
