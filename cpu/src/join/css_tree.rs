//! CSS-tree (Rao and Ross 1999; He 2008, section 4.1): a search tree over sorted keys without pointers.
//!
//! ```text
//! level 0 (root)   one node: the last key of each node of level 1
//! level 1          the last key of each node of level 2
//!   ...
//! leaves           the keys, ascending
//! ```
//!
//! A node is a cache line: 16 keys of 32 bits or 8 of 64. All nodes are one array, level after level; child `c` of node
//! `i` is node `i * keys_of_a_node + c` of the next level. A search counts the keys of a node that lie below the probe,
//! without a branch that could be mispredicted. Places beyond the keys hold the greatest number, and so does the last
//! used place of every inner level: a probe above all keys then ends behind the last key by the same steps.
//!
//! Memory: the keys once, and 1/15 (32 bits) or 1/7 (64 bits) of that.

use std::ops::{Bound, Range, RangeBounds};

use rayon::prelude::*;

use crate::{piece_items, prefetch};
use tenon_gpu::primitives::fill::Index;

/// Probes that go down in step, so that their cache misses overlap: about as many as a core has outstanding.
const BATCH: usize = 16;

/// A cache line of keys.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct Node<K, const KEYS: usize>([K; KEYS]);

/// An unsigned number as a key of a [`CssTree`].
pub trait CssKey: Copy + Ord + Default + Send + Sync + 'static {
    const MAX: Self;
    /// Keys of a node.
    const NODE_KEYS: usize;
    type Node: Copy + Send + Sync;
    fn node_of_max() -> Self::Node;
    fn node_keys(node: &Self::Node) -> &[Self];
    fn node_keys_mut(node: &mut Self::Node) -> &mut [Self];
    /// Keys of the node below `probe`.
    fn count_below(node: &Self::Node, probe: Self) -> usize;
    /// The next number, if there is one.
    fn next(self) -> Option<Self>;
}

macro_rules! css_key {
    ($key:ty, $keys:literal) => {
        impl CssKey for $key {
            const MAX: Self = <$key>::MAX;
            const NODE_KEYS: usize = $keys;
            type Node = Node<$key, $keys>;

            fn node_of_max() -> Self::Node {
                Node([<$key>::MAX; $keys])
            }

            fn node_keys(node: &Self::Node) -> &[Self] {
                &node.0
            }

            fn node_keys_mut(node: &mut Self::Node) -> &mut [Self] {
                &mut node.0
            }

            #[inline]
            fn count_below(node: &Self::Node, probe: Self) -> usize {
                let below: $key = node.0.iter().map(|&key| (key < probe) as $key).sum();
                below as usize
            }

            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }
        }
    };
}
css_key!(u32, 16);
css_key!(u64, 8);

/// Sorted keys with a directory above them; places are positions in the sorted order.
#[derive(Clone)]
pub struct CssTree<K: CssKey> {
    nodes: Vec<K::Node>,
    /// First node of each level, the root's first, the leaves' last.
    levels: Vec<usize>,
    len: usize,
}

/// What each thread takes of a tree that is built: fewer keys are copied in less time than another thread wakes up.
const KEYS_A_THREAD: usize = 1 << 15;

impl<K: CssKey> CssTree<K> {
    /// The tree over ascending keys, which are copied. Panics if they do not ascend: searches would be wrong.
    pub fn build(sorted: &[K]) -> CssTree<K> {
        assert!(
            sorted
                .par_windows(2)
                .with_min_len(KEYS_A_THREAD)
                .all(|pair| pair[0] <= pair[1]),
            "CSS-tree of keys that do not ascend"
        );
        let mut counts = vec![sorted.len().div_ceil(K::NODE_KEYS).max(1)];
        while let Some(&last) = counts.last()
            && last > 1
        {
            counts.push(last.div_ceil(K::NODE_KEYS));
        }
        counts.reverse();
        let mut levels = Vec::with_capacity(counts.len());
        let mut total = 0;
        for count in &counts {
            levels.push(total);
            total += count;
        }
        let nodes_a_thread = KEYS_A_THREAD / K::NODE_KEYS;
        let nodes = (0..total).into_par_iter().with_min_len(nodes_a_thread);
        let mut nodes: Vec<K::Node> = nodes.map(|_| K::node_of_max()).collect();
        let leaves = levels[levels.len() - 1];
        let pieces = nodes[leaves..].par_iter_mut().zip(sorted.par_chunks(K::NODE_KEYS));
        pieces
            .with_min_len(nodes_a_thread)
            .for_each(|(node, keys)| K::node_keys_mut(node)[..keys.len()].copy_from_slice(keys));
        // From the leaves up; the last child of a level keeps the greatest number.
        for level in (1..levels.len()).rev() {
            let (above, below) = nodes.split_at_mut(levels[level]);
            let children = &below[..counts[level] - 1];
            let parents = above[levels[level - 1]..].par_iter_mut();
            parents
                .zip(children.par_chunks(K::NODE_KEYS))
                .with_min_len(nodes_a_thread)
                .for_each(|(node, children)| {
                    for (key, child) in K::node_keys_mut(node).iter_mut().zip(children) {
                        *key = K::node_keys(child)[K::NODE_KEYS - 1];
                    }
                });
        }
        CssTree {
            nodes,
            levels,
            len: sorted.len(),
        }
    }

    /// Keys.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The keys, ascending.
    pub fn keys(&self) -> &[K] {
        let leaves = &self.nodes[self.levels[self.levels.len() - 1]..];
        // SAFETY: a node is `repr(C)` of exactly one array of keys that fills its 64 bytes, so nodes in a row are keys
        // in a row; `len` of them exist.
        unsafe { std::slice::from_raw_parts(leaves.as_ptr().cast(), self.len) }
    }

    /// Bytes that the tree holds.
    pub fn bytes(&self) -> usize {
        self.nodes.len() * size_of::<K::Node>() + self.levels.len() * size_of::<usize>()
    }

    /// The first place whose key is not below `probe`.
    pub fn lower_bound(&self, probe: K) -> usize {
        let mut place = 0;
        for &level in &self.levels {
            place = place * K::NODE_KEYS + K::count_below(&self.nodes[level + place], probe);
        }
        place
    }

    /// The first place whose key is above `probe`.
    pub fn upper_bound(&self, probe: K) -> usize {
        probe.next().map_or(self.len, |next| self.lower_bound(next))
    }

    /// The places of the keys equal to `probe`.
    pub fn equal_range(&self, probe: K) -> Range<usize> {
        let start = self.lower_bound(probe);
        // Most probes have one partner or none: the next keys lie in the same cache line.
        match self.keys().get(start..) {
            Some(&[first, ..]) if first != probe => start..start,
            Some(&[_, second, ..]) if second != probe => start..start + 1,
            _ => start..self.upper_bound(probe),
        }
    }

    /// The places of the keys within `bounds`: `low..=high`, `..high`, and so on. Empty if they cross.
    pub fn range(&self, bounds: impl RangeBounds<K>) -> Range<usize> {
        let start = match bounds.start_bound() {
            Bound::Included(&low) => self.lower_bound(low),
            Bound::Excluded(&low) => self.upper_bound(low),
            Bound::Unbounded => 0,
        };
        let end = match bounds.end_bound() {
            Bound::Included(&high) => self.upper_bound(high),
            Bound::Excluded(&high) => self.lower_bound(high),
            Bound::Unbounded => self.len,
        };
        start..end.max(start)
    }

    /// Sets `output[i]` to the first place whose key is not below `probes[i]`, on all cores. Panics if lengths differ.
    pub fn lower_bounds<I: Index>(&self, probes: &[K], output: &mut [I]) {
        self.in_pieces(probes, output, |probes, output| self.lower_bounds_here(probes, output));
    }

    /// Sets `output[i]` to the first place whose key is above `probes[i]`, on all cores. Panics if lengths differ.
    pub fn upper_bounds<I: Index>(&self, probes: &[K], output: &mut [I]) {
        self.in_pieces(probes, output, |probes, output| self.upper_bounds_here(probes, output));
    }

    fn in_pieces<I: Index>(&self, probes: &[K], output: &mut [I], search: impl Fn(&[K], &mut [I]) + Sync) {
        assert_eq!(probes.len(), output.len(), "CSS-tree search: lengths");
        let piece = piece_items(probes.len());
        let pieces = probes.par_chunks(piece).zip(output.par_chunks_mut(piece));
        pieces.for_each(|(probes, output)| search(probes, output));
    }

    /// As [`CssTree::lower_bounds`], on this thread.
    pub fn lower_bounds_here<I: Index>(&self, probes: &[K], output: &mut [I]) {
        self.search_here(probes, output, Some);
    }

    /// As [`CssTree::upper_bounds`], on this thread.
    pub fn upper_bounds_here<I: Index>(&self, probes: &[K], output: &mut [I]) {
        self.search_here(probes, output, K::next);
    }

    /// The first place whose key is not below `target(probe)`; all keys are below none.
    #[inline]
    fn search_here<I: Index>(&self, probes: &[K], output: &mut [I], target: impl Fn(K) -> Option<K>) {
        for (probes, output) in probes.chunks(BATCH).zip(output.chunks_mut(BATCH)) {
            let mut targets = [K::default(); BATCH];
            let mut beyond = [false; BATCH];
            for (i, &probe) in probes.iter().enumerate() {
                let next = target(probe);
                beyond[i] = next.is_none();
                targets[i] = next.unwrap_or(probe);
            }
            let mut places = [0usize; BATCH];
            for (number, &level) in self.levels.iter().enumerate() {
                let next_level = self.levels.get(number + 1);
                for (place, &target) in places.iter_mut().zip(&targets[..probes.len()]) {
                    *place = *place * K::NODE_KEYS + K::count_below(&self.nodes[level + *place], target);
                    if let Some(next_level) = next_level {
                        prefetch(&self.nodes[next_level + *place]);
                    }
                }
            }
            for (i, to) in output.iter_mut().enumerate() {
                *to = I::from_low(if beyond[i] { self.len } else { places[i] } as u64);
            }
        }
    }
}
