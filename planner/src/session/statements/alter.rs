//! ALTER TABLE, VIEW, MATERIALIZED VIEW, INDEX and SEQUENCE.

use super::alter_index;
use super::constraints;
use super::role::rights;
use super::{
    check_constraints, column, create, declared, defaults, keys, owner, partition, references, row_types, schema_name,
    sequence_texts, storage_parameters, triggers, view, view_texts,
};
use crate::catalog::bind::{Target, fold};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::outcome::Outcome;
use crate::pg::parse::definition::{Action, Alter, AlterKind};
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTableOperation, DropBehavior, RenameTableNameKind, TableConstraint,
};
use tenon_storage::{Check, IndexDef, Relation, privilege};

pub(super) async fn run(session: &mut Session, alter: &Alter) -> Result<Outcome> {
    let tag = || Ok(Outcome::Command(alter.kind.tag().into()));
    session.check_writable(alter.kind.tag())?;
    let binder = session.binder();
    let last = super::last(&alter.name);
    let names_index =
        binder.names().existing(&alter.name)?.is_none() && super::index::existing(session, &alter.name)?.is_some();
    if alter.kind == AlterKind::Index || names_index {
        return alter_index::alter(session, alter).await;
    }
    let Some(relation) = binder.names().existing(&alter.name)? else {
        if !alter.if_exists {
            return Err(crate::catalog::bind::undefined(None, &last));
        }
        session.notice(format!("relation \"{last}\" does not exist, skipping"));
        return tag();
    };
    let relation = relation.clone();
    check_kind(alter.kind, &relation)?;
    owner::check_alter(&binder, alter, &relation)?;
    let mut place = Target {
        schema: relation.schema_name().to_string(),
        name: relation.name().to_string(),
    };
    for action in &alter.actions {
        match (action, &relation) {
            (Action::Partition(change), _) => {
                partition::alter::change(session, &relation, change).await?;
                continue;
            }
            _ if alter.only => partition::alter::refuse_only(&binder, &relation, action)?,
            _ => {}
        }
        match (action, &relation) {
            (Action::SetSchema(_) | Action::OwnerTo(_), _) => {}
            (_, Relation::Partition(own)) => {
                partition::alter::action(session, own, &mut place, action, alter.only).await?;
                continue;
            }
            (Action::Known(operation), Relation::Table(_))
                if alter.only
                    && let AlterTableOperation::AddConstraint { constraint, .. } = operation.as_ref()
                    && let Some(key) = partition::own_keys::Key::of(constraint)
                    && !binder.snapshot.partitions(relation.oid()).is_empty() =>
            {
                partition::own_keys::add_only_key(session, &place, &key).await?;
                continue;
            }
            _ => {}
        }
        let of_rows = row_types::before(session, &relation);
        match action {
            Action::Partition(_) => {}
            Action::Known(operation) => one(session, &relation, &mut place, operation).await?,
            Action::Column(column, change) => column::change(session, &place, &fold(column), change).await?,
            Action::SetSchema(to) => set_schema(session, &relation, &mut place, &fold(to))?,
            Action::CheckOption(value) => {
                let option = view::check_option_named(value.as_deref())?.unwrap_or_default();
                let transaction = session.transaction()?;
                transaction
                    .lock()
                    .set_check_option(&place.schema, &place.name, option)?;
            }
            Action::Parameters { is_set, parameters } => {
                storage_parameters::change(session, &place, parameters, *is_set)?;
            }
            Action::OwnerTo(to) => owner::relation_to(session, &relation, to)?,
            Action::Triggers(on, which) => triggers::switch(session, &relation, *on, which)?,
            Action::Rule(name) => return Err(triggers::no_rule(&fold(name), &relation)),
            Action::Nothing => {}
            Action::Unsupported(what) => return Err(SqlError::unsupported(format!("{} {what}", alter.kind.tag()))),
        }
        row_types::follow(session, of_rows).await?;
    }
    tag()
}

/// ALTER TABLE takes any relation; the others their own kind.
fn check_kind(kind: AlterKind, relation: &Relation) -> Result<()> {
    let wanted = match kind {
        AlterKind::Table => return Ok(()),
        AlterKind::View => "view",
        AlterKind::MaterializedView => "materialized view",
        AlterKind::Sequence => "sequence",
        AlterKind::Index => "index",
    };
    if relation.kind() == wanted {
        return Ok(());
    }
    let message = format!("\"{}\" is not a {wanted}", relation.name());
    Err(SqlError::new(state::WRONG_OBJECT_TYPE, message))
}

fn set_schema(session: &mut Session, relation: &Relation, place: &mut Target, to: &str) -> Result<()> {
    let owner = relation.as_sequence().and_then(|own| own.owner.as_ref());
    if let Some(table) = owner.and_then(|owner| session.state().table_by_oid(owner.table_oid).cloned()) {
        let message = "cannot move an owned sequence into another schema";
        let detail = format!("Sequence \"{}\" is linked to table \"{}\".", place.name, table.name());
        return Err(SqlError::unsupported_as(message).detail(detail));
    }
    if session.state().schema(to).is_none() {
        let message = format!("schema \"{to}\" does not exist");
        return Err(SqlError::new(state::INVALID_SCHEMA_NAME, message));
    }
    if to == place.schema {
        return Ok(());
    }
    let state_now = session.state();
    rights(session, &state_now).check_schema(to, privilege::CREATE)?;
    let transaction = session.transaction()?;
    let owned = transaction.lock().owned_sequences(relation.oid(), None);
    for sequence in relation.as_sequence().into_iter().chain(&owned) {
        let to = Target {
            schema: to.to_string(),
            name: sequence.name.clone(),
        };
        sequence_texts::moves(session, sequence.oid, &to)?;
    }
    schema_name::moves_rows(session, relation, (to, &place.name))?;
    let mut transaction = transaction.lock();
    for sequence in owned {
        transaction.move_relation(&sequence.schema_name, &sequence.name, to, &sequence.name)?;
    }
    transaction.move_relation(&place.schema, &place.name, to, &place.name)?;
    drop(transaction);
    view_texts::moved(session, (&place.schema, &place.name), (to, &place.name))?;
    place.schema = to.to_string();
    Ok(())
}

async fn one(
    session: &mut Session,
    relation: &Relation,
    place: &mut Target,
    operation: &AlterTableOperation,
) -> Result<()> {
    let transaction = session.transaction()?;
    let Target { schema, name } = &*place;
    match operation {
        AlterTableOperation::RenameTable { table_name } => {
            let (RenameTableNameKind::As(to) | RenameTableNameKind::To(to)) = table_name;
            let to = super::last(to);
            if relation.as_sequence().is_some() {
                let to = Target {
                    schema: schema.clone(),
                    name: to.clone(),
                };
                sequence_texts::moves(session, relation.oid(), &to)?;
            }
            schema_name::moves_rows(session, relation, (schema, &to))?;
            transaction.lock().rename_relation(schema, name, &to)?;
            view_texts::moved(session, (schema, name), (schema, &to))?;
            place.name = to;
        }
        AlterTableOperation::RenameConstraint { old_name, new_name } => {
            let (from, to) = (fold(old_name), fold(new_name));
            if !transaction.lock().rename_constraint(schema, name, &from, &to)? {
                let message = format!("constraint \"{from}\" for table \"{name}\" does not exist");
                return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
            }
        }
        AlterTableOperation::RenameColumn {
            old_column_name,
            new_column_name,
        } => {
            let (from, to) = (fold(old_column_name), fold(new_column_name));
            if relation.as_view().is_some() {
                view_texts::column_renamed(session, place, &from, &to)?;
                transaction.lock().rename_view_column(schema, name, &from, &to)?;
                return Ok(());
            }
            let checks = checks(session, schema, name);
            view_texts::column_renamed(session, place, &from, &to)?;
            transaction.lock().rename_column(schema, name, &from, &to)?;
            let state_now = session.state();
            if let Some(table) = state_now.table(schema, name) {
                let indexes = constraints::renamed_indexes(&table.definition().expression_indexes, &from, &to)?;
                if !indexes.is_empty() {
                    transaction.lock().set_expression_indexes(schema, name, indexes)?;
                }
                column::rename_in_generated(session, place, &from, &to)?;
            }
            partition::follow_rename(session, relation.oid(), &from, &to)?;
            if !checks.is_empty() {
                let checks = constraints::renamed(&checks, &from, &to)?;
                transaction.lock().set_checks(schema, name, checks)?;
            }
        }
        AlterTableOperation::AddColumn {
            if_not_exists,
            column_def,
            ..
        } => {
            let (column, declared) = declared::column_definition(session, column_def, place)?;
            let state = session.state();
            let exists = state
                .table(schema, name)
                .is_some_and(|t| t.definition().column_index(&column.name).is_some());
            if exists && *if_not_exists {
                let message = format!(
                    "column \"{}\" of relation \"{name}\" already exists, skipping",
                    column.name
                );
                session.notice(message);
                return Ok(());
            }
            return column::add(session, place, column, declared).await;
        }
        AlterTableOperation::DropColumn {
            column_names,
            if_exists,
            drop_behavior,
            ..
        } => {
            for column in column_names {
                let column = fold(column);
                let state = session.state();
                let there = state
                    .table(schema, name)
                    .is_some_and(|t| t.definition().column_index(&column).is_some());
                if !there && *if_exists {
                    let message = format!("column \"{column}\" of relation \"{name}\" does not exist, skipping");
                    session.notice(message);
                    continue;
                }
                if let Some(table) = state.table(schema, name) {
                    partition::refuse_change_of_key(&session.binder(), table.definition(), &column, "drop")?;
                }
                let cascade = *drop_behavior == Some(DropBehavior::Cascade);
                column::remove(session, place, &column, cascade)?;
            }
        }
        AlterTableOperation::AlterColumn { column_name, op } => {
            let column = fold(column_name);
            match op {
                AlterColumnOperation::SetNotNull => transaction.lock().set_not_null(schema, name, &column, true)?,
                AlterColumnOperation::DropNotNull if column::is_identity(session, place, &column) => {
                    let message = format!("column \"{column}\" of relation \"{name}\" is an identity column");
                    return Err(SqlError::new(state::SYNTAX_ERROR, message));
                }
                AlterColumnOperation::DropNotNull => transaction.lock().set_not_null(schema, name, &column, false)?,
                AlterColumnOperation::SetDefault { value } => {
                    let state = session.state();
                    let mut text = None;
                    if let Some(table) = state.table(schema, name)
                        && let Some(at) = table.definition().column_index(&column)
                    {
                        let own = &table.definition().columns[at];
                        column::refuse_generated(own, name, "SET DEFAULT")?;
                        text = defaults::given(session, value, own)?;
                    }
                    transaction.lock().set_default(schema, name, &column, text)?;
                }
                AlterColumnOperation::DropDefault => {
                    let state = session.state();
                    let definition = state.table(schema, name).map(|table| table.definition());
                    if let Some((definition, at)) = definition.and_then(|own| Some((own, own.column_index(&column)?))) {
                        column::refuse_generated(&definition.columns[at], name, "DROP DEFAULT")?;
                    }
                    transaction.lock().set_default(schema, name, &column, None)?
                }
                other => return Err(SqlError::unsupported(format!("ALTER COLUMN {other}"))),
            }
        }
        AlterTableOperation::ReplicaIdentity { .. } | AlterTableOperation::SetOptionsParens { .. } => {}
        AlterTableOperation::ValidateConstraint { name } => {
            return references::validate_constraint(session, place, &fold(name)).await;
        }
        AlterTableOperation::DropConstraint {
            if_exists,
            name: own,
            drop_behavior,
        } => {
            let own = fold(own);
            let cascade = *drop_behavior == Some(DropBehavior::Cascade);
            let what = format!("constraint {own} on table {name}");
            references::release_index(session, relation.oid(), &own, &what, cascade)?;
            let state_now = session.state();
            let key = state_now
                .table(schema, name)
                .and_then(|table| table.definition().primary_key.clone());
            let is_key = key.is_some_and(|key| key.name == own);
            if !transaction.lock().drop_constraint(schema, name, &own)? {
                let message = format!("constraint \"{own}\" of relation \"{name}\" does not exist");
                if !*if_exists {
                    return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
                }
                session.notice(format!("{message}, skipping"));
            }
            if is_key {
                keys::release_views(session, place, &what, cascade)?;
            }
        }
        AlterTableOperation::AddConstraint {
            constraint: TableConstraint::ForeignKey(key),
            not_valid,
        } => return references::add(session, place, key, !not_valid).await,
        AlterTableOperation::AddConstraint {
            constraint: TableConstraint::Check(check),
            not_valid: true,
        } => return check_constraints::add_unchecked(session, place, check),
        AlterTableOperation::AddConstraint { constraint, .. } => {
            return constraint_added(session, place, constraint).await;
        }
        other => return Err(SqlError::unsupported(format!("ALTER TABLE {other}"))),
    }
    Ok(())
}

async fn constraint_added(session: &mut Session, place: &Target, constraint: &TableConstraint) -> Result<()> {
    let Target { schema, name } = place;
    let (include, shown) = keys::included(session, place, constraint)?;
    match constraint {
        TableConstraint::Unique(unique) => {
            let deferral = keys::deferral(unique.characteristics.as_ref())?;
            let unique = IndexDef {
                include,
                shown,
                ..constraints::unique(&unique.columns, unique.name.as_ref(), unique.nulls_distinct)?
            };
            let columns = keys::columns(&unique);
            keys::add_unique(session, schema, name, unique).await?;
            keys::defer(session, place, &[(columns, deferral)])
        }
        TableConstraint::Check(check) => check_constraints::add(session, place, check, None).await,
        TableConstraint::PrimaryKey(key) => {
            let columns = key.columns.iter().map(create::key_column).collect::<Result<Vec<_>>>()?;
            let deferral = keys::deferral(key.characteristics.as_ref())?;
            let key_name = key.name.as_ref().map(fold);
            keys::add_primary_key(session, schema, name, columns.clone(), key_name).await?;
            let transaction = session.transaction()?;
            transaction.lock().show_of_primary_key(schema, name, &include, shown)?;
            keys::defer(session, place, &[(columns, deferral)])
        }
        TableConstraint::PrimaryKeyUsingIndex(of) => keys::adopt_index(session, place, of, true),
        TableConstraint::UniqueUsingIndex(of) => keys::adopt_index(session, place, of, false),
        other => Err(SqlError::unsupported(format!("constraint {other}"))),
    }
}

pub(super) fn checks(session: &Session, schema: &str, name: &str) -> Vec<Check> {
    let state = session.state();
    let table = state.table(schema, name);
    table.map_or_else(Vec::new, |table| table.definition().checks.clone())
}
