//! The CPU's rates, of one core: where an operator's step runs on all cores, its time counts for each of them.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, UInt32Array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{JoinSide, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use tenon_cpu::Stop;
use tenon_cpu::join::hash::{HashMatcher, HashTable};
use tenon_cpu::join::{Matcher, NestedLoopMatcher, Probe, RangeMatcher, Side};
use tenon_storage::{ColumnDef, ColumnOrder, Database, IndexDef, MemoryBudget, SqlType, TableDef};

use crate::gpu_error::to_datafusion;
use crate::index::IndexData;
use crate::join::cost::{Cpu, FAR_ROWS, Hashing, NEAR_ROWS, Rate};
use crate::join::materialized::tested;
use crate::join::normalized_keys::normalize;
use crate::join::packing::Packing;
use crate::join::table::{KeyTable, SHARED_ROWS_MIN};
use crate::keys::key_range;

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;
/// Rows that are sorted and merged.
const SORTED_ROWS: usize = 1 << 19;
/// Rows that are copied and turned into words.
const COPIED_ROWS: usize = 1 << 21;
/// Keys a side that are compared all with all.
const COMPARED_ROWS: usize = 1 << 12;
/// Pairs of rows that a condition is evaluated for.
const TESTED_PAIRS: usize = 1 << 15;
/// Rows of a table with an index, and keys looked up.
const INDEXED_ROWS: usize = 1 << 18;
const LOOKUPS: usize = 1 << 14;
const RANGES: usize = 1 << 12;
/// What the fastest run of a piece of work is taken of: so many runs, or those that fit this time.
const RUNS_MAX: usize = 30;
const RUNS_TIME: Duration = Duration::from_millis(15);

/// Measures one thing after the other, the most telling first, until the time is up.
pub fn measure(cpu: &mut Cpu, until: Instant) -> Result<()> {
    let steps: [fn(&mut Cpu) -> Result<()>; 9] = [
        |cpu| streamed(cpu, NEAR_ROWS),
        |cpu| materialized(cpu, NEAR_ROWS),
        |cpu| streamed(cpu, FAR_ROWS),
        |cpu| materialized(cpu, FAR_ROWS),
        sorted,
        far_searches,
        copies,
        pairs,
        index,
    ];
    for step in steps {
        if Instant::now() >= until {
            break;
        }
        step(cpu)?;
    }
    Ok(())
}

/// Items a second: the fastest of several runs, at least three. The first ones fault pages in, and find cold caches and
/// a core that has not yet been given its full clock, which would make of a table's rate a fraction of what it is.
fn rate(items: usize, work: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    let begin = Instant::now();
    for turn in 0..RUNS_MAX {
        let start = Instant::now();
        work()?;
        best = best.min(start.elapsed().as_secs_f64());
        if turn >= 2 && begin.elapsed() > RUNS_TIME {
            break;
        }
    }
    Ok(items as f64 / best.max(1e-9))
}

/// The same for work that all cores share.
fn shared_rate(items: usize, work: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
    Ok(rate(items, work)? / rayon::current_num_threads() as f64)
}

/// The numbers below `rows`, a power of two, in no order.
fn dense(rows: usize, turn: u64) -> Vec<u64> {
    let bits = rows.trailing_zeros();
    let mask = rows as u64 - 1;
    let mix = |at: u64| {
        let at = (at ^ at >> (bits / 2)).wrapping_mul(0x9e37_79b9 | turn << 1 | 1) & mask;
        (at ^ at >> (bits / 2)).wrapping_mul(0x85eb_ca6b) & mask
    };
    (0..rows as u64).map(mix).collect()
}

/// The same numbers far apart.
fn sparse(dense: &[u64]) -> Vec<u64> {
    dense
        .iter()
        .map(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 2)
        .collect()
}

fn column(keys: &[u64]) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(keys.iter().map(|key| *key as i64)))
}

/// Each rate at so many rows.
fn set(hashing: &mut Hashing, rows: usize, build: f64, probe: f64) {
    for (rate, value) in [(&mut hashing.build, build), (&mut hashing.probe, probe)] {
        match rows {
            // Until the other end is measured, it is as far off as by default.
            NEAR_ROWS => *rate = Rate::new(value, value * rate.far / rate.near),
            // May be the higher one: what all cores build must be large to be worth their while.
            _ => rate.far = value,
        }
    }
}

fn streamed(cpu: &mut Cpu, rows: usize) -> Result<()> {
    let (keys, probes) = (dense(rows, 1), dense(rows, 2));
    for (hashing, keys, probes) in [
        (&mut cpu.table, sparse(&keys), sparse(&probes)),
        (&mut cpu.array, keys, probes),
    ] {
        let (keys, probes) = (column(&keys), column(&probes));
        let mut made = None;
        let build = if rows < SHARED_ROWS_MIN { rate } else { shared_rate };
        let build = build(rows, &mut || {
            let (packing, integers, _) = Packing::of_build(vec![Arc::clone(&keys)], rows, Stop::never())?;
            let range = key_range(&integers.values, None);
            made = Some((packing, KeyTable::build(&integers.values, None, range, Stop::never())?));
            Ok(())
        })?;
        let Some((packing, table)) = made else { continue };
        let (mut integers, mut heads) = (vec![], vec![]);
        let probe = rate(rows, &mut || {
            for from in (0..rows).step_by(BATCH_ROWS) {
                let batch = [probes.slice(from, BATCH_ROWS.min(rows - from))];
                packing.of_probe(&batch, batch[0].len(), &mut integers)?;
                table.probe(&integers, None, &mut heads);
                let found: Vec<u32> = heads.iter().map(|head| head.wrapping_sub(1)).collect();
                std::hint::black_box(found);
            }
            Ok(())
        })?;
        set(hashing, rows, build, probe);
    }
    Ok(())
}

fn materialized(cpu: &mut Cpu, rows: usize) -> Result<()> {
    let (keys, probes) = (dense(rows, 1), dense(rows, 2));
    let numbers: Vec<u32> = (0..rows as u32).collect();
    for (hashing, keys, probes) in [
        (&mut cpu.shared_table, sparse(&keys), sparse(&probes)),
        (&mut cpu.shared_array, keys, probes),
    ] {
        let mut table = None;
        let build = shared_rate(rows, &mut || {
            table = Some(HashTable::new(&keys, &numbers));
            Ok(())
        })?;
        let Some(table) = table else { continue };
        let matcher = HashMatcher {
            table: &table,
            keys: &probes,
            rows: None,
        };
        set(hashing, rows, build, rate(rows, &mut || found(&matcher))?);
    }
    Ok(())
}

/// All pairs of a matcher, for nobody.
fn found(matcher: &dyn Matcher) -> Result<()> {
    let _ = matcher.pairs(0..matcher.positions(), &mut |build, probe| {
        std::hint::black_box((build, probe));
        ControlFlow::Continue(())
    });
    Ok(())
}

fn side(keys: &[u64]) -> Result<Side<'_, u64>> {
    Side::new(keys, None).map_err(to_datafusion)
}

fn sorted(cpu: &mut Cpu) -> Result<()> {
    let keys = sparse(&dense(SORTED_ROWS, 3));
    let narrow: Vec<u32> = keys.iter().map(|key| (key >> 30) as u32).collect();
    cpu.sorted_u32_per_s = shared_rate(SORTED_ROWS, &mut || {
        let side = Side::<u32>::new(&narrow[..], None).and_then(Side::sorted);
        std::hint::black_box(side.map_err(to_datafusion)?);
        Ok(())
    })?;
    let mut in_order = None;
    cpu.sorted_u64_per_s = shared_rate(SORTED_ROWS, &mut || {
        in_order = Some(side(&keys)?.sorted().map_err(to_datafusion)?);
        Ok(())
    })?;
    let Some(in_order) = in_order else { return Ok(()) };
    let probe = Probe::equal(in_order.clone()).ascending();
    let merge = RangeMatcher::new(in_order, probe);
    cpu.merged_rows_per_s = rate(2 * SORTED_ROWS, &mut || found(&merge))?;
    let near = searches(NEAR_ROWS)?;
    cpu.searches = Rate::new(near, near * cpu.searches.far / cpu.searches.near);
    Ok(())
}

fn searches(rows: usize) -> Result<f64> {
    let mut keys = sparse(&dense(rows, 4));
    let probes = keys.clone();
    keys.sort_unstable();
    let tree = RangeMatcher::new(side(&keys)?, Probe::equal(side(&probes)?));
    rate(rows, &mut || found(&tree))
}

fn far_searches(cpu: &mut Cpu) -> Result<()> {
    cpu.searches.far = searches(FAR_ROWS)?.min(cpu.searches.near);
    Ok(())
}

fn pairs(cpu: &mut Cpu) -> Result<()> {
    let keys: Vec<u32> = (0..COMPARED_ROWS as u32).collect();
    let side = || Side::<u32>::new(Cow::Borrowed(&keys[..]), None).map_err(to_datafusion);
    let loops = NestedLoopMatcher::new(side()?, side()?);
    cpu.compared_pairs_per_s = rate(COMPARED_ROWS * COMPARED_ROWS, &mut || found(&loops))?;

    let fields = ["a", "b"].map(|name| Field::new(name, DataType::Int64, false));
    let both = [JoinSide::Left, JoinSide::Right].map(|side| ColumnIndex { index: 0, side });
    let (a, b) = (Arc::new(Column::new("a", 0)), Arc::new(Column::new("b", 1)));
    let condition = Arc::new(BinaryExpr::new(a, Operator::Lt, b));
    let filter = JoinFilter::new(condition, both.to_vec(), Arc::new(Schema::new(fields.to_vec())));
    let values = vec![Some(column(&dense(COMPARED_ROWS, 5)))];
    let rows = |shift: usize| {
        let rows = (0..TESTED_PAIRS).map(|at| (at >> shift) as u32 % COMPARED_ROWS as u32);
        UInt32Array::from_iter_values(rows)
    };
    let (build_rows, probe_rows) = (rows(0), rows(6));
    cpu.tested_pairs_per_s = rate(TESTED_PAIRS, &mut || {
        let pairs = (build_rows.clone(), probe_rows.clone());
        std::hint::black_box(tested(None, Some(&filter), (&values, &values), pairs)?);
        Ok(())
    })?;
    Ok(())
}

fn copies(cpu: &mut Cpu) -> Result<()> {
    let keys_of = dense(COPIED_ROWS, 6);
    let keys = column(&keys_of);
    let batches: Vec<ArrayRef> = (0..COPIED_ROWS)
        .step_by(BATCH_ROWS)
        .map(|from| keys.slice(from, BATCH_ROWS.min(COPIED_ROWS - from)))
        .collect();
    let pieces: Vec<_> = batches.iter().map(|batch| batch.as_ref()).collect();
    // Once: the memory is as new as it is for a join.
    let start = Instant::now();
    std::hint::black_box(concat(&pieces)?);
    cpu.copied_bytes_per_s = size_of_val(&keys_of[..]) as f64 / start.elapsed().as_secs_f64().max(1e-9);
    cpu.coded_rows_per_s = shared_rate(COPIED_ROWS, &mut || {
        std::hint::black_box(normalize(&keys, Stop::never())?);
        Ok(())
    })?;
    Ok(())
}

/// Rows of a table looked up by its index.
fn index(cpu: &mut Cpu) -> Result<()> {
    let external = |error: tenon_storage::StorageError| datafusion::common::DataFusionError::External(Box::new(error));
    let budget = MemoryBudget::unlimited();
    let database = Database::new(Arc::clone(&budget));
    let mut transaction = database.begin();
    let def = TableDef {
        columns: vec![ColumnDef::new("k", SqlType::Int8)],
        ..TableDef::default()
    };
    transaction.create_table("public", "t", def).map_err(external)?;
    let def = IndexDef {
        columns: vec![("k".to_string(), ColumnOrder::default())],
        ..IndexDef::default()
    };
    transaction.create_index("public", "t", def).map_err(external)?;
    let Some(table) = transaction.state().table("public", "t").cloned() else {
        return Ok(());
    };
    let keys = column(&dense(INDEXED_ROWS, 7));
    let mut writer = transaction.writer(&table);
    let batch = arrow::array::RecordBatch::try_new(table.schema().clone(), vec![Arc::clone(&keys)])?;
    writer.append(&batch).map_err(external)?;
    transaction
        .append(table.oid(), writer.finish().map_err(external)?)
        .map_err(external)?;
    let table = transaction.state().table("public", "t");
    let Some((table, index)) = table.and_then(|table| Some((table, table.definition().all_indexes().next()?))) else {
        return Ok(());
    };
    let Some(reader) = IndexData::reader(table, &index.into(), &budget)? else {
        return Ok(());
    };
    cpu.index_ranges_per_s = rate(RANGES, &mut || {
        for row in 0..RANGES {
            let range = [reader.encoding().range(&[keys.slice(row, 1)], None, None)?];
            std::hint::black_box(reader.count(&range));
            reader.visit(&range[0], |segment, row| {
                std::hint::black_box((segment, row));
            });
        }
        Ok(())
    })?;
    let looked_up = [keys.slice(INDEXED_ROWS / 2, LOOKUPS)];
    cpu.index_lookups_per_s = rate(LOOKUPS, &mut || {
        reader.equal_rows(&looked_up, |_, segment, row| {
            std::hint::black_box((segment, row));
            Ok(())
        })
    })?;
    Ok(())
}
