//! Unique indexes on expressions, or over some of the rows: checked over the whole table after rows were written.

use super::constraints::physical;
use crate::catalog::bind::Binder;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::{from_arrow, from_datafusion};
use crate::pg::parse::parse_expression;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::physical_plan::PhysicalExpr;
use std::collections::HashSet;
use std::sync::Arc;
use tenon_storage::{Subject, TableDefinition, TableVersion};

/// The unique indexes of a table that storage does not check.
pub(super) struct Unique(Vec<Key>);

struct Key {
    name: String,
    /// The expressions as errors show them.
    shown: String,
    /// What errors are about.
    subject: Subject,
    values: Vec<Arc<dyn PhysicalExpr>>,
    predicate: Option<Arc<dyn PhysicalExpr>>,
    nulls_not_distinct: bool,
}

impl Unique {
    pub(super) fn of(binder: &Binder, definition: &Arc<TableDefinition>) -> Result<Unique> {
        let schema = &definition.schema;
        let mut keys = Vec::new();
        for index in definition.expression_indexes.iter().filter(|index| index.unique) {
            let planned = |text: &String| super::constraints::expression(binder, parse_expression(text)?, schema);
            keys.push(Key {
                name: index.name.clone(),
                shown: index.keys.join(", "),
                subject: Subject::table(&definition.schema_name, &definition.name).constraint(&index.name),
                values: index.keys.iter().map(planned).collect::<Result<_>>()?,
                predicate: match &index.predicate {
                    Some(text) => Some(physical(binder, parse_expression(text)?, schema)?),
                    None => None,
                },
                nulls_not_distinct: index.nulls_not_distinct,
            });
        }
        Ok(Unique(keys))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// 23505 for the first key that two rows have.
    pub(super) fn verify(&self, table: &TableVersion) -> Result<()> {
        self.0.iter().try_for_each(|key| key.verify(table))
    }
}

impl Key {
    fn verify(&self, table: &TableVersion) -> Result<()> {
        let columns: Vec<usize> = (0..table.definition().columns.len()).collect();
        let mut seen: HashSet<OwnedRow> = HashSet::new();
        let mut converter = None;
        for segment in table.segments().iter() {
            let rows = segment.batch(table.schema(), &columns, 0, segment.rows())?;
            let values = self
                .values
                .iter()
                .map(|value| evaluated(value, &rows))
                .collect::<Result<Vec<_>>>()?;
            let held = self
                .predicate
                .as_ref()
                .map(|predicate| evaluated(predicate, &rows))
                .transpose()?;
            let converter = match &mut converter {
                Some(converter) => converter,
                none => {
                    let fields = values.iter().map(|value| SortField::new(value.data_type().clone()));
                    none.insert(RowConverter::new(fields.collect()).map_err(|error| from_arrow(&error))?)
                }
            };
            let keys = converter.convert_columns(&values).map_err(|error| from_arrow(&error))?;
            for (row, key) in keys.iter().enumerate() {
                let is_held = held.as_ref().is_none_or(|held| {
                    let held = held.as_boolean();
                    held.is_valid(row) && held.value(row)
                });
                let is_null = !self.nulls_not_distinct && values.iter().any(|value| value.is_null(row));
                if is_held && !is_null && !seen.insert(key.owned()) {
                    return Err(self.violated(&values, row));
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

fn evaluated(expr: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Result<ArrayRef> {
    expr.evaluate(rows)
        .and_then(|value| value.into_array(rows.num_rows()))
        .map_err(|error| from_datafusion(&error))
}
