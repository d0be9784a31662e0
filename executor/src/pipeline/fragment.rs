//! What a part of a query is on the device: pipelines, one after the other, over tables' columns and what earlier ones made.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::buffer::Buffer;
use tenon_gpu::pipeline::Code;
use tenon_storage::TableVersion;

use super::join::Test;

/// Pipelines and what they share.
pub struct Fragment {
    pub scans: Vec<Scan>,
    pub arrays: Vec<ArraySpec>,
    pub steps: Vec<Step>,
    /// Whether it holds for one execution alone.
    pub once: bool,
    /// Where what the host reads begins: arrays and bytes.
    pub results: Vec<(usize, u64)>,
    /// Whether its rows are sorted.
    pub sorts: bool,
    /// What tables of joins tell scans below their other sides, by the address of the
    /// runtime filter: of which of its keys that is.
    pub tests: HashMap<usize, (Arc<Test>, usize)>,
}

/// A table that is read.
pub struct Scan {
    /// What the query calls it.
    pub name: String,
    pub table: Arc<TableVersion>,
    /// Columns that go to the device.
    pub columns: Vec<usize>,
}

/// An array that pipelines make.
#[derive(Clone, Copy)]
pub struct ArraySpec {
    pub bytes: u64,
    /// What all of its bytes are at first; None: whatever they are.
    pub fill: Option<u8>,
}

/// One pipeline.
pub struct Step {
    /// What it is called where its time is told.
    pub name: String,
    pub code: Code,
    pub buffers: Vec<Buffer>,
    pub literals: Vec<u64>,
    pub inputs: Vec<Input>,
    pub source: Source,
}

/// What code knows by number.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Input {
    /// The descriptors of a scan's column.
    Column {
        scan: usize,
        column: usize,
    },
    /// The tiles of a scan.
    Tiles(usize),
    Array(usize),
    Number(u64),
}

/// Where a pipeline's rows come from.
#[derive(Clone, Copy)]
pub enum Source {
    Scan(usize),
    /// A table made before: the array of its row count, and the most rows it has.
    Made {
        count: usize,
        rows_max: u64,
    },
    /// Rows by number alone.
    Numbers(u64),
}

impl Fragment {
    pub fn new() -> Self {
        Self {
            scans: vec![],
            arrays: vec![],
            steps: vec![],
            once: false,
            results: vec![],
            sorts: false,
            tests: HashMap::new(),
        }
    }

    pub fn column(&mut self, scan: usize, column: usize) -> Input {
        let columns = &mut self.scans[scan].columns;
        if !columns.contains(&column) {
            columns.push(column);
        }
        Input::Column { scan, column }
    }

    /// An array of so many elements of so many bytes.
    pub fn array(&mut self, elements: u64, width: u64, fill: Option<u8>) -> usize {
        let bytes = elements.saturating_mul(width).max(16);
        self.arrays.push(ArraySpec { bytes, fill });
        self.arrays.len() - 1
    }

    /// Bytes of the arrays that are set first.
    pub fn set_bytes(&self) -> u64 {
        let set = self.arrays.iter().filter(|array| array.fill.is_some());
        set.fold(0, |sum, array| sum.saturating_add(array.bytes))
    }

    /// Bytes of all arrays.
    pub fn array_bytes(&self) -> u64 {
        self.arrays.iter().fold(0, |sum, array| sum.saturating_add(array.bytes))
    }
}
