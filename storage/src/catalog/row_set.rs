//! Rows that a statement or a transaction has picked: few by their numbers, many as bits, so that one row of a large segment
//! costs no more than one of a small one.

use super::table::RowLocation;
use std::collections::BTreeMap;

/// More rows of a segment than this are kept as bits.
const FEW_ROWS_MAX: usize = 256;

/// Some rows of a segment, by their numbers.
#[derive(Clone, Debug)]
pub struct RowSet(Kept);

#[derive(Clone, Debug)]
enum Kept {
    /// Ascending.
    Few(Vec<u32>),
    Many {
        words: Vec<u64>,
        rows: usize,
    },
}

impl Default for RowSet {
    fn default() -> Self {
        RowSet(Kept::Few(Vec::new()))
    }
}

impl RowSet {
    /// Whether the row is a new one.
    pub fn insert(&mut self, row: u32) -> bool {
        match &mut self.0 {
            Kept::Few(own) => {
                let Err(at) = own.binary_search(&row) else { return false };
                own.insert(at, row);
                if own.len() > FEW_ROWS_MAX {
                    let mut many = Kept::Many {
                        words: Vec::new(),
                        rows: 0,
                    };
                    std::mem::swap(&mut self.0, &mut many);
                    if let Kept::Few(own) = many {
                        self.extend(own);
                    }
                }
                true
            }
            Kept::Many { words, rows } => {
                let (word, bit) = (row as usize / 64, 1 << (row % 64));
                if word >= words.len() {
                    words.resize(word + 1, 0);
                }
                let is_new = words[word] & bit == 0;
                words[word] |= bit;
                *rows += usize::from(is_new);
                is_new
            }
        }
    }

    pub fn len(&self) -> usize {
        match &self.0 {
            Kept::Few(own) => own.len(),
            Kept::Many { rows, .. } => *rows,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let (few, many): (&[u32], &[u64]) = match &self.0 {
            Kept::Few(own) => (own, &[]),
            Kept::Many { words, .. } => (&[], words),
        };
        let many = many.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(at as u32 * 64 + bit)
            })
        });
        few.iter().copied().chain(many)
    }

    /// The last row.
    fn last(&self) -> Option<u32> {
        match &self.0 {
            Kept::Few(own) => own.last().copied(),
            Kept::Many { words, .. } => {
                let at = words.iter().rposition(|word| *word != 0)?;
                Some(at as u32 * 64 + words[at].ilog2())
            }
        }
    }
}

impl Extend<u32> for RowSet {
    fn extend<T: IntoIterator<Item = u32>>(&mut self, rows: T) {
        for row in rows {
            self.insert(row);
        }
    }
}

/// Some rows of a version of a table.
#[derive(Clone, Debug, Default)]
pub struct TableRows {
    /// By their segments' places in it.
    segments: BTreeMap<usize, RowSet>,
}

impl TableRows {
    /// Whether the row is a new one.
    pub fn insert(&mut self, at: RowLocation) -> bool {
        self.segments.entry(at.segment).or_default().insert(at.row as u32)
    }

    /// How many there are.
    pub fn rows(&self) -> usize {
        self.segments.values().map(RowSet::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Those of each segment that has some, by its place.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &RowSet)> {
        self.segments.iter().map(|(at, rows)| (*at, rows))
    }

    /// Whether there are all of them in segments of so many rows.
    pub(crate) fn fit(&self, rows: impl Fn(usize) -> Option<usize>) -> bool {
        self.iter().all(|(at, own)| {
            let last = own.last().map_or(0, |last| last as usize + 1);
            rows(at).is_some_and(|rows| last <= rows)
        })
    }
}

impl FromIterator<RowLocation> for TableRows {
    fn from_iter<T: IntoIterator<Item = RowLocation>>(rows: T) -> Self {
        let mut own = TableRows::default();
        for at in rows {
            own.insert(at);
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng, rngs::StdRng};
    use std::collections::BTreeSet;

    #[test]
    fn few_and_many_are_sets() {
        let seed: u64 = rand::random();
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        for most in [1, 10, FEW_ROWS_MAX, 4 * FEW_ROWS_MAX] {
            let (mut own, mut reference) = (RowSet::default(), BTreeSet::new());
            for _ in 0..2 * most {
                let row = random.random_range(0..2 * most as u32);
                assert_eq!(own.insert(row), reference.insert(row), "seed {seed}, row {row}");
            }
            assert!(own.iter().eq(reference.iter().copied()), "seed {seed}");
            assert_eq!(
                (own.len(), own.last()),
                (reference.len(), reference.last().copied()),
                "seed {seed}"
            );
        }
    }
}
