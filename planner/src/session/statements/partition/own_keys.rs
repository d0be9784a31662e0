//! PRIMARY KEY and UNIQUE constraints of a partition, and those ON ONLY a partitioned table.

use super::indexes::{add, all_of};
use crate::catalog::bind::{Target, fold};
use crate::pg::error::{Result, SqlError, state};
use crate::session::Session;
use crate::session::statements::{constraints, create, keys};
use datafusion::sql::sqlparser::ast::{
    ConstraintCharacteristics, Ident, IndexColumn, IndexOption, NullsDistinctOption, TableConstraint,
};
use tenon_storage::{
    ColumnOrder, Deferral, ExpressionIndex, IndexDef, IndexKind, IndexShown, OnlyIndex, Partition, PartitionIndex,
    quote,
};

/// What a key says that is declared with a table or added to it.
pub(in super::super) struct Key<'a> {
    kind: IndexKind,
    name: Option<&'a Ident>,
    columns: &'a [IndexColumn],
    options: &'a [IndexOption],
    characteristics: Option<&'a ConstraintCharacteristics>,
    nulls_not_distinct: bool,
}

impl<'a> Key<'a> {
    /// None where it is no key.
    pub(in super::super) fn of(constraint: &'a TableConstraint) -> Option<Self> {
        match constraint {
            TableConstraint::PrimaryKey(key) => Some(Key {
                kind: IndexKind::Primary,
                name: key.name.as_ref(),
                columns: &key.columns,
                options: &key.index_options,
                characteristics: key.characteristics.as_ref(),
                nulls_not_distinct: false,
            }),
            TableConstraint::Unique(key) => Some(Key {
                kind: IndexKind::Constraint,
                name: key.name.as_ref(),
                columns: &key.columns,
                options: &key.index_options,
                characteristics: key.characteristics.as_ref(),
                nulls_not_distinct: key.nulls_distinct == NullsDistinctOption::NotDistinct,
            }),
            _ => None,
        }
    }

    fn word(&self) -> &'static str {
        match self.kind {
            IndexKind::Primary => "PRIMARY KEY",
            _ => "UNIQUE",
        }
    }
}

/// ADD CONSTRAINT of a partition's own PRIMARY KEY or UNIQUE constraint.
pub(in super::super) async fn add_key(
    session: &mut Session,
    partition: &Partition,
    key: &Key<'_>,
    only: bool,
) -> Result<()> {
    let columns = key.columns.iter().map(create::key_column).collect::<Result<Vec<_>>>()?;
    let fields = partition.schema.fields();
    for (at, column) in columns.iter().enumerate() {
        if fields.find(column).is_none() {
            let message = format!("column \"{column}\" named in key does not exist");
            return Err(SqlError::new(state::UNDEFINED_COLUMN, message));
        }
        if columns[..at].contains(column) {
            let message = format!(
                "column \"{column}\" appears twice in {} constraint",
                key.word().to_lowercase()
            );
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
        }
    }
    let (include, shown) = constraints::included(session, key.options, fields.iter().map(|own| own.name().as_str()))?;
    let deferral = keys::deferral(key.characteristics)?;
    let index = ExpressionIndex {
        oid: 0,
        name: key.name.map(fold).unwrap_or_default(),
        unique: true,
        nulls_not_distinct: key.nulls_not_distinct,
        keys: columns.iter().map(|name| quote::identifier(name)).collect(),
        predicate: None,
        computed: Default::default(),
        slot: Default::default(),
        key_rows: Default::default(),
        order: vec![ColumnOrder::default(); columns.len()],
        include,
        shown,
        partition: None,
    };
    if deferral != Deferral::Never {
        // Keys that are computed are checked with each statement. Those of the table are what it says.
        let state_now = session.state();
        let above = state_now
            .relation_by_oid(partition.parent)
            .map(all_of)
            .unwrap_or_default();
        let waits = |above: &PartitionIndex| above.deferral == deferral && above.declared.keys == index.keys;
        if !above.iter().any(waits) {
            return Err(SqlError::unsupported("a deferrable key of one partition"));
        }
    }
    super::check_unique(partition.partitioning.as_ref(), &partition.name, &columns, key.word())?;
    if key.kind == IndexKind::Primary {
        if partition.indexes.iter().any(|own| own.kind == IndexKind::Primary) {
            let message = format!("multiple primary keys for table \"{}\" are not allowed", partition.name);
            return Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message));
        }
        for column in &columns {
            super::alter::set_not_null(session, partition, column, true).await?;
        }
    }
    let mut names = columns;
    names.extend(index.include.iter().cloned());
    add(session, partition, index, key.kind, deferral, &names, only).await
}

/// ADD CONSTRAINT of a key to a partitioned table alone: it is not valid before each partition has one.
pub(in super::super) async fn add_only_key(session: &mut Session, place: &Target, key: &Key<'_>) -> Result<()> {
    let columns = key.columns.iter().map(create::key_column).collect::<Result<Vec<_>>>()?;
    let state_now = session.state();
    let table = state_now.table(&place.schema, &place.name);
    let table = table.ok_or_else(|| SqlError::internal("a table is not there"))?;
    if key.kind == IndexKind::Primary && table.definition().declared_primary_key().is_some() {
        let message = format!("multiple primary keys for table \"{}\" are not allowed", place.name);
        return Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message));
    }
    if let Some(missing) = columns
        .iter()
        .find(|name| table.definition().column_index(name).is_none())
    {
        let message = format!("column \"{missing}\" named in key does not exist");
        return Err(SqlError::new(state::UNDEFINED_COLUMN, message));
    }
    super::check_constraint(session, &place.schema, &place.name, &columns, key.word())?;
    let own = table.definition().columns.iter().map(|own| own.name.as_str());
    let (include, shown) = constraints::included(session, key.options, own)?;
    let deferral = keys::deferral(key.characteristics)?;
    let default = || match key.kind {
        IndexKind::Primary => Some(format!("{}_pkey", place.name)),
        _ => None,
    };
    let def = IndexDef {
        nulls_not_distinct: key.nulls_not_distinct,
        include,
        shown: IndexShown {
            only: Some(OnlyIndex {
                unique: true,
                constraint: Some(key.kind),
            }),
            ..shown
        },
        unique: false,
        constraint: false,
        ..constraints::unique_index(columns.clone(), key.name.map(fold).or_else(default))
    };
    let transaction = session.transaction()?;
    let mut transaction = transaction.lock();
    for column in columns.iter().filter(|_| key.kind == IndexKind::Primary) {
        transaction.set_not_null(&place.schema, &place.name, column, true)?;
    }
    transaction.create_index(&place.schema, &place.name, def)?;
    if deferral != Deferral::Never {
        transaction.defer_key(&place.schema, &place.name, &columns, deferral)?;
    }
    Ok(())
}
