//! Loaded programs by what they are. Those that nobody holds and that nobody has asked for in a while are unloaded:
//! statements of ever new shapes would else fill the device with code.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So many are kept whatever their age.
const KEPT: usize = 512;
/// What was asked for within this time may still run, though nobody holds it.
const IDLE: Duration = Duration::from_secs(60);

pub struct Modules<T> {
    modules: HashMap<String, Entry<T>>,
    kept: usize,
    idle: Duration,
}

struct Entry<T> {
    module: Arc<T>,
    used: Instant,
}

impl<T> Default for Modules<T> {
    fn default() -> Self {
        Self::new(KEPT, IDLE)
    }
}

impl<T> Modules<T> {
    fn new(kept: usize, idle: Duration) -> Self {
        Self {
            modules: HashMap::new(),
            kept,
            idle,
        }
    }

    pub fn contains(&self, identity: &str) -> bool {
        self.modules.contains_key(identity)
    }

    pub fn get(&mut self, identity: &str) -> Option<Arc<T>> {
        let entry = self.modules.get_mut(identity)?;
        entry.used = Instant::now();
        Some(Arc::clone(&entry.module))
    }

    /// The module, or the one of the same identity that is there already; and those to drop, which may take the driver a
    /// while, when nobody waits for the table.
    #[must_use]
    pub fn insert(&mut self, identity: String, module: T) -> (Arc<T>, Vec<Arc<T>>) {
        let used = Instant::now();
        let module = Arc::new(module);
        let entry = self.modules.entry(identity).or_insert(Entry { module, used });
        let module = Arc::clone(&entry.module);
        (module, self.unused(used))
    }

    /// Takes out those that are too many, the longest unused first.
    fn unused(&mut self, now: Instant) -> Vec<Arc<T>> {
        let Some(many) = self.modules.len().checked_sub(self.kept).filter(|many| *many > 0) else {
            return vec![];
        };
        let idle =
            |entry: &Entry<T>| Arc::strong_count(&entry.module) == 1 && now.duration_since(entry.used) >= self.idle;
        let mut idle: Vec<(Instant, String)> = self
            .modules
            .iter()
            .filter(|(_, entry)| idle(entry))
            .map(|(identity, entry)| (entry.used, identity.clone()))
            .collect();
        idle.sort_unstable();
        let removed = idle.into_iter().take(many);
        removed
            .filter_map(|(_, identity)| Some(self.modules.remove(&identity)?.module))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_the_longest_unused_that_nobody_holds() {
        let mut modules = Modules::new(2, Duration::ZERO);
        let insert = |modules: &mut Modules<u32>, number: u32| {
            let (module, dropped) = modules.insert(number.to_string(), number);
            (module, dropped.iter().map(|module| **module).collect::<Vec<u32>>())
        };
        let (held, none) = insert(&mut modules, 0);
        assert_eq!((*held, none), (0, vec![]));
        insert(&mut modules, 1);
        assert_eq!(modules.get("1").as_deref(), Some(&1));
        insert(&mut modules, 2);
        // 0 is held, 1 was asked for before 2 came.
        assert!(modules.contains("0") && !modules.contains("1") && modules.contains("2"));
        let (_, dropped) = insert(&mut modules, 3);
        assert_eq!(dropped, [2]);
        drop(held);
        let (_, dropped) = insert(&mut modules, 4);
        assert_eq!(dropped, [0]);
    }

    #[test]
    fn what_may_run_stays() {
        let mut modules = Modules::new(1, Duration::from_secs(60));
        for number in 0..10_u32 {
            let (_, dropped) = modules.insert(number.to_string(), number);
            assert!(dropped.is_empty());
        }
    }
}
