//! Advisory locks: numbers that sessions lock, whatever these mean to them.
//!
//! Who waits does so in turn. A session that holds locks already passes those that only wait, since they may wait for it;
//! so only holders can close a circle of waits, which ends the statement that finds it. Row locks are not looked at.

use crate::pg::error::{Result, SqlError, canceled, state};
use crate::pg::functions::session::now_us;
use crate::pg::tasks::elsewhere;
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tenon_storage::LockMode;

/// How often a wait looks whether its statement is stopped.
const LOOK: Duration = Duration::from_millis(20);

/// Locks of all sessions at most: about 50 MB.
const LOCKS_MAX: usize = 1 << 18;

/// What is locked: one number, or two, which is another thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    One(i64),
    Two(i32, i32),
}

/// How long a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Span {
    Session,
    Transaction,
}

/// A lock, or a session's wait for one, as `pg_locks` shows it.
pub(crate) struct Shown {
    pub key: Key,
    pub mode: LockMode,
    pub process_id: i32,
    /// Since when it waits, microseconds since 1970, UTC; None: it is held.
    pub waits_since_us: Option<i64>,
}

/// All of a server.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    held: Mutex<Held>,
    /// Told when a wait may be over.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Held {
    locks: BTreeMap<Key, Vec<Hold>>,
    /// How many holds there are.
    number: usize,
    /// In the order in which they began.
    waits: BTreeMap<u64, Wait>,
    last_wait: u64,
    owners: HashMap<u64, Owned>,
}

/// A session that has a lock in one mode.
#[derive(Debug)]
struct Hold {
    owner: u64,
    mode: LockMode,
    /// How often it was taken for the session.
    count: u64,
    of_transaction: bool,
}

#[derive(Debug)]
struct Wait {
    wish: Wish,
    since_us: i64,
}

#[derive(Clone, Copy, Debug)]
struct Wish {
    owner: u64,
    key: Key,
    mode: LockMode,
}

/// What a session has.
#[derive(Debug)]
struct Owned {
    process_id: i32,
    keys: BTreeSet<Key>,
    /// Those of its transaction, in their order.
    of_transaction: Vec<(Key, LockMode)>,
}

/// A session, which holds locks until it is closed.
#[derive(Debug)]
pub(crate) struct Owner {
    number: u64,
    locks: Arc<Locks>,
}

fn conflict(a: LockMode, b: LockMode) -> bool {
    (a, b) != (LockMode::Shared, LockMode::Shared)
}

impl Held {
    fn has(&self, wish: &Wish) -> bool {
        let holds = self.locks.get(&wish.key);
        holds.is_some_and(|holds| holds.iter().any(|own| (own.owner, own.mode) == (wish.owner, wish.mode)))
    }

    /// The sessions because of which a wish must wait. `before`: the waits that it does not pass.
    fn blockers(&self, wish: &Wish, before: u64) -> Vec<u64> {
        if self.has(wish) {
            return Vec::new();
        }
        let holds = self.locks.get(&wish.key).into_iter().flatten();
        let holds = holds.map(|hold| (hold.owner, hold.mode));
        let waits = self.waits.range(..before).map(|(_, wait)| &wait.wish);
        let waits = waits.filter(|ahead| ahead.key == wish.key);
        let all = holds.chain(waits.map(|ahead| (ahead.owner, ahead.mode)));
        all.filter(|(owner, mode)| *owner != wish.owner && conflict(*mode, wish.mode))
            .map(|(owner, _)| owner)
            .collect()
    }

    /// The waits that one does not pass which has begun as the given one.
    fn turn(&self, owner: u64, began: u64) -> u64 {
        match self.owners.get(&owner) {
            Some(owned) if !owned.keys.is_empty() => 0,
            _ => began,
        }
    }

    /// Whether a session waits for itself.
    fn is_circle(&self, owner: u64) -> bool {
        let (mut seen, mut next) = (BTreeSet::new(), vec![owner]);
        while let Some(waiting) = next.pop() {
            let of = self.waits.iter().filter(|(_, wait)| wait.wish.owner == waiting);
            for (began, wait) in of {
                for blocker in self.blockers(&wait.wish, self.turn(waiting, *began)) {
                    if blocker == owner {
                        return true;
                    }
                    if seen.insert(blocker) {
                        next.push(blocker);
                    }
                }
            }
        }
        false
    }

    fn take(&mut self, wish: &Wish, span: Span) -> Result<()> {
        // Of a session that has ended: nothing would give it back.
        let owned = self.owners.get_mut(&wish.owner).ok_or_else(canceled)?;
        let holds = self.locks.entry(wish.key).or_default();
        let own = |hold: &Hold| (hold.owner, hold.mode) == (wish.owner, wish.mode);
        let at = match holds.iter().position(own) {
            Some(at) => at,
            None if self.number >= LOCKS_MAX => {
                if holds.is_empty() {
                    self.locks.remove(&wish.key);
                }
                let message = "out of shared memory";
                let hint = format!("There are at most {LOCKS_MAX} advisory locks.");
                return Err(SqlError::new(state::OUT_OF_MEMORY, message).hint(hint));
            }
            None => {
                self.number += 1;
                holds.push(Hold {
                    owner: wish.owner,
                    mode: wish.mode,
                    count: 0,
                    of_transaction: false,
                });
                holds.len() - 1
            }
        };
        let hold = &mut holds[at];
        owned.keys.insert(wish.key);
        match span {
            Span::Session => hold.count += 1,
            Span::Transaction if hold.of_transaction => {}
            Span::Transaction => {
                hold.of_transaction = true;
                owned.of_transaction.push((wish.key, wish.mode));
            }
        }
        Ok(())
    }

    /// Changes the holds that a session has of a key; those go that nothing keeps.
    fn release(&mut self, owner: u64, key: Key, change: impl Fn(&mut Hold)) {
        let Some(holds) = self.locks.get_mut(&key) else { return };
        let before = holds.len();
        holds.iter_mut().filter(|hold| hold.owner == owner).for_each(change);
        holds.retain(|hold| hold.count > 0 || hold.of_transaction);
        self.number -= before - holds.len();
        if !holds.iter().any(|hold| hold.owner == owner)
            && let Some(owned) = self.owners.get_mut(&owner)
        {
            owned.keys.remove(&key);
        }
        if holds.is_empty() {
            self.locks.remove(&key);
        }
    }
}

impl Locks {
    /// A new session of these numbers.
    pub fn session(self: &Arc<Self>, number: u64, process_id: i32) -> Arc<Owner> {
        let owned = Owned {
            process_id,
            keys: BTreeSet::new(),
            of_transaction: Vec::new(),
        };
        self.held.lock().owners.insert(number, owned);
        Arc::new(Owner {
            number,
            locks: self.clone(),
        })
    }
}

impl Owner {
    fn wish(&self, key: Key, mode: LockMode) -> Wish {
        Wish {
            owner: self.number,
            key,
            mode,
        }
    }

    /// Takes a lock if that needs no wait. `wanted` fails where the statement is to end.
    pub fn try_lock(&self, key: Key, mode: LockMode, span: Span, wanted: impl Fn() -> Result<()>) -> Result<bool> {
        let mut held = self.locks.held.lock();
        wanted()?;
        let wish = self.wish(key, mode);
        if !held.blockers(&wish, u64::MAX).is_empty() {
            return Ok(false);
        }
        held.take(&wish, span).map(|()| true)
    }

    /// Takes a lock, and waits for it as long as `wanted` lets it; 40P01 where that would never end.
    pub fn lock(&self, key: Key, mode: LockMode, span: Span, wanted: impl Fn() -> Result<()>) -> Result<()> {
        let wish = self.wish(key, mode);
        {
            let mut held = self.locks.held.lock();
            wanted()?;
            if held.blockers(&wish, held.turn(self.number, u64::MAX)).is_empty() {
                return held.take(&wish, span);
            }
        }
        elsewhere(|| self.wait(wish, span, wanted))
    }

    fn wait(&self, wish: Wish, span: Span, wanted: impl Fn() -> Result<()>) -> Result<()> {
        let mut held = self.locks.held.lock();
        held.last_wait += 1;
        let began = held.last_wait;
        let since_us = now_us();
        held.waits.insert(began, Wait { wish, since_us });
        let result = loop {
            // A statement that is stopped takes nothing any more: nobody would know.
            if let Err(error) = wanted() {
                break Err(error);
            }
            if held.blockers(&wish, held.turn(wish.owner, began)).is_empty() {
                break held.take(&wish, span);
            }
            if held.is_circle(wish.owner) {
                break Err(SqlError::new(state::DEADLOCK_DETECTED, "deadlock detected"));
            }
            self.locks.changed.wait_for(&mut held, LOOK);
        };
        held.waits.remove(&began);
        // Others may have waited behind this.
        self.locks.changed.notify_all();
        result
    }

    /// Gives one of the session's locks back. False: it has none of that mode.
    pub fn unlock(&self, key: Key, mode: LockMode) -> bool {
        let mut held = self.locks.held.lock();
        let mut holds = held.locks.get(&key).into_iter().flatten();
        if !holds.any(|hold| (hold.owner, hold.mode) == (self.number, mode) && hold.count > 0) {
            return false;
        }
        held.release(self.number, key, |hold| hold.count -= u64::from(hold.mode == mode));
        self.locks.changed.notify_all();
        true
    }

    /// Gives all of the session's locks back, but not its transaction's.
    pub fn unlock_all(&self) {
        let mut held = self.locks.held.lock();
        let keys = held.owners.get(&self.number).map(|owned| owned.keys.clone());
        for key in keys.into_iter().flatten() {
            held.release(self.number, key, |hold| hold.count = 0);
        }
        self.locks.changed.notify_all();
    }

    /// How many the transaction has: what a savepoint goes back to.
    pub fn of_transaction(&self) -> usize {
        let held = self.locks.held.lock();
        held.owners
            .get(&self.number)
            .map_or(0, |owned| owned.of_transaction.len())
    }

    /// Gives those of the transaction back that it took after its first ones.
    pub fn truncate(&self, len: usize) {
        let mut held = self.locks.held.lock();
        let Some(owned) = held.owners.get_mut(&self.number) else {
            return;
        };
        if owned.of_transaction.len() <= len {
            return;
        }
        for (key, mode) in owned.of_transaction.split_off(len) {
            held.release(self.number, key, |hold| hold.of_transaction &= hold.mode != mode);
        }
        self.locks.changed.notify_all();
    }

    /// The session ends, with all its locks.
    pub fn close(&self) {
        let mut held = self.locks.held.lock();
        let owned = held.owners.remove(&self.number);
        for key in owned.into_iter().flat_map(|owned| owned.keys) {
            held.release(self.number, key, |hold| {
                (hold.count, hold.of_transaction) = (0, false);
            });
        }
        self.locks.changed.notify_all();
    }

    /// What all sessions hold and wait for.
    pub fn shown(&self) -> Vec<Shown> {
        let held = self.locks.held.lock();
        let process_id = |owner: u64| held.owners.get(&owner).map_or(0, |owned| owned.process_id);
        let holds = held
            .locks
            .iter()
            .flat_map(|(key, holds)| holds.iter().map(|hold| (*key, hold)));
        let holds = holds.map(|(key, hold)| Shown {
            key,
            mode: hold.mode,
            process_id: process_id(hold.owner),
            waits_since_us: None,
        });
        let waits = held.waits.values().map(|wait| Shown {
            key: wait.wish.key,
            mode: wait.wish.mode,
            process_id: process_id(wait.wish.owner),
            waits_since_us: Some(wait.since_us),
        });
        holds.chain(waits).collect()
    }
}
