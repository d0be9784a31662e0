//! How often statements ran, and how long they took: `pg_stat_statements`.
//!
//! A prepared statement holds its entry, and so does what is kept of a text: an execution adds to a few counters, and looks nothing up.
//! Entries that are given up, because there are too many or by `pg_stat_statements_reset`, are listed again with the next
//! execution of a statement that holds them.

mod normal;
mod pieces;

use crate::catalog::services::{CountedStatement, CountedStatements, CountedTimes};
use crate::pg::functions::session::now_us;
use crate::pg::statement::{Kind, Statement};
use crate::session::Prepared;
use datafusion::sql::sqlparser::ast;
use normal::{Normal, normal, verbatim};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Entries, as `pg_stat_statements.max` has it.
const ENTRIES_MAX: usize = 5_000;
/// What their texts may take, bytes.
const BYTES_MAX: usize = 16 << 20;
/// What an entry takes beside its text, about.
const ENTRY_BYTES: usize = 256;
/// Of a text that is longer the beginning is kept, bytes.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// A statement's place for its entry, found when it first runs.
pub(crate) type Place = Arc<OnceLock<Arc<Entry>>>;

/// What is counted of a statement. Readers may see one counter of an execution and not yet the next.
pub(crate) struct Entry {
    pub id: i64,
    text: Arc<str>,
    /// Whether it is among those that are shown.
    listed: AtomicBool,
    plans: Times,
    executions: Times,
    rows: AtomicU64,
    /// Executions when others were last given up, and what counts of those before.
    seen: AtomicU64,
    worth: AtomicU64,
}

/// A number of times.
struct Times {
    count: AtomicU64,
    total_ns: AtomicU64,
    min_ns: AtomicU64,
    max_ns: AtomicU64,
    /// The sum of their squares, ms^2, as the bits of a float.
    squares: AtomicU64,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            count: AtomicU64::new(0),
            total_ns: AtomicU64::new(0),
            min_ns: AtomicU64::new(u64::MAX),
            max_ns: AtomicU64::new(0),
            squares: AtomicU64::new(0),
        }
    }
}

impl Times {
    fn add(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.total_ns.fetch_add(ns, Ordering::Relaxed);
        // Most times are neither: a look costs less than a change.
        if ns < self.min_ns.load(Ordering::Relaxed) {
            self.min_ns.fetch_min(ns, Ordering::Relaxed);
        }
        if ns > self.max_ns.load(Ordering::Relaxed) {
            self.max_ns.fetch_max(ns, Ordering::Relaxed);
        }
        let square = (ns as f64 / 1e6).powi(2);
        let add = |sum: u64| Some((f64::from_bits(sum) + square).to_bits());
        let _ = self.squares.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    fn clear(&self) {
        for counter in [&self.count, &self.total_ns, &self.max_ns, &self.squares] {
            counter.store(0, Ordering::Relaxed);
        }
        self.min_ns.store(u64::MAX, Ordering::Relaxed);
    }

    fn shown(&self) -> CountedTimes {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (count, total_ms) = (get(&self.count), get(&self.total_ns) as f64 / 1e6);
        if count == 0 {
            return CountedTimes::default();
        }
        let mean_ms = total_ms / count as f64;
        let variance = f64::from_bits(get(&self.squares)) / count as f64 - mean_ms * mean_ms;
        CountedTimes {
            count,
            total_ms,
            min_ms: get(&self.min_ns) as f64 / 1e6,
            max_ms: get(&self.max_ns) as f64 / 1e6,
            mean_ms,
            deviation_ms: if count > 1 { variance.max(0.0).sqrt() } else { 0.0 },
        }
    }
}

impl Entry {
    fn new(normal: Normal) -> Self {
        let mut end = normal.text.len().min(TEXT_BYTES_MAX);
        while !normal.text.is_char_boundary(end) {
            end -= 1;
        }
        Self {
            id: normal.id,
            text: normal.text[..end].into(),
            listed: AtomicBool::new(true),
            plans: Times::default(),
            executions: Times::default(),
            rows: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            worth: AtomicU64::new(0),
        }
    }

    fn bytes(&self) -> usize {
        self.text.len() + ENTRY_BYTES
    }

    /// What it counts when entries are to be given up: executions since the last time, and half of what it counted then.
    fn worth(&self) -> u64 {
        let ran = self.executions.count.load(Ordering::Relaxed);
        let worth = self.worth.load(Ordering::Relaxed);
        worth / 2 + ran.saturating_sub(self.seen.load(Ordering::Relaxed))
    }

    fn clear(&self) {
        self.plans.clear();
        self.executions.clear();
        self.rows.store(0, Ordering::Relaxed);
        self.seen.store(0, Ordering::Relaxed);
        self.worth.store(0, Ordering::Relaxed);
    }
}

/// One a server.
#[derive(Default)]
pub(crate) struct Tracked {
    kept: Mutex<Kept>,
}

struct Kept {
    entries: HashMap<i64, Arc<Entry>>,
    bytes: usize,
    /// How often entries were given up for others.
    given_up: u64,
    reset_us: i64,
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            bytes: 0,
            given_up: 0,
            reset_us: now_us(),
        }
    }
}

impl Kept {
    fn put(&mut self, entry: Arc<Entry>) {
        if self.entries.len() >= ENTRIES_MAX || self.bytes + entry.bytes() > BYTES_MAX {
            self.make_room();
        }
        self.bytes += entry.bytes();
        entry.listed.store(true, Ordering::Relaxed);
        self.entries.insert(entry.id, entry);
    }

    /// Gives up a twentieth, those that ran least lately. A new one would be among them each time, and counts as half of the
    /// others do.
    fn make_room(&mut self) {
        self.given_up += 1;
        let mut all: Vec<(u64, i64)> = self.entries.values().map(|entry| (entry.worth(), entry.id)).collect();
        all.sort_unstable();
        let leaving = (all.len() / 20).max(10).min(all.len());
        for (_, id) in &all[..leaving] {
            if let Some(entry) = self.entries.remove(id) {
                self.bytes -= entry.bytes();
                entry.listed.store(false, Ordering::Relaxed);
                entry.clear();
            }
        }
        for entry in self.entries.values() {
            entry.worth.store(entry.worth(), Ordering::Relaxed);
            entry
                .seen
                .store(entry.executions.count.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

impl Tracked {
    /// The entry of a statement, in its place.
    pub fn entry<'p>(&self, place: &'p OnceLock<Arc<Entry>>, statement: &Statement) -> &'p Arc<Entry> {
        place.get_or_init(|| {
            let sql = statement.sql().trim();
            let normal = match is_utility(statement) {
                true => verbatim(sql),
                false => normal(sql),
            };
            let mut kept = self.kept.lock();
            if let Some(entry) = kept.entries.get(&normal.id) {
                return entry.clone();
            }
            let entry = Arc::new(Entry::new(normal));
            kept.put(entry.clone());
            entry
        })
    }

    /// Counts an execution.
    pub fn ran(&self, entry: &Arc<Entry>, planning: Option<Duration>, took: Duration, rows: u64) {
        if !entry.listed.load(Ordering::Relaxed) {
            let mut kept = self.kept.lock();
            // Another statement's place may hold one of the same number: the place keeps its own, which is no more shown.
            if !kept.entries.contains_key(&entry.id) {
                kept.put(entry.clone());
            }
        }
        if let Some(planning) = planning {
            entry.plans.add(planning);
        }
        entry.executions.add(took);
        entry.rows.fetch_add(rows, Ordering::Relaxed);
    }
}

impl CountedStatements for Tracked {
    fn shown(&self) -> Vec<CountedStatement> {
        let kept = self.kept.lock();
        let entries = kept.entries.values().map(|entry| CountedStatement {
            id: entry.id,
            text: entry.text.clone(),
            plans: entry.plans.shown(),
            executions: entry.executions.shown(),
            rows: entry.rows.load(Ordering::Relaxed),
        });
        // Others are prepared, and have not run.
        entries.filter(|entry| entry.executions.count > 0).collect()
    }

    fn reset(&self, id: Option<i64>) {
        let mut kept = self.kept.lock();
        let mut freed = 0;
        kept.entries.retain(|own, entry| {
            let leaves = id.is_none_or(|id| id == *own);
            if leaves {
                freed += entry.bytes();
                entry.listed.store(false, Ordering::Relaxed);
                entry.clear();
            }
            !leaves
        });
        kept.bytes -= freed;
        if id.is_none() {
            kept.given_up = 0;
            kept.reset_us = now_us();
        }
    }

    fn info(&self) -> (u64, i64) {
        let kept = self.kept.lock();
        (kept.given_up, kept.reset_us)
    }
}

/// The number of the statement that an EXPLAIN has in it.
pub(crate) fn explained_id(sql: &str) -> i64 {
    normal(sql).id
}

/// Whether it is a command: neither a query nor a change of rows.
pub(crate) fn is_utility(statement: &Statement) -> bool {
    let Kind::Sql(tree) = &statement.kind else {
        return true;
    };
    !matches!(
        tree.as_ref(),
        ast::Statement::Query(_)
            | ast::Statement::Insert(_)
            | ast::Statement::Update(_)
            | ast::Statement::Delete(_)
            | ast::Statement::Merge(_)
    )
}

/// PREPARE and DEALLOCATE are not counted, and EXECUTE is as the statement that it names.
pub(crate) fn is_counted(prepared: &Prepared) -> bool {
    match &prepared.statement.kind {
        Kind::Empty => false,
        Kind::Sql(tree) => !matches!(
            tree.as_ref(),
            ast::Statement::Prepare { .. } | ast::Statement::Deallocate { .. }
        ),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(tracked: &Tracked, sql: &str) -> Arc<Entry> {
        let statement = crate::pg::parse::parse_as(sql, true).unwrap().remove(0);
        tracked.entry(&OnceLock::new(), &statement).clone()
    }

    #[test]
    fn times_add_up() {
        let tracked = Tracked::default();
        for (value, ms) in [(1, 2), (2, 4), (3, 9)] {
            let entry = entry(&tracked, &format!("SELECT {value}"));
            tracked.ran(&entry, None, Duration::from_millis(ms), 2);
        }
        let shown = tracked.shown();
        let [one] = &shown[..] else {
            panic!("{} entries", shown.len())
        };
        let times = &one.executions;
        assert_eq!(
            (&*one.text, one.rows, times.count, one.plans.count),
            ("SELECT $1", 6, 3, 0)
        );
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(times.total_ms, 15.0) && close(times.mean_ms, 5.0));
        assert!(close(times.min_ms, 2.0) && close(times.max_ms, 9.0));
        assert!(close(times.deviation_ms, (26.0_f64 / 3.0).sqrt()));
    }

    /// Entries leave that ran least; all may leave, and come again with the next execution.
    #[test]
    fn entries_are_bounded() {
        let tracked = Tracked::default();
        let often = entry(&tracked, "SELECT often");
        for _ in 0..50 {
            tracked.ran(&often, None, Duration::from_millis(1), 1);
        }
        for number in 0..ENTRIES_MAX + 20 {
            let entry = entry(&tracked, &format!("SELECT c{number}"));
            tracked.ran(&entry, None, Duration::from_millis(1), 1);
        }
        let shown = tracked.shown();
        assert!(
            shown.len() <= ENTRIES_MAX && shown.len() > ENTRIES_MAX * 9 / 10,
            "{}",
            shown.len()
        );
        assert!(shown.iter().any(|one| one.executions.count == 50));
        assert_eq!(tracked.info().0, 1);
        tracked.reset(Some(often.id));
        assert_eq!(tracked.shown().len(), shown.len() - 1);
        tracked.reset(None);
        assert!(tracked.shown().is_empty() && tracked.kept.lock().bytes == 0);
        tracked.ran(&often, None, Duration::from_millis(1), 1);
        let shown = tracked.shown();
        assert_eq!((shown.len(), shown[0].executions.count), (1, 1));
        // Long texts are cut, and all of them together take no more than they may.
        let long = "x".repeat(TEXT_BYTES_MAX);
        for number in 0..2 * BYTES_MAX / TEXT_BYTES_MAX {
            entry(&tracked, &format!("SELECT {long}{number}"));
        }
        assert!(tracked.kept.lock().bytes <= BYTES_MAX);
    }
}
