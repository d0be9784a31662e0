//! Declared partitions. The rows of a partitioned table lie in the one table at the root; a partition is a name for those
//! that its bound, and the bounds of the partitions that it is part of, let in. The planner makes conditions of the bounds.

use super::declaration::{Check, ColumnDef};
use super::index::{Deferral, ExpressionIndex, IndexKind};
use super::table::TableDefinition;
use arrow::datatypes::{Schema, SchemaRef};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// PARTITION BY.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Partitioning {
    pub strategy: PartitionStrategy,
    pub keys: Vec<PartitionKey>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartitionStrategy {
    Range,
    List,
    Hash,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartitionKey {
    /// SQL text over the columns of the root; a column by its quoted name.
    pub expression: String,
    pub is_column: bool,
    pub sql_type: crate::types::SqlType,
}

/// Which rows of its parent a partition holds. Values are SQL text of the key's type, without quotes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PartitionBound {
    /// Those that are in no other partition.
    Default,
    /// From the first, without the last.
    Range {
        from: Vec<RangeValue>,
        to: Vec<RangeValue>,
    },
    /// None is NULL.
    List(Vec<Option<String>>),
    Hash {
        modulus: u64,
        remainder: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RangeValue {
    Min,
    Value(String),
    Max,
}

/// A part of a table, with a name of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Partition {
    pub oid: u32,
    pub schema_name: String,
    pub name: String,
    /// The table that has the rows.
    pub root: u32,
    /// What it is directly part of: the root, or another partition.
    pub parent: u32,
    pub bound: PartitionBound,
    /// Where it has partitions itself.
    pub partitioning: Option<Partitioning>,
    /// Conditions of its own rows, over the columns of the root.
    pub checks: Vec<Check>,
    /// Those of the root's columns that are NOT NULL in its rows alone.
    pub not_null: Vec<usize>,
    /// Storage parameters that are kept and shown, and change nothing: names and values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<(String, String)>,
    /// In the order of their creation: what the indexes of its table are called here, and those that are of its rows alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<PartitionIndex>,
    /// Its columns in its own order, as those of the root.
    pub columns: Vec<usize>,
    /// What is read from a store takes it from its root (`aligned`).
    #[serde(skip, default = "super::table::no_columns")]
    pub schema: SchemaRef,
}

/// An index as a partition has it. Where it is part of a valid one above, that one has the rows, and this is a name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartitionIndex {
    /// The index, of what the partition is directly part of, that it is attached to.
    pub parent: Option<u32>,
    pub kind: IndexKind,
    /// When its keys are checked, as it is shown: the index that it is part of says when they are.
    #[serde(default, skip_serializing_if = "Deferral::is_never")]
    pub deferral: Deferral,
    /// Its keys are texts over the columns of the root, columns alone too. Of what is divided itself, it is not valid (ONLY)
    /// before each part has one.
    pub declared: ExpressionIndex,
}

impl PartitionIndex {
    /// Whether a PRIMARY KEY or UNIQUE constraint is made of it.
    pub fn is_constraint(&self) -> bool {
        matches!(self.kind, IndexKind::Primary | IndexKind::Constraint)
    }

    pub fn is_valid(&self) -> bool {
        self.declared.shown.only.is_none()
    }
}

impl Partition {
    pub fn index(&self, name: &str) -> Option<&PartitionIndex> {
        self.indexes.iter().find(|own| own.declared.name == name)
    }

    /// The names of its own constraints and those of its keys.
    pub fn constraints(&self) -> impl Iterator<Item = &str> {
        let keys = self.indexes.iter().filter(|own| own.is_constraint());
        let checks = self.checks.iter().map(|check| check.name.as_str());
        keys.map(|own| own.declared.name.as_str()).chain(checks)
    }

    /// Takes the columns of its root, and after a change of the root follows it: one that was added comes last.
    pub(crate) fn aligned(&self, before: &[ColumnDef], root: &TableDefinition) -> Partition {
        let (mut columns, mut not_null) = (self.columns.clone(), self.not_null.clone());
        let after = &root.columns;
        if after.len() < before.len() {
            let dropped = (0..after.len())
                .find(|at| after[*at].name != before[*at].name)
                .unwrap_or(after.len());
            for of in [&mut columns, &mut not_null] {
                of.retain(|at| *at != dropped);
                of.iter_mut().filter(|at| **at > dropped).for_each(|at| *at -= 1);
            }
        }
        columns.extend(before.len()..after.len());
        let field = |at: &usize| {
            let own = root.schema.field(*at);
            own.clone().with_nullable(own.is_nullable() && !not_null.contains(at))
        };
        let fields: Vec<_> = columns.iter().map(field).collect();
        Partition {
            columns,
            not_null,
            schema: Arc::new(Schema::new(fields)),
            ..self.clone()
        }
    }
}
