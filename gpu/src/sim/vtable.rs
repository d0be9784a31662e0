//! The functions that compiled kernels call: thin entries into the block, the warp and the worker.

use std::ffi::CStr;

use super::abi::{FiberState, Request, Thread, Vtable, WarpOp};
use super::block::Block;
use super::warp::Warp;

/// The one vtable, mirrored in `sim.cuh`.
pub static VTABLE: Vtable = Vtable {
    barrier,
    collective,
    spin,
    trap,
    static_shared,
};

unsafe extern "C" fn barrier(thread: *mut Thread, kind: u32, predicate: u32, line: u32) -> u32 {
    // SAFETY: kernels pass their own thread record, and call on its fiber.
    unsafe { Block::barrier((*thread).block, thread, kind, predicate, line) }
}

unsafe extern "C" fn collective(
    thread: *mut Thread,
    op: u32,
    mask: u32,
    value: u64,
    arg: u32,
    width: u32,
    line: u32,
) -> u64 {
    // SAFETY: as in `barrier`.
    unsafe {
        let worker = (*(*thread).block).worker;
        let Some(op) = WarpOp::from_number(op) else {
            (*worker).fail(Some(&*thread), format!("line {line}: unknown warp operation {op}"));
        };
        if !width.is_power_of_two() || width > 32 {
            (*worker).fail(Some(&*thread), format!("line {line}: shuffle width {width}"));
        }
        Warp::collective((*thread).block, thread, op, mask, Request { value, arg, width }, line)
    }
}

unsafe extern "C" fn spin(thread: *mut Thread) {
    // SAFETY: as in `barrier`.
    unsafe {
        let block = (*thread).block;
        (*thread).state = FiberState::Ready;
        (*block).spinning.push_back((*thread).index);
        (*(*block).worker).spins += 1;
        Block::leave(block, thread);
    }
}

unsafe extern "C" fn trap(thread: *mut Thread, file: *const libc::c_char, line: u32, what: *const libc::c_char) {
    // SAFETY: as in `barrier`; both strings are literals of the kernel's source.
    unsafe {
        let (file, what) = (
            CStr::from_ptr(file).to_string_lossy(),
            CStr::from_ptr(what).to_string_lossy(),
        );
        let message = if line == 0 {
            format!("trap: {what}")
        } else {
            format!("trap at {file}:{line}: {what}")
        };
        (*(*(*thread).block).worker).fail(Some(&*thread), message)
    }
}

unsafe extern "C" fn static_shared(thread: *mut Thread, key: *const u8, bytes: u64, align: u64) -> *mut u8 {
    // SAFETY: as in `barrier`.
    unsafe {
        let block = &mut *(*thread).block;
        match block.shared.variable(key as usize, bytes as usize, align as usize) {
            Ok(address) => address,
            Err(message) => (*block.worker).fail(Some(&*thread), message),
        }
    }
}
