//! A fragment in passes: where its tables and groups do not fit device memory, the part of its steps that has to do with a
//! key runs once for each range of this key, over the segments that have such.
//!
//! As partitioned joins and groupings do (He 2008, section 4.5; Sioulas et al. 2019, "Hardware-conscious Hash-Joins on GPUs"),
//! but rows are not moved: a pass leaves out those of other ranges, and segments of ordered tables without reading them.

use std::ops::Range;

use datafusion::common::JoinType;
use tenon_storage::{Bound, TableVersion};

use super::fragment::Fragment;
use super::stored::Stored;
use crate::codegen::Translated;
use crate::keys::is_integer_key;

/// A scan's column.
pub type ScanColumn = (usize, usize);

/// When a step runs, and the rows that it makes are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// All rows, before the passes.
    #[default]
    Once,
    /// In each pass its own.
    Pass,
    /// All rows, after the passes.
    After,
}

/// Columns that are equal wherever rows meet, and a range of their values in parts of one length.
#[derive(Clone, Debug, PartialEq)]
pub struct Passes {
    pub columns: Vec<ScanColumn>,
    low: i64,
    /// How many values a pass has.
    pub length: u64,
    pub count: u64,
}

impl Passes {
    /// In about so many parts; None: there are not as many values.
    pub fn of(class: &Class, count: u64) -> Option<Self> {
        let values = u64::try_from(i128::from(class.high) - i128::from(class.low))
            .ok()?
            .checked_add(1)?;
        let length = values.div_ceil(count);
        Some(Self {
            columns: class.columns.clone(),
            low: class.low,
            length,
            count: values.div_ceil(length),
        })
        .filter(|own| own.count > 1)
    }

    /// The column of a scan that is one of these.
    pub fn column(&self, scan: usize) -> Option<usize> {
        let own = self.columns.iter().find(|(own, _)| *own == scan);
        own.map(|(_, column)| *column)
    }

    pub fn has(&self, column: Option<ScanColumn>) -> bool {
        column.is_some_and(|column| self.columns.contains(&column))
    }

    /// The first and the last value of a pass.
    pub fn bounds(&self, pass: u64) -> (i64, i64) {
        let first = i128::from(self.low) + i128::from(pass) * i128::from(self.length);
        let last = first + i128::from(self.length) - 1;
        (first as i64, last.min(i64::MAX.into()) as i64)
    }

    /// The segments of a table that may have rows of a pass, and others between them.
    pub fn segments(&self, table: &TableVersion, column: usize, pass: u64) -> Range<usize> {
        let (first, last) = self.bounds(pass);
        let meets = |segment: usize| {
            let statistics = table.segments()[segment].statistics(column);
            match (integer(&statistics.min), integer(&statistics.max)) {
                (Some(low), Some(high)) => {
                    low <= last.into() && high >= first.into() || pass == 0 && statistics.null_count > 0
                }
                _ => true,
            }
        };
        let mut met = (0..table.segments().len()).filter(|&segment| meets(segment));
        let Some(begin) = met.next() else { return 0..0 };
        begin..met.next_back().unwrap_or(begin) + 1
    }

    /// Rows of the segments of each pass, for the pass that has most.
    pub fn rows_max(&self, table: &TableVersion, column: usize) -> u64 {
        let rows = |pass: u64| {
            let own = self.segments(table, column, pass);
            table.segments()[own].iter().map(|segment| segment.rows() as u64).sum()
        };
        (0..self.count).map(rows).max().unwrap_or(0)
    }
}

fn integer(bound: &Option<Bound>) -> Option<i128> {
    match bound {
        Some(Bound::Int(value)) => Some((*value).into()),
        Some(Bound::Decimal(value)) => Some(*value),
        _ => None,
    }
}

/// Columns that a fragment's joins compare with each other, or one that it groups by, with all of their values.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    pub columns: Vec<ScanColumn>,
    low: i64,
    high: i64,
    rows: u64,
}

/// Those of a fragment, the ones of the most rows first.
pub fn classes(fragment: &Fragment) -> Vec<Class> {
    let mut classes: Vec<Vec<ScanColumn>> = fragment.grouped.iter().map(|column| vec![*column]).collect();
    for (a, b) in &fragment.equal {
        let mut both = vec![*a, *b];
        classes.retain(|class| {
            let meets = class.contains(a) || class.contains(b);
            if meets {
                both.extend(class);
            }
            !meets
        });
        both.sort_unstable();
        both.dedup();
        classes.push(both);
    }
    let mut known: Vec<Class> = classes
        .into_iter()
        .filter_map(|columns| class(fragment, columns))
        .collect();
    known.sort_by_key(|class| std::cmp::Reverse(class.rows));
    known
}

fn class(fragment: &Fragment, columns: Vec<ScanColumn>) -> Option<Class> {
    let mut class = Class {
        columns,
        low: i64::MAX,
        high: i64::MIN,
        rows: 0,
    };
    for (at, (scan, column)) in class.columns.iter().enumerate() {
        let table = &fragment.scans[*scan].table;
        let is_own = |(other, _): &ScanColumn| other == scan;
        // A row of a scan is of one pass.
        if class.columns[..at].iter().any(is_own) || !is_integer_key(table.schema().field(*column).data_type()) {
            return None;
        }
        let Ok(Stored::Number { range: (low, high), .. }) = Stored::of(table, *column) else {
            return None;
        };
        class.low = class.low.min(i64::try_from(low).ok()?);
        class.high = class.high.max(i64::try_from(high).ok()?);
        class.rows = class.rows.saturating_add(table.rows());
    }
    (class.low <= class.high).then_some(class)
}

/// When a join's probing pipeline runs, and when the rows that it gives are there, by when its build side's and its probe
/// side's are; an error where a row would miss a partner of another pass, or come once in each.
pub fn joined(
    (build, probe): (Stage, Stage),
    by_key: bool,
    join_type: JoinType,
    null_aware: bool,
) -> Translated<(Stage, Stage)> {
    use JoinType::{Inner, LeftAnti, LeftSemi};
    let of_build = matches!(join_type, LeftSemi | LeftAnti);
    match (build, probe) {
        (Stage::Pass, _) | (_, Stage::Pass) if null_aware => Err("a NOT IN of all rows".into()),
        (Stage::Pass, Stage::Pass) if by_key => Ok((Stage::Pass, Stage::Pass)),
        (Stage::Pass, Stage::Once) if join_type == Inner || of_build => Ok((Stage::Pass, Stage::Pass)),
        (Stage::Once, Stage::Pass) if of_build => Ok((Stage::Pass, Stage::After)),
        (Stage::Once, Stage::Pass) if join_type != JoinType::Full => Ok((Stage::Pass, Stage::Pass)),
        (Stage::Pass, _) | (_, Stage::Pass) => Err("a join of rows of different passes".into()),
        (build, probe) => Ok((build.max(probe), build.max(probe))),
    }
}

#[cfg(test)]
mod tests {
    use super::{Class, Passes};

    fn class(low: i64, high: i64) -> Class {
        Class {
            columns: vec![],
            low,
            high,
            rows: 0,
        }
    }

    #[test]
    fn passes_have_each_value_once() {
        for (low, high, count) in [(1, 100, 4), (-7, 3, 2), (5, 9, 64), (i64::MAX - 9, i64::MAX, 3)] {
            let passes = Passes::of(&class(low, high), count).expect("there are several values");
            assert!(passes.count <= count);
            let mut next = i128::from(low);
            for pass in 0..passes.count {
                let (first, last) = passes.bounds(pass);
                assert_eq!(i128::from(first), next, "{low} to {high} in {count}");
                next = i128::from(last) + 1;
            }
            assert!(next > high.into(), "{low} to {high} in {count}");
        }
        assert_eq!(Passes::of(&class(3, 3), 8), None, "one value has no parts");
        assert_eq!(
            Passes::of(&class(i64::MIN, i64::MAX), 8),
            None,
            "more values than words tell"
        );
    }
}
