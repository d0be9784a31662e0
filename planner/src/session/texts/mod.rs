//! Queries and changes of rows that clients send as text, prepared once for all sessions: a text that comes again, or one that differs from another
//! in literals alone ([`cut`]), needs no parser and meets the plans that are kept for it (`session/plan_cache`).
//!
//! What was prepared is right as long as names mean the same, for sessions with the same settings and search path. A text
//! is prepared with parameters when its like comes for the second time, and only those of its literals become parameters
//! whose values the parameters' types hold without a change; the others stay in the text.

mod comments;
mod controls;
mod cut;
mod parsed;
mod values;

use crate::catalog::services::{KeptStatement, KeptStatements};
use crate::pg::error::{Result, SqlError};
use crate::pg::outcome::Outcome;
use crate::pg::settings::Settings;
use crate::pg::statement::Statement;
use crate::session::plan_cache::{Basis, Purpose};
use crate::session::{Prepared, Session};
use comments::without_comments;
use cut::{Cut, cut};
use datafusion::common::ScalarValue;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use values::{fitting, values};

/// The longest text that is looked up, bytes.
const TEXT_BYTES_MAX: usize = 8 << 10;
/// What all texts that are kept may take, bytes.
const BYTES_MAX: usize = 16 << 20;
/// What a prepared statement takes beside its text, about.
const STATEMENT_BYTES: usize = 8 << 10;

/// A text that was prepared.
pub(crate) struct SharedText {
    prepared: Arc<Prepared>,
    purpose: Purpose,
    /// What names meant.
    meaning: u64,
    uses: AtomicU64,
    /// The last use, on the cache's own clock.
    used: AtomicU64,
}

/// A text's prepared statement, with the values of the literals that it has as parameters.
pub struct Known {
    text: Arc<SharedText>,
    values: Vec<ScalarValue>,
}

impl Known {
    pub fn prepared(&self) -> &Arc<Prepared> {
        &self.text.prepared
    }

    pub(crate) fn values(&self) -> &[ScalarValue] {
        &self.values
    }
}

/// What a statement is to be refused by where it does not hold any more: the wire prepares it anew.
pub(crate) struct Expected {
    purpose: Purpose,
    meaning: u64,
}

impl Expected {
    pub fn of(known: &Known) -> Self {
        Self {
            purpose: known.text.purpose.clone(),
            meaning: known.text.meaning,
        }
    }
}

/// One a server.
#[derive(Default)]
pub(crate) struct Texts {
    kept: Mutex<Kept>,
    controls: Mutex<HashMap<String, Statement>>,
}

#[derive(Default)]
struct Kept {
    /// By their keys with all literals out: the numbers of those that stay in.
    shapes: HashMap<String, Vec<usize>>,
    /// By their keys, one for each purpose.
    texts: HashMap<String, Vec<Arc<SharedText>>>,
    bytes: usize,
    clock: u64,
}

impl Kept {
    /// Makes room by giving up the half that was used least lately.
    fn make_room(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.bytes <= BYTES_MAX {
            return;
        }
        let used = |text: &Arc<SharedText>| text.used.load(Ordering::Relaxed);
        let mut times: Vec<u64> = self.texts.values().flatten().map(used).collect();
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or(0);
        self.texts.retain(|_, texts| {
            texts.retain(|text| used(text) > median);
            !texts.is_empty()
        });
        // They come again if their texts do.
        self.shapes.clear();
        let size = |(key, texts): (&String, &Vec<_>)| key.len() + texts.len() * STATEMENT_BYTES;
        self.bytes = self.texts.iter().map(size).sum::<usize>() + bytes;
    }

    fn put(&mut self, key: String, text: SharedText) {
        self.make_room(key.len() + STATEMENT_BYTES);
        text.used.store(self.clock, Ordering::Relaxed);
        let texts = self.texts.entry(key).or_default();
        texts.retain(|other| other.purpose != text.purpose);
        texts.push(Arc::new(text));
    }
}

impl KeptStatements for Texts {
    fn shown(&self, settings: &Settings, path: &[String], rights: u32) -> Vec<KeptStatement> {
        let own = self.kept.lock();
        let is_of = |purpose: &Purpose| {
            purpose.rights == rights && *purpose.path == *path && purpose.settings.plans_like(settings)
        };
        let texts = own.texts.values().flatten().filter(|text| is_of(&text.purpose));
        let shown = texts.map(|text| KeptStatement {
            text: text.prepared.sql().to_owned(),
            parameters: text.prepared.params.len(),
            uses: text.uses.load(Ordering::Relaxed),
            plans: text.prepared.slot.plans(),
        });
        shown.collect()
    }
}

impl Session {
    fn shares_texts(&self) -> bool {
        self.settings.is_on("tenon.shared_plans") && self.settings.is_on("standard_conforming_strings")
    }

    /// What was prepared for a text, by this session or another. Where there is something it must be executed next.
    pub fn known(&mut self, sql: &str) -> Option<Known> {
        if sql.len() > TEXT_BYTES_MAX || !self.shares_texts() || self.block().is_some_and(|block| block.failed) {
            return None;
        }
        let engine = self.engine.clone();
        let sql = without_comments(sql);
        let mut found = cut(&sql, &[])?;
        // The snapshot that the statement is going to read.
        self.look_anew().ok()?;
        let (purpose, state) = (self.purpose(), self.state());
        let mut kept = engine.texts.kept.lock();
        if !found.literals.is_empty() {
            let pinned = kept.shapes.get(&found.key)?;
            if !pinned.is_empty() {
                found = cut(&sql, pinned)?;
            }
        }
        kept.clock += 1;
        let texts = kept.texts.get(&found.key)?;
        let right = |text: &&Arc<SharedText>| text.meaning == state.meaning() && text.purpose == purpose;
        let text = texts.iter().find(right)?.clone();
        text.used.store(kept.clock, Ordering::Relaxed);
        drop(kept);
        let values = values(&text.prepared, &found.literals, &self.settings)?;
        text.uses.fetch_add(1, Ordering::Relaxed);
        self.refreshed = self.block().is_some();
        Some(Known { text, values })
    }

    /// Executes what was known for a text. Fails as where a plan's result has changed if it is not right any more.
    pub async fn execute_known(&mut self, known: &Known) -> Result<Outcome> {
        self.expected = Some(Expected::of(known));
        let outcome = self.execute(&known.text.prepared, known.values.clone()).await;
        self.expected = None;
        outcome
    }

    /// Refuses to go on where the statement was prepared for something else.
    pub(crate) fn check_expected(&mut self) -> Result<()> {
        // A statement that runs again after a conflict is checked again.
        match &self.expected {
            Some(expected) if expected.meaning != self.state().meaning() || expected.purpose != self.purpose() => {
                Err(SqlError::changed_result())
            }
            _ => Ok(()),
        }
    }

    /// Keeps what was prepared for a text, just now and not executed yet, for those that come after it.
    pub async fn remember(&mut self, sql: &str, prepared: &Arc<Prepared>) {
        if sql.len() > TEXT_BYTES_MAX || !self.shares_texts() || !prepared.may_keep_plan() {
            return;
        }
        // A plan that holds a value of its statement serves no other, whatever its literals are.
        if prepared.plan.lock().is_none() {
            return;
        }
        let sql = without_comments(sql);
        let Some(mut found) = cut(&sql, &[]) else { return };
        let engine = self.engine.clone();
        let mut pinned = match found.literals.is_empty() {
            true => vec![],
            false => {
                let mut kept = engine.texts.kept.lock();
                let known = kept.shapes.get(&found.key).cloned();
                if known.is_none() {
                    // Most texts do not come again.
                    kept.make_room(found.key.len());
                    kept.shapes.insert(found.key, vec![]);
                    return;
                }
                known.unwrap_or_default()
            }
        };
        let shape = found.key.clone();
        loop {
            found = match cut(&sql, &pinned) {
                Some(found) => found,
                None => return,
            };
            if found.literals.is_empty() {
                self.keep(found.key, prepared.clone());
                break;
            }
            if self.has(&found.key) {
                return;
            }
            let before = pinned.len();
            match self.with_parameters(&found).await {
                Some(parameterised) => {
                    // It is counted as the statement that it is a form of.
                    let entry = engine.tracked.entry(&prepared.entry, &prepared.statement);
                    let _ = parameterised.entry.set(entry.clone());
                    let fits = fitting(&parameterised, &found.literals, &self.settings);
                    if fits.iter().all(|fits| *fits) {
                        self.keep(found.key, Arc::new(parameterised));
                        break;
                    }
                    // Literals are numbered in the text, those that are pinned among them.
                    let numbers = (0..).filter(|number| !pinned.contains(number));
                    let unfit: Vec<usize> = numbers.zip(&fits).filter(|(_, fits)| !**fits).map(|(n, _)| n).collect();
                    pinned.extend(unfit);
                }
                None => pinned = (0..before + found.literals.len()).collect(),
            }
        }
        engine.texts.kept.lock().shapes.insert(shape, pinned);
    }

    /// Whether something right is kept under a key.
    fn has(&self, key: &str) -> bool {
        let (purpose, meaning) = (self.purpose(), self.state().meaning());
        let kept = self.engine.texts.kept.lock();
        let mut texts = kept.texts.get(key).into_iter().flatten();
        texts.any(|text| text.meaning == meaning && text.purpose == purpose)
    }

    fn keep(&self, key: String, prepared: Arc<Prepared>) {
        // A plan that holds a value of its statement serves no other.
        let described = prepared.plan.lock();
        let right = described
            .as_ref()
            .filter(|(state, plan)| Basis::of(plan, state).is_some());
        let Some(meaning) = right.map(|(state, _)| state.meaning()) else {
            return;
        };
        drop(described);
        if !prepared.params.is_empty() {
            // It may lie unused, and must not hold an old version of a table in memory.
            prepared.plan.lock().take();
        }
        let text = SharedText {
            prepared,
            purpose: self.purpose(),
            meaning,
            uses: AtomicU64::new(0),
            used: AtomicU64::new(0),
        };
        self.engine.texts.kept.lock().put(key, text);
    }

    /// The text prepared with parameters.
    async fn with_parameters(&mut self, cut: &Cut) -> Option<Prepared> {
        let statement = self.parse(&cut.text).ok()?.pop()?;
        let prepared = self.prepare_apart(statement).await.ok()?;
        let usable = prepared.may_keep_plan() && prepared.params.len() == cut.literals.len();
        usable.then_some(prepared)
    }
}
