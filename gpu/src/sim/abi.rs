//! The layout shared with `kernels/sim.cuh`: a fiber's record, the vtable, the numbers of the warp operations.

use super::block::Block;

/// Bytes of one fiber's stack, and its alignment.
pub const STACK_BYTES: usize = 1 << 16;

/// A CUDA `dim3`.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Dim3 {
    pub x: u32,
    pub y: u32,
    pub z: u32,
}

/// What a fiber is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FiberState {
    Ready,
    AtBarrier,
    InCollective,
    Exited,
}

/// One CUDA thread. The first part is `TenonSimThread` of `sim.cuh`; the rest belongs to the scheduler.
#[repr(C, align(64))]
pub struct Thread {
    pub thread_idx: Dim3,
    pub block_idx: Dim3,
    pub block_dim: Dim3,
    pub grid_dim: Dim3,
    pub lane: u32,
    pub warp: u32,
    pub dynamic_shared: *mut u8,
    pub vtable: *const Vtable,
    pub polls: u64,

    pub saved_sp: *mut u8,
    pub block: *mut Block,
    pub index: u32,
    pub state: FiberState,
    pub line: u32,
    pub request: Request,
    pub result: u64,
}

const _: () = assert!(size_of::<Thread>() <= 4096);

/// What a lane brought to a warp collective.
#[derive(Clone, Copy, Default)]
pub struct Request {
    pub value: u64,
    pub arg: u32,
    pub width: u32,
}

/// Functions that compiled kernels call.
#[repr(C)]
pub struct Vtable {
    pub barrier: unsafe extern "C" fn(*mut Thread, u32, u32, u32) -> u32,
    pub collective: unsafe extern "C" fn(*mut Thread, u32, u32, u64, u32, u32, u32) -> u64,
    pub spin: unsafe extern "C" fn(*mut Thread),
    pub trap: unsafe extern "C" fn(*mut Thread, *const libc::c_char, u32, *const libc::c_char),
    pub static_shared: unsafe extern "C" fn(*mut Thread, *const u8, u64, u64) -> *mut u8,
}

/// A warp collective; the numbers are those that `sim.cuh` passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum WarpOp {
    Sync = 0,
    ShuffleIndex = 1,
    ShuffleUp = 2,
    ShuffleDown = 3,
    ShuffleXor = 4,
    Ballot = 5,
    MatchAny = 6,
    ReduceAdd = 7,
    ReduceMinUnsigned = 8,
    ReduceMaxUnsigned = 9,
    ReduceMinSigned = 10,
    ReduceMaxSigned = 11,
    ReduceAnd = 12,
    ReduceOr = 13,
    ReduceXor = 14,
}

impl WarpOp {
    /// The operation with this number.
    pub fn from_number(number: u32) -> Option<WarpOp> {
        use WarpOp::*;
        [
            Sync,
            ShuffleIndex,
            ShuffleUp,
            ShuffleDown,
            ShuffleXor,
            Ballot,
            MatchAny,
            ReduceAdd,
            ReduceMinUnsigned,
            ReduceMaxUnsigned,
            ReduceMinSigned,
            ReduceMaxSigned,
            ReduceAnd,
            ReduceOr,
            ReduceXor,
        ]
        .get(number as usize)
        .copied()
    }
}

/// The record of the fiber whose stack holds slot `slot_base` (`STACK_BYTES`-aligned): the same sum as in `sim.cuh`.
pub fn thread_in_stack(slot_base: usize) -> *mut Thread {
    let index = slot_base / STACK_BYTES;
    (slot_base + STACK_BYTES - 8192 + ((index & 63) << 6)) as *mut Thread
}
