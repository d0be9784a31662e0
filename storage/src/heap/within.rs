//! Futures and closures that work for an account wherever they run.

use super::{Account, current};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A future that works for an account, dropped under it too.
pub struct Within<F> {
    account: Option<Arc<Account>>,
    future: Option<Pin<Box<F>>>,
    /// Whether the account's gate holds it back.
    gated: bool,
}

/// The future, working for the account. `gated`: it was started by the statement's plans, and stops where they do.
pub fn within<F: Future>(account: Option<Arc<Account>>, gated: bool, future: F) -> Within<F> {
    Within {
        account,
        future: Some(Box::pin(future)),
        gated,
    }
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let Some(future) = &mut this.future else {
            return Poll::Pending;
        };
        let Some(account) = &this.account else {
            return future.as_mut().poll(context);
        };
        if this.gated && !account.gate.passes(context) {
            return Poll::Pending;
        }
        let _entered = account.enter();
        future.as_mut().poll(context)
    }
}

impl<F> Drop for Within<F> {
    fn drop(&mut self) {
        let _entered = self.account.as_ref().map(Account::enter);
        self.future = None;
    }
}

/// The work, for the account of whoever calls this, on whatever thread it runs.
pub fn carry<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let account = current();
    move || {
        let _entered = account.as_ref().map(Account::enter);
        work()
    }
}

/// The work on each item, for the account of whoever calls this, on whatever threads it runs.
pub fn each<X, T>(work: impl Fn(X) -> T + Sync) -> impl Fn(X) -> T + Sync {
    let account = current();
    move |item| {
        let _entered = account.as_ref().map(Account::enter);
        work(item)
    }
}
