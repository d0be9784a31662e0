//! The search for the cheapest join tree.
//!
//! Dynamic programming over the connected sets of relations, bushy trees included (`pairs`), as long as there are no
//! more than `PAIRS_MAX` ways to make one set of two: a chain of thirty relations has fewer, twelve that are each joined
//! with each have more. Else greedy, the cheapest next join first (Fegaras 1998). Relations that no predicate connects are joined last, the smallest first. Cost counts rows: those hashed, those
//! probed, and those put out, with hashing the dearest.

use std::ops::ControlFlow;

use hashbrown::HashMap;

use super::super::estimate::cost::{BUILD, CROSS, OUTPUT, PAIR, PROBE};
use super::cardinality::Cardinality;
use super::edges::Edges;
use super::graph::{Attached, Graph, Set, members};
use super::pairs;

const PAIRS_MAX: usize = 30_000;

#[derive(Debug, Clone)]
pub enum Tree {
    Relation(usize),
    Inner {
        build: Box<Tree>,
        probe: Box<Tree>,
    },
    /// `relation` is attached to `outer`; `builds_outer` says which of them is hashed.
    Attached {
        outer: Box<Tree>,
        relation: usize,
        builds_outer: bool,
    },
}

impl Tree {
    pub fn set(&self) -> Set {
        match self {
            Self::Relation(at) => 1 << at,
            Self::Inner { build, probe } => build.set() | probe.set(),
            Self::Attached { outer, relation, .. } => outer.set() | 1 << relation,
        }
    }
}

/// The best tree found for a set of relations.
#[derive(Clone)]
struct Candidate {
    set: Set,
    cost: f64,
    rows: f64,
    tree: Tree,
}

/// A way to join two sets: which is hashed.
#[derive(Clone, Copy)]
enum Choice {
    Relation(usize),
    Inner {
        build: Set,
        probe: Set,
    },
    Attached {
        outer: Set,
        relation: usize,
        builds_outer: bool,
    },
}

/// What joining two sets costs beyond making them.
#[derive(Clone, Copy)]
struct Step {
    cost: f64,
    rows: f64,
    choice: Choice,
}

/// The best way to make a set. Trees are built once, at the end.
#[derive(Clone, Copy)]
struct Best {
    set: Set,
    /// With all that is below.
    cost: f64,
    step: Step,
}

pub fn search(graph: &Graph) -> Tree {
    let search = Search {
        edges: Edges::of(graph),
        cardinality: Cardinality::of(graph),
        graph,
    };
    let mut parts: Vec<Candidate> = search
        .edges
        .components()
        .into_iter()
        .map(|component| search.exhaustive(component).unwrap_or_else(|| search.greedy(component)))
        .collect();
    // Cross products, from the smallest.
    while parts.len() > 1 {
        parts.sort_by(|a, b| b.rows.total_cmp(&a.rows).then(b.set.cmp(&a.set)));
        let (Some(a), Some(b)) = (parts.pop(), parts.pop()) else {
            break;
        };
        parts.push(search.crossed(a, b));
    }
    parts.pop().map_or(Tree::Relation(0), |whole| whole.tree)
}

struct Search<'a> {
    graph: &'a Graph,
    edges: Edges,
    cardinality: Cardinality<'a>,
}

impl Search<'_> {
    fn leaf(&self, at: usize) -> Candidate {
        Candidate {
            set: 1 << at,
            cost: 0.0,
            rows: self.graph.relations[at].profile.rows,
            tree: Tree::Relation(at),
        }
    }

    /// The best tree of a connected set. None where there are too many to look at, and where predicates over three
    /// relations or more leave no order without a cross product.
    fn exhaustive(&self, whole: Set) -> Option<Candidate> {
        // Sets are numbered within `whole`.
        let relations: Vec<usize> = members(whole).collect();
        let number = |set: Set| {
            let places = relations.iter().enumerate();
            places.fold(0, |all: Set, (at, &relation)| all | (set >> relation & 1) << at)
        };
        let neighbours: Vec<Set> = relations.iter().map(|&at| number(self.edges.around(1 << at))).collect();
        if !is_small(&neighbours) {
            return None;
        }
        let leaf = |(at, &relation): (usize, &usize)| {
            let rows = self.graph.relations[relation].profile.rows;
            let choice = Choice::Relation(relation);
            let step = Step {
                cost: 0.0,
                rows,
                choice,
            };
            (
                1 << at,
                Best {
                    set: 1 << relation,
                    cost: 0.0,
                    step,
                },
            )
        };
        let mut best: HashMap<Set, Best> = relations.iter().enumerate().map(leaf).collect();
        let _ = pairs::for_each(&neighbours, &mut |a, b| {
            let (Some(l), Some(r)) = (best.get(&a).copied(), best.get(&b).copied()) else {
                return ControlFlow::Continue(());
            };
            let known = best.get(&(a | b)).map(|made| (made.step.rows, made.cost));
            let rows = known.map_or_else(|| self.cardinality.rows(l.set | r.set), |(rows, _)| rows);
            if let Some(step) = self.step((l.set, l.step.rows), (r.set, r.step.rows), rows) {
                let cost = step.cost + l.cost + r.cost;
                if known.is_none_or(|(_, cheapest)| cost < cheapest) {
                    let set = l.set | r.set;
                    best.insert(a | b, Best { set, cost, step });
                }
            }
            ControlFlow::Continue(())
        });
        let last = number(whole);
        let found = best.get(&last)?;
        Some(Candidate {
            set: whole,
            cost: found.cost,
            rows: found.step.rows,
            tree: tree_of(&best, &number, last)?,
        })
    }

    /// Joining two sets, if that is legal and some predicate connects them.
    fn step(&self, (a, a_rows): (Set, f64), (b, b_rows): (Set, f64), rows: f64) -> Option<Step> {
        for (outer, outer_rows, inner, inner_rows) in [(a, a_rows, b, b_rows), (b, b_rows, a, a_rows)] {
            let Some((relation, attached)) = self.attached(inner) else {
                continue;
            };
            // A lone relation that is attached itself is no outer side.
            if attached.needs & !outer != 0 || self.attached(outer).is_some() {
                return None;
            }
            let builds_outer = attached.join.null_aware || outer_rows <= inner_rows;
            let (build, probe) = if builds_outer {
                (outer_rows, inner_rows)
            } else {
                (inner_rows, outer_rows)
            };
            let cost = BUILD * build + PROBE * probe + OUTPUT * rows;
            let choice = Choice::Attached {
                outer,
                relation,
                builds_outer,
            };
            return Some(Step { cost, rows, choice });
        }
        let ((build, build_rows), (probe, probe_rows)) = if a_rows <= b_rows {
            ((a, a_rows), (b, b_rows))
        } else {
            ((b, b_rows), (a, a_rows))
        };
        let mut cost = BUILD * build_rows + PROBE * probe_rows + OUTPUT * rows;
        if !self.edges.equal(a, b) {
            cost += PAIR * a_rows * b_rows;
        }
        let choice = Choice::Inner { build, probe };
        Some(Step { cost, rows, choice })
    }

    /// The one relation of a set, if it is attached.
    fn attached(&self, set: Set) -> Option<(usize, &Attached)> {
        let at = set.trailing_zeros() as usize;
        let attached = self.graph.relations[at].attached.as_ref()?;
        (set.count_ones() == 1).then_some((at, attached))
    }

    /// Joins the cheapest pair, again and again.
    fn greedy(&self, whole: Set) -> Candidate {
        let mut parts: Vec<Candidate> = members(whole).map(|at| self.leaf(at)).collect();
        // The step for each pair; a pair that holds a part that is gone is gone too.
        let mut steps: Vec<(Set, Set, Step)> = Vec::new();
        let pair = |a: &Candidate, b: &Candidate| {
            if !self.edges.meet(a.set, b.set) {
                return None;
            }
            let rows = self.cardinality.rows(a.set | b.set);
            let step = self.step((a.set, a.rows), (b.set, b.rows), rows)?;
            Some((a.set, b.set, step))
        };
        for at in 0..parts.len() {
            steps.extend(parts[..at].iter().filter_map(|other| pair(other, &parts[at])));
        }
        while parts.len() > 1 {
            let cheapest = steps.iter().min_by(|x, y| x.2.cost.total_cmp(&y.2.cost));
            let Some(&(a, b, step)) = cheapest else {
                // What is left meets only by predicates over three parts, or waits for what they make.
                parts.sort_by(|x, y| y.rows.total_cmp(&x.rows));
                let first = parts.iter().rposition(|p| self.attached(p.set).is_none()).unwrap_or(0);
                let first = parts.remove(first);
                let second = parts.iter().rposition(|p| self.attached(p.set).is_none()).unwrap_or(0);
                let second = parts.remove(second);
                let joined = self.crossed(first, second);
                steps.retain(|(a, b, _)| (a | b) & joined.set == 0);
                steps.extend(parts.iter().filter_map(|other| pair(other, &joined)));
                parts.push(joined);
                continue;
            };
            let mut take = |set: Set| {
                let at = parts.iter().position(|part| part.set == set);
                parts.swap_remove(at.unwrap_or(0))
            };
            let joined = combined(take(a), take(b), step);
            steps.retain(|(a, b, _)| (a | b) & joined.set == 0);
            steps.extend(parts.iter().filter_map(|other| pair(other, &joined)));
            parts.push(joined);
        }
        parts.swap_remove(0)
    }

    /// Joined without a predicate between them.
    fn crossed(&self, a: Candidate, b: Candidate) -> Candidate {
        let rows = self.cardinality.rows(a.set | b.set);
        let (build, probe) = if a.rows <= b.rows { (a, b) } else { (b, a) };
        let choice = Choice::Inner {
            build: build.set,
            probe: probe.set,
        };
        let cost = CROSS * build.rows * probe.rows;
        combined(build, probe, Step { cost, rows, choice })
    }
}

fn combined(a: Candidate, b: Candidate, step: Step) -> Candidate {
    let set = a.set | b.set;
    let cost = a.cost + b.cost + step.cost;
    let tree = match step.choice {
        Choice::Attached {
            outer,
            relation,
            builds_outer,
        } => {
            let outer = if a.set == outer { a.tree } else { b.tree };
            Tree::Attached {
                outer: outer.into(),
                relation,
                builds_outer,
            }
        }
        Choice::Inner { build, .. } => {
            let (build, probe) = if a.set == build { (a, b) } else { (b, a) };
            Tree::Inner {
                build: build.tree.into(),
                probe: probe.tree.into(),
            }
        }
        Choice::Relation(at) => Tree::Relation(at),
    };
    Candidate {
        set,
        cost,
        rows: step.rows,
        tree,
    }
}

/// Whether there are no more than `PAIRS_MAX` pairs.
fn is_small(neighbours: &[Set]) -> bool {
    let mut left = PAIRS_MAX;
    let counted = pairs::for_each(neighbours, &mut |_, _| match left {
        0 => ControlFlow::Break(()),
        _ => {
            left -= 1;
            ControlFlow::Continue(())
        }
    });
    counted.is_continue()
}

fn tree_of(best: &HashMap<Set, Best>, number: &impl Fn(Set) -> Set, at: Set) -> Option<Tree> {
    let below = |set| tree_of(best, number, number(set)).map(Box::new);
    Some(match best.get(&at)?.step.choice {
        Choice::Relation(at) => Tree::Relation(at),
        Choice::Inner { build, probe } => Tree::Inner {
            build: below(build)?,
            probe: below(probe)?,
        },
        Choice::Attached {
            outer,
            relation,
            builds_outer,
        } => Tree::Attached {
            outer: below(outer)?,
            relation,
            builds_outer,
        },
    })
}

/// Whether an equality between expressions over `left` and `right` is a join key between `a` and `b`.
pub fn joins(left: Set, right: Set, a: Set, b: Set) -> bool {
    left != 0 && right != 0 && ((left & !a == 0 && right & !b == 0) || (left & !b == 0 && right & !a == 0))
}
