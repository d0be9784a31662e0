//! Blocks cut from slabs: best fit, split on taking, merged with free neighbours on giving back.
//!
//! Only books: no memory is touched here. A free block remembers which work may still use it (`P`), so that whoever
//! takes it can wait for exactly that.

use std::collections::{BTreeMap, BTreeSet};

/// Candidates looked at for one that need not wait.
const CANDIDATES: usize = 8;
/// So much work on a free block is looked through for what is done.
const PENDING_MANY: usize = 8;

/// Work that may still use a free block.
pub trait LastUse: Clone {
    /// Whether this ends no earlier than the other: waiting for this is enough.
    fn covers(&self, other: &Self) -> bool;
}

/// How such work stands to whoever wants the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Done,
    /// In the order of the same stream: nothing to wait for.
    Ordered,
    Pending,
}

/// Adds work, without what other work covers: blocks that merge again and again keep one piece of work a stream.
fn add_uses<P: LastUse>(uses: &mut Vec<P>, more: Vec<P>) {
    for new in more {
        if !uses.iter().any(|old| old.covers(&new)) {
            uses.retain(|old| !new.covers(old));
            uses.push(new);
        }
    }
}

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

impl<P: LastUse> Slabs<P> {
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

    /// Takes `bytes` bytes: the smallest block that holds them, among those of similar size one that needs no waiting.
    /// Returns its address and the work that may still use it.
    pub fn take(&mut self, bytes: u64, standing: impl Fn(&P) -> Standing) -> Option<(u64, Vec<P>)> {
        let (first, at) = *self.free.range((bytes, 0)..).next()?;
        let is_ready = |address: &u64| {
            let uses = self.blocks[address].free.as_ref();
            uses.is_some_and(|uses| uses.iter().all(|last| standing(last) != Standing::Pending))
        };
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
        let mut pending = block.free.unwrap_or_default();
        pending.retain(|last| standing(last) != Standing::Done);
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
    pub fn give(&mut self, address: u64, mut pending: Vec<P>, is_done: impl Fn(&P) -> bool) {
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
                add_uses(&mut pending, theirs);
            }
        }
        if pending.len() > PENDING_MANY {
            pending.retain(|last| !is_done(last));
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
    use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

    use super::{LastUse, Slabs, Standing};

    /// A stream, and how much it had been given.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Mark(char, u32);
    impl LastUse for Mark {
        fn covers(&self, other: &Mark) -> bool {
            self.0 == other.0 && self.1 >= other.1
        }
    }

    fn pending(_: &Mark) -> Standing {
        Standing::Pending
    }

    #[test]
    fn random_takes_and_gives_keep_the_books() {
        let mut rng = StdRng::seed_from_u64(crate::seeds::seed("slabs"));
        let mut slabs = Slabs::<Mark>::default();
        slabs.add(1 << 20, 64 << 10);
        slabs.add((1 << 20) + (64 << 10), 128 << 10); // adjacent, and yet apart
        let mut live: Vec<(u64, u64)> = Vec::new();
        for step in 0..5000u32 {
            if rng.random_bool(0.55) {
                let bytes = rng.random_range(1..64u64) * 256;
                let standing = |mark: &Mark| match mark.0 {
                    'a' => Standing::Ordered,
                    _ if mark.1 + 50 < step => Standing::Done,
                    _ => Standing::Pending,
                };
                if let Some((address, uses)) = slabs.take(bytes, standing) {
                    assert!(uses.iter().all(|mark| standing(mark) != Standing::Done), "{uses:?}");
                    for &(other, len) in &live {
                        assert!(address + bytes <= other || other + len <= address, "blocks overlap");
                    }
                    live.push((address, bytes));
                } else {
                    assert!(slabs.largest_free() < bytes);
                }
            } else if !live.is_empty() {
                let (address, _) = live.swap_remove(rng.random_range(0..live.len()));
                let stream = *['a', 'b', 'c'].choose(&mut rng).unwrap();
                slabs.give(address, vec![Mark(stream, step)], |mark| mark.1 + 50 < step);
            }
            slabs.forget_done(|mark| mark.1 + 100 < step);
        }
        for (address, _) in live.drain(..) {
            slabs.give(address, vec![], |_| false);
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
        let (a, uses) = slabs.take(512, pending).unwrap();
        assert!(uses.is_empty());
        let (b, _) = slabs.take(512, pending).unwrap();
        assert!(slabs.take(256, pending).is_none());
        slabs.give(a, vec![Mark('a', 1)], |_| false);
        slabs.give(b, vec![Mark('b', 1)], |_| false);
        slabs.give(b, vec![Mark('c', 1)], |_| false);
        let (_, mut uses) = slabs.take(1024, pending).unwrap();
        uses.sort();
        assert_eq!(uses, [Mark('a', 1), Mark('b', 1)]);
        assert!(slabs.remove_free_slabs().is_empty());
    }

    #[test]
    fn blocks_that_merge_keep_the_last_work_of_each_stream() {
        let mut slabs = Slabs::default();
        slabs.add(4096, 1024);
        for step in 0..100 {
            let (a, _) = slabs.take(256, pending).unwrap();
            let (b, _) = slabs.take(256, pending).unwrap();
            slabs.give(a, vec![Mark('a', step)], |_| false);
            slabs.give(b, vec![Mark(['a', 'b'][step as usize % 2], step)], |_| false);
        }
        let (all, mut uses) = slabs.take(1024, pending).unwrap();
        uses.sort();
        assert_eq!(uses, [Mark('a', 99), Mark('b', 99)]);
        // Work of many streams is looked through for what is done.
        slabs.give(all, ('a'..='z').map(|stream| Mark(stream, 1)).collect(), |mark| {
            mark.0 < 'x'
        });
        let (_, mut uses) = slabs.take(1024, pending).unwrap();
        uses.sort();
        assert_eq!(uses, [Mark('x', 1), Mark('y', 1), Mark('z', 1)]);
    }
}
