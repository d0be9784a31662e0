//! Finds up to four special bytes in a text, 64 bytes at a step.

/// Yields the positions of the bytes of a set, in order.
pub struct Specials<'a> {
    bytes: &'a [u8],
    set: [u8; 4],
    /// Start of the block that `mask` describes: bit i is set where byte `base + i` is special and not yet yielded.
    base: usize,
    mask: u64,
}

impl<'a> Specials<'a> {
    /// A set of fewer than four repeats one of its bytes.
    pub fn new(bytes: &'a [u8], set: [u8; 4]) -> Self {
        let mut own = Self {
            bytes,
            set,
            base: 0,
            mask: 0,
        };
        own.mask = own.block(0);
        own
    }

    /// Goes on at `position`, which may be anywhere.
    #[inline]
    pub fn seek(&mut self, position: usize) {
        if position < self.base || position >= self.base + 64 {
            self.base = position;
            self.mask = self.block(position);
        } else {
            self.mask &= u64::MAX << (position - self.base);
        }
    }

    #[inline]
    fn block(&self, base: usize) -> u64 {
        match self
            .bytes
            .get(base..base + 64)
            .and_then(|block| <&[u8; 64]>::try_from(block).ok())
        {
            Some(block) => find(block, self.set),
            None => {
                let rest = self.bytes.get(base..).unwrap_or_default();
                let mut block = [0; 64];
                block[..rest.len()].copy_from_slice(rest);
                find(&block, self.set) & ((1_u64 << rest.len()) - 1)
            }
        }
    }
}

impl Iterator for Specials<'_> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        while self.mask == 0 {
            self.base += 64;
            if self.base >= self.bytes.len() {
                self.base = self.bytes.len();
                return None;
            }
            self.mask = self.block(self.base);
        }
        let position = self.base + self.mask.trailing_zeros() as usize;
        self.mask &= self.mask - 1;
        Some(position)
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn find(block: &[u8; 64], set: [u8; 4]) -> u64 {
    use std::arch::x86_64::*;
    // SAFETY: SSE2 is part of x86_64, and the four unaligned loads stay within the 64 bytes.
    unsafe {
        let set = set.map(|byte| _mm_set1_epi8(byte as i8));
        let mut mask = 0_u64;
        for lane in 0..4 {
            let bytes = _mm_loadu_si128(block.as_ptr().add(lane * 16).cast());
            let pair = _mm_or_si128(_mm_cmpeq_epi8(bytes, set[0]), _mm_cmpeq_epi8(bytes, set[1]));
            let other = _mm_or_si128(_mm_cmpeq_epi8(bytes, set[2]), _mm_cmpeq_epi8(bytes, set[3]));
            mask |= (_mm_movemask_epi8(_mm_or_si128(pair, other)) as u32 as u64) << (lane * 16);
        }
        mask
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn find(block: &[u8; 64], set: [u8; 4]) -> u64 {
    block
        .iter()
        .enumerate()
        .fold(0, |mask, (bit, byte)| mask | u64::from(set.contains(byte)) << bit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    #[test]
    fn finds_what_a_plain_loop_finds() {
        let seed: u64 = rand::random();
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        for _ in 0..500 {
            let length = random.random_range(0..300);
            let bytes: Vec<u8> = (0..length).map(|_| b"ab,\"\n\r\0"[random.random_range(0..7)]).collect();
            let set = *b",\"\n\r";
            let plain: Vec<usize> = (0..length).filter(|at| set.contains(&bytes[*at])).collect();
            assert_eq!(Specials::new(&bytes, set).collect::<Vec<_>>(), plain);
            let from = random.random_range(0..=length);
            let mut sought = Specials::new(&bytes, set);
            sought.next();
            sought.seek(from);
            let after: Vec<usize> = plain.iter().copied().filter(|at| *at >= from).collect();
            assert!(
                sought.by_ref().eq(after
                    .iter()
                    .copied()
                    .filter(|at| Some(at) != plain.first() || from >= 64))
            );
        }
    }
}
