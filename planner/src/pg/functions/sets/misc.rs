//! Sets that FROM is made of: a single value as a set, and the numbers of rows.

use super::{SetFunction, SetRows};
use datafusion::arrow::array::{ArrayRef, new_empty_array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, internal_err};
use std::sync::Arc;

/// Names that no client can write.
pub(crate) const ONCE: &str = "\u{1}once";
pub(crate) const ORDINALITY: &str = "\u{1}ordinality";

/// A value as a set of one row, whatever stands beside it.
#[derive(Debug)]
pub(super) struct Once;

impl SetFunction for Once {
    fn name(&self) -> &str {
        ONCE
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn field(&self, args: &[FieldRef]) -> Result<FieldRef> {
        match args {
            [value] => Ok(value.clone()),
            _ => internal_err!("once takes a value"),
        }
    }

    fn is_strict(&self) -> bool {
        false
    }

    fn rows(&self, args: &[ArrayRef], row: usize) -> Result<Box<dyn SetRows>> {
        Ok(Box::new(Slices(args[0].slice(row, 1))))
    }
}

/// The rest of an array.
pub(super) struct Slices(pub ArrayRef);

impl SetRows for Slices {
    fn next(&mut self, most: usize) -> Result<ArrayRef> {
        let taken = self.0.slice(0, most.min(self.0.len()));
        self.0 = self.0.slice(taken.len(), self.0.len() - taken.len());
        Ok(taken)
    }
}

/// WITH ORDINALITY.
#[derive(Debug)]
pub(super) struct Ordinality;

impl SetFunction for Ordinality {
    fn name(&self) -> &str {
        ORDINALITY
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn field(&self, _: &[FieldRef]) -> Result<FieldRef> {
        Ok(Arc::new(Field::new("ordinality", DataType::Int64, true)))
    }

    fn is_ordinality(&self) -> bool {
        true
    }

    /// It has no rows of its own.
    fn rows(&self, _: &[ArrayRef], _: usize) -> Result<Box<dyn SetRows>> {
        Ok(Box::new(Slices(new_empty_array(&DataType::Int64))))
    }
}
