//! UPDATE and DELETE.
//!
//! Each is planned as a SELECT that reads, beside what the statement asks for, where each target row is (segment and
//! row number). The rows found are taken out of the table, and UPDATE's new rows are added. A row that the joined tables
//! match several times is changed once, by the first match, as in PostgreSQL.

use super::constraints::Checks;
use super::{Description, insert, parameters, query, returning, select};
use crate::bind::{Binder, fold};
use crate::error::{Result, SqlError, state};
use crate::errors::from_arrow;
use crate::outcome::Outcome;
use crate::rewrite::rewrite;
use crate::run;
use crate::session::{Prepared, Session};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{Schema, UInt32Type};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    self, Assignment, AssignmentTarget, Delete, FromTable, Ident, SelectItem, TableFactor, TableWithJoins, Update,
    UpdateTableFromKind, With,
};
use std::sync::Arc;
use tenon_executor::scan::POSITION_FIELDS;
use tenon_storage::TableVersion;

/// An UPDATE or DELETE as a query for rows to change.
struct Change {
    table: Arc<TableVersion>,
    /// What the target is called in the statement.
    alias: String,
    /// Segment and row number; then, for UPDATE, the whole new row.
    select: ast::Statement,
    returning: Option<Vec<SelectItem>>,
    what: &'static str,
}

impl Change {
    /// The same under a WITH.
    fn under(mut self, with: Option<&With>) -> Self {
        if let ast::Statement::Query(query) = &mut self.select
            && let Some(with) = with
        {
            query.with = Some(with.clone());
        }
        self
    }
}

pub(super) fn describe_update(
    session: &mut Session,
    update: &Update,
    with: Option<&With>,
    types: &[u32],
) -> Result<Description> {
    let binder = session.binder();
    let change = of_update(&binder, update)?.under(with);
    describe(&binder, change, types)
}

pub(super) fn describe_delete(
    session: &mut Session,
    delete: &Delete,
    with: Option<&With>,
    types: &[u32],
) -> Result<Description> {
    let binder = session.binder();
    let change = of_delete(&binder, delete)?.under(with);
    describe(&binder, change, types)
}

fn describe(binder: &Binder, change: Change, types: &[u32]) -> Result<Description> {
    let (_, params) = plan(binder, &change, types)?;
    let columns = match &change.returning {
        Some(items) => Some(returning::describe(
            binder,
            &change.table,
            Some(change.alias.clone()),
            items,
        )?),
        None => None,
    };
    Ok(Description {
        params,
        columns,
        plan: None,
    })
}

pub(super) async fn update(
    session: &mut Session,
    prepared: &Prepared,
    update: &Update,
    with: Option<&With>,
    params: &[ScalarValue],
) -> Result<Outcome> {
    let binder = session.binder();
    let change = of_update(&binder, update)?.under(with);
    run(session, &binder, prepared, change, params).await
}

pub(super) async fn delete(
    session: &mut Session,
    prepared: &Prepared,
    delete: &Delete,
    with: Option<&With>,
    params: &[ScalarValue],
) -> Result<Outcome> {
    let binder = session.binder();
    let change = of_delete(&binder, delete)?.under(with);
    run(session, &binder, prepared, change, params).await
}

/// The target table, and its alias.
fn target(binder: &Binder, factor: &TableFactor) -> Result<(Arc<TableVersion>, String)> {
    let TableFactor::Table { name, alias, .. } = factor else {
        return Err(SqlError::unsupported("changing anything but a table"));
    };
    let relation = binder.names().relation(name)?;
    let table = relation.as_table().cloned().ok_or_else(|| {
        SqlError::new(
            state::WRONG_OBJECT_TYPE,
            format!("cannot change view \"{}\"", relation.name()),
        )
    })?;
    let alias = alias
        .as_ref()
        .map_or_else(|| table.name().to_string(), |alias| fold(&alias.name));
    Ok((table, alias))
}

fn column(alias: &str, name: &str) -> ast::Expr {
    ast::Expr::CompoundIdentifier(vec![Ident::with_quote('"', alias), Ident::with_quote('"', name)])
}

fn item(expr: ast::Expr, name: String) -> SelectItem {
    SelectItem::ExprWithAlias {
        expr,
        alias: Ident::with_quote('"', name),
    }
}

fn positions(alias: &str) -> Vec<SelectItem> {
    POSITION_FIELDS
        .iter()
        .map(|name| item(column(alias, name), name.to_string()))
        .collect()
}

fn of_update(binder: &Binder, update: &Update) -> Result<Change> {
    if update.limit.is_some() || !update.order_by.is_empty() || update.or.is_some() {
        return Err(SqlError::unsupported("UPDATE with LIMIT or ORDER BY"));
    }
    if !update.table.joins.is_empty() {
        return Err(SqlError::unsupported("UPDATE of a join"));
    }
    let (table, alias) = target(binder, &update.table.relation)?;
    let definition = table.definition();
    let mut values: Vec<Option<ast::Expr>> = vec![None; definition.columns.len()];
    for assignment in &update.assignments {
        for (name, value) in assigned(assignment)? {
            let at = definition.column_index(&name).ok_or_else(|| {
                let message = format!("column \"{name}\" of relation \"{}\" does not exist", definition.name);
                SqlError::new(state::UNDEFINED_COLUMN, message)
            })?;
            if values[at].is_some() {
                let message = format!("multiple assignments to same column \"{name}\"");
                return Err(SqlError::new(state::SYNTAX_ERROR, message));
            }
            values[at] = Some(insert::or_default(value, &definition.columns[at])?);
        }
    }
    let mut items = positions(&alias);
    for (value, own) in values.into_iter().zip(&definition.columns) {
        items.push(item(
            value.unwrap_or_else(|| column(&alias, &own.name)),
            format!("\u{1}new {}", own.name),
        ));
    }
    let mut from = vec![update.table.clone()];
    match &update.from {
        Some(UpdateTableFromKind::AfterSet(more) | UpdateTableFromKind::BeforeSet(more)) => from.extend(more.clone()),
        None => {}
    }
    Ok(Change {
        select: select::of(items, from, update.selection.clone()),
        table,
        alias,
        returning: update.returning.clone(),
        what: "UPDATE",
    })
}

/// Column names with the values they get.
pub(super) fn assigned(assignment: &Assignment) -> Result<Vec<(String, ast::Expr)>> {
    let last = |name: &ast::ObjectName| {
        name.0
            .last()
            .and_then(|part| part.as_ident())
            .map(fold)
            .unwrap_or_default()
    };
    match &assignment.target {
        AssignmentTarget::ColumnName(name) => Ok(vec![(last(name), assignment.value.clone())]),
        AssignmentTarget::Tuple(names) => match &assignment.value {
            ast::Expr::Tuple(values) if values.len() == names.len() => {
                Ok(names.iter().map(last).zip(values.iter().cloned()).collect())
            }
            ast::Expr::Tuple(_) => {
                let message = "number of columns does not match number of values";
                Err(SqlError::new(state::SYNTAX_ERROR, message))
            }
            _ => Err(SqlError::unsupported("UPDATE of several columns from one subquery")),
        },
    }
}

fn of_delete(binder: &Binder, delete: &Delete) -> Result<Change> {
    if delete.limit.is_some() || !delete.order_by.is_empty() || !delete.tables.is_empty() {
        return Err(SqlError::unsupported("DELETE with LIMIT or ORDER BY"));
    }
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    let [only] = from.as_slice() else {
        return Err(SqlError::unsupported("DELETE from several tables"));
    };
    if !only.joins.is_empty() {
        return Err(SqlError::unsupported("DELETE from a join"));
    }
    let (table, alias) = target(binder, &only.relation)?;
    let mut items = positions(&alias);
    if delete.returning.is_some() {
        for own in &table.definition().columns {
            items.push(item(column(&alias, &own.name), format!("\u{1}old {}", own.name)));
        }
    }
    let mut from: Vec<TableWithJoins> = vec![only.clone()];
    from.extend(delete.using.iter().flatten().cloned());
    Ok(Change {
        select: select::of(items, from, delete.selection.clone()),
        table,
        alias,
        returning: delete.returning.clone(),
        what: "DELETE",
    })
}

fn plan(
    binder: &Binder,
    change: &Change,
    types: &[u32],
) -> Result<(LogicalPlan, Vec<datafusion::arrow::datatypes::FieldRef>)> {
    let mut binder = binder.clone();
    binder.positions_of = Some(change.table.oid());
    let mut tree = change.select.clone();
    rewrite(&mut tree);
    let (plan, params) = parameters::plan(&binder, tree, types)?;
    if change.what == "DELETE" {
        return Ok((plan, params));
    }
    let columns = plan.schema().columns();
    let mut exprs: Vec<Expr> = columns[..2].iter().cloned().map(Expr::Column).collect();
    for ((own, column), field) in change
        .table
        .definition()
        .columns
        .iter()
        .zip(&columns[2..])
        .zip(&plan.schema().fields()[2..])
    {
        insert::check_assignable(field.data_type(), own)?;
        exprs.push(insert::assigned(Expr::Column(column.clone()), own).alias(&own.name));
    }
    let plan = LogicalPlanBuilder::from(plan)
        .project(exprs)
        .and_then(LogicalPlanBuilder::build);
    Ok((plan.map_err(|error| crate::errors::from_datafusion(&error))?, params))
}

/// The query for the rows that an UPDATE or DELETE changes.
pub(super) fn explained(
    binder: &Binder,
    prepared: &Prepared,
    statement: &ast::Statement,
    params: &[ScalarValue],
) -> Result<LogicalPlan> {
    let change = match statement {
        ast::Statement::Update(update) => of_update(binder, update)?,
        ast::Statement::Delete(delete) => of_delete(binder, delete)?,
        _ => return Err(SqlError::internal("neither UPDATE nor DELETE")),
    };
    let declared: Vec<u32> = prepared.params.iter().map(|param| param.oid).collect();
    query::bind(plan(binder, &change, &declared)?.0, params)
}

/// What the query finds, gathered.
struct Found {
    /// A bit for each row of a segment that is to be changed.
    changed: Vec<Option<BooleanBufferBuilder>>,
    rows: u64,
    /// The new rows, or for DELETE ... RETURNING the old ones.
    batches: Vec<RecordBatch>,
}

async fn run(
    session: &mut Session,
    binder: &Binder,
    prepared: &Prepared,
    change: Change,
    params: &[ScalarValue],
) -> Result<Outcome> {
    if change.table.definition().schema_name != session.temporary_schema() {
        session.check_writable(change.what)?;
    }
    let declared: Vec<u32> = prepared.params.iter().map(|param| param.oid).collect();
    let plan = query::bind(plan(binder, &change, &declared)?.0, params)?;
    let table = change.table.clone();
    let sizes: Vec<usize> = table.segments().iter().map(|segment| segment.rows()).collect();
    let changed = sizes.iter().map(|_| None).collect();
    let found = Found {
        changed,
        rows: 0,
        batches: Vec::new(),
    };
    let schema = table.schema().clone();
    let found = run::drain(&session.run(), plan, found, move |found, batch| {
        take(found, &sizes, &schema, &batch)
    })
    .await?;
    let Found { changed, rows, batches } = found;
    if rows > 0 {
        let keep: Vec<Option<BooleanArray>> = changed
            .into_iter()
            .map(|bits| bits.map(|mut bits| BooleanArray::new(!&bits.finish(), None)))
            .collect();
        let (transaction, target) = (session.transaction()?, table.clone());
        let new_rows = if change.what == "UPDATE" {
            batches.clone()
        } else {
            Vec::new()
        };
        let checks = Checks::of(binder, table.definition())?;
        run::background(&session.engine, async move {
            let mut writer = transaction.lock().writer(&target);
            for batch in &new_rows {
                writer.append(batch)?;
            }
            let segments = writer.finish()?;
            checks.verify(&segments)?;
            Ok(transaction.lock().replace_rows(&target, &keep, segments)?)
        })
        .await?;
    }
    match &change.returning {
        Some(items) => returning::rows(session, &table, Some(change.alias), items, batches, change.what).await,
        None => Ok(Outcome::Command(format!("{} {rows}", change.what))),
    }
}

/// Notes the rows of a batch that are met for the first time.
fn take(found: &mut Found, sizes: &[usize], schema: &Arc<Schema>, batch: &RecordBatch) -> Result<()> {
    let segments = batch.column(0).as_primitive::<UInt32Type>();
    let rows = batch.column(1).as_primitive::<UInt32Type>();
    let mut first = BooleanBufferBuilder::new(batch.num_rows());
    for (segment, row) in segments.values().iter().zip(rows.values()) {
        let (segment, row) = (*segment as usize, *row as usize);
        let bits = found.changed[segment].get_or_insert_with(|| {
            let mut bits = BooleanBufferBuilder::new(sizes[segment]);
            bits.append_n(sizes[segment], false);
            bits
        });
        let new = !bits.get_bit(row);
        bits.set_bit(row, true);
        first.append(new);
        found.rows += u64::from(new);
    }
    if batch.num_columns() > 2 {
        let columns: Vec<ArrayRef> = batch.columns()[2..].to_vec();
        let fields: Vec<_> = schema
            .fields()
            .iter()
            .zip(&columns)
            .map(|(field, column)| {
                field
                    .as_ref()
                    .clone()
                    .with_data_type(column.data_type().clone())
                    .with_nullable(true)
            })
            .collect();
        let kept = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
            .and_then(|batch| filter_record_batch(&batch, &BooleanArray::new(first.finish(), None)))
            .map_err(|error| from_arrow(&error))?;
        if kept.num_rows() > 0 {
            found.batches.push(kept);
        }
    }
    Ok(())
}
