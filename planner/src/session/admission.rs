//! Which queries run at a time, and on which threads.
//!
//! A query takes one of the turns for long queries where one is free and nobody has had one for long. Else it begins on one of
//! the turns for short ones, on threads of their own, so that it need not wait for those that run for minutes. Where it is not
//! through after a moment it goes on among the long ones: on a turn of theirs, or for a while on one of the turns between,
//! after which it waits for a long turn after all, with all its tasks held back. While it waits for its client it has no turn.
//!
//! ```text
//!   wanted ---> short -- its moment is over --> between -- its while is over --> waits ---> long
//!      \----------------- one is free ------------------------------------------------/      |
//!         ^                                                                                  |
//!         +--------------------------- the client reads again ---- away <--------------------+
//! ```
//!
//! Where a role may run only so many at a time (`role_turns.rs`), a query waits for its role first, and without any other turn.
//!
//! Hundreds of queries that begin together wait for each other's moments. A session whose last query was short does not wait
//! behind them: it has short turns of its own kind, as long as it keeps to them ([`Standing`]).

use crate::pg::tasks;
use crate::session::role_turns::InLine;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tenon_storage::heap::Account;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until};

/// What a short query takes at most.
const MOMENT: Duration = Duration::from_millis(50);

/// Beside a query that runs for so long others begin on threads that it has not taken.
const LONG_AFTER: Duration = Duration::from_millis(10);

/// For so long a query may run between the short ones and the long ones.
const WHILE: Duration = Duration::from_secs(2);

/// A session's queries may take so long, on a loaded machine too, and it still counts as one of short queries.
const STANDING_MAX: Duration = Duration::from_millis(200);

/// The turns of a server.
pub(crate) struct Admission {
    long: Semaphore,
    between: Semaphore,
    short: Semaphore,
    /// Short ones, for sessions of which it is known that their queries are.
    known: Semaphore,
    /// Since when long turns are taken, in this order.
    running: Mutex<(u64, BTreeMap<u64, Instant>)>,
    /// Told of how long queries waited for their turns.
    observer: OnceLock<Observer>,
}

type Observer = Box<dyn Fn(Duration) + Send + Sync>;

/// Whether a session's last query was short. Of one that has run none that is not known.
#[derive(Clone, Default)]
pub(crate) struct Standing(Arc<AtomicBool>);

impl Admission {
    pub fn new(queries: usize, threads: usize) -> Self {
        Self {
            long: Semaphore::new(queries.max(1)),
            between: Semaphore::new(threads.max(2)),
            short: Semaphore::new((2 * threads).max(4)),
            known: Semaphore::new((2 * threads).max(4)),
            running: Mutex::default(),
            observer: OnceLock::new(),
        }
    }

    /// The first observer is told of each wait for a turn.
    pub fn observe(&self, observer: impl Fn(Duration) + Send + Sync + 'static) {
        let _ = self.observer.set(Box::new(observer));
    }

    fn waited(&self, time: Duration) {
        if let Some(observer) = self.observer.get() {
            observer(time);
        }
    }

    /// How many queries have a long turn.
    pub fn long_turns(&self) -> usize {
        self.running.lock().1.len()
    }

    /// Whether a query has had a long turn for some time.
    pub fn has_long(&self) -> bool {
        let running = self.running.lock();
        running
            .1
            .first_key_value()
            .is_some_and(|(_, since)| since.elapsed() > LONG_AFTER)
    }

    /// A place in which a query of the account's statement runs. It has no turn yet.
    pub fn place(&self, account: &Arc<Account>, standing: &Standing) -> AdmissionTicket<'_> {
        account.gate.begin();
        account.gate.pause();
        AdmissionTicket {
            admission: self,
            account: account.clone(),
            standing: standing.clone(),
            turn: Turn::None,
            turned: Instant::now(),
            worked: Duration::ZERO,
            role: InLine::default(),
        }
    }

    fn long<'a>(&'a self, permit: SemaphorePermit<'a>) -> Turn<'a> {
        let mut running = self.running.lock();
        running.0 += 1;
        let number = running.0;
        running.1.insert(number, Instant::now());
        let _turn = Long {
            admission: self,
            number,
            _permit: permit,
        };
        Turn::Long { _turn }
    }
}

/// A long turn.
struct Long<'a> {
    admission: &'a Admission,
    number: u64,
    _permit: SemaphorePermit<'a>,
}

impl Drop for Long<'_> {
    fn drop(&mut self) {
        self.admission.running.lock().1.remove(&self.number);
    }
}

enum Turn<'a> {
    None,
    /// Until then.
    Short {
        _permit: SemaphorePermit<'a>,
        end: Instant,
    },
    Between {
        _permit: SemaphorePermit<'a>,
        end: Instant,
    },
    Long {
        _turn: Long<'a>,
    },
    /// Of a query that is nothing but a row of constants.
    Free,
}

/// A query that runs, or waits to.
pub(crate) struct AdmissionTicket<'a> {
    admission: &'a Admission,
    account: Arc<Account>,
    standing: Standing,
    turn: Turn<'a>,
    /// Since when it has the turn, or none; and how long it has had turns before.
    turned: Instant,
    worked: Duration,
    /// It has a turn of its role's before any other.
    pub role: InLine,
}

impl<'a> AdmissionTicket<'a> {
    /// Goes on without a turn but its role's.
    pub async fn go_free(&mut self) {
        self.role.take().await;
        self.set(Turn::Free);
    }

    /// Waits for a turn.
    pub async fn take(&mut self) {
        if !matches!(self.turn, Turn::None) {
            return;
        }
        self.role.take().await;
        let admission = self.admission;
        let known = self.standing.0.load(Ordering::Relaxed);
        let short = |_permit| Turn::Short {
            _permit,
            end: Instant::now() + MOMENT,
        };
        let at_once = match tasks::is_short() {
            true => None,
            false => admission.long.try_acquire().ok(),
        };
        let turn = match at_once {
            Some(permit) => {
                admission.waited(Duration::ZERO);
                admission.long(permit)
            }
            None => {
                let begun = Instant::now();
                let turn = tokio::select! {
                    biased;
                    Ok(permit) = admission.known.acquire(), if known => short(permit),
                    Ok(permit) = admission.short.acquire() => short(permit),
                    Ok(permit) = admission.long.acquire() => admission.long(permit),
                    // The semaphores are never closed.
                    else => Turn::None,
                };
                admission.waited(begun.elapsed());
                turn
            }
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

    /// Whether it has a short turn that its session does not speak for.
    pub fn is_doubtful(&self) -> bool {
        matches!(self.turn, Turn::Short { .. }) && !self.standing.0.load(Ordering::Relaxed)
    }

    /// Gives the turn back: the query waits for its client.
    pub fn leave(&mut self) {
        self.set(Turn::None);
        self.role.leave();
    }

    /// Goes on with some work while there is a turn to do so.
    pub async fn run<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.take().await;
        let mut work = pin!(work);
        while let Turn::Short { end, .. } | Turn::Between { end, .. } = self.turn {
            if Instant::now() < end {
                tokio::select! {
                    biased;
                    done = &mut work => return done,
                    () = sleep_until(end) => {}
                }
            }
            self.give_way().await;
        }
        work.await
    }

    /// Its turn is over: goes on among longer queries.
    pub async fn give_way(&mut self) {
        let between = matches!(self.turn, Turn::Short { .. });
        self.set(Turn::None);
        self.account.set_long();
        // Its task moves where it is polled anew.
        tokio::task::yield_now().await;
        let admission = self.admission;
        let begun = Instant::now();
        let turn = tokio::select! {
            biased;
            Ok(permit) = admission.long.acquire() => admission.long(permit),
            Ok(_permit) = admission.between.acquire(), if between => Turn::Between {
                _permit,
                end: Instant::now() + WHILE,
            },
            else => Turn::None,
        };
        admission.waited(begun.elapsed());
        self.set(turn);
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

impl Drop for AdmissionTicket<'_> {
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
        // What takes longer than its moment goes on between, as long as there is a turn, and is known to be long.
        assert!(!account.is_long());
        let mut second = admission.place(&account, &Standing::default());
        let work = tokio::time::sleep(2 * MOMENT);
        assert!(timeout(patience, second.run(work)).await.is_ok());
        assert!(account.is_long() && admission.between.available_permits() == 1);
        drop(second);
        let _between = admission.between.acquire_many(2).await;
        // Else it waits for the long one, even when it could go on, and does not keep others from their moment.
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

    #[tokio::test]
    async fn long_turns_are_noticed() {
        let admission = Admission::new(2, 1);
        let account = Account::new(CancellationToken::new());
        let [mut first, mut second] = [(); 2].map(|()| admission.place(&account, &Standing::default()));
        first.take().await;
        second.take().await;
        assert!(!admission.has_long());
        tokio::time::sleep(2 * MOMENT).await;
        assert!(admission.has_long());
        first.leave();
        assert!(admission.has_long());
        drop(second);
        assert!(!admission.has_long());
    }
}
