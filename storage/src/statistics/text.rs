//! A column's statistics as a line of text, for files that keep them beside the column. Reading it gives them as they were, to
//! the last bit; None where it is no such text.

use super::bound::Bound;
use super::column::ColumnStatistics;
use super::sketch::Sketch;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Written {
    rows: u64,
    nulls: u64,
    min: Option<WrittenBound>,
    max: Option<WrittenBound>,
    met: bool,
    ascending: bool,
    strictly: bool,
    sketch: String,
}

/// A bound of which JSON loses nothing: numbers that it has no place for are told by their bits or digits.
#[derive(Serialize, Deserialize)]
enum WrittenBound {
    Bool(bool),
    Int(i64),
    Decimal(String),
    Float(u64),
    Bytes(Vec<u8>),
}

impl From<&Bound> for WrittenBound {
    fn from(bound: &Bound) -> Self {
        match bound {
            Bound::Bool(value) => WrittenBound::Bool(*value),
            Bound::Int(value) => WrittenBound::Int(*value),
            Bound::Decimal(value) => WrittenBound::Decimal(value.to_string()),
            Bound::Float(value) => WrittenBound::Float(value.to_bits()),
            Bound::Bytes(value) => WrittenBound::Bytes(value.to_vec()),
        }
    }
}

impl WrittenBound {
    fn read(self) -> Option<Bound> {
        Some(match self {
            WrittenBound::Bool(value) => Bound::Bool(value),
            WrittenBound::Int(value) => Bound::Int(value),
            WrittenBound::Decimal(value) => Bound::Decimal(value.parse().ok()?),
            WrittenBound::Float(bits) => Bound::Float(f64::from_bits(bits)),
            WrittenBound::Bytes(value) => Bound::Bytes(value.into()),
        })
    }
}

impl ColumnStatistics {
    pub(crate) fn to_text(&self) -> Option<String> {
        let written = Written {
            rows: self.rows,
            nulls: self.null_count,
            min: self.min.as_ref().map(WrittenBound::from),
            max: self.max.as_ref().map(WrittenBound::from),
            met: self.bounds_met,
            ascending: self.ascending,
            strictly: self.strictly_ascending,
            sketch: self.sketch.to_text(),
        };
        serde_json::to_string(&written).ok()
    }

    pub(crate) fn of_text(text: &str) -> Option<Self> {
        let written: Written = serde_json::from_str(text).ok()?;
        let bound = |bound: Option<WrittenBound>| match bound {
            None => Some(None),
            Some(bound) => bound.read().map(Some),
        };
        Some(Self {
            rows: written.rows,
            null_count: written.nulls,
            min: bound(written.min)?,
            max: bound(written.max)?,
            bounds_met: written.met,
            sketch: Sketch::of_text(&written.sketch)?,
            ascending: written.ascending,
            strictly_ascending: written.strictly,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::*;
    use std::sync::Arc;

    #[test]
    fn texts_give_what_they_are_of() {
        let many = (0..100_000).map(|row| (row % 7 != 0).then_some(row * 31));
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter(many)),
            Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX])),
            Arc::new(Float64Array::from(vec![-0.0, f64::NAN, f64::NEG_INFINITY])),
            Arc::new(Decimal128Array::from(vec![i128::MIN, i128::MAX])),
            Arc::new(BooleanArray::from(vec![None, Some(false)])),
            Arc::new(StringViewArray::from(vec!["", "\"\\\u{0}żó", "z"])),
            Arc::new(Int32Array::new_null(3)),
            Arc::new(Int32Array::new_null(0)),
        ];
        for array in arrays {
            let own = ColumnStatistics::of_array(&array);
            let text = own.to_text().unwrap();
            let read = ColumnStatistics::of_text(&text).unwrap();
            assert_eq!(
                format!("{:?}{:?}", own.min, own.max),
                format!("{:?}{:?}", read.min, read.max)
            );
            assert_eq!(
                (own.rows, own.null_count, own.bounds_met),
                (read.rows, read.null_count, read.bounds_met)
            );
            assert_eq!(own.ascending, read.ascending);
            assert_eq!(own.strictly_ascending, read.strictly_ascending);
            assert_eq!(own.distinct(), read.distinct());
            let mut merged = own.sketch.clone();
            merged.merge(&read.sketch);
            assert_eq!(merged.distinct(), own.sketch.distinct());
            for cut in (0..text.len())
                .step_by(1 + text.len() / 300)
                .filter(|cut| text.is_char_boundary(*cut))
            {
                assert!(ColumnStatistics::of_text(&text[..cut]).is_none());
            }
        }
    }
}
