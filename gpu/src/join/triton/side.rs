//! One input of the join, in host memory, and runs of its rows.

use crate::error::{GpuError, Result};

/// Keys in host memory, compared as unsigned numbers. Registered or pinned memory is read at full speed.
#[derive(Clone, Copy)]
pub enum HostKeys<'a> {
    U32(&'a [u32]),
    U64(&'a [u64]),
}

/// What travels with the keys.
#[derive(Clone, Copy)]
pub enum HostValues<'a> {
    /// Row numbers: key `i` is row `i`'s.
    Rows,
    /// Row numbers where rows with null keys are left out, or payloads.
    U32(&'a [u32]),
    /// Payloads.
    U64(&'a [u64]),
}

/// Keys of one input with their values.
#[derive(Clone, Copy)]
pub struct HostSide<'a> {
    pub keys: HostKeys<'a>,
    pub values: HostValues<'a>,
    /// Rows of the input, with those whose key is null. Row numbers among the values are below it.
    pub row_count: u64,
}

impl<'a> HostSide<'a> {
    pub fn new(keys: HostKeys<'a>, values: HostValues<'a>, row_count: u64) -> Result<HostSide<'a>> {
        let side = HostSide {
            keys,
            values,
            row_count,
        };
        let named = match values {
            HostValues::Rows => side.len(),
            HostValues::U32(values) => values.len() as u64,
            HostValues::U64(values) => values.len() as u64,
        };
        if named != side.len() || row_count < side.len() || row_count >= u32::MAX as u64 {
            return Err(GpuError::Invalid(format!(
                "a join side of {} keys with {named} values and {row_count} rows, at most 2^32 - 2",
                side.len()
            )));
        }
        Ok(side)
    }

    /// Keys.
    pub fn len(&self) -> u64 {
        match self.keys {
            HostKeys::U32(keys) => keys.len() as u64,
            HostKeys::U64(keys) => keys.len() as u64,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn widths(&self) -> Widths {
        Widths {
            key: match self.keys {
                HostKeys::U32(_) => 4,
                HostKeys::U64(_) => 8,
            },
            value: match self.values {
                HostValues::Rows | HostValues::U32(_) => 4,
                HostValues::U64(_) => 8,
            },
        }
    }

    /// All rows as one run.
    fn run(&self) -> HostRun {
        HostRun {
            keys: match self.keys {
                HostKeys::U32(keys) => keys.as_ptr() as usize,
                HostKeys::U64(keys) => keys.as_ptr() as usize,
            },
            values: match self.values {
                HostValues::Rows => 0,
                HostValues::U32(values) => values.as_ptr() as usize,
                HostValues::U64(values) => values.as_ptr() as usize,
            },
            rows: self.len(),
            first_row: 0,
        }
    }
}

/// Bytes of a key and of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Widths {
    pub key: u64,
    pub value: u64,
}

impl Widths {
    pub fn row(&self) -> u64 {
        self.key + self.value
    }

    pub fn key_name(&self) -> &'static str {
        type_name(self.key)
    }

    pub fn value_name(&self) -> &'static str {
        type_name(self.value)
    }
}

fn type_name(width: u64) -> &'static str {
    if width == 4 { "u32" } else { "u64" }
}

/// Consecutive rows in host memory: addresses of their keys and values. No values (0): row numbers from `first_row`.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostRun {
    pub keys: usize,
    pub values: usize,
    pub rows: u64,
    pub first_row: u64,
}

impl HostRun {
    /// Cuts the first `rows` rows off.
    fn take(&mut self, rows: u64, widths: Widths) -> HostRun {
        let taken = HostRun { rows, ..*self };
        self.keys += (rows * widths.key) as usize;
        if self.values != 0 {
            self.values += (rows * widths.value) as usize;
        }
        self.rows -= rows;
        self.first_row += rows;
        taken
    }
}

/// Runs that are handed out in chunks.
pub(super) struct Runs {
    runs: std::vec::IntoIter<HostRun>,
    current: Option<HostRun>,
    pub widths: Widths,
    pub rows_left: u64,
    /// Whether kernels may read the rows where they are: in pinned memory.
    pub is_pinned: bool,
}

impl Runs {
    /// All rows of an input.
    pub fn input(side: &HostSide<'_>) -> Runs {
        Runs {
            rows_left: side.len(),
            runs: vec![side.run()].into_iter(),
            current: None,
            widths: side.widths(),
            is_pinned: false,
        }
    }

    /// Runs of pinned memory.
    pub fn pinned(runs: Vec<HostRun>, widths: Widths) -> Runs {
        Runs {
            rows_left: runs.iter().map(|run| run.rows).sum(),
            runs: runs.into_iter(),
            current: None,
            widths,
            is_pinned: true,
        }
    }

    /// The next `rows` rows, or all that are left, in at most `runs` runs. Rows without values come from one run only,
    /// whose row numbers count up.
    pub fn take(&mut self, rows: u64, runs: usize) -> Vec<HostRun> {
        let (mut chunk, mut wanted) = (Vec::new(), rows.min(self.rows_left));
        while wanted > 0 && chunk.len() < runs {
            let Some(run) = self.current.as_mut().filter(|run| run.rows > 0) else {
                self.current = self.runs.next();
                if self.current.is_none() {
                    break;
                }
                continue;
            };
            let taken = run.take(wanted.min(run.rows), self.widths);
            wanted -= taken.rows;
            self.rows_left -= taken.rows;
            chunk.push(taken);
        }
        chunk
    }
}
