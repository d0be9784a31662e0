//! Views: stored as text, planned where they are used, in the snapshot of the query.

use super::{Binder, reads};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::identity::Acting;
use crate::pg::parse::parse_query;
use crate::pg::rewrite::rewrite;
use datafusion::common::TableReference;
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, TableSource};
use datafusion::prelude::Expr;
use datafusion::sql::sqlparser::ast;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tenon_storage::{DatabaseState, SqlType, View};

/// Stack that planning one view may take, and how much is added where there is less.
const STACK_LEFT_BYTES_MIN: usize = 1 << 20;
const STACK_MORE_BYTES: usize = 8 << 20;

pub(super) fn source(binder: &Binder, view: &View) -> Result<Arc<dyn TableSource>> {
    let mut binder = binder.deeper()?;
    binder.acting = match view.is_of_invoker() {
        true => binder.facts.acting,
        false => Acting::of(&binder.snapshot, binder.snapshot.owner(view.oid)),
    };
    // Views in views: each takes its planner's stack once more.
    let plan = stacker::maybe_grow(STACK_LEFT_BYTES_MIN, STACK_MORE_BYTES, || plan(&binder, view))?;
    Ok(provider_as_source(Arc::new(ViewTable::new(
        plan,
        Some(view.sql.clone()),
    ))))
}

/// The columns of views that a statement has asked for, and their types as far as these are known: their queries may ask for
/// those of other views in turn, each of which would be planned for every way that leads to it.
#[derive(Clone, Default)]
pub(super) struct ColumnsOfViews(Arc<Mutex<HashMap<u32, Known>>>);

/// A view's columns in a snapshot.
type Known = (Arc<DatabaseState>, Columns);
type Columns = Vec<(String, Option<SqlType>)>;

impl ColumnsOfViews {
    /// Of the view with this oid in a snapshot.
    pub(super) fn get(&self, snapshot: &Arc<DatabaseState>, oid: u32) -> Option<Columns> {
        let known = self.0.lock();
        let (of, columns) = known.get(&oid)?;
        Arc::ptr_eq(of, snapshot).then(|| columns.clone())
    }

    pub(super) fn keep(&self, snapshot: &Arc<DatabaseState>, oid: u32, columns: &Columns) {
        self.0.lock().insert(oid, (Arc::clone(snapshot), columns.clone()));
    }
}

impl Binder {
    /// A view's query, whoever may read what it reads.
    pub(crate) fn view_query(&self, mut query: Box<ast::Query>) -> Result<LogicalPlan> {
        rewrite(&mut query);
        self.clone().trusted().plan(ast::Statement::Query(query), Vec::new())
    }

    /// Whether a query uses a column of a relation.
    pub(crate) fn uses_column(plan: &LogicalPlan, (schema, name): (&str, &str), column: &str) -> bool {
        reads::uses(plan, &TableReference::partial(schema, name)).contains(column)
    }
}

/// The view's query, its columns named as when it was created.
fn plan(binder: &Binder, view: &View) -> Result<LogicalPlan> {
    let changed = || {
        let message = format!("view \"{}\" no longer fits the tables it reads", view.name);
        SqlError::new(state::INVALID_TABLE_DEFINITION, message)
    };
    let mut query = parse_query(&view.sql)?.ok_or_else(changed)?;
    rewrite(&mut query);
    let plan = binder.plan(ast::Statement::Query(query), Vec::new())?;
    let fields = view.schema.fields();
    if plan.schema().fields().len() < fields.len() {
        return Err(changed());
    }
    let columns = plan.schema().columns();
    let named = columns
        .into_iter()
        .zip(fields)
        .map(|(column, field)| Expr::Column(column).alias(field.name()));
    let named: Vec<Expr> = named.collect();
    LogicalPlanBuilder::from(plan)
        .project(named)
        .and_then(LogicalPlanBuilder::build)
        .map_err(|error| crate::pg::errors::from_datafusion(&error))
}
