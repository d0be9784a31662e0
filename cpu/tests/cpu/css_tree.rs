//! The CPU's CSS-tree against the standard library's binary search.

use rand::{Rng, SeedableRng, rngs::StdRng};
use tenon_cpu::join::{CssKey, CssTree};
use tenon_gpu::testing;

fn check<K: CssKey + std::fmt::Debug>(rng: &mut StdRng, mut keys: Vec<K>, mut probe: impl FnMut(&mut StdRng) -> K) {
    keys.sort_unstable();
    let tree = CssTree::build(&keys);
    assert_eq!(tree.keys(), keys);
    assert_eq!((tree.len(), tree.is_empty()), (keys.len(), keys.is_empty()));
    assert!(tree.bytes() >= size_of_val(keys.as_slice()));
    let mut probes: Vec<K> = (0..333).map(|_| probe(rng)).collect();
    probes.extend([K::default(), K::MAX]);
    probes.extend((0..99).filter_map(|_| keys.get(rng.random_range(0..keys.len().max(1)))));
    let lower: Vec<usize> = probes.iter().map(|p| keys.partition_point(|k| k < p)).collect();
    let upper: Vec<usize> = probes.iter().map(|p| keys.partition_point(|k| k <= p)).collect();
    for (i, &p) in probes.iter().enumerate() {
        assert_eq!(tree.lower_bound(p), lower[i], "{p:?} in {} keys", keys.len());
        assert_eq!(tree.upper_bound(p), upper[i], "{p:?} in {} keys", keys.len());
        assert_eq!(tree.equal_range(p), lower[i]..upper[i], "{p:?} in {} keys", keys.len());
        let j = rng.random_range(0..probes.len());
        let q = probes[j];
        let within = |start: usize, end: usize| start..end.max(start);
        assert_eq!(tree.range(p..=q), within(lower[i], upper[j]));
        assert_eq!(tree.range(p..q), within(lower[i], lower[j]));
        assert_eq!(tree.range(p..), lower[i]..keys.len());
        assert_eq!(tree.range(..q), 0..lower[j]);
    }
    let mut places = vec![0u32; probes.len()];
    tree.lower_bounds(&probes, &mut places);
    assert!(places.iter().zip(&lower).all(|(&a, &b)| a as usize == b));
    let mut places = vec![0u64; probes.len()];
    tree.upper_bounds(&probes, &mut places);
    assert!(places.iter().zip(&upper).all(|(&a, &b)| a as usize == b));
}

#[test]
fn css_tree_of_the_cpu_finds_what_binary_search_finds() {
    let mut rng = StdRng::seed_from_u64(testing::seed("css tree"));
    // Around a node, a level of nodes, two levels.
    for items in [
        0, 1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257, 4095, 4096, 4097, 70_000,
    ] {
        for limit in [1u64, 5, items as u64, 1 << 40, u64::MAX] {
            let wide = |rng: &mut StdRng| rng.random_range(0..=limit);
            let narrow = |rng: &mut StdRng| rng.random_range(0..=limit.min(u32::MAX as u64)) as u32;
            let keys = (0..items).map(|_| wide(&mut rng)).collect();
            check::<u64>(&mut rng, keys, wide);
            let keys = (0..items).map(|_| narrow(&mut rng)).collect();
            check::<u32>(&mut rng, keys, narrow);
        }
        // The greatest number as a key, many times.
        check::<u64>(&mut rng, vec![u64::MAX; items], |rng| rng.random());
        check::<u32>(&mut rng, vec![u32::MAX; items], |rng| rng.random());
    }
}

#[test]
#[should_panic(expected = "do not ascend")]
fn css_tree_refuses_keys_that_do_not_ascend() {
    CssTree::build(&[1u32, 3, 2]);
}
