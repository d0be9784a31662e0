//! A large table built by all cores: rows are partitioned by the region of the table that their keys belong to, in row
//! order, and each region is filled by one core within its cache, without atomics. Chains come out in row order, as from
//! one core.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use arrow::buffer::NullBuffer;
use datafusion::common::Result;
use rayon::prelude::*;
use tenon_cpu::partition::partition_unless;
use tenon_cpu::{Stop, filled};

use super::{Form, Head, KeyTable, Slot, Slots, direct_entries, home, slot_count};
use crate::offload::check;

/// Bytes of a region, which stay within a core's second-level cache.
const REGION_BYTES: usize = 1 << 18;
/// Regions at most: partitioning into more is slower than what it saves.
const REGIONS_MAX: usize = 1 << 12;

/// Rows after rows of the same key, which cores write at places of their own. Made when the first key repeats.
struct Chains(OnceLock<Vec<AtomicU32>>, usize);

impl Chains {
    /// Puts a row before those that hang on `head`.
    fn link(&self, head: &mut Head, row: Head) {
        if *head != 0 {
            let next = self.0.get_or_init(|| (0..self.1).map(|_| AtomicU32::new(0)).collect());
            next[row as usize].store(*head, Ordering::Relaxed);
        }
        *head = row + 1;
    }

    fn into_next(self) -> Option<Vec<Head>> {
        let next = self.0.into_inner()?;
        Some(next.into_iter().map(AtomicU32::into_inner).collect())
    }
}

impl KeyTable {
    /// None where the keys of a region would not leave it an empty slot.
    pub(super) fn build_by_all(
        keys: &[i64],
        valid: Option<&NullBuffer>,
        range: Option<(i64, i64)>,
        stop: Stop<'_>,
    ) -> Result<Option<Self>> {
        let chains = Chains(OnceLock::new(), keys.len());
        let form = match (direct_entries(keys.len(), range), range) {
            (Some(entries), Some((min, _))) => direct(keys, valid, (min, entries), &chains, stop)?,
            _ => match hashed(keys, valid, &chains, stop)? {
                Some(slots) => Form::Hashed(slots),
                None => return Ok(None),
            },
        };
        let next = chains.into_next();
        Ok(Some(Self { form, next }))
    }
}

fn direct(
    keys: &[i64],
    valid: Option<&NullBuffer>,
    (min, entries): (i64, usize),
    chains: &Chains,
    stop: Stop<'_>,
) -> Result<Form> {
    let of_region = region_items(entries, size_of::<Head>());
    let mut heads: Vec<Head> = filled(0, entries);
    let at = |key: i64| key.wrapping_sub(min) as usize;
    let rows = Rows::by(
        keys,
        valid,
        entries.div_ceil(of_region),
        |key| at(key) / of_region,
        stop,
    )?;
    let regions = heads.par_chunks_mut(of_region).enumerate();
    regions.filter(|_| !stop.is_set()).for_each(|(region, heads)| {
        rows.of(region)
            .for_each(|(key, row)| chains.link(&mut heads[at(key) - region * of_region], row));
    });
    check(stop)?;
    Ok(Form::Direct { min, heads })
}

fn hashed(keys: &[i64], valid: Option<&NullBuffer>, chains: &Chains, stop: Stop<'_>) -> Result<Option<Slots>> {
    let count = slot_count(keys.len());
    let of_region = region_items(count, size_of::<Slot>());
    let mut table = Slots::new(count, of_region);
    let (shift, mask) = (table.shift, table.mask);
    let rows = Rows::by(keys, valid, count / of_region, |key| home(key, shift) / of_region, stop)?;
    let overflows = AtomicBool::new(false);
    let regions = table.slots.par_chunks_mut(of_region).enumerate();
    regions.filter(|_| !stop.is_set()).for_each(|(region, slots)| {
        let mut taken = 0;
        for (key, row) in rows.of(region) {
            let mut at = home(key, shift) & mask;
            while slots[at].head != 0 && slots[at].key != key {
                at = (at + 1) & mask;
            }
            if slots[at].head == 0 {
                taken += 1;
                // The table is half full at most; this region is not, by the keys' doing.
                if taken > of_region / 4 * 3 {
                    return overflows.store(true, Ordering::Relaxed);
                }
            }
            slots[at].key = key;
            chains.link(&mut slots[at].head, row);
        }
    });
    check(stop)?;
    Ok((!overflows.into_inner()).then_some(table))
}

/// Items of a region, a power of two.
fn region_items(items: usize, bytes: usize) -> usize {
    let fewest = items.div_ceil(REGIONS_MAX).next_power_of_two();
    (REGION_BYTES / bytes)
        .next_power_of_two()
        .max(fewest)
        .min(items.next_power_of_two())
}

/// Keys and rows by region.
struct Rows {
    keys: Vec<i64>,
    rows: Vec<Head>,
    /// The first place of each region, and the end.
    starts: Vec<usize>,
}

impl Rows {
    fn by(
        keys: &[i64],
        valid: Option<&NullBuffer>,
        regions: usize,
        region_of: impl Fn(i64) -> usize + Sync,
        stop: Stop<'_>,
    ) -> Result<Self> {
        let (picked, rows): (Vec<i64>, Vec<Head>);
        let from = match valid {
            None => {
                rows = (0..keys.len() as Head).into_par_iter().collect();
                keys
            }
            Some(valid) => {
                rows = valid.valid_indices().map(|row| row as Head).collect();
                picked = rows.par_iter().map(|&row| keys[row as usize]).collect();
                &picked[..]
            }
        };
        check(stop)?;
        let (mut keys_out, mut rows_out) = (filled(0, from.len()), filled(0, from.len()));
        let starts = partition_unless(stop, from, &rows, &mut keys_out, &mut rows_out, regions, region_of);
        check(stop)?;
        Ok(Self {
            keys: keys_out,
            rows: rows_out,
            starts,
        })
    }

    /// Those of a region, the last row first: so each chain runs in row order.
    fn of(&self, region: usize) -> impl Iterator<Item = (i64, Head)> {
        let range = self.starts[region]..self.starts[region + 1];
        range.rev().map(|at| (self.keys[at], self.rows[at]))
    }
}
