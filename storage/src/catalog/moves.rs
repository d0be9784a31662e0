//! Rows by where they lie, across versions of their table.
//!
//! A row is named by its whole segment and its number there for as long as the segment lives, whatever other rows of it are
//! removed. Where segments are merged or rebuilt by a commit, their rows move: `Moves` remembers to where, so that a transaction
//! that began before finds the rows that it changes in what others have committed meanwhile.

use super::row_set::RowSet;
use crate::error::{Result, StorageError};
use crate::segment::{Live, Segment};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// How many moves are remembered, and in how many bytes: a transaction that is older than they reach fails as one whose rows
/// were changed.
const MOVES_MAX: usize = 1 << 17;
const BYTES_MAX: usize = 64 << 20;

/// The rows that a transaction takes out of a table, by their whole segments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Removed(HashMap<u64, RowSet>);

impl Removed {
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes rows of a whole segment, by their numbers there.
    pub fn add(&mut self, whole: &Segment, rows: impl IntoIterator<Item = u32>) {
        self.0.entry(whole.id()).or_default().extend(rows);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many rows it takes.
    pub fn rows(&self) -> usize {
        self.0.values().map(RowSet::len).sum()
    }

    /// What is left of a segment; None: all of it. SerializationFailure where a row to be taken is gone already.
    pub fn left_of(&self, segment: &Segment) -> Result<Option<Live>> {
        let Some(taken) = self.0.get(&segment.whole_id()) else {
            return Ok(None);
        };
        if !self.is_left_in(segment) {
            return Err(StorageError::serialization());
        }
        Ok(Some(match segment.live() {
            Some(live) => live.without(taken.iter()),
            None => Live::all(segment.rows()).without(taken.iter()),
        }))
    }

    /// Whether all rows that it takes of a segment are there.
    pub fn is_left_in(&self, segment: &Segment) -> bool {
        match (self.0.get(&segment.whole_id()), segment.live()) {
            (Some(taken), Some(live)) => taken.iter().all(|row| live.rank(row as usize).is_some()),
            _ => true,
        }
    }

    /// Where these rows lie after all moves that are known. SerializationFailure where some are gone.
    pub fn latest(&self, moves: &Moves) -> Result<Vec<RowsOf>> {
        let mut found: HashMap<u64, Vec<u32>> = HashMap::new();
        for (id, taken) in &self.0 {
            for row in taken.iter() {
                let (id, row) = moves.find((*id, row), |id| !moves.of.contains_key(&id))?;
                found.entry(id).or_default().push(row);
            }
        }
        let rows = |(segment, rows)| RowsOf { segment, rows };
        Ok(found.into_iter().map(rows).collect())
    }

    /// The same rows where they lie in other segments, which came of theirs. SerializationFailure where some are there no more.
    pub fn moved(&self, segments: &[Arc<Segment>], moves: &Moves) -> Result<Removed> {
        let there: HashMap<u64, &Arc<Segment>> = segments.iter().map(|own| (own.whole_id(), own)).collect();
        let mut found = Removed::default();
        let mut elsewhere: HashMap<u64, Vec<u32>> = HashMap::new();
        for (id, taken) in &self.0 {
            if let Some(segment) = there.get(id) {
                found.add(segment.whole(), taken.iter());
                continue;
            }
            for row in taken.iter() {
                let (id, row) = moves.find((*id, row), |id| there.contains_key(&id))?;
                elsewhere.entry(id).or_default().push(row);
            }
        }
        for (id, rows) in elsewhere {
            found.add(there[&id].whole(), rows);
        }
        Ok(found)
    }
}

/// Some rows of a whole segment.
#[derive(Debug)]
pub(crate) struct RowsOf {
    pub segment: u64,
    pub rows: Vec<u32>,
}

/// To where the rows of a whole segment went.
#[derive(Clone, Debug)]
pub(crate) struct Move {
    pub from: u64,
    pub to: u64,
    /// The number there of the first row that went.
    offset: u32,
    /// The rows that went; None: all.
    live: Option<Arc<Live>>,
}

impl Move {
    /// The rows left of a segment become rows of another, from a number on.
    pub fn of(segment: &Segment, to: &Segment, offset: usize) -> Move {
        Move {
            from: segment.whole_id(),
            to: to.id(),
            offset: offset as u32,
            live: segment.live().cloned(),
        }
    }

    /// The number there of a row that was here; None: it was gone.
    pub fn row(&self, row: u32) -> Option<u32> {
        let rank = match &self.live {
            Some(live) => live.rank(row as usize)? as u32,
            None => row,
        };
        Some(self.offset + rank)
    }

    fn bytes(&self) -> usize {
        size_of::<Move>() + self.live.as_ref().map_or(0, |live| live.bytes())
    }
}

/// The latest moves.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    of: HashMap<u64, Move>,
    order: VecDeque<u64>,
    bytes: usize,
}

impl Moves {
    pub fn add(&mut self, moves: Vec<Move>) {
        for one in moves {
            self.bytes += one.bytes();
            self.order.push_back(one.from);
            self.of.insert(one.from, one);
        }
        while self.order.len() > MOVES_MAX || self.bytes > BYTES_MAX {
            let Some(one) = self.order.pop_front().and_then(|from| self.of.remove(&from)) else {
                break;
            };
            self.bytes -= one.bytes();
        }
    }

    /// Where a row lies now, in a segment that is there.
    pub fn find(&self, (mut id, mut row): (u64, u32), is_there: impl Fn(u64) -> bool) -> Result<(u64, u32)> {
        while !is_there(id) {
            let next = self.of.get(&id).ok_or_else(StorageError::serialization)?;
            (id, row) = (next.to, next.row(row).ok_or_else(StorageError::serialization)?);
        }
        Ok((id, row))
    }
}
