//! Gathers the rows of many batches into one segment: plans each column's form and size, takes one region for all,
//! then fills the columns and computes their statistics in parallel.
//!
//! More than 400 lines because the plan of a segment's sizes and what fills it must agree.

use super::column::{Codes, ColumnData, DictionaryColumn, SegmentColumn};
use super::dictionary::{Dictionary, code_bytes, code_strings};
use super::narrow::Frame;
use super::nested;
use super::restore::{self, Kept, StoredColumn};
use super::run_length::{self, RunLengthColumn};
use super::text::{self, TextColumn};
use super::views::{copy_offsets, copy_views, data_sizes};
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
const ENCODED_ROWS_MIN: usize = 1 << 10;
/// Rows that a run has on average where runs are tried; in tests that change the other, 2, whether they save bytes or not.
const RUN_ROWS_MIN: usize = 16;

static TESTED_ROWS_MIN: LazyLock<Option<usize>> = LazyLock::new(|| {
    let given = std::env::var("TENON_TEST_ENCODED_ROWS").ok();
    given.and_then(|rows| rows.parse().ok())
});

/// A column's arrays and the form that its segment gives them.
pub(super) struct EncodingPlan {
    arrays: Vec<ArrayRef>,
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
        /// Those of the dictionary, and how many it has at least.
        codes: Vec<u32>,
        width: usize,
        len: usize,
        dictionary: Arc<Dictionary>,
    },
    /// The rows at which runs end, and what becomes of one row for each.
    RunLength(Vec<u32>, Box<EncodingPlan>),
    /// Lists: the rows as one array, and the buffers that it holds.
    Nested(ArrayData),
    /// What a store has in the form that it gets.
    Kept(Kept),
}

/// Builds the columns of a segment of `rows` rows, `columns` holding the arrays of each in order. `dictionaries` has
/// one where a column may be coded. Gives the columns and the bytes that they hold.
pub(super) fn build(
    columns: &[Vec<&ArrayRef>],
    dictionaries: &[Option<Arc<Dictionary>>],
    rows: usize,
    budget: &Arc<MemoryBudget>,
) -> Result<(Vec<SegmentColumn>, usize)> {
    let plan = |(arrays, dictionary): (&Vec<&ArrayRef>, &Option<_>)| {
        let arrays = arrays.iter().map(|array| Arc::clone(array)).collect();
        EncodingPlan::new(arrays, dictionary.as_ref(), rows, budget)
    };
    let plans = match rows >= PARALLEL_ROWS_MIN {
        true => columns.par_iter().zip(dictionaries).map(plan).collect::<Result<_>>()?,
        false => columns.iter().zip(dictionaries).map(plan).collect::<Result<_>>()?,
    };
    filled(plans, rows, budget)
}

/// `build` of the columns of a table of these types that a store has.
pub(super) fn restore(
    columns: &[StoredColumn],
    data_types: &[DataType],
    dictionaries: &[Option<Arc<Dictionary>>],
    rows: usize,
    budget: &Arc<MemoryBudget>,
) -> Result<(Vec<SegmentColumn>, usize)> {
    let plan = |((column, data_type), dictionary): ((&StoredColumn, &DataType), &Option<_>)| {
        restore::plan(column, data_type, dictionary.as_ref(), rows, budget)
    };
    let plans = match rows >= PARALLEL_ROWS_MIN {
        true => {
            let columns = columns.par_iter().zip(data_types).zip(dictionaries);
            columns.map(plan).collect::<Result<_>>()?
        }
        false => {
            let columns = columns.iter().zip(data_types).zip(dictionaries);
            columns.map(plan).collect::<Result<_>>()?
        }
    };
    filled(plans, rows, budget)
}

/// Most runs that so many rows are kept in.
pub(super) fn runs_max(rows: usize) -> usize {
    match TESTED_ROWS_MIN.is_some() {
        true => rows / 2,
        false => rows / RUN_ROWS_MIN,
    }
}

/// Whether segments of so many rows are kept in other forms than arrays are.
pub(crate) fn is_encoded(rows: usize) -> bool {
    rows >= TESTED_ROWS_MIN.unwrap_or(ENCODED_ROWS_MIN)
}

/// Takes the memory that the plans of a segment's columns ask for, and fills it.
fn filled(plans: Vec<EncodingPlan>, rows: usize, budget: &Arc<MemoryBudget>) -> Result<(Vec<SegmentColumn>, usize)> {
    let bytes = plans.iter().flat_map(|plan| plan.sizes(rows)).map(padded).sum();
    let mut carver = Carver::new(bytes, budget)?;
    let pieces = plans
        .iter()
        .map(|plan| plan.sizes(rows).into_iter().map(|size| carver.carve(size)).collect());
    let pieces = pieces.collect::<Result<Vec<Vec<Piece>>>>()?;
    let fill = |(plan, pieces): (EncodingPlan, Vec<Piece>)| plan.fill(pieces, rows);
    let columns = match rows >= PARALLEL_ROWS_MIN {
        true => plans.into_par_iter().zip(pieces).map(fill).collect::<Result<_>>()?,
        false => plans.into_iter().zip(pieces).map(fill).collect::<Result<_>>()?,
    };
    Ok((columns, carver.finish(budget)))
}

impl EncodingPlan {
    pub(super) fn new(
        arrays: Vec<ArrayRef>,
        dictionary: Option<&Arc<Dictionary>>,
        rows: usize,
        budget: &Arc<MemoryBudget>,
    ) -> Result<EncodingPlan> {
        let data_type = arrays.first().map_or(DataType::Null, |array| array.data_type().clone());
        if arrays.iter().any(|array| *array.data_type() != data_type) {
            return Err(StorageError::internal("arrays of one column differ in type"));
        }
        let encoded = is_encoded(rows);
        match encoded.then(|| EncodingPlan::of_runs(&arrays, &data_type, dictionary, rows, budget)) {
            Some(Ok(Some(plan))) => Ok(plan),
            Some(Err(error)) => Err(error),
            _ => EncodingPlan::of_rows(arrays, data_type, dictionary, (rows, encoded), budget),
        }
    }

    /// Of an array, of whose rows this form is.
    pub(super) fn kept(
        array: ArrayRef,
        data_type: DataType,
        form: Kept,
        statistics: Option<ColumnStatistics>,
    ) -> EncodingPlan {
        EncodingPlan {
            nulls: array.null_count() > 0,
            arrays: vec![array],
            data_type,
            form: Form::Kept(form),
            statistics,
        }
    }

    /// Of arrays that stay as they are, and are no views.
    pub(super) fn plain(
        arrays: Vec<ArrayRef>,
        data_type: DataType,
        statistics: Option<ColumnStatistics>,
    ) -> Result<EncodingPlan> {
        let form = match &data_type {
            DataType::Boolean => Form::Bits,
            DataType::LargeBinary => {
                let bytes = |array: &ArrayRef| {
                    let offsets = array.as_binary::<i64>().value_offsets();
                    (offsets[array.len()] - offsets[0]) as usize
                };
                Form::Offsets(arrays.iter().map(bytes).sum())
            }
            DataType::FixedSizeBinary(width) => Form::Fixed(*width as usize),
            DataType::List(_) | DataType::Struct(_) | DataType::LargeUtf8 | DataType::Binary => {
                Form::Nested(nested::gather(&arrays)?)
            }
            other => {
                let width = other.primitive_width();
                Form::Fixed(width.ok_or_else(|| StorageError::internal(format!("columns of {other} are not stored")))?)
            }
        };
        Ok(EncodingPlan {
            nulls: arrays.iter().any(|array| array.null_count() > 0),
            arrays,
            data_type,
            form,
            statistics,
        })
    }

    /// Runs of equal rows. None: they do not save half of the bytes, or there are none.
    fn of_runs(
        arrays: &[ArrayRef],
        data_type: &DataType,
        dictionary: Option<&Arc<Dictionary>>,
        rows: usize,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Option<EncodingPlan>> {
        let Some(starts) = run_length::starts(arrays, runs_max(rows)) else {
            return Ok(None);
        };
        let values = run_length::values(arrays, &starts)?;
        let null_count: usize = arrays.iter().map(|array| array.null_count()).sum();
        EncodingPlan::in_runs(starts, values, data_type, dictionary, (rows, null_count), budget)
    }

    /// `of_runs` where they start so, with these values.
    pub(super) fn in_runs(
        starts: Vec<u32>,
        values: Vec<ArrayRef>,
        data_type: &DataType,
        dictionary: Option<&Arc<Dictionary>>,
        (rows, null_count): (usize, usize),
        budget: &Arc<MemoryBudget>,
    ) -> Result<Option<EncodingPlan>> {
        let (runs, tested) = (starts.len(), TESTED_ROWS_MIN.is_some());
        // Without a difference, the frame alone says it all.
        if runs == 1 && null_count == 0 && Frame::is_for(data_type) {
            return Ok(None);
        }
        let mut inner = EncodingPlan::of_rows(values, data_type.clone(), dictionary, (rows, true), budget)?;
        let of_a_row = match &inner.form {
            Form::Fixed(width) | Form::Codes { width, .. } => 8 * width,
            Form::Narrow(_, frame) => 8 * frame.bytes(1).unwrap_or(0),
            Form::Bits => 1,
            // At least.
            Form::Text(_) => u32::BITS as usize,
            _ => return Ok(None),
        };
        let as_rows = rows * (of_a_row + usize::from(null_count > 0)) / 8;
        let as_runs = runs * size_of::<u32>() + inner.sizes(runs).iter().sum::<usize>();
        if 2 * as_runs > as_rows && !tested {
            return Ok(None);
        }
        let of_runs = inner.statistics.take();
        let of_runs = of_runs.map_or_else(|| inner.statistics_of_arrays(), Ok)?;
        let ends = starts.into_iter().skip(1).chain([rows as u32]).collect();
        Ok(Some(EncodingPlan {
            arrays: vec![],
            data_type: data_type.clone(),
            nulls: false,
            form: Form::RunLength(ends, Box::new(inner)),
            statistics: Some(of_runs.of_runs(rows as u64, null_count as u64)),
        }))
    }

    fn statistics_of_arrays(&self) -> Result<ColumnStatistics> {
        Ok(ColumnStatistics::of_array(&together(&self.arrays)?))
    }

    /// Of a segment of `rows` rows, of which `arrays` has all, or one for each run.
    fn of_rows(
        arrays: Vec<ArrayRef>,
        data_type: DataType,
        dictionary: Option<&Arc<Dictionary>>,
        (rows, encoded): (usize, bool),
        budget: &Arc<MemoryBudget>,
    ) -> Result<EncodingPlan> {
        let nulls = arrays.iter().any(|array| array.null_count() > 0);
        let mut statistics = None;
        let form = match &data_type {
            DataType::Utf8View => {
                let strings: Vec<&StringViewArray> = arrays.iter().map(|array| array.as_string_view()).collect();
                match dictionary.and_then(|dictionary| coded(&strings, dictionary, rows, budget)) {
                    Some((form, of_codes)) => {
                        statistics = Some(of_codes);
                        form
                    }
                    None => texts::<StringViewType>(&arrays, encoded),
                }
            }
            DataType::BinaryView => texts::<BinaryViewType>(&arrays, encoded),
            other if encoded && Frame::is_for(other) => {
                let all = together(&arrays)?;
                let of_all = ColumnStatistics::of_array(&all);
                let Some(frame) = Frame::of(other, &of_all) else {
                    return EncodingPlan::plain(arrays, data_type, Some(of_all));
                };
                statistics = Some(of_all);
                Form::Narrow(all, frame)
            }
            _ => return EncodingPlan::plain(arrays, data_type, None),
        };
        Ok(EncodingPlan {
            arrays,
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
            Form::Codes { width, .. } => sizes.push(rows * width),
            Form::RunLength(ends, values) => {
                sizes.push(size_of_val(&ends[..]));
                sizes.extend(values.sizes(ends.len()));
            }
            Form::Kept(form) => form.sizes(rows, &mut sizes),
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
            Form::Kept(form) => form.fill(self.data_type, nulls, &mut next)?,
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
                codes,
                width,
                len,
                dictionary,
            } => ColumnData::Dictionary(DictionaryColumn {
                codes: put_codes(&codes, width, next()?),
                nulls,
                len,
                dictionary,
            }),
            Form::RunLength(ends, values) => {
                let mut piece = next()?;
                let slots = piece.bytes_mut().chunks_exact_mut(size_of::<u32>());
                slots
                    .zip(&ends)
                    .for_each(|(slot, end)| slot.copy_from_slice(&end.to_ne_bytes()));
                let runs = ScalarBuffer::new(piece.freeze(), 0, ends.len());
                let values = values.fill(pieces.collect(), ends.len())?;
                ColumnData::RunLength(RunLengthColumn::new(runs, values.data))
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
fn together(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    Ok(match arrays {
        [only] => Arc::clone(only),
        _ => {
            let arrays: Vec<&dyn Array> = arrays.iter().map(|array| array.as_ref()).collect();
            concat(&arrays)?
        }
    })
}

fn texts<T: ByteViewType>(arrays: &[ArrayRef], encoded: bool) -> Form {
    match encoded.then(|| text::sizes::<T>(arrays)).flatten() {
        Some(sizes) => Form::Text(sizes),
        None => {
            let arrays = arrays.iter().map(|array| array.as_byte_view::<T>());
            Form::Views(data_sizes(arrays.map(|array| (array.views(), array.nulls()))))
        }
    }
}

/// Codes in `width` bytes each.
fn put_codes(codes: &[u32], width: usize, mut piece: Piece) -> Codes {
    let rows = codes.len();
    let slots = piece.bytes_mut();
    macro_rules! put {
        ($t:ty, $form:ident) => {{
            for (slot, code) in slots.chunks_exact_mut(size_of::<$t>()).zip(codes) {
                slot.copy_from_slice(&(*code as $t).to_ne_bytes());
            }
            Codes::$form(ScalarBuffer::new(piece.freeze(), 0, rows))
        }};
    }
    match width {
        1 => put!(u8, U8),
        2 => put!(u16, U16),
        _ => put!(u32, U32),
    }
}

fn bit_buffer(bits: &BooleanBuffer, mut piece: Piece) -> BooleanBuffer {
    let rows = bits.len();
    let bytes = rows.div_ceil(8);
    piece.bytes_mut().copy_from_slice(&bits.values()[..bytes]);
    BooleanBuffer::new(piece.freeze(), 0, rows)
}

fn coded(
    strings: &[&StringViewArray],
    dictionary: &Arc<Dictionary>,
    rows: usize,
    budget: &Arc<MemoryBudget>,
) -> Option<(Form, ColumnStatistics)> {
    let local = code_strings(strings, rows, dictionary)?;
    let global = dictionary.encode(&local, rows, budget)?;
    let null_count = strings.iter().map(|array| array.null_count() as u64).sum();
    let statistics = ColumnStatistics::of_codes(&local.codes, &local.values, null_count);
    let codes = local.codes.iter().map(|code| global.codes[*code as usize]).collect();
    let most = global.codes.iter().max().map_or(0, |code| *code as usize);
    let form = Form::Codes {
        codes,
        width: code_bytes(most + 1),
        len: global.len,
        dictionary: Arc::clone(dictionary),
    };
    Some((form, statistics))
}
