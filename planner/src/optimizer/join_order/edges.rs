//! Which relations a predicate connects.

use super::graph::{Graph, Set, members};
use super::search::joins;

pub struct Edges {
    /// By relation: those that an equality connects it with.
    equal: Vec<Set>,
    /// By relation: those that any predicate over the two of them connects it with, and what it is attached to.
    any: Vec<Set>,
    /// Equalities with a side over several relations: what each side reads.
    wide: Vec<(Set, Set)>,
}

impl Edges {
    pub fn of(graph: &Graph) -> Self {
        let mut own = Self {
            equal: vec![0; graph.relations.len()],
            any: vec![0; graph.relations.len()],
            wide: vec![],
        };
        for class in &graph.classes {
            let all = class.iter().fold(0, |set: Set, member| set | 1 << member.relation);
            for member in class {
                own.equal[member.relation] |= all;
            }
        }
        for equality in &graph.equalities {
            let (left, right) = (equality.left.1, equality.right.1);
            if left.count_ones() == 1 && right.count_ones() == 1 {
                connect(&mut own.equal, left | right);
            } else {
                own.wide.push((left, right));
                connect(&mut own.any, left | right);
            }
        }
        for residual in graph
            .residuals
            .iter()
            .filter(|residual| residual.reads.count_ones() == 2)
        {
            connect(&mut own.any, residual.reads);
        }
        for (at, relation) in graph.relations.iter().enumerate() {
            if let Some(attached) = &relation.attached {
                for outer in members(attached.needs) {
                    connect(&mut own.any, 1 << at | 1 << outer);
                }
            }
        }
        for (any, equal) in own.any.iter_mut().zip(&own.equal) {
            *any |= equal;
        }
        own
    }

    /// Whether some predicate connects the sets.
    pub fn meet(&self, a: Set, b: Set) -> bool {
        neighbours(&self.any, a) & b != 0
    }

    /// Whether an equality does.
    pub fn equal(&self, a: Set, b: Set) -> bool {
        neighbours(&self.equal, a) & b != 0 || self.wide.iter().any(|&(left, right)| joins(left, right, a, b))
    }

    /// The relations that some predicate connects with the set.
    pub fn around(&self, set: Set) -> Set {
        neighbours(&self.any, set) & !set
    }

    /// The largest connected sets.
    pub fn components(&self) -> Vec<Set> {
        let mut left: Set = (0..self.any.len()).fold(0, |set, at| set | 1 << at);
        let mut out = vec![];
        while left != 0 {
            let component = self.reached(left & left.wrapping_neg(), left);
            out.push(component);
            left &= !component;
        }
        out
    }

    /// What can be reached from `from` within `set`.
    fn reached(&self, from: Set, set: Set) -> Set {
        let mut found = from;
        loop {
            let next = (found | neighbours(&self.any, found)) & set;
            if next == found {
                return found;
            }
            found = next;
        }
    }
}

fn neighbours(edges: &[Set], of: Set) -> Set {
    members(of).fold(0, |set, at| set | edges[at])
}

fn connect(edges: &mut [Set], all: Set) {
    for at in members(all) {
        edges[at] |= all;
    }
}
