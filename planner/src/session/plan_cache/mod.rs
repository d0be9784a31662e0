//! Physical plans that prepared statements keep from one execution to the next.
//!
//! A plan is kept with all that it depends on: the names of the catalog, the versions of the tables that the query
//! names, the session's settings and search path, and how often ANALYZE has run. It is made for certain values of the
//! statement's parameters, or leaves them open (`optimizer/parameters.rs`); `slot` says when which. It is held here, and by its
//! statement only weakly: a statement that lies unused must not keep an old version of a table in memory, so plans over
//! versions that are gone are dropped as soon as any statement ends.
//!
//! A plan over few rows outlives the versions of its tables (`movable`): without these it is kept on, and run over the tables
//! that its statement sees, those with the transaction's own changes too.

mod movable;
mod slot;

pub(crate) use slot::{Found, PlanCacheMode, Slot};

use crate::optimizer::execution::{fresh, shares_state};
use crate::optimizer::few;
use crate::optimizer::open_limits::OpenLimits;
use crate::pg::settings::Settings;
use crate::session::plan_cache::movable::Movable;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result as DataFusionResult, ScalarValue};
use datafusion::datasource::{ViewTable, source_as_provider};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Weak};
use tenon_executor::scan::SegmentTable;
use tenon_storage::{DatabaseState, TableVersion, analyze_count};

/// Plans kept by all sessions together.
const PLANS_MAX: usize = 1024;

/// What a plan was made for, apart from the data and the values of parameters.
#[derive(Clone, Debug)]
pub(crate) struct Purpose {
    pub settings: Settings,
    /// Schemas in which names are looked up.
    pub path: Arc<[String]>,
    /// Whose rights the plan was found to need no more than; one number for all superusers. Another role has plans of its own,
    /// and what a role may do changes with what names mean.
    pub rights: u32,
    /// The session whose own random numbers it has.
    pub seeded: Option<i32>,
}

impl PartialEq for Purpose {
    fn eq(&self, other: &Self) -> bool {
        self.rights == other.rights
            && self.seeded == other.seeded
            && self.path == other.path
            && self.settings.plans_like(&other.settings)
    }
}

/// A plan that has not run, and what it depends on.
#[derive(Debug)]
pub(crate) struct KeptPlan {
    /// Over the versions that it was made for; None where these are gone, or not all sessions see them.
    plan: Mutex<Option<Arc<dyn ExecutionPlan>>>,
    /// Over others.
    movable: Option<Movable>,
    /// Whether it may be evaluated at once.
    few: bool,
    purpose: Purpose,
    serves: Serves,
    /// What tells the time in it, as parameters after the statement's.
    moments: Vec<String>,
    basis: Basis,
    analyzed: u64,
    /// The state that it was last found right for.
    state: Mutex<Weak<DatabaseState>>,
}

/// Which values of its statement's parameters a plan is for.
#[derive(Debug)]
pub(crate) enum Serves {
    /// Those that it has in place of the parameters.
    These(Vec<ScalarValue>),
    /// Any for which its limits are large enough: it leaves the parameters open.
    Any(OpenLimits),
}

/// The data that a query reads.
#[derive(Debug)]
pub(crate) struct Basis {
    /// Schema, name and version of each table.
    tables: Vec<(String, String, u64)>,
    /// How often they are read.
    scans: usize,
    /// What names mean.
    meaning: u64,
}

/// One a server.
#[derive(Default)]
pub(crate) struct PlanCache {
    kept: Mutex<Kept>,
    /// The address of the state that all were last checked against, which is kept from others for as long as [`Kept::state`]
    /// names it.
    checked: AtomicPtr<DatabaseState>,
}

#[derive(Default)]
struct Kept {
    plans: Vec<Arc<KeptPlan>>,
    /// Those of them that hold versions of tables.
    holding: Vec<Arc<KeptPlan>>,
    /// The state that all of them were last checked against, and what names meant in it.
    state: Weak<DatabaseState>,
    meaning: u64,
}

impl KeptPlan {
    /// The plan to run for this purpose and state, if it is right; and whether it is to be moved to the state's tables.
    fn for_state(&self, purpose: &Purpose, state: &Arc<DatabaseState>) -> Option<(Arc<dyn ExecutionPlan>, bool)> {
        if self.purpose != *purpose || self.analyzed != analyze_count() {
            return None;
        }
        let made = self.plan.lock().clone();
        if let Some(plan) = made {
            let mut checked = self.state.lock();
            let right = checked.as_ptr() == Arc::as_ptr(state) || self.basis.holds_in(state);
            if right {
                *checked = Arc::downgrade(state);
                return Some((plan, false));
            }
        }
        let movable = self.movable.as_ref()?;
        let right = self.basis.meaning == state.meaning() && movable.fits(state);
        right.then(|| (movable.plan().clone(), true))
    }

    /// Gives up the versions of tables that it holds; whether it is of use without them.
    fn let_go(&self) -> bool {
        *self.plan.lock() = None;
        self.movable.is_some()
    }

    fn is_useful(&self) -> bool {
        self.movable.is_some() || self.plan.lock().is_some()
    }
}

impl Basis {
    /// What a query depends on; None where it reads anything but tables, and for a state that is not the committed one.
    pub fn of(plan: &LogicalPlan, state: &Arc<DatabaseState>) -> Option<Self> {
        let mut tables = Vec::new();
        collect(plan, &mut tables)?;
        let scans = tables.len();
        tables.sort_unstable();
        tables.dedup();
        Some(Self {
            tables,
            scans,
            meaning: state.meaning(),
        })
    }

    /// How many tables there are.
    pub fn tables(&self) -> usize {
        self.tables.len()
    }

    fn holds_in(&self, state: &DatabaseState) -> bool {
        state.meaning() == self.meaning && self.is_current(state)
    }

    fn is_current(&self, state: &DatabaseState) -> bool {
        self.tables.iter().all(|(schema, name, version)| {
            let found = state.table(schema, name);
            found.is_some_and(|table| table.version() == *version)
        })
    }
}

/// Tables that a plan reads, with those of its views and subqueries.
fn collect(plan: &LogicalPlan, tables: &mut Vec<(String, String, u64)>) -> Option<()> {
    let mut note = |table: &Arc<TableVersion>| {
        let schema = table.definition().schema_name.clone();
        tables.push((schema, table.name().to_owned(), table.version()));
    };
    each_table(plan, &mut note).ok().filter(|known| *known).map(drop)
}

/// Has each table seen that a plan reads, with those of its views and subqueries. False: it reads others than these, too.
pub(super) fn each_table(plan: &LogicalPlan, see: &mut dyn FnMut(&Arc<TableVersion>)) -> DataFusionResult<bool> {
    let mut known = true;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let provider = source_as_provider(&scan.source)?;
            if let Some(table) = provider.downcast_ref::<SegmentTable>() {
                see(table.table());
            } else if let Some(view) = provider.downcast_ref::<ViewTable>() {
                known &= each_table(view.logical_plan(), see)?;
            } else {
                known = false;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(known)
}

/// A promise to keep the plan that is about to be made.
pub(crate) struct Keeper {
    pub slot: Arc<Slot>,
    pub moments: Vec<String>,
    pub purpose: Purpose,
    pub basis: Basis,
    pub state: Weak<DatabaseState>,
    pub analyzed: u64,
    /// Whether the versions of its tables are worth keeping it for: others may see them, and its statement does not change
    /// them.
    pub versions: bool,
}

impl PlanCache {
    /// Keeps a plan that is about to run for the first time, and the values that it
    /// serves.
    pub fn keep(&self, keeper: Keeper, plan: &Arc<dyn ExecutionPlan>, serves: Serves) {
        if shares_state(plan) {
            return;
        }
        let few = few::is_candidate(plan);
        let movable = Movable::of(plan, keeper.basis.scans);
        let reads = !keeper.basis.tables.is_empty();
        let plan = if keeper.versions || !reads {
            fresh(plan, None).ok()
        } else {
            None
        };
        if plan.is_none() && movable.is_none() {
            return;
        }
        let holds = plan.is_some() && reads;
        let kept = Arc::new(KeptPlan {
            few,
            plan: Mutex::new(plan),
            movable,
            purpose: keeper.purpose,
            serves,
            moments: keeper.moments,
            basis: keeper.basis,
            analyzed: keeper.analyzed,
            state: Mutex::new(keeper.state),
        });
        keeper.slot.take(&kept);
        let mut own = self.kept.lock();
        if own.plans.len() >= PLANS_MAX {
            // Those whose statements are gone; else the oldest.
            own.retain(|plan| Arc::weak_count(plan) > 0);
            if own.plans.len() >= PLANS_MAX {
                let oldest = own.plans.remove(0);
                own.holding.retain(|plan| !Arc::ptr_eq(plan, &oldest));
            }
        }
        if holds {
            own.holding.push(kept.clone());
        }
        own.plans.push(kept);
    }

    /// Drops the plans over tables that are no longer what they were.
    pub fn forget_stale(&self, state: &Arc<DatabaseState>) {
        if self.checked.load(Ordering::Acquire).cast_const() == Arc::as_ptr(state) {
            return;
        }
        let mut own = self.kept.lock();
        self.checked.store(Arc::as_ptr(state).cast_mut(), Ordering::Release);
        own.state = Arc::downgrade(state);
        if own.meaning != state.meaning() {
            own.meaning = state.meaning();
            // With them go the definitions of tables that may be gone, and what is kept with those.
            own.retain(|plan| plan.basis.meaning == state.meaning());
        }
        let mut useless = false;
        own.holding.retain(|plan| {
            let lives = Arc::weak_count(plan) > 0;
            let holds = lives && plan.basis.is_current(state);
            useless |= !(holds || plan.let_go() && lives);
            holds
        });
        if useless {
            own.retain(|plan| Arc::weak_count(plan) > 0 && plan.is_useful());
        }
    }
}

impl Kept {
    fn retain(&mut self, wanted: impl Fn(&Arc<KeptPlan>) -> bool) {
        self.plans.retain(&wanted);
        self.holding.retain(&wanted);
    }
}
