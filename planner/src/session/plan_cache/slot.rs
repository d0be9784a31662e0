//! A prepared statement's choice between a plan for the values that it is executed with and one for any values.
//!
//! As in PostgreSQL (plancache.c, choose_custom_plan): the first executions are planned for their values. Then a plan is
//! made that leaves the values open, and kept if it costs no more than planning and running the others did on average; or no
//! more than that for the values that there are then, of which both costs may depend far more.

use super::{KeptPlan, Purpose, Serves};
use crate::optimizer::execution::{fresh, moved};
use crate::optimizer::few::{self, Given};
use crate::pg::error::Result;
use crate::pg::errors::from_datafusion;
use crate::pg::settings::Settings;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use tenon_storage::DatabaseState;

/// Executions that are planned for their values before a generic plan is thought of.
const CUSTOM_FIRST: usize = 5;
/// Plans for any values that a statement has at most.
const GENERIC_MAX: usize = 8;
/// What planning a query costs, for each of its tables and one more, in EXPLAIN's unit.
const PLANNING: f64 = 2.5;

/// The setting `plan_cache_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlanCacheMode {
    Auto,
    Generic,
    Custom,
}

impl PlanCacheMode {
    pub fn of(settings: &Settings) -> Self {
        match settings.get("plan_cache_mode").as_deref() {
            Some("force_generic_plan") => PlanCacheMode::Generic,
            Some("force_custom_plan") => PlanCacheMode::Custom,
            _ => PlanCacheMode::Auto,
        }
    }
}

/// A prepared statement's place for its plans. It holds them weakly, see the module above.
#[derive(Debug, Default)]
pub(crate) struct Slot(Mutex<Plans>);

#[derive(Debug, Default)]
struct Plans {
    /// For the values of the last execution, or for a statement without parameters.
    custom: Weak<KeptPlan>,
    /// For any, one for each power of its limits.
    generic: Vec<Weak<KeptPlan>>,
    executions: usize,
    history: History,
    /// Its query has needed more memory than there was: it is planned anew each time, so that it can go on through files.
    spills: bool,
}

/// What plans have cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct History {
    customs: usize,
    /// Of all of them, with their planning.
    custom_cost: f64,
    /// None: no generic plan has been made. Infinite: there can be none.
    generic_cost: Option<f64>,
    /// What planning and running cost for the values that the generic plan was made at.
    custom_beside: f64,
}

impl History {
    fn wants_generic(&self, mode: PlanCacheMode) -> bool {
        let possible = self.generic_cost != Some(f64::INFINITY);
        match mode {
            PlanCacheMode::Custom => false,
            PlanCacheMode::Generic => possible,
            PlanCacheMode::Auto if self.customs < CUSTOM_FIRST || !possible => false,
            PlanCacheMode::Auto => self
                .generic_cost
                .is_none_or(|cost| cost <= (self.custom_cost / self.customs as f64).max(self.custom_beside)),
        }
    }
}

fn is_there(kept: &Weak<KeptPlan>) -> bool {
    kept.strong_count() > 0
}

/// A kept plan for a statement that is about to run.
pub(crate) struct Found {
    kept: Arc<KeptPlan>,
    plan: Arc<dyn ExecutionPlan>,
    /// Whose tables it is to be moved to.
    state: Option<Arc<DatabaseState>>,
    /// The statement's values with the time, where the plan tells it.
    values: Option<Vec<ScalarValue>>,
}

impl Found {
    fn of(kept: Arc<KeptPlan>, purpose: &Purpose, state: &Arc<DatabaseState>) -> Option<Self> {
        let (plan, moves) = kept.for_state(purpose, state)?;
        let state = moves.then(|| state.clone());
        Some(Self {
            kept,
            plan,
            state,
            values: None,
        })
    }

    /// What tells the time in it.
    pub fn moments(&self) -> &[String] {
        &self.kept.moments
    }

    /// The same at a time.
    pub fn at(mut self, values: &[ScalarValue], moments: Vec<ScalarValue>) -> Self {
        if !moments.is_empty() {
            self.values = Some([values, &moments].concat());
        }
        self
    }

    fn values<'v>(&'v self, values: &'v [ScalarValue]) -> Option<&'v [ScalarValue]> {
        let values = self.values.as_deref().unwrap_or(values);
        matches!(self.kept.serves, Serves::Any(_)).then_some(values)
    }

    /// The rows, where they are few and can be had at once.
    pub fn few(&self, values: &[ScalarValue]) -> Option<Result<Vec<RecordBatch>>> {
        if !self.kept.few {
            return None;
        }
        let given = Given {
            values: self.values(values),
            state: self.state.as_deref(),
            ..Given::default()
        };
        let rows = few::rows(&self.plan, given);
        rows.map_err(|error| from_datafusion(&error)).transpose()
    }

    /// A copy that runs with the values.
    pub fn plan(&self, values: &[ScalarValue]) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = fresh(&self.plan, self.values(values));
        let plan = match &self.state {
            Some(state) => plan.and_then(|plan| moved(&plan, state)),
            None => plan,
        };
        plan.map_err(|error| from_datafusion(&error))
    }
}

impl Slot {
    /// Counts an execution; whether there has been one before, so that a plan is worth keeping.
    pub fn is_repeated(&self) -> bool {
        let mut own = self.0.lock();
        own.executions += 1;
        own.executions > 1
    }

    /// Whether plans may be kept for it.
    pub fn has_plans(&self) -> bool {
        let own = self.0.lock();
        is_there(&own.custom) || own.generic.iter().any(is_there)
    }

    /// Whether executions were counted, and more than one.
    pub fn was_repeated(&self) -> bool {
        self.0.lock().executions > 1
    }

    /// How often a plan for given values was made, and whether plans for any values are used.
    pub fn plans(&self) -> (usize, bool) {
        let own = self.0.lock();
        (
            own.history.customs,
            own.history.wants_generic(PlanCacheMode::Auto) && own.generic.iter().any(is_there),
        )
    }

    /// The query has needed more memory than there was.
    pub fn note_spilling(&self) {
        self.0.lock().spills = true;
    }

    pub fn spills(&self) -> bool {
        self.0.lock().spills
    }

    /// Whether the next plan is to be one for any values.
    pub fn wants_generic(&self, mode: PlanCacheMode) -> bool {
        self.0.lock().history.wants_generic(mode)
    }

    /// A kept plan, if one is right for this purpose and state.
    pub fn find(
        &self,
        purpose: &Purpose,
        values: &[ScalarValue],
        mode: PlanCacheMode,
        state: &Arc<DatabaseState>,
    ) -> Option<Found> {
        let (custom, generic) = {
            let own = self.0.lock();
            if own.spills {
                return None;
            }
            let fits = |kept: &Arc<KeptPlan>| matches!(&kept.serves, Serves::Any(limits) if limits.fit(values));
            let generic = match own.history.wants_generic(mode) {
                true => own.generic.iter().filter_map(Weak::upgrade).find(fits),
                false => None,
            };
            let custom = (mode != PlanCacheMode::Generic || values.is_empty()).then(|| own.custom.upgrade());
            (custom.flatten(), generic)
        };
        let custom = custom.filter(|kept| matches!(&kept.serves, Serves::These(own) if own == values));
        let right = |kept| Found::of(kept, purpose, state);
        custom.and_then(right).or_else(|| generic.and_then(right))
    }

    /// Takes in a plan that is kept elsewhere.
    pub(super) fn take(&self, kept: &Arc<KeptPlan>) {
        let mut own = self.0.lock();
        match &kept.serves {
            Serves::These(_) => own.custom = Arc::downgrade(kept),
            Serves::Any(limits) => {
                let is_like = |other: &KeptPlan| matches!(&other.serves, Serves::Any(own) if own == limits);
                let stays = |other: &Weak<KeptPlan>| other.upgrade().is_some_and(|other| !is_like(&other));
                own.generic.retain(stays);
                if own.generic.len() == GENERIC_MAX {
                    own.generic.remove(0);
                }
                own.generic.push(Arc::downgrade(kept));
            }
        }
    }

    /// A plan for given values has been made, of so many tables and this cost.
    pub fn note_custom(&self, tables: usize, cost: f64) {
        let history = &mut self.0.lock().history;
        history.customs += 1;
        history.custom_cost += cost + PLANNING * (tables + 1) as f64;
    }

    /// The same for the values for which a plan for any was not cheap enough; `alike`: the plans do the same. Whether that for any is
    /// to be used after all.
    pub fn note_custom_beside(&self, tables: usize, cost: f64, alike: bool, mode: PlanCacheMode) -> bool {
        self.note_custom(tables, cost);
        let history = &mut self.0.lock().history;
        history.custom_beside = match alike {
            true => f64::INFINITY,
            false => cost + PLANNING * (tables + 1) as f64,
        };
        history.wants_generic(mode)
    }

    /// A plan for any values has this cost; None: there is no such plan. Whether it is to be used.
    pub fn note_generic(&self, cost: Option<f64>, mode: PlanCacheMode) -> bool {
        let history = &mut self.0.lock().history;
        history.generic_cost = Some(cost.unwrap_or(f64::INFINITY));
        history.wants_generic(mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_plans_come_after_five_others_if_they_cost_no_more() {
        let slot = Slot::default();
        for _ in 0..CUSTOM_FIRST {
            assert!(!slot.wants_generic(PlanCacheMode::Auto) && slot.wants_generic(PlanCacheMode::Generic));
            slot.note_custom(1, 10.0);
        }
        assert!(slot.wants_generic(PlanCacheMode::Auto) && !slot.wants_generic(PlanCacheMode::Custom));
        // 10 for running and 5 for planning are what the others cost.
        assert!(slot.note_generic(Some(14.0), PlanCacheMode::Auto) && slot.wants_generic(PlanCacheMode::Auto));
        assert!(!slot.note_generic(Some(16.0), PlanCacheMode::Auto) && !slot.wants_generic(PlanCacheMode::Auto));
        assert!(slot.wants_generic(PlanCacheMode::Generic));
        assert!(!slot.note_custom_beside(1, 10.0, false, PlanCacheMode::Auto));
        assert!(
            slot.note_custom_beside(1, 11.0, false, PlanCacheMode::Auto) && slot.wants_generic(PlanCacheMode::Auto)
        );
        assert!(!slot.note_generic(None, PlanCacheMode::Generic));
    }
}
