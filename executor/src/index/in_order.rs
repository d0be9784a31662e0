//! The rows of a range of keys one after the other, by the order of their keys: the first ones cost no more than they are.

use std::ops::Range;
use std::sync::Arc;

use super::encoding::KeyRange;
use super::reader::IndexReader;

/// Rows, segment and row number, whose keys ascend, or descend.
pub struct InOrder {
    reader: Arc<IndexReader>,
    heads: Vec<Head>,
    descending: bool,
}

/// What is left of a run.
struct Head {
    part: usize,
    places: Range<usize>,
}

impl Head {
    fn key<'r>(&self, reader: &'r IndexReader, descending: bool) -> (u64, &'r [u8]) {
        let next = match descending {
            true => self.places.end - 1,
            false => self.places.start,
        };
        reader.parts()[self.part].run().key(next)
    }

    fn take(&mut self, descending: bool) -> Option<usize> {
        match descending {
            true => self.places.next_back(),
            false => self.places.next(),
        }
    }
}

impl InOrder {
    pub fn new(reader: &Arc<IndexReader>, range: &KeyRange, descending: bool) -> Self {
        let heads = reader.parts().iter().enumerate().map(|(part, own)| Head {
            part,
            places: own.run().places(range),
        });
        Self {
            heads: heads.filter(|head| !head.places.is_empty()).collect(),
            reader: Arc::clone(reader),
            descending,
        }
    }
}

impl Iterator for InOrder {
    type Item = (u32, u32);

    fn next(&mut self) -> Option<(u32, u32)> {
        loop {
            let keys = self.heads.iter().map(|head| head.key(&self.reader, self.descending));
            let keys = keys.enumerate();
            let (at, _) = match self.descending {
                true => keys.max_by(|(_, one), (_, other)| one.cmp(other))?,
                false => keys.min_by(|(_, one), (_, other)| one.cmp(other))?,
            };
            let head = &mut self.heads[at];
            let part = &self.reader.parts()[head.part];
            let row = head.take(self.descending).and_then(|place| part.row(place));
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
