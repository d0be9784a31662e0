//! The operators under test: one line each.

use std::sync::Arc;

use tenon_gpu::join::hash::{HashOptions, HashTable, JoinShape, PartitionShape, PartitionedJoin, TableJoin, hash_join};
use tenon_gpu::join::{Matcher, Residual, Side};
use tenon_gpu::{Result, Stream};

use super::case::Case;
use super::ordered;

/// Build and probe side on the device, a condition, and what else the case asks for.
pub type GpuOperator = for<'a> fn(&Stream, Side<'a>, Side<'a>, Residual, &Case) -> Result<Box<dyn Matcher + 'a>>;

pub const GPU: &[(&str, GpuOperator)] = &[
    ("hash join by a shared table", shared_table),
    ("hash join by partitions, one pass", one_pass),
    ("hash join by partitions, two passes", two_passes),
    ("hash join", |stream, build, probe, residual, case| {
        hash_join(stream, build, probe, residual, &options(case, None))
    }),
    ("sort-merge join", ordered::sort_merge),
    ("indexed nested-loop join", ordered::indexed),
];

/// Those that compare all rows with all, for small cases.
pub const NESTED: &[(&str, GpuOperator)] = &[("nested-loop join", ordered::nested_loop)];

/// Keys and rows of both sides: nulls left out.
pub struct CpuSides<'a> {
    pub build: (&'a [u64], &'a [u32]),
    pub probe: (&'a [u64], &'a [u32]),
}

pub type CpuOperator = for<'a> fn(CpuSides<'a>) -> Box<dyn tenon_cpu::join::Matcher + 'a>;

pub const CPU: &[(&str, CpuOperator)] = &[
    ("hash join on the CPU", cpu_hash),
    ("sort-merge join on the CPU", ordered::cpu_sort_merge),
    ("indexed nested-loop join on the CPU", ordered::cpu_indexed),
    ("nested-loop join on the CPU", ordered::cpu_nested_loop),
];

fn options(case: &Case, passes: Option<Vec<PartitionShape>>) -> HashOptions {
    HashOptions {
        equal_hashes: case.equal_hashes,
        passes,
        join: Some(small_join()),
    }
}

/// Small tiles and tables, so that small inputs have several of each, and tables are too small for some.
pub fn small_join() -> JoinShape {
    JoinShape {
        threads: 64,
        items: 2,
        blocks: 1,
        capacity: 100,
        tiles: 2,
    }
}

pub fn pass(bits: u32) -> PartitionShape {
    PartitionShape {
        bits,
        threads: 64,
        items: 4,
        blocks: 1,
    }
}

fn shared_table<'a>(
    stream: &Stream,
    build: Side<'a>,
    probe: Side<'a>,
    residual: Residual,
    case: &Case,
) -> Result<Box<dyn Matcher + 'a>> {
    let table = Arc::new(HashTable::new(stream, build, &options(case, None))?);
    Ok(Box::new(TableJoin::new(table, probe, residual)?))
}

fn one_pass<'a>(
    stream: &Stream,
    build: Side<'a>,
    probe: Side<'a>,
    residual: Residual,
    case: &Case,
) -> Result<Box<dyn Matcher + 'a>> {
    let options = options(case, Some(vec![pass(3)]));
    Ok(Box::new(PartitionedJoin::new(
        stream, build, probe, residual, &options,
    )?))
}

fn two_passes<'a>(
    stream: &Stream,
    build: Side<'a>,
    probe: Side<'a>,
    residual: Residual,
    case: &Case,
) -> Result<Box<dyn Matcher + 'a>> {
    let options = options(case, Some(vec![pass(2), pass(7)]));
    Ok(Box::new(PartitionedJoin::new(
        stream, build, probe, residual, &options,
    )?))
}

/// A matcher with its table.
struct CpuHash<'a> {
    table: tenon_cpu::join::hash::HashTable<u64>,
    probe: (&'a [u64], &'a [u32]),
}

impl tenon_cpu::join::Matcher for CpuHash<'_> {
    fn positions(&self) -> usize {
        self.probe.0.len()
    }

    fn pairs(
        &self,
        positions: std::ops::Range<usize>,
        emit: &mut tenon_cpu::join::Emit<'_>,
    ) -> std::ops::ControlFlow<()> {
        tenon_cpu::join::hash::HashMatcher {
            table: &self.table,
            keys: self.probe.0,
            rows: Some(self.probe.1),
        }
        .pairs(positions, emit)
    }
}

fn cpu_hash<'a>(sides: CpuSides<'a>) -> Box<dyn tenon_cpu::join::Matcher + 'a> {
    Box::new(CpuHash {
        table: tenon_cpu::join::hash::HashTable::new(sides.build.0, sides.build.1),
        probe: sides.probe,
    })
}
