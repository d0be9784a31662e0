//! Turns a fault inside a simulated kernel (a guard page touched, a trap, a division by zero) into an error.
//!
//! The handler runs on the OS thread's alternate stack. If a fiber of the simulator faulted, it makes the fiber
//! continue in `faulted`, which abandons it for the worker's context; any other fault goes to the handler that was
//! there before.

use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::OnceLock;

use super::worker;

const SIGNALS: [i32; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];
/// The handlers that were there before.
static PREVIOUS: OnceLock<[libc::sigaction; 4]> = OnceLock::new();

thread_local! {
    static FAULT: Cell<(i32, usize)> = const { Cell::new((0, 0)) };
    static ALTERNATE_STACK: Cell<bool> = const { Cell::new(false) };
}

/// Installs the handler once a process and an alternate stack on OS threads that lack one.
pub fn install() {
    let mut first = false;
    PREVIOUS.get_or_init(|| {
        first = true;
        SIGNALS.map(|signal| {
            // SAFETY: a zeroed sigaction is valid to be overwritten with the present one.
            unsafe {
                let mut previous: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, std::ptr::null(), &mut previous);
                previous
            }
        })
    });
    if first {
        for signal in SIGNALS {
            // SAFETY: the action is whole, and PREVIOUS is set before the handler can read it.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handler as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
                libc::sigemptyset(&mut action.sa_mask);
                libc::sigaction(signal, &action, null_mut());
            }
        }
    }
    ALTERNATE_STACK.with(|done| {
        if done.replace(true) {
            return;
        }
        // SAFETY: queries this thread's alternate stack and sets one if there is none. The mapping stays for the
        // life of the thread; threads that launch kernels are few and long-lived.
        unsafe {
            let mut old: libc::stack_t = std::mem::zeroed();
            libc::sigaltstack(null_mut(), &mut old);
            if old.ss_flags & libc::SS_DISABLE != 0 {
                let bytes = 64 << 10;
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let base = libc::mmap(null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
                if base != libc::MAP_FAILED {
                    let stack = libc::stack_t {
                        ss_sp: base,
                        ss_flags: 0,
                        ss_size: bytes,
                    };
                    libc::sigaltstack(&stack, null_mut());
                }
            }
        }
    });
}

unsafe extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo and ucontext. The fiber's stack pointer marks the frame below
    // which nothing is live, red zone excepted.
    unsafe {
        let current = worker::current();
        if !current.is_null() && (*current).on_fiber {
            FAULT.with(|fault| fault.set((signal, (*info).si_addr() as usize)));
            redirect(context);
            return;
        }
        let i = SIGNALS.iter().position(|&s| s == signal).unwrap_or(0);
        let Some(previous) = PREVIOUS.get().map(|all| &all[i]) else {
            return;
        };
        if previous.sa_sigaction == libc::SIG_DFL || previous.sa_sigaction == libc::SIG_IGN {
            libc::signal(signal, libc::SIG_DFL);
        } else if previous.sa_flags & libc::SA_SIGINFO != 0 {
            let f: unsafe extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                std::mem::transmute(previous.sa_sigaction);
            f(signal, info, context);
        } else {
            let f: unsafe extern "C" fn(i32) = std::mem::transmute(previous.sa_sigaction);
            f(signal);
        }
    }
}

#[cfg(target_arch = "x86_64")]
unsafe fn redirect(context: *mut libc::c_void) {
    // SAFETY: `context` is the ucontext that the kernel passed to the handler; the new frame starts below the red zone, aligned as after a call.
    unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let sp = (registers[libc::REG_RSP as usize] as usize - 256) & !15;
        registers[libc::REG_RSP as usize] = (sp - 8) as i64;
        registers[libc::REG_RIP as usize] = faulted as *const () as i64;
    }
}

#[cfg(target_arch = "aarch64")]
unsafe fn redirect(context: *mut libc::c_void) {
    // SAFETY: `context` is the ucontext that the kernel passed to the handler; the new frame starts below the interrupted one.
    unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext;
        registers.sp = (registers.sp - 256) & !15;
        registers.pc = faulted as *const () as u64;
    }
}

/// Where a faulting fiber continues: it reports and never returns to the kernel.
extern "C" fn faulted() -> ! {
    let (signal, address) = FAULT.with(Cell::get);
    let message = match signal {
        libc::SIGSEGV | libc::SIGBUS => format!("{ILLEGAL_ADDRESS}{address:#x}"),
        libc::SIGILL => "misaligned access or undefined behaviour".to_string(),
        _ => "arithmetic fault (division by zero)".to_string(),
    };
    // SAFETY: this runs on the fiber of the current worker, whose record is found from the stack pointer.
    unsafe {
        let thread = super::abi::thread_in_stack((&raw const message as usize) & !(super::abi::STACK_BYTES - 1));
        (*worker::current()).fail(Some(&*thread), message)
    }
}

/// What the message of an illegal address starts with; the address in hexadecimal follows.
pub const ILLEGAL_ADDRESS: &str = "illegal address ";
