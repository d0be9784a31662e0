//! Planned conditions of tables, kept from one statement to the next: planning them takes longer than a row's INSERT.
//!
//! What a table asks of its rows depends on its definition, its partitions, the domains, types and functions that its
//! conditions name, and on the settings that constants are read under. It is kept with all of these.

use super::constraints::TableChecks;
use crate::catalog::bind::Binder;
use crate::pg::error::Result;
use crate::session::plan_cache::Purpose;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tenon_storage::{DatabaseState, Objects, Partition, TableDefinition};

/// Tables whose conditions are kept.
const TABLES_MAX: usize = 256;

/// One a server.
#[derive(Default)]
pub(crate) struct KeptChecks(Mutex<Vec<Kept>>);

struct Kept {
    definition: Arc<TableDefinition>,
    partitions: Vec<Arc<Partition>>,
    objects: Objects,
    purpose: Purpose,
    checks: Arc<TableChecks>,
}

impl Kept {
    fn is_right(&self, binder: &Binder, partitions: &[Arc<Partition>]) -> bool {
        let same_objects = || self.objects.diff(binder.snapshot.objects()).next().is_none();
        let same_partitions = || {
            let mut pairs = self.partitions.iter().zip(partitions);
            self.partitions.len() == partitions.len() && pairs.all(|(a, b)| Arc::ptr_eq(a, b))
        };
        self.is_for(binder) && same_partitions() && same_objects()
    }

    fn is_for(&self, binder: &Binder) -> bool {
        self.purpose.settings == binder.facts.settings && *self.purpose.path == *binder.facts.path
    }
}

impl KeptChecks {
    /// The conditions of a table, made where there are none that still hold.
    pub(super) fn of(&self, binder: &Binder, definition: &Arc<TableDefinition>) -> Result<Arc<TableChecks>> {
        let partitions = partitions(&binder.snapshot, definition);
        let found = |kept: &Kept| Arc::ptr_eq(&kept.definition, definition) && kept.is_right(binder, &partitions);
        if let Some(kept) = self.0.lock().iter().find(|kept| found(kept)) {
            return Ok(kept.checks.clone());
        }
        let marks = [&binder.facts.used, &binder.facts.used_time];
        let before = marks.map(|mark| mark.swap(false, Ordering::Relaxed));
        let checks = TableChecks::planned(binder, definition);
        // What the session's own facts went into holds for this statement alone.
        let mut own = false;
        for (mark, before) in marks.into_iter().zip(before) {
            own |= mark.fetch_or(before, Ordering::Relaxed);
        }
        let checks = Arc::new(checks?);
        if !own && !checks.is_empty() {
            let mut kept = self.0.lock();
            kept.retain(|kept| kept.definition.oid != definition.oid || !kept.is_for(binder));
            if kept.len() >= TABLES_MAX {
                kept.remove(0);
            }
            kept.push(Kept {
                definition: definition.clone(),
                partitions,
                objects: binder.snapshot.objects().clone(),
                purpose: Purpose {
                    settings: binder.facts.settings.clone(),
                    path: binder.facts.path.clone(),
                    // Conditions of a table need no rights of who writes to it.
                    rights: 0,
                    seeded: None,
                },
                checks: checks.clone(),
            });
        }
        Ok(checks)
    }
}

fn partitions(snapshot: &DatabaseState, definition: &TableDefinition) -> Vec<Arc<Partition>> {
    match definition.partitioning {
        Some(_) => snapshot.partitions_below(definition.oid),
        None => Vec::new(),
    }
}
