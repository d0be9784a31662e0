//! One resident block: its fibers, its barrier, its shared memory.

use std::collections::VecDeque;

use super::abi::{Dim3, FiberState, Thread};
use super::fiber::{Stacks, switch};
use super::shared::SharedMemory;
use super::vtable::VTABLE;
use super::warp::Warp;
use super::worker::Worker;

/// The block's barrier: who waits, and what they brought.
#[derive(Default)]
struct Barrier {
    waiting: Vec<u32>,
    kind: u32,
    line: u32,
    trues: u32,
    arrived: u32,
}

/// A block that is resident on a worker; reused for block after block.
pub struct Block {
    pub stacks: Stacks,
    pub threads: u32,
    /// Threads that have not exited.
    pub live: u32,
    pub ready: VecDeque<u32>,
    /// Threads that paused in a spin loop: they run again after the other blocks had a turn.
    pub spinning: VecDeque<u32>,
    pub shared: SharedMemory,
    pub warps: Vec<Warp>,
    pub worker: *mut Worker,
    pub block_idx: Dim3,
    barrier: Barrier,
    /// State of the generator that orders threads; 0 keeps the plain order.
    order: u64,
}

impl Block {
    /// A block of `threads` threads with room for `shared_bytes` of dynamic shared memory.
    /// Threads run in an order drawn from `order_seed`, or in the plain one if that is 0.
    pub fn new(threads: u32, shared_bytes: u32, worker: *mut Worker, order_seed: u64) -> std::io::Result<Box<Block>> {
        Ok(Box::new(Block {
            stacks: Stacks::take(threads as usize)?,
            threads,
            live: 0,
            ready: VecDeque::with_capacity(threads as usize),
            spinning: VecDeque::new(),
            shared: SharedMemory::new(shared_bytes)?,
            warps: (0..threads.div_ceil(32)).map(|_| Warp::default()).collect(),
            worker,
            block_idx: Dim3::default(),
            barrier: Barrier::default(),
            order: order_seed,
        }))
    }

    /// Makes this the block `block_idx` of the grid, all threads ready at the kernel's entry.
    pub fn start(&mut self, block_idx: Dim3, block_dim: Dim3, grid_dim: Dim3, entry: extern "C" fn(*mut u8) -> !) {
        self.block_idx = block_idx;
        self.live = self.threads;
        self.barrier = Barrier::default();
        self.shared.poison();
        let dynamic_shared = self.shared.dynamic();
        for (w, warp) in self.warps.iter_mut().enumerate() {
            warp.reset((self.threads - w as u32 * 32).min(32));
        }
        let block: *mut Block = self;
        for i in 0..self.threads {
            let thread = self.stacks.thread(i as usize);
            let saved_sp = self.stacks.prepare(i as usize, entry, thread.cast());
            // SAFETY: the record lies in this block's own stack slot, and no fiber runs on it now.
            unsafe {
                thread.write(Thread {
                    thread_idx: Dim3 {
                        x: i % block_dim.x,
                        y: i / block_dim.x % block_dim.y,
                        z: i / (block_dim.x * block_dim.y),
                    },
                    block_idx,
                    block_dim,
                    grid_dim,
                    lane: i % 32,
                    warp: i / 32,
                    dynamic_shared,
                    vtable: &VTABLE,
                    polls: 0,
                    saved_sp,
                    block,
                    index: i,
                    state: FiberState::Ready,
                    line: 0,
                    request: Default::default(),
                    result: 0,
                });
            }
        }
        self.ready.clear();
        for i in 0..self.threads {
            self.enqueue(i);
        }
        self.spinning.clear();
    }

    /// Thread `i`'s record.
    pub fn thread(&self, i: u32) -> *mut Thread {
        self.stacks.thread(i as usize)
    }

    /// Puts a waiting thread back among those that can run.
    pub fn wake(&mut self, i: u32) {
        // SAFETY: `i` is below `threads`, so the record exists; fibers of a block run on one OS thread.
        unsafe { (*self.thread(i)).state = FiberState::Ready };
        self.enqueue(i);
    }

    /// Puts a thread into the queue: at its end, or with a seed at a random place.
    fn enqueue(&mut self, i: u32) {
        self.ready.push_back(i);
        if self.order != 0 {
            // xorshift64
            self.order ^= self.order << 13;
            self.order ^= self.order >> 7;
            self.order ^= self.order << 17;
            let last = self.ready.len() - 1;
            self.ready.swap(self.order as usize % (last + 1), last);
        }
    }

    /// A thread reaches the barrier; returns its result once all live threads have.
    ///
    /// # Safety
    /// Called on the fiber of `thread`, which is one of this block's.
    pub unsafe fn barrier(block: *mut Block, thread: *mut Thread, kind: u32, predicate: u32, line: u32) -> u32 {
        // SAFETY: the block and its threads outlive the launch and are touched by one OS thread only; no reference
        // is held over a switch.
        unsafe {
            let b = &mut *block;
            if b.barrier.arrived > 0 && (b.barrier.kind, b.barrier.line) != (kind, line) {
                let message = format!(
                    "divergent barrier: thread {} waits at line {line} while others wait at line {}",
                    (*thread).index,
                    b.barrier.line
                );
                (*b.worker).fail(Some(&*thread), message);
            }
            b.barrier.kind = kind;
            b.barrier.line = line;
            b.barrier.arrived += 1;
            b.barrier.trues += predicate;
            (*thread).line = line;
            (*thread).state = FiberState::AtBarrier;
            b.barrier.waiting.push((*thread).index);
            if b.barrier.arrived < b.live {
                Block::leave(block, thread);
            } else {
                b.release_barrier();
                // The last to arrive went to the back of the queue with the others: take the next in order.
                Block::leave(block, thread);
            }
            (*thread).result as u32
        }
    }

    /// All live threads have arrived: hand out the result and wake them.
    fn release_barrier(&mut self) {
        let Barrier {
            waiting,
            kind,
            trues,
            arrived,
            ..
        } = std::mem::take(&mut self.barrier);
        let result = match kind {
            1 => trues,
            2 => (trues == arrived) as u32,
            3 => (trues > 0) as u32,
            _ => 0,
        };
        for &i in &waiting {
            // SAFETY: as in `wake`.
            unsafe { (*self.thread(i)).result = result as u64 };
            self.wake(i);
        }
        self.barrier.waiting = waiting;
        self.barrier.waiting.clear();
    }

    /// A thread returned from the kernel. It is not resumed.
    ///
    /// # Safety
    /// Called on the fiber of `thread`, which is one of this block's.
    pub unsafe fn exit(block: *mut Block, thread: *mut Thread) -> ! {
        // SAFETY: as in `barrier`.
        unsafe {
            let b = &mut *block;
            (*thread).state = FiberState::Exited;
            b.live -= 1;
            if b.barrier.arrived > 0 && b.barrier.arrived == b.live {
                b.release_barrier();
            }
            Warp::lane_exited(b, (*thread).warp, (*thread).lane);
            loop {
                Block::leave(block, thread);
            }
        }
    }

    /// Leaves the fiber of `thread`: to the next ready thread of the block, or to the worker when there is none.
    /// Returns when the thread is resumed.
    ///
    /// # Safety
    /// Called on the fiber of `thread`, which is one of this block's. No reference to the block is live.
    pub unsafe fn leave(block: *mut Block, thread: *mut Thread) {
        // SAFETY: the target's saved stack pointer is that of a suspended fiber or of the worker's own context.
        unsafe {
            let target = match (*block).ready.pop_front() {
                Some(i) if i == (*thread).index && (*thread).state == FiberState::Ready => return,
                Some(i) => (*(*block).thread(i)).saved_sp,
                None => (*(*block).worker).main_sp,
            };
            switch(&raw mut (*thread).saved_sp, target);
        }
    }

    /// What each live thread waits for, for the report of a deadlock.
    pub fn describe_waiting(&self) -> String {
        let mut groups: Vec<(FiberState, u32, u32, u32)> = Vec::new();
        for i in 0..self.threads {
            // SAFETY: as in `wake`.
            let (state, line) = unsafe { ((*self.thread(i)).state, (*self.thread(i)).line) };
            match groups
                .iter_mut()
                .find(|g| g.0 == state && (g.1 == line || state == FiberState::Exited))
            {
                Some(group) => group.2 += 1,
                None => groups.push((state, line, 1, i)),
            }
        }
        let parts: Vec<String> = groups
            .iter()
            .map(|(state, line, count, first)| match state {
                FiberState::AtBarrier => format!("{count} at the barrier of line {line} (first: thread {first})"),
                FiberState::InCollective => {
                    format!("{count} in the warp collective of line {line} (first: thread {first})")
                }
                FiberState::Exited => format!("{count} exited"),
                FiberState::Ready => format!("{count} runnable"),
            })
            .collect();
        parts.join(", ")
    }
}
