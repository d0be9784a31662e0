//! Table 1 of Patidar and Narayanan 2009: sorting records of 32 to 256 bytes, 8 M to 64 M of them, by keys of 4, 6 and
//! 8 bytes. The keys are sorted with their row numbers, then each record moves once.

use rayon::prelude::*;
use tenon_gpu::Result;
use tenon_gpu::memory::{DeviceView, DeviceViewMut};
use tenon_gpu::primitives::sort::{SortOptions, sort_indices};
use tenon_gpu::primitives::sort_records::sort_records;

use tenon_laboratory::{Bench, random_at, size_text};

const RECORDS: [u64; 4] = [8 << 20, 16 << 20, 32 << 20, 64 << 20];

pub fn run(bench: &Bench) -> Result<()> {
    if !bench.wants("patidar.") {
        return Ok(());
    }
    let items_max = RECORDS.map(|full| bench.items(full)).into_iter().max().unwrap_or(0);
    let source = bench.random_u64(items_max * 32, 0)?;
    let keys = bench.random_u64(items_max, 7)?;
    let short_keys = bench.random_u32(items_max, 7)?;
    let mut output = bench.stream.alloc::<u64>(items_max * 32)?;
    let table = Table {
        bench,
        source: source.view(),
        keys: keys.view(),
        short_keys: short_keys.view(),
    };
    println!("Patidar 2009, Table 1: ms to sort records by keys of 4, 6, 8 bytes");
    for full in RECORDS {
        table.sort::<32>(full, output.view_mut())?;
        table.sort::<64>(full, output.view_mut())?;
        table.sort::<128>(full, output.view_mut())?;
        table.sort::<256>(full, output.view_mut())?;
    }
    Ok(())
}

struct Table<'a> {
    bench: &'a Bench,
    source: DeviceView<'a, u64>,
    keys: DeviceView<'a, u64>,
    short_keys: DeviceView<'a, u32>,
}

impl Table<'_> {
    fn sort<const BYTES: usize>(&self, full: u64, output: DeviceViewMut<'_, u64>) -> Result<()> {
        let (stream, items) = (&self.bench.stream, self.bench.items(full));
        let words = BYTES as u64 / 8;
        let records: DeviceView<'_, [u8; BYTES]> = self.source.slice(..items * words)?.cast()?;
        let mut output: DeviceViewMut<'_, [u8; BYTES]> = output.slice(..items * words)?.cast()?;
        let (keys, short_keys) = (self.keys.slice(..items)?, self.short_keys.slice(..items)?);
        for key_bytes in [4, 6, 8] {
            let name = format!("patidar.{BYTES}B.key{key_bytes}.{}", size_text(full));
            let options = SortOptions::default().bits(0..8 * key_bytes);
            let bytes = items * (2 * BYTES as u64 + key_bytes as u64);
            let timed = self.bench.row(&name, items, bytes, |_| match key_bytes {
                4 => sort_records(stream, short_keys, records, output.reborrow(), &options),
                _ => sort_records(stream, keys, records, output.reborrow(), &options),
            })?;
            if timed.is_some() {
                self.check(&name, key_bytes, items, words, output.as_view().cast()?)?;
            }
        }
        Ok(())
    }

    /// The order is right, and records lie in it: all of a stretch in the middle.
    fn check(&self, name: &str, key_bytes: u32, items: u64, words: u64, output: DeviceView<'_, u64>) -> Result<()> {
        let stream = &self.bench.stream;
        let mut indices = stream.alloc::<u32>(items)?;
        let options = SortOptions::default().bits(0..8 * key_bytes);
        sort_indices(stream, self.keys.slice(..items)?, indices.view_mut(), &options)?;
        let indices = stream.download(indices.view())?;
        let mask = u64::MAX >> (64 - 8 * key_bytes);
        let key = |i: usize| (random_at(indices[i] as u64, 7) & mask, indices[i]);
        assert!(
            (1..indices.len()).into_par_iter().all(|i| key(i - 1) < key(i)),
            "{name}: order"
        );
        let middle = items / 2..(items / 2 + 10_000).min(items);
        let moved = stream.download(output.slice(middle.start * words..middle.end * words)?)?;
        for (i, record) in middle.zip(moved.chunks(words as usize)) {
            let from = indices[i as usize] as u64 * words;
            let right = (from..).zip(record).all(|(at, &word)| word == random_at(at, 0));
            assert!(right, "{name}: record {i}");
        }
        Ok(())
    }
}
