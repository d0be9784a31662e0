//! Random keys against a map.

use super::*;
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::collections::HashMap;

#[test]
fn agrees_with_a_map() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    for _ in 0..100 {
        let width = rng.random_range(1..4);
        let mut group_table = GroupTable::new(width, rng.random_bool(0.5));
        let mut reference: HashMap<Vec<i64>, usize> = HashMap::new();
        for _ in 0..rng.random_range(1..8) {
            if rng.random_ratio(1, 6) {
                group_table.clear();
                reference.clear();
            }
            // Ranges that widen both ways, and past the array form.
            let span = [3i64, 1000, 1 << 20, 1 << 62][rng.random_range(0..4)];
            let rows = rng.random_range(0..500);
            let columns: Vec<Vec<i64>> = (0..width)
                .map(|_| (0..rows).map(|_| rng.random_range(-span..span)).collect())
                .collect();
            let mut numbers = vec![];
            let foreseen = group_table.bytes() + group_table.growth_bytes(&columns) + (4 << PACKED_BITS);
            group_table.assign(&columns, &mut numbers);
            assert!(
                group_table.bytes() <= foreseen,
                "{} bytes, {foreseen} were foreseen; seed {seed}",
                group_table.bytes()
            );
            for (row, &number) in numbers.iter().enumerate() {
                let key: Vec<i64> = columns.iter().map(|c| c[row]).collect();
                let next = reference.len();
                assert_eq!(number, *reference.entry(key).or_insert(next), "seed {seed}");
            }
        }
        assert_eq!(group_table.groups(), reference.len());
        for (key, number) in reference {
            assert!(
                key.iter()
                    .enumerate()
                    .all(|(at, &integer)| group_table.integers(at, None).get(number) == Some(&integer)),
                "seed {seed}"
            );
        }
    }
}
