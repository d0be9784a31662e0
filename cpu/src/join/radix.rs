//! The radix-partitioned hash join on the CPU, of one key and one payload column a side (He 2008, section 4.3; Balkesen
//! and others 2013).
//!
//! ```sql
//! SELECT count(*), sum(build.value * probe.value) FROM build JOIN probe USING (key)
//! SELECT key, build.value, probe.value FROM build JOIN probe USING (key)
//! ```
//!
//! Both sides are partitioned by the hash's upper bits with software write combining, until a partition's table fits the
//! second-level cache; then each partition is joined by one task. A partition with many probe rows is probed by many.

use rayon::prelude::*;

use super::hash::HashKey;
use crate::partition::partition;
use crate::prefetch;

/// Build rows of a partition: with its table, about a megabyte.
const PARTITION_ROWS: usize = 32 << 10;
/// Partitions at most: their write-combining buffers stay in the second-level cache.
const BITS_MAX: u32 = 12;
/// Probe rows of one task.
const TASK_ROWS: usize = 1 << 18;
/// Probes whose slots are fetched together.
const BATCH: usize = 16;
const NONE: u32 = u32::MAX;

/// Keys and payloads of one side, of equal length.
#[derive(Clone, Copy)]
pub struct RadixSide<'a, K, V> {
    pub keys: &'a [K],
    pub values: &'a [V],
}

/// Rows of the result, some of them: each task has its own.
pub struct JoinedRows<K, B, P> {
    pub keys: Vec<K>,
    pub build_values: Vec<B>,
    pub probe_values: Vec<P>,
}

/// A side in order of partition.
struct Partitioned<K, V> {
    keys: Vec<K>,
    values: Vec<V>,
    offsets: Vec<usize>,
}

impl<K: HashKey, V: Copy + Default + Send + Sync> Partitioned<K, V> {
    fn new(side: RadixSide<'_, K, V>, bits: u32) -> Partitioned<K, V> {
        let mut keys = zeroed(side.keys.len());
        let mut values = zeroed(side.keys.len());
        let part = |key: K| {
            if bits == 0 {
                0
            } else {
                (key.hash() >> (64 - bits)) as usize
            }
        };
        let offsets = partition(side.keys, side.values, &mut keys, &mut values, 1 << bits, part);
        Partitioned { keys, values, offsets }
    }

    fn part(&self, part: usize) -> RadixSide<'_, K, V> {
        let range = self.offsets[part]..self.offsets[part + 1];
        RadixSide {
            keys: &self.keys[range.clone()],
            values: &self.values[range],
        }
    }
}

/// Default values, put there by all cores: the first touch of a page takes longer than writing it.
fn zeroed<T: Copy + Default + Send + Sync>(len: usize) -> Vec<T> {
    let mut values = Vec::with_capacity(len);
    (0..len)
        .into_par_iter()
        .map(|_| T::default())
        .collect_into_vec(&mut values);
    values
}

fn bits_for(build_rows: usize) -> u32 {
    let partitions = build_rows.div_ceil(PARTITION_ROWS).next_power_of_two();
    partitions.trailing_zeros().min(BITS_MAX)
}

/// Slot by the bits below the partition's.
#[inline(always)]
fn slot_of(hash: u64, bits: u32, mask: usize) -> usize {
    (hash << bits >> 32) as usize & mask
}

/// A table over one partition: slots hold numbers of entries.
struct Table<E> {
    slots: Vec<u32>,
    entries: Vec<E>,
    bits: u32,
}

/// The entry of a key.
trait Entry<K> {
    fn key(&self) -> K;
}

impl<E> Table<E> {
    fn new(rows: usize, bits: u32) -> Table<E> {
        Table {
            slots: vec![NONE; (rows * 2).next_power_of_two()],
            entries: Vec::with_capacity(rows),
            bits,
        }
    }

    /// The key's entry, or the slot where it belongs.
    #[inline(always)]
    fn find<K: HashKey>(&self, key: K) -> Result<usize, usize>
    where
        E: Entry<K>,
    {
        let mask = self.slots.len() - 1;
        let mut at = slot_of(key.hash(), self.bits, mask);
        loop {
            match self.slots[at] {
                NONE => return Err(at),
                entry if self.entries[entry as usize].key() == key => return Ok(entry as usize),
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Calls `f` with each probe key that is there, its place and its entry.
    #[inline(always)]
    fn probe<K: HashKey>(&self, keys: &[K], mut f: impl FnMut(usize, &E))
    where
        E: Entry<K>,
    {
        let mask = self.slots.len() - 1;
        for (number, batch) in keys.chunks(BATCH).enumerate() {
            batch
                .iter()
                .for_each(|key| prefetch(&self.slots[slot_of(key.hash(), self.bits, mask)]));
            for (i, &key) in batch.iter().enumerate() {
                if let Ok(entry) = self.find(key) {
                    f(number * BATCH + i, &self.entries[entry]);
                }
            }
        }
    }
}

/// All rows of a key together.
struct Total<K> {
    key: K,
    count: u64,
    sum: u64,
}
impl<K: HashKey> Entry<K> for Total<K> {
    #[inline(always)]
    fn key(&self) -> K {
        self.key
    }
}

/// The rows of a key as a list through `next`, from the last on.
struct List<K> {
    key: K,
    last: u32,
}
impl<K: HashKey> Entry<K> for List<K> {
    #[inline(always)]
    fn key(&self) -> K {
        self.key
    }
}

/// Number of pairs, and the sum of `build value * probe value` over them, modulo 2^64. Panics if lengths differ.
pub fn join_aggregated<K: HashKey, V: HashKey>(build: RadixSide<'_, K, V>, probe: RadixSide<'_, K, V>) -> (u64, u64) {
    let bits = bits_for(build.keys.len());
    let (build, probe) = (Partitioned::new(build, bits), Partitioned::new(probe, bits));
    let add = |a: (u64, u64), b: (u64, u64)| (a.0 + b.0, a.1.wrapping_add(b.1));
    (0..1usize << bits)
        .into_par_iter()
        .map(|part| {
            let (build, probe) = (build.part(part), probe.part(part));
            if build.keys.is_empty() || probe.keys.is_empty() {
                return (0, 0);
            }
            let mut table = Table::<Total<K>>::new(build.keys.len(), bits);
            for (&key, value) in build.keys.iter().zip(build.values) {
                match table.find(key) {
                    Ok(entry) => {
                        let total = &mut table.entries[entry];
                        total.count += 1;
                        total.sum = total.sum.wrapping_add(value.to_u64());
                    }
                    Err(slot) => {
                        table.slots[slot] = table.entries.len() as u32;
                        table.entries.push(Total {
                            key,
                            count: 1,
                            sum: value.to_u64(),
                        });
                    }
                }
            }
            let tasks = probe.keys.par_chunks(TASK_ROWS).zip(probe.values.par_chunks(TASK_ROWS));
            tasks
                .map(|(keys, values)| {
                    let mut found = (0, 0);
                    table.probe(keys, |at, total| {
                        found = add(found, (total.count, total.sum.wrapping_mul(values[at].to_u64())));
                    });
                    found
                })
                .reduce(|| (0, 0), add)
        })
        .reduce(|| (0, 0), add)
}

/// Key and payloads of every pair, in no order, in pieces by task. Panics if lengths differ.
pub fn join_materialised<K, B, P>(build: RadixSide<'_, K, B>, probe: RadixSide<'_, K, P>) -> Vec<JoinedRows<K, B, P>>
where
    K: HashKey,
    B: Copy + Default + Send + Sync,
    P: Copy + Default + Send + Sync,
{
    let bits = bits_for(build.keys.len());
    let (build, probe) = (Partitioned::new(build, bits), Partitioned::new(probe, bits));
    (0..1usize << bits)
        .into_par_iter()
        .flat_map(|part| {
            let (build, probe) = (build.part(part), probe.part(part));
            if build.keys.is_empty() {
                return Vec::new();
            }
            let mut table = Table::<List<K>>::new(build.keys.len(), bits);
            let mut next = vec![NONE; build.keys.len()];
            for (row, &key) in build.keys.iter().enumerate() {
                match table.find(key) {
                    Ok(entry) => next[row] = std::mem::replace(&mut table.entries[entry].last, row as u32),
                    Err(slot) => {
                        table.slots[slot] = table.entries.len() as u32;
                        table.entries.push(List { key, last: row as u32 });
                    }
                }
            }
            let tasks = probe.keys.par_chunks(TASK_ROWS).zip(probe.values.par_chunks(TASK_ROWS));
            tasks
                .map(|(keys, values)| {
                    let mut rows = JoinedRows {
                        keys: Vec::with_capacity(keys.len()),
                        build_values: Vec::with_capacity(keys.len()),
                        probe_values: Vec::with_capacity(keys.len()),
                    };
                    table.probe(keys, |at, list| {
                        let mut row = list.last;
                        while row != NONE {
                            rows.keys.push(list.key);
                            rows.build_values.push(build.values[row as usize]);
                            rows.probe_values.push(values[at]);
                            row = next[row as usize];
                        }
                    });
                    rows
                })
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    /// Sizes around a partition and a task, all skews; against a hash map of the standard library.
    #[test]
    fn joins_as_a_map_does() {
        let mut rng = StdRng::seed_from_u64(tenon_gpu::testing::seed("cpu radix join"));
        for (build_rows, probe_rows) in [
            (0, 10),
            (10, 0),
            (1, 1),
            (1000, 3000),
            (PARTITION_ROWS + 1, 5),
            (100_000, 300_000),
        ] {
            for distinct in [1u64, 7, 200_000] {
                let (build_rows, probe_rows) = if distinct < 8 {
                    (build_rows.min(300), probe_rows.min(1000))
                } else {
                    (build_rows, probe_rows)
                };
                let mut column =
                    |rows: usize, limit: u64| -> Vec<u64> { (0..rows).map(|_| rng.random_range(0..limit)).collect() };
                let (build, probe) = (column(build_rows, distinct), column(probe_rows, distinct));
                let (build_values, probe_values) = (column(build_rows, u64::MAX), column(probe_rows, u64::MAX));
                let mut map: HashMap<u64, Vec<u64>> = HashMap::new();
                for (&key, &value) in build.iter().zip(&build_values) {
                    map.entry(key).or_default().push(value);
                }
                let mut expected = Vec::new();
                for (&key, &value) in probe.iter().zip(&probe_values) {
                    let partners = map.get(&key).into_iter().flatten();
                    expected.extend(partners.map(|&partner| (key, partner, value)));
                }
                let sum = expected
                    .iter()
                    .fold(0u64, |sum, row| sum.wrapping_add(row.1.wrapping_mul(row.2)));
                let (build, probe) = (
                    RadixSide {
                        keys: build.as_slice(),
                        values: build_values.as_slice(),
                    },
                    RadixSide {
                        keys: probe.as_slice(),
                        values: probe_values.as_slice(),
                    },
                );
                assert_eq!(join_aggregated(build, probe), (expected.len() as u64, sum));
                let mut found = Vec::new();
                for rows in join_materialised(build, probe) {
                    let values = rows.build_values.iter().zip(&rows.probe_values);
                    found.extend(rows.keys.iter().zip(values).map(|(&k, (&b, &p))| (k, b, p)));
                }
                expected.sort_unstable();
                found.sort_unstable();
                assert!(found == expected, "{build_rows} x {probe_rows} rows, {distinct} keys");
            }
        }
    }
}
