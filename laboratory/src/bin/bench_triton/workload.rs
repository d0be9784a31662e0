//! Lutz's workload in pinned host memory, and what its joins must give.

use rayon::prelude::*;
use tenon_gpu::memory::{Element, PinnedBuffer};
use tenon_gpu::{Device, Result};
use tenon_laboratory::{permuted, random_at};

/// A column of 4 or 8 bytes.
pub trait Word: Element {
    fn of(number: u64) -> Self;
    fn number(self) -> u64;
}
impl Word for u32 {
    fn of(number: u64) -> u32 {
        number as u32
    }
    fn number(self) -> u64 {
        self as u64
    }
}
impl Word for u64 {
    fn of(number: u64) -> u64 {
        number
    }
    fn number(self) -> u64 {
        self
    }
}

/// Keys and payloads of both sides: room for the largest join of a series.
pub struct Columns<K, V> {
    build: (PinnedBuffer<K>, PinnedBuffer<V>),
    probe: (PinnedBuffer<K>, PinnedBuffer<V>),
}

/// One join's inputs and its right answer.
pub struct Join<'a, K, V> {
    pub build: (&'a [K], &'a [V]),
    pub probe: (&'a [K], &'a [V]),
    pub count: u64,
    pub sum: u64,
}

/// The payload of a build row, from its key.
fn payload(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7
}

/// Rows of one task.
const PART: usize = 1 << 16;

impl<K: Word, V: Word> Columns<K, V> {
    pub fn new(device: &Device, build_rows: u64, probe_rows: u64) -> Result<Columns<K, V>> {
        Ok(Columns {
            build: (device.pinned(build_rows)?, device.pinned(build_rows)?),
            probe: (device.pinned(probe_rows)?, device.pinned(probe_rows)?),
        })
    }

    /// Fills the first rows: build keys are a permutation of 1 to `build_rows`, a power of two.
    pub fn fill(&mut self, build_rows: u64, probe_rows: u64) -> Join<'_, K, V> {
        let (build, probe) = (build_rows as usize, probe_rows as usize);
        let parts =
            |keys: &'_ mut [K], values: &'_ mut [V], key_at: &(dyn Fn(u64) -> u64 + Sync), of_key: bool| -> u64 {
                keys.par_chunks_mut(PART)
                    .zip(values.par_chunks_mut(PART))
                    .enumerate()
                    .map(|(part, (keys, values))| {
                        let mut sum = 0u64;
                        for (i, (key, value)) in keys.iter_mut().zip(values).enumerate() {
                            let row = (part * PART + i) as u64;
                            let number = key_at(row);
                            *key = K::of(number);
                            *value = V::of(if of_key { payload(number) } else { random_at(row, 3) });
                            sum = sum.wrapping_add(V::of(payload(number)).number().wrapping_mul(value.number()));
                        }
                        sum
                    })
                    .reduce(|| 0, u64::wrapping_add)
            };
        let build_key = |row| permuted(row, build_rows, 1) + 1;
        let probe_key = |row| random_at(row, 2) % build_rows + 1;
        parts(&mut self.build.0[..build], &mut self.build.1[..build], &build_key, true);
        let sum = parts(
            &mut self.probe.0[..probe],
            &mut self.probe.1[..probe],
            &probe_key,
            false,
        );
        Join {
            build: (&self.build.0[..build], &self.build.1[..build]),
            probe: (&self.probe.0[..probe], &self.probe.1[..probe]),
            count: probe_rows,
            sum,
        }
    }
}

impl<K, V> Join<'_, K, V> {
    /// Rows of both sides, and their bytes.
    pub fn size(&self) -> (u64, u64) {
        let rows = (self.build.0.len() + self.probe.0.len()) as u64;
        (rows, rows * (size_of::<K>() + size_of::<V>()) as u64)
    }
}
