//! How many rows a logical plan gives, and how many distinct values each of its columns has.
//!
//! Scans start from storage's exact statistics; filters scale rows but leave a column's distinct count alone, because
//! join selectivity is about the domain that a key comes from (Selinger et al. 1979), not about what a filter left.

mod filter;

use datafusion::common::stats::Precision;
use datafusion::common::{Column, DFSchema, JoinType, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Aggregate, Expr, Join, LogicalPlan, TableScan};

pub use filter::selectivity;

/// Rows of a plan that nothing is known about.
const UNKNOWN_ROWS: f64 = 1000.0;
/// What HAVING, or another filter over aggregates, is taken to leave.
const HAVING: f64 = 0.05;

/// Estimates for one plan node; `columns` follow its schema.
#[derive(Debug, Clone)]
pub struct Profile {
    pub rows: f64,
    pub columns: Vec<ColumnProfile>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct ColumnProfile {
    /// Distinct values in the domain that the column comes from.
    pub distinct: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// Rows of the table that the column comes from, before any filter.
    pub base_rows: Option<f64>,
}

impl Profile {
    pub fn of(plan: &LogicalPlan) -> Self {
        match plan {
            LogicalPlan::TableScan(scan) => of_scan(scan),
            LogicalPlan::Filter(filter) => {
                let mut input = Self::of(&filter.input);
                let over_aggregate = matches!(
                    skip_projections(&filter.input),
                    LogicalPlan::Aggregate(_) | LogicalPlan::SubqueryAlias(_)
                );
                let share = selectivity([&filter.predicate], filter.input.schema(), &input);
                input.rows *= if over_aggregate { share.min(HAVING) } else { share };
                input
            }
            LogicalPlan::Projection(projection) => {
                let input = Self::of(&projection.input);
                let columns = projection
                    .expr
                    .iter()
                    .map(|e| input.of_expr(e, projection.input.schema()))
                    .collect();
                Self {
                    rows: input.rows,
                    columns,
                }
            }
            LogicalPlan::SubqueryAlias(alias) => Self::of(&alias.input),
            LogicalPlan::Sort(sort) => {
                let mut input = Self::of(&sort.input);
                input.rows = sort.fetch.map_or(input.rows, |fetch| input.rows.min(fetch as f64));
                input
            }
            LogicalPlan::Limit(limit) => {
                let mut input = Self::of(&limit.input);
                if let Some(Expr::Literal(ScalarValue::Int64(Some(fetch)), _)) = limit.fetch.as_deref() {
                    input.rows = input.rows.min(*fetch as f64);
                }
                input
            }
            LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate),
            LogicalPlan::Join(join) => of_join(join),
            other => {
                let inputs = other.inputs();
                let rows = if inputs.is_empty() {
                    if matches!(other, LogicalPlan::EmptyRelation(_)) {
                        1.0
                    } else {
                        UNKNOWN_ROWS
                    }
                } else {
                    inputs.iter().map(|input| Self::of(input).rows).sum()
                };
                Self {
                    rows,
                    columns: vec![ColumnProfile::default(); other.schema().fields().len()],
                }
            }
        }
    }

    /// What is known of an expression over a node with this profile.
    pub fn of_expr(&self, expr: &Expr, schema: &DFSchema) -> ColumnProfile {
        match expr {
            Expr::Column(column) => self.of_column(column, schema),
            Expr::Alias(alias) => self.of_expr(&alias.expr, schema),
            Expr::Cast(cast) => self.of_expr(&cast.expr, schema),
            _ => ColumnProfile::default(),
        }
    }

    pub fn of_column(&self, column: &Column, schema: &DFSchema) -> ColumnProfile {
        let index = schema.maybe_index_of_column(column);
        index
            .and_then(|index| self.columns.get(index))
            .copied()
            .unwrap_or_default()
    }
}

impl ColumnProfile {
    /// Distinct values, or a guess for a relation of `rows` rows.
    pub fn distinct_or(&self, rows: f64) -> f64 {
        self.distinct.unwrap_or(rows).max(1.0)
    }
}

fn skip_projections(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::Projection(projection) => skip_projections(&projection.input),
        other => other,
    }
}

fn of_scan(scan: &TableScan) -> Profile {
    let statistics = source_as_provider(&scan.source)
        .ok()
        .and_then(|provider| provider.statistics());
    let known = |p: &Precision<usize>| p.get_value().map(|&v| v as f64);
    let base_rows = statistics.as_ref().and_then(|s| known(&s.num_rows));
    let rows = base_rows.unwrap_or(UNKNOWN_ROWS);
    let width = scan.source.schema().fields().len();
    let all: Vec<ColumnProfile> = (0..width)
        .map(
            |index| match statistics.as_ref().and_then(|s| s.column_statistics.get(index)) {
                Some(column) => ColumnProfile {
                    distinct: known(&column.distinct_count),
                    min: column.min_value.get_value().and_then(number),
                    max: column.max_value.get_value().and_then(number),
                    base_rows,
                },
                None => ColumnProfile {
                    base_rows,
                    ..Default::default()
                },
            },
        )
        .collect();
    // Filters read columns that the projection has dropped, and are unqualified against the source's schema.
    let mut profile = Profile { rows, columns: all };
    if !scan.filters.is_empty() {
        let schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema());
        if let Ok(schema) = schema {
            profile.rows *= selectivity(&scan.filters, &schema, &profile);
        }
    }
    if let Some(fetch) = scan.fetch {
        profile.rows = profile.rows.min(fetch as f64);
    }
    if let Some(projection) = &scan.projection {
        profile.columns = projection
            .iter()
            .map(|&index| profile.columns.get(index).copied().unwrap_or_default())
            .collect();
    }
    profile
}

fn of_aggregate(aggregate: &Aggregate) -> Profile {
    let input = Profile::of(&aggregate.input);
    let schema = aggregate.input.schema();
    let keys: Vec<_> = aggregate.group_expr.iter().map(|e| input.of_expr(e, schema)).collect();
    // Each further key adds less than its distinct count: keys of one row belong together.
    let groups = keys
        .iter()
        .map(|k| k.distinct_or((input.rows / 10.0).max(1.0)))
        .fold(1.0, |all, one| all * one);
    let rows = groups.min(input.rows).max(1.0);
    let mut columns = keys;
    columns.resize(aggregate.schema.fields().len(), ColumnProfile::default());
    Profile { rows, columns }
}

fn of_join(join: &Join) -> Profile {
    let (left, right) = (Profile::of(&join.left), Profile::of(&join.right));
    let keys = join.on.iter().map(|(l, r)| {
        (
            left.of_expr(l, join.left.schema()),
            right.of_expr(r, join.right.schema()),
        )
    });
    let matches = left.rows * right.rows * equality_selectivity(keys, left.rows, right.rows);
    let matches = if join.filter.is_some() {
        matches * filter::UNKNOWN
    } else {
        matches
    };
    let rows = match join.join_type {
        JoinType::Inner => matches,
        JoinType::Left => matches.max(left.rows),
        JoinType::Right => matches.max(right.rows),
        JoinType::Full => matches.max(left.rows).max(right.rows),
        JoinType::LeftSemi => matches.min(left.rows),
        JoinType::RightSemi => matches.min(right.rows),
        JoinType::LeftAnti => left.rows * 0.5,
        JoinType::RightAnti => right.rows * 0.5,
        JoinType::LeftMark => left.rows,
        JoinType::RightMark => right.rows,
    };
    let mut columns = match join.join_type {
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => right.columns,
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => left.columns,
        _ => [left.columns, right.columns].concat(),
    };
    columns.resize(join.schema.fields().len(), ColumnProfile::default());
    Profile {
        rows: rows.max(1.0),
        columns,
    }
}

/// The share of the cross product in which all key pairs are equal. Keys that belong together (a composite key) have no
/// more distinct values than the smaller of their tables has rows.
pub fn equality_selectivity(
    keys: impl Iterator<Item = (ColumnProfile, ColumnProfile)>,
    left_rows: f64,
    right_rows: f64,
) -> f64 {
    let (mut domain, mut count, mut cap) = (1.0f64, 0, f64::INFINITY);
    for (left, right) in keys {
        domain *= left.distinct_or(left_rows).max(right.distinct_or(right_rows));
        let (left, right) = (
            left.base_rows.unwrap_or(left_rows),
            right.base_rows.unwrap_or(right_rows),
        );
        cap = cap.min(left.min(right));
        count += 1;
    }
    if count > 1 {
        domain = domain.min(cap.max(1.0));
    }
    1.0 / domain
}

/// A value on the number line, for interpolation.
pub(crate) fn number(value: &ScalarValue) -> Option<f64> {
    use ScalarValue::*;
    Some(match value {
        Int8(v) => f64::from((*v)?),
        Int16(v) => f64::from((*v)?),
        Int32(v) => f64::from((*v)?),
        Int64(v) => (*v)? as f64,
        Float32(v) => f64::from((*v)?),
        Float64(v) => (*v)?,
        Decimal128(v, _, scale) => (*v)? as f64 / 10f64.powi(i32::from(*scale)),
        Date32(v) => f64::from((*v)?) * 86_400e6,
        TimestampMicrosecond(v, _) => (*v)? as f64,
        TimestampMillisecond(v, _) => (*v)? as f64 * 1e3,
        TimestampNanosecond(v, _) => (*v)? as f64 / 1e3,
        TimestampSecond(v, _) => (*v)? as f64 * 1e6,
        Time64Microsecond(v) => (*v)? as f64,
        _ => return None,
    })
}
