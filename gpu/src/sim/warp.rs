//! Warp collectives: lanes meet by mask, the last to arrive computes every lane's result.
//!
//! Lanes that have exited count as arrived. Lanes of one warp may wait in several collectives of disjoint masks.

use super::abi::{FiberState, Request, Thread, WarpOp};
use super::block::Block;

/// Lanes that wait for the rest of their mask.
struct Meeting {
    op: WarpOp,
    mask: u32,
    line: u32,
    arrived: u32,
}

/// One warp's collective state.
#[derive(Default)]
pub struct Warp {
    live: u32,
    meetings: Vec<Meeting>,
}

/// What a lane reads from a lane outside of the mask.
const UNDEFINED: u64 = 0xcdcd_cdcd_cdcd_cdcd;

impl Warp {
    /// A fresh warp of `lanes` lanes.
    pub fn reset(&mut self, lanes: u32) {
        self.live = if lanes == 32 { u32::MAX } else { (1 << lanes) - 1 };
        self.meetings.clear();
    }

    /// A lane arrives at a collective; returns its result once all live lanes of the mask have.
    ///
    /// # Safety
    /// Called on the fiber of `thread`, which is one of this block's.
    pub unsafe fn collective(
        block: *mut Block,
        thread: *mut Thread,
        op: WarpOp,
        mask: u32,
        request: Request,
        line: u32,
    ) -> u64 {
        // SAFETY: the block and its threads outlive the launch and are touched by one OS thread only; no reference
        // is held over a switch.
        unsafe {
            let b = &mut *block;
            let (w, lane) = ((*thread).warp, (*thread).lane);
            let warp = &mut b.warps[w as usize];
            if mask & (1 << lane) == 0 {
                let message =
                    format!("line {line}: lane {lane} calls a warp collective with mask {mask:#x}, not its own");
                (*b.worker).fail(Some(&*thread), message);
            }
            (*thread).request = request;
            (*thread).line = line;
            let position = match warp
                .meetings
                .iter()
                .position(|m| m.mask >> lane & 1 == 1 && m.arrived & mask != 0)
            {
                Some(p) => {
                    let m = &warp.meetings[p];
                    if m.op != op || m.mask != mask || m.line != line {
                        let message = format!(
                            "divergent warp collective: lane {lane} is in {op:?} of line {line} with mask {mask:#x}, \
                             others in {:?} of line {} with mask {:#x}",
                            m.op, m.line, m.mask
                        );
                        (*b.worker).fail(Some(&*thread), message);
                    }
                    p
                }
                None => {
                    warp.meetings.push(Meeting {
                        op,
                        mask,
                        line,
                        arrived: 0,
                    });
                    warp.meetings.len() - 1
                }
            };
            let meeting = &mut warp.meetings[position];
            meeting.arrived |= 1 << lane;
            (*thread).state = FiberState::InCollective;
            if meeting.arrived & warp.live == meeting.mask & warp.live {
                let meeting = warp.meetings.swap_remove(position);
                finish(b, w, &meeting);
            }
            Block::leave(block, thread);
            (*thread).result
        }
    }

    /// A lane exited: collectives that waited only for it complete.
    pub fn lane_exited(block: &mut Block, w: u32, lane: u32) {
        let warp = &mut block.warps[w as usize];
        warp.live &= !(1 << lane);
        let live = warp.live;
        while let Some(p) = block.warps[w as usize]
            .meetings
            .iter()
            .position(|m| m.arrived == m.mask & live)
        {
            let meeting = block.warps[w as usize].meetings.swap_remove(p);
            finish(block, w, &meeting);
        }
    }
}

/// Computes the result of each lane in the meeting and wakes them in lane order.
fn finish(block: &mut Block, w: u32, meeting: &Meeting) {
    let base = w * 32;
    let lanes = meeting.arrived;
    let mut requests = [Request::default(); 32];
    for lane in bits(lanes) {
        // SAFETY: lanes that arrived exist; fibers of a block run on one OS thread.
        requests[lane as usize] = unsafe { (*block.thread(base + lane)).request };
    }
    let fold = |identity: u32, f: fn(u32, u32) -> u32| {
        bits(lanes).fold(identity, |acc, lane| f(acc, requests[lane as usize].value as u32)) as u64
    };
    let signed = |f: fn(i32, i32) -> i32, identity: i32| {
        bits(lanes).fold(identity, |acc, lane| {
            f(acc, requests[lane as usize].value as u32 as i32)
        }) as u32 as u64
    };
    let common = match meeting.op {
        WarpOp::Ballot => bits(lanes)
            .filter(|&l| requests[l as usize].value != 0)
            .fold(0, |m, l| m | 1u64 << l),
        WarpOp::ReduceAdd => fold(0, u32::wrapping_add),
        WarpOp::ReduceMinUnsigned => fold(u32::MAX, u32::min),
        WarpOp::ReduceMaxUnsigned => fold(0, u32::max),
        WarpOp::ReduceMinSigned => signed(i32::min, i32::MAX),
        WarpOp::ReduceMaxSigned => signed(i32::max, i32::MIN),
        WarpOp::ReduceAnd => fold(u32::MAX, |a, b| a & b),
        WarpOp::ReduceOr => fold(0, |a, b| a | b),
        WarpOp::ReduceXor => fold(0, |a, b| a ^ b),
        _ => 0,
    };
    let value_of = |lane: u32| {
        if lanes >> lane & 1 == 1 {
            requests[lane as usize].value
        } else {
            UNDEFINED
        }
    };
    for lane in bits(lanes) {
        let Request { value, arg, width } = requests[lane as usize];
        let segment = lane & !(width.max(1) - 1);
        let result = match meeting.op {
            WarpOp::ShuffleIndex => value_of(segment + (arg & (width - 1))),
            WarpOp::ShuffleUp if lane < segment + arg => value,
            WarpOp::ShuffleUp => value_of(lane - arg),
            WarpOp::ShuffleDown if lane + arg >= segment + width => value,
            WarpOp::ShuffleDown => value_of(lane + arg),
            // As on the device: a source in a later segment leaves the value unchanged.
            WarpOp::ShuffleXor if (lane ^ arg) >= segment + width => value,
            WarpOp::ShuffleXor => value_of((lane ^ arg) & 31),
            WarpOp::MatchAny => bits(lanes)
                .filter(|&l| requests[l as usize].value == value)
                .fold(0, |m, l| m | 1u64 << l),
            _ => common,
        };
        // SAFETY: as above.
        unsafe { (*block.thread(base + lane)).result = result };
        block.wake(base + lane);
    }
}

/// The set bits of a mask, lowest first.
fn bits(mask: u32) -> impl Iterator<Item = u32> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let bit = rest.trailing_zeros();
            rest &= rest - 1;
            bit
        })
    })
}
