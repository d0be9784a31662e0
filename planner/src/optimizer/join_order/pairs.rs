//! Pairs of sets of relations that a join can be made of: both connected, disjoint, and connected with each other. Each
//! pair comes once, and after all pairs that either of its sets can be made of (DPccp: Moerkotte and Neumann 2006,
//! section 3). There are as many as the join graph's shape allows: (n³ - n) / 6 for a chain of n relations, (n - 1)
//! 2^(n - 2) for a star, (3^n - 2^(n + 1) + 1) / 2 where each is connected with each.

use std::ops::ControlFlow;

use super::graph::{Set, members};

type Visit<'a> = &'a mut dyn FnMut(Set, Set) -> ControlFlow<()>;

/// Calls `visit` with each pair, until it breaks. `neighbours` has for each relation those that it is connected with.
pub fn for_each(neighbours: &[Set], visit: Visit) -> ControlFlow<()> {
    for first in (0..neighbours.len()).rev() {
        complements(neighbours, 1 << first, visit)?;
        grow(neighbours, 1 << first, up_to(first), &mut |set| {
            complements(neighbours, set, visit)
        })?;
    }
    ControlFlow::Continue(())
}

/// Every connected set that holds `set` and none of `excluded` beyond it, but for `set` itself; each after its subsets.
fn grow(neighbours: &[Set], set: Set, excluded: Set, visit: &mut dyn FnMut(Set) -> ControlFlow<()>) -> ControlFlow<()> {
    let around = around(neighbours, set) & !(excluded | set);
    for more in subsets(around) {
        visit(set | more)?;
    }
    for more in subsets(around) {
        grow(neighbours, set | more, excluded | around, visit)?;
    }
    ControlFlow::Continue(())
}

/// Every set that `set` makes a pair with, of those whose first relation comes after its own.
fn complements(neighbours: &[Set], set: Set, visit: Visit) -> ControlFlow<()> {
    let excluded = up_to(set.trailing_zeros() as usize) | set;
    let around = around(neighbours, set) & !excluded;
    let mut starts: Vec<usize> = members(around).collect();
    starts.reverse();
    for start in starts {
        visit(set, 1 << start)?;
        let excluded = excluded | (up_to(start) & around);
        grow(neighbours, 1 << start, excluded, &mut |other| visit(set, other))?;
    }
    ControlFlow::Continue(())
}

fn around(neighbours: &[Set], set: Set) -> Set {
    members(set).fold(0, |all, at| all | neighbours[at])
}

/// The relations up to this one.
fn up_to(at: usize) -> Set {
    (2 << at) - 1
}

/// The subsets of a set but the empty one, each after its own.
fn subsets(set: Set) -> impl Iterator<Item = Set> {
    let mut last: Set = 0;
    std::iter::from_fn(move || {
        last = last.wrapping_sub(set) & set;
        (last != 0).then_some(last)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn graph(relations: usize, connected: impl Fn(usize, usize) -> bool + Copy) -> Vec<Set> {
        let all: Set = (1 << relations) - 1;
        let of = |a: usize| members(all & !(1 << a)).filter(move |&b| connected(a, b) || connected(b, a));
        (0..relations)
            .map(|a| of(a).fold(0, |set: Set, b| set | 1 << b))
            .collect()
    }

    /// The pairs, after a check that none comes twice and each set is made before it is used.
    fn count(neighbours: &[Set]) -> usize {
        let mut seen = HashSet::new();
        let mut made: HashSet<Set> = (0..neighbours.len()).map(|at| 1 << at).collect();
        let done = for_each(neighbours, &mut |a, b| {
            assert!(a & b == 0 && made.contains(&a) && made.contains(&b), "{a:b} {b:b}");
            assert!(seen.insert((a.min(b), a.max(b))), "{a:b} {b:b} twice");
            made.insert(a | b);
            ControlFlow::Continue(())
        });
        assert!(done.is_continue());
        seen.len()
    }

    #[test]
    fn as_many_as_the_shape_allows() {
        for n in 2..9_usize {
            assert_eq!(count(&graph(n, |a, b| a + 1 == b)), (n.pow(3) - n) / 6);
            let star = (n - 1) << (n - 2);
            assert_eq!(count(&graph(n, |a, _| a == 0)), star);
            assert_eq!(count(&graph(n, |a, _| a == n - 1)), star);
            assert_eq!(
                count(&graph(n, |_, _| true)),
                (3_usize.pow(n as u32) + 1 - (2 << n)) / 2
            );
        }
        for n in 3..9_usize {
            let cycle = graph(n, |a, b| a + 1 == b || (a == 0 && b == n - 1));
            assert_eq!(count(&cycle), (n.pow(3) + n - 2 * n.pow(2)) / 2);
        }
        assert_eq!(count(&graph(4, |_, _| false)), 0);
    }
}
