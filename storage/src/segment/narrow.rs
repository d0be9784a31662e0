//! Integers, dates, times and decimals as unsigned differences from the segment's smallest value (frame of reference), in
//! as few bytes as the widest difference takes; none where all values are equal.

use super::rows::RowSelection;
use crate::arena::Piece;
use crate::error::{Result, StorageError};
use crate::statistics::{Bound, ColumnStatistics};
use arrow::array::*;
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::*;
use std::sync::Arc;

/// A column as differences.
#[derive(Clone, Debug)]
pub struct NarrowColumn {
    data_type: DataType,
    base: i128,
    differences: Differences,
    nulls: Option<NullBuffer>,
}

/// What each row adds to the column's base. Rows that are null hold 0.
#[derive(Clone, Debug)]
pub enum Differences {
    /// 0 for each of so many rows.
    None(usize),
    U8(ScalarBuffer<u8>),
    U16(ScalarBuffer<u16>),
    U32(ScalarBuffer<u32>),
    U64(ScalarBuffer<u64>),
}

impl Differences {
    /// Bytes of each.
    pub(super) fn width(&self) -> usize {
        match self {
            Differences::None(_) => 0,
            Differences::U8(_) => 1,
            Differences::U16(_) => 2,
            Differences::U32(_) => 4,
            Differences::U64(_) => 8,
        }
    }

    /// The same in the next piece, which is as large as they are; those that take no bytes take none.
    pub(super) fn copied(&self, next: impl FnOnce() -> Result<Piece>) -> Result<Differences> {
        macro_rules! copied {
            ($form:ident, $differences:expr) => {{
                let mut piece = next()?;
                piece.bytes_mut().copy_from_slice($differences.inner().as_slice());
                Differences::$form(ScalarBuffer::new(piece.freeze(), 0, $differences.len()))
            }};
        }
        Ok(match self {
            Differences::None(rows) => Differences::None(*rows),
            Differences::U8(own) => copied!(U8, own),
            Differences::U16(own) => copied!(U16, own),
            Differences::U32(own) => copied!(U32, own),
            Differences::U64(own) => copied!(U64, own),
        })
    }
}

/// How a column is made narrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    base: i128,
    /// Bytes of a difference.
    width: usize,
}

impl Frame {
    /// Whether columns of this type are made narrow, where that saves bytes.
    pub(super) fn is_for(data_type: &DataType) -> bool {
        matches!(
            data_type,
            DataType::Int16
                | DataType::Int32
                | DataType::Int64
                | DataType::Date32
                | DataType::Time64(TimeUnit::Microsecond)
                | DataType::Timestamp(TimeUnit::Microsecond, _)
                | DataType::Decimal128(..)
        )
    }

    /// None: nothing would be saved.
    pub(super) fn of(data_type: &DataType, statistics: &ColumnStatistics) -> Option<Frame> {
        let plain = data_type.primitive_width()?;
        let value = |bound: &Option<Bound>| match bound {
            Some(Bound::Int(value)) => Some(i128::from(*value)),
            Some(Bound::Decimal(value)) => Some(*value),
            _ => None,
        };
        let (base, max) = match statistics.null_count == statistics.rows {
            true => (0, 0),
            false => (value(&statistics.min)?, value(&statistics.max)?),
        };
        let width = match u64::try_from(max.checked_sub(base)?).ok()? {
            0 => 0,
            1..=0xff => 1,
            0x100..=0xffff => 2,
            0x1_0000..=0xffff_ffff => 4,
            _ => 8,
        };
        (width < plain).then_some(Frame { base, width })
    }

    /// That of differences from a base; None: nothing is saved, or the type has none or no such base.
    pub(super) fn of_differences(data_type: &DataType, base: i128, differences: &Differences) -> Option<Frame> {
        let plain = data_type.primitive_width().filter(|_| Frame::is_for(data_type))?;
        let bits = 8 * plain as u32;
        // The type's integers: those that its bits can tell.
        let fits = base >> (bits - 1) == 0 || base >> (bits - 1) == -1;
        let width = differences.width();
        (fits && width < plain).then_some(Frame { base, width })
    }

    /// Of the differences of so many rows, if there are any.
    pub(super) fn bytes(self, rows: usize) -> Option<usize> {
        (self.width > 0).then_some(rows * self.width)
    }

    /// Fills `piece`, if the frame takes one, with the differences of `array`.
    pub(super) fn fill(self, array: &ArrayRef, piece: Option<Piece>) -> Result<NarrowColumn> {
        let rows = array.len();
        let differences = match piece {
            None => Differences::None(rows),
            Some(piece) => {
                macro_rules! of {
                    ($t:ty) => {
                        self.differences(array.as_primitive::<$t>(), piece)
                    };
                }
                match array.data_type() {
                    DataType::Int16 => of!(Int16Type),
                    DataType::Int32 => of!(Int32Type),
                    DataType::Date32 => of!(Date32Type),
                    DataType::Int64 => of!(Int64Type),
                    DataType::Time64(TimeUnit::Microsecond) => of!(Time64MicrosecondType),
                    DataType::Timestamp(TimeUnit::Microsecond, _) => of!(TimestampMicrosecondType),
                    DataType::Decimal128(..) => of!(Decimal128Type),
                    other => Err(StorageError::internal(format!(
                        "columns of {other} are not made narrow"
                    ))),
                }?
            }
        };
        Ok(NarrowColumn {
            data_type: array.data_type().clone(),
            base: self.base,
            differences,
            nulls: None,
        })
    }

    fn differences<T: ArrowPrimitiveType>(self, array: &PrimitiveArray<T>, mut piece: Piece) -> Result<Differences>
    where
        T::Native: Wide,
    {
        let (rows, base) = (array.len(), T::Native::narrowed(self.base));
        let values = array.values().iter();
        macro_rules! write {
            ($t:ty, $form:ident) => {{
                let slots = piece.bytes_mut().chunks_exact_mut(size_of::<$t>());
                match array.nulls().filter(|nulls| nulls.null_count() > 0) {
                    None => slots
                        .zip(values)
                        .for_each(|(slot, value)| slot.copy_from_slice(&(value.difference(base) as $t).to_ne_bytes())),
                    Some(nulls) => slots.zip(values).zip(nulls).for_each(|((slot, value), valid)| {
                        let difference = if valid { value.difference(base) as $t } else { 0 };
                        slot.copy_from_slice(&difference.to_ne_bytes());
                    }),
                }
                Differences::$form(ScalarBuffer::new(piece.freeze(), 0, rows))
            }};
        }
        Ok(match self.width {
            1 => write!(u8, U8),
            2 => write!(u16, U16),
            4 => write!(u32, U32),
            8 => write!(u64, U64),
            width => return Err(StorageError::internal(format!("differences of {width} bytes"))),
        })
    }
}

/// The native types of narrow columns. What overflows wraps: within a segment's bounds nothing does.
trait Wide: Copy {
    fn narrowed(value: i128) -> Self;
    fn difference(self, base: Self) -> u64;
    fn plus(self, difference: u64) -> Self;
}

macro_rules! wide {
    ($($t:ty),*) => {$(
        impl Wide for $t {
            fn narrowed(value: i128) -> Self {
                value as $t
            }
            fn difference(self, base: Self) -> u64 {
                self.wrapping_sub(base) as u64
            }
            fn plus(self, difference: u64) -> Self {
                self.wrapping_add(difference as $t)
            }
        }
    )*};
}

wide!(i16, i32, i64, i128);

impl NarrowColumn {
    pub(super) fn new(data_type: DataType, base: i128, differences: Differences, nulls: Option<NullBuffer>) -> Self {
        Self {
            data_type,
            base,
            differences,
            nulls,
        }
    }

    /// The values of differences from a base.
    pub(crate) fn decoded(
        data_type: DataType,
        base: i128,
        differences: Differences,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        if !Frame::is_for(&data_type) {
            return Err(StorageError::internal(format!(
                "columns of {data_type} are not made narrow"
            )));
        }
        let rows = match &differences {
            Differences::None(rows) => *rows,
            Differences::U8(of) => of.len(),
            Differences::U16(of) => of.len(),
            Differences::U32(of) => of.len(),
            Differences::U64(of) => of.len(),
        };
        let column = NarrowColumn {
            data_type,
            base,
            differences,
            nulls,
        };
        Ok(column.decode(RowSelection::Run { offset: 0, rows }))
    }

    pub(super) fn with_nulls(self, nulls: Option<NullBuffer>) -> Self {
        Self { nulls, ..self }
    }

    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// What the differences are added to.
    pub fn base(&self) -> i128 {
        self.base
    }

    pub fn differences(&self) -> &Differences {
        &self.differences
    }

    pub fn nulls(&self) -> Option<&NullBuffer> {
        self.nulls.as_ref()
    }

    /// The same with the rows of these numbers.
    pub(super) fn picked(&self, rows: &[u32]) -> Self {
        macro_rules! picked {
            ($differences:expr) => {
                rows.iter()
                    .map(|row| $differences[*row as usize])
                    .collect::<Vec<_>>()
                    .into()
            };
        }
        let differences = match &self.differences {
            Differences::None(_) => Differences::None(rows.len()),
            Differences::U8(differences) => Differences::U8(picked!(differences)),
            Differences::U16(differences) => Differences::U16(picked!(differences)),
            Differences::U32(differences) => Differences::U32(picked!(differences)),
            Differences::U64(differences) => Differences::U64(picked!(differences)),
        };
        let nulls = RowSelection::Picked(rows).nulls(self.nulls.as_ref());
        Self {
            differences,
            nulls,
            ..self.clone()
        }
    }

    /// The rows as an array of the column's type.
    pub(super) fn decode(&self, rows: RowSelection<'_>) -> ArrayRef {
        let nulls = rows.nulls(self.nulls.as_ref());
        macro_rules! to {
            ($t:ty) => {
                Arc::new(PrimitiveArray::<$t>::new(self.values(rows), nulls).with_data_type(self.data_type.clone()))
            };
        }
        match &self.data_type {
            DataType::Int16 => to!(Int16Type),
            DataType::Int32 => to!(Int32Type),
            DataType::Date32 => to!(Date32Type),
            DataType::Int64 => to!(Int64Type),
            DataType::Time64(_) => to!(Time64MicrosecondType),
            DataType::Timestamp(..) => to!(TimestampMicrosecondType),
            _ => to!(Decimal128Type),
        }
    }

    fn values<T: Wide + ArrowNativeType>(&self, rows: RowSelection<'_>) -> ScalarBuffer<T> {
        let base = T::narrowed(self.base);
        macro_rules! sum {
            ($differences:expr) => {{
                let of = |difference| base.plus(u64::from(difference));
                let values: Vec<T> = match rows {
                    RowSelection::Run { offset, rows } => $differences[offset..offset + rows]
                        .iter()
                        .map(|difference| of(*difference))
                        .collect(),
                    RowSelection::Picked(picked) => picked.iter().map(|row| of($differences[*row as usize])).collect(),
                    RowSelection::Runs(runs) => {
                        let mut values = Vec::with_capacity(runs.rows());
                        runs.iter()
                            .for_each(|run| values.extend($differences[run].iter().map(|difference| of(*difference))));
                        values
                    }
                };
                values.into()
            }};
        }
        match &self.differences {
            Differences::None(_) => vec![base; rows.len()].into(),
            Differences::U8(differences) => sum!(differences),
            Differences::U16(differences) => sum!(differences),
            Differences::U32(differences) => sum!(differences),
            Differences::U64(differences) => sum!(differences),
        }
    }
}
