//! CREATE MATERIALIZED VIEW and REFRESH: a table that knows the query its rows come from.

use super::unique::Unique;
use super::{create, insert, qualify, query, storage_parameters};
use crate::catalog::bind::{fold, only};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::identity::Acting;
use crate::pg::outcome::Outcome;
use crate::pg::parse::{NO_DATA, parse};
use crate::pg::statement::Kind;
use crate::session::Session;
use crate::session::run;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{self, CreateView, ObjectName};
use std::sync::Arc;
use tenon_storage::{TableDef, TableVersion};

pub(super) async fn create(session: &mut Session, view: &CreateView) -> Result<Outcome> {
    session.check_writable("CREATE MATERIALIZED VIEW")?;
    let place = create::target(session, &view.name, view.temporary)?;
    if session.state().relation(&place.schema, &place.name).is_some() {
        let message = format!("relation \"{}\" already exists", place.name);
        if !view.if_not_exists {
            return Err(SqlError::new(state::DUPLICATE_TABLE, message));
        }
        session.notice(format!("{message}, skipping"));
        return Ok(Outcome::Command("CREATE MATERIALIZED VIEW".into()));
    }
    let binder = session.binder();
    let mut source = view.query.clone();
    only::resolve(&binder, &mut source);
    qualify::query(&binder, &mut source);
    let plan = query::plan(&binder, &source, &[])?;
    let given: Vec<String> = view.columns.iter().map(|column| fold(&column.name)).collect();
    let (options, device) = storage_parameters::of_table(&storage_parameters::declared(&view.options)?, false)?;
    let definition = TableDef {
        options,
        columns: create::columns_of(session.columns(&plan)?.as_arrow(), &given)?,
        query: Some(source.to_string()),
        ..TableDef::default()
    };
    let transaction = session.transaction()?;
    let table = transaction
        .lock()
        .create_table(&place.schema, &place.name, definition)?;
    storage_parameters::reside(session, &place, device.as_deref())?;
    let with_data = view.with_no_schema_binding != NO_DATA;
    if !with_data {
        transaction.lock().set_populated(&place.schema, &place.name, false)?;
        return Ok(Outcome::Command("CREATE MATERIALIZED VIEW".into()));
    }
    let rows = fill(session, &table, plan).await?;
    Ok(Outcome::Command(format!("SELECT {rows}")))
}

async fn fill(session: &Session, table: &Arc<TableVersion>, plan: LogicalPlan) -> Result<u64> {
    Unique::of(&session.binder(), table.definition())?.install(table.definition());
    let writer = session.transaction()?.lock().writer(table);
    let writer = run::drain(&session.run(), plan, writer, |writer, batch| {
        Ok(writer.append(&insert::as_stored(&batch)?)?)
    })
    .await?;
    insert::finish(session, table.oid(), writer, None).await
}

pub(super) async fn refresh(session: &mut Session, name: &ObjectName, with_data: bool) -> Result<Outcome> {
    session.check_writable("REFRESH MATERIALIZED VIEW")?;
    let binder = session.binder();
    let relation = binder.names().relation(name)?;
    let definition = relation.as_table().map(|table| table.definition());
    let Some((definition, sql)) = definition.and_then(|own| Some((own, own.query.as_ref()?))) else {
        let message = format!("\"{}\" is not a materialized view", relation.name());
        return Err(SqlError::unsupported_as(message));
    };
    binder.rights().check_owner(relation)?;
    let (schema, name) = (definition.schema_name.clone(), definition.name.clone());
    let Some(Kind::Sql(tree)) = parse(sql)?.into_iter().next().map(|statement| statement.kind) else {
        return Err(SqlError::internal("a materialized view has no query"));
    };
    let ast::Statement::Query(source) = *tree else {
        return Err(SqlError::internal("a materialized view has no query"));
    };
    // Its rows are what its owner may read.
    let mut reader = binder.clone();
    reader.acting = Acting::of(&binder.snapshot, binder.snapshot.owner(relation.oid()));
    let plan = query::plan(&reader, &source, &[])?;
    let transaction = session.transaction()?;
    transaction.lock().truncate(&schema, &name)?;
    transaction.lock().set_populated(&schema, &name, with_data)?;
    if with_data {
        let table = session.state().table(&schema, &name).cloned();
        let table = table.ok_or_else(|| crate::catalog::bind::undefined(Some(&schema), &name))?;
        fill(session, &table, plan).await?;
    }
    Ok(Outcome::Command("REFRESH MATERIALIZED VIEW".into()))
}
