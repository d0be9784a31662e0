//! `unnest`: the ranges of a multirange, the items of an array, those of arrays of arrays row by row.

use super::misc::Slices;
use super::{SetFunction, SetRows, undefined};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, new_empty_array};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::range::{self, RangeType, Values, ranges_of_bytes, to_bytes};

/// What it is called.
pub(crate) const UNNEST: &str = "unnest";

#[derive(Debug)]
pub(super) struct Unnest;

fn item(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => Some(item),
        _ => None,
    }
}

/// The value in one row as an array.
pub(super) fn items(list: &ArrayRef, row: usize) -> ArrayRef {
    match list.data_type() {
        DataType::LargeList(_) => list.as_list::<i64>().value(row),
        DataType::FixedSizeList(..) => list.as_fixed_size_list().value(row),
        _ => list.as_list::<i32>().value(row),
    }
}

fn flat(values: ArrayRef) -> Result<ArrayRef> {
    let Some(inner) = item(values.data_type()) else {
        return Ok(values);
    };
    let inner = inner.data_type().clone();
    let parts = (0..values.len()).filter(|row| values.is_valid(*row));
    let parts: Vec<ArrayRef> = parts.map(|row| items(&values, row)).collect();
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    flat(match parts.is_empty() {
        true => new_empty_array(&inner),
        false => concat(&parts)?,
    })
}

impl SetFunction for Unnest {
    fn name(&self) -> &str {
        UNNEST
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [list] if item(list).is_some() || RangeType::of_multirange(list).is_some() => Ok(types.to_vec()),
            _ => Err(undefined(self.name(), types)),
        }
    }

    fn field(&self, args: &[FieldRef]) -> Result<FieldRef> {
        if let [multirange] = args
            && let Some(of) = RangeType::of_multirange(multirange.data_type())
        {
            return Ok(Arc::new(Field::new(self.name(), of.data_type(), true)));
        }
        let mut found: FieldRef = match args {
            [list] => match item(list.data_type()) {
                Some(found) => found.clone(),
                None => return Err(undefined(self.name(), &[list.data_type().clone()])),
            },
            _ => return Err(undefined(self.name(), &[])),
        };
        while let Some(inner) = item(found.data_type()) {
            found = inner.clone();
        }
        let named = Field::clone(&found).with_name(self.name()).with_nullable(true);
        Ok(Arc::new(named))
    }

    fn rows(&self, args: &[ArrayRef], row: usize) -> Result<Box<dyn SetRows>> {
        if let (Some(of), Some(values)) = (RangeType::of_multirange(args[0].data_type()), Values::of(&args[0])) {
            let ranges = ranges_of_bytes(of, values.get(row).unwrap_or_default());
            let ranges = ranges.iter().map(|range| Some(to_bytes(Some(range))));
            return Ok(Box::new(Slices(range::array(SqlType::Range(of), ranges))));
        }
        Ok(Box::new(Slices(flat(items(&args[0], row))?)))
    }
}
