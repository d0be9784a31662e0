//! The simulated device's memory: every buffer is its own guarded mapping.

use std::collections::BTreeMap;

use parking_lot::RwLock;

use super::fault::ILLEGAL_ADDRESS;
use super::guarded::GuardedMemory;

/// Live buffers of one simulated device, by the start of their mapping.
#[derive(Default)]
pub struct SimMemory {
    live: RwLock<BTreeMap<usize, GuardedMemory>>,
}

impl SimMemory {
    /// Maps a buffer of `bytes` bytes; returns its address.
    pub fn alloc(&self, bytes: usize) -> std::io::Result<u64> {
        let memory = GuardedMemory::new(bytes)?;
        let address = memory.start() as u64;
        self.live.write().insert(memory.mapping().start, memory);
        Ok(address)
    }

    /// Unmaps the buffer at this address; later accesses to it fault. Says what was written next to it, if anything.
    pub fn free(&self, address: u64) -> Result<(), String> {
        let mut live = self.live.write();
        let Some((&key, memory)) = live.range(..=address as usize).next_back() else {
            return Err(format!("free of an unknown address {address:#x}"));
        };
        if memory.start() as u64 != address {
            return Err(format!("free of {address:#x}, which is not the start of a buffer"));
        }
        let result = memory.check();
        live.remove(&key);
        result
    }

    /// Whether `bytes` bytes at `address` lie inside one live buffer.
    pub fn contains(&self, address: u64, bytes: usize) -> bool {
        bytes == 0
            || self
                .live
                .read()
                .range(..=address as usize)
                .next_back()
                .is_some_and(|(_, memory)| {
                    let start = memory.start() as u64;
                    address >= start && address + bytes as u64 <= start + memory.len() as u64
                })
    }

    /// What was written next to any live buffer, if anything. The marks are restored: it is said once.
    pub fn check(&self) -> Result<(), String> {
        self.live
            .read()
            .values()
            .try_for_each(|memory| memory.check().inspect_err(|_| memory.restore_marks()))
    }

    /// Adds to the message of an illegal address the buffer that it is nearest to.
    pub fn explain(&self, message: String) -> String {
        let Some(at) = message.find(ILLEGAL_ADDRESS) else {
            return message;
        };
        let hex = message[at + ILLEGAL_ADDRESS.len()..].trim_start_matches("0x");
        match usize::from_str_radix(hex, 16) {
            Ok(address) => format!("{message}: {}", self.describe(address)),
            Err(_) => message,
        }
    }

    fn describe(&self, address: usize) -> String {
        let live = self.live.read();
        match live
            .range(..=address)
            .next_back()
            .filter(|(_, memory)| memory.mapping().contains(&address))
        {
            Some((_, memory)) => {
                let (start, bytes) = (memory.start() as usize, memory.len());
                if address >= start + bytes {
                    format!(
                        "{} bytes past the end of a buffer of {bytes} bytes",
                        address - start - bytes
                    )
                } else {
                    format!(
                        "{} bytes before the start of a buffer of {bytes} bytes",
                        start.saturating_sub(address)
                    )
                }
            }
            None if address < 4096 => "a null pointer".to_string(),
            None => "no live buffer is near (freed, or past the end of shared memory)".to_string(),
        }
    }
}
