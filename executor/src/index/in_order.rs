//! The rows of a range of keys one after the other, by the order of their keys: the first ones cost no more than they are.

use std::ops::Range;

use super::encoding::KeyRange;
use super::reader::{IndexReader, Part};

/// Rows, segment and row number, whose keys ascend, or descend.
pub struct InOrder<'a> {
    heads: Vec<Head<'a>>,
    descending: bool,
}

/// What is left of a run.
struct Head<'a> {
    part: &'a Part,
    places: Range<usize>,
}

impl Head<'_> {
    fn key(&self, descending: bool) -> (u64, &[u8]) {
        let next = match descending {
            true => self.places.end - 1,
            false => self.places.start,
        };
        self.part.run().key(next)
    }

    fn take(&mut self, descending: bool) -> Option<usize> {
        match descending {
            true => self.places.next_back(),
            false => self.places.next(),
        }
    }
}

impl IndexReader {
    pub fn in_order(&self, range: &KeyRange, descending: bool) -> InOrder<'_> {
        let heads = self.parts().iter().map(|part| Head {
            part,
            places: part.run().places(range),
        });
        let heads = heads.filter(|head| !head.places.is_empty()).collect();
        InOrder { heads, descending }
    }
}

impl Iterator for InOrder<'_> {
    type Item = (u32, u32);

    fn next(&mut self) -> Option<(u32, u32)> {
        loop {
            let keys = self.heads.iter().map(|head| head.key(self.descending)).enumerate();
            let (at, _) = match self.descending {
                true => keys.max_by(|(_, one), (_, other)| one.cmp(other))?,
                false => keys.min_by(|(_, one), (_, other)| one.cmp(other))?,
            };
            let head = &mut self.heads[at];
            let row = head.take(self.descending).and_then(|place| head.part.row(place));
            if head.places.is_empty() {
                self.heads.swap_remove(at);
            }
            // Rows that are gone are passed over.
            if row.is_some() {
                return row;
            }
        }
    }
}
