//! Blocks cut from slabs: best fit, split on taking, merged with free neighbours on giving back.
//!
//! Only books: no memory is touched here. A free block remembers which work may still use it (`P`), so that whoever
//! takes it can wait for exactly that.

use std::collections::{BTreeMap, BTreeSet};

/// Candidates looked at for one that need not wait.
const CANDIDATES: usize = 8;

/// Blocks of all slabs, by address.
pub struct Slabs<P> {
    blocks: BTreeMap<u64, Block<P>>,
    /// Free blocks, by size and address.
    free: BTreeSet<(u64, u64)>,
    slab_bytes: u64,
}

struct Block<P> {
    bytes: u64,
    /// Address of the slab's start: blocks of two slabs do not merge.
    slab: u64,
    /// Work that may still use it, if it is free.
    free: Option<Vec<P>>,
}

impl<P> Default for Slabs<P> {
    fn default() -> Self {
        Slabs {
            blocks: BTreeMap::new(),
            free: BTreeSet::new(),
            slab_bytes: 0,
        }
    }
}

impl<P: Clone> Slabs<P> {
    /// Bytes of all slabs.
    pub fn slab_bytes(&self) -> u64 {
        self.slab_bytes
    }

    /// Bytes of the largest free block.
    pub fn largest_free(&self) -> u64 {
        self.free.last().map_or(0, |&(bytes, _)| bytes)
    }

    /// Adds a slab, all free.
    pub fn add(&mut self, address: u64, bytes: u64) {
        self.slab_bytes += bytes;
        self.insert_free(address, bytes, address, Vec::new());
    }

    /// Takes `bytes` bytes: the smallest block that holds them, among those of similar size one that is `ready`.
    /// Returns its address and the work that may still use it.
    pub fn take(&mut self, bytes: u64, ready: impl Fn(&[P]) -> bool) -> Option<(u64, Vec<P>)> {
        let (first, at) = *self.free.range((bytes, 0)..).next()?;
        let is_ready = |address: &u64| self.blocks[address].free.as_ref().is_some_and(|pending| ready(pending));
        let address = self
            .free
            .range((bytes, 0)..)
            .take_while(|(size, _)| *size <= first.saturating_mul(2))
            .take(CANDIDATES)
            .map(|&(_, address)| address)
            .find(is_ready)
            .unwrap_or(at);
        let block = self.blocks.remove(&address)?;
        self.free.remove(&(block.bytes, address));
        let pending = block.free.unwrap_or_default();
        if block.bytes > bytes {
            self.insert_free(address + bytes, block.bytes - bytes, block.slab, pending.clone());
        }
        let taken = Block {
            bytes,
            slab: block.slab,
            free: None,
        };
        self.blocks.insert(address, taken);
        Some((address, pending))
    }

    /// Gives a taken block back; `pending` may still use it. An address that is not taken is left alone.
    pub fn give(&mut self, address: u64, mut pending: Vec<P>) {
        let Some(block) = self.blocks.get(&address).filter(|block| block.free.is_none()) else {
            return;
        };
        let (mut start, mut bytes, slab) = (address, block.bytes, block.slab);
        self.blocks.remove(&address);
        let before = self.blocks.range(..address).next_back().map(|(&a, _)| a);
        let after = Some(address + bytes);
        for neighbour in [before, after].into_iter().flatten() {
            let Some(block) = self.blocks.get(&neighbour) else {
                continue;
            };
            let adjacent = neighbour + block.bytes == start || neighbour == start + bytes;
            if block.slab != slab || !adjacent || block.free.is_none() {
                continue;
            }
            if let Some(Block {
                bytes: more,
                free: Some(theirs),
                ..
            }) = self.blocks.remove(&neighbour)
            {
                self.free.remove(&(more, neighbour));
                start = start.min(neighbour);
                bytes += more;
                pending.extend(theirs);
            }
        }
        self.insert_free(start, bytes, slab, pending);
    }

    /// Drops, from every free block, the work that is done.
    pub fn forget_done(&mut self, is_done: impl Fn(&P) -> bool) {
        for block in self.blocks.values_mut() {
            if let Some(pending) = &mut block.free {
                pending.retain(|p| !is_done(p));
            }
        }
    }

    /// Removes the slabs that are wholly free; returns their addresses and the work that may still use them.
    pub fn remove_free_slabs(&mut self) -> Vec<(u64, Vec<P>)> {
        let starts: Vec<u64> = self
            .blocks
            .iter()
            .filter(|(a, b)| **a == b.slab && b.free.is_some())
            .map(|(&a, _)| a)
            .collect();
        let mut removed = Vec::new();
        for start in starts {
            let bytes = self.blocks[&start].bytes;
            // A free block is merged with all free neighbours, so the slab is free if no other block follows in it.
            let shared = self
                .blocks
                .range(start + 1..)
                .next()
                .is_some_and(|(_, next)| next.slab == start);
            if shared {
                continue;
            }
            if let Some(block) = self.blocks.remove(&start) {
                self.free.remove(&(bytes, start));
                self.slab_bytes -= bytes;
                removed.push((start, block.free.unwrap_or_default()));
            }
        }
        removed
    }

    fn insert_free(&mut self, address: u64, bytes: u64, slab: u64, pending: Vec<P>) {
        self.free.insert((bytes, address));
        let free = Some(pending);
        self.blocks.insert(address, Block { bytes, slab, free });
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::Slabs;

    #[test]
    fn random_takes_and_gives_keep_the_books() {
        let mut rng = StdRng::seed_from_u64(crate::testing::seed("slabs"));
        let mut slabs = Slabs::<u32>::default();
        slabs.add(1 << 20, 64 << 10);
        slabs.add((1 << 20) + (64 << 10), 128 << 10); // adjacent, and yet apart
        let mut live: Vec<(u64, u64)> = Vec::new();
        for step in 0..5000u32 {
            if rng.random_bool(0.55) {
                let bytes = rng.random_range(1..64u64) * 256;
                if let Some((address, _)) = slabs.take(bytes, |pending| pending.len() % 2 == 0) {
                    for &(other, len) in &live {
                        assert!(address + bytes <= other || other + len <= address, "blocks overlap");
                    }
                    live.push((address, bytes));
                } else {
                    assert!(slabs.largest_free() < bytes);
                }
            } else if !live.is_empty() {
                let (address, _) = live.swap_remove(rng.random_range(0..live.len()));
                slabs.give(address, vec![step]);
            }
            slabs.forget_done(|&p| p + 100 < step);
        }
        for (address, _) in live.drain(..) {
            slabs.give(address, vec![]);
        }
        assert_eq!(slabs.slab_bytes(), 192 << 10);
        assert_eq!(
            slabs.largest_free(),
            128 << 10,
            "everything merged again, but not over the slabs' border"
        );
        assert_eq!(slabs.remove_free_slabs().len(), 2);
        assert_eq!((slabs.slab_bytes(), slabs.largest_free()), (0, 0));
    }

    #[test]
    fn a_block_carries_the_work_that_may_use_it() {
        let mut slabs = Slabs::default();
        slabs.add(4096, 1024);
        let (a, pending) = slabs.take(512, |_| true).unwrap();
        assert!(pending.is_empty());
        let (b, _) = slabs.take(512, |_| true).unwrap();
        assert!(slabs.take(256, |_| true).is_none());
        slabs.give(a, vec!["a"]);
        slabs.give(b, vec!["b"]);
        slabs.give(b, vec!["again"]);
        let (_, mut pending) = slabs.take(1024, |_| true).unwrap();
        pending.sort();
        assert_eq!(pending, ["a", "b"]);
        assert!(slabs.remove_free_slabs().is_empty());
    }
}
