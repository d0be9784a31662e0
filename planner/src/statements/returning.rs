//! RETURNING: expressions over the rows that a statement has written.

use crate::bind::Binder;
use crate::error::Result;
use crate::errors::from_datafusion;
use crate::outcome::{ColumnDesc, Outcome, RowsTag};
use crate::rewrite::rewrite;
use crate::run;
use crate::session::Session;
use crate::types::describe as describe_columns;
use datafusion::arrow::array::RecordBatch;
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart, SelectItem, Statement};
use std::sync::Arc;
use tenon_storage::TableVersion;

fn plan(
    binder: &Binder,
    table: &TableVersion,
    alias: Option<String>,
    items: &[SelectItem],
    rows: Vec<RecordBatch>,
) -> Result<LogicalPlan> {
    let name = alias.unwrap_or_else(|| table.name().to_string());
    let memory = MemTable::try_new(table.schema().clone(), vec![rows]).map_err(|error| from_datafusion(&error))?;
    let mut binder = binder.clone();
    binder.overlay = Some((name.clone(), provider_as_source(Arc::new(memory))));
    let relation = ObjectName(vec![ObjectNamePart::Identifier(Ident::with_quote('"', &name))]);
    let mut tree = super::select::over(relation, items.to_vec());
    rewrite(&mut tree);
    let Statement::Query(_) = &tree else {
        return Err(crate::error::SqlError::internal("RETURNING is no query"));
    };
    binder.plan(tree, Vec::new())
}

pub(super) fn describe(
    binder: &Binder,
    table: &TableVersion,
    alias: Option<String>,
    items: &[SelectItem],
) -> Result<Vec<ColumnDesc>> {
    let plan = plan(binder, table, alias, items, Vec::new())?;
    Ok(describe_columns(&run::columns(&binder.engine, &plan)))
}

/// The statement's outcome: the expressions over `rows`, which have the table's columns.
pub(super) async fn rows(
    session: &Session,
    table: &TableVersion,
    alias: Option<String>,
    items: &[SelectItem],
    rows: Vec<RecordBatch>,
    tag: &'static str,
) -> Result<Outcome> {
    let rows = rows
        .into_iter()
        .map(|batch| Ok(tenon_storage::writer::conform(&batch, table.definition())?));
    let plan = plan(&session.binder(), table, alias, items, rows.collect::<Result<_>>()?)?;
    let columns = describe_columns(&run::columns(&session.engine, &plan));
    let stream = run::start(&session.run(), plan).await?;
    Ok(Outcome::Rows {
        columns,
        stream,
        tag: RowsTag::Counted(tag),
    })
}
