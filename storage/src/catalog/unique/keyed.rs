//! What a unique index compares of rows: some of their columns, or values that are computed of these.

use super::super::index::{ExpressionIndex, Index};
use super::super::table::TableDefinition;
use super::{KeyRows, same_value};
use crate::error::{Result, StorageError};
use crate::quote;
use crate::segment::Segment;
use crate::statistics::ColumnStatistics;
use arrow::array::ArrayRef;
use arrow::buffer::BooleanBuffer;
use parking_lot::Mutex;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Computes the keys of an index on expressions, or over some of the rows, which storage cannot.
pub trait ComputedKey: fmt::Debug + Send + Sync {
    /// The columns of the table that it reads.
    fn columns(&self) -> &[usize];

    /// The keys of so many rows, given by these columns.
    fn of(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<KeyValues>;

    /// Itself, for who knows its type.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// Keys of rows.
#[derive(Debug)]
pub struct KeyValues {
    /// One a part of the key.
    pub columns: Vec<ArrayRef>,
    /// The rows that the index holds; None: all.
    pub held: Option<BooleanBuffer>,
}

/// Where an index has what computes its keys. Another definition of the table has its columns elsewhere: a copy is empty.
#[derive(Debug, Default)]
pub struct ComputedSlot(Mutex<Option<Arc<dyn ComputedKey>>>);

impl Clone for ComputedSlot {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl ComputedSlot {
    pub fn set(&self, computed: Arc<dyn ComputedKey>) {
        *self.0.lock() = Some(computed);
    }

    pub fn get(&self) -> Option<Arc<dyn ComputedKey>> {
        self.0.lock().clone()
    }
}

/// A unique index and how its keys are had.
pub(in super::super) enum Keyed<'a> {
    Columns(&'a Index),
    Computed(&'a ExpressionIndex, Arc<dyn ComputedKey>),
}

impl<'a> Keyed<'a> {
    /// The unique indexes of a table. SerializationFailure where nothing computes the keys of one: the rows were written for
    /// another definition of the table.
    pub fn all(definition: &'a TableDefinition) -> impl Iterator<Item = Result<Keyed<'a>>> {
        let columns = definition.all_indexes().filter(|index| index.is_unique());
        let computed = definition.computed_indexes().filter(|index| index.unique);
        let computed = computed.map(|index| match index.computed.get() {
            Some(computed) => Ok(Keyed::Computed(index, computed)),
            None => Err(StorageError::serialization()),
        });
        columns.map(|index| Ok(Keyed::Columns(index))).chain(computed)
    }

    pub fn name(&self) -> &'a str {
        match self {
            Keyed::Columns(index) => &index.name,
            Keyed::Computed(index, _) => &index.name,
        }
    }

    pub fn nulls_not_distinct(&self) -> bool {
        match self {
            Keyed::Columns(index) => index.nulls_not_distinct,
            Keyed::Computed(index, _) => index.nulls_not_distinct,
        }
    }

    pub fn key_rows(&self) -> &'a Arc<KeyRows> {
        match self {
            Keyed::Columns(index) => &index.key_rows,
            Keyed::Computed(index, _) => &index.key_rows,
        }
    }

    /// The keys of some rows of a segment.
    pub fn values(&self, segment: &Segment, offset: usize, rows: usize) -> Result<KeyValues> {
        let read = |columns: &[usize]| {
            let columns = columns.iter();
            columns
                .map(|column| segment.column_slice(*column, offset, rows))
                .collect()
        };
        match self {
            Keyed::Columns(index) => Ok(KeyValues {
                columns: read(&index.columns),
                held: None,
            }),
            Keyed::Computed(_, computed) => computed.of(read(computed.columns()), rows),
        }
    }

    /// Whether rows of a segment have the same key.
    pub fn equal(&self, (a, row): (&Segment, usize), (b, other): (&Segment, usize)) -> Result<bool> {
        Ok(match self {
            Keyed::Columns(index) => {
                let mut columns = index.columns.iter();
                columns.all(|column| same_value(&a.column_slice(*column, row, 1), &b.column_slice(*column, other, 1)))
            }
            Keyed::Computed(..) => {
                let (a, b) = (self.values(a, row, 1)?, self.values(b, other, 1)?);
                a.columns.iter().zip(&b.columns).all(|(a, b)| same_value(a, b))
            }
        })
    }

    /// What is known of the keys of some segments together, part by part; nothing of those that are computed.
    pub fn ranges(&self, segments: &[Arc<Segment>]) -> Vec<ColumnStatistics> {
        let Keyed::Columns(index) = self else { return Vec::new() };
        let merged = |column: &usize| {
            let mut all = ColumnStatistics::empty();
            segments
                .iter()
                .for_each(|segment| all.append(segment.statistics(*column)));
            all
        };
        index.columns.iter().map(merged).collect()
    }

    /// Whether rows of a segment may have keys in these ranges.
    pub fn overlaps(&self, segment: &Segment, ranges: &[ColumnStatistics]) -> bool {
        let Keyed::Columns(index) = self else { return true };
        index.columns.iter().zip(ranges).all(|(column, range)| {
            let own = segment.statistics(*column);
            let nulls_meet = index.nulls_not_distinct && own.null_count > 0 && range.null_count > 0;
            nulls_meet
                || match (&own.min, &own.max, &range.min, &range.max) {
                    (Some(own_min), Some(own_max), Some(min), Some(max)) => own_min <= max && min <= own_max,
                    _ => true,
                }
        })
    }

    /// The parts of the key as errors name them.
    pub fn shown(&self, definition: &TableDefinition) -> Vec<String> {
        match self {
            Keyed::Columns(index) => {
                let names = index.columns.iter().map(|column| &definition.columns[*column].name);
                names.map(|name| quote::identifier(name)).collect()
            }
            Keyed::Computed(index, _) => index.keys.clone(),
        }
    }
}
