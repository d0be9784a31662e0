//! Where sequences stand, and the counters by which ALTER SEQUENCE replaces others.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Where a sequence stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    pub last_value: i64,
    pub log_count: i64,
    /// False: `last_value` is the next to be given.
    pub is_called: bool,
    /// A store knows values up to this one as given; None: it knows of those that the sequence was written with.
    pub(crate) covered: Option<i64>,
    /// Which of the sequence's counters it is: 0 until the process changes the sequence.
    pub(crate) generation: u64,
}

/// A counter, and the one by which ALTER SEQUENCE has replaced it: for its own transaction at once, for others with its commit.
#[derive(Debug)]
pub(in crate::catalog) struct Standing {
    pub(super) counter: Counter,
    pub(super) heir: Option<Heir>,
}

/// A counter that goes on in another's place.
#[derive(Debug)]
pub(super) struct Heir {
    pub(super) standing: Arc<Mutex<Standing>>,
    pub(super) end: Arc<AtomicU8>,
    /// RESTART: what others take until the commit is none of its values.
    pub(super) apart: bool,
}

pub(super) const OPEN: u8 = 0;
const KEPT: u8 = 1;
const GONE: u8 = 2;

/// Held by the transaction that has replaced a counter: without its commit the counter goes on as it was.
#[derive(Debug)]
pub(in crate::catalog) struct Succession(pub(super) Arc<AtomicU8>);

impl Succession {
    pub(in crate::catalog) fn keep(&self) {
        self.0.store(KEPT, Ordering::Release);
    }
}

impl Drop for Succession {
    fn drop(&mut self) {
        let _ = self.0.compare_exchange(OPEN, GONE, Ordering::AcqRel, Ordering::Acquire);
    }
}

impl Standing {
    pub(super) fn shared(counter: Counter) -> Arc<Mutex<Standing>> {
        Arc::new(Mutex::new(Standing { counter, heir: None }))
    }

    /// The counter that is in the place of this one, and whether for good.
    pub(super) fn heir(&mut self) -> Option<(Arc<Mutex<Standing>>, bool)> {
        let heir = self.heir.as_ref()?;
        match heir.end.load(Ordering::Acquire) {
            KEPT => Some((heir.standing.clone(), true)),
            OPEN => (!heir.apart).then(|| (heir.standing.clone(), false)),
            _ => {
                self.heir = None;
                None
            }
        }
    }
}
