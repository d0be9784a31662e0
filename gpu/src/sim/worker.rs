//! Runs a launch: a window of resident blocks on one OS thread, blocks taken in order by a ticket.
//!
//! A block waits only for earlier ones (decoupled look-back), and those are resident or done, so the window makes
//! progress. When no thread of a block can run and none spins, that is a deadlock and an error.

use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::abi::{Dim3, Thread};
use super::block::Block;
use super::fault;
use super::fiber::switch;

/// A kernel's entry in a compiled module: takes the address of its parameter struct.
pub type KernelEntry = unsafe extern "C" fn(*const u8);

/// One launch, shared by the workers that run it.
pub struct Launch<'a> {
    pub entry: KernelEntry,
    pub params: &'a [u8],
    pub grid: Dim3,
    pub block: Dim3,
    pub shared_bytes: u32,
    /// Blocks resident at once on each worker.
    pub window: u32,
    pub timeout: Duration,
    /// Other than 0, threads run in an order drawn from it.
    pub order_seed: u64,
    pub next_block: AtomicU64,
    pub stop: AtomicBool,
    pub failure: Mutex<Option<String>>,
}

/// One OS thread's part in a launch.
pub struct Worker {
    /// Where the scheduler itself continues.
    pub main_sp: *mut u8,
    pub spins: u64,
    /// Whether a fiber, not the scheduler, runs on this OS thread: a fault is then the kernel's.
    pub on_fiber: bool,
    entry: KernelEntry,
    params: *const u8,
    failure: Option<String>,
}

thread_local! {
    static CURRENT: Cell<*mut Worker> = const { Cell::new(null_mut()) };
}

/// The worker whose fiber runs on this OS thread now, or null. Safe in a signal handler.
pub fn current() -> *mut Worker {
    CURRENT.try_with(Cell::get).unwrap_or(null_mut())
}

extern "C" fn fiber_main(thread: *mut u8) -> ! {
    let thread = thread.cast::<Thread>();
    // SAFETY: the fiber was prepared with its own record; block and worker outlive the launch.
    unsafe {
        let block = (*thread).block;
        let (entry, params) = ((*(*block).worker).entry, (*(*block).worker).params);
        entry(params);
        Block::exit(block, thread)
    }
}

impl Worker {
    /// Records the launch's failure and leaves the fiber for good.
    pub fn fail(&mut self, thread: Option<&Thread>, message: String) -> ! {
        let place = thread.map_or(String::new(), |t| {
            let (b, t) = (t.block_idx, t.thread_idx);
            format!("block ({}, {}, {}) thread ({}, {}, {}): ", b.x, b.y, b.z, t.x, t.y, t.z)
        });
        self.failure.get_or_insert(format!("{place}{message}"));
        let mut abandoned = null_mut();
        loop {
            // SAFETY: the worker's own context is suspended in `run_block`; this fiber is never resumed.
            unsafe { switch(&mut abandoned, self.main_sp) };
        }
    }
}

/// Runs blocks of the launch on this OS thread until none is left or one fails.
pub fn run(launch: &Launch<'_>) {
    fault::install();
    let mut worker = Worker {
        main_sp: null_mut(),
        spins: 0,
        on_fiber: false,
        entry: launch.entry,
        params: launch.params.as_ptr(),
        failure: None,
    };
    let pointer: *mut Worker = &mut worker;
    let outcome = CURRENT.with(|current| {
        let outer = current.replace(pointer);
        let outcome = run_window(launch, pointer);
        current.set(outer);
        outcome
    });
    if let Err(message) = outcome {
        launch.stop.store(true, Ordering::Relaxed);
        launch.failure.lock().get_or_insert(message);
    }
}

fn run_window(launch: &Launch<'_>, worker: *mut Worker) -> Result<(), String> {
    let threads = launch.block.x * launch.block.y * launch.block.z;
    let blocks = launch.grid.x as u64 * launch.grid.y as u64 * launch.grid.z as u64;
    let mut resident: Vec<Box<Block>> = Vec::new();
    let mut idle: Vec<Box<Block>> = Vec::new();
    let mut last_finish = Instant::now();
    let mut sweeps = 0u64;
    loop {
        while resident.len() < launch.window as usize && !launch.stop.load(Ordering::Relaxed) {
            let ticket = launch.next_block.fetch_add(1, Ordering::Relaxed);
            if ticket >= blocks {
                break;
            }
            let mut block = match idle.pop() {
                Some(block) => block,
                None => {
                    let seed = launch.order_seed.wrapping_mul(ticket + 1);
                    Block::new(threads, launch.shared_bytes, worker, seed).map_err(|e| format!("fiber stacks: {e}"))?
                }
            };
            let (x, y) = (launch.grid.x as u64, launch.grid.y as u64);
            let index = Dim3 {
                x: (ticket % x) as u32,
                y: (ticket / x % y) as u32,
                z: (ticket / (x * y)) as u32,
            };
            block.start(index, launch.block, launch.grid, fiber_main);
            resident.push(block);
        }
        if resident.is_empty() || launch.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut i = 0;
        while i < resident.len() {
            run_block(&mut resident[i], worker)?;
            if resident[i].live == 0 {
                let block = resident.remove(i);
                finish_block(&block)?;
                idle.push(block);
                last_finish = Instant::now();
            } else {
                i += 1;
            }
        }
        sweeps += 1;
        if sweeps.is_multiple_of(64) && last_finish.elapsed() > launch.timeout {
            let waiting: Vec<String> = resident
                .iter()
                .map(|b| {
                    format!(
                        "block {}: {} ({} spin)",
                        b.block_idx.x,
                        b.describe_waiting(),
                        b.spinning.len()
                    )
                })
                .collect();
            return Err(format!(
                "no block finished in {:?}: {}",
                launch.timeout,
                waiting.join("; ")
            ));
        }
    }
}

/// Runs a block until no thread of it is ready; those that paused in a spin loop become ready for the next turn.
fn run_block(block: &mut Box<Block>, worker: *mut Worker) -> Result<(), String> {
    let block: *mut Block = &mut **block;
    // SAFETY: block and worker are alive and used by this OS thread only. The switch returns when a fiber finds no
    // other ready thread, or after a failure.
    unsafe {
        if let Some(first) = (*block).ready.pop_front() {
            let target = (*(*block).thread(first)).saved_sp;
            (*worker).on_fiber = true;
            switch(&raw mut (*worker).main_sp, target);
            (*worker).on_fiber = false;
        }
        if let Some(message) = (*worker).failure.take() {
            return Err(message);
        }
        let b = &mut *block;
        if b.live > 0 && b.ready.is_empty() && b.spinning.is_empty() {
            return Err(format!(
                "deadlock in block ({}, {}, {}): {}",
                b.block_idx.x,
                b.block_idx.y,
                b.block_idx.z,
                b.describe_waiting()
            ));
        }
        std::mem::swap(&mut b.ready, &mut b.spinning);
    }
    Ok(())
}

fn finish_block(block: &Block) -> Result<(), String> {
    let index = block.block_idx;
    block
        .shared
        .check()
        .map_err(|e| format!("block ({}, {}, {}): {e}", index.x, index.y, index.z))?;
    match (0..block.threads).find(|&i| !block.stacks.intact(i as usize)) {
        Some(i) => Err(format!(
            "thread {i} overflowed its stack of {} bytes",
            super::abi::STACK_BYTES
        )),
        None => Ok(()),
    }
}
