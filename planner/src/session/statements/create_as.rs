//! CREATE TABLE AS.

use super::create::{columns_of, on_commit};
use super::{insert, query, storage_parameters};
use crate::catalog::bind::{Target, fold};
use crate::catalog::files;
use crate::pg::error::Result;
use crate::pg::numeric::declared::is_declared;
use crate::pg::outcome::Outcome;
use crate::session::{Prepared, Session, run};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{self, CreateTable};
use tenon_storage::{SqlType, TableDef};

pub(super) async fn create_as(
    session: &mut Session,
    prepared: &Prepared,
    create: &CreateTable,
    place: Target,
    source: &ast::Query,
    params: &[ScalarValue],
) -> Result<Outcome> {
    let given: Vec<String> = create.columns.iter().map(|column| fold(&column.name)).collect();
    if let Some(rows) = create_from_file(session, &place, source, &given).await? {
        return Ok(Outcome::Command(format!("SELECT {rows}")));
    }
    let plan = query::bound_plan(&session.binder(), source, &prepared.param_fields, params)?;
    let mut columns = columns_of(session.columns(&plan)?.as_arrow(), &given)?;
    for (at, column) in columns.iter_mut().enumerate() {
        if matches!(column.sql_type, SqlType::NumericOf(..)) && !is_declared(&plan, at) {
            column.sql_type = SqlType::Numeric;
        }
    }
    session.binder().check_usage_by(&columns)?;
    let given = storage_parameters::declared(&create.table_options)?;
    let (options, device) = storage_parameters::of_table(&given, false)?;
    let definition = TableDef {
        columns,
        options,
        on_commit: on_commit(session, create, &place)?,
        ..TableDef::default()
    };
    let transaction = session.transaction()?;
    let table = transaction
        .lock()
        .create_table(&place.schema, &place.name, definition)?;
    storage_parameters::reside(session, &place, device.as_deref())?;
    let writer = transaction.lock().writer(&table);
    let writer = run::drain(&session.run(), plan, writer, |writer, batch| {
        Ok(writer.append(&insert::as_stored(&batch)?)?)
    })
    .await?;
    let rows = insert::finish(session, table.oid(), writer, None).await?;
    Ok(Outcome::Command(format!("SELECT {rows}")))
}

/// `CREATE TABLE t AS SELECT * FROM 'file'`: the file's rows, with no plan in between. None for any other query.
async fn create_from_file(
    session: &mut Session,
    place: &Target,
    source: &ast::Query,
    given: &[String],
) -> Result<Option<u64>> {
    let Some((name, format)) = files::whole(source).and_then(|name| files::named(&name).map(|format| (name, format)))
    else {
        return Ok(None);
    };
    session.binder().check_reads_files()?;
    let file = files::source(&session.engine.services, session.cancel(), &name, format)?;
    let fields: Vec<_> = file
        .columns
        .iter()
        .map(|column| column.sql_type.field(&column.name, true))
        .collect();
    let columns = columns_of(&Schema::new(fields), given)?;
    let definition = TableDef {
        columns,
        ..TableDef::default()
    };
    let transaction = session.transaction()?;
    let table = transaction
        .lock()
        .create_table(&place.schema, &place.name, definition)?;
    let load = move || {
        let loaded = file.segments_for(&table)?;
        transaction.lock().append(table.oid(), loaded.segments)?;
        Ok(loaded.rows)
    };
    files::in_background(&session.engine.services, session.cancel(), load)
        .await
        .map(Some)
}
