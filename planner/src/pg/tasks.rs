//! Tasks: those that DataFusion's operators start work for the account of their statement, and stop at its gate; and those of
//! short statements run on threads of their own.
//!
//! A statement that turns out to be long takes its tasks along to the threads of long work, each when it is polled next.

use crate::pg::places::{Places, ThreadPermit};
use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tenon_storage::heap::{self, Account, Within};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, block_in_place};

type Erased = Box<dyn Any + Send>;

struct Inherit;

impl JoinSetTracer for Inherit {
    fn trace_future(&self, future: BoxFuture<'static, Erased>) -> BoxFuture<'static, Erased> {
        task(heap::current(), true, future).boxed()
    }

    fn trace_block(&self, work: Box<dyn FnOnce() -> Erased + Send>) -> Box<dyn FnOnce() -> Erased + Send> {
        Box::new(heap::carry(work))
    }
}

/// From now on in this process.
pub(crate) fn inherit_accounts() {
    // Set already where the process has had another engine.
    let _ = set_join_set_tracer(&Inherit);
}

/// What a thread of short work knows.
pub(crate) struct Short {
    /// Where long work runs.
    pub long: Handle,
    /// How many of the threads there are, and how many of them poll something.
    /// Of the tasks that are polled on its own threads, but for one.
    own: Places,
    /// Of those that are polled beside these.
    additional: Places,
}

thread_local! {
    static SHORT: RefCell<Option<Arc<Short>>> = const { RefCell::new(None) };
}

/// Tasks that are polled beside the threads' own, for each of these.
const ADDITIONAL: usize = 2;

impl Short {
    pub fn new(long: Handle, workers: usize) -> Self {
        Self {
            long,
            own: Places::new(workers - 1),
            additional: Places::new(workers * ADDITIONAL),
        }
    }

    /// Called on each thread of short work.
    pub fn begin(self: &Arc<Self>) {
        SHORT.set(Some(self.clone()));
    }

    /// One of the threads must stay free for others, however long this takes. `turn`: what the task waits for.
    fn poll<T>(
        &self,
        context: &mut Context<'_>,
        turn: &mut Option<BoxFuture<'static, ThreadPermit>>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        if turn.is_none() {
            if let Some(_own) = self.own.try_take() {
                return poll(context);
            }
            if let Some(_additional) = self.additional.try_take() {
                return block_in_place(|| poll(context));
            }
        }
        let waiting = turn.get_or_insert_with(|| {
            let places = self.additional.clone();
            async move { places.wait().await }.boxed()
        });
        let _place = ready!(waiting.poll_unpin(context));
        *turn = None;
        block_in_place(|| poll(context))
    }
}

/// Whether this thread is one for short work.
pub(crate) fn is_short() -> bool {
    SHORT.with_borrow(Option::is_some)
}

/// A future of a statement, working for its account. `gated`: it was started by the statement's plans, and stops where they do.
pub(crate) fn task<F>(account: Option<Arc<Account>>, gated: bool, future: F) -> Task<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Task {
        account: account.clone(),
        place: Whereabouts::Here(Some(heap::within(account, gated, future))),
        turn: None,
    }
}

pub(crate) struct Task<F: Future> {
    account: Option<Arc<Account>>,
    place: Whereabouts<F>,
    turn: Option<BoxFuture<'static, ThreadPermit>>,
}

enum Whereabouts<F: Future> {
    /// On the thread that polls. None only while it moves.
    Here(Option<Within<F>>),
    /// Among the long ones.
    There {
        result: oneshot::Receiver<F::Output>,
        task: JoinHandle<()>,
    },
}

impl<F> Future for Task<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        if let Whereabouts::Here(here) = &mut this.place {
            let Some(short) = SHORT.with_borrow(Clone::clone) else {
                return poll_here(here, context);
            };
            if !this.account.as_ref().is_some_and(|account| account.is_long()) {
                return short.poll(context, &mut this.turn, |context| poll_here(here, context));
            }
            let Some(future) = here.take() else {
                return Poll::Pending;
            };
            // The result goes by a channel: the runtime would drop one that nobody takes on behalf of nobody.
            let (sender, result) = oneshot::channel();
            let work = async move {
                let _ = sender.send(future.await);
            };
            let task = short.long.spawn(heap::within(this.account.clone(), false, work));
            this.place = Whereabouts::There { result, task };
        }
        let Whereabouts::There { result, task } = &mut this.place else {
            return Poll::Pending;
        };
        if let Ok(done) = ready!(result.poll_unpin(context)) {
            return Poll::Ready(done);
        }
        match ready!(task.poll_unpin(context)) {
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The server stops.
            _ => Poll::Pending,
        }
    }
}

fn poll_here<F: Future>(here: &mut Option<Within<F>>, context: &mut Context<'_>) -> Poll<F::Output> {
    match here {
        Some(future) => future.poll_unpin(context),
        None => Poll::Pending,
    }
}

impl<F: Future> Drop for Task<F> {
    fn drop(&mut self) {
        if let Whereabouts::There { task, .. } = &self.place {
            task.abort();
        }
    }
}

/// Work that keeps its thread for long, while what else the thread would do is done by another.
pub(crate) fn elsewhere<T>(work: impl FnOnce() -> T) -> T {
    let handle = tokio::runtime::Handle::try_current();
    match handle.map(|handle| handle.runtime_flavor()) {
        Ok(tokio::runtime::RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;
    use std::time::Duration;
    use tokio::runtime::{Builder, Runtime};
    use tokio_util::sync::CancellationToken;

    fn threads(name: &str, begin: impl Fn() + Send + Sync + 'static) -> Runtime {
        let mut builder = Builder::new_multi_thread();
        builder
            .worker_threads(2)
            .thread_name(name)
            .on_thread_start(begin)
            .enable_all();
        builder.build().unwrap()
    }

    fn name() -> String {
        std::thread::current().name().unwrap_or_default().into()
    }

    #[test]
    fn tasks_move_among_the_long_ones() {
        let long = threads("long", || {});
        let short = Arc::new(Short::new(long.handle().clone(), 2));
        let short = threads("short", move || short.begin());
        let account = Account::new(CancellationToken::new());
        let own = account.clone();
        let work = async move {
            let first = name();
            own.set_long();
            tokio::task::yield_now().await;
            assert!(heap::current().is_some_and(|current| Arc::ptr_eq(&current, &own)));
            (first, name())
        };
        let moved = short.block_on(short.spawn(task(Some(account.clone()), false, work)));
        assert_eq!(moved.unwrap(), ("short".to_owned(), "long".to_owned()));
        // A panic comes back, and who no longer waits ends the work.
        let panics = short.block_on(short.spawn(task(Some(account.clone()), false, async { panic!("as told") })));
        assert!(panics.is_err_and(|error| error.is_panic()));
        let held = Arc::new(());
        let own = held.clone();
        let waits = short.spawn(task(Some(account), false, async move {
            let _own = own;
            std::future::pending::<()>().await;
        }));
        std::thread::sleep(Duration::from_millis(50));
        waits.abort();
        while Arc::strong_count(&held) > 1 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Work that never waits takes all threads but one.
    #[test]
    fn a_thread_stays_free() {
        let long = threads("long", || {});
        let short = Arc::new(Short::new(long.handle().clone(), 2));
        let short = threads("short", move || short.begin());
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        for _ in 0..8 {
            let stop = stop.clone();
            short.spawn(task(None, false, async move {
                while !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }));
        }
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(short.block_on(short.spawn(task(None, false, async { 5 }))).unwrap(), 5);
        stop.store(true, Ordering::Relaxed);
    }
}
