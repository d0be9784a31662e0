//! Which queries run at a time.
//!
//! A query takes one of the turns for long queries where one is free. Else it begins on one of the turns for short ones,
//! so that it need not wait for those that run for minutes; where it is not through after a moment it waits for a long
//! turn after all, with all its tasks held back. While it waits for its client it has no turn.
//!
//! ```text
//!   wanted ---> short ---- its moment is over ---> waits ---> long
//!      \----------------- one is free -----------------------/ |
//!         ^                                                    |
//!         +------------- the client reads again ---- away <----+
//! ```
//!
//! Hundreds of queries that begin together wait for each other's moments. A session whose last query was short does not wait
//! behind them: it has short turns of its own kind, as long as it keeps to them ([`Standing`]).

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenon_storage::heap::Account;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until};

/// What a short query takes at most.
const MOMENT: Duration = Duration::from_millis(50);

/// A session's queries may take so long, on a loaded machine too, and it still counts as one of short queries.
const STANDING_MAX: Duration = Duration::from_millis(200);

/// The turns of a server.
pub(crate) struct Admission {
    long: Semaphore,
    short: Semaphore,
    /// Short ones, for sessions of which it is known that their queries are.
    known: Semaphore,
}

/// Whether a session's last query was short. Of one that has run none that is not known.
#[derive(Clone, Default)]
pub(crate) struct Standing(Arc<AtomicBool>);

impl Admission {
    pub fn new(queries: usize, threads: usize) -> Self {
        Self {
            long: Semaphore::new(queries.max(1)),
            short: Semaphore::new((2 * threads).max(4)),
            known: Semaphore::new((2 * threads).max(4)),
        }
    }

    /// A place in which a query of the account's statement runs. It has no turn yet.
    pub fn place(&self, account: &Arc<Account>, standing: &Standing) -> Place<'_> {
        account.gate.begin();
        account.gate.pause();
        Place {
            admission: self,
            account: account.clone(),
            standing: standing.clone(),
            turn: Turn::None,
            turned: Instant::now(),
            worked: Duration::ZERO,
        }
    }
}

enum Turn<'a> {
    None,
    /// Until then.
    Short {
        _permit: SemaphorePermit<'a>,
        end: Instant,
    },
    Long {
        _permit: SemaphorePermit<'a>,
    },
    /// Of a query that is nothing but a row of constants.
    Free,
}

/// A query that runs, or waits to.
pub(crate) struct Place<'a> {
    admission: &'a Admission,
    account: Arc<Account>,
    standing: Standing,
    turn: Turn<'a>,
    /// Since when it has the turn, or none; and how long it has had turns before.
    turned: Instant,
    worked: Duration,
}

impl<'a> Place<'a> {
    /// Goes on without a turn.
    pub fn go_free(&mut self) {
        self.set(Turn::Free);
    }

    /// Waits for a turn.
    pub async fn take(&mut self) {
        if !matches!(self.turn, Turn::None) {
            return;
        }
        let known = self.standing.0.load(Ordering::Relaxed);
        let short = |_permit| Turn::Short {
            _permit,
            end: Instant::now() + MOMENT,
        };
        let turn = match self.admission.long.try_acquire() {
            Ok(_permit) => Turn::Long { _permit },
            Err(_) => tokio::select! {
                biased;
                Ok(permit) = self.admission.known.acquire(), if known => short(permit),
                Ok(permit) = self.admission.short.acquire() => short(permit),
                Ok(_permit) = self.admission.long.acquire() => Turn::Long { _permit },
                // The semaphores are never closed.
                else => Turn::None,
            },
        };
        self.set(turn);
    }

    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Its moment begins now.
    pub fn restart(&mut self) {
        if let Turn::Short { end, .. } = &mut self.turn {
            *end = Instant::now() + MOMENT;
        }
    }

    /// Gives the turn back: the query waits for its client.
    pub fn leave(&mut self) {
        self.set(Turn::None);
    }

    /// Goes on with some work while there is a turn to do so.
    pub async fn run<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.take().await;
        let Turn::Short { end, .. } = self.turn else {
            return work.await;
        };
        let mut work = pin!(work);
        if Instant::now() < end {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = sleep_until(end) => {}
            }
        }
        self.leave();
        if let Ok(_permit) = self.admission.long.acquire().await {
            self.set(Turn::Long { _permit });
        }
        work.await
    }

    fn set(&mut self, turn: Turn<'a>) {
        let before = matches!(self.turn, Turn::None);
        let after = matches!(turn, Turn::None);
        if !before {
            self.worked += self.turned.elapsed();
        }
        self.turn = turn;
        self.turned = Instant::now();
        match (before, after) {
            (true, false) => self.account.gate.resume(),
            (false, true) => self.account.gate.pause(),
            _ => {}
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !matches!(self.turn, Turn::None) {
            self.worked += self.turned.elapsed();
        }
        self.standing.0.store(self.worked <= STANDING_MAX, Ordering::Relaxed);
        if matches!(self.turn, Turn::None) {
            self.account.gate.resume();
        }
        self.account.gate.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::Notify;
    use tokio::time::timeout;
    use tokio_util::sync::CancellationToken;

    #[tokio::test]
    async fn short_queries_pass_long_ones() {
        let patience = 6 * MOMENT;
        let admission = Admission::new(1, 1);
        let account = Account::new(CancellationToken::new());
        let mut long = admission.place(&account, &Standing::default());
        long.take().await;
        for _ in 0..10 {
            let mut short = admission.place(&account, &Standing::default());
            assert_eq!(short.run(async { 5 }).await, 5);
        }
        // What takes longer than its moment waits for the long one, even when it could go on, and does not keep others
        // from their moment.
        let mut second = admission.place(&account, &Standing::default());
        {
            let ready = Notify::new();
            let mut work = pin!(second.run(ready.notified()));
            assert!(timeout(patience, &mut work).await.is_err());
            assert_eq!(admission.short.available_permits(), 4);
            ready.notify_one();
            assert!(timeout(patience, &mut work).await.is_err());
            long.leave();
            work.await;
        }
        // One that waited for its client goes on when it has a turn again.
        let ready = Notify::new();
        let mut work = pin!(long.run(ready.notified()));
        assert!(timeout(patience, &mut work).await.is_err());
        ready.notify_one();
        assert!(timeout(patience, &mut work).await.is_err());
        drop(second);
        work.await;
    }

    #[tokio::test]
    async fn known_sessions_pass_a_burst() {
        let admission = Admission::new(1, 1);
        let account = Account::new(CancellationToken::new());
        let known = Standing::default();
        let mut long = admission.place(&account, &Standing::default());
        long.take().await;
        drop(admission.place(&account, &known));
        // All short turns are taken.
        let mut burst: Vec<_> = (0..4)
            .map(|_| admission.place(&account, &Standing::default()))
            .collect();
        for place in &mut burst {
            place.take().await;
        }
        let mut unknown = admission.place(&account, &Standing::default());
        assert!(timeout(MOMENT, unknown.take()).await.is_err());
        let mut short = admission.place(&account, &known);
        assert!(timeout(MOMENT, short.take()).await.is_ok());
        // One that was not short is not known for it.
        tokio::time::sleep(STANDING_MAX).await;
        drop(short);
        let mut again = admission.place(&account, &known);
        assert!(timeout(MOMENT, again.take()).await.is_err());
    }
}
