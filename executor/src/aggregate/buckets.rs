//! Groups in the order of a hash of their keys: what a share of them is lies in one place of every table that was put by, so
//! that merging a share reads only its own groups.

use std::ops::Range;

const BITS: u32 = 7;
/// Ranges of the hash that groups lie together by. A share of the groups is one or more of them.
pub const BUCKETS: usize = 1 << BITS;

pub struct Buckets {
    /// Where each bucket's groups begin; and where the last one's end.
    starts: Vec<u32>,
}

impl Buckets {
    /// The buckets of groups with these hashes, and the groups' order.
    pub fn of(hashes: &[u64]) -> (Self, Vec<u32>) {
        let bucket = |hash: u64| (hash.wrapping_mul(0x94D0_49BB_1331_11EB) >> (64 - BITS)) as usize;
        let mut starts = vec![0u32; BUCKETS + 1];
        hashes.iter().for_each(|&hash| starts[bucket(hash) + 1] += 1);
        for at in 0..BUCKETS {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut order = vec![0; hashes.len()];
        for (group, &hash) in hashes.iter().enumerate() {
            let place = &mut next[bucket(hash)];
            order[*place as usize] = group as u32;
            *place += 1;
        }
        (Self { starts }, order)
    }

    /// Where the groups of a share lie, of so many shares.
    pub fn share(&self, share: usize, shares: usize) -> Range<usize> {
        let start = |share: usize| self.starts[share * BUCKETS / shares] as usize;
        start(share)..start(share + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::prelude::*;

    #[test]
    fn equal_hashes_meet_in_one_share_and_no_group_is_lost() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        for _ in 0..200 {
            let shares = rng.random_range(1..300);
            let span = [1, 50, u64::MAX][rng.random_range(0..3)];
            let hashes: Vec<u64> = (0..rng.random_range(0..500))
                .map(|_| rng.random_range(0..span))
                .collect();
            let (buckets, order) = Buckets::of(&hashes);
            let mut home = std::collections::HashMap::new();
            let mut next = 0;
            for share in 0..shares {
                let own = buckets.share(share, shares);
                assert_eq!(own.start, next, "seed {seed}");
                next = own.end;
                for &group in &order[own] {
                    assert_eq!(
                        *home.entry(hashes[group as usize]).or_insert(share),
                        share,
                        "seed {seed}"
                    );
                }
            }
            assert_eq!(next, hashes.len(), "seed {seed}");
            let mut seen = order.clone();
            seen.sort_unstable();
            assert_eq!(seen, (0..hashes.len() as u32).collect::<Vec<_>>(), "seed {seed}");
        }
    }
}
