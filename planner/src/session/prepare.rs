//! Preparing a statement: what parameters it takes and what columns it gives.

use super::Session;
use crate::pg::error::{Result, SqlError};
use crate::pg::errors::locate;
use crate::pg::functions::session::now_us;
use crate::pg::outcome::{ColumnDesc, PgType};
use crate::pg::planning;
use crate::pg::statement::{Kind, Statement};
use crate::session::plan_cache::Slot;
use crate::session::run;
use crate::session::statements::{self, Description, KeptColumns, RowsPlace, stages};
use crate::session::tracked::Place;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::DFSchemaRef;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast;
use parking_lot::Mutex;
use std::sync::Arc;
use tenon_storage::DatabaseState;
use tenon_storage::types::OIDS_OF_OBJECTS;

/// A statement ready to be executed, any number of times.
pub struct Prepared {
    /// The parameters as the wire describes them.
    pub params: Vec<PgType>,
    /// The same in order, as Arrow types: what `execute` wants each value to be.
    pub param_data_types: Vec<DataType>,
    /// The result's columns; None for a statement that returns no rows.
    pub columns: Option<Vec<ColumnDesc>>,
    pub(crate) statement: Statement,
    pub(crate) param_fields: Vec<FieldRef>,
    /// The plan made while preparing, good for one execution on the same snapshot. Taken, not kept: a prepared
    /// statement that lies unused must not hold an old version of a table in memory.
    pub(crate) plan: Mutex<Option<(Arc<DatabaseState>, LogicalPlan)>>,
    /// Whose rights that plan was found to need no more than.
    pub(crate) rights: u32,
    /// The physical plan of earlier executions.
    pub(crate) slot: Arc<Slot>,
    /// Where its executions are counted.
    pub(crate) entry: Place,
    /// When it was prepared: microseconds since 1970, UTC.
    pub(crate) prepared_us: i64,
    /// What names meant then.
    pub(crate) meaning: u64,
    /// What is run for it beside its own plan, each with plans that are kept.
    pub(crate) parts: Mutex<Vec<Arc<Prepared>>>,
    /// What RETURNING sees of a change, where that is more than its table.
    pub(crate) returned: Mutex<Option<Arc<KeptColumns>>>,
    /// Of ON CONFLICT DO UPDATE.
    pub(crate) pairs_plan: RowsPlace,
    pub(crate) returning_plan: RowsPlace,
    /// Where parts of it run before the rest.
    pub(crate) stages: stages::Place,
}

impl Prepared {
    /// One that nothing was found out about.
    pub(crate) fn without_parameters(statement: Statement) -> Self {
        Self::of(statement, Vec::new(), None)
    }

    /// One with these parameters and columns.
    pub(crate) fn of(statement: Statement, params: Vec<FieldRef>, columns: Option<Vec<ColumnDesc>>) -> Self {
        Self {
            params: params.iter().map(|field| crate::pg::types::pg_type(field)).collect(),
            param_data_types: params.iter().map(|field| field.data_type().clone()).collect(),
            param_fields: params,
            columns,
            statement,
            plan: Mutex::new(None),
            rights: 0,
            slot: Arc::default(),
            entry: Place::default(),
            prepared_us: now_us(),
            meaning: 0,
            parts: Mutex::default(),
            returned: Mutex::default(),
            pairs_plan: Mutex::default(),
            returning_plan: Mutex::default(),
            stages: Mutex::default(),
        }
    }

    /// A part of it, by its number, with the same parameters.
    pub(crate) fn part(&self, at: usize) -> Arc<Prepared> {
        let mut parts = self.parts.lock();
        while parts.len() <= at {
            let part = Self::of(self.statement.clone(), self.param_fields.clone(), None);
            parts.push(Arc::new(part));
        }
        parts[at].clone()
    }

    /// Whether values of it are of types that ALTER TYPE may change.
    pub(crate) fn has_own_types(&self) -> bool {
        let columns = self.columns.iter().flatten().map(|column| column.pg_type);
        let mut types = self.params.iter().copied().chain(columns);
        types.any(|of| of.oid >= OIDS_OF_OBJECTS)
    }

    /// Refuses another form of the statement whose columns have other types.
    pub(crate) fn check_columns(&self, again: &Prepared) -> Result<()> {
        let types = |prepared: &Prepared| -> Option<Vec<PgType>> {
            Some(prepared.columns.as_ref()?.iter().map(|column| column.pg_type).collect())
        };
        match types(again) == types(self) {
            true => Ok(()),
            false => Err(SqlError::changed_result()),
        }
    }

    /// Whether executing it can return rows.
    pub fn returns_rows(&self) -> bool {
        self.columns.is_some()
    }

    /// The query, where the statement is one.
    pub(crate) fn query(&self) -> Option<&ast::Query> {
        match self.tree()? {
            ast::Statement::Query(query) => Some(query),
            _ => None,
        }
    }

    /// Whether a plan of it may be kept: it is a query, or changes rows.
    pub fn may_keep_plan(&self) -> bool {
        let changes = |tree: &ast::Statement| {
            matches!(
                tree,
                ast::Statement::Insert(_)
                    | ast::Statement::Update(_)
                    | ast::Statement::Delete(_)
                    | ast::Statement::Merge(_)
            )
        };
        self.query().is_some() || self.tree().is_some_and(changes)
    }

    /// What was parsed of it.
    pub(crate) fn tree(&self) -> Option<&ast::Statement> {
        match &self.statement.kind {
            Kind::Sql(tree) => Some(tree),
            _ => None,
        }
    }

    /// Whether this is all of it, and not a part, whose plans are not the statement's.
    pub(crate) fn is_update(&self, update: &ast::Update) -> bool {
        matches!(self.tree(), Some(ast::Statement::Update(own)) if std::ptr::eq(own, update))
    }

    pub(crate) fn is_delete(&self, delete: &ast::Delete) -> bool {
        matches!(self.tree(), Some(ast::Statement::Delete(own)) if std::ptr::eq(own, delete))
    }

    pub(crate) fn is_insert(&self, insert: &ast::Insert) -> bool {
        matches!(self.tree(), Some(ast::Statement::Insert(own)) if std::ptr::eq(own, insert))
    }

    /// The statement's own text.
    pub fn sql(&self) -> &str {
        self.statement.sql()
    }
}

impl Session {
    /// What ends the planning of the statement that runs.
    pub(super) fn planning(&self) -> planning::Statement {
        planning::Statement::new(self.cancel().clone(), self.began, &self.settings)
    }

    /// The columns that a plan gives.
    pub(crate) fn columns(&self, plan: &LogicalPlan) -> Result<DFSchemaRef> {
        let (columns, analyzed) = run::columns(&self.run().state, &self.planning(), plan)?;
        *self.analyzed.lock() = analyzed;
        Ok(columns)
    }

    /// Prepares a statement. `param_types` are the oids that the client declares, 0 where it leaves the choice.
    pub async fn prepare(&mut self, statement: Statement, param_types: &[u32]) -> Result<Prepared> {
        let failed = self.block().is_some_and(|block| block.failed);
        if failed && !statement.ends_transaction() && !matches!(statement.kind, Kind::Empty) {
            return Err(Self::failed_transaction());
        }
        // COMMIT looks at what others did itself, and where that is in its way the block is over.
        let looked = match statement.ends_transaction() {
            true => Ok(()),
            false => self.look_anew(),
        };
        let prepared = match looked {
            Ok(()) => self.prepare_as(statement, param_types).await,
            Err(error) => Err(error),
        };
        prepared.inspect_err(|_| self.fail_transaction())
    }

    /// The same statement for arrays of other numbers of dimensions, one a parameter: a type does not say them, a plan does.
    pub async fn prepare_for(&mut self, prepared: &Prepared, dimensions: Vec<usize>) -> Result<Prepared> {
        let types: Vec<u32> = prepared.params.iter().map(|parameter| parameter.oid).collect();
        self.dimensions = dimensions.into();
        let again = self.prepare(prepared.statement.clone(), &types).await;
        self.dimensions = Arc::default();
        let again = again?;
        prepared.check_columns(&again)?;
        Ok(again)
    }

    /// Whether a statement is to be prepared anew before its parameters are read: types that it has may have changed.
    pub fn is_outdated(&mut self, prepared: &Prepared) -> Result<bool> {
        if !prepared.has_own_types() || self.block().is_some_and(|block| block.failed) {
            return Ok(false);
        }
        self.look_anew().inspect_err(|_| self.fail_transaction())?;
        Ok(prepared.meaning != self.state().meaning())
    }

    /// The same statement with the types as they are now.
    pub async fn prepare_anew(&mut self, prepared: &Prepared) -> Result<Prepared> {
        let types: Vec<u32> = prepared.params.iter().map(|parameter| parameter.oid).collect();
        let mut again = self.prepare(prepared.statement.clone(), &types).await?;
        let checked = prepared.check_columns(&again);
        checked.inspect_err(|_| self.fail_transaction())?;
        again.prepared_us = prepared.prepared_us;
        Ok(again)
    }

    /// The same for another form of a statement, whose failure is nobody's.
    pub(crate) async fn prepare_apart(&mut self, statement: Statement) -> Result<Prepared> {
        self.prepare_as(statement, &[]).await
    }

    async fn prepare_as(&mut self, statement: Statement, param_types: &[u32]) -> Result<Prepared> {
        let engine = self.engine.clone();
        let place = engine.planning.take().await;
        let described = statements::describe(self, &statement, param_types);
        let Description {
            params,
            columns,
            plan,
            returned,
        } = described.map_err(|error| locate(error, &statement))?;
        drop(place);
        Ok(Prepared {
            plan: Mutex::new(plan),
            returned: Mutex::new(returned),
            rights: self.plan_rights(),
            meaning: self.state().meaning(),
            ..Prepared::of(statement, params, columns)
        })
    }
}
