//! What storage knows of a column, in the estimator's terms.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use tenon_storage::{Bound, Distribution, TableVersion};

use super::ColumnProfile;

/// The correlation from which on rows are taken for ordered by a column.
const IN_ORDER: f64 = 0.95;

/// A column of a table version. Its distribution is sampled when first asked for.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub table: Arc<TableVersion>,
    pub column: usize,
}

/// What is known of a table's column; of a row position, nothing.
pub(super) fn profile(table: &Arc<TableVersion>, column: usize) -> ColumnProfile {
    let base_rows = Some(table.rows() as f64);
    let Some(known) = table.statistics().columns.get(column) else {
        return ColumnProfile {
            base_rows,
            ..Default::default()
        };
    };
    let stored = Stored {
        table: table.clone(),
        column,
    };
    let unit = unit(stored.data_type());
    let place = |bound: &Option<Bound>| bound.as_ref().and_then(Bound::number).map(|n| n * unit);
    ColumnProfile {
        distinct: Some(table.distinct(column) as f64),
        min: place(&known.min),
        max: place(&known.max),
        base_rows,
        together: None,
        stored: Some(stored),
    }
}

impl Stored {
    pub fn data_type(&self) -> &DataType {
        self.table.schema().field(self.column).data_type()
    }

    pub fn distribution(&self) -> Arc<Distribution> {
        self.table.distribution(self.column)
    }

    pub fn distinct(&self) -> f64 {
        self.table.distinct(self.column) as f64
    }

    /// How far the column's values are apart on the number line at least; None where there is no saying.
    pub fn step(&self) -> Option<f64> {
        let own = self.data_type();
        let counts = own.is_integer() || own.is_temporal() || matches!(own, DataType::Decimal128(..));
        counts.then(|| unit(own))
    }

    /// Whether the table's rows are in the order of the column's values, or in the opposite one, but for a few.
    pub fn is_in_order(&self) -> bool {
        let correlation = self.distribution().correlation;
        correlation.is_some_and(|correlation| correlation.abs() > IN_ORDER)
    }

    /// Share of the rows that are not NULL.
    pub fn valid_share(&self) -> f64 {
        let rows = self.table.rows().max(1) as f64;
        let known = self.table.statistics().columns.get(self.column);
        known.map_or(1.0, |known| 1.0 - known.null_count as f64 / rows)
    }

    /// A literal as the column's own values are kept; None where it has no place among them.
    pub fn bound(&self, value: &ScalarValue) -> Option<Bound> {
        let own = self.data_type();
        if value.data_type() == *own {
            return bound(value);
        }
        match (value, own) {
            // Text of any layout.
            (ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)), DataType::Utf8View) => {
                Some(Bound::Bytes(text.as_bytes().into()))
            }
            _ => bound(&value.cast_to(own).ok()?),
        }
    }

    /// A place on the number line as the column's own values are kept.
    pub fn bound_at(&self, place: f64) -> Option<Bound> {
        let value = place / unit(self.data_type());
        match self.data_type() {
            DataType::Decimal128(..) => Some(Bound::Decimal(value as i128)),
            DataType::Float32 | DataType::Float64 => Some(Bound::Float(value)),
            own if own.is_integer() || own.is_temporal() => Some(Bound::Int(value as i64)),
            _ => None,
        }
    }

    /// The place of one of the column's own values.
    pub fn place(&self, bound: &Bound) -> Option<f64> {
        Some(bound.number()? * unit(self.data_type()))
    }

    /// The values that stand for the column, as an array of its type, with the share of each.
    pub fn representatives(&self) -> Option<(ArrayRef, Vec<f64>)> {
        let distribution = self.distribution();
        let (mut arrays, mut shares) = (Vec::new(), Vec::new());
        for (value, share) in distribution.representatives() {
            arrays.push(value.to_array(self.data_type())?);
            shares.push(share);
        }
        let pieces: Vec<_> = arrays.iter().map(AsRef::as_ref).collect();
        Some((arrow::compute::concat(&pieces).ok()?, shares))
    }
}

/// A value of a stored type.
fn bound(value: &ScalarValue) -> Option<Bound> {
    use ScalarValue::*;
    Some(match value {
        Boolean(Some(v)) => Bound::Bool(*v),
        Int16(Some(v)) => Bound::Int((*v).into()),
        Int32(Some(v)) | Date32(Some(v)) => Bound::Int((*v).into()),
        Int64(Some(v)) | Time64Microsecond(Some(v)) | TimestampMicrosecond(Some(v), _) => Bound::Int(*v),
        Decimal128(Some(v), ..) => Bound::Decimal(*v),
        Float32(Some(v)) => Bound::Float((*v).into()),
        Float64(Some(v)) => Bound::Float(*v),
        Utf8View(Some(v)) => Bound::Bytes(v.as_bytes().into()),
        BinaryView(Some(v)) | LargeBinary(Some(v)) | FixedSizeBinary(_, Some(v)) => Bound::Bytes(v.as_slice().into()),
        _ => return None,
    })
}

/// What one step of a type's stored numbers is on the common number line: decimals by their scale, times in
/// microseconds.
fn unit(data_type: &DataType) -> f64 {
    match data_type {
        DataType::Decimal128(_, scale) => 10f64.powi(-i32::from(*scale)),
        DataType::Date32 => 86_400e6,
        DataType::Timestamp(TimeUnit::Second, _) => 1e6,
        DataType::Timestamp(TimeUnit::Millisecond, _) => 1e3,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => 1e-3,
        _ => 1.0,
    }
}

/// A literal's place on the common number line; intervals by PostgreSQL's 30 days a month.
pub(super) fn number(value: &ScalarValue) -> Option<f64> {
    use ScalarValue::*;
    let steps = match value {
        Int8(v) => f64::from((*v)?),
        Int16(v) => f64::from((*v)?),
        Int32(v) | Date32(v) => f64::from((*v)?),
        Int64(v) | Time64Microsecond(v) => (*v)? as f64,
        TimestampMicrosecond(v, _) | TimestampMillisecond(v, _) | TimestampNanosecond(v, _) | TimestampSecond(v, _) => {
            (*v)? as f64
        }
        Float32(v) => f64::from((*v)?),
        Float64(v) => (*v)?,
        Decimal128(v, ..) => (*v)? as f64,
        IntervalMonthDayNano(v) => {
            let v = (*v)?;
            let days = f64::from(v.months) * 30.0 + f64::from(v.days);
            return Some(days * 86_400e6 + v.nanoseconds as f64 / 1e3);
        }
        _ => return None,
    };
    Some(steps * unit(&value.data_type()))
}
