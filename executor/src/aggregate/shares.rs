//! Which output partition merges which groups, found once for all of them: one partition's look at all groups would cost
//! each of them as much.

use arrow::array::{ArrayRef, UInt32Array};
use datafusion::common::Result;
use rayon::prelude::*;
use tenon_cpu::Stop;
use tenon_storage::heap;

use crate::keys::{append_integer_keys, hashed_keys, key_range};
use crate::offload::check;

/// The groups of a partial, those of the first partition first.
pub struct Share {
    rows: UInt32Array,
    /// Where each partition's begin; and where the last one's end.
    starts: Vec<usize>,
}

impl Share {
    /// The groups that fall to a partition, in their order.
    pub fn of(&self, partition: usize) -> UInt32Array {
        let start = self.starts[partition];
        self.rows.slice(start, self.starts[partition + 1] - start)
    }
}

/// Shares the groups of partials out: by ranges of the only key's values, which then are as dense in each share as they
/// were, or by ranges of the keys' hash. Each partial comes as its key columns and its groups.
pub fn shares(
    partials: &[(&[ArrayRef], usize)],
    by_value: bool,
    partitions: usize,
    stop: Stop<'_>,
) -> Result<Vec<Share>> {
    let integers = |(keys, groups): &(&[ArrayRef], usize)| {
        check(stop)?;
        if !by_value {
            return hashed_keys(keys, *groups, stop);
        }
        let mut integers = Vec::with_capacity(*groups);
        append_integer_keys(keys[0].as_ref(), &mut integers)?;
        Ok(integers)
    };
    let integers: Vec<Vec<i64>> = partials.par_iter().map(heap::each(integers)).collect::<Result<_>>()?;
    let ranges = integers.par_iter().filter_map(|integers| key_range(integers, None));
    let (min, max) = ranges.reduce(|| (i64::MAX, i64::MIN), |a, b| (a.0.min(b.0), a.1.max(b.1)));
    let range = max.wrapping_sub(min) as u64;
    // Partitions for each integer key of the range, times 2^64: a division for each group would cost more than all the rest.
    let factor = ((partitions as u128) << 64) / (u128::from(range) + 1);
    let falls_to = |integer: i64| ((u128::from(integer.wrapping_sub(min) as u64) * factor) >> 64) as usize;
    let share = |integers: &Vec<i64>| {
        check(stop)?;
        let mut starts = vec![0; partitions + 1];
        integers.iter().for_each(|&integer| starts[falls_to(integer) + 1] += 1);
        for partition in 0..partitions {
            starts[partition + 1] += starts[partition];
        }
        let mut next = starts.clone();
        let mut rows = vec![0u32; integers.len()];
        for (row, &integer) in integers.iter().enumerate() {
            let place = &mut next[falls_to(integer)];
            rows[*place] = row as u32;
            *place += 1;
        }
        Ok(Share {
            rows: rows.into(),
            starts,
        })
    };
    integers.par_iter().map(heap::each(share)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, AsArray, Int64Array, StringViewArray};
    use arrow::datatypes::Int64Type;
    use rand::prelude::*;
    use std::collections::HashMap;
    use std::sync::Arc;

    #[test]
    fn equal_keys_meet_in_one_share_and_none_is_lost() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        for round in 0..200 {
            let partitions = rng.random_range(1..20);
            let by_value = round % 2 == 0;
            let span = [0, 3, 1000, i64::MAX][round % 4];
            let columns: Vec<Int64Array> = (0..rng.random_range(1..6))
                .map(|_| {
                    (0..rng.random_range(0..300))
                        .map(|_| Some(rng.random_range(-span..=span)))
                        .collect()
                })
                .collect();
            let keys: Vec<Vec<ArrayRef>> = columns
                .iter()
                .map(|column| {
                    let texts = StringViewArray::from_iter_values(column.values().iter().map(i64::to_string));
                    vec![Arc::new(column.clone()) as ArrayRef, Arc::new(texts)]
                })
                .map(|both| if by_value { both[..1].to_vec() } else { both })
                .collect();
            let partials: Vec<_> = keys.iter().map(|keys| (keys.as_slice(), keys[0].len())).collect();
            let shares = shares(&partials, by_value, partitions, Stop::never()).unwrap();
            let mut home: HashMap<i64, usize> = HashMap::new();
            for (share, column) in shares.iter().zip(&columns) {
                let mut seen = vec![];
                for partition in 0..partitions {
                    let rows = share.of(partition);
                    assert!(rows.values().is_sorted(), "seed {seed}");
                    for &row in rows.values() {
                        let key = column.value(row as usize);
                        assert_eq!(*home.entry(key).or_insert(partition), partition, "seed {seed}");
                        seen.push(row);
                    }
                }
                seen.sort_unstable();
                assert_eq!(seen, (0..column.len() as u32).collect::<Vec<_>>(), "seed {seed}");
            }
        }
    }

    #[test]
    fn extremes_of_the_range_fall_to_the_first_and_the_last() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX, 0, i64::MIN]));
        let shares = shares(&[(&[Arc::clone(&column)], 3)], true, 7, Stop::never()).unwrap();
        assert_eq!(
            column
                .as_primitive::<Int64Type>()
                .value(shares[0].of(0).value(0) as usize),
            i64::MIN
        );
        assert_eq!(shares[0].of(6).values(), &[0]);
        assert_eq!(shares[0].of(3).values(), &[1]);
    }
}
