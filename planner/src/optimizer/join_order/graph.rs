//! The join graph: relations, equalities between them (closed transitively), and other predicates.
//!
//! More than 400 lines because equivalences, estimates and filters of the graph change together.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan};

use super::super::estimate::{ColumnProfile, Profile, UNKNOWN, equality_correction, gather, selectivity};
use super::reorder;

/// A set of relations, one bit each.
pub type Set = u64;
const RELATIONS_MAX: usize = 60;
/// Share of the pairs for which an equality of expressions holds that nothing is known of.
const UNKNOWN_EQUALITY: f64 = 0.01;

#[derive(Default)]
pub struct Graph {
    /// In an order that does not depend on how the query is written.
    pub relations: Vec<Relation>,
    /// Columns that must all be equal, each with its relation.
    pub classes: Vec<Vec<Member>>,
    /// Equalities of expressions, each side within one set of relations.
    pub equalities: Vec<Equality>,
    /// Every other predicate.
    pub residuals: Vec<Residual>,
    /// Sets of relations for which the product of the classes' selectivities is off, and by what factor.
    pub corrections: Vec<(Set, f64)>,
}

pub struct Relation {
    pub plan: Arc<LogicalPlan>,
    pub profile: Profile,
    /// Set where the relation is no part of the inner joins.
    pub attached: Option<Attached>,
}

/// A semi, anti or left join with this relation as its inner side. It commutes with the inner joins of its outer side:
/// it may be done as soon as the relations that its condition reads are joined.
pub struct Attached {
    pub join: Join,
    /// Relations that the join's condition reads on the outer side.
    pub needs: Set,
    /// Rows for each outer row.
    pub share: f64,
}

impl Attached {
    /// A left join shows its inner side's columns; the others only filter.
    fn shows_columns(&self) -> bool {
        self.join.join_type == JoinType::Left
    }
}

pub struct Member {
    pub column: Column,
    pub relation: usize,
    pub distinct: f64,
    known: ColumnProfile,
}

pub struct Equality {
    pub left: (Expr, Set),
    pub right: (Expr, Set),
    pub share: f64,
}

pub struct Residual {
    pub predicate: Expr,
    /// Relations that must be joined before it can be tested.
    pub reads: Set,
    pub share: f64,
}

impl Graph {
    /// The graph rooted at `plan`, whose relations are ordered inside already; `None` if there is nothing to order.
    pub fn of(plan: &LogicalPlan) -> Result<Option<Self>> {
        if !matches!(plan, LogicalPlan::Join(_)) || !is_region(plan) || count(plan) > RELATIONS_MAX {
            return Ok(None);
        }
        let mut graph = Self::default();
        let mut pending = Pending::default();
        graph.flatten(plan, &mut pending)?;
        for predicate in pending.predicates {
            graph.add_predicate(&predicate)?;
        }
        for (left, right) in pending.equalities {
            graph.add_equality(left, right)?;
        }
        graph.enforce_within_relations()?;
        graph.sort();
        graph.correct();
        Ok(Some(graph))
    }

    fn flatten(&mut self, plan: &LogicalPlan, pending: &mut Pending) -> Result<()> {
        match plan {
            LogicalPlan::Join(join) if is_inner(join) => {
                self.flatten(&join.left, pending)?;
                self.flatten(&join.right, pending)?;
                pending.equalities.extend(join.on.iter().cloned());
                let filters = join.filter.iter().flat_map(split_conjunction);
                pending.predicates.extend(filters.cloned());
            }
            LogicalPlan::Join(join) if is_attached(join) => {
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
                let share = self.attached_share(join, &profile);
                let attached = Some(Attached {
                    join: join.clone(),
                    needs,
                    share,
                });
                self.relations.push(Relation {
                    plan: Arc::new(inner),
                    profile,
                    attached,
                });
            }
            LogicalPlan::Filter(filter) if is_region(&filter.input) && is_plain(&filter.predicate) => {
                self.flatten(&filter.input, pending)?;
                let conjuncts = split_conjunction(&filter.predicate);
                pending.predicates.extend(conjuncts.into_iter().cloned());
            }
            LogicalPlan::Projection(projection) if is_region(plan) => self.flatten(&projection.input, pending)?,
            leaf => {
                let plan = reorder(leaf.clone())?;
                let profile = Profile::of(&plan);
                self.relations.push(Relation {
                    plan: Arc::new(plan),
                    profile,
                    attached: None,
                });
            }
        }
        Ok(())
    }

    /// The relations whose columns `expr` reads.
    pub fn reads(&self, expr: &Expr) -> Set {
        let columns = expr.column_refs();
        let reads = |r: &Relation| {
            r.attached.as_ref().is_none_or(Attached::shows_columns)
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

    /// The relations, with what must be joined before the attached ones among them can be.
    fn with_needs(&self, set: Set) -> Set {
        let attached = members(set).filter_map(|at| self.relations[at].attached.as_ref());
        attached.fold(set, |all, attached| all | attached.needs)
    }

    fn add_predicate(&mut self, conjunct: &Expr) -> Result<()> {
        let reads = self.reads(conjunct);
        // A constant: any relation can test it.
        let at = if reads == 0 { 0 } else { reads.trailing_zeros() as usize };
        if reads.count_ones() <= 1 && self.relations[at].attached.is_none() {
            let relation = &mut self.relations[at];
            let share = selectivity([conjunct], relation.plan.schema(), &relation.profile);
            relation.profile.rows = (relation.profile.rows * share).max(1.0);
            gather([conjunct], relation.plan.schema(), &mut relation.profile);
            let filter = Filter::try_new(conjunct.clone(), Arc::clone(&relation.plan))?;
            relation.plan = Arc::new(LogicalPlan::Filter(filter));
            return Ok(());
        }
        let share = self.share(conjunct, reads);
        self.residuals.push(Residual {
            predicate: conjunct.clone(),
            reads: self.with_needs(reads),
            share,
        });
        Ok(())
    }

    /// What a predicate over several relations leaves of their cross product.
    fn share(&self, predicate: &Expr, reads: Set) -> f64 {
        let mut relations = members(reads).map(|at| &self.relations[at]);
        let Some(first) = relations.next() else { return 1.0 };
        let (mut schema, mut profile) = (first.plan.schema().as_ref().clone(), first.profile.clone());
        for relation in relations {
            match schema.join(relation.plan.schema()) {
                Ok(joined) => schema = joined,
                Err(_) => return UNKNOWN,
            }
            profile = profile.beside(&relation.profile);
        }
        selectivity([predicate], &schema, &profile)
    }

    fn member(&self, expr: &Expr) -> Option<Member> {
        let Expr::Column(column) = expr else { return None };
        let reads = self.reads(expr);
        if reads.count_ones() != 1 {
            return None;
        }
        let relation = reads.trailing_zeros() as usize;
        let Relation {
            plan,
            profile,
            attached: None,
        } = &self.relations[relation]
        else {
            return None;
        };
        let known: ColumnProfile = profile.of_column(column, plan.schema());
        Some(Member {
            column: column.clone(),
            relation,
            distinct: known.distinct_or(profile.rows),
            known,
        })
    }

    fn add_equality(&mut self, left: Expr, right: Expr) -> Result<()> {
        let (Some(l), Some(r)) = (self.member(&left), self.member(&right)) else {
            let (left_reads, right_reads) = (self.reads(&left), self.reads(&right));
            let both = left_reads | right_reads;
            let attached = members(both).any(|at| self.relations[at].attached.is_some());
            if left_reads == 0 || right_reads == 0 || left_reads & right_reads != 0 || attached {
                return self.add_predicate(&left.eq(right));
            }
            let share = self.equality_share(&left, left_reads, &right, right_reads);
            self.equalities.push(Equality {
                left: (left, left_reads),
                right: (right, right_reads),
                share,
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

    /// Of an equality between expressions.
    fn equality_share(&self, left: &Expr, left_reads: Set, right: &Expr, right_reads: Set) -> f64 {
        let distinct = |expr: &Expr, reads: Set| {
            let relation = &self.relations[reads.trailing_zeros() as usize];
            let known = relation.profile.of_expr(expr, relation.plan.schema());
            known.distinct.filter(|_| reads.count_ones() == 1)
        };
        let known = [distinct(left, left_reads), distinct(right, right_reads)];
        known
            .into_iter()
            .flatten()
            .reduce(f64::max)
            .map_or(UNKNOWN_EQUALITY, |distinct| 1.0 / distinct.max(1.0))
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

    /// Numbers the relations by what they are, so that equally cheap orders are told apart alike however the query is
    /// written.
    fn sort(&mut self) {
        let key = |relation: &Relation| {
            let first = relation.plan.schema().columns().into_iter().next();
            (relation.attached.is_some(), relation.profile.rows, first)
        };
        let keys: Vec<_> = self.relations.iter().map(key).collect();
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_by(|&a, &b| {
            keys[a]
                .partial_cmp(&keys[b])
                .unwrap_or(std::cmp::Ordering::Equal)
                .then(a.cmp(&b))
        });
        let mut place = vec![0; order.len()];
        for (to, &from) in order.iter().enumerate() {
            place[from] = to;
        }
        let moved = |set: Set| members(set).fold(0, |all: Set, at| all | 1 << place[at]);
        let mut relations: Vec<Option<Relation>> = std::mem::take(&mut self.relations).into_iter().map(Some).collect();
        self.relations = order.iter().filter_map(|&from| relations[from].take()).collect();
        for attached in self.relations.iter_mut().filter_map(|r| r.attached.as_mut()) {
            attached.needs = moved(attached.needs);
        }
        for member in self.classes.iter_mut().flatten() {
            member.relation = place[member.relation];
        }
        for class in &mut self.classes {
            class.sort_by_key(|member| member.relation);
        }
        self.classes.sort_by(|a, b| {
            let first = |class: &[Member]| class.first().map(|m| (m.relation, m.column.clone()));
            first(a).cmp(&first(b))
        });
        for equality in &mut self.equalities {
            equality.left.1 = moved(equality.left.1);
            equality.right.1 = moved(equality.right.1);
        }
        for residual in &mut self.residuals {
            residual.reads = moved(residual.reads);
        }
    }

    /// Rows that an attached join gives for each outer row.
    fn attached_share(&self, join: &Join, inner: &Profile) -> f64 {
        let mut share: f64 = 1.0;
        let mut partners = inner.rows;
        for (outer, key) in &join.on {
            let known = inner.of_expr(key, join.right.schema()).distinct_or(inner.rows);
            let found = known.min(inner.rows);
            let Some(member) = self.member(outer) else { continue };
            share = share.min(found / member.distinct);
            partners /= known.max(member.distinct);
        }
        match join.join_type {
            JoinType::Left => partners.max(1.0),
            JoinType::LeftAnti => (1.0 - share).max(0.2),
            _ => share.min(1.0) * if join.filter.is_some() { 0.5 } else { 1.0 },
        }
    }

    /// Composite keys: see `equality_selectivity`. Skew and partial overlap: see `equality_correction`.
    fn correct(&mut self) {
        for a in 0..self.relations.len() {
            for b in a + 1..self.relations.len() {
                let (mut domain, mut cap, mut shared) = (1.0, f64::INFINITY, 0);
                for class in &self.classes {
                    let of = |relation| class.iter().find(|m| m.relation == relation);
                    if let (Some(l), Some(r)) = (of(a), of(b)) {
                        domain *= l.distinct.max(r.distinct);
                        let rows = |m: &Member| m.known.base_rows.unwrap_or(self.relations[m.relation].profile.rows);
                        cap = cap.min(rows(l).min(rows(r)));
                        shared += 1;
                    }
                }
                if shared > 1 && domain > cap {
                    self.corrections.push((1 << a | 1 << b, domain / cap.max(1.0)));
                }
            }
        }
        for class in &self.classes {
            if let [left, right] = class.as_slice() {
                let factor = equality_correction(&left.known, &right.known);
                if (factor - 1.0).abs() > 1e-3 {
                    let set = 1 << left.relation | 1 << right.relation;
                    self.corrections.push((set, factor));
                }
            }
        }
    }
}

/// What flattening has met and cannot place yet: the relations that it reads may still come.
#[derive(Default)]
struct Pending {
    equalities: Vec<(Expr, Expr)>,
    predicates: Vec<Expr>,
}

/// The relations of a set.
pub fn members(set: Set) -> impl Iterator<Item = usize> {
    let mut left = set;
    std::iter::from_fn(move || {
        (left != 0).then(|| {
            let at = left.trailing_zeros() as usize;
            left &= left - 1;
            at
        })
    })
}

fn is_inner(join: &Join) -> bool {
    join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNothing
}

fn is_attached(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti | JoinType::Left)
        && join.null_equality == NullEquality::NullEqualsNothing
        && join.on.iter().any(|(outer, _)| !outer.column_refs().is_empty())
        && join.filter.as_ref().is_none_or(is_plain)
}

/// Whether flattening goes on below `plan`: joins, under filters and column-picking projections.
fn is_region(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(join) => is_inner(join) || is_attached(join),
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
        LogicalPlan::Join(join) if is_attached(join) => count(&join.left) + 1,
        LogicalPlan::Filter(filter) if is_region(plan) => count(&filter.input),
        LogicalPlan::Projection(projection) if is_region(plan) => count(&projection.input),
        _ => 1,
    }
}
