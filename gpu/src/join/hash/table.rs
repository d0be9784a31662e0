//! The build side of a shared-table hash join: one table in device memory, over which any number of probe sides join.
//!
//! ```text
//! keys all different:  slot -> row                         (found out by inserting them)
//! else:                slot -> group -> offsets -> rows     (grouped by a radix sort, then each key inserted once)
//! ```
//!
//! so that neither many rows of one key nor one key in all rows makes a long way for a probe. Where the keys' range is
//! at most four times their number, the slots are an array over it and nothing is hashed. Bytes: 4 a key of the range,
//! or 16 (32-bit keys) to 64 (64-bit keys) a row for slots half taken at most; 4 to 12 a row for groups.

use super::partition::launch_over;
use super::shape::HashOptions;
use crate::compile::{Program, Source};
use crate::error::{GpuError, Result};
use crate::join::{Keys, Side};
use crate::memory::{DeviceBuffer, DevicePtr, DevicePtrMut, DeviceView};
use crate::primitives::fill::iota;
use crate::primitives::read::read;
use crate::primitives::select::run_length_encode;
use crate::primitives::sort::{SortKey, SortOptions, sort_pairs};
use crate::stream::Stream;
use crate::{kernel_params, source};

kernel_params! {
    /// The table as kernels see it.
    pub(super) struct TableView {
        slots: DevicePtr<u64>,
        array: DevicePtr<u32>,
        low: u64,
        range: u64,
        slots_log2: u32,
        unused: u32,
    }
}
kernel_params! {
    /// Lowest and highest key.
    struct RangeParams { keys: DevicePtr<u8>, items: u64, range: DevicePtrMut<u64> }
}
kernel_params! {
    /// Makes the table empty.
    struct ClearParams { table: TableView }
}
kernel_params! {
    /// Keys with values; `duplicate` is set if a key comes twice.
    struct InsertParams {
        keys: DevicePtr<u8>,
        values: DevicePtr<u32>,
        count: DevicePtr<u64>,
        items: u64,
        table: TableView,
        duplicate: DevicePtrMut<u32>,
    }
}
kernel_params! {
    /// Flags of the rows of marked groups.
    struct SpreadParams {
        marks: DevicePtr<u8>,
        offsets: DevicePtr<u32>,
        groups: DevicePtr<u64>,
        rows: DevicePtr<u32>,
        items: u64,
        flags: DevicePtrMut<u8>,
    }
}

static SOURCE: Source = source!(
    "join_hash_build.cu",
    TableView,
    RangeParams,
    ClearParams,
    InsertParams,
    SpreadParams
);

/// Rows at most: twice as many slots take 32 bits of a hash.
const ROWS_MAX: u64 = 1 << 31;
/// A range of so many keys a row is dense.
const DENSE_RATIO: u64 = 4;

/// Rows by key, where keys come more than once.
pub(super) struct Groups {
    /// Rows of one key side by side.
    pub rows: DeviceBuffer<u32>,
    /// First of each group's rows, and the end.
    pub offsets: DeviceBuffer<u32>,
    /// Number of groups, on the device.
    count: DeviceBuffer<u64>,
}

/// How a table is compiled into kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableKind {
    pub key: &'static str,
    pub dense: bool,
    pub unique: bool,
    pub equal_hashes: bool,
}

impl TableKind {
    pub fn define(&self, program: Program) -> Program {
        program
            .define("KEY", self.key)
            .define("DENSE", u8::from(self.dense))
            .define("UNIQUE", u8::from(self.unique))
            .define("HASH_EQUAL", u8::from(self.equal_hashes))
    }

    /// All that occur.
    pub fn all() -> Vec<TableKind> {
        let mut kinds = Vec::new();
        for key in ["u32", "u64"] {
            for (dense, unique) in [(false, false), (false, true), (true, false), (true, true)] {
                kinds.push(TableKind {
                    key,
                    dense,
                    unique,
                    equal_hashes: false,
                });
            }
        }
        kinds
    }
}

fn program(kind: TableKind) -> Program {
    kind.define(Program::new(&SOURCE))
}

/// Specialisations that the tests compile.
pub(super) fn programs() -> Vec<Program> {
    let kinds = TableKind::all().into_iter().filter(|kind| kind.unique);
    kinds.map(program).collect()
}

/// A table of build rows.
pub struct HashTable {
    slots: DeviceBuffer<u64>,
    array: DeviceBuffer<u32>,
    low: u64,
    range: u64,
    slots_log2: u32,
    pub(super) kind: TableKind,
    pub(super) groups: Option<Groups>,
    pub(super) row_count: u64,
}

impl HashTable {
    /// Builds the table. Waits for the device twice.
    pub fn new(stream: &Stream, side: Side<'_>, options: &HashOptions) -> Result<HashTable> {
        let rows = side.keys.len();
        if rows > ROWS_MAX {
            return Err(GpuError::Invalid(format!(
                "a hash table of {rows} rows, at most {ROWS_MAX}"
            )));
        }
        let mut kind = TableKind {
            key: side.keys.c_name(),
            dense: true,
            unique: true,
            equal_hashes: options.equal_hashes,
        };
        let (low, high) = key_range(stream, &side.keys, kind)?;
        let range = (high.wrapping_sub(low)).saturating_add(1);
        kind.dense = rows == 0 || range / DENSE_RATIO <= rows && !options.equal_hashes;
        let slots_log2 = (rows * 2).next_power_of_two().trailing_zeros();
        let slot_words = if kind.key == "u32" { 1 } else { 2 };
        let mut table = HashTable {
            slots: stream.alloc(if kind.dense {
                0
            } else {
                ((1 << slots_log2) + 1) * slot_words
            })?,
            array: stream.alloc(if kind.dense && rows > 0 { range } else { 0 })?,
            low,
            range: if rows > 0 { range } else { 0 },
            slots_log2,
            kind,
            groups: None,
            row_count: side.row_count,
        };
        let values = side.rows.map_or(DevicePtr::null(), |rows| rows.ptr());
        if !table.insert(stream, side.keys.address(), values, DevicePtr::null(), rows)? {
            table.kind.unique = false;
            match side.keys {
                Keys::U32(keys) => table.group(stream, keys, side.rows)?,
                Keys::U64(keys) => table.group(stream, keys, side.rows)?,
            }
        }
        Ok(table)
    }

    /// Whether every key comes once.
    pub fn is_unique(&self) -> bool {
        self.kind.unique
    }

    /// Whether the table is an array over the keys' range.
    pub fn is_dense(&self) -> bool {
        self.kind.dense
    }

    pub(super) fn view(&self) -> TableView {
        TableView {
            slots: self.slots.ptr(),
            array: self.array.ptr(),
            low: self.low,
            range: self.range,
            slots_log2: self.slots_log2,
            unused: 0,
        }
    }

    /// Clears the table and inserts the keys. False if a key came twice.
    fn insert(
        &mut self,
        stream: &Stream,
        keys: u64,
        values: DevicePtr<u32>,
        count: DevicePtr<u64>,
        items: u64,
    ) -> Result<bool> {
        let module = stream.device().load(&program(self.kind))?;
        let clear = module.kernel::<ClearParams>("clear")?;
        let slots = if self.kind.dense {
            self.range
        } else {
            (1 << self.slots_log2) + 1
        };
        // SAFETY: the slots or the array of the table's own size.
        unsafe { launch_over(stream, &clear, slots, &ClearParams { table: self.view() })? };
        let mut duplicate = stream.alloc_zeroed::<u32>(1)?;
        let params = InsertParams {
            keys: DevicePtr::new(keys),
            values,
            count,
            items,
            table: self.view(),
            duplicate: duplicate.ptr_mut(),
        };
        let insert = module.kernel::<InsertParams>("insert")?;
        // SAFETY: `items` keys and values; more slots than keys, or an array over all keys.
        unsafe { launch_over(stream, &insert, items, &params)? };
        Ok(read(stream, duplicate.view())?[0] == 0)
    }

    /// Groups rows by key and inserts the groups.
    fn group<K: SortKey>(
        &mut self,
        stream: &Stream,
        keys: DeviceView<'_, K>,
        rows: Option<DeviceView<'_, u32>>,
    ) -> Result<()> {
        let items = keys.len();
        let mut sorted = stream.alloc::<K>(items)?;
        let mut sorted_rows = stream.alloc::<u32>(items)?;
        let mut numbers = stream.alloc::<u32>(if rows.is_some() { 0 } else { items })?;
        let rows = match rows {
            Some(rows) => rows,
            None => {
                iota(stream, numbers.view_mut(), 0u32)?;
                numbers.view()
            }
        };
        let places = (sorted.view_mut(), sorted_rows.view_mut());
        sort_pairs(stream, keys, rows, places.0, places.1, &SortOptions::default())?;
        let mut distinct = stream.alloc::<K>(items)?;
        let mut offsets = stream.alloc::<u32>(items + 1)?;
        let mut count = stream.alloc_zeroed::<u64>(1)?;
        let outputs = (distinct.view_mut(), offsets.view_mut());
        run_length_encode(stream, sorted.view(), outputs.0, outputs.1, count.view_mut())?;
        drop(sorted);
        let groups = Groups {
            rows: sorted_rows,
            offsets,
            count,
        };
        let inserted = self.insert(stream, distinct.ptr().0, DevicePtr::null(), groups.count.ptr(), items)?;
        debug_assert!(inserted, "distinct keys are different");
        self.groups = Some(groups);
        Ok(())
    }

    /// Sets the flags of the rows whose group is marked.
    pub(super) fn spread(&self, stream: &Stream, marks: &DeviceBuffer<u8>, flags: DevicePtrMut<u8>) -> Result<()> {
        let Some(groups) = &self.groups else { return Ok(()) };
        let params = SpreadParams {
            marks: marks.ptr(),
            offsets: groups.offsets.ptr(),
            groups: groups.count.ptr(),
            rows: groups.rows.ptr(),
            items: groups.rows.len(),
            flags,
        };
        let kernel = stream
            .device()
            .load(&program(self.kind))?
            .kernel::<SpreadParams>("spread")?;
        // SAFETY: marks of all groups; the rows are below the flags' length.
        unsafe { launch_over(stream, &kernel, groups.rows.len(), &params) }
    }
}

/// Lowest and highest key; of none, the whole range.
fn key_range(stream: &Stream, keys: &Keys<'_>, kind: TableKind) -> Result<(u64, u64)> {
    let mut range = stream.alloc::<u64>(2)?;
    stream.set_bytes(range.slice_mut(..1)?, 0xff)?;
    stream.set_bytes(range.slice_mut(1..)?, 0)?;
    let params = RangeParams {
        keys: DevicePtr::new(keys.address()),
        items: keys.len(),
        range: range.ptr_mut(),
    };
    let kernel = stream
        .device()
        .load(&program(kind))?
        .kernel::<RangeParams>("key_range")?;
    // SAFETY: `items` keys.
    unsafe { launch_over(stream, &kernel, keys.len(), &params)? };
    let range = read(stream, range.view())?;
    Ok((range[0], range[1]))
}
