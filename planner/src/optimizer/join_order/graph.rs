//! The join graph: relations, equalities between them (closed transitively), and other predicates.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan};

use super::super::estimate::{ColumnProfile, Profile, selectivity};
use super::reorder;

/// A set of relations, one bit each.
pub type Set = u64;
const RELATIONS_MAX: usize = 60;

#[derive(Default)]
pub struct Graph {
    pub relations: Vec<Relation>,
    /// Columns that must all be equal, each with its relation.
    pub classes: Vec<Vec<Member>>,
    /// Equalities of expressions, each side within one set of relations.
    pub equalities: Vec<Equality>,
    /// Every other predicate, with the relations that it reads.
    pub residuals: Vec<(Expr, Set)>,
    /// For pairs joined by several classes: how much the product of their selectivities underestimates.
    pub corrections: Vec<(Set, f64)>,
}

pub struct Relation {
    pub plan: Arc<LogicalPlan>,
    pub profile: Profile,
    /// Set where the relation only filters others.
    pub semi: Option<Semi>,
}

/// A semi or anti join with this relation as its inner side.
pub struct Semi {
    pub join: Join,
    /// Relations that the join's condition reads on the outer side.
    pub needs: Set,
    /// Share of the outer rows that stay.
    pub share: f64,
}

pub struct Member {
    pub column: Column,
    pub relation: usize,
    pub distinct: f64,
    pub base_rows: f64,
}

pub struct Equality {
    pub left: (Expr, Set),
    pub right: (Expr, Set),
}

impl Graph {
    /// The graph rooted at `plan`, whose relations are ordered inside already; `None` if there is nothing to order.
    pub fn of(plan: &LogicalPlan) -> Result<Option<Self>> {
        if !matches!(plan, LogicalPlan::Join(_)) || count(plan) < 2 || count(plan) > RELATIONS_MAX {
            return Ok(None);
        }
        let mut graph = Self::default();
        let mut pending = vec![];
        graph.flatten(plan, &mut pending)?;
        for (left, right) in std::mem::take(&mut pending) {
            graph.add_equality(left, right)?;
        }
        graph.enforce_within_relations()?;
        graph.correct();
        Ok(Some(graph))
    }

    fn flatten(&mut self, plan: &LogicalPlan, pending: &mut Vec<(Expr, Expr)>) -> Result<()> {
        match plan {
            LogicalPlan::Join(join) if is_inner(join) => {
                self.flatten(&join.left, pending)?;
                self.flatten(&join.right, pending)?;
                pending.extend(join.on.iter().cloned());
                for conjunct in join.filter.iter().flat_map(split_conjunction) {
                    self.add_predicate(conjunct)?;
                }
            }
            LogicalPlan::Join(join) if is_semi(join) => {
                self.flatten(&join.left, pending)?;
                let mut needs = 0;
                for (outer, _) in &join.on {
                    needs |= self.reads(outer);
                }
                if let Some(filter) = &join.filter {
                    needs |= self.reads(filter);
                }
                let inner = reorder(join.right.as_ref().clone())?;
                let profile = Profile::of(&inner);
                let share = self.semi_share(join, &profile);
                let semi = Some(Semi {
                    join: join.clone(),
                    needs,
                    share,
                });
                self.relations.push(Relation {
                    plan: Arc::new(inner),
                    profile,
                    semi,
                });
            }
            LogicalPlan::Filter(filter) if is_region(&filter.input) && is_plain(&filter.predicate) => {
                self.flatten(&filter.input, pending)?;
                for conjunct in split_conjunction(&filter.predicate) {
                    self.add_predicate(conjunct)?;
                }
            }
            LogicalPlan::Projection(projection) if is_region(plan) => self.flatten(&projection.input, pending)?,
            leaf => {
                let plan = reorder(leaf.clone())?;
                let profile = Profile::of(&plan);
                self.relations.push(Relation {
                    plan: Arc::new(plan),
                    profile,
                    semi: None,
                });
            }
        }
        Ok(())
    }

    /// The relations whose columns `expr` reads.
    pub fn reads(&self, expr: &Expr) -> Set {
        let columns = expr.column_refs();
        let reads = |r: &Relation| {
            r.semi.is_none()
                && columns
                    .iter()
                    .any(|c| r.plan.schema().maybe_index_of_column(c).is_some())
        };
        self.relations
            .iter()
            .enumerate()
            .filter(|(_, r)| reads(r))
            .fold(0, |set, (at, _)| set | 1 << at)
    }

    fn add_predicate(&mut self, conjunct: &Expr) -> Result<()> {
        let reads = self.reads(conjunct);
        if reads.count_ones() == 1 {
            let relation = &mut self.relations[reads.trailing_zeros() as usize];
            let share = selectivity([conjunct], relation.plan.schema(), &relation.profile);
            relation.profile.rows = (relation.profile.rows * share).max(1.0);
            let filter = Filter::try_new(conjunct.clone(), Arc::clone(&relation.plan))?;
            relation.plan = Arc::new(LogicalPlan::Filter(filter));
        } else if reads == 0 {
            // A constant: any relation can test it.
            let relation = &mut self.relations[0];
            let filter = Filter::try_new(conjunct.clone(), Arc::clone(&relation.plan))?;
            relation.plan = Arc::new(LogicalPlan::Filter(filter));
        } else {
            self.residuals.push((conjunct.clone(), reads));
        }
        Ok(())
    }

    fn member(&self, expr: &Expr) -> Option<Member> {
        let Expr::Column(column) = expr else { return None };
        let reads = self.reads(expr);
        if reads.count_ones() != 1 {
            return None;
        }
        let relation = reads.trailing_zeros() as usize;
        let Relation { plan, profile, .. } = &self.relations[relation];
        let known: ColumnProfile = profile.of_column(column, plan.schema());
        Some(Member {
            column: column.clone(),
            relation,
            distinct: known.distinct_or(profile.rows),
            base_rows: known.base_rows.unwrap_or(profile.rows),
        })
    }

    fn add_equality(&mut self, left: Expr, right: Expr) -> Result<()> {
        let (Some(l), Some(r)) = (self.member(&left), self.member(&right)) else {
            let (left_reads, right_reads) = (self.reads(&left), self.reads(&right));
            if left_reads == 0 || right_reads == 0 || (left_reads | right_reads).count_ones() < 2 {
                return self.add_predicate(&left.eq(right));
            }
            self.equalities.push(Equality {
                left: (left, left_reads),
                right: (right, right_reads),
            });
            return Ok(());
        };
        let find = |classes: &[Vec<Member>], m: &Member| {
            classes
                .iter()
                .position(|class| class.iter().any(|o| o.column == m.column && o.relation == m.relation))
        };
        match (find(&self.classes, &l), find(&self.classes, &r)) {
            (None, None) => self.classes.push(vec![l, r]),
            (Some(class), None) => self.classes[class].push(r),
            (None, Some(class)) => self.classes[class].push(l),
            (Some(a), Some(b)) if a != b => {
                let moved = self.classes.remove(a.max(b));
                self.classes[a.min(b)].extend(moved);
            }
            _ => {}
        }
        Ok(())
    }

    /// Joins apply one equality a class and side, so columns of one relation must be equal before any join.
    fn enforce_within_relations(&mut self) -> Result<()> {
        let mut filters = vec![];
        for class in &mut self.classes {
            let mut at = 0;
            while at < class.len() {
                match class[..at].iter().find(|m| m.relation == class[at].relation) {
                    Some(first) => {
                        let (first, relation) = (first.column.clone(), first.relation);
                        let second = class.remove(at).column;
                        filters.push((relation, Expr::Column(first).eq(Expr::Column(second))));
                    }
                    None => at += 1,
                }
            }
        }
        for (relation, predicate) in filters {
            let relation = &mut self.relations[relation];
            let filter = Filter::try_new(predicate, Arc::clone(&relation.plan))?;
            relation.plan = Arc::new(LogicalPlan::Filter(filter));
        }
        Ok(())
    }

    fn semi_share(&self, join: &Join, inner: &Profile) -> f64 {
        let mut share: f64 = 1.0;
        for (outer, key) in &join.on {
            let Some(member) = self.member(outer) else { continue };
            let found = inner
                .of_expr(key, join.right.schema())
                .distinct_or(inner.rows)
                .min(inner.rows);
            share = share.min(found / member.distinct);
        }
        match join.join_type {
            JoinType::LeftAnti => (1.0 - share).max(0.2),
            _ => share.min(1.0) * if join.filter.is_some() { 0.5 } else { 1.0 },
        }
    }

    /// Composite keys: see `equality_selectivity`.
    fn correct(&mut self) {
        for a in 0..self.relations.len() {
            for b in a + 1..self.relations.len() {
                let (mut domain, mut cap, mut shared) = (1.0, f64::INFINITY, 0);
                for class in &self.classes {
                    let of = |relation| class.iter().find(|m| m.relation == relation);
                    if let (Some(l), Some(r)) = (of(a), of(b)) {
                        domain *= l.distinct.max(r.distinct);
                        cap = cap.min(l.base_rows.min(r.base_rows));
                        shared += 1;
                    }
                }
                if shared > 1 && domain > cap {
                    self.corrections.push((1 << a | 1 << b, domain / cap.max(1.0)));
                }
            }
        }
    }
}

fn is_inner(join: &Join) -> bool {
    join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNothing
}

fn is_semi(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNothing
        && !join.on.is_empty()
}

/// Whether flattening goes on below `plan`: joins, under filters and column-picking projections.
fn is_region(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(join) => is_inner(join) || is_semi(join),
        LogicalPlan::Filter(filter) => is_plain(&filter.predicate) && is_region(&filter.input),
        LogicalPlan::Projection(projection) => {
            projection.expr.iter().all(|e| matches!(e, Expr::Column(_))) && is_region(&projection.input)
        }
        _ => false,
    }
}

fn is_plain(predicate: &Expr) -> bool {
    let has_subquery = predicate.exists(|e| {
        Ok(matches!(
            e,
            Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)
        ))
    });
    !predicate.is_volatile() && !has_subquery.unwrap_or(true)
}

/// Relations that flattening will find.
fn count(plan: &LogicalPlan) -> usize {
    match plan {
        LogicalPlan::Join(join) if is_inner(join) => count(&join.left) + count(&join.right),
        LogicalPlan::Join(join) if is_semi(join) => count(&join.left) + 1,
        LogicalPlan::Filter(filter) if is_region(plan) => count(&filter.input),
        LogicalPlan::Projection(projection) if is_region(plan) => count(&projection.input),
        _ => 1,
    }
}
