//! The search for the cheapest join tree.
//!
//! Up to `EXHAUSTIVE_MAX` relations: dynamic programming over all subsets, bushy trees included (Moerkotte and Neumann
//! 2006 enumerate the same plans). Beyond: greedy, the cheapest next join first. Cost counts rows: those hashed, those
//! probed, and those put out, with hashing the dearest.

use super::graph::{Graph, Set};

const EXHAUSTIVE_MAX: usize = 11;
const BUILD_COST: f64 = 2.5;
const PROBE_COST: f64 = 1.0;
const OUTPUT_COST: f64 = 1.0;
/// What a predicate that is not an equality leaves.
const RESIDUAL: f64 = 0.33;
/// Cross products are for inputs of a row or so.
const CROSS_PENALTY: f64 = 20.0;

#[derive(Debug, Clone)]
pub enum Tree {
    Relation(usize),
    Inner {
        build: Box<Tree>,
        probe: Box<Tree>,
    },
    /// `relation` filters `outer`; `builds_outer` says which of them is hashed.
    Semi {
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
            Self::Semi { outer, relation, .. } => outer.set() | 1 << relation,
        }
    }
}

#[derive(Clone)]
struct Candidate {
    cost: f64,
    rows: f64,
    tree: Tree,
}

pub fn search(graph: &Graph) -> Tree {
    let count = graph.relations.len();
    let leaf = |at: usize| Candidate {
        cost: 0.0,
        rows: graph.relations[at].profile.rows,
        tree: Tree::Relation(at),
    };
    if count > EXHAUSTIVE_MAX {
        return greedy(graph, (0..count).map(leaf).collect());
    }
    // Choices name their two halves; trees are built once, at the end.
    let mut best: Vec<Option<(f64, f64, Choice)>> = vec![None; 1 << count];
    for at in 0..count {
        best[1 << at] = Some((0.0, graph.relations[at].profile.rows, Choice::Relation(at)));
    }
    for set in 1..1u64 << count {
        if set.count_ones() < 2 {
            continue;
        }
        let rows = rows(graph, set);
        let low = 1 << set.trailing_zeros();
        let mut part = (set - 1) & set;
        while part != 0 {
            if part & low != 0 {
                let rest = set & !part;
                if let (Some(l), Some(r)) = (&best[part as usize], &best[rest as usize])
                    && let Some((cost, choice)) = join(graph, (part, l.1), (rest, r.1), rows)
                {
                    let cost = cost + l.0 + r.0;
                    if best[set as usize].as_ref().is_none_or(|b| cost < b.0) {
                        best[set as usize] = Some((cost, rows, choice));
                    }
                }
            }
            part = (part - 1) & set;
        }
    }
    tree_of(&best, (1 << count) - 1).unwrap_or_else(|| greedy(graph, (0..count).map(leaf).collect()))
}

#[derive(Clone, Copy)]
enum Choice {
    Relation(usize),
    Inner {
        build: Set,
        probe: Set,
    },
    Semi {
        outer: Set,
        relation: usize,
        builds_outer: bool,
    },
}

fn tree_of(best: &[Option<(f64, f64, Choice)>], set: Set) -> Option<Tree> {
    Some(match best[set as usize].as_ref()?.2 {
        Choice::Relation(at) => Tree::Relation(at),
        Choice::Inner { build, probe } => Tree::Inner {
            build: tree_of(best, build)?.into(),
            probe: tree_of(best, probe)?.into(),
        },
        Choice::Semi {
            outer,
            relation,
            builds_outer,
        } => Tree::Semi {
            outer: tree_of(best, outer)?.into(),
            relation,
            builds_outer,
        },
    })
}

/// Cost and sides of joining two sets, if that is legal.
fn join(graph: &Graph, (a, a_rows): (Set, f64), (b, b_rows): (Set, f64), rows: f64) -> Option<(f64, Choice)> {
    for (outer, outer_rows, inner, inner_rows) in [(a, a_rows, b, b_rows), (b, b_rows, a, a_rows)] {
        if inner.count_ones() == 1
            && let Some(semi) = &graph.relations[inner.trailing_zeros() as usize].semi
        {
            let relation = inner.trailing_zeros() as usize;
            // A lone relation that filters is no outer side.
            let outer_is_semi =
                outer.count_ones() == 1 && graph.relations[outer.trailing_zeros() as usize].semi.is_some();
            if semi.needs & !outer != 0 || outer_is_semi {
                return None;
            }
            let builds_outer = semi.join.null_aware || outer_rows <= inner_rows;
            let (build, probe) = if builds_outer {
                (outer_rows, inner_rows)
            } else {
                (inner_rows, outer_rows)
            };
            let cost = BUILD_COST * build + PROBE_COST * probe + OUTPUT_COST * rows;
            return Some((
                cost,
                Choice::Semi {
                    outer,
                    relation,
                    builds_outer,
                },
            ));
        }
    }
    let (build, probe) = if a_rows <= b_rows {
        ((a, a_rows), (b, b_rows))
    } else {
        ((b, b_rows), (a, a_rows))
    };
    let mut cost = BUILD_COST * build.1 + PROBE_COST * probe.1 + OUTPUT_COST * rows;
    if !connected(graph, a, b) {
        cost += a_rows * b_rows * CROSS_PENALTY;
    }
    Some((
        cost,
        Choice::Inner {
            build: build.0,
            probe: probe.0,
        },
    ))
}

fn connected(graph: &Graph, a: Set, b: Set) -> bool {
    let class = graph
        .classes
        .iter()
        .any(|class| class.iter().any(|m| a >> m.relation & 1 == 1) && class.iter().any(|m| b >> m.relation & 1 == 1));
    class || graph.equalities.iter().any(|e| joins(e.left.1, e.right.1, a, b))
}

/// Whether an equality between expressions over `left` and `right` is a join key between `a` and `b`.
pub fn joins(left: Set, right: Set, a: Set, b: Set) -> bool {
    left != 0 && right != 0 && ((left & !a == 0 && right & !b == 0) || (left & !b == 0 && right & !a == 0))
}

/// Estimated rows of a set, whatever the order.
fn rows(graph: &Graph, set: Set) -> f64 {
    let mut rows = 1.0;
    for (_, relation) in graph.relations.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1) {
        rows *= relation.semi.as_ref().map_or(relation.profile.rows, |semi| semi.share);
    }
    for class in &graph.classes {
        let mut domains: Vec<f64> = class
            .iter()
            .filter(|m| set >> m.relation & 1 == 1)
            .map(|m| m.distinct)
            .collect();
        domains.sort_by(f64::total_cmp);
        domains.iter().skip(1).for_each(|domain| rows /= domain);
    }
    for (pair, factor) in &graph.corrections {
        if pair & !set == 0 {
            rows *= factor;
        }
    }
    for equality in &graph.equalities {
        if (equality.left.1 | equality.right.1) & !set == 0 {
            rows *= 0.01;
        }
    }
    for (_, reads) in &graph.residuals {
        if reads & !set == 0 {
            rows *= RESIDUAL;
        }
    }
    rows.max(1.0)
}

fn greedy(graph: &Graph, mut candidates: Vec<Candidate>) -> Tree {
    while candidates.len() > 1 {
        let mut best: Option<(f64, usize, usize, f64, Choice)> = None;
        for a in 0..candidates.len() {
            for b in a + 1..candidates.len() {
                let (l, r) = (&candidates[a], &candidates[b]);
                let rows = rows(graph, l.tree.set() | r.tree.set());
                if let Some((cost, choice)) = join(graph, (l.tree.set(), l.rows), (r.tree.set(), r.rows), rows)
                    && best.as_ref().is_none_or(|best| cost < best.0)
                {
                    best = Some((cost, a, b, rows, choice));
                }
            }
        }
        // Some pair is always legal: what a semi join needs is joined sooner or later.
        let Some((cost, a, b, rows, choice)) = best else { break };
        let (second, first) = (candidates.remove(b), candidates.remove(a));
        let cost = cost + first.cost + second.cost;
        let tree = match choice {
            Choice::Inner { build, .. } => {
                let (build, probe) = if first.tree.set() == build {
                    (first, second)
                } else {
                    (second, first)
                };
                Tree::Inner {
                    build: build.tree.into(),
                    probe: probe.tree.into(),
                }
            }
            Choice::Semi {
                outer,
                relation,
                builds_outer,
            } => {
                let outer = if first.tree.set() == outer { first } else { second };
                Tree::Semi {
                    outer: outer.tree.into(),
                    relation,
                    builds_outer,
                }
            }
            Choice::Relation(at) => Tree::Relation(at),
        };
        candidates.push(Candidate { cost, rows, tree });
    }
    candidates.swap_remove(0).tree
}
