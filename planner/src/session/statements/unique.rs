//! Unique indexes on expressions, or over some of the rows: what computes their keys, which storage checks as it does those
//! of columns; whole tables are looked through as an index is made.

use super::constraints::physical;
use crate::catalog::bind::Binder;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::{from_arrow, from_datafusion};
use crate::pg::parse::parse_expression;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, LargeBinaryArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::PhysicalExpr;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use tenon_storage::numeric::compare_key;
use tenon_storage::{
    ComputedKey, ErrorKind, ExpressionIndex, KeyValues, StorageError, Subject, TableDefinition, TableVersion,
};

/// The unique indexes of a table that storage does not check.
pub(super) struct Unique(Vec<Key>);

/// What one of them is about.
pub(super) struct Key {
    pub name: String,
    /// The expressions as errors show them.
    shown: String,
    /// What errors are about.
    subject: Subject,
    pub values: Vec<Arc<dyn PhysicalExpr>>,
    pub predicate: Option<Arc<dyn PhysicalExpr>>,
    nulls_not_distinct: bool,
    converter: RowConverter,
    computed: Arc<Computed>,
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

    /// 23505 for the first key that two rows have.
    pub(super) fn verify(&self, table: &TableVersion) -> Result<()> {
        self.0.iter().try_for_each(|key| key.verify(table))
    }
}

impl Key {
    /// Those of a table.
    pub(super) fn all(binder: &Binder, definition: &TableDefinition) -> Result<Vec<Key>> {
        let indexes = definition.expression_indexes.iter().filter(|index| index.unique);
        indexes.map(|index| Key::of(binder, definition, index)).collect()
    }

    fn of(binder: &Binder, definition: &TableDefinition, index: &ExpressionIndex) -> Result<Key> {
        let schema = &definition.schema;
        let planned = |text: &String| super::constraints::expression(binder, parse_expression(text)?, schema);
        let values = index.keys.iter().map(planned).collect::<Result<Vec<_>>>()?;
        let fields = values.iter().map(|value| value.data_type(schema).map(SortField::new));
        let fields = fields.collect::<datafusion::common::Result<Vec<_>>>();
        let fields = fields.map_err(|error| from_datafusion(&error))?;
        let predicate = match &index.predicate {
            Some(text) => Some(physical(binder, parse_expression(text)?, schema)?),
            None => None,
        };
        Ok(Key {
            computed: Arc::new(Computed::of(&values, predicate.as_ref(), schema)?),
            name: index.name.clone(),
            shown: index.keys.join(", "),
            subject: Subject::table(&definition.schema_name, &definition.name).constraint(&index.name),
            values,
            predicate,
            nulls_not_distinct: index.nulls_not_distinct,
            converter: RowConverter::new(fields).map_err(|error| from_arrow(&error))?,
        })
    }

    /// Gives the index of this name what computes its keys.
    pub(super) fn install(&self, definition: &TableDefinition) {
        let mut indexes = definition.expression_indexes.iter();
        if let Some(index) = indexes.find(|index| index.name == self.name) {
            index.computed.set(self.computed.clone());
        }
    }

    /// The keys of a table's rows.
    pub(super) fn keys(&self, rows: &RecordBatch) -> Result<KeyValues> {
        let columns = self.computed.columns.iter().map(|at| rows.column(*at).clone());
        self.computed.keys(columns.collect(), rows.num_rows())
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

fn evaluated(expr: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Result<ArrayRef> {
    expr.evaluate(rows)
        .and_then(|value| value.into_array(rows.num_rows()))
        .map_err(|error| from_datafusion(&error))
}

/// The keys of an index, over the columns alone that they are made of.
#[derive(Debug)]
struct Computed {
    columns: Vec<usize>,
    schema: Arc<Schema>,
    values: Vec<Arc<dyn PhysicalExpr>>,
    predicate: Option<Arc<dyn PhysicalExpr>>,
}

impl Computed {
    fn of(
        values: &[Arc<dyn PhysicalExpr>],
        predicate: Option<&Arc<dyn PhysicalExpr>>,
        schema: &Schema,
    ) -> Result<Computed> {
        let exprs = values.iter().chain(predicate);
        let columns: BTreeSet<usize> = exprs.flat_map(collect_columns).map(|column| column.index()).collect();
        let columns: Vec<usize> = columns.into_iter().collect();
        let schema = schema.project(&columns).map_err(|error| from_arrow(&error))?;
        let over_them = |expr: &Arc<dyn PhysicalExpr>| {
            let moved = Arc::clone(expr).transform_down(|expr| {
                let Some(column) = expr.downcast_ref::<Column>() else {
                    return Ok(Transformed::no(expr));
                };
                let at = columns.partition_point(|own| *own < column.index());
                let moved: Arc<dyn PhysicalExpr> = Arc::new(Column::new(column.name(), at));
                Ok(Transformed::yes(moved))
            });
            moved.data().map_err(|error| from_datafusion(&error))
        };
        Ok(Computed {
            values: values.iter().map(over_them).collect::<Result<_>>()?,
            predicate: predicate.map(over_them).transpose()?,
            schema: Arc::new(schema),
            columns,
        })
    }

    fn keys(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<KeyValues> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let rows = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options);
        let rows = rows.map_err(|error| from_arrow(&error))?;
        let held = self.predicate.as_ref().map(|predicate| evaluated(predicate, &rows));
        // NULL holds no row.
        let held = held.transpose()?.map(|held| {
            let held = held.as_boolean();
            match held.nulls() {
                Some(nulls) => held.values() & nulls.inner(),
                None => held.values().clone(),
            }
        });
        let columns = self.values.iter().map(|value| evaluated(value, &rows));
        Ok(KeyValues {
            columns: columns.collect::<Result<_>>()?,
            held,
        })
    }
}

impl ComputedKey for Computed {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn of(&self, columns: Vec<ArrayRef>, rows: usize) -> tenon_storage::Result<KeyValues> {
        self.keys(columns, rows).map_err(|error| match error.state {
            state::OUT_OF_MEMORY => StorageError::new(ErrorKind::OutOfMemory, error.message),
            // They were computed before, when the rows were written.
            _ => StorageError::internal(&error.message),
        })
    }
}
