//! How many rows a set of joined relations gives, whatever the order.

use super::graph::{Graph, Set, members};

pub struct Cardinality<'a> {
    graph: &'a Graph,
    /// For each class: its relations, and the distinct values of each one's column.
    classes: Vec<(Set, Vec<(usize, f64)>)>,
}

impl<'a> Cardinality<'a> {
    pub fn of(graph: &'a Graph) -> Self {
        let classes = graph.classes.iter().map(|class| {
            let set = class.iter().fold(0, |set: Set, member| set | 1 << member.relation);
            let domains = class.iter().map(|member| (member.relation, member.distinct));
            (set, domains.collect())
        });
        Self {
            graph,
            classes: classes.collect(),
        }
    }

    pub fn rows(&self, set: Set) -> f64 {
        let graph = self.graph;
        let mut rows = 1.0;
        for relation in members(set).map(|at| &graph.relations[at]) {
            let factor = relation.attached.as_ref().map(|attached| attached.share);
            rows *= factor.unwrap_or(relation.profile.rows);
        }
        // Each value of the smallest domain meets one of every other (containment, Selinger et al. 1979).
        for (all, domains) in &self.classes {
            if (all & set).count_ones() < 2 {
                continue;
            }
            let mut smallest = f64::INFINITY;
            for (_, distinct) in domains.iter().filter(|(relation, _)| set >> relation & 1 == 1) {
                rows /= distinct;
                smallest = smallest.min(*distinct);
            }
            rows *= smallest;
        }
        for (of, factor) in &graph.corrections {
            if of & !set == 0 {
                rows *= factor;
            }
        }
        for equality in &graph.equalities {
            if (equality.left.1 | equality.right.1) & !set == 0 {
                rows *= equality.share;
            }
        }
        for residual in &graph.residuals {
            if residual.reads & !set == 0 {
                rows *= residual.share;
            }
        }
        rows.max(1.0)
    }
}
