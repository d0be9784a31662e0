//! One version of a table as DataFusion sees it.

use super::exec::{ScanExec, ScanOptions};
use super::reads::ReadLog;
use super::statistics;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Constraint, Constraints, DFSchema, Result, Statistics};
use datafusion::datasource::TableType;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;
use tenon_storage::tid::TID;
use tenon_storage::{MemoryBudget, TableVersion};

/// Names of the columns that say where a row is: the segment's place in the table, and the row's in the segment.
/// UPDATE and DELETE read them; no user SQL can write such a name unquoted.
pub const POSITION_FIELDS: [&str; 2] = ["\u{1}segment", "\u{1}row"];

/// The name of the column behind these: the row's address, a `tid`.
pub const ADDRESS_FIELD: &str = "\u{1}ctid";

/// Whether a column says where a row is.
pub fn is_place(name: &str) -> bool {
    POSITION_FIELDS.contains(&name) || name == ADDRESS_FIELD
}

/// A snapshot of a table.
#[derive(Debug)]
pub struct SegmentTable {
    table: Arc<TableVersion>,
    schema: SchemaRef,
    constraints: Option<Constraints>,
    index_budget: Option<Arc<MemoryBudget>>,
    /// What the query calls the table, and the rows that a scan with its filters is expected to give.
    alias: Option<String>,
    estimate: Option<usize>,
}

impl SegmentTable {
    pub fn new(table: Arc<TableVersion>) -> Self {
        let schema = table.schema().clone();
        Self::with_schema(table, schema)
    }

    /// The same with `POSITION_FIELDS` (UInt32) and `ADDRESS_FIELD` after the table's columns.
    pub fn with_positions(table: Arc<TableVersion>) -> Self {
        let position = POSITION_FIELDS
            .iter()
            .map(|name| Arc::new(Field::new(*name, DataType::UInt32, false)));
        let address = Arc::new(Field::new(ADDRESS_FIELD, TID, false));
        let fields = table.schema().fields().iter().cloned().chain(position).chain([address]);
        let fields: Vec<_> = fields.collect();
        Self::with_schema(table, Arc::new(Schema::new(fields)))
    }

    fn with_schema(table: Arc<TableVersion>, schema: SchemaRef) -> Self {
        let key = table.definition().primary_key.as_ref();
        let constraints = key.map(|key| Constraints::new_unverified(vec![Constraint::PrimaryKey(key.columns.clone())]));
        Self {
            table,
            schema,
            constraints,
            index_budget: None,
            alias: None,
            estimate: None,
        }
    }

    /// The same for a query that calls the table `alias` and whose filters are expected to leave `rows` rows.
    pub fn in_query(&self, alias: Option<String>, rows: usize) -> Self {
        Self {
            table: self.table.clone(),
            schema: self.schema.clone(),
            constraints: self.constraints.clone(),
            index_budget: self.index_budget.clone(),
            alias,
            estimate: Some(rows),
        }
    }

    /// The same, whose scans may use the table's indexes: those are built within `budget`.
    pub fn indexed(mut self, budget: &Arc<MemoryBudget>) -> Self {
        self.index_budget = Some(Arc::clone(budget));
        self
    }

    pub fn table(&self) -> &Arc<TableVersion> {
        &self.table
    }
}

#[async_trait]
impl TableProvider for SegmentTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.constraints.as_ref()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(statistics::of_table(&self.table, &self.schema))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        // Where rows lie is no column that segments have.
        let stored = |filter: &Expr| filter.column_refs().iter().all(|column| !is_place(&column.name));
        // A row is found by its address, if it is said.
        let addressed = |filter: &Expr| filter.column_refs().iter().all(|column| column.name == ADDRESS_FIELD);
        let plain = |filter: &Expr| !filter.is_volatile() && !has_subquery(filter);
        Ok(filters
            .iter()
            .map(|f| {
                if plain(f) && stored(f) {
                    TableProviderFilterPushDown::Exact
                } else if plain(f) && addressed(f) {
                    TableProviderFilterPushDown::Inexact
                } else {
                    TableProviderFilterPushDown::Unsupported
                }
            })
            .collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = projection
            .cloned()
            .unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = DFSchema::try_from(self.schema.as_ref().clone())?;
        let filters = filters
            .iter()
            .map(|filter| state.create_physical_expr(filter.clone(), &schema));
        let filters = filters.collect::<Result<Vec<_>>>()?;
        if let Some(log) = state.config().get_extension::<ReadLog>() {
            log.note(self.table.oid(), &filters);
        }
        let options = &state.config_options().execution;
        let scan = ScanExec::try_new(
            self.table.clone(),
            &self.schema,
            columns,
            &filters,
            ScanOptions {
                partitions: options.target_partitions,
                batch_rows: options.batch_size.get(),
                limit,
                index_budget: self.index_budget.as_ref(),
            },
        )?;
        let scan = match self.estimate {
            Some(rows) if !filters.is_empty() || limit.is_some() => scan.with_estimate(rows),
            _ => scan,
        };
        Ok(Arc::new(match &self.alias {
            Some(alias) => scan.with_alias(alias),
            None => scan,
        }))
    }
}

fn has_subquery(filter: &Expr) -> bool {
    let is_subquery = |e: &Expr| {
        matches!(
            e,
            Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)
        )
    };
    filter.exists(|e| Ok(is_subquery(e))).unwrap_or(true)
}
