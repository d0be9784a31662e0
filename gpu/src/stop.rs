//! Ending work early: work on many items looks once a piece whether anyone still waits for it.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{GpuError, Result};

/// Whether whoever asked for the work no longer wants it. Once set, it stays so.
#[derive(Clone, Copy, Debug)]
pub struct Stop<'a>(Option<&'a AtomicBool>);

impl<'a> Stop<'a> {
    /// The work is wanted to its end.
    pub fn never() -> Stop<'static> {
        Stop(None)
    }

    /// The work ends soon after the flag is set.
    pub fn when(flag: &'a AtomicBool) -> Stop<'a> {
        Stop(Some(flag))
    }

    #[inline]
    pub fn is_set(&self) -> bool {
        self.0.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// [`GpuError::Cancelled`] if the work is no longer wanted.
    pub fn check(&self) -> Result<()> {
        match self.is_set() {
            true => Err(GpuError::Cancelled),
            false => Ok(()),
        }
    }
}
