//! Indexes of partitions. The rows of a partitioned table have its valid indexes, of which each partition has a name of its own; an
//! index of one partition, or of one that is attached to an index that is not valid yet, has that partition's rows.

use super::attach::rows_of;
use crate::catalog::bind::{Binder, Target, fold};
use crate::catalog::partitions;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::parse::parse_expression;
use crate::session::Session;
use crate::session::run;
use crate::session::statements::index::{existing, key_name};
use crate::session::statements::{constraints, create, keys};
use datafusion::arrow::array::RecordBatch;
use datafusion::sql::sqlparser::ast::{
    self, ConstraintCharacteristics, Ident, IndexColumn, IndexOption, NullsDistinctOption, ObjectName, TableConstraint,
};
use std::sync::Arc;
use tenon_storage::datetime::shown;
use tenon_storage::{
    ColumnOrder, DatabaseState, Deferral, ExpressionIndex, Index, IndexDef, IndexKind, IndexShown, OnlyIndex,
    Partition, PartitionIndex, Relation, TableDefinition, quote,
};

/// An index of a table or a partition, as one that a partition has of it is declared.
pub(crate) fn all_of(relation: &Relation) -> Vec<PartitionIndex> {
    match relation {
        Relation::Partition(partition) => partition.indexes.clone(),
        Relation::Table(table) => of_table(table.definition()),
        Relation::View(_) | Relation::Sequence(_) => Vec::new(),
    }
}

fn of_table(definition: &TableDefinition) -> Vec<PartitionIndex> {
    let columns = definition.all_indexes().map(|index| of_columns(definition, index));
    let computed = definition.expression_indexes.iter().map(|index| PartitionIndex {
        parent: None,
        kind: match index.is_declared_unique() {
            true => IndexKind::Unique,
            false => IndexKind::Plain,
        },
        deferral: Deferral::Never,
        declared: ExpressionIndex {
            unique: index.is_declared_unique(),
            ..index.clone()
        },
    });
    let mut found: Vec<PartitionIndex> = columns.chain(computed).collect();
    found.sort_by_key(|index| index.declared.oid);
    found
}

/// An index on columns with texts as its keys.
fn of_columns(definition: &TableDefinition, index: &Index) -> PartitionIndex {
    let name = |at: &usize| definition.columns[*at].name.clone();
    PartitionIndex {
        parent: None,
        kind: index.declared_kind(),
        deferral: index.deferral,
        declared: ExpressionIndex {
            oid: index.oid,
            name: index.name.clone(),
            unique: index.is_declared_unique(),
            nulls_not_distinct: index.nulls_not_distinct,
            keys: index.columns.iter().map(|at| quote::identifier(&name(at))).collect(),
            predicate: None,
            computed: Default::default(),
            slot: Default::default(),
            key_rows: Default::default(),
            order: index.order.clone(),
            include: index.include.iter().map(name).collect(),
            shown: index.shown.clone(),
            partition: None,
        },
    }
}

/// What names an index that nobody has named.
fn key_names(index: &ExpressionIndex) -> Result<Vec<String>> {
    let keys = index.keys.iter().map(|key| Ok(key_name(&parse_expression(key)?)));
    let mut names = keys.collect::<Result<Vec<_>>>()?;
    names.extend(index.include.iter().cloned());
    Ok(names)
}

/// Whether an index of a partition may be part of another, by what is in it.
fn fits(binder: &Binder, schema: &Relation, child: &PartitionIndex, parent: &PartitionIndex) -> Result<bool> {
    let (own, of) = (&child.declared, &parent.declared);
    let class = |index: &ExpressionIndex| {
        let order = index.ordered_keys().map(|(_, order)| order.operator_class);
        order.collect::<Vec<_>>()
    };
    if own.unique != of.unique
        || own.nulls_not_distinct != of.nulls_not_distinct
        || own.shown.method() != of.shown.method()
        || own.keys.len() != of.keys.len()
        || own.include != of.include
        || own.predicate.is_some() != of.predicate.is_some()
        || class(own) != class(of)
    {
        return Ok(false);
    }
    let planned = |text: &String| constraints::expression(binder, parse_expression(text)?, schema.columns());
    let pairs = own.keys.iter().zip(&of.keys);
    for (a, b) in pairs.chain(own.predicate.iter().zip(&of.predicate)) {
        if a != b && planned(a)? != planned(b)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Has a partition, and those below it, an index that is part of another: one that is there and fits, or a new one.
fn have(session: &Session, partition: u32, parent: &PartitionIndex) -> Result<()> {
    let binder = session.binder();
    let Some(relation @ Relation::Partition(own)) = binder.snapshot.relation_by_oid(partition) else {
        return Ok(());
    };
    if own
        .indexes
        .iter()
        .any(|index| index.parent == Some(parent.declared.oid))
    {
        return Ok(());
    }
    let transaction = session.transaction()?;
    for index in own
        .indexes
        .iter()
        .filter(|index| index.parent.is_none() && index.is_valid())
    {
        if (index.is_constraint() || !parent.is_constraint()) && fits(&binder, relation, index, parent)? {
            let attached = |own: &mut PartitionIndex| own.parent = Some(parent.declared.oid);
            transaction
                .lock()
                .change_partition_index(index.declared.oid, attached)?;
            return Ok(());
        }
    }
    let next = PartitionIndex {
        parent: Some(parent.declared.oid),
        declared: ExpressionIndex {
            oid: 0,
            name: String::new(),
            shown: IndexShown {
                only: None,
                ..parent.declared.shown.clone()
            },
            ..parent.declared.clone()
        },
        ..parent.clone()
    };
    let names = key_names(&next.declared)?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let oid = transaction
        .lock()
        .add_partition_index(partition, next.clone(), &names)?;
    let next = PartitionIndex {
        declared: ExpressionIndex { oid, ..next.declared },
        ..next
    };
    let below = session.state().partitions(partition);
    below.iter().try_for_each(|below| have(session, below.oid, &next))
}

/// Has the partitions of a table or partition all that its valid indexes are made of.
pub(crate) fn complete(session: &Session, relation: u32) -> Result<()> {
    let state_now = session.state();
    let Some(relation) = state_now.relation_by_oid(relation) else {
        return Ok(());
    };
    if relation.partitioning().is_none() {
        return Ok(());
    }
    let below = state_now.partitions(relation.oid());
    for index in all_of(relation).iter().filter(|index| index.is_valid()) {
        below.iter().try_for_each(|below| have(session, below.oid, index))?;
    }
    Ok(())
}

/// Has a new partition the indexes of what it is part of.
pub(super) fn inherit(session: &Session, partition: &Partition) -> Result<()> {
    let state_now = session.state();
    let parent = state_now.relation_by_oid(partition.parent);
    let indexes = parent.map(all_of).unwrap_or_default();
    indexes.iter().try_for_each(|index| have(session, partition.oid, index))
}

/// Gives a table that has become a partition the indexes that it had, and those of what it is part of.
pub(super) fn adopt(session: &Session, place: &Target, indexes: Vec<PartitionIndex>) -> Result<()> {
    let state_now = session.state();
    let Some(Relation::Partition(partition)) = state_now.relation(&place.schema, &place.name) else {
        return Ok(());
    };
    let transaction = session.transaction()?;
    for index in indexes {
        transaction.lock().add_partition_index(partition.oid, index, &[])?;
    }
    inherit(session, partition)
}

/// Gives a partition that has become a table the indexes that it had.
pub(super) fn release(session: &Session, place: &Target, indexes: &[PartitionIndex]) -> Result<()> {
    let transaction = session.transaction()?;
    let mut transaction = transaction.lock();
    let (schema, name) = (&place.schema, &place.name);
    for index in indexes {
        let own = &index.declared;
        let table = transaction.state().table(schema, name).cloned();
        let table = table.ok_or_else(|| SqlError::internal("a table is not there"))?;
        let definition = table.definition();
        let mut columns = Vec::new();
        for (key, order) in own.ordered_keys() {
            if let ast::Expr::Identifier(column) = parse_expression(key)?
                && definition.column_index(&fold(&column)).is_some()
            {
                columns.push((fold(&column), order));
            }
        }
        let on_columns = columns.len() == own.keys.len() && own.predicate.is_none();
        let names: Vec<String> = columns.iter().map(|(name, _)| name.clone()).collect();
        if !on_columns || !matches!(own.shown.method(), "btree" | "hash") {
            let next = ExpressionIndex {
                oid: 0,
                unique: own.unique && index.is_valid(),
                ..own.clone()
            };
            transaction.create_expression_index(schema, name, next, &[])?;
        } else if index.kind == IndexKind::Primary && index.is_valid() {
            transaction.add_primary_key(schema, name, &names, Some(own.name.clone()))?;
            transaction.show_of_primary_key(schema, name, &own.include, own.shown.clone())?;
        } else {
            let def = IndexDef {
                name: Some(own.name.clone()),
                columns,
                unique: own.unique && index.is_valid(),
                constraint: index.is_constraint() && index.is_valid(),
                nulls_not_distinct: own.nulls_not_distinct,
                include: own.include.clone(),
                shown: own.shown.clone(),
            };
            transaction.create_index(schema, name, def)?;
        }
        if index.deferral != Deferral::Never {
            transaction.defer_key(schema, name, &names, index.deferral)?;
        }
        // What was part of it still is.
        let state_now = transaction.state().clone();
        let table = state_now.table(schema, name);
        let next = table.into_iter().flat_map(|table| of_table(table.definition()));
        let next = next.map(|index| index.declared).find(|next| next.name == own.name);
        for below in state_now.partitions_below(definition.oid) {
            for part in below.indexes.iter().filter(|part| part.parent == Some(own.oid)) {
                let parent = next.as_ref().map(|next| next.oid);
                transaction.change_partition_index(part.declared.oid, |part| part.parent = parent)?;
            }
        }
    }
    Ok(())
}

/// CREATE INDEX on a partition.
pub(in super::super) async fn create(
    session: &mut Session,
    partition: &Partition,
    index: ExpressionIndex,
    names: &[String],
    only: bool,
) -> Result<()> {
    let kind = match index.unique {
        true => IndexKind::Unique,
        false => IndexKind::Plain,
    };
    add(session, partition, index, kind, Deferral::Never, names, only).await
}

async fn add(
    session: &mut Session,
    partition: &Partition,
    mut index: ExpressionIndex,
    kind: IndexKind,
    deferral: Deferral,
    names: &[String],
    only: bool,
) -> Result<()> {
    let state_now = session.state();
    let only = only && !state_now.partitions(partition.oid).is_empty();
    if only {
        let constraint = matches!(kind, IndexKind::Primary | IndexKind::Constraint).then_some(kind);
        index.shown.only = Some(OnlyIndex {
            unique: index.unique,
            constraint,
        });
    }
    let added = PartitionIndex {
        parent: None,
        kind,
        deferral,
        declared: index,
    };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let oid = session
        .transaction()?
        .lock()
        .add_partition_index(partition.oid, added, &names)?;
    if only {
        return Ok(());
    }
    let state_now = session.state();
    let Some(Relation::Partition(partition)) = state_now.relation_by_oid(partition.oid) else {
        return Ok(());
    };
    if let Some(index) = partition.indexes.iter().find(|index| index.declared.oid == oid) {
        refuse_equal(session, partition, &index.declared).await?;
    }
    complete(session, partition.oid)
}

/// 23505 where rows of a partition have the same key.
async fn refuse_equal(session: &Session, partition: &Partition, index: &ExpressionIndex) -> Result<()> {
    if !index.unique {
        return Ok(());
    }
    let mut sql = rows_of(session, partition, &index.keys.join(", "))?;
    if let Some(predicate) = &index.predicate {
        sql.push_str(&format!(" AND ({predicate})"));
    }
    for key in index.keys.iter().filter(|_| !index.nulls_not_distinct) {
        sql.push_str(&format!(" AND ({key}) IS NOT NULL"));
    }
    let places: Vec<String> = (1..=index.keys.len()).map(|at| at.to_string()).collect();
    sql.push_str(&format!(" GROUP BY {} HAVING count(*) > 1 LIMIT 1", places.join(", ")));
    let twice: Vec<RecordBatch> =
        super::attach::read(session, &sql, Vec::new(), |found, batch| found.push(batch)).await?;
    let Some(twice) = twice.iter().find(|batch| batch.num_rows() > 0) else {
        return Ok(());
    };
    let values: Vec<String> = twice.columns().iter().map(|column| shown(column, 0)).collect();
    let message = format!("could not create unique index \"{}\"", index.name);
    Err(SqlError::new(state::UNIQUE_VIOLATION, message).detail(format!(
        "Key ({})=({}) is duplicated.",
        index.keys.join(", "),
        values.join(", ")
    )))
}

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

/// An index and what it is of.
struct Found {
    relation: Relation,
    index: PartitionIndex,
}

fn found(session: &Session, name: &ObjectName) -> Result<Option<Found>> {
    let Some((schema, last)) = existing(session, name)? else {
        return Ok(None);
    };
    let state_now = session.state();
    let mut relations = state_now
        .schema(&schema)
        .into_iter()
        .flat_map(|entry| entry.relations());
    Ok(relations.find_map(|relation| {
        let index = all_of(relation).into_iter().find(|index| index.declared.name == last)?;
        let relation = relation.clone();
        Some(Found { relation, index })
    }))
}

/// ALTER INDEX ... ATTACH PARTITION.
pub(in super::super) async fn attach(session: &mut Session, to: &ObjectName, name: &ObjectName) -> Result<()> {
    let missing = |name: &ObjectName| crate::catalog::bind::undefined(None, &super::super::last(name));
    let parent = found(session, to)?.ok_or_else(|| missing(to))?;
    let child = found(session, name)?.ok_or_else(|| missing(name))?;
    let (of, own) = (&parent.index.declared.name, &child.index.declared.name);
    if parent.relation.partitioning().is_none() {
        let message = format!("ALTER action ATTACH PARTITION cannot be performed on relation \"{of}\"");
        let detail = "This operation is not supported for indexes.";
        return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message).detail(detail));
    }
    if child.index.parent == Some(parent.index.declared.oid) {
        return Ok(());
    }
    let refused = |state, detail: String| {
        let message = format!("cannot attach index \"{own}\" as a partition of index \"{of}\"");
        Err(SqlError::new(state, message).detail(detail))
    };
    if child.index.parent.is_some() {
        let detail = format!("Index \"{own}\" is already attached to another index.");
        return refused(state::OBJECT_NOT_IN_PREREQUISITE_STATE, detail);
    }
    let partition = match &child.relation {
        Relation::Partition(partition) if partition.parent == parent.relation.oid() => partition.clone(),
        _ => {
            let table = parent.relation.name();
            let detail = format!("Index \"{own}\" is not an index on any partition of table \"{table}\".");
            return refused(state::OBJECT_NOT_IN_PREREQUISITE_STATE, detail);
        }
    };
    if !fits(&session.binder(), &child.relation, &child.index, &parent.index)? {
        let detail = "The index definitions do not match.".to_string();
        return refused(state::INVALID_OBJECT_DEFINITION, detail);
    }
    if parent.index.is_constraint() && !child.index.is_constraint() {
        let table = parent.relation.name();
        let detail = format!(
            "The index \"{of}\" belongs to a constraint in table \"{table}\" but no constraint exists for index \"{own}\"."
        );
        return refused(state::INVALID_OBJECT_DEFINITION, detail);
    }
    let taken = |index: &PartitionIndex| index.parent == Some(parent.index.declared.oid);
    if partition.indexes.iter().any(taken) {
        let detail = format!(
            "Another index is already attached for partition \"{}\".",
            partition.name
        );
        return refused(state::OBJECT_NOT_IN_PREREQUISITE_STATE, detail);
    }
    let attached = |index: &mut PartitionIndex| index.parent = Some(parent.index.declared.oid);
    let transaction = session.transaction()?;
    transaction
        .lock()
        .change_partition_index(child.index.declared.oid, attached)?;
    settle(session, parent).await
}

/// Has an index be valid once each partition has a valid one that is part of it, and those above it likewise.
async fn settle(session: &Session, of: Found) -> Result<()> {
    let mut next = Some(of);
    while let Some(Found { relation, index }) = next {
        let oid = index.declared.oid;
        let state_now = session.state();
        let has = |partition: &Arc<Partition>| {
            let mut own = partition.indexes.iter();
            own.any(|own| own.parent == Some(oid) && own.is_valid())
        };
        if index.is_valid() || !state_now.partitions(relation.oid()).iter().all(has) {
            return Ok(());
        }
        let transaction = session.transaction()?;
        next = match &relation {
            Relation::Partition(partition) => {
                let valid = |own: &mut PartitionIndex| own.declared.shown.only = None;
                transaction.lock().change_partition_index(oid, valid)?;
                above(&state_now, partition.parent, index.parent)
            }
            _ => {
                let root = relation.oid();
                run::background(&session.engine, async move {
                    Ok(transaction.lock().validate_only_index(root, oid)?)
                })
                .await?;
                None
            }
        };
    }
    Ok(())
}

fn above(state_now: &DatabaseState, relation: u32, index: Option<u32>) -> Option<Found> {
    let relation = state_now.relation_by_oid(relation)?.clone();
    let index = all_of(&relation)
        .into_iter()
        .find(|own| Some(own.declared.oid) == index)?;
    Some(Found { relation, index })
}

/// DROP INDEX of a partition's.
pub(in super::super) fn drop(session: &Session, partition: &Partition, index: &PartitionIndex) -> Result<()> {
    let (name, state_now) = (&index.declared.name, session.state());
    if let Some(above) = above(&state_now, partition.parent, index.parent) {
        let of = &above.index.declared.name;
        let message = format!("cannot drop index {name} because index {of} requires it");
        let hint = format!("You can drop index {of} instead.");
        return Err(SqlError::new(state::DEPENDENT_OBJECTS_STILL_EXIST, message).hint(hint));
    }
    if index.is_constraint() {
        let table = &partition.name;
        let message = format!("cannot drop index {name} because constraint {name} on table {table} requires it");
        let hint = format!("You can drop constraint {name} on table {table} instead.");
        return Err(SqlError::new(state::DEPENDENT_OBJECTS_STILL_EXIST, message).hint(hint));
    }
    session.transaction()?.lock().drop_partition_index(index.declared.oid)?;
    Ok(())
}

/// Drops the partitions' indexes that read a column.
pub(in super::super) fn drop_about(session: &Session, root: u32, column: &str) -> Result<()> {
    for partition in session.state().partitions_below(root) {
        for index in &partition.indexes {
            let own = &index.declared;
            let mut mentioned = own.include.iter().any(|name| name == column);
            for text in own.keys.iter().chain(&own.predicate) {
                mentioned |= constraints::mentions(text, column)?;
            }
            // One that is part of another goes with it, maybe before its turn.
            let state_now = session.state();
            let now = state_now
                .relation_by_oid(partition.oid)
                .and_then(Relation::as_partition);
            if mentioned && now.is_some_and(|now| now.index(&own.name).is_some()) {
                session.transaction()?.lock().drop_partition_index(own.oid)?;
            }
        }
    }
    Ok(())
}

/// The rows of a partition that has a key of its own may be found by it: the text of which rows these are.
pub(in super::super) fn predicate(binder: &Binder, index: &ExpressionIndex) -> Option<String> {
    let partition = match binder.snapshot.relation_by_oid(index.partition?) {
        Some(Relation::Partition(partition)) => partitions::condition(&binder.snapshot, partition),
        _ => "false".into(),
    };
    Some(match &index.predicate {
        Some(own) => format!("{partition} AND ({own})"),
        None => partition,
    })
}
