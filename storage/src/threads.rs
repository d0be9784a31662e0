//! What threads are for: work that may take minutes, and work that others must not wait for.
//!
//! Threads of long work have a lower priority, so that the kernel lets short work through however much of the other there is.
//! Short work also stays off the pool of threads that rayon's callers share: its jobs are taken in the order in which they
//! came.

use rayon::ThreadPoolBuilder;
use std::sync::Once;

/// Three threads of long work weigh as much as one of short work.
const NICE_OF_LONG_WORK: libc::c_int = 5;

/// The threads that rayon's callers share do long work, from now on in this process.
pub fn share() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let pool = ThreadPoolBuilder::new().start_handler(|_| begin_long_work());
        if let Err(error) = pool.build_global() {
            tracing::debug!("threads have their priority already: {error}");
        }
    });
}

/// This thread does long work.
pub fn begin_long_work() {
    // SAFETY: no memory is involved. On Linux a process's priority is that of a thread, and 0 is the one that calls.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE_OF_LONG_WORK) } != 0 {
        tracing::debug!("a thread keeps its priority: {}", std::io::Error::last_os_error());
    }
}

/// This thread does short work: what it would share out among threads it does itself. It must not be given back, since what
/// rayon keeps for it would not be.
pub fn begin_short_work() {
    match ThreadPoolBuilder::new().num_threads(1).use_current_thread().build() {
        Ok(pool) => std::mem::forget(pool),
        Err(error) => tracing::debug!("a thread shares its work: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rayon::prelude::*;

    #[test]
    fn short_work_stays_on_its_thread() {
        let thread = std::thread::spawn(|| {
            begin_short_work();
            let own = std::thread::current().id();
            let others = (0..1000).into_par_iter().filter(|_| std::thread::current().id() != own);
            (others.count(), rayon::current_num_threads())
        });
        assert_eq!(thread.join().unwrap(), (0, 1));
    }
}
