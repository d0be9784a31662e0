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
mod group;
mod limits;
mod pages;
mod reserved;
mod rest;
mod watch;
mod within;

pub use account::{Account, Attempt};
pub use allocator::{Counting, Entered, apart, current};
pub use gate::Gate;
pub use group::Group;
pub use limits::Limits;
pub use reserved::Reserved;
pub use rest::{purge_by, rest};
pub use watch::{held_bytes, limit, limit_bytes};
pub use within::{Within, carry, each, within};

/// Whether the statement that this thread works for may take so many bytes more. They are its own until the thread has taken
/// them, asks anew, or turns to other work.
pub fn ask(bytes: usize) -> bool {
    allocator::unask();
    let fits = allocator::with_current(|own| !own.is_over() && own.has_room(bytes) && own.group_has_room(bytes))
        .unwrap_or(true);
    fits && watch::reserve(bytes) && {
        allocator::asked(bytes);
        true
    }
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

/// For trials that set what all of the process goes by.
#[cfg(test)]
static ALONE: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_util::sync::CancellationToken;

    #[test]
    fn what_one_has_asked_for_another_does_not_get() {
        let _alone = ALONE.lock();
        // So much that no other test comes near.
        const PART: usize = 3 << 38;
        limit(1 << 40);
        let [one, other] = [(); 2].map(|()| Account::new(CancellationToken::new()));
        let ask_of_other = || {
            let ask = || {
                let _entered = other.enter();
                ask(PART)
            };
            std::thread::scope(|threads| threads.spawn(ask).join().unwrap())
        };
        let entered = one.enter();
        assert!(ask(PART));
        assert!(!ask_of_other());
        assert!(ask(PART));
        drop(entered);
        // Both have gone on to other work.
        assert!(ask_of_other() && ask_of_other());
    }
}
