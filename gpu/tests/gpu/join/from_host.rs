//! Joins of host columns in chunks against a map of the standard library.

use std::collections::HashMap;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tenon_gpu::join::css_tree::CssTree;
use tenon_gpu::join::from_host::{DeviceSide, FromHostOptions, HostColumn, materialised_from_host, pairs_from_host};
use tenon_gpu::join::hash::{HashOptions, HashTable, TableJoin};
use tenon_gpu::join::nested_loop::NestedLoopMatcher;
use tenon_gpu::join::probe::Probe;
use tenon_gpu::join::ranges::RangeMatcher;
use tenon_gpu::join::sorted::SortedSide;
use tenon_gpu::join::triton::{HostKeys, HostSide, HostValues};
use tenon_gpu::join::{Matcher, Residual, Side};
use tenon_gpu::{GpuError, Result, Stream, testing};

use super::operators::{pass, small_join};

type Pairs = Vec<(u32, u32)>;

/// Keys, and row numbers where rows are left out.
struct Input {
    keys: Vec<u64>,
    narrow: Vec<u32>,
    rows: Option<Vec<u32>>,
}

impl Input {
    fn draw(rng: &mut StdRng, distinct: u64) -> Input {
        let rows = *[0, 1, 31, 33, 100, 129, 1000].choose(rng).unwrap();
        let keys: Vec<u64> = (0..rows).map(|_| rng.random_range(0..distinct)).collect();
        Input {
            narrow: keys.iter().map(|&key| key as u32).collect(),
            rows: rng
                .random_bool(0.5)
                .then(|| (0..rows as u32).map(|row| row * 3 + 1).collect()),
            keys,
        }
    }

    fn row(&self, place: usize) -> u32 {
        self.rows.as_ref().map_or(place as u32, |rows| rows[place])
    }

    fn side(&self, wide: bool) -> HostSide<'_> {
        let keys = match wide {
            true => HostKeys::U64(&self.keys),
            false => HostKeys::U32(&self.narrow),
        };
        let values = self
            .rows
            .as_ref()
            .map_or(HostValues::Rows, |rows| HostValues::U32(rows));
        let row_count = if self.rows.is_some() {
            3 * self.keys.len()
        } else {
            self.keys.len()
        };
        HostSide::new(keys, values, row_count as u64).unwrap()
    }
}

fn places_of(input: &Input) -> HashMap<u64, Vec<usize>> {
    let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
    for (place, &key) in input.keys.iter().enumerate() {
        places.entry(key).or_default().push(place);
    }
    places
}

fn pairs<B>(
    stream: &Stream,
    (build, probe): (HostSide<'_>, HostSide<'_>),
    options: &FromHostOptions,
    prepare: impl FnOnce(&Stream, DeviceSide) -> Result<B>,
    matcher: impl for<'a> Fn(&Stream, &'a B, Side<'a>) -> Result<Box<dyn Matcher + 'a>>,
) -> Pairs {
    let mut found = Vec::new();
    pairs_from_host(stream, build, probe, options, prepare, matcher, &mut |pairs| {
        found.extend(pairs.build_rows.iter().copied().zip(pairs.probe_rows.iter().copied()));
        Ok(())
    })
    .unwrap();
    found.sort_unstable();
    found
}

fn check(stream: &Stream, rng: &mut StdRng) {
    let distinct = *[1, 20, 500, 1 << 31].choose(rng).unwrap();
    let (build, mut probe) = (Input::draw(rng, distinct), Input::draw(rng, distinct));
    if distinct == 1 {
        probe.keys.truncate(100);
        probe.narrow.truncate(100);
        probe.rows = None;
    }
    let wide = rng.random();
    let sides = (build.side(wide), probe.side(wide));
    let places = places_of(&build);
    let mut expected: Vec<(usize, usize)> = Vec::new();
    for (place, key) in probe.keys.iter().enumerate() {
        expected.extend(places.get(key).into_iter().flatten().map(|&partner| (partner, place)));
    }
    let mut rows: Pairs = expected.iter().map(|&(b, p)| (build.row(b), probe.row(p))).collect();
    rows.sort_unstable();
    let options = FromHostOptions {
        chunk_rows: *[1, 7, 64, 500, 5000].choose(rng).unwrap(),
    };
    // A launch a row takes long.
    let options = if probe.keys.len() > 200 {
        FromHostOptions {
            chunk_rows: options.chunk_rows.max(300),
        }
    } else {
        options
    };
    let what = format!(
        "{} and {} rows, {distinct} keys, wide {wide}, {options:?}",
        build.keys.len(),
        probe.keys.len()
    );

    let found = pairs(
        stream,
        sides,
        &options,
        |stream, side| Ok(Arc::new(HashTable::new(stream, side.side()?, &HashOptions::default())?)),
        |_, table, chunk| Ok(Box::new(TableJoin::new(table.clone(), chunk, Residual::none())?)),
    );
    assert!(found == rows, "by a table: {what}");
    let found = pairs(
        stream,
        sides,
        &options,
        |stream, side| {
            let (sorted, row_count) = (SortedSide::sort(stream, side.side()?)?, side.side()?.row_count);
            let tree = CssTree::build(stream, sorted.keys())?;
            Ok((sorted, tree, row_count))
        },
        |stream, (sorted, tree, row_count), chunk| {
            let index = SortedSide::presorted(Side::with_rows(sorted.keys(), sorted.rows(), *row_count)?);
            let matcher = RangeMatcher::indexed(stream, index, tree, Probe::equal(chunk), Residual::none())?;
            Ok(Box::new(matcher))
        },
    );
    assert!(found == rows, "by an index: {what}");
    let found = pairs(
        stream,
        sides,
        &options,
        |_, side| Ok(side),
        |_, side, chunk| {
            Ok(Box::new(NestedLoopMatcher::equal(
                side.side()?,
                chunk,
                Residual::none(),
            )?))
        },
    );
    assert!(found == rows, "by nested loops: {what}");

    // The places as payloads, of one width or the other.
    let wide_values: [bool; 2] = rng.random();
    let values = |len: usize| {
        (
            (0..len as u32).collect::<Vec<u32>>(),
            (0..len as u64).collect::<Vec<u64>>(),
        )
    };
    let (build_values, probe_values) = (values(build.keys.len()), values(probe.keys.len()));
    fn column<'a>(wide: bool, narrow: &'a [u32], numbers: &'a [u64]) -> HostColumn<'a> {
        if wide {
            HostColumn::U64(numbers)
        } else {
            HostColumn::U32(narrow)
        }
    }
    let hash_options = HashOptions {
        passes: Some(vec![pass(3)]),
        join: Some(small_join()),
        ..HashOptions::default()
    };
    let mut found = Vec::new();
    materialised_from_host(
        stream,
        (
            column(wide, &build.narrow, &build.keys),
            column(wide_values[0], &build_values.0, &build_values.1),
        ),
        (
            column(wide, &probe.narrow, &probe.keys),
            column(wide_values[1], &probe_values.0, &probe_values.1),
        ),
        &options,
        &hash_options,
        &mut |rows| {
            let numbers = |bytes: &[u8], wide: bool| -> Vec<u64> {
                let pieces = bytes.chunks_exact(if wide { 8 } else { 4 });
                pieces
                    .map(|piece| piece.iter().rev().fold(0, |number, &byte| number << 8 | byte as u64))
                    .collect()
            };
            let keys = numbers(&rows.keys, wide);
            let (of_build, of_probe) = (
                numbers(&rows.build_values, wide_values[0]),
                numbers(&rows.probe_values, wide_values[1]),
            );
            assert!(keys.len() as u64 == rows.rows && of_build.len() == keys.len() && of_probe.len() == keys.len());
            for ((key, b), p) in keys.into_iter().zip(of_build).zip(of_probe) {
                assert_eq!(key, probe.keys[p as usize], "{what}");
                found.push((b as usize, p as usize));
            }
            Ok(())
        },
    )
    .unwrap();
    found.sort_unstable();
    expected.sort_unstable();
    assert!(found == expected, "materialised: {what}");
}

#[test]
fn chunks_from_host_memory_join_as_a_map_does() {
    let device = testing::device();
    {
        let stream = device.stream().unwrap();
        let mut rng = StdRng::seed_from_u64(testing::seed("joins from host memory"));
        for _ in 0..25 {
            check(&stream, &mut rng);
        }
    }
    assert_eq!(device.pool().in_use(), 0);
}

#[test]
fn errors_on_the_way_leave_nothing_behind() {
    let device = testing::device();
    {
        let stream = device.stream().unwrap();
        let keys: Vec<u32> = (0..1000).collect();
        let side = HostSide::new(HostKeys::U32(&keys), HostValues::Rows, 1000).unwrap();
        let options = FromHostOptions { chunk_rows: 100 };
        let stop = || GpuError::Invalid("stop".into());
        let nested = |side: DeviceSide| Ok(side);
        let failed = pairs_from_host(
            &stream,
            side,
            side,
            &options,
            |_, side| nested(side),
            |_, side, chunk| {
                Ok(Box::new(NestedLoopMatcher::equal(
                    side.side()?,
                    chunk,
                    Residual::none(),
                )?))
            },
            &mut |_| Err(stop()),
        );
        assert!(failed.unwrap_err().to_string().contains("stop"));
        let failed = pairs_from_host(
            &stream,
            side,
            side,
            &options,
            |_, _| Err::<(), _>(stop()),
            |_, _, _| Err(stop()),
            &mut |_| Ok(()),
        );
        assert!(failed.unwrap_err().to_string().contains("stop"));
        let short = HostColumn::U32(&keys[..10]);
        let column = HostColumn::U32(&keys);
        let hash = HashOptions::default();
        let mut none = |_| Ok(());
        assert!(
            materialised_from_host(&stream, (column, short), (column, column), &options, &hash, &mut none).is_err()
        );
        let wide: Vec<u64> = vec![1; 1000];
        let other = (HostColumn::U64(&wide), column);
        assert!(materialised_from_host(&stream, (column, column), other, &options, &hash, &mut none).is_err());
    }
    assert_eq!(device.pool().in_use(), 0);
}
