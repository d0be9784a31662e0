//! Indexes of partitions. The rows of a partitioned table have its valid indexes, of which each partition has a name of its own; an
//! index of one partition, or of one that is attached to an index that is not valid yet, has that partition's rows.

use super::attach::rows_of;
use crate::catalog::bind::{Binder, Target, fold};
use crate::catalog::partitions;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::parse::parse_expression;
use crate::pg::rewrite::index_key_name;
use crate::session::Session;
use crate::session::statements::constraints;
use datafusion::arrow::array::RecordBatch;
use datafusion::sql::sqlparser::ast;
use tenon_storage::datetime::shown;
use tenon_storage::{
    Deferral, ExpressionIndex, Index, IndexDef, IndexKind, IndexShown, OnlyIndex, Partition, PartitionIndex, Relation,
    TableDefinition, quote,
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
    let keys = index.keys.iter().map(|key| Ok(index_key_name(&parse_expression(key)?)));
    let mut names = keys.collect::<Result<Vec<_>>>()?;
    names.extend(index.include.iter().cloned());
    Ok(names)
}

/// Whether an index of a partition may be part of another, by what is in it.
pub(super) fn fits(
    binder: &Binder,
    schema: &Relation,
    child: &PartitionIndex,
    parent: &PartitionIndex,
) -> Result<bool> {
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

pub(super) async fn add(
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
