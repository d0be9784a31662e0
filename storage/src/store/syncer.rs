//! Syncs for those who do not wait on a thread of their own: one thread makes the log durable for as long as somebody asks, and
//! calls all back whom a sync was for (group commit).

use super::log::{Log, Position};
use crate::error::{Result, StorageError};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

type Then = Box<dyn FnOnce(Result<()>) + Send>;

#[derive(Default)]
struct Queue {
    asked: Vec<(Position, Then)>,
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
        self.shared.queue.lock().asked.push((upto, then));
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn run(&self, log: &Log) {
        loop {
            let asked = {
                let mut queue = self.queue.lock();
                while queue.asked.is_empty() && !queue.closed {
                    self.changed.wait(&mut queue);
                }
                std::mem::take(&mut queue.asked)
            };
            let Some(upto) = asked.iter().map(|(upto, _)| *upto).max() else {
                return;
            };
            let synced = log.sync(upto);
            for (_, then) in asked {
                then(synced.clone());
            }
        }
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
