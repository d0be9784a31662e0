//! Syncs for those who do not wait on a thread of their own: one thread makes the log durable for as long as somebody asks, and
//! calls all back whom a sync was for (group commit).
//!
//! Who was called back often commits again soon. A sync waits for as many as that, no longer than the last one took: all who
//! commit one after the other share each sync then, where two halves of them would take turns at it.

use super::log::{Log, Position};
use crate::error::{Result, StorageError};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

type Then = Box<dyn FnOnce(Result<()>) + Send>;

/// Nobody waits longer for others to come.
const PATIENCE_MAX: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Queue {
    asked: Vec<(Position, Then)>,
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
    /// Calls back when the log is durable up to there, or will never be.
    pub fn ask(&self, log: &Arc<Log>, upto: Position, then: Then) {
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
                    return then(Err(StorageError::internal(format!("no thread for syncs: {error}"))));
                }
            }
        }
        drop(thread);
        let mut queue = self.shared.queue.lock();
        queue.asked.push((upto, then));
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
            let asked = self.next(before, took);
            let Some(upto) = asked.iter().map(|(upto, _)| *upto).max() else {
                return;
            };
            let began = Instant::now();
            let synced = log.sync(upto);
            (before, took) = (asked.len(), began.elapsed());
            for (_, then) in asked {
                then(synced.clone());
            }
        }
    }

    /// Those whom the next sync is for; none where there is no more.
    fn next(&self, before: usize, took: Duration) -> Vec<(Position, Then)> {
        let mut queue = self.queue.lock();
        let all = queue.asked.len() + before;
        queue.wanted = 1;
        while queue.asked.is_empty() && !queue.closed {
            self.changed.wait(&mut queue);
        }
        queue.wanted = all;
        let until = Instant::now() + took.min(PATIENCE_MAX);
        while queue.asked.len() < all && !queue.closed {
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
