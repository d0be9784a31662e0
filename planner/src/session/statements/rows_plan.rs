//! Plans over rows that a statement gives, kept with it, which read no table: of ON CONFLICT DO UPDATE's assignments, over pairs of
//! rows, and of RETURNING's expressions, over what was written.

use super::{moments, query};
use crate::catalog::bind::Binder;
use crate::optimizer::few::{self, Given};
use crate::pg::error::Result;
use crate::pg::errors::from_datafusion;
use crate::session::made_for::MadeFor;
use crate::session::moment_words::names_a_moment;
use crate::session::run;
use crate::session::{Prepared, Session};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use tenon_storage::TableDefinition;

/// Such a plan, and what it was made for.
pub(crate) struct RowsPlan {
    plan: Arc<dyn ExecutionPlan>,
    /// What tells the time in it, as parameters after the statement's.
    moments: Vec<String>,
    /// A statement that lies unused must not hold what a table has that is gone.
    definition: Weak<TableDefinition>,
    made_for: MadeFor,
}

/// Where a statement keeps one.
pub(crate) type Place = Mutex<Option<Arc<RowsPlan>>>;

/// What the plan that is kept gives for some rows; None: there is none, or they are too many.
pub(super) fn rows(
    session: &Session,
    place: &Place,
    definition: &Arc<TableDefinition>,
    given: &RecordBatch,
    params: &[ScalarValue],
) -> Result<Option<Vec<RecordBatch>>> {
    let kept = place.lock().clone();
    match kept.filter(|kept| kept.is_right(session, definition)) {
        Some(kept) => kept.rows(session, given, params),
        None => Ok(None),
    }
}

impl RowsPlan {
    /// A plan that leaves its parameters open, made for a table.
    pub fn of(
        session: &Session,
        definition: &Arc<TableDefinition>,
        plan: Arc<dyn ExecutionPlan>,
        moments: Vec<String>,
    ) -> Self {
        Self {
            plan,
            moments,
            definition: Arc::downgrade(definition),
            made_for: MadeFor::of(session),
        }
    }

    /// Whether it does for the session and the table what one made now would.
    pub fn is_right(&self, session: &Session, definition: &Arc<TableDefinition>) -> bool {
        self.definition.as_ptr() == Arc::as_ptr(definition) && self.made_for.is_right(session)
    }

    /// What it gives for some rows; None: they are too many.
    pub fn rows(
        &self,
        session: &Session,
        given: &RecordBatch,
        params: &[ScalarValue],
    ) -> Result<Option<Vec<RecordBatch>>> {
        let moments = query::moments_of(session, &self.moments)?;
        let values = [params, &moments].concat();
        let given = Given {
            values: Some(&values),
            rows: Some(given),
            ..Given::default()
        };
        few::rows(&self.plan, given).map_err(|error| from_datafusion(&error))
    }
}

/// Keeps the plan, with its parameters open, where the statement comes again and the plan is short.
pub(super) async fn keep(
    session: &Session,
    binder: &Binder,
    (prepared, place): (&Prepared, &Place),
    definition: &Arc<TableDefinition>,
    (plan, params): (&LogicalPlan, usize),
) -> Result<()> {
    // One that names a day, such as 'today', does not last.
    if !prepared.slot.was_repeated() || names_a_moment(prepared.sql()) {
        return Ok(());
    }
    let (plan, lasts) = moments::opened(binder, plan.clone(), params)?;
    if !lasts {
        return Ok(());
    }
    // What cannot be planned without its values is planned with them, each time.
    let open = run::open(&session.run(), &plan, &[]).await.unwrap_or(None);
    if let Some((open, _)) = open.filter(|(open, _)| few::is_over_rows(open)) {
        let moments = moments::named(&plan, params)?;
        *place.lock() = Some(Arc::new(RowsPlan::of(session, definition, open, moments)));
    }
    Ok(())
}
