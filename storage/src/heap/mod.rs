//! How much of the heap running statements hold, whatever code took it.
//!
//! The process's allocator ([`Counting`]) books what a thread takes and gives back to the [`Account`] under which it
//! works. A statement's tasks enter its account for each poll ([`within`]), and the tasks that they start inherit it.
//! Where all accounts together pass the limit, a watching thread stops the statements that hold the most. What tables hold
//! is counted by `MemoryBudget`: it is taken [`apart`].
//!
//! Code that is about to make something large asks first ([`ask`]), and long loops look up from their work
//! ([`interrupted`]): a statement can be stopped only where it looks.

mod account;
mod allocator;
mod gate;
mod pages;
mod watch;
mod within;

pub use account::{Account, Attempt};
pub use allocator::{Counting, Entered, apart, current};
pub use gate::Gate;
pub use watch::{limit, limit_bytes};
pub use within::{Within, carry, each, within};

/// Whether the statement that this thread works for may take so many bytes more.
pub fn ask(bytes: usize) -> bool {
    let stopped = allocator::with_current(Account::is_over).unwrap_or(false);
    !stopped && watch::fits(bytes)
}

/// Why the statement that this thread works for is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// It holds too much memory.
    Memory,
    /// It was cancelled, or nobody waits for it any more.
    Cancelled,
}

/// Whether the statement that this thread works for is to end.
pub fn interrupted() -> Option<Interrupt> {
    allocator::with_current(Account::interrupt).flatten()
}

/// For work in many small steps, which looks up from time to time.
#[derive(Debug, Default)]
pub struct Steps(u32);

impl Steps {
    /// Between two looks.
    const MANY: u32 = 1 << 14;

    /// The next step. Says whether the statement is to end.
    pub fn step(&mut self) -> Option<Interrupt> {
        self.0 += 1;
        match self.0.is_multiple_of(Self::MANY) {
            true => interrupted(),
            false => None,
        }
    }
}
