//! How many rows a logical plan gives, and how many distinct values each of its columns has.
//!
//! Scans start from storage's statistics; filters scale rows but leave a column's distinct count alone, because join
//! selectivity is about the domain that a key comes from (Selinger et al. 1979), not about what a filter left.
//!
//! `filter` holds predicates, `join` equality keys, `group` GROUP BY, `union` UNION ALL, `stored` what storage knows of a
//! column.

pub(crate) mod cost;
mod difference;
mod filter;
mod group;
mod join;
mod sampled;
mod stored;
mod union;

use datafusion::common::stats::Precision;
use datafusion::common::{Column, DFSchema, JoinType, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, TableScan};
use tenon_executor::scan::SegmentTable;

use super::annotate::bare;
use super::shared_filters;
pub use filter::{UNKNOWN, gather, selectivity};
pub use join::{equality_correction, equality_selectivity};
pub use sampled::{is_of_row, remembering};
use stored::{Stored, number};

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

#[derive(Debug, Clone, Default)]
pub struct ColumnProfile {
    /// Distinct values in the domain that the column comes from.
    pub distinct: Option<f64>,
    /// Bounds, as places on the number line that `stored::number` gives.
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// Rows of the table that the column comes from, before any filter.
    pub base_rows: Option<f64>,
    /// The share of its table's rows that filters on columns have left by whose order the table is.
    together: Option<f64>,
    /// The stored column that this one is.
    stored: Option<Stored>,
}

impl Profile {
    pub fn of(plan: &LogicalPlan) -> Self {
        let inputs = plan.inputs().into_iter().map(Self::of).collect();
        Self::over(plan, inputs)
    }

    /// The profile of a node whose inputs have these.
    pub fn over(plan: &LogicalPlan, inputs: Vec<Self>) -> Self {
        let mut inputs = inputs.into_iter();
        let mut next = || inputs.next().unwrap_or_else(Self::unknown);
        match plan {
            LogicalPlan::TableScan(scan) => of_scan(scan),
            LogicalPlan::Filter(filter) => {
                let mut input = next();
                let over_aggregate = matches!(
                    skip_projections(&filter.input),
                    LogicalPlan::Aggregate(_) | LogicalPlan::SubqueryAlias(_)
                );
                let share = selectivity([&filter.predicate], filter.input.schema(), &input);
                let share = (share / kept_before(&filter.input, &input)).min(1.0);
                input.rows = left(input.rows, if over_aggregate { share.min(HAVING) } else { share });
                gather([&filter.predicate], filter.input.schema(), &mut input);
                input
            }
            LogicalPlan::Projection(projection) => {
                let input = next();
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
            LogicalPlan::SubqueryAlias(_) | LogicalPlan::Extension(_) => next(),
            LogicalPlan::Sort(sort) => {
                let mut input = next();
                input.rows = sort.fetch.map_or(input.rows, |fetch| input.rows.min(fetch as f64));
                input
            }
            LogicalPlan::Limit(limit) => {
                let mut input = next();
                if let Some(Expr::Literal(ScalarValue::Int64(Some(fetch)), _)) = limit.fetch.as_deref() {
                    input.rows = input.rows.min(*fetch as f64);
                }
                input
            }
            LogicalPlan::Aggregate(aggregate) => group::of_aggregate(aggregate, next()),
            LogicalPlan::Join(join) => {
                let left = next();
                of_join(join, left, next())
            }
            LogicalPlan::Union(union) => union::of_inputs(inputs.collect(), union.schema.fields().len()),
            LogicalPlan::EmptyRelation(empty) => Self {
                rows: if empty.produce_one_row { 1.0 } else { 0.0 },
                columns: vec![ColumnProfile::default(); empty.schema.fields().len()],
            },
            LogicalPlan::Values(values) => Self {
                rows: values.values.len() as f64,
                columns: vec![ColumnProfile::default(); values.schema.fields().len()],
            },
            other => {
                let rows = inputs.map(|input| input.rows).reduce(|a, b| a + b);
                Self {
                    rows: rows.unwrap_or(UNKNOWN_ROWS),
                    columns: vec![ColumnProfile::default(); other.schema().fields().len()],
                }
            }
        }
    }

    fn unknown() -> Self {
        Self {
            rows: UNKNOWN_ROWS,
            columns: vec![],
        }
    }

    /// What is known of an expression over a node with this profile.
    pub fn of_expr(&self, expr: &Expr, schema: &DFSchema) -> ColumnProfile {
        match expr {
            Expr::Column(column) => self.of_column(column, schema),
            Expr::Alias(alias) => self.of_expr(&alias.expr, schema),
            Expr::Cast(cast) => self.of_expr(&cast.expr, schema),
            Expr::Literal(value, _) => ColumnProfile {
                distinct: Some(if value.is_null() { 0.0 } else { 1.0 }),
                min: number(value),
                max: number(value),
                ..Default::default()
            },
            _ => ColumnProfile::default(),
        }
    }

    pub fn of_column(&self, column: &Column, schema: &DFSchema) -> ColumnProfile {
        self.known(column, schema).cloned().unwrap_or_default()
    }

    fn known(&self, column: &Column, schema: &DFSchema) -> Option<&ColumnProfile> {
        self.columns.get(schema.maybe_index_of_column(column)?)
    }

    /// Two inputs' columns side by side.
    pub fn beside(&self, other: &Self) -> Self {
        Self {
            rows: self.rows * other.rows,
            columns: [self.columns.as_slice(), other.columns.as_slice()].concat(),
        }
    }
}

impl ColumnProfile {
    /// Distinct values, or a guess for a relation of `rows` rows.
    pub fn distinct_or(&self, rows: f64) -> f64 {
        self.distinct.unwrap_or(rows).max(1.0)
    }
}

/// What a filter leaves of some rows: one at least, or nothing would be worth ordering above it.
fn left(rows: f64, share: f64) -> f64 {
    (rows * share).max(rows.min(1.0))
}

/// The share of shared rows that were kept, by what is true of all that filters above them keep.
fn kept_before(plan: &LogicalPlan, profile: &Profile) -> f64 {
    match shared_filters::known(plan) {
        Some(condition) => selectivity([&condition], plan.schema(), profile).max(1e-6),
        None => 1.0,
    }
}

fn skip_projections(plan: &LogicalPlan) -> &LogicalPlan {
    match bare(plan) {
        LogicalPlan::Projection(projection) => skip_projections(&projection.input),
        other => other,
    }
}

fn of_scan(scan: &TableScan) -> Profile {
    let mut profile = of_source(scan);
    // Filters read columns that the projection has dropped, and are unqualified against the source's schema.
    if !scan.filters.is_empty() {
        let schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema());
        if let Ok(schema) = schema {
            profile.rows = left(profile.rows, selectivity(&scan.filters, &schema, &profile));
            gather(&scan.filters, &schema, &mut profile);
        }
    }
    if let Some(fetch) = scan.fetch {
        profile.rows = profile.rows.min(fetch as f64);
    }
    if let Some(projection) = &scan.projection {
        profile.columns = projection
            .iter()
            .map(|&index| profile.columns.get(index).cloned().unwrap_or_default())
            .collect();
    }
    profile
}

/// The whole table.
fn of_source(scan: &TableScan) -> Profile {
    let width = scan.source.schema().fields().len();
    let Ok(provider) = source_as_provider(&scan.source) else {
        return Profile {
            rows: UNKNOWN_ROWS,
            columns: vec![ColumnProfile::default(); width],
        };
    };
    if let Some(table) = provider.downcast_ref::<SegmentTable>() {
        let columns = (0..width).map(|column| stored::profile(table.table(), column));
        return Profile {
            rows: table.table().rows() as f64,
            columns: columns.collect(),
        };
    }
    let statistics = provider.statistics();
    let known = |p: &Precision<usize>| p.get_value().map(|&v| v as f64);
    let base_rows = statistics.as_ref().and_then(|s| known(&s.num_rows));
    let columns = (0..width).map(|index| {
        let found = statistics.as_ref().and_then(|s| s.column_statistics.get(index));
        let mut own = ColumnProfile {
            base_rows,
            ..Default::default()
        };
        if let Some(column) = found {
            own.distinct = known(&column.distinct_count);
            own.min = column.min_value.get_value().and_then(number);
            own.max = column.max_value.get_value().and_then(number);
        }
        own
    });
    Profile {
        rows: base_rows.unwrap_or(UNKNOWN_ROWS),
        columns: columns.collect(),
    }
}

fn of_join(join: &Join, left: Profile, right: Profile) -> Profile {
    let keys: Vec<_> = join
        .on
        .iter()
        .map(|(l, r)| {
            (
                left.of_expr(l, join.left.schema()),
                right.of_expr(r, join.right.schema()),
            )
        })
        .collect();
    let mut matches = left.rows * right.rows * equality_selectivity(&keys, left.rows, right.rows);
    if let [(l, r)] = keys.as_slice() {
        matches *= equality_correction(l, r);
    }
    if let Some(filter) = &join.filter {
        let both = left.beside(&right);
        matches *= match join.left.schema().join(join.right.schema()) {
            Ok(schema) => selectivity([filter], &schema, &both),
            Err(_) => UNKNOWN,
        };
    }
    let found = |rows: f64, keys: f64, partners: f64| rows * (partners / keys.max(1.0)).min(1.0);
    let semi =
        |rows: f64, pick: fn(&(ColumnProfile, ColumnProfile)) -> (&ColumnProfile, &ColumnProfile), other: f64| {
            // Each outer row stays if its key is among the inner's: the share of the domain that the inner covers.
            let kept = keys.iter().map(|pair| {
                let (own, partner) = pick(pair);
                found(1.0, own.distinct_or(rows), partner.distinct_or(other).min(other))
            });
            let share = kept.fold(1.0, f64::min);
            let share = if join.filter.is_some() { share * 0.5 } else { share };
            // No more rows find a partner than there are pairs.
            (rows * share).min(matches)
        };
    let left_semi = || semi(left.rows, |(l, r)| (l, r), right.rows);
    let right_semi = || semi(right.rows, |(l, r)| (r, l), left.rows);
    let rows = match join.join_type {
        JoinType::Inner => matches,
        JoinType::Left => matches.max(left.rows),
        JoinType::Right => matches.max(right.rows),
        JoinType::Full => matches.max(left.rows).max(right.rows),
        JoinType::LeftSemi => left_semi(),
        JoinType::RightSemi => right_semi(),
        JoinType::LeftAnti => (left.rows - left_semi()).max(left.rows * 0.2),
        JoinType::RightAnti => (right.rows - right_semi()).max(right.rows * 0.2),
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
