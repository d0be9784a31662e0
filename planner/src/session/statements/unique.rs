//! Indexes on expressions, or over some of the rows: what computes their keys, by which scans search them and storage checks
//! unique ones as it does those of columns; whole tables are looked through as an index is made.

use super::constraints::physical;
use super::partition;
use crate::catalog::bind::Binder;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::{from_arrow, from_datafusion};
use crate::pg::parse::parse_expression;
use crate::session::Session;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, LargeBinaryArray, RecordBatch};
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::PhysicalExpr;
use std::collections::HashSet;
use std::sync::Arc;
use tenon_executor::index::ComputedKeys;
use tenon_executor::scan::SegmentTable;
use tenon_storage::numeric::compare_key;
use tenon_storage::{ExpressionIndex, KeyValues, Subject, TableDefinition, TableVersion};

/// The unique indexes of a table that storage does not check.
pub(super) struct Unique(Vec<Key>);

/// What one of them is about.
pub(super) struct Key {
    pub oid: u32,
    pub name: String,
    /// The expressions as errors show them.
    shown: String,
    /// What errors are about.
    subject: Subject,
    nulls_not_distinct: bool,
    converter: RowConverter,
    computed: Arc<ComputedKeys>,
    /// Of a partition's: which one, and the index's own predicate.
    partition: Option<(u32, Option<Arc<dyn PhysicalExpr>>)>,
}

impl Unique {
    pub(super) fn of(binder: &Binder, definition: &Arc<TableDefinition>) -> Result<Unique> {
        Ok(Unique(Key::all(binder, definition)?))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives a table's indexes what computes their keys.
    pub(super) fn install(&self, definition: &TableDefinition) {
        self.0.iter().for_each(|key| key.install(definition));
    }

    /// Computes the keys of rows, for what may be wrong with them.
    pub(super) fn compute(&self, rows: &RecordBatch) -> Result<()> {
        self.0.iter().try_for_each(|key| key.keys(rows).map(drop))
    }

    /// 23505 for the first key of an index that two rows have.
    pub(super) fn verify(&self, table: &TableVersion, index: &str) -> Result<()> {
        let mut own = table.definition().expression_indexes.iter();
        let oid = own.find(|own| own.name == index).map(|own| own.oid);
        let mut meant = self.0.iter().filter(|key| Some(key.oid) == oid);
        meant.try_for_each(|key| key.verify(table))
    }
}

impl Key {
    /// Those of a table.
    pub(super) fn all(binder: &Binder, definition: &TableDefinition) -> Result<Vec<Key>> {
        let indexes = definition.computed_indexes().filter(|index| index.unique);
        indexes.map(|index| Key::of(binder, definition, index)).collect()
    }

    fn of(binder: &Binder, definition: &TableDefinition, index: &ExpressionIndex) -> Result<Key> {
        let computed = computed(binder, definition, index)?;
        let partition = index.partition.and_then(|oid| binder.snapshot.relation_by_oid(oid));
        let (schema, table) = match partition {
            Some(partition) => (partition.schema_name(), partition.name()),
            None => (definition.schema_name.as_str(), definition.name.as_str()),
        };
        let fields = computed.types().iter().cloned().map(SortField::new).collect();
        let own = |text: &String| physical(binder, parse_expression(text)?, &definition.schema);
        let own = match index.partition {
            Some(partition) => Some((partition, index.predicate.as_ref().map(own).transpose()?)),
            None => None,
        };
        Ok(Key {
            partition: own,
            computed: Arc::new(computed),
            oid: index.oid,
            name: index.name.clone(),
            shown: index.keys.join(", "),
            subject: Subject::table(schema, table).constraint(&index.name),
            nulls_not_distinct: index.nulls_not_distinct,
            converter: RowConverter::new(fields).map_err(|error| from_arrow(&error))?,
        })
    }

    /// Gives the index of this number what computes its keys.
    pub(super) fn install(&self, definition: &TableDefinition) {
        let mut indexes = definition.computed_indexes();
        if let Some(index) = indexes.find(|index| index.oid == self.oid) {
            index.computed.set(self.computed.clone());
        }
    }

    /// The keys of a table's rows.
    pub(super) fn keys(&self, rows: &RecordBatch) -> Result<KeyValues> {
        let columns = self.computed.columns().iter().map(|at| rows.column(*at).clone());
        let keys = self.computed.keys(columns.collect(), rows.num_rows());
        keys.map_err(|error| from_datafusion(&error))
    }

    /// The columns that it reads.
    pub(super) fn columns(&self) -> &[usize] {
        self.computed.columns()
    }

    /// The parts of the key, over the table's columns.
    pub(super) fn values(&self) -> &[Arc<dyn PhysicalExpr>] {
        self.computed.values()
    }

    /// What the rows meet that the index holds, where it does not hold all. `within`: the partitions that the rows belong to.
    pub(super) fn predicate(&self, within: &[u32]) -> Option<&Arc<dyn PhysicalExpr>> {
        match &self.partition {
            Some((partition, own)) if within.contains(partition) => own.as_ref(),
            _ => self.computed.predicate(),
        }
    }

    /// The key of each of a table's rows; None where it equals no other: the index does not hold the row, or a NULL is in it.
    pub(super) fn of_rows(&self, rows: &RecordBatch) -> Result<Vec<Option<OwnedRow>>> {
        let KeyValues { columns: values, held } = self.keys(rows)?;
        let compared: Vec<ArrayRef> = values.iter().map(compared).collect();
        let keys = self.converter.convert_columns(&compared);
        let keys = keys.map_err(|error| from_arrow(&error))?;
        let is_held = |row: usize| held.as_ref().is_none_or(|held| held.value(row));
        let is_null = |row: usize| !self.nulls_not_distinct && values.iter().any(|value| value.is_null(row));
        let keyed = |row: usize| is_held(row) && !is_null(row);
        let keys = keys.iter().enumerate();
        Ok(keys.map(|(row, key)| keyed(row).then(|| key.owned())).collect())
    }

    /// The keys of a table's rows, segment by segment, with the rows.
    pub(super) fn of_table<'a>(
        &'a self,
        table: &'a TableVersion,
    ) -> impl Iterator<Item = Result<(Vec<Option<OwnedRow>>, RecordBatch)>> + 'a {
        let columns: Vec<usize> = (0..table.definition().columns.len()).collect();
        table.segments().iter().map(move |segment| {
            let rows = segment.batch(table.schema(), &columns, 0, segment.rows())?;
            Ok((self.of_rows(&rows)?, rows))
        })
    }

    fn verify(&self, table: &TableVersion) -> Result<()> {
        let mut seen: HashSet<OwnedRow> = HashSet::new();
        for keys in self.of_table(table) {
            let (keys, rows) = keys?;
            for (row, key) in keys.into_iter().enumerate() {
                if let Some(key) = key
                    && !seen.insert(key)
                {
                    return Err(self.violated(&self.keys(&rows)?.columns, row));
                }
            }
        }
        Ok(())
    }

    fn violated(&self, values: &[ArrayRef], row: usize) -> SqlError {
        let options = FormatOptions::default().with_null("null");
        let shown = values.iter().map(|value| {
            ArrayFormatter::try_new(value, &options).map_or(String::new(), |values| values.value(row).to_string())
        });
        let shown: Vec<String> = shown.collect();
        let message = format!("duplicate key value violates unique constraint \"{}\"", self.name);
        SqlError::new(state::UNIQUE_VIOLATION, message)
            .about(self.subject.clone())
            .detail(format!("Key ({})=({}) already exists.", self.shown, shown.join(", ")))
    }
}

/// Lets the scans of a plan search indexes whose keys are computed: gives them what computes these, where nobody has yet. Those that
/// cannot be planned are not searched.
pub(super) fn let_search(session: &Session, plan: &LogicalPlan) -> Result<()> {
    let searched = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(table) = provider.downcast_ref::<SegmentTable>()
        {
            let definition = table.table().definition();
            for index in definition.computed_indexes() {
                if index.computed.get().is_none()
                    && let Ok(computed) = computed(&session.binder(), definition, index)
                {
                    index.computed.set(Arc::new(computed));
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    });
    searched.map(drop).map_err(|error| from_datafusion(&error))
}

fn computed(binder: &Binder, definition: &TableDefinition, index: &ExpressionIndex) -> Result<ComputedKeys> {
    let schema = &definition.schema;
    let planned = |text: &String| super::constraints::expression(binder, parse_expression(text)?, schema);
    let values = index.keys.iter().map(planned).collect::<Result<Vec<_>>>()?;
    let predicate = match partition::indexes::predicate(binder, index).or_else(|| index.predicate.clone()) {
        Some(text) => Some(physical(binder, parse_expression(&text)?, schema)?),
        None => None,
    };
    ComputedKeys::try_new(values, predicate, schema).map_err(|error| from_datafusion(&error))
}

/// What of a key column is compared: of numerics not the display scale.
pub(super) fn compared(column: &ArrayRef) -> ArrayRef {
    match column.as_binary_opt::<i64>() {
        Some(numerics) => {
            let keys = numerics.iter().map(|value| value.map(compare_key));
            Arc::new(LargeBinaryArray::from_iter(keys))
        }
        None => column.clone(),
    }
}
