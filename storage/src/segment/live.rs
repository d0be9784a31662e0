//! Which rows of a segment are left after some were removed.

use super::rows::Runs;
use arrow::buffer::{BooleanBuffer, ScalarBuffer};
use arrow::util::bit_iterator::BitSliceIterator;

/// Words of a block, whose rows are counted once.
const BLOCK_WORDS: usize = 8;

/// A bit for each row of a whole segment: whether it is left. Rows that are left are numbered anew, in their order.
#[derive(Clone, Debug)]
pub struct Live {
    words: ScalarBuffer<u64>,
    /// How many rows are left before each block.
    before: Box<[u32]>,
    /// Rows of the whole segment.
    all: usize,
    left: usize,
}

impl Live {
    /// All of so many rows.
    pub(crate) fn all(rows: usize) -> Live {
        let mut words = vec![u64::MAX; rows.div_ceil(64)];
        if let Some(last) = words.last_mut()
            && !rows.is_multiple_of(64)
        {
            *last = (1 << (rows % 64)) - 1;
        }
        let before = (0..words.len().div_ceil(BLOCK_WORDS)).map(|block| (block * BLOCK_WORDS * 64) as u32);
        Live {
            before: before.collect(),
            words: words.into(),
            all: rows,
            left: rows,
        }
    }

    /// These without more rows, numbered as in the whole segment. Takes no longer for few rows than copying these does.
    pub(crate) fn without(&self, rows: impl IntoIterator<Item = u32>) -> Live {
        let (mut words, mut before) = (self.words.to_vec(), self.before.clone());
        // How many go from each block.
        let mut lost = vec![0; before.len()];
        for row in rows {
            let (word, bit) = (row as usize / 64, 1 << (row % 64));
            lost[word / BLOCK_WORDS] += u32::from(words[word] & bit != 0);
            words[word] &= !bit;
        }
        let mut all_lost = 0;
        for (before, lost) in before.iter_mut().zip(lost) {
            *before -= all_lost;
            all_lost += lost;
        }
        Live {
            words: words.into(),
            before,
            all: self.all,
            left: self.left - all_lost as usize,
        }
    }

    /// How many are left.
    pub fn rows(&self) -> usize {
        self.left
    }

    /// How many the whole segment has.
    pub fn all_rows(&self) -> usize {
        self.all
    }

    /// The number that a row of the whole segment has among those left; None: it is gone.
    pub fn rank(&self, row: usize) -> Option<usize> {
        let (word, bit) = (row / 64, row % 64);
        let own = self.words[word];
        if own >> bit & 1 == 0 {
            return None;
        }
        let block = word / BLOCK_WORDS;
        let words = self.words[block * BLOCK_WORDS..word].iter();
        let before = words.map(|word| word.count_ones()).sum::<u32>();
        let within = (own & ((1 << bit) - 1)).count_ones();
        Some((self.before[block] + before + within) as usize)
    }

    /// The number in the whole segment of a row that is left.
    pub fn select(&self, row: usize) -> usize {
        let block = self.before.partition_point(|before| *before as usize <= row) - 1;
        let mut left = row as u32 - self.before[block];
        for (at, word) in self.words.iter().enumerate().skip(block * BLOCK_WORDS) {
            let ones = word.count_ones();
            if left < ones {
                let mut word = *word;
                (0..left).for_each(|_| word &= word - 1);
                return at * 64 + word.trailing_zeros() as usize;
            }
            left -= ones;
        }
        unreachable!("a row beyond those that are left")
    }

    /// Stretches of the whole segment that hold `rows` of the rows left, from one of them on.
    pub(super) fn stretches(&self, offset: usize, rows: usize) -> Runs {
        if rows == 0 {
            return Runs::of_stretches(Vec::new());
        }
        let (first, last) = (self.select(offset), self.select(offset + rows - 1));
        let slices = BitSliceIterator::new(self.words.inner(), first, last + 1 - first);
        let stretch = |(start, end): (usize, usize)| ((first + start) as u32, (end - start) as u32);
        Runs::of_stretches(slices.map(stretch).collect())
    }

    /// The rows that are gone, numbered as in the whole segment.
    pub fn gone(&self) -> impl Iterator<Item = u32> + '_ {
        self.gone_since(None)
    }

    /// The rows that are gone here and not there, of the same whole segment.
    pub(crate) fn gone_since<'a>(&'a self, before: Option<&'a Live>) -> impl Iterator<Item = u32> {
        self.words.iter().enumerate().flat_map(move |(at, own)| {
            let then = match before {
                Some(before) => before.words[at],
                // The last word, of a number of rows that is no multiple of its bits.
                None if (at + 1) * 64 > self.all => (1 << (self.all % 64)) - 1,
                None => u64::MAX,
            };
            let mut gone = then & !own;
            std::iter::from_fn(move || {
                let bit = (gone != 0).then(|| gone.trailing_zeros())?;
                gone &= gone - 1;
                Some(at as u32 * 64 + bit)
            })
        })
    }

    /// A bit for each row of the whole segment.
    pub(super) fn bits(&self) -> BooleanBuffer {
        BooleanBuffer::new(self.words.inner().clone(), 0, self.all)
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.words.inner().len() + size_of_val(&*self.before)
    }
}
