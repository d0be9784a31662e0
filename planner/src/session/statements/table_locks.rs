//! Locks on tables: LOCK TABLE, and those that statements take before they change rows or tables (PostgreSQL's documentation,
//! section 13.3.1). Queries take none.

use super::cursor;
use super::row_locks::{Found, Patience, look_again};
use crate::catalog::bind::fold;
use crate::catalog::rights::denied;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::Outcome;
use crate::pg::parse::definition::{Action, AlterKind, Definition, LockTable};
use crate::pg::statement::Kind;
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{
    self, AlterTableOperation, CascadeOption, ColumnDef, ColumnOption, DropBehavior, ObjectName, TableConstraint,
};
use std::sync::Arc;
use tenon_storage::{ForeignKey, Relation, TableLock, TableVersion, privilege};

/// Locks a table whose rows are to be changed.
pub(super) async fn for_rows(session: &Session, table: &TableVersion) -> Result<Found> {
    lock(session, table, TableLock::RowExclusive).await
}

/// Locks a table, and waits for those who have locked it otherwise.
pub(super) async fn lock(session: &Session, table: &TableVersion, mode: TableLock) -> Result<Found> {
    if table.definition().schema_name == session.temporary_schema() {
        return Ok(Found::Stand);
    }
    match is_outdated(session, table, mode).await? && !session.keeps_snapshot() {
        true => look_again(session),
        false => Ok(Found::Stand),
    }
}

/// The same for a table that is to be defined anew. Where nothing but this statement has seen the transaction's snapshot, it
/// goes on over a newer one, as PostgreSQL's definitions see what is committed whatever the snapshot is.
async fn lock_for_definition(session: &Session, table: &TableVersion, mode: TableLock) -> Result<()> {
    if !session.has_new_snapshot() || table.definition().schema_name == session.temporary_schema() {
        return lock(session, table, mode).await.map(drop);
    }
    if is_outdated(session, table, mode).await? {
        session.transaction()?.lock().refresh()?;
    }
    Ok(())
}

/// Locks a table; whether the transaction does not see it as it is.
async fn is_outdated(session: &Session, table: &TableVersion, mode: TableLock) -> Result<bool> {
    let waited = wait(session, table.oid(), mode).await?;
    Ok(session.transaction()?.lock().is_outdated(table.oid(), waited))
}

/// Whether it had to wait.
async fn wait(session: &Session, table: u32, mode: TableLock) -> Result<bool> {
    let transaction = session.transaction()?;
    let mut waited = false;
    loop {
        let wait = transaction.lock().lock_table(table, mode)?;
        let Some(wait) = wait else { return Ok(waited) };
        waited = true;
        let ended = Patience::of(session).wait(wait).await;
        ended.inspect_err(|_| transaction.lock().give_up_table(table))?;
    }
}

/// Locks the tables that a statement defines anew, empties or drops, and those that it refers to, and sees what became of them
/// where it had to wait.
pub(super) async fn for_definition(session: &Session, kind: &Kind) -> Result<()> {
    lock_sequence(session, kind).await?;
    let cascade = cascade_of(kind);
    for (name, mode) in of_definition(kind) {
        // What is wrong with a name is the statement's to say.
        let binder = session.binder();
        let relation = binder.names().existing(name).ok().flatten();
        let Some(table) = locked(session, relation) else {
            continue;
        };
        lock_for_definition(session, &table, mode).await?;
        if let (Some(verb), Some(relation)) = (verb_of(kind, name), relation) {
            cursor::check_unused(session, verb, relation)?;
        }
        for referenced in released_by(session, kind, name, table.oid()) {
            lock_for_definition(session, &referenced, mode).await?;
            if drops_constraint(kind) {
                cursor::check_unused(session, "ALTER TABLE", &Relation::Table(referenced))?;
            }
        }
        let mut reached = vec![table];
        let mut next = 0;
        while next < reached.len() && (cascade == Cascade::ToAll || cascade == Cascade::ToNext && next == 0) {
            for (referencing, _) in session.state().references_to(reached[next].oid()) {
                if reached.iter().all(|known| known.oid() != referencing.oid()) {
                    lock_for_definition(session, &referencing, mode).await?;
                    if cascade == Cascade::ToAll {
                        cursor::check_unused(session, "TRUNCATE", &Relation::Table(referencing.clone()))?;
                    }
                    reached.push(referencing);
                }
            }
            next += 1;
        }
    }
    Ok(())
}

/// Locks the sequence that ALTER SEQUENCE changes: of two who change it the second goes on from what the first has made of it.
async fn lock_sequence(session: &Session, kind: &Kind) -> Result<()> {
    let Kind::Definition(definition) = kind else {
        return Ok(());
    };
    let name = match definition.as_ref() {
        Definition::AlterSequence { name, .. } => name,
        Definition::Alter(alter) if alter.kind == AlterKind::Sequence => &alter.name,
        _ => return Ok(()),
    };
    let relation = session.binder().names().existing(name).ok().flatten().cloned();
    let Some(sequence) = relation.as_ref().and_then(Relation::as_sequence) else {
        return Ok(());
    };
    if sequence.schema_name == session.temporary_schema() {
        return Ok(());
    }
    wait(session, sequence.oid, TableLock::ShareRowExclusive).await?;
    let transaction = session.transaction()?;
    let mut transaction = transaction.lock();
    if transaction.is_outdated_sequence(sequence.oid) && (session.has_new_snapshot() || !session.keeps_snapshot()) {
        transaction.refresh()?;
    }
    Ok(())
}

/// What a statement does to the relation of this name among those it names, where that must not be read meanwhile.
fn verb_of(kind: &Kind, name: &ObjectName) -> Option<&'static str> {
    match kind {
        Kind::Definition(definition) => match definition.as_ref() {
            Definition::Alter(alter) => {
                let changes = |action: &Action| match action {
                    Action::Known(operation) => !matches!(
                        operation.as_ref(),
                        AlterTableOperation::RenameColumn { .. }
                            | AlterTableOperation::RenameConstraint { .. }
                            | AlterTableOperation::RenameTable { .. }
                    ),
                    Action::SetSchema(_) | Action::Partition(_) => false,
                    _ => true,
                };
                (alter.name == *name && alter.actions.iter().any(changes)).then_some("ALTER TABLE")
            }
            Definition::Refresh { .. } => Some("REFRESH MATERIALIZED VIEW"),
            _ => None,
        },
        Kind::Sql(tree) => match tree.as_ref() {
            ast::Statement::Truncate(_) => Some("TRUNCATE"),
            ast::Statement::CreateIndex(_) => Some("CREATE INDEX"),
            _ => None,
        },
        _ => None,
    }
}

/// The tables to which foreign keys of a table refer that go with what a statement drops of it.
fn released_by(session: &Session, kind: &Kind, name: &ObjectName, table: u32) -> Vec<Arc<TableVersion>> {
    let state = session.state();
    let Some(own) = state.table_by_oid(table).map(|table| table.definition()) else {
        return Vec::new();
    };
    let goes = |key: &ForeignKey| match kind {
        Kind::Sql(tree) => matches!(tree.as_ref(), ast::Statement::Drop { .. }),
        Kind::Definition(definition) => match definition.as_ref() {
            Definition::Alter(alter) if alter.name == *name => alter.actions.iter().any(|action| match action {
                Action::Known(operation) => match operation.as_ref() {
                    AlterTableOperation::DropConstraint { name, .. } => fold(name) == key.name,
                    AlterTableOperation::DropColumn { column_names, .. } => {
                        let mut dropped = column_names.iter().filter_map(|name| own.column_index(&fold(name)));
                        dropped.any(|at| key.columns.contains(&at))
                    }
                    _ => false,
                },
                _ => false,
            }),
            _ => false,
        },
        _ => false,
    };
    let keys = own
        .foreign_keys
        .iter()
        .filter(|key| key.references != table && goes(key));
    keys.filter_map(|key| state.table_by_oid(key.references).cloned())
        .collect()
}

fn drops_constraint(kind: &Kind) -> bool {
    let Kind::Definition(definition) = kind else {
        return false;
    };
    let Definition::Alter(alter) = definition.as_ref() else {
        return false;
    };
    let drops = |action: &Action| matches!(action, Action::Known(operation) if matches!(operation.as_ref(), AlterTableOperation::DropConstraint { .. }));
    alter.actions.iter().any(drops)
}

/// To which tables a statement goes on from those it names, by the foreign keys that reference them.
#[derive(Clone, Copy, PartialEq)]
enum Cascade {
    No,
    /// Those tables' foreign keys go.
    ToNext,
    /// Their rows go, and with them those of tables that reference these.
    ToAll,
}

fn cascade_of(kind: &Kind) -> Cascade {
    let goes_on = match kind {
        Kind::Definition(definition) => match definition.as_ref() {
            Definition::Alter(alter) => alter.actions.iter().any(|action| match action {
                Action::Known(operation) => matches!(
                    operation.as_ref(),
                    AlterTableOperation::DropConstraint {
                        drop_behavior: Some(DropBehavior::Cascade),
                        ..
                    } | AlterTableOperation::DropColumn {
                        drop_behavior: Some(DropBehavior::Cascade),
                        ..
                    }
                ),
                _ => false,
            }),
            _ => false,
        },
        Kind::Sql(tree) => match tree.as_ref() {
            ast::Statement::Drop { cascade, .. } => *cascade,
            ast::Statement::Truncate(truncate) if truncate.cascade == Some(CascadeOption::Cascade) => {
                return Cascade::ToAll;
            }
            _ => false,
        },
        _ => false,
    };
    if goes_on { Cascade::ToNext } else { Cascade::No }
}

fn of_definition(kind: &Kind) -> Vec<(&ObjectName, TableLock)> {
    use TableLock::{AccessExclusive, Exclusive, Share};
    match kind {
        Kind::Definition(definition) => match definition.as_ref() {
            Definition::Alter(alter) if alter.kind == AlterKind::Table => {
                let operations = alter.actions.iter().filter_map(|action| match action {
                    Action::Known(operation) => Some(operation.as_ref()),
                    _ => None,
                });
                let referred = operations.flat_map(|operation| match operation {
                    AlterTableOperation::AddConstraint { constraint, .. } => {
                        of_constraint(constraint).into_iter().collect()
                    }
                    AlterTableOperation::AddColumn { column_def, .. } => of_column(column_def),
                    _ => Vec::new(),
                });
                [(&alter.name, AccessExclusive)].into_iter().chain(referred).collect()
            }
            Definition::Refresh { name, .. } => vec![(name, Exclusive)],
            _ => Vec::new(),
        },
        Kind::Sql(tree) => match tree.as_ref() {
            ast::Statement::Drop {
                object_type: ast::ObjectType::Table | ast::ObjectType::MaterializedView,
                names,
                ..
            } => names.iter().map(|name| (name, AccessExclusive)).collect(),
            ast::Statement::Truncate(truncate) => {
                let targets = truncate.table_names.iter();
                targets.map(|target| (&target.name, AccessExclusive)).collect()
            }
            ast::Statement::CreateIndex(create) => vec![(&create.table_name, Share)],
            ast::Statement::CreateTable(create) => {
                let of_columns = create.columns.iter().flat_map(of_column);
                create
                    .constraints
                    .iter()
                    .filter_map(of_constraint)
                    .chain(of_columns)
                    .collect()
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// The table that a foreign key refers to.
fn of_constraint(constraint: &TableConstraint) -> Option<(&ObjectName, TableLock)> {
    match constraint {
        TableConstraint::ForeignKey(key) => Some((&key.foreign_table, TableLock::ShareRowExclusive)),
        _ => None,
    }
}

fn of_column(column: &ColumnDef) -> Vec<(&ObjectName, TableLock)> {
    let referred = column.options.iter().filter_map(|option| match &option.option {
        ColumnOption::ForeignKey(key) => Some((&key.foreign_table, TableLock::ShareRowExclusive)),
        _ => None,
    });
    referred.collect()
}

/// The table that is locked for a relation: a partition's rows are those of the whole.
fn locked(session: &Session, relation: Option<&Relation>) -> Option<Arc<TableVersion>> {
    match relation? {
        Relation::Table(table) => Some(table.clone()),
        Relation::Partition(partition) => session.state().table_by_oid(partition.root).cloned(),
        Relation::View(_) | Relation::Sequence(_) => None,
    }
}

/// LOCK TABLE.
pub(super) async fn run(session: &mut Session, asked: &LockTable) -> Result<Outcome> {
    if session.block().is_none() {
        let message = "LOCK TABLE can only be used in transaction blocks";
        return Err(SqlError::new(state::NO_ACTIVE_SQL_TRANSACTION, message));
    }
    for name in &asked.names {
        let binder = session.binder();
        let relation = binder.names().relation(name)?;
        if !binder.rights().has_one(relation, rights(asked.mode)) {
            return Err(denied(relation.kind(), relation.name()));
        }
        if relation.as_sequence().is_some() {
            let message = format!("cannot lock relation \"{}\"", relation.name());
            return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message)
                .detail("This operation is not supported for sequences."));
        }
        let Some(table) = locked(session, Some(relation)) else {
            continue;
        };
        if asked.nowait && !session.transaction()?.lock().try_lock_table(table.oid(), asked.mode) {
            let message = format!("could not obtain lock on relation \"{}\"", relation.name());
            return Err(SqlError::new(state::LOCK_NOT_AVAILABLE, message));
        }
        lock(session, &table, asked.mode).await?;
    }
    Ok(Outcome::Command("LOCK TABLE".into()))
}

/// Who has one of these rights may take the lock.
fn rights(mode: TableLock) -> u32 {
    let changes = privilege::UPDATE | privilege::DELETE | privilege::TRUNCATE;
    match mode {
        TableLock::AccessShare => privilege::SELECT,
        TableLock::RowExclusive => changes | privilege::INSERT,
        _ => changes,
    }
}
