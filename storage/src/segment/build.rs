//! Gathers the rows of many batches into one segment: plans each column's form and size, takes one region for all,
//! then fills the columns and computes their statistics in parallel.
//!
//! More than 400 lines because the plan of a segment's sizes and what fills it must agree.

use super::column::{Codes, ColumnData, DictionaryColumn, SegmentColumn};
use super::dictionary::{Dictionary, code_strings};
use super::narrow::Frame;
use super::nested;
use super::text::{self, TextColumn};
use crate::arena::{Carver, Piece, padded};
use crate::error::{Result, StorageError};
use crate::memory::MemoryBudget;
use crate::statistics::ColumnStatistics;
use arrow::array::*;
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::concat;
use arrow::datatypes::*;
use rayon::prelude::*;
use std::sync::{Arc, LazyLock};

/// Fewer rows are built by one thread.
const PARALLEL_ROWS_MIN: usize = 1 << 14;
/// Fewer rows are kept as arrays are, which costs nothing to read: `TENON_TEST_ENCODED_ROWS` changes it in tests.
static ENCODED_ROWS_MIN: LazyLock<usize> = LazyLock::new(|| {
    let given = std::env::var("TENON_TEST_ENCODED_ROWS").ok();
    given.and_then(|rows| rows.parse().ok()).unwrap_or(1 << 10)
});
/// Most bytes of one buffer of string data; views hold 32-bit offsets.
const DATA_BYTES_MAX: usize = 1 << 30;

/// A column's arrays and the form that its segment gives them.
struct Plan<'a> {
    arrays: Vec<&'a ArrayRef>,
    data_type: DataType,
    nulls: bool,
    form: Form,
    /// Where the choice of the form took them.
    statistics: Option<ColumnStatistics>,
}

enum Form {
    /// Values of so many bytes.
    Fixed(usize),
    /// All rows, and how they are made narrow.
    Narrow(ArrayRef, Frame),
    Bits,
    /// Strings or byte strings one behind the other: the sizes of their offsets and bytes.
    Text([usize; 2]),
    /// Strings or byte strings, and the sizes of the buffers that the long ones take.
    Views(Vec<usize>),
    /// Byte strings one behind the other, and how many bytes they have.
    Offsets(usize),
    Codes {
        dictionary_id: u64,
        codes: Vec<u16>,
        values: Arc<StringViewArray>,
    },
    /// Lists: the rows as one array, and the buffers that it holds.
    Nested(ArrayData),
}

/// Builds the columns of a segment of `rows` rows, `columns` holding the arrays of each in order. `dictionaries` has
/// one where a column may be coded. Gives the columns and the bytes that they hold.
pub(super) fn build(
    columns: &[Vec<&ArrayRef>],
    dictionaries: &[Option<Arc<Dictionary>>],
    rows: usize,
    budget: &Arc<MemoryBudget>,
) -> Result<(Vec<SegmentColumn>, usize)> {
    let plan = |(arrays, dictionary): (&Vec<_>, &Option<_>)| Plan::new(arrays, dictionary.as_ref(), rows, budget);
    let parallel = rows >= PARALLEL_ROWS_MIN;
    let plans: Vec<Plan<'_>> = match parallel {
        true => columns.par_iter().zip(dictionaries).map(plan).collect::<Result<_>>()?,
        false => columns.iter().zip(dictionaries).map(plan).collect::<Result<_>>()?,
    };
    let bytes = plans.iter().flat_map(|plan| plan.sizes(rows)).map(padded).sum();
    let mut carver = Carver::new(bytes, budget)?;
    let pieces = plans
        .iter()
        .map(|plan| plan.sizes(rows).into_iter().map(|size| carver.carve(size)).collect());
    let pieces = pieces.collect::<Result<Vec<Vec<Piece>>>>()?;
    let fill = |(plan, pieces): (Plan<'_>, Vec<Piece>)| plan.fill(pieces, rows);
    let columns = match parallel {
        true => plans.into_par_iter().zip(pieces).map(fill).collect::<Result<_>>()?,
        false => plans.into_iter().zip(pieces).map(fill).collect::<Result<_>>()?,
    };
    Ok((columns, carver.finish(budget)))
}

impl<'a> Plan<'a> {
    fn new(
        arrays: &[&'a ArrayRef],
        dictionary: Option<&Arc<Dictionary>>,
        rows: usize,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Plan<'a>> {
        let data_type = arrays.first().map_or(DataType::Null, |array| array.data_type().clone());
        if arrays.iter().any(|array| *array.data_type() != data_type) {
            return Err(StorageError::internal("arrays of one column differ in type"));
        }
        let nulls = arrays.iter().any(|array| array.null_count() > 0);
        let mut statistics = None;
        let encoded = rows >= *ENCODED_ROWS_MIN;
        let form = match &data_type {
            DataType::Boolean => Form::Bits,
            DataType::Utf8View => {
                let strings: Vec<&StringViewArray> = arrays.iter().map(|array| array.as_string_view()).collect();
                match dictionary.and_then(|dictionary| coded(&strings, dictionary, rows, budget)) {
                    Some((form, of_codes)) => {
                        statistics = Some(of_codes);
                        form
                    }
                    None => texts::<StringViewType>(arrays, rows, encoded),
                }
            }
            DataType::BinaryView => texts::<BinaryViewType>(arrays, rows, encoded),
            DataType::LargeBinary => {
                let bytes = |array: &&ArrayRef| {
                    let offsets = array.as_binary::<i64>().value_offsets();
                    (offsets[array.len()] - offsets[0]) as usize
                };
                Form::Offsets(arrays.iter().map(bytes).sum())
            }
            DataType::FixedSizeBinary(width) => Form::Fixed(*width as usize),
            DataType::List(_) | DataType::LargeUtf8 => Form::Nested(nested::gather(arrays)?),
            other => {
                let width = other.primitive_width();
                let fixed =
                    width.ok_or_else(|| StorageError::internal(format!("columns of {other} are not stored")))?;
                let mut form = Form::Fixed(fixed);
                if encoded && Frame::is_for(other) {
                    let all = together(arrays)?;
                    let of_all = ColumnStatistics::of_array(&all);
                    if let Some(frame) = Frame::of(other, &of_all) {
                        form = Form::Narrow(all, frame);
                    }
                    statistics = Some(of_all);
                }
                form
            }
        };
        Ok(Plan {
            arrays: arrays.to_vec(),
            data_type,
            nulls,
            form,
            statistics,
        })
    }

    /// Bytes of each buffer: validity where there are NULLs, values, data.
    fn sizes(&self, rows: usize) -> Vec<usize> {
        let mut sizes = Vec::new();
        if let Form::Nested(data) = &self.form {
            nested::sizes(data, &mut sizes);
            return sizes;
        }
        if self.nulls {
            sizes.push(rows.div_ceil(8));
        }
        match &self.form {
            Form::Nested(_) => {}
            Form::Fixed(width) => sizes.push(rows * width),
            Form::Narrow(_, frame) => sizes.extend(frame.bytes(rows)),
            Form::Text(bytes) => sizes.extend(bytes),
            Form::Bits => sizes.push(rows.div_ceil(8)),
            Form::Views(data) => {
                sizes.push(rows * size_of::<u128>());
                sizes.extend(data);
            }
            Form::Offsets(bytes) => sizes.extend([(rows + 1) * size_of::<i64>(), *bytes]),
            Form::Codes { values, .. } => sizes.push(rows * code_bytes(values)),
        }
        sizes
    }

    fn fill(self, pieces: Vec<Piece>, rows: usize) -> Result<SegmentColumn> {
        let bytes = self.sizes(rows).into_iter().map(padded).sum();
        let mut pieces = pieces.into_iter();
        let mut next = || {
            pieces
                .next()
                .ok_or_else(|| StorageError::internal("a column has too few buffers"))
        };
        let nulls = if self.nulls && !matches!(self.form, Form::Nested(_)) {
            let mut bits = BooleanBufferBuilder::new(rows);
            for array in &self.arrays {
                match array.nulls() {
                    Some(nulls) => bits.append_buffer(nulls.inner()),
                    None => bits.append_n(array.len(), true),
                }
            }
            Some(NullBuffer::new(bit_buffer(&bits.finish(), next()?)))
        } else {
            None
        };
        let plain = |array: ArrayRef| ColumnData::Plain(array);
        let data = match self.form {
            Form::Nested(data) => plain(make_array(nested::copy(&data, &mut next)?)),
            Form::Narrow(all, frame) => {
                let piece = frame.bytes(rows).is_some().then(&mut next).transpose()?;
                ColumnData::Narrow(frame.fill(&all, piece)?.with_nulls(nulls))
            }
            Form::Text(_) => {
                let (offsets, data) = (next()?, next()?);
                ColumnData::Text(match self.data_type {
                    DataType::Utf8View => TextColumn::new::<StringViewType>(&self.arrays, nulls, offsets, data)?,
                    _ => TextColumn::new::<BinaryViewType>(&self.arrays, nulls, offsets, data)?,
                })
            }
            Form::Bits => {
                let mut bits = BooleanBufferBuilder::new(rows);
                self.arrays
                    .iter()
                    .for_each(|array| bits.append_buffer(array.as_boolean().values()));
                plain(Arc::new(BooleanArray::new(bit_buffer(&bits.finish(), next()?), nulls)))
            }
            Form::Fixed(width) => {
                let mut piece = next()?;
                let mut target = piece.bytes_mut();
                for array in &self.arrays {
                    let data = array.to_data();
                    let (start, bytes) = (data.offset() * width, array.len() * width);
                    let (now, rest) = target.split_at_mut(bytes);
                    now.copy_from_slice(&data.buffers()[0].as_slice()[start..start + bytes]);
                    target = rest;
                }
                let data = ArrayData::builder(self.data_type)
                    .len(rows)
                    .nulls(nulls)
                    .add_buffer(piece.freeze());
                plain(make_array(data.build()?))
            }
            Form::Codes {
                dictionary_id,
                codes,
                values,
            } => {
                let mut piece = next()?;
                let slots = piece.bytes_mut();
                let codes = match code_bytes(&values) {
                    1 => {
                        slots.iter_mut().zip(codes).for_each(|(slot, code)| *slot = code as u8);
                        Codes::U8(ScalarBuffer::new(piece.freeze(), 0, rows))
                    }
                    _ => {
                        for (slot, code) in slots.chunks_exact_mut(2).zip(codes) {
                            slot.copy_from_slice(&code.to_ne_bytes());
                        }
                        Codes::U16(ScalarBuffer::new(piece.freeze(), 0, rows))
                    }
                };
                ColumnData::Dictionary(DictionaryColumn {
                    codes,
                    nulls,
                    values,
                    dictionary_id,
                })
            }
            Form::Offsets(_) => {
                let (mut offsets, mut data) = (next()?, next()?);
                copy_offsets(&self.arrays, &mut offsets, &mut data);
                let offsets = OffsetBuffer::new(ScalarBuffer::<i64>::new(offsets.freeze(), 0, rows + 1));
                plain(Arc::new(LargeBinaryArray::new(offsets, data.freeze(), nulls)))
            }
            Form::Views(_) => {
                let mut views = next()?;
                let mut data: Vec<Piece> = pieces.collect();
                match self.data_type {
                    DataType::Utf8View => copy_views::<StringViewType>(&self.arrays, &mut views, &mut data),
                    _ => copy_views::<BinaryViewType>(&self.arrays, &mut views, &mut data),
                }
                let views = ScalarBuffer::<u128>::new(views.freeze(), 0, rows);
                let data: Arc<[_]> = data.into_iter().map(Piece::freeze).collect();
                // SAFETY: `copy_views` made each view of one that was valid, and copied the bytes it refers to.
                plain(unsafe {
                    match self.data_type {
                        DataType::Utf8View => Arc::new(StringViewArray::new_unchecked(views, data, nulls)),
                        _ => Arc::new(BinaryViewArray::new_unchecked(views, data, nulls)),
                    }
                })
            }
        };
        // The choice of most forms has taken them.
        let statistics = self
            .statistics
            .unwrap_or_else(|| ColumnStatistics::of_array(&data.slice(0, rows)));
        Ok(SegmentColumn {
            data,
            statistics: Arc::new(statistics),
            bytes,
        })
    }
}

/// All rows of a column's arrays.
fn together(arrays: &[&ArrayRef]) -> Result<ArrayRef> {
    Ok(match arrays {
        [only] => Arc::clone(only),
        _ => {
            let arrays: Vec<&dyn Array> = arrays.iter().map(|array| array.as_ref()).collect();
            concat(&arrays)?
        }
    })
}

fn texts<T: ByteViewType>(arrays: &[&ArrayRef], rows: usize, encoded: bool) -> Form {
    match encoded.then(|| text::sizes::<T>(arrays, rows)).flatten() {
        Some(sizes) => Form::Text(sizes),
        None => {
            let arrays = arrays.iter().map(|array| array.as_byte_view::<T>());
            Form::Views(data_sizes(arrays.map(|array| (array.views(), array.nulls()))))
        }
    }
}

/// Bytes of a code into a dictionary.
fn code_bytes(values: &StringViewArray) -> usize {
    if values.len() <= 1 << 8 { 1 } else { 2 }
}

fn bit_buffer(bits: &BooleanBuffer, mut piece: Piece) -> BooleanBuffer {
    let rows = bits.len();
    let bytes = rows.div_ceil(8);
    piece.bytes_mut().copy_from_slice(&bits.values()[..bytes]);
    BooleanBuffer::new(piece.freeze(), 0, rows)
}

fn coded(
    strings: &[&StringViewArray],
    dictionary: &Dictionary,
    rows: usize,
    budget: &Arc<MemoryBudget>,
) -> Option<(Form, ColumnStatistics)> {
    let local = code_strings(strings, rows, dictionary)?;
    let (global, values) = dictionary.encode(&local.values, rows, budget)?;
    let null_count = strings.iter().map(|array| array.null_count() as u64).sum();
    let statistics = ColumnStatistics::of_codes(&local.codes, &local.values, null_count);
    let codes = local.codes.iter().map(|code| global[usize::from(*code)]).collect();
    let form = Form::Codes {
        dictionary_id: dictionary.id(),
        codes,
        values,
    };
    Some((form, statistics))
}

/// Strings up to this length stand in their views.
const INLINE_BYTES_MAX: usize = 12;

/// Sizes of the buffers that strings too long for their views take, in the order that `copy_views` fills them.
fn data_sizes<'a>(arrays: impl Iterator<Item = (&'a ScalarBuffer<u128>, Option<&'a NullBuffer>)>) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut last = 0_usize;
    for (views, nulls) in arrays {
        for (row, view) in views.iter().enumerate() {
            let length = *view as u32 as usize;
            if length > INLINE_BYTES_MAX && nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                if last + length > DATA_BYTES_MAX && last > 0 {
                    sizes.push(last);
                    last = 0;
                }
                last += length;
            }
        }
    }
    if last > 0 {
        sizes.push(last);
    }
    sizes
}

/// Writes the offsets and bytes of all rows.
fn copy_offsets(arrays: &[&ArrayRef], offsets: &mut Piece, data: &mut Piece) {
    let mut slots = offsets.bytes_mut().chunks_exact_mut(size_of::<i64>());
    let mut target = data.bytes_mut();
    let mut end = 0_i64;
    let mut put = |end: i64| {
        if let Some(slot) = slots.next() {
            slot.copy_from_slice(&end.to_ne_bytes());
        }
    };
    put(0);
    for array in arrays {
        let array = array.as_binary::<i64>();
        let own = array.value_offsets();
        let (start, stop) = (own[0], own[array.len()]);
        let bytes = &array.value_data()[start as usize..stop as usize];
        let (now, rest) = target.split_at_mut(bytes.len());
        now.copy_from_slice(bytes);
        target = rest;
        own[1..=array.len()].iter().for_each(|offset| put(end + offset - start));
        end += stop - start;
    }
}

/// Writes a view for every row, with the bytes of long values into `data`.
fn copy_views<T: ByteViewType>(arrays: &[&ArrayRef], views: &mut Piece, data: &mut [Piece]) {
    let mut slots = views.bytes_mut().chunks_exact_mut(size_of::<u128>());
    let mut data: Vec<&mut [u8]> = data.iter_mut().map(Piece::bytes_mut).collect();
    let (mut buffer, mut used) = (0_usize, 0_usize);
    for array in arrays {
        let array = array.as_byte_view::<T>();
        let buffers = array.data_buffers();
        for (row, (view, slot)) in array.views().iter().zip(&mut slots).enumerate() {
            let length = *view as u32 as usize;
            if length <= INLINE_BYTES_MAX {
                slot.copy_from_slice(&view.to_le_bytes());
            } else if array.is_valid(row) {
                let old = ByteView::from(*view);
                let start = old.offset as usize;
                let value = &buffers[old.buffer_index as usize].as_slice()[start..start + length];
                if used + length > data[buffer].len() {
                    (buffer, used) = (buffer + 1, 0);
                }
                data[buffer][used..used + length].copy_from_slice(value);
                let new = ByteView {
                    buffer_index: buffer as u32,
                    offset: used as u32,
                    ..old
                };
                slot.copy_from_slice(&new.as_u128().to_le_bytes());
                used += length;
            }
        }
    }
}
