//! The indexes that a table declares, as scans search them: over columns, or over what is computed of them.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use tenon_storage::{ExpressionIndex, Index, IndexSlot, Segment, TableVersion};

use super::computed::ComputedKeys;
use super::predicate::Subjects;

/// An index to be searched.
pub struct Declared<'a> {
    pub name: &'a str,
    pub slot: &'a IndexSlot,
    pub key: Key<'a>,
}

/// What an index's keys are made of.
pub enum Key<'a> {
    Columns(&'a [usize]),
    Computed(Arc<ComputedKeys>),
}

impl<'a> From<&'a Index> for Declared<'a> {
    fn from(index: &'a Index) -> Self {
        Declared {
            name: &index.name,
            slot: &index.slot,
            key: Key::Columns(&index.columns),
        }
    }
}

impl<'a> Declared<'a> {
    /// None where nobody has said yet what computes its keys.
    fn computed(index: &'a ExpressionIndex) -> Option<Self> {
        let computed = index.computed.get()?.into_any().downcast().ok()?;
        Some(Declared {
            name: &index.name,
            slot: &index.slot,
            key: Key::Computed(computed),
        })
    }

    /// Those of a table.
    pub fn all(table: &'a TableVersion) -> impl Iterator<Item = Declared<'a>> {
        let definition = table.definition();
        let computed = definition.computed_indexes().filter_map(Declared::computed);
        definition.all_indexes().map(Declared::from).chain(computed)
    }

    /// What is computed of columns for its key.
    pub fn computed_parts(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        let parts = match &self.key {
            Key::Columns(_) => &[],
            Key::Computed(keys) => keys.values(),
        };
        parts.iter().filter(|part| !part.is::<Column>())
    }

    /// The numbers of its key's parts; those before the first that has none.
    pub fn parts(&self, subjects: &Subjects<'_>) -> Vec<usize> {
        match &self.key {
            Key::Columns(columns) => columns.to_vec(),
            Key::Computed(keys) => keys.values().iter().map_while(|part| subjects.number(part)).collect(),
        }
    }

    /// The types of the key's parts.
    pub(super) fn types(&self, table: &TableVersion) -> Vec<DataType> {
        match &self.key {
            Key::Columns(columns) => {
                let schema = table.schema();
                columns
                    .iter()
                    .map(|column| schema.field(*column).data_type().clone())
                    .collect()
            }
            Key::Computed(computed) => computed.types().to_vec(),
        }
    }

    /// The keys of a segment's rows, and which of them the index holds; None: all.
    pub(super) fn keys(&self, segment: &Segment) -> Result<(Vec<ArrayRef>, Option<BooleanBuffer>)> {
        let read = |columns: &[usize]| columns.iter().map(|column| segment.column(*column)).collect();
        match &self.key {
            Key::Columns(columns) => Ok((read(columns), None)),
            Key::Computed(computed) => {
                let keys = computed.keys(read(computed.columns()), segment.rows())?;
                Ok((keys.columns, keys.held))
            }
        }
    }
}
