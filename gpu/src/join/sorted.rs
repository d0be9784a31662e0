//! Ascending keys of one side, borrowed or sorted here.

use super::side::{Keys, Side};
use crate::error::Result;
use crate::memory::{DeviceBuffer, DeviceView, Element};
use crate::primitives::sort::{SortKey, SortOptions, sort_pairs, sort_with_indices};
use crate::stream::Stream;

/// Device memory of the caller, or of whoever holds this.
pub enum Held<'a, T: Element> {
    Borrowed(DeviceView<'a, T>),
    Owned(DeviceBuffer<T>),
}

impl<T: Element> Held<'_, T> {
    pub fn view(&self) -> DeviceView<'_, T> {
        match self {
            Held::Borrowed(view) => *view,
            Held::Owned(buffer) => buffer.view(),
        }
    }
}

/// Keys, held.
pub enum HeldKeys<'a> {
    U32(Held<'a, u32>),
    U64(Held<'a, u64>),
}

impl HeldKeys<'_> {
    pub fn view(&self) -> Keys<'_> {
        match self {
            HeldKeys::U32(keys) => Keys::U32(keys.view()),
            HeldKeys::U64(keys) => Keys::U64(keys.view()),
        }
    }
}

impl<'a> From<Keys<'a>> for HeldKeys<'a> {
    fn from(keys: Keys<'a>) -> Self {
        match keys {
            Keys::U32(keys) => HeldKeys::U32(Held::Borrowed(keys)),
            Keys::U64(keys) => HeldKeys::U64(Held::Borrowed(keys)),
        }
    }
}

/// The keys of one side, ascending, and the row of each.
pub struct SortedSide<'a> {
    pub(super) keys: HeldKeys<'a>,
    pub(super) rows: Option<Held<'a, u32>>,
}

impl<'a> SortedSide<'a> {
    /// A side whose keys ascend; its rows may be in any order: those of an index.
    pub fn presorted(side: Side<'a>) -> SortedSide<'a> {
        SortedSide {
            keys: side.keys.into(),
            rows: side.rows.map(Held::Borrowed),
        }
    }

    /// Sorts a side: allocates keys and rows of its own, and the same again while it sorts.
    pub fn sort(stream: &Stream, side: Side<'_>) -> Result<SortedSide<'static>> {
        let (keys, rows) = match side.keys {
            Keys::U32(keys) => {
                let (keys, rows) = sort(stream, keys, side.rows)?;
                (HeldKeys::U32(Held::Owned(keys)), rows)
            }
            Keys::U64(keys) => {
                let (keys, rows) = sort(stream, keys, side.rows)?;
                (HeldKeys::U64(Held::Owned(keys)), rows)
            }
        };
        Ok(SortedSide {
            keys,
            rows: Some(Held::Owned(rows)),
        })
    }

    pub fn keys(&self) -> Keys<'_> {
        self.keys.view()
    }

    /// The row of each key; `None`: key `i` is row `i`'s.
    pub fn rows(&self) -> Option<DeviceView<'_, u32>> {
        self.rows.as_ref().map(Held::view)
    }
}

fn sort<K: SortKey>(
    stream: &Stream,
    keys: DeviceView<'_, K>,
    rows: Option<DeviceView<'_, u32>>,
) -> Result<(DeviceBuffer<K>, DeviceBuffer<u32>)> {
    let mut keys_out = stream.alloc::<K>(keys.len())?;
    let mut rows_out = stream.alloc::<u32>(keys.len())?;
    let (keys_to, rows_to) = (keys_out.view_mut(), rows_out.view_mut());
    let options = SortOptions::default();
    match rows {
        Some(rows) => sort_pairs(stream, keys, rows, keys_to, rows_to, &options)?,
        None => sort_with_indices(stream, keys, keys_to, rows_to, &options)?,
    }
    Ok((keys_out, rows_out))
}
