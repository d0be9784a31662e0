//! PRIMARY KEY and unique indexes: no key of added rows may occur twice, nor in the rows that are there. A key with a
//! NULL equals no other, unless the index says NULLS NOT DISTINCT.
//!
//! More than 400 lines because added rows are checked and keys located over the same blocks of keys.
//!
//! Keys that ascend cost one pass over the added rows: equal ones are neighbours. Other keys go into a hash table of the
//! added rows, which the segments there are probed against; segments whose minimum and maximum exclude the added keys
//! are skipped. So a load in key order never looks at old rows. Few keys are looked for in hash tables of the rows there
//! (`key_rows`), so that inserts of single rows with keys in no order read none of them.

mod key_rows;
mod keyed;

pub use key_rows::KeyRows;
pub(super) use keyed::Keyed;
pub use keyed::{ComputedKey, ComputedSlot, KeyValues};

use super::index::Index;
use super::table::{RowLocation, TableDefinition};
use crate::datetime::shown;
use crate::error::{ErrorKind, Result, StorageError, Subject};
use crate::memory::MemoryBudget;
use crate::numeric::{Numeric, compare_key};
use crate::segment::Segment;
use crate::statistics::ColumnStatistics;
use crate::statistics::sketch::{hash_array, hash_u64};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use hashbrown::HashTable;
use key_rows::RowTable;
use parking_lot::Mutex;
use rayon::prelude::*;
use std::sync::Arc;

/// Rows hashed at a time: the hashes stay in the cache.
const BLOCK_ROWS: usize = 1 << 13;
/// Runs of equal first key columns longer than this are left to the hash table.
const RUN_ROWS_MAX: usize = 64;
/// Fewer rows are looked through by one thread: waking others takes longer.
const PARALLEL_ROWS_MIN: usize = 1 << 15;
/// Bytes of the hash table for each added row.
const BYTES_PER_ROW: usize = 24;

/// A row of the added segments.
#[derive(Clone, Copy)]
struct Row {
    hash: u64,
    segment: u32,
    row: u32,
}

impl Row {
    /// The one that was added before the other.
    fn first(a: Option<Row>, b: Option<Row>) -> Option<Row> {
        a.into_iter().chain(b).min_by_key(|row| (row.segment, row.row))
    }
}

/// Checks rows that are to be added against each other and against those there (23505). Gives the indexes, by their oids, of
/// which `waits` is true and in which a key stands twice.
pub(super) fn check(
    definition: &TableDefinition,
    there: &[Arc<Segment>],
    added: &[Arc<Segment>],
    budget: &Arc<MemoryBudget>,
    waits: impl Fn(&Index) -> bool,
) -> Result<Vec<u32>> {
    let mut waiting = Vec::new();
    if added.is_empty() {
        return Ok(waiting);
    }
    for key in Keyed::all(definition) {
        let key = key?;
        match (check_index(definition, &key, there, added, Among::Checked, budget), key) {
            (Err(error), Keyed::Columns(index)) if error.kind == ErrorKind::UniqueViolation && waits(index) => {
                waiting.push(index.oid);
            }
            (checked, _) => checked?,
        }
    }
    Ok(waiting)
}

/// The same for one index.
pub(super) fn check_one(
    definition: &TableDefinition,
    key: &Index,
    there: &[Arc<Segment>],
    added: &[Arc<Segment>],
    budget: &Arc<MemoryBudget>,
) -> Result<()> {
    match key.is_unique() {
        true => check_index(definition, &Keyed::Columns(key), there, added, Among::Checked, budget),
        false => Ok(()),
    }
}

/// Checks the added rows against those there alone.
pub(super) fn check_met(
    definition: &TableDefinition,
    there: &[Arc<Segment>],
    added: &[Arc<Segment>],
    budget: &Arc<MemoryBudget>,
) -> Result<()> {
    let mut keys = Keyed::all(definition);
    keys.try_for_each(|key| check_index(definition, &key?, there, added, Among::Left, budget))
}

/// Whether added rows are checked against each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Among {
    Checked,
    Left,
}

fn check_index(
    definition: &TableDefinition,
    key: &Keyed<'_>,
    there: &[Arc<Segment>],
    added: &[Arc<Segment>],
    among: Among,
    budget: &Arc<MemoryBudget>,
) -> Result<()> {
    if added.is_empty() {
        return Ok(());
    }
    let checker = Checker::new(definition, key, added);
    let ranges = key.ranges(added);
    let may_meet: Vec<&Arc<Segment>> = there.iter().filter(|segment| key.overlaps(segment, &ranges)).collect();
    let internally_unique = among == Among::Left
        || match ranges.as_slice() {
            [] => false,
            [only] if only.strictly_ascending => true,
            ranges => ranges[0].ascending && checker.check_runs()?,
        };
    if internally_unique && may_meet.is_empty() {
        return Ok(());
    }
    let rows: usize = added.iter().map(|segment| segment.rows()).sum();
    let _held = budget.reserve(rows * BYTES_PER_ROW)?;
    let table = checker.hash_added(rows, among)?;
    let tables = KeyRows::tables(key.key_rows(), &may_meet, rows, budget, |whole| {
        checker.comparable_hashes(whole)
    })?;
    let read: usize = may_meet
        .iter()
        .zip(&tables)
        .map(|(segment, rows)| rows.as_ref().map_or(segment.rows(), |_| 0))
        .sum();
    let met = |(segment, rows_there): (&&Arc<Segment>, &Option<Arc<RowTable>>)| match rows_there {
        Some(rows_there) => Ok(checker.look_up(&table, segment, rows_there)),
        None => checker.probe(&table, segment),
    };
    let met: Vec<Option<Row>> = match read < PARALLEL_ROWS_MIN {
        true => may_meet.iter().zip(&tables).map(met).collect::<Result<_>>()?,
        false => may_meet.par_iter().zip(&tables).map(met).collect::<Result<_>>()?,
    };
    checker.failed()?;
    match met.into_iter().fold(None, Row::first) {
        Some(row) => Err(checker.violation(row)),
        None => Ok(()),
    }
}

/// Finds the rows there that have given keys.
pub(super) fn locate(
    definition: &TableDefinition,
    key: &Keyed<'_>,
    there: &[Arc<Segment>],
    asked: &KeyValues,
    budget: &Arc<MemoryBudget>,
) -> Result<Vec<Option<RowLocation>>> {
    let keys = &asked.columns;
    let rows = keys.first().map_or(0, |keys| keys.len());
    let mut found = vec![None; rows];
    if let Keyed::Columns(key) = key {
        let fits = |(index, column): (usize, &usize)| {
            *keys[index].data_type() == definition.columns[*column].sql_type.data_type()
        };
        if keys.len() != key.columns.len() || !key.columns.iter().enumerate().all(fits) {
            return Err(StorageError::internal("keys to locate are not of the key's types"));
        }
    }
    let _held = budget.reserve(rows * BYTES_PER_ROW)?;
    let ranges: Vec<ColumnStatistics> = keys.iter().map(|keys| ColumnStatistics::of_array(keys)).collect();
    let mut hashes = vec![0; rows];
    for (index, keys) in keys.iter().enumerate() {
        hash_array(keys, &mut hashes);
        if key.nulls_not_distinct() {
            let null_rows = (0..rows).filter(|row| keys.is_null(*row));
            null_rows.for_each(|row| hashes[row] = hash_u64(index as u64));
        }
    }
    // Equal keys asked for twice stand in the table twice, so all matches of a hash are visited.
    let mut table: HashTable<(u64, usize)> = HashTable::with_capacity(rows);
    let held = |row: usize| asked.held.as_ref().is_none_or(|held| held.value(row));
    let keyed = |row: usize| held(row) && (key.nulls_not_distinct() || keys.iter().all(|keys| keys.is_valid(row)));
    for (row, hash) in hashes.iter().enumerate().filter(|(row, _)| keyed(*row)) {
        table.insert_unique(*hash, (*hash, row), |(hash, _)| *hash);
    }
    let checker = Checker::new(definition, key, &[]);
    let may_meet: Vec<usize> = (0..there.len())
        .filter(|at| key.overlaps(&there[*at], &ranges))
        .collect();
    let segments: Vec<&Arc<Segment>> = may_meet.iter().map(|at| &there[*at]).collect();
    let tables = KeyRows::tables(key.key_rows(), &segments, rows, budget, |whole| {
        checker.comparable_hashes(whole)
    })?;
    for ((index, segment), rows_there) in may_meet.into_iter().zip(segments).zip(tables) {
        if let Some(rows_there) = rows_there {
            let whole = segment.whole();
            for (hash, asked) in &table {
                let same = |row: &usize| checker.has(keys, *asked, whole, *row);
                let left = |row: usize| segment.live().map_or(Some(row), |live| live.rank(row));
                if let Some(row) = rows_there.rows(*hash).filter(same).find_map(left) {
                    found[*asked] = Some(RowLocation { segment: index, row });
                }
            }
            continue;
        }
        checker.blocks(segment, |offset, block| {
            let rows = block.whole.iter().enumerate();
            for (row, hash) in rows.filter(|(row, _)| block.is_comparable(*row)) {
                for (_, asked) in table.iter_hash(*hash).filter(|(held, _)| held == hash) {
                    if checker.has(keys, *asked, segment, offset + row) {
                        found[*asked] = Some(RowLocation {
                            segment: index,
                            row: offset + row,
                        });
                    }
                }
            }
            Ok(true)
        })?;
    }
    checker.failed()?;
    Ok(found)
}

struct Checker<'a> {
    definition: &'a TableDefinition,
    key: &'a Keyed<'a>,
    added: &'a [Arc<Segment>],
    /// Why two keys could not be compared, for that was not possible among many.
    failure: Mutex<Option<StorageError>>,
}

/// The keys of a block of rows.
struct Block<'a> {
    /// Hashes of the first column.
    first: &'a [u64],
    /// Hashes of the whole key.
    whole: &'a [u64],
    /// The rows whose key may equal another; None: all.
    comparable: Option<NullBuffer>,
}

impl Block<'_> {
    fn is_comparable(&self, row: usize) -> bool {
        self.comparable.as_ref().is_none_or(|rows| rows.is_valid(row))
    }
}

impl<'a> Checker<'a> {
    fn new(definition: &'a TableDefinition, key: &'a Keyed<'a>, added: &'a [Arc<Segment>]) -> Checker<'a> {
        Checker {
            definition,
            key,
            added,
            failure: Mutex::default(),
        }
    }

    /// The error of a comparison that has failed.
    fn failed(&self) -> Result<()> {
        self.failure.lock().take().map_or(Ok(()), Err)
    }

    /// What a comparison gives; false, for now, where it fails.
    fn noted(&self, equal: Result<bool>) -> bool {
        equal.unwrap_or_else(|error| {
            self.failure.lock().get_or_insert(error);
            false
        })
    }

    /// Whether a row of a segment has the key `at` of some.
    fn has(&self, keys: &[ArrayRef], at: usize, segment: &Segment, row: usize) -> bool {
        self.noted(self.key.values(segment, row, 1).map(|own| {
            let mut pairs = keys.iter().zip(&own.columns);
            pairs.all(|(keys, own)| same_value(&keys.slice(at, 1), own))
        }))
    }

    /// Blocks of a segment's key columns, each with the number of its first row.
    fn blocks(&self, segment: &Segment, mut visit: impl FnMut(usize, Block<'_>) -> Result<bool>) -> Result<bool> {
        let (mut first, mut whole) = (Vec::new(), Vec::new());
        for offset in (0..segment.rows()).step_by(BLOCK_ROWS) {
            let rows = BLOCK_ROWS.min(segment.rows() - offset);
            first.clear();
            first.resize(rows, 0);
            let keys = self.key.values(segment, offset, rows)?;
            let mut comparable: Option<NullBuffer> = keys.held.map(NullBuffer::new);
            for (index, values) in keys.columns.into_iter().enumerate() {
                let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
                if index == 0 {
                    hash_array(&values, &mut first);
                    whole.clone_from(&first);
                } else {
                    hash_array(&values, &mut whole);
                }
                match nulls {
                    // What lies under a NULL is any value: all of them hash alike.
                    Some(nulls) if self.key.nulls_not_distinct() => {
                        let null_rows = (0..rows).filter(|row| nulls.is_null(*row));
                        null_rows.for_each(|row| whole[row] = hash_u64(index as u64));
                    }
                    nulls => comparable = NullBuffer::union(comparable.as_ref(), nulls.as_ref()),
                }
            }
            let (first, whole) = (first.as_slice(), whole.as_slice());
            let block = Block {
                first,
                whole,
                comparable,
            };
            if !visit(offset, block)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The rows of a segment whose key may equal another, each with the hash of its key.
    fn comparable_hashes(&self, segment: &Segment) -> Result<Vec<(u32, u64)>> {
        let mut hashes = Vec::with_capacity(segment.rows());
        self.blocks(segment, |offset, block| {
            let rows = block
                .whole
                .iter()
                .enumerate()
                .filter(|(row, _)| block.is_comparable(*row));
            hashes.extend(rows.map(|(row, hash)| ((offset + row) as u32, *hash)));
            Ok(true)
        })?;
        Ok(hashes)
    }

    /// Looks for the added keys in a segment: the first of those that are there.
    fn look_up(&self, added: &HashTable<Row>, segment: &Arc<Segment>, rows_there: &RowTable) -> Option<Row> {
        let whole = segment.whole();
        let is_there = |own: &&Row| {
            rows_there.rows(own.hash).any(|there| {
                segment.live().is_none_or(|live| live.rank(there).is_some())
                    && self.equal(whole, there, &self.added[own.segment as usize], own.row as usize)
            })
        };
        added.iter().filter(is_there).copied().map(Some).fold(None, Row::first)
    }

    /// For keys whose first column ascends: compares within runs of equal ones. False where a run is too long.
    fn check_runs(&self) -> Result<bool> {
        let mut run: Vec<Row> = Vec::new();
        let mut run_hash = 0;
        for (index, segment) in self.added.iter().enumerate() {
            let complete = self.blocks(segment, |offset, block| {
                for (row, (first, whole)) in block.first.iter().zip(block.whole).enumerate() {
                    if !block.is_comparable(row) {
                        continue;
                    }
                    if *first != run_hash {
                        run_hash = *first;
                        run.clear();
                    }
                    let own = Row {
                        hash: *whole,
                        segment: index as u32,
                        row: (offset + row) as u32,
                    };
                    for other in run.iter().filter(|other| other.hash == own.hash) {
                        self.check_pair(own, *other)?;
                    }
                    run.push(own);
                    if run.len() > RUN_ROWS_MAX {
                        return Ok(false);
                    }
                }
                Ok(true)
            });
            if !complete? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn hash_added(&self, rows: usize, among: Among) -> Result<HashTable<Row>> {
        let mut table: HashTable<Row> = HashTable::with_capacity(rows);
        for (index, segment) in self.added.iter().enumerate() {
            self.blocks(segment, |offset, block| {
                for (row, hash) in block
                    .whole
                    .iter()
                    .enumerate()
                    .filter(|(row, _)| block.is_comparable(*row))
                {
                    let own = Row {
                        hash: *hash,
                        segment: index as u32,
                        row: (offset + row) as u32,
                    };
                    let mut failed = None;
                    let found = table.find(*hash, |other| {
                        among == Among::Checked
                            && other.hash == *hash
                            && self
                                .check_pair(own, *other)
                                .inspect_err(|e| failed = Some(e.clone()))
                                .is_err()
                    });
                    if found.is_some() {
                        return Err(
                            failed.unwrap_or_else(|| StorageError::internal("a duplicate key without an error"))
                        );
                    }
                    table.insert_unique(*hash, own, |row| row.hash);
                }
                Ok(true)
            })?;
        }
        Ok(table)
    }

    /// Looks for a segment's keys among the added: the first of those that are there.
    fn probe(&self, table: &HashTable<Row>, segment: &Segment) -> Result<Option<Row>> {
        let mut first: Option<Row> = None;
        self.blocks(segment, |offset, block| {
            let rows = block.whole.iter().enumerate();
            for (row, hash) in rows.filter(|(row, _)| block.is_comparable(*row)) {
                let same = |added: &Row| {
                    let (of, at) = (&self.added[added.segment as usize], added.row as usize);
                    added.hash == *hash && self.equal(segment, offset + row, of, at)
                };
                first = Row::first(first, table.find(*hash, same).copied());
            }
            Ok(true)
        })?;
        Ok(first)
    }

    fn check_pair(&self, a: Row, b: Row) -> Result<()> {
        let (first, second) = (&self.added[a.segment as usize], &self.added[b.segment as usize]);
        if self.equal(first, a.row as usize, second, b.row as usize) {
            return Err(self.violation(a));
        }
        Ok(())
    }

    fn equal(&self, a: &Segment, row: usize, b: &Segment, other: usize) -> bool {
        self.noted(self.key.equal((a, row), (b, other)))
    }

    fn violation(&self, row: Row) -> StorageError {
        let (before, segment) = (&self.added[..row.segment as usize], &self.added[row.segment as usize]);
        let number = before.iter().map(|segment| segment.rows() as u64).sum::<u64>() + u64::from(row.row);
        let names = self.key.shown(self.definition);
        let values = match self.key.values(segment, row.row as usize, 1) {
            Ok(values) => values.columns.iter().map(display).collect::<Vec<_>>(),
            Err(error) => return error,
        };
        let message = format!("duplicate key value violates unique constraint \"{}\"", self.key.name());
        let subject = Subject::table(&self.definition.schema_name, &self.definition.name).constraint(self.key.name());
        StorageError::new(ErrorKind::UniqueViolation, message)
            .about(Subject {
                row: Some(number),
                ..subject
            })
            .detail(format!(
                "Key ({})=({}) already exists.",
                names.join(", "),
                values.join(", ")
            ))
    }
}

/// Whether two arrays of one value hold the same: numerics whatever their display scales, floats whichever zero they are.
fn same_value(a: &ArrayRef, b: &ArrayRef) -> bool {
    if let (Some(a), Some(b)) = (float(a), float(b)) {
        return a == b || a.is_nan() && b.is_nan();
    }
    match (a.as_binary_opt::<i64>(), b.as_binary_opt::<i64>()) {
        (Some(a), Some(b)) if a.is_valid(0) && b.is_valid(0) => compare_key(a.value(0)) == compare_key(b.value(0)),
        _ => **a == **b,
    }
}

/// A float that is there.
fn float(value: &ArrayRef) -> Option<f64> {
    match value.data_type() {
        _ if value.is_null(0) => None,
        DataType::Float32 => Some(value.as_primitive::<Float32Type>().value(0).into()),
        DataType::Float64 => Some(value.as_primitive::<Float64Type>().value(0)),
        _ => None,
    }
}

fn display(value: &ArrayRef) -> String {
    match value.as_binary_opt::<i64>().filter(|numerics| numerics.is_valid(0)) {
        Some(numerics) => Numeric::from_bytes(numerics.value(0)).to_string(),
        None => shown(value, 0),
    }
}
