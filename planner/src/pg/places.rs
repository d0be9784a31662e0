//! Places for computations that keep a thread each: with its stack and its heap a thread holds a megabyte and more, and a
//! thousand clients must not make it a thousand of them.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// For so long all places are taken by the same computations before others go on without one: who computes for long must
/// not hold the others up.
const PATIENCE: Duration = Duration::from_millis(20);

/// Handed out in the order of asking.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    /// When one was last given back.
    given_back: Arc<Mutex<Instant>>,
}

/// Given back when dropped.
#[derive(Debug)]
pub(crate) struct ThreadPermit {
    taken: Option<OwnedSemaphorePermit>,
    given_back: Arc<Mutex<Instant>>,
}

impl Places {
    pub fn new(number: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(number)),
            given_back: Arc::new(Mutex::new(Instant::now())),
        }
    }

    fn place(&self, taken: Option<OwnedSemaphorePermit>) -> ThreadPermit {
        ThreadPermit {
            taken,
            given_back: self.given_back.clone(),
        }
    }

    pub async fn take(&self) -> ThreadPermit {
        match self.try_take() {
            Some(place) => place,
            None => self.wait().await,
        }
    }

    /// One that is free now.
    pub fn try_take(&self) -> Option<ThreadPermit> {
        let taken = self.free.clone().try_acquire_owned().ok()?;
        Some(self.place(Some(taken)))
    }

    /// Waits for one while others come to their ends.
    pub async fn wait(&self) -> ThreadPermit {
        let mut free = std::pin::pin!(self.free.clone().acquire_owned());
        loop {
            match timeout(PATIENCE, &mut free).await {
                Ok(taken) => return self.place(taken.ok()),
                Err(_) if self.given_back.lock().elapsed() >= PATIENCE => return self.place(None),
                Err(_) => {}
            }
        }
    }
}

impl Drop for ThreadPermit {
    fn drop(&mut self) {
        if self.taken.is_some() {
            *self.given_back.lock() = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_computes_for_long_does_not_hold_the_others_up() {
        let places = Places::new(1);
        let first = places.try_take().unwrap();
        assert!(places.try_take().is_none());
        // It does not come to its end.
        assert!(places.wait().await.taken.is_none());
        let waits = tokio::spawn({
            let places = places.clone();
            async move { places.take().await }
        });
        tokio::task::yield_now().await;
        drop(first);
        let second = waits.await.unwrap();
        assert!(second.taken.is_some());
        drop(second);
        assert!(places.try_take().is_some());
    }
}
