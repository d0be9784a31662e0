//! One input of a join on the CPU, and the pairs that come out.

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};

use super::css_tree::CssKey;
use super::matcher::{Emit, PAIRS_MAX};
use crate::Stop;
use crate::sort::sort_pairs_unless;
use tenon_gpu::primitives::sort::{SortKey, SortOptions};
use tenon_gpu::{GpuError, Result};

/// The keys of one input, and the row of each; `None`: key `i` is row `i`'s. Rows with a null key are left out.
#[derive(Clone, Debug)]
pub struct Side<'a, K: Clone> {
    pub(super) keys: Cow<'a, [K]>,
    pub(super) rows: Option<Cow<'a, [u32]>>,
}

impl<'a, K: CssKey + SortKey> Side<'a, K> {
    /// Borrowed or owned.
    pub fn new(keys: impl Into<Cow<'a, [K]>>, rows: Option<Cow<'a, [u32]>>) -> Result<Side<'a, K>> {
        let keys = keys.into();
        let named = rows.as_ref().map_or(keys.len(), |rows| rows.len());
        if named != keys.len() || keys.len() >= u32::MAX as usize {
            return Err(GpuError::Invalid(format!(
                "a join side of {} keys with {named} row numbers",
                keys.len()
            )));
        }
        Ok(Side { keys, rows })
    }

    /// The same, ascending by key, on all cores: keys and rows of its own.
    pub fn sorted(self) -> Result<Side<'static, K>> {
        self.sorted_unless(Stop::never())
    }

    /// The same, if the work is wanted to its end.
    pub fn sorted_unless(self, stop: Stop<'_>) -> Result<Side<'static, K>> {
        let rows = self.rows.unwrap_or_else(|| (0..self.keys.len() as u32).collect());
        let mut keys_out = vec![K::default(); self.keys.len()];
        let mut rows_out = vec![0; rows.len()];
        let options = SortOptions::default();
        sort_pairs_unless(stop, &self.keys, &rows, &mut keys_out, &mut rows_out, &options)?;
        Ok(Side {
            keys: Cow::Owned(keys_out),
            rows: Some(Cow::Owned(rows_out)),
        })
    }
}

/// The row behind a place.
#[inline]
pub(super) fn row_of(rows: &Option<Cow<'_, [u32]>>, place: usize) -> u32 {
    match rows {
        Some(rows) => rows[place],
        None => place as u32,
    }
}

/// Pairs on their way to the caller.
pub(super) struct PairBuffer<'e, 'f> {
    build: Vec<u32>,
    probe: Vec<u32>,
    emit: &'e mut Emit<'f>,
}

impl<'e, 'f> PairBuffer<'e, 'f> {
    pub fn new(emit: &'e mut Emit<'f>) -> PairBuffer<'e, 'f> {
        PairBuffer {
            build: Vec::with_capacity(PAIRS_MAX),
            probe: Vec::with_capacity(PAIRS_MAX),
            emit,
        }
    }

    /// One pair.
    #[inline]
    pub fn push(&mut self, build_row: u32, probe_row: u32) -> ControlFlow<()> {
        self.build.push(build_row);
        self.probe.push(probe_row);
        match self.build.len() < PAIRS_MAX {
            true => ControlFlow::Continue(()),
            false => self.flush(),
        }
    }

    /// The build rows at `places` with one probe row.
    pub fn extend(
        &mut self,
        rows: &Option<Cow<'_, [u32]>>,
        mut places: Range<usize>,
        probe_row: u32,
    ) -> ControlFlow<()> {
        while !places.is_empty() {
            let end = places.end.min(places.start + PAIRS_MAX - self.build.len());
            match rows {
                Some(rows) => self.build.extend_from_slice(&rows[places.start..end]),
                None => self.build.extend(places.start as u32..end as u32),
            }
            self.probe.resize(self.build.len(), probe_row);
            places.start = end;
            if self.build.len() == PAIRS_MAX {
                self.flush()?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Hands over what is left.
    pub fn flush(&mut self) -> ControlFlow<()> {
        if self.build.is_empty() {
            return ControlFlow::Continue(());
        }
        let flow = (self.emit)(&self.build, &self.probe);
        self.build.clear();
        self.probe.clear();
        flow
    }
}
