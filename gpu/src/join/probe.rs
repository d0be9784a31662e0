//! Probes of a sorted build side: which of its keys each probe row asks for.

use std::ops::Bound;

use super::side::{Keys, Side};
use super::sorted::{Held, HeldKeys, SortedSide};
use crate::error::{GpuError, Result};
use crate::memory::DeviceView;

/// The keys asked for, by probe.
pub enum Wanted<'a> {
    /// The build keys equal to the probe's.
    Equal(HeldKeys<'a>),
    /// The build keys between two numbers of the probe's: band joins and inequalities (Govindaraju 2005). Numbers that
    /// cross ask for nothing.
    Between {
        low: Bound<HeldKeys<'a>>,
        high: Bound<HeldKeys<'a>>,
    },
}

/// Probes, and the row of each.
pub struct Probe<'a> {
    pub(super) wanted: Wanted<'a>,
    /// Whether the probes' numbers ascend, both of a range.
    pub(super) ascending: bool,
    pub(super) len: u64,
    pub(super) rows: Option<Held<'a, u32>>,
}

impl<'a> Probe<'a> {
    /// Equality with the side's keys.
    pub fn equal(side: Side<'a>) -> Probe<'a> {
        Probe {
            len: side.keys.len(),
            wanted: Wanted::Equal(side.keys.into()),
            ascending: false,
            rows: side.rows.map(Held::Borrowed),
        }
    }

    /// Equality with the keys of a sorted side.
    pub fn equal_sorted(side: SortedSide<'a>) -> Probe<'a> {
        Probe {
            len: side.keys().len(),
            wanted: Wanted::Equal(side.keys),
            ascending: true,
            rows: side.rows,
        }
    }

    /// Ranges by probe: `len` of them, whose row is `rows[i]`, or `i`.
    pub fn between(
        len: u64,
        rows: Option<DeviceView<'a, u32>>,
        low: Bound<Keys<'a>>,
        high: Bound<Keys<'a>>,
    ) -> Result<Probe<'a>> {
        Probe::between_held(len, rows, low.map(HeldKeys::from), high.map(HeldKeys::from))
    }

    pub(super) fn between_held(
        len: u64,
        rows: Option<DeviceView<'a, u32>>,
        low: Bound<HeldKeys<'a>>,
        high: Bound<HeldKeys<'a>>,
    ) -> Result<Probe<'a>> {
        let bounds = [&low, &high].map(keys_of);
        let named = rows.map_or(len, |rows| rows.len());
        if named != len || bounds.iter().flatten().any(|keys| keys.len() != len) {
            return Err(GpuError::Invalid(format!(
                "{len} probes with {named} rows and other numbers of bounds"
            )));
        }
        if len >= u32::MAX as u64 {
            return Err(GpuError::Invalid(format!("{len} probes, at most 2^32 - 2")));
        }
        Ok(Probe {
            wanted: Wanted::Between { low, high },
            ascending: false,
            len,
            rows: rows.map(Held::Borrowed),
        })
    }

    /// Says that the numbers ascend, so that a merge finds the partners.
    pub fn ascending(self) -> Probe<'a> {
        Probe {
            ascending: true,
            ..self
        }
    }

    /// The numbers, low and high.
    pub(super) fn bounds(&self) -> [Bound<Keys<'_>>; 2] {
        match &self.wanted {
            Wanted::Equal(keys) => [Bound::Included(keys.view()); 2],
            Wanted::Between { low, high } => [low, high].map(|bound| bound.as_ref().map(HeldKeys::view)),
        }
    }

    pub(super) fn is_equal(&self) -> bool {
        matches!(self.wanted, Wanted::Equal(_))
    }
}

fn keys_of<'b>(bound: &'b Bound<HeldKeys<'_>>) -> Option<Keys<'b>> {
    match bound {
        Bound::Included(keys) | Bound::Excluded(keys) => Some(keys.view()),
        Bound::Unbounded => None,
    }
}
