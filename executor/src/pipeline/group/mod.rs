//! Grouping in pipelines: where a group's sums are depends on what is known of the keys.
//!
//! | groups | sums |
//! | --- | --- |
//! | one | a thread's registers, reduced at the end |
//! | few, by keys of small ranges | a thread's own in shared memory, reduced at the end |
//! | more, by keys of small ranges | a block's in shared memory, added up at the end |
//! | by keys of ranges that an array can be over | an array, by atomic operations |
//! | any | a hash table |
//!
//! Sums are exact: of 64 bits where the bounds of the argument prove that it holds them, else of two words.

mod cells;
mod distinct;
mod extreme;
mod keys;
mod listed;
mod rows;
mod sets;
mod steps;
mod sums;
mod update;

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Schema};
use tenon_gpu::tuning::{PIPELINE_THREADS, PIPELINE_TILE};

use super::flow::Flow;
use super::fragment::{Fragment, Input, ROWS_MAX, Source};
use super::passes::{ScanColumn, Stage};
use crate::aggregate::GroupSpec;
use crate::codegen::{Range, Translated};

pub use cells::{AggregateState, Cells, How, Taken};
pub use distinct::Distincts;
pub use extreme::{NAN_ORDER, NumericNumbers, SHOWN_BITS, SHOWN_UNIT, Values};
use keys::{Coded, keys, number};
use listed::{Table, listed};
pub use steps::Steps;
use sums::{in_own, in_registers, in_shared};
pub use update::{Update, update};

/// Shared memory that a block's groups may take.
const SHARED_BYTES: u64 = 96 << 10;
/// Entries of an array of groups that the host reads as they are.
const SLOTS_READ_MAX: u64 = 1 << 14;
/// Entries of an array of groups.
const DIRECT_MAX: u64 = 1 << 30;

/// What of a fragment's result is where.
pub struct Grouping {
    pub keys: Vec<Key>,
    /// The arrays of each cell's words.
    pub words: Vec<Vec<usize>>,
    pub states: Vec<AggregateState>,
    /// How each cell's value came about.
    hows: Vec<How>,
    /// The largest magnitude of each cell's value, and of one row's.
    bounds: Vec<(Option<i128>, Option<i128>)>,
    /// A group has at most so many rows, where that is known.
    rows_max: Option<u64>,
    pub groups: Groups,
    /// How many the planner expects.
    expected: Option<u64>,
    /// When they are there.
    pub stage: Stage,
}

/// A key of the result.
pub struct Key {
    pub data_type: DataType,
    pub texts: Option<ArrayRef>,
    /// The scan's column that has its values.
    pub equals: Option<ScanColumn>,
    /// Whether it is the key of a numeric, which is a decimal here.
    pub of_numeric: bool,
    /// What its words can be.
    pub range: Range,
    pub place: KeyLocation,
}

/// Where a key's values are.
pub enum KeyLocation {
    /// A digit of the group's number: `number / stride % span`, from `low` on, or in a pass from its first value; the last
    /// is null, where there are nulls.
    Digit {
        stride: u64,
        span: u64,
        low: i64,
        in_pass: bool,
        nullable: bool,
    },
    /// A word of the group's key; the last word says which keys are null.
    Word {
        word: usize,
        /// Of one beyond 64 bits: the word of those above.
        high: Option<usize>,
        null_bit: Option<usize>,
    },
    /// Kept beside the group: a position in a scan's table of the column's row.
    Late {
        array: usize,
        scan: usize,
        column: usize,
        null: Option<usize>,
    },
}

/// The groups of the result.
#[derive(Clone, Copy)]
pub enum Groups {
    /// There is one.
    One,
    /// Of so many numbers those that the cell has counted rows of; where these were put together, the arrays of how many
    /// there are and of their numbers.
    Numbered {
        slots: u64,
        counted: usize,
        listed: Option<(usize, usize)>,
    },
    /// As many as the first array says, with keys of so many words in the second.
    Listed {
        count: usize,
        keys: usize,
        words: usize,
        /// There are at most so many, and room for so many.
        groups_max: u64,
        capacity: u64,
    },
}

impl Grouping {
    /// How many groups there may be.
    pub fn groups_max(&self) -> u64 {
        match self.groups {
            Groups::One => 1,
            Groups::Numbered { slots, .. } => slots,
            Groups::Listed { capacity, .. } => capacity,
        }
    }
}

/// Ends a flow in groups.
pub fn group(
    fragment: &mut Fragment,
    mut flow: Flow,
    spec: &GroupSpec,
    distinct: &[bool],
    estimate: Option<usize>,
) -> Translated<Grouping> {
    if !spec.sets.is_empty() {
        return sets::grouped(fragment, flow, spec, distinct, estimate);
    }
    let first = fragment.arrays.len();
    let mut cells = Cells::default();
    let mut states = vec![];
    for (at, (aggregate, filter)) in spec.aggregates.iter().zip(&spec.filters).enumerate() {
        let distinct = distinct.get(at).copied().unwrap_or(false);
        states.push(cells.state(&mut flow, aggregate, filter.as_ref(), distinct)?);
    }
    // Which groups there are is seen from how many rows they have.
    let counted = cells.cell(Taken {
        arg: None,
        filter: None,
        how: How::Count,
        squared: false,
        distinct: false,
    });
    let (keys, late) = keys(fragment, &mut flow, spec, true)?;
    fragment.grouped.extend(keys.iter().filter_map(|key| key.equals));
    // Groups of one pass have no rows in others if a key says so.
    let stage = match flow.stage {
        Stage::Pass if keys.iter().all(|key| key.pass.is_none()) => Stage::After,
        other => other,
    };
    let thread_rows = thread_rows(fragment, &flow);
    let mut distincts = Distincts::default();
    let Cells { taken, mut args } = cells;
    let updates = taken
        .iter()
        .map(|taken| update(&mut flow, taken, &mut args, thread_rows, &mut distincts));
    let updates = updates.collect::<Translated<Vec<_>>>()?;
    let width: usize = updates.iter().map(Update::words).sum();
    let own_width: usize = updates.iter().map(Update::own_words).sum();
    let spans: Vec<u64> = keys.iter().map(Coded::span).collect();
    let slots = spans
        .iter()
        .try_fold(1u64, |slots, span| slots.checked_mul(*span))
        .unwrap_or(u64::MAX);
    let threads = u64::from(PIPELINE_THREADS);
    let own_bytes = slots.saturating_mul(8 * own_width as u64);
    let shared_bytes = slots.saturating_mul(8 * width as u64);
    // Numbers of groups are counted from the least key on, which is a word.
    let numbered = late.is_empty()
        && keys.iter().all(|key| key.above.is_none())
        && slots <= DIRECT_MAX
        && slots <= flow.rows_max.saturating_mul(4).max(1 << 12);
    let groups_max = match numbered {
        true => slots,
        false => capacity(&flow, estimate),
    };
    let expected = estimate.map(|groups| groups as u64);
    let count = (!numbered).then(|| fragment.array(1, 4, Some(0)));
    let capacity = match count {
        Some(count) => {
            // Rows that come more than once are as many as they are.
            let most = match flow.multiplied {
                true => ROWS_MAX,
                false => self::capacity(&flow, None),
            };
            fragment.table(count, stage, groups_max, most, expected)
        }
        None => slots,
    };
    let groups_max = groups_max.max(capacity);
    // The words of all cells, one array each.
    let mut words = vec![];
    let mut global = vec![];
    for update in &updates {
        let own: Vec<usize> = (0..update.words())
            .map(|_| fragment.array(capacity, 8, Some(0)))
            .collect();
        global.push(
            own.iter()
                .map(|id| flow.array(Input::Array(*id), "u64"))
                .collect::<Vec<_>>(),
        );
        words.push(own);
    }
    let mut result = Grouping {
        keys: vec![],
        words,
        states,
        hows: updates.iter().map(|update| update.how).collect(),
        bounds: updates.iter().map(|update| (update.bound, update.each)).collect(),
        rows_max: (!flow.multiplied).then_some(flow.rows_max),
        groups: Groups::One,
        expected,
        stage,
    };
    if let Some(count) = count {
        flow.far = true;
        let taken = (&updates[..], &global[..], &distincts);
        let groups = Table {
            count,
            groups_max,
            capacity,
        };
        let listed = listed(fragment, flow, result, (keys, late), taken, groups);
        fragment.arrays_of(stage, first);
        return listed;
    }
    let number = number(&keys, &spans);
    let mut stride = 1;
    let mut places = vec![];
    for (key, span) in keys.iter().zip(&spans).rev() {
        places.push(Key {
            data_type: key.data_type.clone(),
            texts: key.texts.clone(),
            equals: key.equals,
            of_numeric: key.of_numeric,
            range: (key.low, key.high),
            place: KeyLocation::Digit {
                stride,
                span: *span,
                low: key.low as i64,
                in_pass: key.pass.is_some(),
                nullable: key.null.is_some(),
            },
        });
        stride *= span;
    }
    places.reverse();
    result.keys = places;
    if keys.is_empty() {
        distincts.put(fragment, &mut flow, "0u");
        in_registers(&mut flow, &updates, &global);
    } else {
        result.groups = Groups::Numbered {
            slots,
            counted,
            listed: None,
        };
        flow.far = true;
        let slot = flow
            .translator
            .define("u32", number, None, DataType::UInt32, None)
            .value;
        distincts.put(fragment, &mut flow, &slot);
        if own_bytes.saturating_mul(threads) <= SHARED_BYTES {
            in_own(&mut flow, &updates, &global, (&slot, slots, own_width));
        } else if shared_bytes <= SHARED_BYTES / 2 {
            in_shared(&mut flow, &updates, &global, (&slot, slots, width));
        } else {
            for (update, words) in updates.iter().zip(&global) {
                let words: Vec<String> = words.iter().map(|array| format!("{array}[{slot}]")).collect();
                flow.line(&update.line(&words, false));
            }
        }
    }
    flow.finish(fragment)?;
    fragment.arrays_of(stage, first);
    Ok(result)
}

/// A thread of a block gets at most so many of a pipeline's rows: no more than a tile's share of each tile.
fn thread_rows(fragment: &Fragment, flow: &Flow) -> u64 {
    let segments = match flow.source {
        Source::Scan(scan) => fragment.scans[scan].table.segments().len() as u64,
        _ => 1,
    };
    let tiles = flow.rows_max / u64::from(PIPELINE_TILE) + segments;
    tiles.saturating_mul((PIPELINE_TILE / PIPELINE_THREADS).into())
}

impl Grouping {
    /// Where groups are scattered over many numbers, a pipeline puts them together.
    pub fn put_together(&mut self, fragment: &mut Fragment) -> Translated<()> {
        if let Groups::Numbered { slots, counted, listed } = &mut self.groups
            && *slots > SLOTS_READ_MAX
        {
            *listed = Some(put_together(
                fragment,
                *slots,
                (self.words[*counted][0], self.expected),
                &mut self.words,
                self.stage,
            )?);
        }
        Ok(())
    }
}

/// A pipeline that puts the words of those numbers that have rows together; gives the arrays of their number and of these.
fn put_together(
    fragment: &mut Fragment,
    slots: u64,
    (counted, expected): (usize, Option<u64>),
    words: &mut [Vec<usize>],
    stage: Stage,
) -> Translated<(usize, usize)> {
    let mut flow = Flow::new(Source::Numbers(slots), Arc::new(Schema::empty()), slots);
    flow.stage = stage;
    let count = fragment.array(1, 4, Some(0));
    let groups = fragment.table(count, stage, slots, slots, expected);
    let numbers = fragment.array(groups, 4, None);
    let counted = flow.array(Input::Array(counted), "const u64");
    flow.only_if(&format!("{counted}[row] != 0"));
    let (count_at, room) = (flow.array(Input::Array(count), "u32"), flow.number(groups));
    flow.line(&format!("u32 at = new_row(p, {count_at}, {room});"));
    flow.only_if("at != NO_ROW");
    let to = flow.array(Input::Array(numbers), "u32");
    flow.line(&format!("{to}[at] = row;"));
    for word in words.iter_mut().flatten() {
        let from = flow.array(Input::Array(*word), "const u64");
        *word = fragment.array(groups, 8, None);
        let to = flow.array(Input::Array(*word), "u64");
        flow.line(&format!("{to}[at] = {from}[row];"));
    }
    flow.finish(fragment)?;
    Ok((count, numbers))
}

/// Groups that a hash table shall have room for.
fn capacity(flow: &Flow, estimate: Option<usize>) -> u64 {
    let rows = match flow.multiplied {
        true => flow.rows_max.saturating_mul(4),
        false => flow.rows_max,
    };
    let expected = estimate.map_or(rows, |groups| (groups as u64).saturating_mul(4).saturating_add(1 << 16));
    expected.min(rows).max(1)
}
