//! Bounds on what expressions make: a value has at most 1 GB, as in PostgreSQL, and what a call is about to make must fit
//! into the memory of queries.
//!
//! Every call of a function is wrapped ([`Bounded`]): long arguments are worked through a few rows at a time, so that the
//! statement can be stopped in between, and functions whose results are longer than their arguments are asked for the
//! length first ([`sizes`]). Constants so long that a batch of copies would not fit make the query's batches short
//! ([`width`]).

mod arguments;
mod call;
pub(crate) mod concat;
mod sizes;
mod width;

pub(crate) use call::{ask, bounded, planning, wrapped};
pub(crate) use width::{batch_rows, longest_constant};

use crate::pg::error::{SqlError, state};
use crate::pg::error::{canceled, out_of_memory};
use crate::pg::errors::to_datafusion;
use datafusion::common::Result;
use tenon_storage::heap::{self, Interrupt};

/// PostgreSQL's bound of a value, bytes.
pub(crate) const VALUE_BYTES_MAX: u64 = 0x3fff_ffff;

/// What a function takes at once for each byte of its result: it fills an array, which may be copied into a value.
const COPIES: u64 = 2;

/// Refuses to go on where the statement is to end.
pub(crate) fn look() -> Result<()> {
    match heap::interrupted() {
        Some(Interrupt::Cancelled) => Err(to_datafusion(canceled())),
        Some(Interrupt::Memory) => Err(to_datafusion(out_of_memory())),
        None => Ok(()),
    }
}

/// The same, also where a result of so many bytes does not fit.
pub(crate) fn check(bytes: u64) -> Result<()> {
    look()?;
    match heap::ask(usize::try_from(bytes.saturating_mul(COPIES)).unwrap_or(usize::MAX)) {
        true => Ok(()),
        false => Err(to_datafusion(out_of_memory())),
    }
}

/// Refuses a value that is too long: 54000.
pub(crate) fn check_value(bytes: u64) -> Result<()> {
    match bytes > VALUE_BYTES_MAX {
        true => Err(to_datafusion(SqlError::new(
            state::PROGRAM_LIMIT_EXCEEDED,
            "requested length too large",
        ))),
        false => Ok(()),
    }
}
