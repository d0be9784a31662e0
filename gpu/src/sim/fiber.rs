//! Fibers: a context switch that saves the callee-saved registers and swaps stacks, and a pool of stacks.
//!
//! `swapcontext` makes a system call a switch; this takes a few nanoseconds.

use std::ptr::null_mut;

use parking_lot::Mutex;

use super::abi::{STACK_BYTES, Thread, thread_in_stack};

const CANARY: u64 = 0x7e40_5afe_57ac_c0de;

#[cfg(target_arch = "x86_64")]
mod arch {
    /// Saves the running context, stores its stack pointer at `save`, and resumes the context whose stack pointer
    /// is `to`.
    #[unsafe(naked)]
    pub unsafe extern "C" fn switch(save: *mut *mut u8, to: *mut u8) {
        core::arch::naked_asm!(
            "push rbp",
            "push rbx",
            "push r12",
            "push r13",
            "push r14",
            "push r15",
            "mov [rdi], rsp",
            "mov rsp, rsi",
            "pop r15",
            "pop r14",
            "pop r13",
            "pop r12",
            "pop rbx",
            "pop rbp",
            "ret",
        )
    }

    /// First frame of a fiber: calls the function in `rbx` with the argument in `r12`. It never returns.
    #[unsafe(naked)]
    unsafe extern "C" fn start() {
        core::arch::naked_asm!("mov rdi, r12", "call rbx", "ud2")
    }

    /// Prepares a stack whose top is `top` (16-byte aligned); returns the stack pointer to resume.
    ///
    /// # Safety
    /// The 64 bytes below `top` are writable and belong to this stack.
    pub unsafe fn prepare(top: *mut u8, entry: extern "C" fn(*mut u8) -> !, argument: *mut u8) -> *mut u8 {
        let slots = top.cast::<usize>();
        // SAFETY: the caller gives 64 writable bytes below `top`: r15, r14, r13, r12, rbx, rbp, return address.
        unsafe {
            slots.sub(1).write(start as *const () as usize);
            slots.sub(2).write(0);
            slots.sub(3).write(entry as *const () as usize);
            slots.sub(4).write(argument as usize);
            slots.sub(5).write(0);
            slots.sub(6).write(0);
            slots.sub(7).write(0);
            slots.sub(7).cast()
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod arch {
    /// Saves the running context, stores its stack pointer at `save`, and resumes the context whose stack pointer
    /// is `to`.
    #[unsafe(naked)]
    pub unsafe extern "C" fn switch(save: *mut *mut u8, to: *mut u8) {
        core::arch::naked_asm!(
            "sub sp, sp, #160",
            "stp x19, x20, [sp, #0]",
            "stp x21, x22, [sp, #16]",
            "stp x23, x24, [sp, #32]",
            "stp x25, x26, [sp, #48]",
            "stp x27, x28, [sp, #64]",
            "stp x29, x30, [sp, #80]",
            "stp d8, d9, [sp, #96]",
            "stp d10, d11, [sp, #112]",
            "stp d12, d13, [sp, #128]",
            "stp d14, d15, [sp, #144]",
            "mov x9, sp",
            "str x9, [x0]",
            "mov sp, x1",
            "ldp x19, x20, [sp, #0]",
            "ldp x21, x22, [sp, #16]",
            "ldp x23, x24, [sp, #32]",
            "ldp x25, x26, [sp, #48]",
            "ldp x27, x28, [sp, #64]",
            "ldp x29, x30, [sp, #80]",
            "ldp d8, d9, [sp, #96]",
            "ldp d10, d11, [sp, #112]",
            "ldp d12, d13, [sp, #128]",
            "ldp d14, d15, [sp, #144]",
            "add sp, sp, #160",
            "ret",
        )
    }

    /// First frame of a fiber: calls the function in `x19` with the argument in `x20`. It never returns.
    #[unsafe(naked)]
    unsafe extern "C" fn start() {
        core::arch::naked_asm!("mov x0, x20", "blr x19", "brk #1")
    }

    /// Prepares a stack whose top is `top` (16-byte aligned); returns the stack pointer to resume.
    ///
    /// # Safety
    /// The 160 bytes below `top` are writable and belong to this stack.
    pub unsafe fn prepare(top: *mut u8, entry: extern "C" fn(*mut u8) -> !, argument: *mut u8) -> *mut u8 {
        // SAFETY: the caller gives 160 writable bytes below `top`.
        unsafe {
            let frame = top.sub(160).cast::<usize>();
            for i in 0..20 {
                frame.add(i).write(0);
            }
            frame.write(entry as *const () as usize);
            frame.add(1).write(argument as usize);
            frame.add(11).write(start as *const () as usize);
            frame.cast()
        }
    }
}

pub use arch::switch;

/// Stacks for fibers, taken from a process-wide pool and given back when dropped.
pub struct Stacks {
    slots: Vec<usize>,
}

static POOL: Mutex<Vec<usize>> = Mutex::new(Vec::new());

impl Stacks {
    /// Takes `count` stacks. Their pages cost memory only once touched.
    pub fn take(count: usize) -> std::io::Result<Stacks> {
        let mut pool = POOL.lock();
        if pool.len() < count {
            let fresh = (count - pool.len()).max(256);
            let bytes = (fresh + 1) * STACK_BYTES;
            // SAFETY: an anonymous private mapping at an address of the kernel's choice.
            let base = unsafe {
                libc::mmap(
                    null_mut(),
                    bytes,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                    -1,
                    0,
                )
            };
            if base == libc::MAP_FAILED {
                return Err(std::io::Error::last_os_error());
            }
            // SAFETY: advice on the mapping just made: huge pages would make every stack cost 2 MiB.
            unsafe { libc::madvise(base, bytes, libc::MADV_NOHUGEPAGE) };
            let first = (base as usize).next_multiple_of(STACK_BYTES);
            for i in 0..fresh {
                let slot = first + i * STACK_BYTES;
                // SAFETY: the slot lies within the mapping; its lowest word is the canary.
                unsafe { (slot as *mut u64).write(CANARY) };
                pool.push(slot);
            }
        }
        let keep = pool.len() - count;
        let slots = pool.split_off(keep);
        Ok(Stacks { slots })
    }

    /// Where the record of fiber `i` lies.
    pub fn thread(&self, i: usize) -> *mut Thread {
        thread_in_stack(self.slots[i])
    }

    /// Prepares fiber `i` to run `entry(argument)`; returns the stack pointer to resume.
    pub fn prepare(&self, i: usize, entry: extern "C" fn(*mut u8) -> !, argument: *mut u8) -> *mut u8 {
        // SAFETY: the stack grows down from the thread's record, which is 64-byte aligned; far more than the
        // frame's bytes lie below it.
        unsafe { arch::prepare(self.thread(i).cast(), entry, argument) }
    }

    /// Whether fiber `i` has stayed within its stack.
    pub fn intact(&self, i: usize) -> bool {
        // SAFETY: the slot's lowest word is mapped and was set when the slot was made.
        unsafe { (self.slots[i] as *const u64).read() == CANARY }
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        for slot in &self.slots {
            // SAFETY: as in `intact`; an overflow must not be reported again by the next user.
            unsafe { (*slot as *mut u64).write(CANARY) };
        }
        POOL.lock().append(&mut self.slots);
    }
}
