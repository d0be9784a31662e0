//! Which rows of a chunk pass: static filters, then what a sort above still wants, runtime filters, and the costly static
//! filters.
//!
//! More than 400 lines because the order of filters and what each costs are one decision.
//!
//! A segment whose bounds exclude every row is skipped, and a conjunct that its bounds prove is not evaluated. A filter
//! over one dictionary column is answered once for each dictionary value, one over a column of runs once for each run. A runtime filter that keeps more than three
//! quarters of what it has seen is dropped for the rest of this partition.

use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, UInt32Array};
use arrow::compute::{FilterBuilder, FilterPredicate};
use arrow::datatypes::{Date32Type, Int32Type, Int64Type};
use datafusion::common::{DataFusionError, Result, internal_err};
use tenon_storage::{Bound, Codes, DictionaryColumn, Differences, NarrowColumn, RunLengthColumn, Segment};

use super::filter::{Cost, ScanFilter};
use super::ranges::{NarrowRange, pass};
use super::top::Top;
use crate::gather::pick;
use crate::keys::append_integer_keys;
use crate::runtime_filter::KeySet;

/// Rows that a runtime filter sees before it is judged, and the share (in 1/256) that it may keep.
const TRIAL_ROWS: usize = 32 * 1024;
const KEPT_MAX: usize = 192;
/// With fewer than one row in this many left, filters run over gathered rows instead of the chunk.
const SPARSE: usize = 8;

pub struct Selector {
    filters: Arc<[ScanFilter]>,
    runtime: Vec<Runtime>,
    top: Option<Top>,
    /// Per filter: whether this segment's bounds prove it.
    proven: Vec<bool>,
    answers: Vec<Answers>,
    dictionaries: Vec<Option<DictionaryColumn>>,
    segment: Option<u64>,
    segment_passes: bool,
}

/// What a filter says of the values of a dictionary.
#[derive(Clone, Default)]
struct Answers {
    dictionary_id: u64,
    /// For each of the first values.
    of: Vec<bool>,
    /// Rows that were asked about before there were answers.
    rows: usize,
}

impl Answers {
    /// Answers for all values that the column's codes index; None while these are more than the rows there were to ask about.
    fn for_rows(&mut self, filter: &ScanFilter, column: &DictionaryColumn, rows: usize) -> Result<Option<&[bool]>> {
        if self.dictionary_id != column.dictionary_id() {
            *self = Self {
                dictionary_id: column.dictionary_id(),
                ..Self::default()
            };
        }
        // A later segment's values begin with an earlier one's.
        let (known, len) = (self.of.len(), column.values_len());
        if known < len {
            self.rows += rows;
            if self.rows < len - known {
                return Ok(None);
            }
            let values = Arc::new(column.values().slice(known, len - known)) as ArrayRef;
            let answers = filter.evaluate(vec![values], len - known)?;
            self.of
                .extend((0..answers.len()).map(|at| answers.is_valid(at) && answers.value(at)));
        }
        Ok(Some(&self.of))
    }
}

struct Runtime {
    column: usize,
    set: Arc<OnceLock<KeySet>>,
    seen: usize,
    kept: usize,
}

impl Runtime {
    fn is_useful(&self) -> bool {
        self.set.get().is_some() && (self.seen < TRIAL_ROWS || self.kept <= self.seen / 256 * KEPT_MAX)
    }
}

impl Selector {
    pub fn new(filters: Arc<[ScanFilter]>, runtime: Vec<(usize, Arc<OnceLock<KeySet>>)>) -> Self {
        let count = filters.len();
        let runtime = runtime
            .into_iter()
            .map(|(column, set)| Runtime {
                column,
                set,
                seen: 0,
                kept: 0,
            })
            .collect();
        Self {
            filters,
            runtime,
            top: None,
            proven: vec![false; count],
            answers: vec![Answers::default(); count],
            dictionaries: vec![None; count],
            segment: None,
            segment_passes: true,
        }
    }

    /// The same for a scan below a sort that keeps its first rows only.
    pub fn with_top(mut self, top: Option<Top>) -> Self {
        self.top = top;
        self
    }

    pub fn top(&self) -> Option<&Top> {
        self.top.as_ref()
    }

    pub fn top_mut(&mut self) -> Option<&mut Top> {
        self.top.as_mut()
    }

    /// Whether rows of the segment that was entered last may be among the first rows that a sort above keeps, as far as it
    /// has seen rows by now.
    pub fn is_wanted(&mut self, segment: &Segment) -> Result<bool> {
        self.top.as_mut().map_or(Ok(true), |top| top.enter(segment))
    }

    /// Prepares for a segment; false if none of its rows can pass.
    pub fn enter(&mut self, segment: &Segment) -> bool {
        if self.segment == Some(segment.id()) {
            return self.segment_passes;
        }
        self.segment = Some(segment.id());
        self.segment_passes = true;
        for (at, filter) in self.filters.iter().enumerate() {
            self.proven[at] = false;
            self.dictionaries[at] = match filter.columns() {
                [column] => segment.dictionary(*column).cloned(),
                _ => None,
            };
            let Some(range) = filter.range() else { continue };
            if let Some((min, max)) = bounds(segment, range.column) {
                self.segment_passes &= min <= range.max && max >= range.min;
                let nulls = segment.statistics(range.column).null_count > 0;
                self.proven[at] = !nulls && min >= range.min && max <= range.max;
            }
        }
        for runtime in &self.runtime {
            if let (Some(set), Some((min, max))) = (runtime.set.get(), bounds(segment, runtime.column)) {
                self.segment_passes &= set.min <= set.max && min <= set.max && max >= set.min;
            }
        }
        self.segment_passes
    }

    /// Whether every row of the segment passes, unseen.
    pub fn passes_all(&self, segment: &Segment) -> bool {
        let top = self.top.as_ref().and_then(|top| top.condition(segment));
        top.is_none() && self.proven.iter().all(|&proven| proven) && !self.runtime.iter().any(Runtime::is_useful)
    }

    /// Appends the row numbers of `segment` that pass among `rows` rows from `offset`.
    pub fn select(&mut self, segment: &Segment, offset: usize, rows: usize, out: &mut Vec<u32>) -> Result<()> {
        let chosen = Chosen {
            offset,
            rows,
            picked: None,
        };
        self.narrow(segment, chosen, out)
    }

    /// Appends those of `candidates`, ascending row numbers of `segment`, that pass.
    pub fn select_among(&mut self, segment: &Segment, candidates: Vec<u32>, out: &mut Vec<u32>) -> Result<()> {
        let (Some(first), Some(last)) = (candidates.first(), candidates.last()) else {
            return Ok(());
        };
        let chosen = Chosen {
            offset: *first as usize,
            rows: (last - first) as usize + 1,
            picked: Some(candidates),
        };
        self.narrow(segment, chosen, out)
    }

    fn narrow(&mut self, segment: &Segment, mut chosen: Chosen, out: &mut Vec<u32>) -> Result<()> {
        let (offset, rows) = (chosen.offset, chosen.rows);
        let done = self.apply_ranges(segment, &mut chosen);
        for at in 0..self.filters.len() {
            if self.filters[at].cost() == Cost::Cheap && !done.contains(&at) {
                self.apply(at, segment, &mut chosen)?;
            }
        }
        if let Some(condition) = self.top.as_ref().and_then(|top| top.condition(segment)) {
            match condition
                .range()
                .and_then(|range| NarrowRange::of(range, segment.narrow(range.column)?))
            {
                Some(range) => chosen.keep_ranges(&[range]),
                None => evaluate(condition, segment, &mut chosen)?,
            }
        }
        for runtime in self.runtime.iter_mut().filter(|r| r.is_useful()) {
            let Some(set) = runtime.set.get() else { continue };
            runtime.seen += chosen.len();
            if let Some(narrow) = segment.narrow(runtime.column) {
                match &mut chosen.picked {
                    Some(picked) => retain_narrow(narrow, set, picked)?,
                    None => chosen.keep_chunk(&pass_narrow(narrow, set, offset, rows)?),
                }
                runtime.kept += chosen.len();
                continue;
            }
            if let Some(runs) = segment.run_length(runtime.column) {
                let (of, values) = runs.within(offset, rows);
                let mut lanes = vec![];
                append_integer_keys(&values, &mut lanes)?;
                let pass = set.passing(lanes.len(), |run| lanes[run]);
                let pass = runs.lengths(of, offset, rows).zip(pass.iter());
                chosen.keep_chunk(&of_runs(pass, rows));
                runtime.kept += chosen.len();
                continue;
            }
            let picked = chosen.pick();
            let plain = segment.is_plain(runtime.column).then(|| segment.column(runtime.column));
            if let Some(values) = plain.as_ref().and_then(|plain| plain.as_primitive_opt::<Int64Type>()) {
                let values = values.values();
                set.retain(|row| values[row as usize], picked);
            } else if let Some(values) = plain.as_ref().and_then(|plain| plain.as_primitive_opt::<Int32Type>()) {
                let values = values.values();
                set.retain(|row| i64::from(values[row as usize]), picked);
            } else if let Some(values) = plain.as_ref().and_then(|plain| plain.as_primitive_opt::<Date32Type>()) {
                let values = values.values();
                set.retain(|row| i64::from(values[row as usize]), picked);
            } else {
                let mut lanes = vec![];
                append_integer_keys(&segment.column_slice(runtime.column, offset, rows), &mut lanes)?;
                set.retain(|row| lanes[row as usize - offset], picked);
            }
            runtime.kept += picked.len();
        }
        for at in 0..self.filters.len() {
            if self.filters[at].cost() != Cost::Cheap {
                self.apply(at, segment, &mut chosen)?;
            }
        }
        match chosen.picked {
            None => out.extend(offset as u32..(offset + rows) as u32),
            Some(picked) => out.extend(picked),
        }
        Ok(())
    }

    /// Applies the filters that are ranges over columns kept as differences, and gives their numbers.
    fn apply_ranges(&self, segment: &Segment, chosen: &mut Chosen) -> Vec<usize> {
        let mut done = vec![];
        let mut ranges = vec![];
        for (at, filter) in self.filters.iter().enumerate() {
            let range = filter.range().filter(|_| !self.proven[at]);
            if let Some(range) = range
                && let Some(narrow) = segment.narrow(range.column)
                && let Some(narrow) = NarrowRange::of(range, narrow)
            {
                done.push(at);
                ranges.push(narrow);
            }
        }
        chosen.keep_ranges(&ranges);
        done
    }

    fn apply(&mut self, at: usize, segment: &Segment, chosen: &mut Chosen) -> Result<()> {
        if self.proven[at] || chosen.is_empty() {
            return Ok(());
        }
        let filter = &self.filters[at];
        let fallible = filter.cost() == Cost::Fallible;
        if !fallible
            && let Some(dictionary) = &self.dictionaries[at]
            && dictionary.nulls.is_none()
            && let Some(answers) = self.answers[at].for_rows(filter, dictionary, chosen.len())?
        {
            let picked = chosen.pick();
            match &dictionary.codes {
                Codes::U8(codes) => picked.retain(|&row| answers[usize::from(codes[row as usize])]),
                Codes::U16(codes) => picked.retain(|&row| answers[usize::from(codes[row as usize])]),
                Codes::U32(codes) => picked.retain(|&row| answers[codes[row as usize] as usize]),
            }
            return Ok(());
        }
        evaluate(filter, segment, chosen)
    }
}

/// Keeps the rows that pass a filter, evaluated over runs, the whole chunk or the rows that are left, whichever is least.
fn evaluate(filter: &ScanFilter, segment: &Segment, chosen: &mut Chosen) -> Result<()> {
    if chosen.is_empty() {
        return Ok(());
    }
    let fallible = filter.cost() == Cost::Fallible;
    if !fallible
        && let [column] = filter.columns()
        && let Some(runs) = segment.run_length(*column)
    {
        chosen.keep_chunk(&pass_runs(filter, runs, chosen.offset, chosen.rows)?);
        return Ok(());
    }
    let over_chunk = !fallible && chosen.len() * SPARSE > chosen.rows;
    if over_chunk {
        let columns = filter
            .columns()
            .iter()
            .map(|&c| segment.column_slice(c, chosen.offset, chosen.rows));
        let pass = filter.evaluate(columns.collect(), chosen.rows)?;
        chosen.keep_chunk(&pass);
    } else {
        let picked = UInt32Array::from(std::mem::take(chosen.pick()));
        let columns = filter.columns().iter().map(|&c| take_column(segment, c, &picked));
        let pass = filter.evaluate(columns.collect::<Result<_, _>>()?, picked.len())?;
        let rows = picked.values().iter().enumerate();
        let rows = rows
            .filter(|(at, _)| pass.value(*at) && pass.is_valid(*at))
            .map(|(_, &row)| row);
        *chosen.pick() = rows.collect();
    }
    Ok(())
}

/// Rows of a chunk still in the running: all of them, or the picked ones (row numbers of the segment).
struct Chosen {
    offset: usize,
    rows: usize,
    picked: Option<Vec<u32>>,
}

impl Chosen {
    fn len(&self) -> usize {
        self.picked.as_ref().map_or(self.rows, Vec::len)
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn pick(&mut self) -> &mut Vec<u32> {
        self.picked
            .get_or_insert_with(|| (self.offset as u32..(self.offset + self.rows) as u32).collect())
    }

    /// Keeps the rows that are in all ranges.
    fn keep_ranges(&mut self, ranges: &[NarrowRange<'_>]) {
        match &mut self.picked {
            _ if ranges.is_empty() => {}
            Some(picked) => ranges.iter().for_each(|range| range.retain(picked)),
            None => self.keep_chunk(&pass(ranges, self.offset, self.rows)),
        }
    }

    /// Keeps the rows that are true in `pass`, an answer for each row of the chunk.
    fn keep_chunk(&mut self, pass: &BooleanArray) {
        let cleaned;
        let bits = match pass.nulls() {
            Some(nulls) if nulls.null_count() > 0 => {
                cleaned = pass.values() & nulls.inner();
                &cleaned
            }
            _ => pass.values(),
        };
        match &mut self.picked {
            None => {
                let kept = bits.count_set_bits();
                if kept < self.rows {
                    let mut picked = Vec::with_capacity(kept);
                    picked.extend(bits.set_indices().map(|at| (self.offset + at) as u32));
                    self.picked = Some(picked);
                }
            }
            Some(picked) => picked.retain(|&row| bits.value(row as usize - self.offset)),
        }
    }
}

/// Rows of a segment's column.
pub fn take_column(segment: &Segment, column: usize, rows: &UInt32Array) -> Result<ArrayRef> {
    match segment.is_plain(column) {
        true => pick(&segment.column(column), rows),
        false => segment
            .take(column, rows)
            .map_err(|error| DataFusionError::External(Box::new(error))),
    }
}

/// Which of the `rows` rows from `offset` pass, asked once for each run.
fn pass_runs(filter: &ScanFilter, column: &RunLengthColumn, offset: usize, rows: usize) -> Result<BooleanArray> {
    let (runs, values) = column.within(offset, rows);
    let pass = filter.evaluate(vec![values], runs.len())?;
    let pass = pass.iter().map(|pass| pass == Some(true));
    Ok(of_runs(column.lengths(runs, offset, rows).zip(pass), rows))
}

/// For each run, how long it is and what each of its rows gets.
fn of_runs(runs: impl Iterator<Item = (usize, bool)>, rows: usize) -> BooleanArray {
    let mut bits = BooleanBufferBuilder::new(rows);
    runs.for_each(|(length, pass)| bits.append_n(length, pass));
    BooleanArray::new(bits.finish(), None)
}

/// Which of the `rows` rows from `offset` have values in the set. Nulls hold any value, as elsewhere.
fn pass_narrow(column: &NarrowColumn, set: &KeySet, offset: usize, rows: usize) -> Result<BooleanArray> {
    let base = narrow_base(column)?;
    macro_rules! pass {
        ($differences:expr) => {{
            let differences = &$differences[offset..offset + rows];
            set.passing(rows, |row| base.wrapping_add(differences[row] as i64))
        }};
    }
    let bits = match column.differences() {
        Differences::None(_) => set.passing(rows, |_| base),
        Differences::U8(differences) => pass!(differences),
        Differences::U16(differences) => pass!(differences),
        Differences::U32(differences) => pass!(differences),
        Differences::U64(differences) => pass!(differences),
    };
    Ok(BooleanArray::new(bits, None))
}

fn narrow_base(column: &NarrowColumn) -> Result<i64> {
    match i64::try_from(column.base()) {
        Ok(base) => Ok(base),
        Err(_) => internal_err!("a runtime filter is on a column beyond 64 bits"),
    }
}

/// Keeps those of `rows`, row numbers of the segment, whose values are in the set. Nulls hold any value, as elsewhere.
fn retain_narrow(column: &NarrowColumn, set: &KeySet, rows: &mut Vec<u32>) -> Result<()> {
    let base = narrow_base(column)?;
    macro_rules! retain {
        ($differences:expr) => {
            set.retain(|row| base.wrapping_add($differences[row as usize] as i64), rows)
        };
    }
    match column.differences() {
        Differences::None(_) => set.retain(|_| base, rows),
        Differences::U8(differences) => retain!(differences),
        Differences::U16(differences) => retain!(differences),
        Differences::U32(differences) => retain!(differences),
        Differences::U64(differences) => retain!(differences),
    }
    Ok(())
}

/// Rows so close together that copying runs beats picking them one by one.
pub struct Dense {
    offset: usize,
    keep: FilterPredicate,
    rows: usize,
}

impl Dense {
    /// `rows` ascend; `None` if they are not dense.
    pub fn of(rows: &[u32]) -> Option<Self> {
        let (first, last) = (*rows.first()? as usize, *rows.last()? as usize);
        let span = last + 1 - first;
        if rows.len() * 5 < span * 4 {
            return None;
        }
        let mut bits = BooleanBufferBuilder::new(span);
        let mut next = first;
        for &row in rows {
            let row = row as usize;
            bits.append_n(row - next, false);
            bits.append(true);
            next = row + 1;
        }
        let keep = FilterBuilder::new(&BooleanArray::new(bits.finish(), None))
            .optimize()
            .build();
        Some(Self {
            offset: first,
            keep,
            rows: span,
        })
    }

    /// The rows of a column that is kept as its arrays are.
    pub fn pick(&self, segment: &Segment, column: usize) -> Result<ArrayRef> {
        Ok(self
            .keep
            .filter(&segment.column_slice(column, self.offset, self.rows))?)
    }
}

/// The bounds of an exact column of a segment, as lanes.
fn bounds(segment: &Segment, column: usize) -> Option<(i64, i64)> {
    let lane = |bound: &Option<Bound>| match bound {
        Some(Bound::Int(value)) => Some(*value),
        Some(Bound::Bool(value)) => Some(i64::from(*value)),
        Some(Bound::Decimal(value)) => i64::try_from(*value).ok(),
        _ => None,
    };
    let statistics = segment.statistics(column);
    Some((lane(&statistics.min)?, lane(&statistics.max)?))
}
