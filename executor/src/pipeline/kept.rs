//! What is kept of a plan for its further executions: its forms as a fragment, and what the CPU took for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;

use super::compiled::Compiled;
use super::fragment::Sizes;
use super::given::{GivenRows, Tried};
use super::passes::Passes;
use super::top::Top;
use crate::codegen::Translated;

/// More passes take longer than the CPU.
const PASSES_MAX: u64 = 64;
/// By how many bits less than what is expected tables have room, as it is tried: a table that is full is made anew.
const FEWER_BITS: [u32; 2] = [0, 3];
/// Runs in which tables were full, after which none is tried in less memory than the plan may take.
const FULL_MAX: u32 = 6;
/// Runs in which rows failed, after which the plan is the CPU's.
const FAILED_MAX: u64 = 2;
/// Keys that are tried.
const CLASSES_TRIED: usize = 3;

/// A plan's form as a fragment, or why it has none.
type Form = Translated<Arc<Compiled>>;

/// Forms with room for all rows that there may be, or were seen; for those that are expected, or were seen; and the same in
/// passes.
#[derive(Default)]
struct Forms {
    made: [Option<Form>; 3],
    /// Rows that each table has at least in all passes together, as far as tables were full; 0: it was not.
    least: Vec<u64>,
    /// How often some were.
    full: u32,
}

#[derive(Default)]
pub struct Kept {
    forms: Mutex<Forms>,
    /// The shortest time that the CPU has taken.
    host: Shortest,
    /// The shortest that the device has, with all columns there, and with some in chunks.
    device: [Shortest; 2],
    /// How often some row failed there.
    failed: AtomicU64,
    /// Forms whose nodes' rows are counted; whether these are such.
    counting: OnceLock<Arc<Kept>>,
    counts_rows: bool,
    /// Rows of the CPU that its forms are made with; those that forms of the same plan last were.
    rows_given: Option<Arc<GivenRows>>,
    pub given: Mutex<Tried>,
}

/// A run on the device that takes as long again: nothing was compiled, and no columns were copied but in chunks.
#[derive(Clone, Copy, Debug)]
pub struct Again {
    pub in_chunks: bool,
}

/// The shortest of times, in nanoseconds; 0: there was none; and how many there were.
#[derive(Default)]
struct Shortest(AtomicU64, AtomicU64);

impl Shortest {
    fn note(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        let least = |seen: u64| Some(if seen == 0 { took } else { seen.min(took) });
        // The closure always gives a value.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, least);
        self.1.fetch_add(1, Ordering::Relaxed);
    }

    /// In seconds, of so many or more.
    fn of(&self, times: u64) -> Option<f64> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            _ if self.1.load(Ordering::Relaxed) < times => None,
            ns => Some(ns as f64 / 1e9),
        }
    }
}

/// Which form.
#[derive(Clone, Copy)]
pub enum FormOf<'a> {
    /// With room for all rows.
    Whole,
    /// Sparing with memory.
    Sparing,
    /// Sparing, and in as many passes as it takes until it fits.
    Passes(&'a dyn Fn(&Arc<Compiled>) -> bool),
}

impl Kept {
    /// A form of the plan: what earlier runs have told of its sizes counts.
    pub fn form(&self, plan: &Arc<dyn ExecutionPlan>, top: Option<&Top>, of: FormOf<'_>) -> Form {
        let forms = &mut *self.forms.lock();
        let at = match of {
            FormOf::Whole => 0,
            FormOf::Sparing => 1,
            FormOf::Passes(_) => 2,
        };
        let (counts_rows, given) = (self.counts_rows, &self.rows_given);
        let made = |sizes: &Sizes| {
            let sizes = Sizes {
                counts_rows,
                given: given.clone(),
                ..sizes.clone()
            };
            Compiled::of(plan, top, &sizes).map(Arc::new)
        };
        let known = match &forms.made[at] {
            Some(Err(why)) => return Err(why.clone()),
            other => other.as_ref().and_then(|form| form.clone().ok()),
        };
        let better = match &known {
            None => None,
            Some(compiled) => {
                forms.learn(compiled);
                match (compiled.better_sizes(), of) {
                    (Some(sizes), _) => Some(made(&sizes)),
                    (None, FormOf::Passes(fits)) if !fits(compiled) => None,
                    (None, _) => return Ok(Arc::clone(compiled)),
                }
            }
        };
        let form = match (better, of) {
            (Some(better), FormOf::Passes(fits)) if !better.as_ref().is_ok_and(fits) => forms.in_passes(fits, made),
            (Some(better), _) => better,
            (None, FormOf::Passes(fits)) => forms.in_passes(fits, made),
            (None, _) => made(&Sizes {
                sparing: at > 0,
                seen: forms.seen(),
                ..Sizes::default()
            }),
        };
        forms.made[at] = match &form {
            // The next execution has other values.
            Ok(compiled) if compiled.fragment.once => None,
            other => Some(other.clone()),
        };
        form
    }

    /// Forms of the same that count the rows of nodes.
    pub fn counting(&self) -> &Arc<Self> {
        self.counting.get_or_init(|| {
            Arc::new(Self {
                counts_rows: true,
                rows_given: self.rows_given.clone(),
                ..Self::default()
            })
        })
    }

    /// Forms with such rows of the CPU.
    pub fn with(given: Arc<GivenRows>) -> Self {
        Self {
            rows_given: Some(given),
            ..Self::default()
        }
    }

    /// Some row had no value on the device, or too many partners: mostly that is so of the same rows again.
    pub fn note_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it is not tried once more.
    pub fn fails(&self) -> bool {
        self.failed.load(Ordering::Relaxed) >= FAILED_MAX
    }

    /// The CPU has done the same in this time.
    pub fn note_host(&self, took: Duration) {
        self.host.note(took);
    }

    /// The device has done it in this time.
    pub fn note_device(&self, again: Again, took: Duration) {
        self.device[usize::from(again.in_chunks)].note(took);
    }

    /// What the CPU took, in seconds.
    pub fn host_s(&self) -> Option<f64> {
        self.host.of(1)
    }

    /// What the device took. One run tells little: it may have waited for memory, and then none would follow.
    pub fn device_s(&self, in_chunks: bool) -> Option<f64> {
        self.device[usize::from(in_chunks)].of(2)
    }
}

impl Forms {
    /// Notes of which tables the form had too little room for.
    fn learn(&mut self, compiled: &Compiled) {
        if compiled.was_too_small() {
            self.full += 1;
        }
        let rows = compiled.least_rows();
        self.least.resize(rows.len(), 0);
        for (least, rows) in self.least.iter_mut().zip(rows) {
            *least = rows.max(*least);
        }
    }

    /// How many rows tables have where there are no passes.
    fn seen(&self) -> Vec<Option<u64>> {
        let known = self.made[..2].iter().flatten().filter_map(|form| form.as_ref().ok());
        known.filter_map(|form| form.seen()).next().unwrap_or_default()
    }

    /// The same, or at least so many.
    fn seen_or_least(&self) -> Vec<Option<u64>> {
        let seen = self.seen();
        let tables = seen.len().max(self.least.len());
        let least = |table: usize| self.least.get(table).copied().filter(|least| *least > 0);
        (0..tables)
            .map(|table| seen.get(table).copied().flatten().max(least(table)))
            .collect()
    }

    /// A form in the fewest passes that let it fit, by the key of which there are most rows that this is so of; else one with
    /// room for fewer rows than are expected, which often are less than that.
    fn in_passes(&self, fits: &dyn Fn(&Arc<Compiled>) -> bool, made: impl Fn(&Sizes) -> Form) -> Form {
        if self.full > FULL_MAX {
            return Err("tables were full too often".into());
        }
        let whole = self.made.iter().flatten().find_map(|form| form.clone().ok());
        let whole = whole.map_or_else(|| made(&Sizes::default()), Ok)?;
        let classes = whole.classes();
        let mut refused = "no key to have passes by".to_string();
        let seen = self.seen_or_least();
        for fewer_bits in FEWER_BITS {
            for (at, class) in classes.iter().take(CLASSES_TRIED).enumerate() {
                // Without passes there is no key: that is tried once.
                let first = u32::from(at > 0);
                for bits in first..=PASSES_MAX.ilog2() {
                    let passes = Passes::of(class, 1 << bits);
                    if bits > 0 && passes.is_none() {
                        break;
                    }
                    let sizes = Sizes {
                        sparing: true,
                        fewer_bits,
                        passes: passes.map(Arc::new),
                        seen: seen.clone(),
                        seen_whole: true,
                        ..Sizes::default()
                    };
                    match made(&sizes) {
                        Ok(compiled) if fits(&compiled) => return Ok(compiled),
                        Ok(_) => refused = format!("more memory than there is in {PASSES_MAX} passes"),
                        Err(why) => {
                            refused = why;
                            break;
                        }
                    }
                }
            }
        }
        Err(refused)
    }
}
