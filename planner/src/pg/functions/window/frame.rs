//! Where the frame of each row begins and ends.

use super::{fail, range};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, LargeBinaryArray};
use datafusion::arrow::compute::{SortOptions, partition};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use std::ops::Range;
use std::sync::Arc;
use tenon_storage::numeric::compare_key;
use tenon_storage::types::NUMERIC;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Units {
    Rows,
    Range,
    Groups,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Bound {
    UnboundedPreceding,
    Preceding,
    CurrentRow,
    Following,
    UnboundedFollowing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Exclude {
    Nothing,
    CurrentRow,
    Group,
    Ties,
}

/// A frame clause; the offsets themselves are arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    pub units: Units,
    pub start: Bound,
    pub end: Bound,
    pub exclude: Exclude,
}

impl Bound {
    pub fn has_offset(self) -> bool {
        matches!(self, Bound::Preceding | Bound::Following)
    }
}

impl Frame {
    /// As text, for the parsed tree and for names.
    pub fn code(&self) -> String {
        format!("{:?} {:?} {:?} {:?}", self.units, self.start, self.end, self.exclude)
    }

    /// What `code` gave.
    pub fn of_code(code: &str) -> Option<Self> {
        let [units, start, end, exclude] = <[&str; 4]>::try_from(code.split(' ').collect::<Vec<_>>()).ok()?;
        let bound = |word: &str| {
            Some(match word {
                "UnboundedPreceding" => Bound::UnboundedPreceding,
                "Preceding" => Bound::Preceding,
                "CurrentRow" => Bound::CurrentRow,
                "Following" => Bound::Following,
                "UnboundedFollowing" => Bound::UnboundedFollowing,
                _ => return None,
            })
        };
        Some(Self {
            units: match units {
                "Rows" => Units::Rows,
                "Range" => Units::Range,
                _ => Units::Groups,
            },
            start: bound(start)?,
            end: bound(end)?,
            exclude: match exclude {
                "CurrentRow" => Exclude::CurrentRow,
                "Group" => Exclude::Group,
                "Ties" => Exclude::Ties,
                _ => Exclude::Nothing,
            },
        })
    }

    /// A frame of DataFusion's and its offsets.
    pub fn of_datafusion(frame: &WindowFrame) -> (Self, [Option<datafusion::common::ScalarValue>; 2]) {
        let bound = |bound: &WindowFrameBound| match bound {
            WindowFrameBound::Preceding(value) if value.is_null() => (Bound::UnboundedPreceding, None),
            WindowFrameBound::Preceding(value) => (Bound::Preceding, Some(value.clone())),
            WindowFrameBound::CurrentRow => (Bound::CurrentRow, None),
            WindowFrameBound::Following(value) if value.is_null() => (Bound::UnboundedFollowing, None),
            WindowFrameBound::Following(value) => (Bound::Following, Some(value.clone())),
        };
        let ((start, from), (end, to)) = (bound(&frame.start_bound), bound(&frame.end_bound));
        let own = Self {
            units: match frame.units {
                WindowFrameUnits::Rows => Units::Rows,
                WindowFrameUnits::Range => Units::Range,
                WindowFrameUnits::Groups => Units::Groups,
            },
            start,
            end,
            exclude: Exclude::Nothing,
        };
        (own, [from, to])
    }
}

/// A column that has equal bits where this one's values are equal: numerics without their scales, one zero, one NaN.
fn of_peers(key: &ArrayRef) -> ArrayRef {
    match key.data_type() {
        &NUMERIC => {
            let values = key.as_binary::<i64>().iter();
            let keys: LargeBinaryArray = values.map(|value| value.map(compare_key)).collect();
            Arc::new(keys)
        }
        DataType::Float32 => Arc::new(
            key.as_primitive::<Float32Type>()
                .unary::<_, Float32Type>(|value| if value.is_nan() { f32::NAN } else { value + 0.0 }),
        ),
        DataType::Float64 => Arc::new(
            key.as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(|value| if value.is_nan() { f64::NAN } else { value + 0.0 }),
        ),
        _ => key.clone(),
    }
}

/// The frames of a partition's rows.
pub(super) struct Frames {
    frame: Frame,
    rows: usize,
    /// Rows that are peers, in order.
    groups: Vec<Range<usize>>,
    /// Each row's group.
    group_of: Vec<usize>,
    /// Offsets in rows or groups.
    offsets: [usize; 2],
    /// First and last rows of RANGE with offsets.
    ranges: [Option<Vec<usize>>; 2],
}

impl Frames {
    /// `keys` are the columns of ORDER BY, `offsets` those of the start's and the end's offset.
    pub fn new(
        frame: Frame,
        rows: usize,
        (keys, options): (&[ArrayRef], &[SortOptions]),
        offsets: [&ArrayRef; 2],
    ) -> Result<Self> {
        let groups = match keys {
            [] => std::iter::once(0..rows).collect(),
            keys => partition(&keys.iter().map(of_peers).collect::<Vec<_>>())?.ranges(),
        };
        let mut group_of = vec![0; rows];
        for (number, group) in groups.iter().enumerate() {
            group_of[group.clone()].fill(number);
        }
        let mut own = Self {
            frame,
            rows,
            groups,
            group_of,
            offsets: [0; 2],
            ranges: [None, None],
        };
        for (at, bound) in [frame.start, frame.end].into_iter().enumerate() {
            if rows == 0 || !bound.has_offset() {
                continue;
            }
            let which = ["starting", "ending"][at];
            if offsets[at].is_null(0) {
                return Err(fail("22004", format!("frame {which} offset must not be null")));
            }
            if frame.units == Units::Range {
                let ([key], [options]) = (keys, options) else {
                    return plan_err!("RANGE with offset needs one ORDER BY column");
                };
                own.ranges[at] = Some(range::bounds(key, *options, offsets[at], bound, at == 0)?);
            } else {
                let offset = offsets[at].as_primitive::<Int64Type>().value(0);
                own.offsets[at] = usize::try_from(offset)
                    .map_err(|_| fail("22013", format!("frame {which} offset must not be negative")))?;
            }
        }
        Ok(own)
    }

    /// The frame of a row, without what is excluded from it.
    pub fn of(&self, row: usize) -> Range<usize> {
        let start = self.start(row).min(self.rows);
        start..self.end(row).clamp(start, self.rows)
    }

    fn start(&self, row: usize) -> usize {
        if let Some(found) = &self.ranges[0] {
            return found[row];
        }
        let offset = self.offsets[0];
        match (self.frame.start, self.frame.units) {
            (Bound::UnboundedPreceding, _) => 0,
            (Bound::UnboundedFollowing, _) => self.rows,
            (Bound::CurrentRow, Units::Rows) => row,
            (Bound::CurrentRow, _) => self.peers(row).start,
            (Bound::Preceding, Units::Rows) => row.saturating_sub(offset),
            (Bound::Following, Units::Rows) => row.saturating_add(offset),
            (Bound::Preceding, _) => self.groups[self.group_of[row].saturating_sub(offset)].start,
            (Bound::Following, _) => self.group(row, offset).map_or(self.rows, |group| group.start),
        }
    }

    /// The row after the last.
    fn end(&self, row: usize) -> usize {
        if let Some(found) = &self.ranges[1] {
            return found[row];
        }
        let offset = self.offsets[1];
        match (self.frame.end, self.frame.units) {
            (Bound::UnboundedPreceding, _) => 0,
            (Bound::UnboundedFollowing, _) => self.rows,
            (Bound::CurrentRow, Units::Rows) => row + 1,
            (Bound::CurrentRow, _) => self.peers(row).end,
            (Bound::Preceding, Units::Rows) => (row + 1).saturating_sub(offset),
            (Bound::Following, Units::Rows) => row.saturating_add(1).saturating_add(offset),
            (Bound::Preceding, _) => match self.group_of[row].checked_sub(offset) {
                Some(group) => self.groups[group].end,
                None => 0,
            },
            (Bound::Following, _) => self.group(row, offset).map_or(self.rows, |group| group.end),
        }
    }

    fn group(&self, row: usize, after: usize) -> Option<&Range<usize>> {
        self.groups.get(self.group_of[row].saturating_add(after))
    }

    /// The rows that are equal to a row in the window's order.
    fn peers(&self, row: usize) -> Range<usize> {
        self.groups[self.group_of[row]].clone()
    }

    /// What EXCLUDE takes out of a row's frame: rows before some of which stay, and after.
    pub fn excluded(&self, row: usize) -> [Range<usize>; 2] {
        let peers = self.peers(row);
        match self.frame.exclude {
            Exclude::Nothing => [self.rows..self.rows, self.rows..self.rows],
            Exclude::CurrentRow => [row..row + 1, row + 1..row + 1],
            Exclude::Group => [peers.clone(), peers.end..peers.end],
            Exclude::Ties => [peers.start..row, row + 1..peers.end],
        }
    }

    /// The parts of a row's frame that are left after exclusion, in order.
    pub fn parts(&self, row: usize) -> [Range<usize>; 3] {
        let (frame, [first, second]) = (self.of(row), self.excluded(row));
        let within = |from: usize, to: usize| {
            let from = from.clamp(frame.start, frame.end);
            from..to.clamp(from, frame.end)
        };
        [
            within(frame.start, first.start),
            within(first.end, second.start),
            within(second.end, frame.end),
        ]
    }

    /// The rows on which a row's value depends, itself among them.
    pub fn extent(&self, row: usize) -> Range<usize> {
        self.around(row, self.of(row))
    }

    /// Some rows, the row itself, and those that say where its frame lies.
    pub fn around(&self, row: usize, rows: Range<usize>) -> Range<usize> {
        let by_peers = self.frame.units != Units::Rows || matches!(self.frame.exclude, Exclude::Group | Exclude::Ties);
        let own = if by_peers { self.peers(row) } else { row..row + 1 };
        rows.start.min(own.start)..rows.end.max(own.end)
    }

    pub fn excludes(&self) -> bool {
        self.frame.exclude != Exclude::Nothing
    }
}
