//! Tasks that DataFusion's operators start work for the account of their statement, and stop at its gate.

use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::any::Any;
use tenon_storage::heap;

type Erased = Box<dyn Any + Send>;

struct Inherit;

impl JoinSetTracer for Inherit {
    fn trace_future(&self, future: BoxFuture<'static, Erased>) -> BoxFuture<'static, Erased> {
        heap::within(heap::current(), true, future).boxed()
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
