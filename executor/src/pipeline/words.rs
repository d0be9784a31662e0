//! Values as words of 64 bits.

use arrow::datatypes::DataType;

use super::flow::Flow;
use crate::codegen::{NARROW_MAX, Range, Translated, Value, c_number};

impl Flow {
    /// A name for a value as a 64-bit word, in which equal values and no others are equal; and what it can be.
    pub fn word(&mut self, value: &Value) -> Translated<(String, Range)> {
        match (&value.data_type, value.range) {
            (DataType::Boolean, _) => Ok((format!("(i64){}", value.value), (0, 1))),
            (_, Some(range)) if i64::try_from(range.0).is_ok() && i64::try_from(range.1).is_ok() => {
                Ok((format!("(i64){}", value.value), range))
            }
            (other, _) => Err(format!("keys of {other}")),
        }
    }

    /// The same of a number that more bits are kept for than it mostly needs: one that 64 do not hold has the CPU do the work.
    pub fn narrow_word(&mut self, value: &Value) -> Translated<(String, Range)> {
        match self.word(value) {
            Err(_) if value.range.is_some() => {
                let (low, high) = (c_number(-NARROW_MAX), c_number(NARROW_MAX));
                let own = &value.value;
                let beyond = format!("{own} < {low} || {own} > {high}");
                self.translator.fail_if(value.null.as_ref(), &beyond);
                Ok((format!("(i64){own}"), (-NARROW_MAX, NARROW_MAX)))
            }
            word => word,
        }
    }
}
