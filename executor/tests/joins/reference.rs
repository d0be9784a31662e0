//! What SQL says a join is: two loops over rows.

use datafusion::common::JoinType;

use super::inputs::{Case, Range, Residual, Table};

/// Build row, probe row, mark.
pub type Row = (Option<i64>, Option<i64>, Option<bool>);

/// The rows of the join, in order.
pub fn rows(case: &Case) -> Vec<Row> {
    let (builds, probes) = case.rows;
    let mut pairs = vec![];
    let (mut build_met, mut probe_met) = (vec![false; builds], vec![false; probes]);
    for (b, build_met) in build_met.iter_mut().enumerate() {
        for (p, probe_met) in probe_met.iter_mut().enumerate() {
            if accepts(case, b, p) {
                pairs.push((Some(b as i64), Some(p as i64), None));
                *build_met = true;
                *probe_met = true;
            }
        }
    }
    let build = |wanted: bool| {
        (0..builds)
            .filter(move |&b| build_met[b] == wanted)
            .map(|b| (Some(b as i64), None, None))
    };
    let probe = |wanted: bool| {
        (0..probes)
            .filter(move |&p| probe_met[p] == wanted)
            .map(|p| (None, Some(p as i64), None))
    };
    let mut rows: Vec<Row> = match case.join_type {
        JoinType::Inner => pairs,
        JoinType::Left => pairs.into_iter().chain(build(false)).collect(),
        JoinType::Right => pairs.into_iter().chain(probe(false)).collect(),
        JoinType::Full => pairs.into_iter().chain(build(false)).chain(probe(false)).collect(),
        JoinType::LeftSemi => build(true).collect(),
        JoinType::LeftAnti => build(false).collect(),
        JoinType::RightSemi => probe(true).collect(),
        JoinType::RightAnti => probe(false).collect(),
        JoinType::LeftMark => {
            let (met, not) = (build.clone()(true), build(false));
            marked(met, not)
        }
        JoinType::RightMark => {
            let (met, not) = (probe.clone()(true), probe(false));
            marked(met, not)
        }
    };
    rows.sort_unstable();
    rows
}

fn marked(met: impl Iterator<Item = Row>, not: impl Iterator<Item = Row>) -> Vec<Row> {
    let mark = |mark: bool| move |(b, p, _): Row| (b, p, Some(mark));
    met.map(mark(true)).chain(not.map(mark(false))).collect()
}

fn accepts(case: &Case, b: usize, p: usize) -> bool {
    let (build, probe) = (&case.build, &case.probe);
    let keys = case
        .keys
        .iter()
        .enumerate()
        .all(|(at, key)| match (build.keys[at][b], probe.keys[at][p]) {
            (Some(b), Some(p)) => key.number(b) == key.number(p),
            (None, None) if case.null_equal => true,
            _ => case.null_aware,
        });
    keys && in_residual(case, b, p) && in_range(case, b, p)
}

fn in_residual(case: &Case, b: usize, p: usize) -> bool {
    let texts = case.build.t[b].as_deref().zip(case.probe.t[p].as_deref());
    let (build_text, (b, p)) = (case.build.t[b].as_deref(), (case.build.v[b], case.probe.v[p]));
    match case.residual {
        Residual::None => true,
        Residual::Less => less(b, p),
        Residual::Sum => b.zip(p).is_some_and(|(b, p)| b + p > 3),
        Residual::NullOrNotIn => b.is_none() || p.is_some_and(|p| p.abs() != 1),
        Residual::TextLess => texts.is_some_and(|(b, p)| b.as_bytes() < p.as_bytes()),
        Residual::Like => texts.is_some_and(|(b, p)| like(b, p)),
        Residual::NotLike => texts.is_some_and(|(b, p)| !like(p, b)),
        Residual::Lower => texts.is_some_and(|(b, p)| b.to_lowercase() == p),
        Residual::StartsWith => texts.is_some_and(|(b, p)| b.starts_with(p)),
        Residual::Joined => texts.is_some_and(|(b, p)| format!("{b}{p}") == "ab"),
        Residual::Longer => build_text.zip(p).is_some_and(|(b, p)| b.chars().count() as i64 > p),
        Residual::Quotient => p.is_none_or(|p| b.is_some_and(|b| b / p == 2)),
    }
}

/// `text LIKE pattern`, read from the left, character by character.
fn like(text: &str, pattern: &str) -> bool {
    let mut rest = pattern.chars();
    let Some(wanted) = rest.next() else {
        return text.is_empty();
    };
    let mut after = text.chars();
    match wanted {
        '%' => {
            let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            ends.into_iter().any(|at| like(&text[at..], rest.as_str()))
        }
        '_' => after.next().is_some() && like(after.as_str(), rest.as_str()),
        _ => {
            let literal = match wanted {
                '\\' => rest.next().unwrap_or(wanted),
                _ => wanted,
            };
            after.next() == Some(literal) && like(after.as_str(), rest.as_str())
        }
    }
}

/// Whether the residual condition fails on a pair whose keys and ranges may let it be asked.
pub fn may_fail(case: &Case) -> bool {
    case.residual == Residual::Quotient && case.probe.v.contains(&Some(0)) && case.rows.0 > 0
}

fn in_range(case: &Case, b: usize, p: usize) -> bool {
    let value = |table: &Table, y: bool, row: usize| {
        let drawn = if y { table.y[row] } else { table.x[row] };
        drawn.map(|n| case.range_type.number(n))
    };
    let (bx, by) = (value(&case.build, false, b), value(&case.build, true, b));
    let (px, py) = (value(&case.probe, false, p), value(&case.probe, true, p));
    let not_above = |low: Option<i64>, high: Option<i64>| low.is_some() && high.is_some() && low <= high;
    match case.range {
        Range::None => true,
        Range::Below => less(bx, px),
        Range::BuildBetween => not_above(px, bx) && not_above(bx, py),
        Range::ProbeBetween => less(bx, px) && not_above(px, by),
        Range::Differs => bx.is_some() && px.is_some() && bx != px,
    }
}

fn less(low: Option<i64>, high: Option<i64>) -> bool {
    low.is_some() && high.is_some() && low < high
}
