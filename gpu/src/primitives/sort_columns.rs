//! Sort by several columns, each ascending or descending with its nulls first or last.
//!
//! The ordered bits of neighbouring columns are packed side by side into words of 64 bits (128 for columns that need
//! them), as many as fit: with known ranges often all in one. Words are sorted from the least significant, with the
//! row's number as payload; each further word is made in the order so far. So the passes are those of the bits that
//! the columns really have (Patidar & Narayanan 2009, section 3: keys of any number of bits).

use std::marker::PhantomData;

use crate::compile::{Program, Source};
use crate::error::{GpuError, Result};
use crate::launch::LaunchConfig;
use crate::memory::{DeviceBuffer, DevicePtr, DevicePtrMut, DeviceView, DeviceViewMut};
use crate::primitives::gather::gather;
use crate::primitives::radix::{CodeParams, Order, RadixCode, SortKey, flip_bits};
use crate::primitives::sort::{SortOptions, check_index, sort_indices};
use crate::stream::Stream;
use crate::{kernel_params, source};

kernel_params! {
    /// One field of one column, appended to words.
    struct PackParams {
        keys: DevicePtr<u8>,
        valid: DevicePtr<u8>,
        indices: DevicePtr<u32>,
        words: DevicePtrMut<u8>,
        items: u64,
        valid_offset: u64,
        base: [u64; 2],
        width: u32,
        first: u32,
        null_field: u32,
        unused: u32,
        code: CodeParams,
    }
}

static SOURCE: Source = source!("columns.cu", PackParams);

/// A column to sort by.
#[derive(Clone, Copy)]
pub struct SortColumn<'a> {
    keys: u64,
    items: u64,
    kernel_type: &'static str,
    float: bool,
    flip: u128,
    /// Least and greatest code in the wanted order.
    codes: (u128, u128),
    valid: Option<(DeviceView<'a, u8>, u64)>,
    nulls_first: bool,
    keys_of: PhantomData<&'a u8>,
}

impl<'a> SortColumn<'a> {
    /// A column without nulls whose keys may be anything.
    pub fn new<K: SortKey>(keys: DeviceView<'a, K>, order: Order) -> SortColumn<'a> {
        SortColumn {
            keys: keys.ptr().0,
            items: keys.len(),
            kernel_type: K::KERNEL_TYPE,
            float: K::FLOAT,
            flip: flip_bits::<K>(order),
            codes: (0, u128::MAX >> (128 - K::BITS)),
            valid: None,
            nulls_first: false,
            keys_of: PhantomData,
        }
    }

    /// All keys that are not null lie within `min..=max`: fewer bits, fewer passes. A key outside gives a wrong order.
    pub fn range<K: SortKey>(self, min: K, max: K) -> SortColumn<'a> {
        let all = u128::MAX >> (128 - K::BITS);
        let sign = flip_bits::<K>(Order::Ascending);
        let turned = if self.flip == sign { 0 } else { all };
        let (a, b) = (min.code().wide() ^ turned, max.code().wide() ^ turned);
        SortColumn {
            codes: (a.min(b), a.max(b)),
            ..self
        }
    }

    /// Nulls: bit `offset + i`, least significant first, is clear where row `i` is null. They are equal to each other
    /// and come before or after everything else, whatever the order of the rest.
    pub fn nulls(self, valid: DeviceView<'a, u8>, offset: u64, nulls_first: bool) -> SortColumn<'a> {
        SortColumn {
            valid: Some((valid, offset)),
            nulls_first,
            ..self
        }
    }

    /// Bits of the values.
    fn width(&self) -> u32 {
        128 - (self.codes.1 - self.codes.0).leading_zeros()
    }

    fn fields(&'a self) -> impl Iterator<Item = Field<'a>> {
        let null = self.valid.map(|_| Field {
            column: self,
            null: true,
            width: 1,
        });
        let value = Field {
            column: self,
            null: false,
            width: self.width(),
        };
        null.into_iter().chain((value.width > 0).then_some(value))
    }
}

/// Bits of a word: a column's values or its nulls.
#[derive(Clone, Copy)]
struct Field<'a> {
    column: &'a SortColumn<'a>,
    null: bool,
    width: u32,
}

fn program(kernel_type: &str, float: bool, word: &str) -> Program {
    Program::new(&SOURCE)
        .define("KEY", kernel_type)
        .define("KEY_FLOAT", float as u32)
        .define("WORD", word)
}

/// Specialisations that the tests compile.
pub fn programs() -> Vec<Program> {
    vec![
        program("u8", false, "u64"),
        program("u16", false, "u64"),
        program("u32", false, "u64"),
        program("u64", false, "u64"),
        program("u128", false, "u128"),
        program("u128", false, "u64"),
        program("f32", true, "u64"),
        program("f64", true, "u64"),
    ]
}

/// Fields in groups, each a word of at most 64 bits, or 128 where one field needs more than 64.
fn group<'a>(columns: &'a [SortColumn<'a>]) -> Vec<Vec<Field<'a>>> {
    let mut words: Vec<Vec<Field<'a>>> = Vec::new();
    for field in columns.iter().flat_map(SortColumn::fields) {
        match words.last_mut() {
            Some(word) if bits(word) + field.width <= 64 => word.push(field),
            _ => words.push(vec![field]),
        }
    }
    words
}

fn bits(word: &[Field<'_>]) -> u32 {
    word.iter().map(|field| field.width).sum()
}

fn pack<W: SortKey>(
    stream: &Stream,
    fields: &[Field<'_>],
    indices: Option<DeviceView<'_, u32>>,
    items: u64,
) -> Result<DeviceBuffer<W>> {
    let mut words = stream.alloc::<W>(items)?;
    for (place, field) in fields.iter().enumerate() {
        let column = field.column;
        let params = PackParams {
            keys: DevicePtr::new(column.keys),
            valid: column.valid.map_or(DevicePtr::null(), |(valid, _)| valid.ptr()),
            indices: indices.map_or(DevicePtr::null(), |i| i.ptr()),
            words: DevicePtrMut::new(words.ptr_mut().0),
            items,
            valid_offset: column.valid.map_or(0, |(_, offset)| offset),
            base: [column.codes.0 as u64, (column.codes.0 >> 64) as u64],
            width: field.width,
            first: (place == 0) as u32,
            null_field: match (field.null, column.nulls_first) {
                (false, _) => 0,
                (true, false) => 1,
                (true, true) => 2,
            },
            unused: 0,
            code: CodeParams {
                literals: [column.flip as u64, (column.flip >> 64) as u64, 0, 0],
                ..CodeParams::default()
            },
        };
        let kernel = stream
            .device()
            .load(&program(column.kernel_type, column.float, W::C_NAME))?
            .kernel::<PackParams>("pack_field")?;
        let blocks = items.div_ceil(1024).min(1 << 20) as u32;
        // SAFETY: the column's views cover `items` rows (checked by the caller), indices are rows, words are as many.
        unsafe { kernel.launch(stream, &LaunchConfig::new(blocks, 256), &params)? };
    }
    Ok(words)
}

/// Sorts by one word: the order of the items so far, given as `order` if it is not the input's, becomes the new one.
fn sort_word<W: SortKey>(
    stream: &Stream,
    fields: &[Field<'_>],
    order: &mut Option<DeviceBuffer<u32>>,
    mut output: DeviceViewMut<'_, u32>,
) -> Result<()> {
    let items = output.len();
    let words = pack::<W>(stream, fields, order.as_ref().map(DeviceBuffer::view), items)?;
    let options = SortOptions::default().bits(0..bits(fields));
    match order.take() {
        None => sort_indices(stream, words.view(), output.reborrow(), &options)?,
        Some(before) => {
            let mut moved = stream.alloc::<u32>(items)?;
            sort_indices(stream, words.view(), moved.view_mut(), &options)?;
            gather(stream, before.view(), moved.view(), output.reborrow())?;
        }
    }
    Ok(())
}

/// The order of the rows by `columns`, the most significant first: `indices[i]` is the `i`-th row. Stable. At most
/// 2^32 rows. Allocates, at the largest, three words (of 8 or 16 bytes) and four indices a row.
pub fn sort_columns(stream: &Stream, columns: &[SortColumn<'_>], mut indices: DeviceViewMut<'_, u32>) -> Result<()> {
    let items = indices.len();
    check_index::<u32>(items)?;
    for column in columns {
        let nulls_fit = column
            .valid
            .is_none_or(|(valid, offset)| (offset + items).div_ceil(8) <= valid.len());
        if column.items != items || !nulls_fit {
            return Err(GpuError::Invalid(format!(
                "{items} indices of columns of {} rows",
                column.items
            )));
        }
    }
    let words = group(columns);
    if words.is_empty() {
        return super::fill::iota(stream, indices, 0);
    }
    let mut order = None;
    for (place, fields) in words.iter().enumerate().rev() {
        let mut next = stream.alloc::<u32>(if place > 0 { items } else { 0 })?;
        let target = if place > 0 { next.view_mut() } else { indices.reborrow() };
        match bits(fields) {
            ..=64 => sort_word::<u64>(stream, fields, &mut order, target)?,
            _ => sort_word::<u128>(stream, fields, &mut order, target)?,
        }
        order = Some(next);
    }
    Ok(())
}
