//! `numeric` of any precision in plans: columns of type `NUMERIC` (see `tenon_storage::numeric::key`).
//!
//! Declared `numeric(p, s)` up to 38 digits, and exact arithmetic over it that fits, are Arrow decimals with one scale a
//! column. All else is of this type: columns declared `numeric`, quotients, averages, roots, NaN, and values of different
//! scales in one column. Its bytes carry the display scale, so that equality is decided by their keys:
//!
//! - `class`: which of the two a type is;
//! - `convert`: numbers to numerics and back;
//! - `declared`: which decimals a table that is made of a query keeps;
//! - `operators`: arithmetic, and which operations on decimals become it;
//! - `compare`: comparisons, by keys or, against constants, by bounds that indexes and zone maps know;
//! - `unify`: branches, lists and unions get one type;
//! - `floats`: arguments of functions of floats;
//! - `equal`: grouping, DISTINCT, sorting, windows and joins go by keys.

mod class;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod declared;
pub(crate) mod equal;
pub(crate) mod floats;
pub(crate) mod operators;
mod sums;
pub(crate) mod unify;

pub(crate) use class::{Class, digits};

use crate::pg::error::{SqlError, SqlState, state};
use crate::pg::errors::to_datafusion;
use datafusion::error::DataFusionError;
use tenon_storage::numeric::NumericError;

/// What a client is told of an operation without a result.
pub(crate) fn failed(error: NumericError) -> DataFusionError {
    const LOGARITHM: SqlState = SqlState("2201E");
    const POWER: SqlState = SqlState("2201F");
    let (code, message) = match error {
        NumericError::Overflow => (state::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format"),
        NumericError::DivisionByZero => (state::DIVISION_BY_ZERO, "division by zero"),
        NumericError::NegativeRoot => (POWER, "cannot take square root of a negative number"),
        NumericError::LogarithmOfZero => (LOGARITHM, "cannot take logarithm of zero"),
        NumericError::LogarithmOfNegative => (LOGARITHM, "cannot take logarithm of a negative number"),
        NumericError::ZeroToNegative => (POWER, "zero raised to a negative power is undefined"),
        NumericError::NegativeToFraction => (
            POWER,
            "a negative number raised to a non-integer power yields a complex result",
        ),
        NumericError::NotANumber => (state::FEATURE_NOT_SUPPORTED, "cannot convert NaN to integer"),
        NumericError::Infinite => (state::FEATURE_NOT_SUPPORTED, "cannot convert infinity to integer"),
    };
    to_datafusion(SqlError::new(code, message))
}
