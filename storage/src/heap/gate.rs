//! Holds back the tasks of a statement while none of its plans may run: they wait for a client, or for their turn.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

#[derive(Default)]
pub struct Gate {
    closed: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    plans: usize,
    /// Plans that may not run now.
    paused: usize,
    held: Vec<Waker>,
}

impl Gate {
    /// A plan begins to run.
    pub fn begin(&self) {
        self.change(|inner| inner.plans += 1);
    }

    /// A plan that runs has ended.
    pub fn end(&self) {
        self.change(|inner| inner.plans -= 1);
    }

    /// A plan may not run for now.
    pub fn pause(&self) {
        self.change(|inner| inner.paused += 1);
    }

    pub fn resume(&self) {
        self.change(|inner| inner.paused -= 1);
    }

    /// A statement's plans may need each other: its tasks are held back only where all of them wait.
    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.inner.lock();
        change(&mut inner);
        let closed = inner.paused > 0 && inner.paused >= inner.plans;
        self.closed.store(closed, Ordering::Release);
        if !closed {
            let held = std::mem::take(&mut inner.held);
            drop(inner);
            held.into_iter().for_each(Waker::wake);
        }
    }

    /// Whether a task may go on. One that may not is woken when it may.
    pub(super) fn passes(&self, context: &Context<'_>) -> bool {
        if !self.closed.load(Ordering::Acquire) {
            return true;
        }
        let mut inner = self.inner.lock();
        if !self.closed.load(Ordering::Acquire) {
            return true;
        }
        if !inner.held.iter().any(|held| held.will_wake(context.waker())) {
            inner.held.push(context.waker().clone());
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_wait_where_all_plans_do() {
        struct Quiet;
        impl std::task::Wake for Quiet {
            fn wake(self: std::sync::Arc<Self>) {}
        }
        let waker = Waker::from(std::sync::Arc::new(Quiet));
        let (gate, mut context) = (Gate::default(), Context::from_waker(&waker));
        let passes = |context: &mut Context<'_>| gate.passes(context);
        assert!(passes(&mut context));
        gate.begin();
        gate.begin();
        gate.pause();
        assert!(passes(&mut context));
        gate.pause();
        assert!(!passes(&mut context) && !passes(&mut context));
        assert_eq!(gate.inner.lock().held.len(), 1);
        gate.resume();
        assert!(passes(&mut context));
        gate.end();
        assert!(!passes(&mut context));
        gate.resume();
        gate.end();
        assert!(passes(&mut context) && gate.inner.lock().held.is_empty());
    }
}
