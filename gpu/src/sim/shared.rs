//! A block's shared memory: dynamic shared memory ends at a guard page, static shared variables have red zones.

use std::io;

use super::guarded::GuardedMemory;

/// Bytes of static shared memory that a block may have.
const STATIC_LIMIT_BYTES: usize = 48 << 10;
/// Bytes of shared memory of both kinds that a block may have: that of the H100.
pub const SHARED_LIMIT_BYTES: usize = 227 << 10;
const RED_ZONE: usize = 64;
const RED: u8 = 0xa5;
const POISON: u8 = 0xcd;

struct Variable {
    key: usize,
    offset: usize,
    bytes: usize,
}

/// Shared memory of one resident block.
pub struct SharedMemory {
    dynamic: GuardedMemory,
    statics: Box<[u8]>,
    used: usize,
    variables: Vec<Variable>,
    total_static: usize,
}

impl SharedMemory {
    /// Room for `dynamic_bytes` and for any legal static variables.
    pub fn new(dynamic_bytes: u32) -> io::Result<SharedMemory> {
        Ok(SharedMemory {
            dynamic: GuardedMemory::new(dynamic_bytes as usize)?,
            statics: vec![RED; STATIC_LIMIT_BYTES * 2 + 4096].into_boxed_slice(),
            used: 0,
            variables: Vec::new(),
            total_static: 0,
        })
    }

    /// Start of the dynamic part.
    pub fn dynamic(&self) -> *mut u8 {
        self.dynamic.start()
    }

    /// Fresh contents for the next block: what is read before it is written shows.
    pub fn poison(&mut self) {
        self.dynamic.fill(POISON);
        self.statics[..self.used].fill(RED);
        self.used = 0;
        self.total_static = 0;
        self.variables.clear();
    }

    /// The variable of this key (one per declaration); the first thread to ask makes it.
    pub fn variable(&mut self, key: usize, bytes: usize, align: usize) -> Result<*mut u8, String> {
        let base = self.statics.as_mut_ptr();
        let offset = match self.variables.iter().find(|v| v.key == key) {
            Some(variable) => variable.offset,
            None => {
                self.total_static += bytes;
                let align = align.max(16);
                let address = (base as usize + self.used + RED_ZONE).next_multiple_of(align);
                let offset = address - base as usize;
                if self.total_static > STATIC_LIMIT_BYTES || offset + bytes + RED_ZONE > self.statics.len() {
                    return Err(format!(
                        "static shared memory of {} bytes exceeds {STATIC_LIMIT_BYTES}",
                        self.total_static
                    ));
                }
                if self.total_static + self.dynamic.len() > SHARED_LIMIT_BYTES {
                    return Err(format!(
                        "{} bytes of static and {} of dynamic shared memory exceed {SHARED_LIMIT_BYTES}",
                        self.total_static,
                        self.dynamic.len()
                    ));
                }
                self.statics[offset..offset + bytes].fill(POISON);
                self.used = offset + bytes + RED_ZONE;
                self.variables.push(Variable { key, offset, bytes });
                offset
            }
        };
        Ok(self.statics[offset..].as_mut_ptr())
    }

    /// What was written outside of the static variables, if anything.
    pub fn check(&self) -> Result<(), String> {
        let mut from = 0;
        for variable in &self.variables {
            if let Some(at) = self.statics[from..variable.offset].iter().position(|&b| b != RED) {
                return Err(format!(
                    "write outside of static shared memory, {} bytes before a variable of {} bytes",
                    variable.offset - from - at,
                    variable.bytes
                ));
            }
            from = variable.offset + variable.bytes;
        }
        match self.statics[from..self.used].iter().position(|&b| b != RED) {
            Some(at) => Err(format!(
                "write outside of static shared memory, {at} bytes past the last variable's end"
            )),
            None => self.dynamic.check().map_err(|e| format!("dynamic shared memory: {e}")),
        }
    }
}
