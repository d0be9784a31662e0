//! What a part of a query is on the device: pipelines, one after the other, over tables' columns and what earlier ones made.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use datafusion::physical_plan::ExecutionPlan;
use tenon_gpu::pipeline::PipelineCode;
use tenon_storage::TableVersion;

use super::counted::Counters;
use super::given::GivenRows;
use super::join::Test;
use super::layout::Layout;
use super::order_steps::{Order, Sums};
use super::passes::{Passes, ScanColumn, Stage};
use super::stored::Stored;
use crate::codegen::Translated;
use crate::join::choice::Choice;

/// Rows that a table has room for beside those seen before, or twice those expected.
const ROWS_BESIDE_SEEN: u64 = 1 << 10;
const ROWS_BESIDE_EXPECTED: u64 = 1 << 10;

/// A table has at most so many rows: their numbers are words of 32 bits, of which two mean others.
pub const ROWS_MAX: u64 = u32::MAX as u64 - 2;

/// Pipelines and what they share.
pub struct Fragment {
    pub scans: Vec<Scan>,
    pub arrays: Vec<ArraySpec>,
    pub steps: Vec<Step>,
    /// Whether it holds for one execution alone.
    pub once: bool,
    /// Where what the host reads begins: arrays and bytes.
    pub results: Vec<(usize, u64)>,
    /// Whether its rows are sorted in the end.
    pub sorts: bool,
    /// Words that rows are put in order by meanwhile, of all rows there may be.
    pub ordered_words: u64,
    /// Device memory that steps take beside their arrays.
    pub working_bytes: u64,
    /// The tables that pipelines make: the array of each one's row count, and the rows it has room for.
    pub tables: Vec<(usize, u64)>,
    /// Scans' columns that joins compare, and such that rows are grouped by.
    pub equal: Vec<(ScanColumn, ScanColumn)>,
    pub grouped: Vec<ScanColumn>,
    /// When each step runs.
    pub stages: Vec<Stage>,
    sizes: Sizes,
    layout: Layout,
    /// What tables of joins tell scans below their other sides, by the address of the
    /// runtime filter: of which of its keys that is.
    pub tests: HashMap<usize, (Arc<Test>, usize)>,
    /// The addresses of the runtime filters of its joins.
    pub filters: HashSet<usize>,
    /// How its joins are done, each by the address of its spec.
    pub joins: Vec<(usize, Choice)>,
    /// Whether joins outside leave rows out of its scans where the CPU reads them, which no pipeline knows of.
    pub filtered_outside: bool,
    /// Scans whose texts are read later where they were, and arrays that have texts' bytes, which are.
    pub texts_of: HashSet<usize>,
    pub texts_in: HashSet<usize>,
    /// Where EXPLAIN ANALYZE asks for nodes' rows.
    pub counters: Option<Counters>,
    /// Whether kernels are to be able to read what the host may make of other columns.
    pub reads_all: bool,
}

/// A table that is read.
pub struct Scan {
    /// What the query calls it.
    pub name: String,
    /// The node's address.
    pub node: usize,
    pub table: Arc<TableVersion>,
    /// Columns that go to the device.
    pub columns: Vec<usize>,
    /// Whether the CPU has made its rows.
    pub given: bool,
}

/// An array that pipelines make.
#[derive(Clone, Copy)]
pub struct ArraySpec {
    pub bytes: u64,
    /// What all of its bytes are at first; None: whatever they are.
    pub fill: Option<u8>,
    /// Whether each pass has its own.
    pub in_pass: bool,
}

/// What is known of how many rows tables get, whose arrays else have room for all there may be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sizes {
    /// What each had when the same ran before, in the order in which they are made.
    pub seen: Vec<Option<u64>>,
    /// Whether it ran in no passes then: a pass has a part of these rows.
    pub seen_whole: bool,
    /// Whether the others get room for what the planner expects, and by how many bits less.
    pub sparing: bool,
    pub fewer_bits: u32,
    /// In which passes rows come.
    pub passes: Option<Arc<Passes>>,
    /// Whether the rows of nodes are counted.
    pub counts_rows: bool,
    /// Rows that the CPU has made for it.
    pub given: Option<Arc<GivenRows>>,
}

/// What runs, one after the other.
pub enum Step {
    Pipeline(Box<Pipeline>),
    /// The host waits here, to learn how many rows there are.
    Order(Order),
    Sums(Sums),
}

impl Step {
    pub fn name(&self) -> &str {
        match self {
            Self::Pipeline(own) => &own.name,
            Self::Order(own) => &own.name,
            Self::Sums(own) => &own.name,
        }
    }

    pub fn pipeline(&self) -> Option<&Pipeline> {
        match self {
            Self::Pipeline(own) => Some(own),
            _ => None,
        }
    }
}

/// One pipeline.
pub struct Pipeline {
    /// What it is called where its time is told.
    pub name: String,
    pub code: PipelineCode,
    pub buffers: Vec<Buffer>,
    pub literals: Vec<u64>,
    pub inputs: Vec<Input>,
    pub source: Source,
    /// The words of an order, where it is for nothing else: if that is kept it need not run.
    pub words_of_order: Option<usize>,
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
    /// The first and the last value of the pass's keys, and whether it is the first pass.
    First,
    Last,
    IsFirst,
}

/// Where a pipeline's rows come from.
#[derive(Clone, Copy)]
pub enum Source {
    Scan(usize),
    /// A table made before: the array of its row count, and the rows it has room for.
    Made {
        count: usize,
        room: u64,
    },
    /// Rows by number alone.
    Numbers(u64),
}

impl Fragment {
    pub fn new(sizes: Sizes) -> Self {
        let counts_rows = sizes.counts_rows;
        let mut fragment = Self {
            sizes,
            tables: vec![],
            equal: vec![],
            grouped: vec![],
            stages: vec![],
            layout: Layout::default(),
            scans: vec![],
            arrays: vec![],
            steps: vec![],
            once: false,
            results: vec![],
            sorts: false,
            ordered_words: 0,
            working_bytes: 0,
            tests: HashMap::new(),
            filters: HashSet::new(),
            joins: vec![],
            filtered_outside: false,
            texts_of: HashSet::new(),
            texts_in: HashSet::new(),
            counters: None,
            reads_all: false,
        };
        fragment.counters = counts_rows.then(|| Counters::new(&mut fragment));
        fragment
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
        self.arrays.push(ArraySpec {
            bytes,
            fill,
            in_pass: false,
        });
        self.arrays.len() - 1
    }

    /// A table of rows that are counted in this array: so many there may be, and so many are expected. Gives how many it shall
    /// have room for; more than `usual` if it was full.
    pub fn table(&mut self, count: usize, stage: Stage, usual: u64, most: u64, expected: Option<u64>) -> u64 {
        let room = match (self.sizes.seen.get(self.tables.len()), expected) {
            (Some(Some(seen)), _) if self.sizes.seen_whole && stage == Stage::Pass => {
                let own = seen.div_ceil(self.pass_count());
                own.saturating_mul(2).saturating_add(ROWS_BESIDE_SEEN)
            }
            // In every run of the same there are as many, but for ties.
            (Some(Some(seen)), _) => seen.saturating_add(seen / 16).saturating_add(ROWS_BESIDE_SEEN),
            (_, Some(expected)) if self.sizes.sparing => (expected >> self.sizes.fewer_bits)
                .saturating_mul(2)
                .saturating_add(ROWS_BESIDE_EXPECTED),
            _ => usual,
        };
        let room = room.clamp(1, most.max(1));
        self.tables.push((count, room));
        room
    }

    /// The rows that a node gives, where the CPU has made them.
    pub fn given(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<TableVersion>> {
        self.sizes.given.as_ref()?.of(plan)
    }

    /// Whether memory counts for more than time.
    pub fn is_sparing(&self) -> bool {
        self.sizes.sparing
    }

    /// A pipeline that reads these keeps where texts are: in columns or, `in_arrays`, in arrays.
    pub fn keep_texts(&mut self, inputs: &[Input], in_arrays: bool) -> Translated<()> {
        if in_arrays && self.passes().is_some() {
            return Err("texts of groups of each pass".into());
        }
        for input in inputs {
            match input {
                Input::Column { scan, column } => {
                    let table = &self.scans[*scan].table;
                    let is_text = *table.schema().field(*column).data_type() == DataType::Utf8View;
                    if is_text && matches!(Stored::of(table, *column), Ok(Stored::Text)) {
                        self.texts_of.insert(*scan);
                    }
                }
                Input::Array(array) if in_arrays => {
                    self.texts_in.insert(*array);
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub fn push(&mut self, step: Step, stage: Stage) {
        self.steps.push(step);
        self.stages.push(stage);
    }

    /// When all rows of a table are there that gathers those of all passes.
    pub fn gathered(&self) -> Stage {
        match self.sizes.passes {
            Some(_) => Stage::After,
            None => Stage::Once,
        }
    }

    /// The arrays from this one on are of what is there in this stage.
    pub fn arrays_of(&mut self, stage: Stage, first: usize) {
        self.arrays[first..]
            .iter_mut()
            .for_each(|array| array.in_pass = stage == Stage::Pass);
    }

    /// All steps are there: in which order they run, and where arrays lie.
    pub fn lay_out(&mut self) {
        let mut steps: Vec<(Stage, Step)> = self.stages.drain(..).zip(self.steps.drain(..)).collect();
        steps.sort_by_key(|(stage, _)| *stage);
        (self.stages, self.steps) = steps.into_iter().unzip();
        self.layout = Layout::of(self);
    }

    /// In which passes it runs.
    pub fn passes(&self) -> Option<&Arc<Passes>> {
        self.sizes.passes.as_ref()
    }

    /// How often all segments of a scan are read.
    pub fn reads(&self, scan: usize) -> f64 {
        let is_own = |step: &Step| {
            step.pipeline()
                .is_some_and(|own| matches!(own.source, Source::Scan(own) if own == scan))
        };
        let at = self.steps.iter().position(is_own);
        let in_passes = at.is_some_and(|at| self.stages[at] == Stage::Pass);
        let Some(passes) = self.passes().filter(|_| in_passes) else {
            return 1.0;
        };
        let segments = self.scans[scan].table.segments().len().max(1);
        let read = (0..passes.count).map(|pass| self.segments_of_pass(scan, pass).map_or(segments, |own| own.len()));
        read.sum::<usize>() as f64 / segments as f64
    }

    /// The segments of a scan that a pass reads, where it does not read all.
    pub fn segments_of_pass(&self, scan: usize, pass: u64) -> Option<Range<usize>> {
        let passes = self.sizes.passes.as_ref()?;
        Some(passes.segments(&self.scans[scan].table, passes.column(scan)?, pass))
    }

    /// The steps that each pass runs.
    pub fn in_passes(&self) -> Range<usize> {
        let before = |stage: Stage| self.stages.partition_point(|own| *own < stage);
        before(Stage::Pass)..before(Stage::After)
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Bytes of the arrays that are set first, those of each pass once for each.
    pub fn set_bytes(&self) -> u64 {
        let set = (0..self.arrays.len()).filter(|&array| self.arrays[array].fill.is_some());
        set.fold(0, |sum, array| {
            let bytes = self.arrays[array].bytes.saturating_mul(self.times(array));
            sum.saturating_add(bytes)
        })
    }

    /// How often an array is made anew.
    pub fn times(&self, array: usize) -> u64 {
        match self.arrays[array].in_pass {
            true => self.pass_count(),
            false => 1,
        }
    }

    fn pass_count(&self) -> u64 {
        self.passes().map_or(1, |passes| passes.count)
    }

    /// How many steps run, those of the passes once for each.
    pub fn launches(&self) -> usize {
        let in_passes = self.in_passes().len();
        self.steps.len() - in_passes + in_passes * self.pass_count() as usize
    }

    /// Bytes of all arrays that are there at once.
    pub fn array_bytes(&self) -> u64 {
        let slots = self.layout.slots.iter();
        slots.fold(self.working_bytes, |sum, bytes| sum.saturating_add(*bytes))
    }
}
