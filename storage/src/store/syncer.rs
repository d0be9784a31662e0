//! Syncs for those who do not wait on a thread of their own: one thread makes the log durable for as long as somebody asks, and
//! calls all back whom a sync was for (group commit).
//!
//! Who was called back often commits again soon. A sync waits for half of all who ask or were just called back, no longer than
//! the last one took: two halves take turns, and while one's transactions are merged, written and synced, the other's next
//! statements run. Would all share each sync, nothing ran meanwhile; would a sync wait for nobody, it were for one or two.

use super::log::{Log, Position};
use crate::error::{Result, StorageError};
use parking_lot::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub type Then = Box<dyn FnOnce(Result<()>) + Send>;

/// What somebody asks for.
pub(super) enum Wish {
    /// To be called back when the log is durable up to there, or will never be.
    Durable(Position, Then),
    /// To be called before the next sync, for which it may have such a wish.
    Next(Box<dyn FnOnce() -> Option<(Position, Then)> + Send>),
}

impl Wish {
    /// A panic is one of the server's faults: who waits for the wish learns that nobody fulfils it, others are served.
    fn asked(self) -> Option<(Position, Then)> {
        match self {
            Wish::Durable(upto, then) => Some((upto, then)),
            Wish::Next(begin) => catch_unwind(AssertUnwindSafe(begin)).unwrap_or_default(),
        }
    }
}

/// Nobody waits longer for others to come.
const PATIENCE_MAX: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Queue {
    asked: Vec<Wish>,
    /// The thread is woken when so many have asked.
    wanted: usize,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// The thread, once somebody has asked.
#[derive(Default)]
pub(super) struct Syncer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Syncer {
    pub fn ask(&self, log: &Arc<Log>, wish: Wish) {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let (shared, log) = (self.shared.clone(), log.clone());
            let started = thread::Builder::new()
                .name("log-sync".into())
                .spawn(move || shared.run(&log));
            match started {
                Ok(started) => *thread = Some(started),
                Err(error) => {
                    drop(thread);
                    let failed = StorageError::internal(format!("no thread for syncs: {error}"));
                    return wish.asked().into_iter().for_each(|(_, then)| then(Err(failed.clone())));
                }
            }
        }
        drop(thread);
        let mut queue = self.shared.queue.lock();
        queue.asked.push(wish);
        if queue.asked.len() >= queue.wanted {
            self.shared.changed.notify_one();
        }
    }
}

impl Shared {
    fn run(&self, log: &Log) {
        // How many the last sync was for, and how long it took.
        let (mut before, mut took) = (0, Duration::ZERO);
        loop {
            let wishes = self.next(before, took);
            if wishes.is_empty() {
                return;
            }
            before = wishes.len();
            let asked: Vec<(Position, Then)> = wishes.into_iter().filter_map(Wish::asked).collect();
            let Some(upto) = asked.iter().map(|(upto, _)| *upto).max() else {
                continue;
            };
            let began = Instant::now();
            let synced = log.sync(upto);
            took = began.elapsed();
            for (_, then) in asked {
                then(synced.clone());
            }
        }
    }

    /// Those whom the next sync is for; none where there is no more.
    fn next(&self, before: usize, took: Duration) -> Vec<Wish> {
        let mut queue = self.queue.lock();
        let enough = (queue.asked.len() + before).div_ceil(2);
        queue.wanted = 1;
        while queue.asked.is_empty() && !queue.closed {
            self.changed.wait(&mut queue);
        }
        queue.wanted = enough;
        let until = Instant::now() + took.min(PATIENCE_MAX);
        while queue.asked.len() < enough && !queue.closed {
            if self.changed.wait_until(&mut queue, until).timed_out() {
                break;
            }
        }
        std::mem::take(&mut queue.asked)
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.changed.notify_one();
        // What is called back may be the last that holds the store.
        if let Some(thread) = self.thread.get_mut().take()
            && thread.thread().id() != thread::current().id()
        {
            let _ = thread.join();
        }
    }
}
