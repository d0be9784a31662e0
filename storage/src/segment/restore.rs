//! Columns as a store has them, put back into the form that they had: copied as they are, without a look at their rows where
//! their statistics are kept beside them.

use super::build::{self, EncodingPlan};
use super::column::{Codes, ColumnData, DictionaryColumn};
use super::dictionary::{Dictionary, code_bytes};
use super::narrow::{Differences, Frame, NarrowColumn};
use super::run_length;
use super::text::{self, TextColumn};
use crate::arena::Piece;
use crate::error::{Result, StorageError};
use crate::memory::MemoryBudget;
use crate::statistics::{Bound, ColumnStatistics};
use arrow::array::*;
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::*;
use std::sync::Arc;

/// A column of a segment as it is in a file.
pub(crate) struct StoredColumn {
    /// Differences, strings or byte strings, codes into a dictionary of these, or the rows in the table's type.
    pub array: ArrayRef,
    /// What differences are added to: an array of booleans has none but the base.
    pub base: Option<i128>,
    pub form: StoredForm,
    /// Of those rows.
    pub statistics: Option<ColumnStatistics>,
}

/// What is known of the form that a segment had a column in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredForm {
    /// Nothing, or the table's type was another.
    Unknown,
    /// The one that is in the file.
    Same,
    /// Runs of equal rows.
    Runs,
}

impl StoredColumn {
    /// The rows in the table's type.
    pub(crate) fn rows(&self, data_type: &DataType) -> Result<ArrayRef> {
        match self.differences()? {
            Some((base, differences)) => {
                NarrowColumn::decoded(data_type.clone(), base, differences, self.array.nulls().cloned())
            }
            None if self.array.data_type() == data_type => Ok(self.array.clone()),
            None => Ok(cast(&self.array, data_type)?),
        }
    }

    fn differences(&self) -> Result<Option<(i128, Differences)>> {
        let Some(base) = self.base else {
            return Ok(None);
        };
        let differences = match self.array.data_type() {
            DataType::Boolean => Differences::None(self.array.len()),
            DataType::UInt8 => Differences::U8(self.array.as_primitive::<UInt8Type>().values().clone()),
            DataType::UInt16 => Differences::U16(self.array.as_primitive::<UInt16Type>().values().clone()),
            DataType::UInt32 => Differences::U32(self.array.as_primitive::<UInt32Type>().values().clone()),
            DataType::UInt64 => Differences::U64(self.array.as_primitive::<UInt64Type>().values().clone()),
            other => return Err(StorageError::corrupted(format!("differences of type {other}"))),
        };
        Ok(Some((base, differences)))
    }

    /// Statistics that cannot be of this column are damage that no checksum tells.
    fn checked(&self, data_type: &DataType) -> Result<()> {
        let Some(own) = &self.statistics else {
            return Ok(());
        };
        let fits = |bound: &Bound| bound.to_array(data_type).is_some();
        let bounded = match (&own.min, &own.max) {
            (Some(min), Some(max)) => fits(min) && fits(max) && min <= max,
            (min, max) => min.is_none() && max.is_none(),
        };
        let counted = own.rows == self.array.len() as u64 && own.null_count == self.array.null_count() as u64;
        match bounded && counted {
            true => Ok(()),
            false => Err(StorageError::corrupted("the statistics of a column are not its own")),
        }
    }

    /// How the column gets its form again. None: it has to be found anew.
    pub(super) fn plan(
        &self,
        data_type: &DataType,
        dictionary: Option<&Arc<Dictionary>>,
        rows: usize,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Option<EncodingPlan>> {
        match self.form {
            StoredForm::Same if self.array.len() == rows => self.checked(data_type)?,
            StoredForm::Runs if self.array.len() == rows => return self.runs(data_type, dictionary, budget),
            _ => return Ok(None),
        }
        let form = match (self.differences()?, self.array.data_type()) {
            (Some((base, differences)), _) => self.narrow(base, differences, data_type),
            (None, DataType::Utf8) if *data_type == DataType::Utf8View => Kept::text(&self.array),
            (None, DataType::Binary) if *data_type == DataType::BinaryView => Kept::text(&self.array),
            (None, DataType::Dictionary(..)) if *data_type == DataType::Utf8View => {
                dictionary.and_then(|dictionary| Kept::coded(&self.array, dictionary, budget))
            }
            (None, own) if own == data_type => return self.plain(data_type),
            _ => None,
        };
        Ok(form.map(|form| EncodingPlan::kept(self.array.clone(), data_type.clone(), form, self.statistics.clone())))
    }

    /// In runs, which begin where codes or differences change: one row for each is all that is looked at.
    fn runs(
        &self,
        data_type: &DataType,
        dictionary: Option<&Arc<Dictionary>>,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Option<EncodingPlan>> {
        let rows = self.array.len();
        let told = match self.array.as_any_dictionary_opt() {
            Some(coded) => make_array(coded.keys().to_data()),
            None => self.array.clone(),
        };
        let Some(starts) = run_length::starts(&[told], build::runs_max(rows)) else {
            return Ok(None);
        };
        let values = StoredColumn {
            array: take(&self.array, &UInt32Array::from(starts.clone()), None)?,
            statistics: None,
            ..*self
        };
        let (values, nulls) = (vec![values.rows(data_type)?], self.array.null_count());
        EncodingPlan::in_runs(starts, values, data_type, dictionary, (rows, nulls), budget)
    }

    fn narrow(&self, base: i128, differences: Differences, data_type: &DataType) -> Option<Kept> {
        let frame = Frame::of_differences(data_type, base, &differences)?;
        let expected = self.statistics.as_ref().map(|own| Frame::of(data_type, own));
        expected
            .is_none_or(|expected| expected == Some(frame))
            .then_some(Kept::Narrow(base, differences))
    }

    /// As the rows are, where that is how they were.
    fn plain(&self, data_type: &DataType) -> Result<Option<EncodingPlan>> {
        let narrower = match &self.statistics {
            Some(own) => Frame::is_for(data_type) && Frame::of(data_type, own).is_some(),
            None => Frame::is_for(data_type),
        };
        let is_text = matches!(data_type, DataType::Utf8View | DataType::BinaryView);
        match narrower || is_text {
            true => Ok(None),
            false => {
                EncodingPlan::plain(vec![self.array.clone()], data_type.clone(), self.statistics.clone()).map(Some)
            }
        }
    }
}

/// What a store holds just as the segment will.
pub(super) enum Kept {
    Narrow(i128, Differences),
    /// Strings or byte strings, and the sizes of their offsets and bytes.
    Text(ArrayRef, [usize; 2]),
    Coded {
        /// Each row's place in `codes`.
        keys: Keys,
        /// Those of the dictionary, and how many it has at least.
        codes: Vec<u32>,
        width: usize,
        len: usize,
        dictionary: Arc<Dictionary>,
    },
}

pub(super) enum Keys {
    U16(ScalarBuffer<u16>),
    U32(ScalarBuffer<u32>),
}

impl Kept {
    fn text(array: &ArrayRef) -> Option<Kept> {
        let (offsets, _) = parts(array)?;
        text::sizes_of_offsets(offsets).map(|sizes| Kept::Text(array.clone(), sizes))
    }

    /// None: there are no values, or the dictionary has no place for them.
    fn coded(array: &ArrayRef, dictionary: &Arc<Dictionary>, budget: &Arc<MemoryBudget>) -> Option<Kept> {
        let of_any = array.as_any_dictionary();
        let values = of_any.values().as_string_opt::<i32>()?;
        if values.is_empty() || values.null_count() > 0 {
            return None;
        }
        let keys = match of_any.keys().data_type() {
            DataType::UInt16 => Keys::U16(of_any.keys().as_primitive::<UInt16Type>().values().clone()),
            DataType::UInt32 => Keys::U32(of_any.keys().as_primitive::<UInt32Type>().values().clone()),
            _ => return None,
        };
        let values: Vec<&str> = values.iter().flatten().collect();
        let global = dictionary.keep(&values, budget)?;
        let most = global.codes.iter().max().map_or(0, |code| *code as usize);
        Some(Kept::Coded {
            keys,
            codes: global.codes,
            width: code_bytes(most + 1),
            len: global.len,
            dictionary: dictionary.clone(),
        })
    }

    /// Adds the bytes of each buffer, validity excluded.
    pub(super) fn sizes(&self, rows: usize, sizes: &mut Vec<usize>) {
        match self {
            Kept::Narrow(_, differences) => match differences.width() {
                0 => {}
                width => sizes.push(rows * width),
            },
            Kept::Text(_, own) => sizes.extend(own),
            Kept::Coded { width, .. } => sizes.push(rows * width),
        }
    }

    /// The column in the pieces of those sizes.
    pub(super) fn fill(
        self,
        data_type: DataType,
        nulls: Option<NullBuffer>,
        mut next: impl FnMut() -> Result<Piece>,
    ) -> Result<ColumnData> {
        Ok(match self {
            Kept::Narrow(base, differences) => {
                let differences = differences.copied(next)?;
                ColumnData::Narrow(NarrowColumn::new(data_type, base, differences, nulls))
            }
            Kept::Text(array, _) => {
                let (offsets, data) = parts(&array).ok_or_else(|| StorageError::internal("texts are no texts"))?;
                let (to_offsets, to_data) = (next()?, next()?);
                // SAFETY: where the type is of strings, the array's are: `plan` has seen to it, and its texts are valid.
                ColumnData::Text(unsafe {
                    TextColumn::of_offsets(data_type, offsets, data, nulls, to_offsets, to_data)?
                })
            }
            Kept::Coded {
                keys,
                codes,
                width,
                len,
                dictionary,
            } => {
                let piece = next()?;
                let codes = match keys {
                    Keys::U16(keys) => put_codes(keys.iter().map(|key| *key as usize), &codes, width, piece),
                    Keys::U32(keys) => put_codes(keys.iter().map(|key| *key as usize), &codes, width, piece),
                };
                ColumnData::Dictionary(DictionaryColumn {
                    codes,
                    nulls,
                    len,
                    dictionary,
                })
            }
        })
    }
}

/// Where the texts of strings or byte strings begin and end, and all their bytes.
fn parts(array: &ArrayRef) -> Option<(&[i32], &[u8])> {
    match array.data_type() {
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            Some((array.value_offsets(), array.value_data()))
        }
        DataType::Binary => {
            let array = array.as_binary::<i32>();
            Some((array.value_offsets(), array.value_data()))
        }
        _ => None,
    }
}

/// The codes that keys stand for, in `width` bytes each. Keys of rows that are null may be any: they get a code that there is.
fn put_codes(keys: impl ExactSizeIterator<Item = usize>, codes: &[u32], width: usize, mut piece: Piece) -> Codes {
    let rows = keys.len();
    let slots = piece.bytes_mut();
    macro_rules! put {
        ($t:ty, $form:ident) => {{
            let codes: Vec<$t> = codes.iter().map(|code| *code as $t).collect();
            for (slot, key) in slots.chunks_exact_mut(size_of::<$t>()).zip(keys) {
                slot.copy_from_slice(&codes.get(key).copied().unwrap_or_default().to_ne_bytes());
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

/// The plan for a column that a store has, of a table that has it in this type.
pub(super) fn plan(
    column: &StoredColumn,
    data_type: &DataType,
    dictionary: Option<&Arc<Dictionary>>,
    rows: usize,
    budget: &Arc<MemoryBudget>,
) -> Result<EncodingPlan> {
    match column.plan(data_type, dictionary, rows, budget)? {
        Some(plan) => Ok(plan),
        None => EncodingPlan::new(vec![column.rows(data_type)?], dictionary, rows, budget),
    }
}
