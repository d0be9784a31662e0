//! UPDATE and DELETE.
//!
//! More than 400 lines because UPDATE and DELETE find and replace rows by the same steps.
//!
//! Each is planned as a SELECT that reads, beside what the statement asks for, where each target row is (segment and
//! row number). The rows found are taken out of the table, and UPDATE's new rows are added. A row that the joined tables
//! match several times is changed once, by the first match, as in PostgreSQL.

use super::constraints::Checks;
use super::query::{Reads, Rows};
use super::references::{self, Replaced};
use super::returning::Columns;
use super::updatable::{self, Through, Use};
use super::{Description, assign, defaults, insert, moments, parameters, query, returning, row_locks, select};
use crate::catalog::bind::{Binder, fold};
use crate::catalog::system;
use crate::pg::error::{Result, SqlError};
use crate::pg::errors::from_arrow;
use crate::pg::outcome::Outcome;
use crate::pg::rewrite::rewrite;
use crate::session::run;
use crate::session::{Prepared, Session};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{FieldRef, Schema, UInt32Type};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    self, Delete, FromTable, Ident, SelectItem, SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins, Update,
    UpdateTableFromKind, WildcardAdditionalOptions, With,
};
use std::sync::Arc;
use tenon_executor::scan::POSITION_FIELDS;
use tenon_storage::{Generated, Keys, TableDefinition, TableVersion, TableWriter};

/// An UPDATE or DELETE as a query for rows to change.
struct Change {
    target: Target,
    /// Segment and row number; then, for UPDATE, the whole new row.
    select: ast::Statement,
    returning: Option<Vec<SelectItem>>,
    assigned: Assigned,
    what: &'static str,
}

/// What becomes of the columns of rows.
struct Assigned {
    /// Those that may get other values.
    columns: Vec<usize>,
    /// Of the unique indexes.
    keys: Keys,
}

impl Assigned {
    fn none() -> Assigned {
        Assigned {
            columns: Vec::new(),
            keys: Keys::Kept,
        }
    }
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

/// What is asked for.
#[derive(Clone, Copy)]
enum Asked<'a> {
    Update(&'a Update),
    Delete(&'a Delete),
}

impl<'a> Asked<'a> {
    fn what(self) -> &'static str {
        match self {
            Asked::Update(_) => "UPDATE",
            Asked::Delete(_) => "DELETE",
        }
    }

    fn returning(self) -> Option<&'a Vec<SelectItem>> {
        match self {
            Asked::Update(update) => update.returning.as_ref(),
            Asked::Delete(delete) => delete.returning.as_ref(),
        }
    }

    /// Checks the clauses; the table to be changed.
    fn target(self, binder: &Binder) -> Result<Target> {
        match self {
            Asked::Update(update) => {
                if update.limit.is_some() || !update.order_by.is_empty() || update.or.is_some() {
                    return Err(SqlError::unsupported("UPDATE with LIMIT or ORDER BY"));
                }
                if !update.table.joins.is_empty() {
                    return Err(SqlError::unsupported("UPDATE of a join"));
                }
                Target::of(binder, &update.table.relation, Use::Update)
            }
            Asked::Delete(delete) => {
                if delete.limit.is_some() || !delete.order_by.is_empty() || !delete.tables.is_empty() {
                    return Err(SqlError::unsupported("DELETE with LIMIT or ORDER BY"));
                }
                let only = only_table(delete)?;
                if !only.joins.is_empty() {
                    return Err(SqlError::unsupported("DELETE from a join"));
                }
                Target::of(binder, &only.relation, Use::Delete)
            }
        }
    }

    /// The query for the rows to change.
    fn change(self, binder: &Binder, target: Target, with: Option<&With>) -> Result<Change> {
        let change = match self {
            Asked::Update(update) => of_update(binder, update, target)?,
            Asked::Delete(delete) => of_delete(delete, target)?,
        };
        Ok(change.under(with))
    }

    /// What becomes of the rows' columns.
    fn assigned(self, binder: &Binder, target: &Target) -> Result<Assigned> {
        let Asked::Update(update) = self else {
            return Ok(Assigned::none());
        };
        let definition = target.table.definition();
        let values = assign::values(binder, definition, target.view.as_ref(), &update.assignments)?;
        Ok(assigned(definition, &values))
    }

    /// Whether the rows found are those of the target alone.
    fn is_of_one_table(self) -> bool {
        match self {
            Asked::Update(update) => update.from.is_none(),
            Asked::Delete(delete) => delete.using.is_none(),
        }
    }

    /// Whether it is the whole of a prepared statement, so that its plans may be kept with that.
    fn is_whole(self, prepared: &Prepared) -> bool {
        match self {
            Asked::Update(update) => prepared.is_update(update),
            Asked::Delete(delete) => prepared.is_delete(delete),
        }
    }
}

/// The table that a DELETE names.
fn only_table(delete: &Delete) -> Result<&TableWithJoins> {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    match from.as_slice() {
        [only] => Ok(only),
        _ => Err(SqlError::unsupported("DELETE from several tables")),
    }
}

pub(super) fn describe_update(
    session: &mut Session,
    update: &Update,
    with: Option<&With>,
    types: &[u32],
) -> Result<Description> {
    describe(session, Asked::Update(update), with, types)
}

pub(super) fn describe_delete(
    session: &mut Session,
    delete: &Delete,
    with: Option<&With>,
    types: &[u32],
) -> Result<Description> {
    describe(session, Asked::Delete(delete), with, types)
}

fn describe(session: &mut Session, asked: Asked<'_>, with: Option<&With>, types: &[u32]) -> Result<Description> {
    let binder = session.binder();
    let target = asked.target(&binder)?;
    let reusable = with.is_none() && target.view.is_none() && asked.is_of_one_table();
    let change = asked.change(&binder, target, with)?;
    let (plan, params, seen) = plan(&binder, &change, types)?;
    let (plan, lasts) = moments::opened(&binder, plan, params.len())?;
    let columns = match &change.returning {
        Some(items) => Some(returning::describe(&binder, &seen, items)?),
        None => None,
    };
    Ok(Description {
        params,
        columns,
        plan: (reusable && lasts).then(|| (binder.snapshot.clone(), plan)),
    })
}

pub(super) async fn update(
    session: &mut Session,
    prepared: &Prepared,
    update: &Update,
    with: Option<&With>,
    params: &[ScalarValue],
) -> Result<Outcome> {
    session.check_expected()?;
    let asked = Asked::Update(update);
    loop {
        if let Some(outcome) = run(session, prepared, asked, with, params).await? {
            return Ok(outcome);
        }
    }
}

pub(super) async fn delete(
    session: &mut Session,
    prepared: &Prepared,
    delete: &Delete,
    with: Option<&With>,
    params: &[ScalarValue],
) -> Result<Outcome> {
    session.check_expected()?;
    let asked = Asked::Delete(delete);
    loop {
        if let Some(outcome) = run(session, prepared, asked, with, params).await? {
            return Ok(outcome);
        }
    }
}

/// What is changed: a table, directly or through a view.
struct Target {
    table: Arc<TableVersion>,
    view: Option<Through>,
    alias: String,
    /// Stands for it in the query for its rows.
    factor: TableFactor,
}

impl Target {
    fn of(binder: &Binder, factor: &TableFactor, what: Use) -> Result<Target> {
        let TableFactor::Table { name, alias, .. } = factor else {
            return Err(SqlError::unsupported("changing anything but a table"));
        };
        let (table, view) = updatable::target(binder, name, what)?;
        let own = view.as_ref().map_or_else(|| table.name(), |view| view.view.as_str());
        let alias = alias
            .as_ref()
            .map_or_else(|| own.to_string(), |alias| fold(&alias.name));
        let factor = match &view {
            Some(view) => updatable::factor(view, &alias, &POSITION_FIELDS),
            None => factor.clone(),
        };
        Ok(Target {
            table,
            view,
            alias,
            factor,
        })
    }

    /// A column of the table as it is.
    fn column(&self, name: &str) -> ast::Expr {
        match self.view {
            Some(_) => column(&self.alias, &updatable::hidden(name)),
            None => column(&self.alias, name),
        }
    }

    fn relation(&self, of: &TableWithJoins) -> TableWithJoins {
        TableWithJoins {
            relation: self.factor.clone(),
            joins: of.joins.clone(),
        }
    }
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

/// `relation.*` for all relations of a FROM clause.
fn whole(from: &[TableWithJoins]) -> impl Iterator<Item = SelectItem> {
    assign::relations(from).into_iter().map(|name| {
        let kind = SelectItemQualifiedWildcardKind::ObjectName(name);
        SelectItem::QualifiedWildcard(kind, WildcardAdditionalOptions::default())
    })
}

/// What becomes of columns that get these values.
fn assigned(definition: &TableDefinition, values: &[Option<ast::Expr>]) -> Assigned {
    let is_changed = |at: usize| values[at].is_some() || definition.columns[at].generated.is_some();
    let mut unique = definition.all_indexes().filter(|index| index.is_unique());
    let keys = match unique.any(|index| index.columns.iter().any(|at| is_changed(*at))) {
        true => Keys::Changed,
        false => Keys::Kept,
    };
    let computed = |at: usize| definition.columns[at].generated == Some(Generated::Stored);
    let may_change = |at: &usize| values[*at].is_some() || computed(*at);
    Assigned {
        columns: (0..values.len()).filter(may_change).collect(),
        keys,
    }
}

fn of_update(binder: &Binder, update: &Update, target: Target) -> Result<Change> {
    let definition = target.table.definition();
    let values = assign::values(binder, definition, target.view.as_ref(), &update.assignments)?;
    let assigned = assigned(definition, &values);
    let mut items = positions(&target.alias);
    for (value, own) in values.into_iter().zip(&definition.columns) {
        items.push(item(
            value.unwrap_or_else(|| target.column(&own.name)),
            format!("\u{1}new {}", own.name),
        ));
    }
    let mut from = vec![target.relation(&update.table)];
    match &update.from {
        Some(UpdateTableFromKind::AfterSet(more) | UpdateTableFromKind::BeforeSet(more)) => from.extend(more.clone()),
        None => {}
    }
    if update.returning.is_some() {
        items.extend(whole(&from[1..]));
    }
    Ok(Change {
        select: select::of(items, from, update.selection.clone()),
        target,
        returning: update.returning.clone(),
        assigned,
        what: "UPDATE",
    })
}

fn of_delete(delete: &Delete, target: Target) -> Result<Change> {
    let only = only_table(delete)?;
    let mut items = positions(&target.alias);
    if delete.returning.is_some() {
        for own in &target.table.definition().columns {
            items.push(item(target.column(&own.name), format!("\u{1}old {}", own.name)));
        }
        items.extend(whole(delete.using.as_deref().unwrap_or_default()));
    }
    let mut from: Vec<TableWithJoins> = vec![target.relation(only)];
    from.extend(delete.using.iter().flatten().cloned());
    Ok(Change {
        select: select::of(items, from, delete.selection.clone()),
        target,
        returning: delete.returning.clone(),
        assigned: Assigned::none(),
        what: "DELETE",
    })
}

/// The plan, its parameters, and the columns that RETURNING sees: in the plan they follow the position.
fn plan(binder: &Binder, change: &Change, types: &[u32]) -> Result<(LogicalPlan, Vec<FieldRef>, Columns)> {
    let mut own_binder = binder.clone();
    own_binder.positions_of = Some(change.target.table.oid());
    let mut tree = change.select.clone();
    if system::touches(&tree) {
        tree = system::rewrite(tree);
    }
    rewrite(&mut tree);
    let (plan, params) = parameters::plan(&own_binder, tree, types)?;
    let definition = change.target.table.definition();
    let target = &change.target;
    let mut seen = Columns::through(&target.table, target.view.as_ref(), Some(target.alias.clone()));
    let columns: Vec<(Column, FieldRef)> = plan
        .schema()
        .iter()
        .map(|(qualifier, field)| (Column::new(qualifier.cloned(), field.name()), field.clone()))
        .collect();
    let mut exprs: Vec<Expr> = Vec::with_capacity(columns.len());
    for (at, (column, field)) in columns.into_iter().enumerate() {
        let qualifier = column.relation.as_ref().map(|name| name.table().to_string());
        let expr = Expr::Column(column);
        exprs.push(match at.checked_sub(POSITION_FIELDS.len()) {
            None => expr,
            Some(at) if at < definition.columns.len() => {
                let own = &definition.columns[at];
                if change.what == "UPDATE" {
                    insert::check_assignable(field.data_type(), own)?;
                    insert::assigned(expr, own).alias(&own.name)
                } else {
                    expr.alias(&own.name)
                }
            }
            Some(at) => {
                seen.fields.push((qualifier.unwrap_or_default(), field));
                expr.alias(format!("\u{1}other {at}"))
            }
        });
    }
    let plan = LogicalPlanBuilder::from(plan)
        .project(exprs)
        .and_then(LogicalPlanBuilder::build);
    let plan = plan.map_err(|error| crate::pg::errors::from_datafusion(&error))?;
    let plan = match change.what {
        "UPDATE" => defaults::generate(binder, definition, plan, POSITION_FIELDS.len())?,
        _ => plan,
    };
    Ok((plan, params, seen))
}

/// The query for the rows that an UPDATE or DELETE changes.
pub(super) fn explained(
    binder: &Binder,
    prepared: &Prepared,
    statement: &ast::Statement,
    params: &[ScalarValue],
) -> Result<LogicalPlan> {
    let asked = match statement {
        ast::Statement::Update(update) => Asked::Update(update),
        ast::Statement::Delete(delete) => Asked::Delete(delete),
        _ => return Err(SqlError::internal("neither UPDATE nor DELETE")),
    };
    let change = asked.change(binder, asked.target(binder)?, None)?;
    let declared: Vec<u32> = prepared.params.iter().map(|param| param.oid).collect();
    query::bind(plan(binder, &change, &declared)?.0, params)
}

/// What the query finds, gathered.
struct Found {
    /// A bit for each row of a segment that is to be changed.
    changed: Vec<Option<BooleanBufferBuilder>>,
    rows: u64,
    /// Where they are, in the order in which they were found; None: nobody asks.
    places: Option<Vec<(u32, u32)>>,
    /// Takes the new rows of an UPDATE as they come: all of them would not fit beside what else queries hold.
    writer: Option<TableWriter>,
    /// What RETURNING sees: the new rows, or for DELETE the old ones.
    kept: Option<Vec<RecordBatch>>,
}

/// What finds the rows to change in the transaction's snapshot, what RETURNING sees of them, and what becomes of
/// their columns.
fn source(
    session: &mut Session,
    binder: &Binder,
    (prepared, params): (&Prepared, &[ScalarValue]),
    (asked, with): (Asked<'_>, Option<&With>),
    target: Target,
) -> Result<(Rows, Columns, Assigned)> {
    let described = prepared.plan.lock().take();
    let keeps = with.is_none() && target.view.is_none() && asked.is_of_one_table() && asked.is_whole(prepared);
    let own = || Columns::of(&target.table, Some(target.alias.clone()));
    if keeps && let Some(kept) = query::found(session, prepared, params) {
        let assigned = asked.assigned(binder, &target)?;
        return Ok((Rows::of_kept(session, prepared, &kept, params)?, own(), assigned));
    }
    let (plan, seen, assigned, reusable) = match described {
        Some((state, plan)) if keeps && Arc::ptr_eq(&state, &binder.snapshot) => {
            (plan, own(), asked.assigned(binder, &target)?, true)
        }
        _ => {
            let change = asked.change(binder, target, with)?;
            let declared: Vec<u32> = prepared.params.iter().map(|param| param.oid).collect();
            let (plan, _, seen) = plan(binder, &change, &declared)?;
            let (plan, lasts) = moments::opened(binder, plan, params.len())?;
            (plan, seen, change.assigned, lasts)
        }
    };
    let reusable = (keeps && reusable).then_some(Reads::AndWrites);
    let source = query::source(session, prepared, plan, reusable, params)?;
    Ok((Rows::Source(source), seen, assigned))
}

/// None: others have changed some of the rows meanwhile, and the transaction sees what they made of them.
async fn run(
    session: &mut Session,
    prepared: &Prepared,
    asked: Asked<'_>,
    with: Option<&With>,
    params: &[ScalarValue],
) -> Result<Option<Outcome>> {
    let binder = &session.binder();
    let target = asked.target(binder)?;
    let (table, view, what) = (target.table.clone(), target.view.clone(), asked.what());
    if table.definition().schema_name != session.temporary_schema() {
        session.check_writable(what)?;
    }
    let (rows, seen, assigned) = source(session, binder, (prepared, params), (asked, with), target)?;
    let sizes: Vec<usize> = table.segments().iter().map(|segment| segment.rows()).collect();
    let changed = sizes.iter().map(|_| None).collect();
    let writer = match what {
        "UPDATE" => Some(session.transaction()?.lock().writer(&table)),
        _ => None,
    };
    let found = Found {
        changed,
        rows: 0,
        places: references::concern(&session.state(), &table).then(Vec::new),
        writer,
        kept: asked.returning().is_some().then(Vec::new),
    };
    let width = table.definition().columns.len();
    let schema = Arc::new(Schema::new(
        seen.fields.iter().map(|(_, field)| field.clone()).collect::<Vec<_>>(),
    ));
    let found = rows
        .drain(
            || session.run(),
            found,
            move |found, batch| take(found, &sizes, (&schema, width), &batch),
        )
        .await?;
    let Found {
        changed,
        rows,
        places,
        writer,
        kept,
    } = found;
    if rows > 0 {
        let keep: Vec<Option<BooleanArray>> = changed
            .into_iter()
            .map(|bits| bits.map(|mut bits| BooleanArray::new(!&bits.finish(), None)))
            .collect();
        if row_locks::lock(session, &table, &keep).await? == row_locks::Found::Changed {
            return Ok(None);
        }
        let checks = updatable::checks(session, view.as_ref(), binder, table.definition())?;
        let writer = match writer {
            Some(writer) => writer,
            None => session.transaction()?.lock().writer(&table),
        };
        let replaced = places.map(|places| {
            let mut replaced = Replaced::of(&table);
            match what {
                "UPDATE" => replaced.updated = places.into_iter().zip(0..).collect(),
                _ => replaced.deleted = places,
            }
            replaced.assigned = Some(assigned.columns);
            replaced
        });
        let written = (writer, Vec::new(), assigned.keys);
        replace(session, &table, keep, written, checks, replaced).await?;
    }
    match asked.returning() {
        Some(items) => {
            let rows = returning::rows(session, &table, &seen, items, kept.unwrap_or_default(), what);
            rows.await.map(Some)
        }
        None => Ok(Some(Outcome::Command(format!("{what} {rows}")))),
    }
}

/// Takes rows out of a table and adds others, those of a writer and more, which must satisfy the checks. `replaced` is there
/// where foreign keys ask which rows those are.
pub(super) async fn replace(
    session: &mut Session,
    table: &Arc<TableVersion>,
    keep: Vec<Option<BooleanArray>>,
    (mut writer, added, keys): (TableWriter, Vec<RecordBatch>, Keys),
    checks: Checks,
    replaced: Option<Replaced>,
) -> Result<()> {
    let (transaction, table) = (session.transaction()?, table.clone());
    let gone = keep.iter().flatten().map(|keep| keep.len() - keep.true_count());
    let rows = gone.sum::<usize>() + writer.rows() + added.iter().map(RecordBatch::num_rows).sum::<usize>();
    let (segments, replaced) = run::aside_over(&session.engine, rows, async move {
        for batch in &added {
            writer.append(batch)?;
        }
        let segments = writer.finish()?;
        checks.verify(&segments)?;
        let mut transaction = transaction.lock();
        if keep.iter().any(Option::is_some) {
            transaction.replace_rows(&table, &keep, segments.clone(), keys)?;
        } else {
            transaction.append(table.oid(), segments.clone())?;
        }
        checks.verify_written(&mut transaction, &segments, replaced.as_ref())?;
        Ok((segments, replaced))
    })
    .await?;
    match replaced {
        Some(replaced) => references::follow(session, replaced, segments).await,
        None => Ok(()),
    }
}

/// Notes the rows of a batch that are met for the first time. `width`: the columns of the table, which come first in the
/// schema.
fn take(found: &mut Found, sizes: &[usize], (schema, width): (&Arc<Schema>, usize), batch: &RecordBatch) -> Result<()> {
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
        if let Some(places) = found.places.as_mut().filter(|_| new) {
            places.push((segment as u32, row as u32));
        }
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
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
            .and_then(|batch| filter_record_batch(&batch, &BooleanArray::new(first.finish(), None)))
            .map_err(|error| from_arrow(&error))?;
        if rows.num_rows() == 0 {
            return Ok(());
        }
        if let Some(writer) = &mut found.writer {
            let own: Vec<usize> = (0..width).collect();
            writer.append(&rows.project(&own).map_err(|error| from_arrow(&error))?)?;
        }
        if let Some(kept) = &mut found.kept {
            kept.push(rows);
        }
    }
    Ok(())
}
