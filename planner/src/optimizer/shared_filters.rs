//! Rows that are made once for several readers, without those that none of them reads.
//!
//! Where each reader of a query of WITH has a condition of its own on some columns, the query's rows need hold only what one
//! of these conditions is true of. This becomes a filter of the query, that the other rules push further down; the readers
//! keep theirs. Conditions are taken together by the columns that they are on: above groups, one on a key can go down, while
//! one on an aggregate cannot.

use super::estimate::is_of_row;
use crate::pg::nodes::{Apply, Materialized};
use crate::pg::occurring::only_columns;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, internal_err};
use datafusion::logical_expr::utils::{conjunction, disjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Extension, Filter, LogicalPlan};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many different conditions of readers are one filter.
const CONDITIONS_MAX: usize = 32;

/// Stack that a node may take, and how much more there is where that is not left.
const RED_ZONE_BYTES: usize = 128 << 10;
const MORE_BYTES: usize = 2 << 20;

/// What one reader asks of the rows, by the columns that are read: conditions over columns that are [`numbered`].
type Conditions = BTreeMap<BTreeSet<usize>, Expr>;

/// Where a column of a reader's is among those of the rows.
type Place<'a> = &'a dyn Fn(&Column) -> Option<usize>;

#[derive(Default)]
struct Readers {
    all: Vec<Conditions>,
    /// Nothing may be left out of the rows.
    whole: bool,
    /// Rows that these are read for.
    within: BTreeSet<usize>,
}

#[derive(Default)]
struct Found {
    /// By the address of the rows.
    readers: BTreeMap<usize, Readers>,
    /// The rows that the node looked at is to make.
    within: Vec<usize>,
}

/// The plan with filters for shared rows that had none; None where it stays as it is. Within rows that get a filter here no
/// others do: what is pushed down there may be a condition on them.
pub(super) fn pushed(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let mut found = Found::default();
    found.look(plan, false)?;
    let mut filters: BTreeMap<usize, Expr> = BTreeMap::new();
    for (rows, readers) in &found.readers {
        filters.extend(filter(readers).map(|filter| (*rows, filter)));
    }
    let is_outermost = |rows: &usize| {
        !found.readers[rows]
            .within
            .iter()
            .any(|outer| filters.contains_key(outer))
    };
    let outermost: BTreeSet<usize> = filters.keys().copied().filter(is_outermost).collect();
    filters.retain(|rows, _| outermost.contains(rows));
    if filters.is_empty() {
        return Ok(None);
    }
    let plan = plan.clone().transform_up_with_subqueries(|node| {
        let Some(shared) = shared(&node) else {
            return Ok(Transformed::no(node));
        };
        let Some(filter) = filters.get(&address(shared)) else {
            return Ok(Transformed::no(node));
        };
        let columns = shared.input.schema().columns();
        let Some(predicate) = over(filter.clone(), &|at| columns.get(at).cloned()) else {
            return internal_err!("a filter of columns that are not there");
        };
        let input = Filter::try_new(predicate, Arc::new(shared.input.clone()))?;
        Ok(Transformed::yes(
            shared.narrowed(LogicalPlan::Filter(input), filter.clone()),
        ))
    });
    plan.data().map(Some)
}

/// What is true of all that a plan reads of shared rows, because the others were left out; as far as it is on columns that
/// the plan reads.
pub(super) fn known(plan: &LogicalPlan) -> Option<Expr> {
    let (shared, places) = picked(plan)?;
    let columns = plan.schema().columns();
    let place = |at: usize| Some(columns[places.iter().position(|place| *place == Some(at))?].clone());
    let conjuncts = split_conjunction(shared.filter()?).into_iter().cloned();
    conjunction(conjuncts.filter_map(|conjunct| over(conjunct, &place)))
}

/// A condition over columns that are [`numbered`] as one over others; None where one of these is not there.
fn over(condition: Expr, place: &dyn Fn(usize) -> Option<Column>) -> Option<Expr> {
    let mut all = true;
    let named = condition.transform_up(|expr| match &expr {
        Expr::Column(column) => Ok(match column.name.parse().ok().and_then(place) {
            Some(own) => Transformed::yes(Expr::Column(own)),
            None => {
                all = false;
                Transformed::no(expr)
            }
        }),
        _ => Ok(Transformed::no(expr)),
    });
    named.data().ok().filter(|_| all)
}

/// A column by its place: the readers may have other names for it.
fn numbered(at: usize) -> Expr {
    Expr::Column(Column::new_unqualified(at.to_string()))
}

fn shared(plan: &LogicalPlan) -> Option<&Materialized> {
    match plan {
        LogicalPlan::Extension(Extension { node }) => node.as_any().downcast_ref(),
        _ => None,
    }
}

/// The rows that a plan only picks columns of, and where each of its columns is there.
fn picked(plan: &LogicalPlan) -> Option<(&Materialized, Vec<Option<usize>>)> {
    if let Some(shared) = shared(plan) {
        let width = plan.schema().fields().len();
        return Some((shared, (0..width).map(Some).collect()));
    }
    match plan {
        LogicalPlan::Projection(projection) if only_columns(plan).ok()? => {
            let (shared, below) = picked(&projection.input)?;
            let input = projection.input.schema();
            let place = |expr: &Expr| match expr.clone().unalias() {
                Expr::Column(column) => below[input.maybe_index_of_column(&column)?],
                _ => None,
            };
            Some((shared, projection.expr.iter().map(place).collect()))
        }
        LogicalPlan::SubqueryAlias(alias) => picked(&alias.input),
        _ => None,
    }
}

fn address(shared: &Materialized) -> usize {
    Arc::as_ptr(&shared.rows) as usize
}

/// What is true of all rows that some reader wants.
fn filter(readers: &Readers) -> Option<Expr> {
    let (first, others) = readers.all.split_first().filter(|_| !readers.whole)?;
    let on_columns = first.iter().filter_map(|(columns, condition)| {
        let mut alternatives = vec![condition.clone()];
        for other in others {
            let condition = other.get(columns)?;
            if !alternatives.contains(condition) {
                alternatives.push(condition.clone());
            }
        }
        (alternatives.len() <= CONDITIONS_MAX).then(|| disjunction(alternatives))?
    });
    conjunction(on_columns)
}

impl Found {
    /// `whole`: no rows that are shared here are to be filtered.
    fn look(&mut self, plan: &LogicalPlan, whole: bool) -> Result<()> {
        stacker::maybe_grow(RED_ZONE_BYTES, MORE_BYTES, || self.look_at(plan, whole))
    }

    fn look_at(&mut self, plan: &LogicalPlan, whole: bool) -> Result<()> {
        plan.apply_subqueries(|subquery| {
            self.look(subquery, whole)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        if let LogicalPlan::Filter(filter) = plan
            && let Some((shared, places)) = picked(&filter.input)
        {
            let place = |column: &Column| places[filter.input.schema().maybe_index_of_column(column)?];
            return self.read(shared, conditions(&filter.predicate, &place), whole);
        }
        if let Some(shared) = shared(plan) {
            return self.read(shared, Conditions::default(), whole);
        }
        if let LogicalPlan::Extension(Extension { node }) = plan
            && let Some(apply) = node.as_any().downcast_ref::<Apply>()
        {
            // It is optimized by itself, for each row's values.
            self.look(&apply.subquery, true)?;
        }
        plan.apply_children(|child| {
            self.look(child, whole)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    fn read(&mut self, shared: &Materialized, conditions: Conditions, whole: bool) -> Result<()> {
        let readers = self.readers.entry(address(shared)).or_default();
        readers.all.push(conditions);
        readers.whole |= whole || !shared.takes_filter();
        readers.within.extend(&self.within);
        self.within.push(address(shared));
        self.look(&shared.input, whole)?;
        self.within.pop();
        Ok(())
    }
}

/// The conjuncts that are on columns of the rows alone and always say the same of a row.
fn conditions(predicate: &Expr, place: Place<'_>) -> Conditions {
    let mut found: BTreeMap<BTreeSet<usize>, Vec<Expr>> = BTreeMap::new();
    for conjunct in split_conjunction(predicate) {
        if let Some((columns, condition)) = by_place(conjunct, place) {
            found.entry(columns).or_default().push(condition);
        }
    }
    let together = |(columns, conditions)| Some((columns, conjunction(conditions)?));
    found.into_iter().filter_map(together).collect()
}

fn by_place(conjunct: &Expr, place: Place<'_>) -> Option<(BTreeSet<usize>, Expr)> {
    if !is_of_row(conjunct) {
        return None;
    }
    let (mut columns, mut known) = (BTreeSet::new(), true);
    let condition = conjunct.clone().transform_up(|expr| match &expr {
        Expr::Column(column) => Ok(match place(column) {
            Some(at) => {
                columns.insert(at);
                Transformed::yes(numbered(at))
            }
            None => {
                known = false;
                Transformed::no(expr)
            }
        }),
        _ => Ok(Transformed::no(expr)),
    });
    let condition = condition.data().ok()?;
    (known && !columns.is_empty()).then_some((columns, condition))
}
