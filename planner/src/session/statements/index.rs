//! CREATE INDEX and DROP INDEX.
//!
//! More than 400 lines because indexes on columns, on expressions and of partitions are declared alike.

use super::key_order::{self, order};
use super::role::rights;
use super::unique::Unique;
use super::{constraints, defaults, generated, partition, qualify, references, storage_parameters};
use crate::catalog::bind::{Binder, fold, parts};
use crate::catalog::services::Work;
use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::errors::from_datafusion;
use crate::pg::outcome::Outcome;
use crate::pg::parse::definition::storage;
use crate::pg::parse::parse_expression;
use crate::pg::rewrite::index_key_name;
use crate::pg::tokens::only;
use crate::session::Session;
use crate::session::run;
use datafusion::arrow::datatypes::Schema;
use datafusion::sql::sqlparser::ast::{CreateIndex, Expr, IndexColumn, IndexType, ObjectName};
use std::sync::Arc;
use tenon_executor::index::IndexData;
use tenon_storage::{
    ColumnOrder, ExpressionIndex, IndexDef, IndexKind, IndexShown, OnlyIndex, Partition, Relation, SchemaEntry,
    privilege,
};

/// What is told of INCLUDE.
pub(super) const NO_INCLUDE: &str = "INCLUDE has no effect: queries read columns where these are";

pub(super) async fn create(session: &mut Session, create: &CreateIndex) -> Result<Outcome> {
    let tag = || Ok(Outcome::Command("CREATE INDEX".into()));
    session.check_writable("CREATE INDEX")?;
    let in_quotes = with_method(create);
    let create = in_quotes.as_ref().unwrap_or(create);
    if create.concurrently && session.block().is_some() {
        let message = "CREATE INDEX CONCURRENTLY cannot run inside a transaction block";
        return Err(SqlError::new(state::ACTIVE_SQL_TRANSACTION, message));
    }
    let other = other_method(create)?;
    let mut shown = shown(create, other)?;
    let expressions = other.is_some() || is_expression(create);
    let def = match expressions {
        true => IndexDef {
            name: index_name(create)?,
            ..IndexDef::default()
        },
        false => definition(create)?,
    };
    let relation = session.binder().names().relation(&create.table_name)?.clone();
    if let Relation::Partition(own) = &relation {
        let given = (def.name, shown, other);
        return of_partition(session, create, own, given).await;
    }
    let Relation::Table(table) = relation else {
        let message = format!("cannot create index on relation \"{}\"", relation.name());
        return Err(
            SqlError::new(state::WRONG_OBJECT_TYPE, message).detail("This operation is not supported for views.")
        );
    };
    let work = Work::CreateIndex {
        table: table.oid(),
        rows: table.rows(),
    };
    let snapshot = session.state();
    rights(session, &snapshot).check_owner(&Relation::Table(table.clone()))?;
    let include: Vec<String> = create.include.iter().map(fold).collect();
    if !include.is_empty() {
        // Columns lie beside each other however they are indexed.
        for column in &include {
            if table.definition().column_index(column).is_none() {
                let message = format!("column \"{column}\" does not exist");
                return Err(SqlError::new(state::UNDEFINED_COLUMN, message));
            }
        }
        session.debug(NO_INCLUDE);
    }
    if only::is_index_alone(create) && !snapshot.partitions(table.oid()).is_empty() {
        shown.only = Some(OnlyIndex {
            unique: create.unique,
            constraint: None,
        });
    }
    let oid = table.oid();
    let (schema, table) = (table.definition().schema_name.clone(), table.name().to_string());
    rights(session, &snapshot).check_schema(&schema, privilege::CREATE)?;
    if let Some(name) = &def.name
        && create.if_not_exists
        && snapshot.schema(&schema).is_some_and(|entry| entry.has(name))
    {
        session.notice(format!("relation \"{name}\" already exists, skipping"));
        return tag();
    }
    if expressions {
        on_expressions(session, create, &schema, &table, (def.name, shown)).await?;
        partition::indexes::complete(session, oid)?;
        tell_of(session, other);
        return tag();
    }
    let columns: Vec<String> = def.columns.iter().map(|(column, _)| column.clone()).collect();
    if def.unique {
        super::partition::check_constraint(session, &schema, &table, &columns, "UNIQUE")?;
    }
    let def = IndexDef {
        unique: def.unique && shown.only.is_none(),
        include,
        shown,
        ..def
    };
    let transaction = session.transaction()?;
    let budget = session.engine.database().budget().clone();
    let _working = session.backend.works(work);
    // A unique index checks the rows that are there, and the index is built: on the query threads.
    run::background(&session.engine, async move {
        let name = transaction.lock().create_index(&schema, &table, def)?;
        let snapshot = transaction.lock().state().clone();
        if let Some((table, index)) = snapshot.index(&schema, &name)
            && index.is_valid()
        {
            IndexData::reader(table, &index.into(), &budget).map_err(|error| from_datafusion(&error))?;
        }
        Ok(())
    })
    .await?;
    partition::indexes::complete(session, oid)?;
    tag()
}

fn tell_of(session: &mut Session, other: Option<&str>) {
    if let Some(method) = other {
        session.warn(
            SqlState("01000"),
            format!("there is no access method \"{method}\": the index is kept, and no query reads it"),
        );
    }
}

/// An index of a partition and, where it is divided itself, of those below it.
async fn of_partition(
    session: &mut Session,
    create: &CreateIndex,
    partition: &Partition,
    (name, shown, other): (Option<String>, IndexShown, Option<&str>),
) -> Result<Outcome> {
    let tag = || Ok(Outcome::Command("CREATE INDEX".into()));
    let binder = session.binder();
    let relation = Relation::Partition(partition.clone().into());
    binder.rights().check_owner(&relation)?;
    let schema = &partition.schema_name;
    binder.rights().check_schema(schema, privilege::CREATE)?;
    if let Some(name) = &name
        && create.if_not_exists
        && binder.snapshot.schema(schema).is_some_and(|entry| entry.has(name))
    {
        session.notice(format!("relation \"{name}\" already exists, skipping"));
        return tag();
    }
    let (index, names) = declared(
        &binder,
        create,
        (schema, &partition.name),
        &partition.schema,
        (name, shown),
    )?;
    if index.unique {
        let columns = index.keys.iter().map(|key| parse_expression(key));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let columns = columns.iter().filter_map(|key| match key {
            Expr::Identifier(name) => Some(fold(name)),
            _ => None,
        });
        let columns: Vec<String> = columns.collect();
        partition::check_unique(partition.partitioning.as_ref(), &partition.name, &columns, "UNIQUE")?;
    }
    let only = only::is_index_alone(create);
    partition::indexes::create(session, partition, index, &names, only).await?;
    tell_of(session, other);
    tag()
}

/// An index on expressions, as texts, and what names it where nobody has.
fn declared(
    binder: &Binder,
    create: &CreateIndex,
    (schema, table): (&str, &str),
    columns: &Arc<Schema>,
    (name, shown): (Option<String>, IndexShown),
) -> Result<(ExpressionIndex, Vec<String>)> {
    let places = ("index expression", "index expressions");
    let own = |expr: &Expr| constraints::unqualified(expr.clone(), schema, table);
    let (mut names, mut keys) = (Vec::new(), Vec::new());
    for column in &create.columns {
        let expr = own(&column.column.expr);
        defaults::refuse_sets(&expr, places.0, places.1)?;
        generated::refuse_changing(binder, &expr, places.0)?;
        constraints::expression(binder, expr.clone(), columns)?;
        names.push(index_key_name(&expr));
        keys.push(qualify::expression(binder, &expr)?.to_string());
    }
    let order = match other_method(create)? {
        None => create.columns.iter().map(order).collect::<Result<_>>()?,
        // Their operator classes are others, and they have no order.
        Some(_) => create.columns.iter().map(key_order::other_class).collect(),
    };
    let mut predicate = create.predicate.as_ref().map(own);
    if let Some(predicate) = &mut predicate {
        defaults::refuse_sets(predicate, "index predicate", "index predicates")?;
        generated::refuse_changing(binder, predicate, "index predicate")?;
        constraints::physical(binder, predicate.clone(), columns)?;
        *predicate = qualify::expression(binder, predicate)?;
    }
    let include: Vec<String> = create.include.iter().map(fold).collect();
    if let Some(missing) = include.iter().find(|name| columns.index_of(name).is_err()) {
        let message = format!("column \"{missing}\" does not exist");
        return Err(SqlError::new(state::UNDEFINED_COLUMN, message));
    }
    names.extend(include.iter().cloned());
    let index = ExpressionIndex {
        oid: 0,
        name: name.unwrap_or_default(),
        unique: create.unique && shown.only.is_none(),
        nulls_not_distinct: create.nulls_distinct == Some(false),
        keys,
        predicate: predicate.map(|predicate| predicate.to_string()),
        computed: Default::default(),
        slot: Default::default(),
        key_rows: Default::default(),
        order,
        include,
        shown,
        partition: None,
    };
    Ok((index, names))
}

/// The same where the name of an access method stands in quotes, which the parser does not know then.
fn with_method(create: &CreateIndex) -> Option<CreateIndex> {
    let Some(IndexType::Custom(name)) = &create.using else {
        return None;
    };
    let using = Some(match fold(name).as_str() {
        "btree" => IndexType::BTree,
        "hash" => IndexType::Hash,
        "gin" => IndexType::GIN,
        "gist" => IndexType::GiST,
        "spgist" => IndexType::SPGiST,
        "brin" => IndexType::BRIN,
        _ => return None,
    });
    let create = create.clone();
    Some(CreateIndex { using, ..create })
}

/// An access method that there is not, by which queries would be faster and no other: its index is kept like one on expressions.
fn other_method(create: &CreateIndex) -> Result<Option<&'static str>> {
    let method = match &create.using {
        Some(IndexType::GIN) => "gin",
        Some(IndexType::GiST) => "gist",
        Some(IndexType::SPGiST) => "spgist",
        Some(IndexType::BRIN) => "brin",
        _ => return Ok(None),
    };
    if create.unique {
        let message = format!("access method \"{method}\" does not support unique indexes");
        return Err(SqlError::unsupported_as(&message));
    }
    Ok(Some(method))
}

/// The access method and the options, which change nothing.
fn shown(create: &CreateIndex, other: Option<&str>) -> Result<IndexShown> {
    let is_hash = matches!(create.using, Some(IndexType::Hash));
    let mut shown = IndexShown {
        method: other.or(is_hash.then_some("hash")).map(str::to_string),
        ..IndexShown::default()
    };
    let given = storage::of_expressions(&create.with)?;
    shown.options = storage_parameters::of_index(shown.method(), &given)?;
    Ok(shown)
}

/// What the statement declares; 0A000 for what Tenon does not have.
fn definition(create: &CreateIndex) -> Result<IndexDef> {
    match &create.using {
        None | Some(IndexType::BTree) => {}
        // What finds equal keys finds them in order as well.
        Some(IndexType::Hash) => {
            if create.unique {
                return Err(SqlError::unsupported_as(
                    "access method \"hash\" does not support unique indexes",
                ));
            }
            if create.columns.len() > 1 {
                return Err(SqlError::unsupported_as(
                    "access method \"hash\" does not support multicolumn indexes",
                ));
            }
            if !create.include.is_empty() {
                return Err(SqlError::unsupported_as(
                    "access method \"hash\" does not support included columns",
                ));
            }
        }
        Some(IndexType::Custom(name)) => {
            let message = format!("access method \"{}\" does not exist", fold(name));
            return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
        }
        Some(other) => {
            return Err(
                SqlError::unsupported(format!("access method {}", other.to_string().to_lowercase()))
                    .hint("Leave USING out, or write USING btree."),
            );
        }
    }
    for (clause, present) in [(
        "this index option",
        !create.index_options.is_empty() && !only::is_index_alone(create) || !create.alter_options.is_empty(),
    )] {
        if present {
            return Err(SqlError::unsupported(clause));
        }
    }
    Ok(IndexDef {
        name: index_name(create)?,
        columns: create.columns.iter().map(column).collect::<Result<_>>()?,
        unique: create.unique,
        constraint: false,
        nulls_not_distinct: create.nulls_distinct == Some(false),
        ..IndexDef::default()
    })
}

fn index_name(create: &CreateIndex) -> Result<Option<String>> {
    match create.name.as_ref().map(parts).as_deref() {
        None => Ok(None),
        Some([name]) => Ok(Some(name.clone())),
        // The index lives in its table's schema.
        Some(_) => Err(SqlError::new(state::SYNTAX_ERROR, "syntax error at or near \".\"")),
    }
}

fn is_expression(create: &CreateIndex) -> bool {
    let plain = |column: &IndexColumn| matches!(column.column.expr, Expr::Identifier(_));
    create.predicate.is_some() || !create.columns.iter().all(plain)
}

/// An index on expressions, or over some of the rows: it is built when a query first searches it, and a unique one is checked.
async fn on_expressions(
    session: &Session,
    create: &CreateIndex,
    schema: &str,
    table: &str,
    (name, shown): (Option<String>, IndexShown),
) -> Result<()> {
    let binder = session.binder();
    let state_now = session.state();
    let found = state_now
        .table(schema, table)
        .ok_or_else(|| crate::catalog::bind::undefined(Some(schema), table))?;
    let (index, names) = declared(&binder, create, (schema, table), found.schema(), (name, shown))?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let transaction = session.transaction()?;
    let name = transaction
        .lock()
        .create_expression_index(schema, table, index, &names)?;
    let state_now = session.state();
    let Some(found) = state_now.table(schema, table).cloned() else {
        return Ok(());
    };
    let unique = Unique::of(&binder, found.definition())?;
    unique.install(found.definition());
    let verified = {
        let name = name.clone();
        run::background(&session.engine, async move { unique.verify(&found, &name) }).await
    };
    verified.map_err(|error| match error.state {
        state::UNIQUE_VIOLATION => {
            let detail = error.detail.unwrap_or_default();
            SqlError::new(error.state, format!("could not create unique index \"{name}\""))
                .detail(detail.replace(" already exists.", " is duplicated."))
        }
        _ => error,
    })
}

fn column(column: &IndexColumn) -> Result<(String, ColumnOrder)> {
    let name = match &column.column.expr {
        Expr::Identifier(name) => fold(name),
        _ => return Err(SqlError::unsupported("an index on an expression")),
    };
    Ok((name, order(column)?))
}

/// The schema and name of an index that exists; None where there is no relation of that name at all.
pub(super) fn existing(session: &Session, name: &ObjectName) -> Result<Option<(String, String)>> {
    let binder = session.binder();
    let mut given = parts(name);
    let last = given.pop().unwrap_or_default();
    let schemas = given
        .pop()
        .map_or_else(|| binder.facts.path.to_vec(), |schema| vec![schema]);
    for schema in schemas {
        let entry = binder.snapshot.schema(&schema);
        let has = |entry: &Arc<SchemaEntry>| {
            entry.expression_index(&last).is_some() || entry.partition_index(&last).is_some()
        };
        if entry.is_some_and(has) {
            return Ok(Some((schema, last)));
        }
    }
    if let Some((table, index)) = binder.names().index(name)? {
        return Ok(Some((table.definition().schema_name.clone(), index.name.clone())));
    }
    let Some(relation) = binder.names().existing(name)? else {
        return Ok(None);
    };
    let kind = if relation.as_table().is_some() { "table" } else { "view" };
    let message = format!("\"{}\" is not an index", relation.name());
    Err(SqlError::new(state::WRONG_OBJECT_TYPE, message)
        .hint(format!("Use DROP {} to remove a {kind}.", kind.to_uppercase())))
}

/// An index is changed by whom its table belongs to.
pub(super) fn check_owner(session: &Session, schema: &str, name: &str) -> Result<()> {
    let state_now = session.state();
    let of_partition = state_now.schema(schema).and_then(|entry| entry.partition_index(name));
    if let Some((partition, _)) = of_partition {
        return rights(session, &state_now).check_owner_of_index(partition.oid, name);
    }
    let of_expressions = state_now.schema(schema).and_then(|entry| entry.expression_index(name));
    let table = of_expressions.map(|(table, _)| table);
    match table.or_else(|| state_now.index(schema, name).map(|(table, _)| table)) {
        Some(table) => rights(session, &state_now).check_owner_of_index(table.oid(), name),
        None => Ok(()),
    }
}

pub(super) fn drop(session: &mut Session, name: &ObjectName, if_exists: bool, cascade: bool) -> Result<()> {
    match existing(session, name)? {
        Some((schema, name)) => {
            check_owner(session, &schema, &name)?;
            let state_now = session.state();
            let of_partition = state_now.schema(&schema).and_then(|entry| entry.partition_index(&name));
            if let Some((partition, index)) = of_partition {
                return partition::attached_indexes::drop(session, partition, index);
            }
            if let Some((table, index)) = state_now.index(&schema, &name)
                && index.kind == IndexKind::Unique
            {
                let what = format!("index {name}");
                references::release_index(session, table.oid(), &name, &what, cascade)?;
            }
            let transaction = session.transaction()?;
            let mut transaction = transaction.lock();
            if !transaction.change_expression_index(&schema, &name, None)? {
                transaction.drop_index(&schema, &name)?;
            }
            Ok(())
        }
        None => {
            let message = format!("index \"{}\" does not exist", parts(name).pop().unwrap_or_default());
            if !if_exists {
                return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
            }
            session.notice(format!("{message}, skipping"));
            Ok(())
        }
    }
}
