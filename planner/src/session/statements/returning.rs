//! RETURNING: expressions over the rows that a statement has written, and over those of its FROM or USING beside them.
//!
//! More than 400 lines because the columns that such expressions see are described as they are evaluated.

use super::updatable::{BASE, Through};
use super::xmax::{self, Xmax};
use super::{parameters, query, rows_plan};
use crate::catalog::bind::{Binder, fold, system_columns};
use crate::catalog::system;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::{from_arrow, from_datafusion};
use crate::pg::outcome::{ColumnDesc, Outcome, RowsTag};
use crate::pg::rewrite::{displayed_name, repeated_name, rewrite};
use crate::pg::types::describe as describe_columns;
use crate::session::made_for::MadeFor;
use crate::session::run;
use crate::session::{Prepared, Session};
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Field, FieldRef, Schema};
use datafusion::common::{Column, DFSchema, ScalarValue, TableReference};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    self, Ident, ObjectName, ObjectNamePart, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement,
    WildcardAdditionalOptions,
};
use futures::StreamExt;
use std::collections::HashSet;
use std::sync::Arc;
use tenon_executor::scan::ADDRESS_FIELD;
use tenon_storage::{DatabaseState, TableVersion};

/// The columns of the rows that RETURNING sees, each with the relation that it belongs to: first the target's.
#[derive(Clone)]
pub(super) struct ReturningColumns {
    pub fields: Vec<(String, FieldRef)>,
    /// The table or partition that the rows are of; 0 for a view.
    relation: u32,
    /// The view that the target is changed through, and what it is called.
    view: Option<(Through, String)>,
    xmax: Xmax,
}

impl ReturningColumns {
    /// Those of the target alone.
    pub(super) fn of(table: &TableVersion, alias: Option<String>) -> ReturningColumns {
        let alias = alias.unwrap_or_else(|| table.name().to_string());
        let own = table.schema().fields().iter();
        ReturningColumns {
            fields: own.map(|field| (alias.clone(), field.clone())).collect(),
            relation: table.oid(),
            view: None,
            xmax: Xmax::Zero,
        }
    }

    /// Those of the table, or of the view that it is changed through.
    pub(super) fn through(table: &TableVersion, view: Option<&Through>, alias: Option<String>) -> ReturningColumns {
        let Some(view) = view else {
            return Self::of(table, alias);
        };
        let alias = alias.unwrap_or_else(|| view.view.clone());
        ReturningColumns {
            relation: view.oid,
            view: Some((view.clone(), alias)),
            ..Self::of(table, Some(BASE.into()))
        }
    }

    pub(super) fn with(self, xmax: Xmax) -> ReturningColumns {
        ReturningColumns { xmax, ..self }
    }

    /// What the target is called.
    pub(super) fn alias(&self) -> String {
        let own = self.view.as_ref().map(|(_, alias)| alias.clone());
        let own = own.or_else(|| self.fields.first().map(|(alias, _)| alias.clone()));
        own.unwrap_or_default()
    }

    /// Where the only column of this name is, of this relation or of any.
    fn only_place(&self, relation: Option<&Ident>, name: &Ident) -> Option<usize> {
        let (relation, name) = (relation.map(fold), fold(name));
        let is_meant = |(of, field): &(String, FieldRef)| {
            *field.name() == name && relation.as_ref().is_none_or(|relation| of == relation)
        };
        let at = self.fields.iter().position(is_meant)?;
        let is_only = !self.fields[at + 1..].iter().any(is_meant);
        is_only.then_some(at)
    }

    /// Whether some of them are none that `*` names.
    fn have_hidden(&self) -> bool {
        let hidden = |(_, field): &(String, FieldRef)| field.name() == xmax::HIDDEN || field.name() == ADDRESS_FIELD;
        self.fields.iter().any(hidden)
    }

    /// Under names that are all different.
    fn numbered(&self) -> Arc<Schema> {
        let fields = self.fields.iter().enumerate();
        let fields = fields.map(|(at, (_, field))| field.as_ref().clone().with_name(place(at)).with_nullable(true));
        Arc::new(Schema::new(fields.collect::<Vec<Field>>()))
    }

    /// The rows as a plan whose columns carry their relations' names.
    fn scan(&self, binder: &Binder, rows: Vec<RecordBatch>) -> Result<LogicalPlan> {
        let told = |error| from_datafusion(&error);
        let scan = self.of_table(rows).map_err(told)?;
        let Some((view, alias)) = &self.view else {
            return Ok(scan);
        };
        let mut exprs = Vec::new();
        for (name, value) in &view.columns {
            let mut value = value.clone();
            rewrite(&mut value);
            let value = binder.expression(value, scan.schema())?;
            exprs.push(value.alias_qualified(Some(TableReference::bare(alias.as_str())), name));
        }
        let others = scan.schema().columns().into_iter();
        exprs.extend(others.skip(view.table.definition().columns.len()).map(Expr::Column));
        LogicalPlanBuilder::from(scan)
            .project(exprs)
            .and_then(LogicalPlanBuilder::build)
            .map_err(told)
    }

    fn under_numbers(&self, rows: &RecordBatch) -> datafusion::error::Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let numbered = RecordBatch::try_new_with_options(self.numbered(), rows.columns().to_vec(), &options);
        Ok(numbered?)
    }

    fn of_table(&self, rows: Vec<RecordBatch>) -> datafusion::error::Result<LogicalPlan> {
        let rows = rows.iter().map(|batch| self.under_numbers(batch));
        let rows = rows.collect::<datafusion::error::Result<Vec<_>>>()?;
        let memory = MemTable::try_new(self.numbered(), vec![rows])?;
        let named = self.fields.iter().enumerate().map(|(at, (relation, field))| {
            let qualifier = TableReference::bare(relation.as_str());
            Expr::Column(Column::new_unqualified(place(at))).alias_qualified(Some(qualifier), field.name())
        });
        LogicalPlanBuilder::scan("\u{1}rows", provider_as_source(Arc::new(memory)), None)?
            .project(named.collect::<Vec<_>>())?
            .build()
    }
}

fn place(at: usize) -> String {
    format!("\u{1}{at}")
}

/// The columns that RETURNING sees beside the target's, kept with the statement, and what they were found for.
pub(crate) struct KeptColumns {
    columns: ReturningColumns,
    made_for: MadeFor,
}

impl KeptColumns {
    pub(super) fn of(session: &Session, columns: &ReturningColumns) -> Arc<KeptColumns> {
        Arc::new(KeptColumns {
            columns: columns.clone(),
            made_for: MadeFor::of(session),
        })
    }

    /// Those that the statement sees now, if they are the same.
    pub(super) fn columns(&self, session: &Session) -> Option<ReturningColumns> {
        self.made_for.is_right(session).then(|| self.columns.clone())
    }
}

/// The plan over the rows, and its parameters; `types`: those that are known of all the statement's.
fn plan(
    binder: &Binder,
    columns: &ReturningColumns,
    items: &[SelectItem],
    rows: Vec<RecordBatch>,
    types: &[u32],
) -> Result<(LogicalPlan, Vec<FieldRef>)> {
    let hints = parameters::hints(&items.to_vec())?;
    if hints.count == 0 {
        return Ok((projected(binder, columns, items, rows, &[])?, Vec::new()));
    }
    parameters::typed(binder, &hints, types, |known| {
        projected(binder, columns, items, rows.clone(), &known)
    })
}

fn projected(
    binder: &Binder,
    columns: &ReturningColumns,
    items: &[SelectItem],
    rows: Vec<RecordBatch>,
    known: &[Option<FieldRef>],
) -> Result<LogicalPlan> {
    let told = |error| from_datafusion(&error);
    let scan = columns.scan(binder, rows)?;
    let mut items = items.to_vec();
    let own = columns.alias();
    system_columns::of_relation(binder, &mut items, columns.relation, &own)?;
    xmax::resolve(&mut items, columns.xmax, &own)?;
    let table = binder.snapshot.relation_by_oid(columns.relation).map(|table| {
        let names = [table.schema_name(), table.name()].map(|name| Ident::with_quote('"', name));
        ObjectName::from(names.to_vec())
    });
    let target = table.as_ref().map(|table| (own.as_str(), table));
    let items = binder.returned_rows(items, &relations_of(scan.schema()), target)?;
    let mut tree = super::select::of(items, Vec::new(), None);
    if system::touches(&tree) {
        tree = system::rewrite(tree);
    }
    rewrite(&mut tree);
    let Statement::Query(query) = tree else {
        return Err(SqlError::internal("RETURNING is no query"));
    };
    let SetExpr::Select(select) = *query.body else {
        return Err(SqlError::internal("RETURNING is no SELECT"));
    };
    let mut exprs = Vec::new();
    for item in select.projection {
        match item {
            SelectItem::Wildcard(_) => exprs.extend(all(scan.schema(), None)),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let relation = name
                    .0
                    .last()
                    .and_then(ObjectNamePart::as_ident)
                    .map(fold)
                    .unwrap_or_default();
                let own = all(scan.schema(), Some(&relation));
                if own.is_empty() {
                    let message = format!("missing FROM-clause entry for table \"{relation}\"");
                    return Err(SqlError::new(state::UNDEFINED_TABLE, message));
                }
                exprs.extend(own);
            }
            SelectItem::UnnamedExpr(expr) => exprs.push(binder.expression_of(expr, scan.schema(), known)?),
            SelectItem::ExprWithAlias { expr, alias } => {
                let value = binder.expression_of(expr, scan.schema(), known)?;
                exprs.push(value.alias(fold(&alias)));
            }
            other => return Err(SqlError::unsupported(format!("RETURNING {other}"))),
        }
    }
    let columns = exprs.iter().map(Expr::qualified_name);
    let columns = columns.filter_map(|(qualifier, name)| qualifier.map(|_| name));
    let mut names: HashSet<String> = columns.collect();
    // As DataFusion spells a column beside its relation.
    let columns = exprs.iter().filter(|expr| matches!(expr, Expr::Column(_)));
    names.extend(columns.map(|column| column.schema_name().to_string()));
    let mut taken = HashSet::new();
    for (at, expr) in exprs.iter_mut().enumerate() {
        let (qualifier, name) = expr.qualified_name();
        let shown = displayed_name(&name).to_string();
        let repeated = match qualifier {
            Some(_) => !taken.insert((qualifier, name.clone())),
            None => !names.insert(shown.clone()),
        };
        let wanted = match repeated {
            true => repeated_name(&shown, at),
            false => shown,
        };
        if wanted != name {
            *expr = std::mem::take(expr).unalias().alias(wanted);
        }
    }
    LogicalPlanBuilder::from(scan)
        .project(exprs)
        .and_then(LogicalPlanBuilder::build)
        .map_err(told)
}

/// What the relations are called whose columns these are, with the columns that their rows have.
fn relations_of(schema: &DFSchema) -> Vec<(String, Vec<String>)> {
    let mut relations: Vec<(String, Vec<String>)> = Vec::new();
    for (qualifier, field) in schema.iter() {
        let Some(qualifier) = qualifier.map(TableReference::table) else {
            continue;
        };
        if field.name() == xmax::HIDDEN || field.name() == ADDRESS_FIELD {
            continue;
        }
        match relations.iter_mut().find(|(own, _)| own == qualifier) {
            Some((_, columns)) => columns.push(field.name().clone()),
            None => relations.push((qualifier.to_string(), vec![field.name().clone()])),
        }
    }
    relations
}

/// The columns of `*`, or of `relation.*`.
fn all(schema: &DFSchema, relation: Option<&str>) -> Vec<Expr> {
    let is_wanted = |(qualifier, field): &(Option<&TableReference>, &FieldRef)| {
        field.name() != xmax::HIDDEN
            && field.name() != ADDRESS_FIELD
            && relation.is_none_or(|relation| qualifier.is_some_and(|own| own.table() == relation))
    };
    schema
        .iter()
        .filter(is_wanted)
        .map(|column| Expr::Column(Column::from(column)))
        .collect()
}

/// The columns that it gives, and the parameters that are known with it.
pub(super) fn describe(
    binder: &Binder,
    columns: &ReturningColumns,
    items: &[SelectItem],
    types: &[u32],
) -> Result<(Vec<ColumnDesc>, Vec<FieldRef>)> {
    let mut columns = columns.clone();
    if system_columns::names_addresses(items) {
        columns = columns.with_addresses();
    }
    let (plan, params) = plan(binder, &columns, items, Vec::new(), types)?;
    let (columns, _) = run::columns(&binder.services.state, &binder.facts.planning, &plan)?;
    Ok((describe_columns(columns.as_ref()), params))
}

/// What is asked of a statement's rows.
pub(super) struct Returning<'a> {
    pub items: &'a [SelectItem],
    /// The statement, where it is all of what the client has sent: it keeps the plan.
    pub prepared: Option<&'a Prepared>,
    /// The data that subqueries see: without the change.
    pub before: &'a Arc<DatabaseState>,
    /// The statement's parameters.
    pub declared: &'a [u32],
    pub params: &'a [ScalarValue],
}

/// The statement's outcome: the expressions over `rows`, of which the first columns are the table's. All are computed: where one
/// fails, so does the change.
pub(super) async fn rows(
    session: &Session,
    asked: &Returning<'_>,
    table: &TableVersion,
    columns: &ReturningColumns,
    rows: Vec<RecordBatch>,
    tag: &'static str,
) -> Result<Outcome> {
    let width = table.definition().columns.len();
    let rows = rows.into_iter().map(|batch| {
        let (own, others): (Vec<usize>, Vec<usize>) = (0..batch.num_columns()).partition(|at| *at < width);
        let own = batch.project(&own).map_err(|error| from_arrow(&error))?;
        let own = tenon_storage::writer::conform(&own, table.definition())?;
        let (mut fields, mut values) = (own.schema().fields().to_vec(), own.columns().to_vec());
        for at in others {
            fields.push(batch.schema().fields()[at].clone());
            values.push(batch.column(at).clone());
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), values, &options)
            .map_err(|error| from_arrow(&error))
    });
    let rows = rows.collect::<Result<Vec<_>>>()?;
    if let Some(plain) = plain(columns, asked.items) {
        return of_columns(columns, &plain, rows, tag);
    }
    // Rows of tables, as they are.
    let own = columns.view.is_none();
    let keeps = asked
        .prepared
        .filter(|_| own && !session.surroundings.have_relations() && session.watch.is_none());
    if let (Some(prepared), [given]) = (keeps, &rows[..])
        && let Some(described) = &prepared.columns
    {
        let given = columns.under_numbers(given).map_err(|error| from_datafusion(&error))?;
        let place = &prepared.returning_plan;
        if let Some(kept) = rows_plan::rows(session, place, table.definition(), &given, asked.params)? {
            return Ok(Outcome::Rows {
                columns: described.clone(),
                stream: futures::stream::iter(kept.into_iter().map(Ok)).boxed(),
                tag: RowsTag::Counted(tag),
            });
        }
    }
    let binder = session.binder().seeing(asked.before);
    let (plan, open) = plan(&binder, columns, asked.items, rows, asked.declared)?;
    if let Some(prepared) = keeps {
        let places = (prepared, &prepared.returning_plan);
        rows_plan::keep(
            session,
            &binder,
            places,
            table.definition(),
            (&plan, asked.params.len()),
        )
        .await?;
    }
    let plan = match open.is_empty() {
        true => plan,
        false => query::bind(plan, asked.params)?,
    };
    let columns = describe_columns(session.columns(&plan)?.as_ref());
    let run = session.run();
    let stream = run::start(&run, plan).await?;
    Ok(Outcome::Rows {
        columns,
        stream: run::whole(&run, stream).await?,
        tag: RowsTag::Counted(tag),
    })
}

/// Columns, each once and of a name of its own, that are returned as they are.
fn plain(columns: &ReturningColumns, items: &[SelectItem]) -> Option<Vec<usize>> {
    if columns.view.is_some() || columns.have_hidden() {
        return None;
    }
    let mut plain = Vec::new();
    for item in items {
        match item {
            SelectItem::Wildcard(options) if *options == WildcardAdditionalOptions::default() => {
                plain.extend(0..columns.fields.len());
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                if *options == WildcardAdditionalOptions::default() =>
            {
                let [relation] = name.0.as_slice() else { return None };
                let relation = fold(relation.as_ident()?);
                let own = columns.fields.iter().enumerate();
                let own: Vec<usize> = own.filter(|(_, (of, _))| *of == relation).map(|(at, _)| at).collect();
                if own.is_empty() {
                    return None;
                }
                plain.extend(own);
            }
            SelectItem::UnnamedExpr(ast::Expr::Identifier(name)) => plain.push(columns.only_place(None, name)?),
            // As most object-relational mappers write it.
            SelectItem::UnnamedExpr(ast::Expr::CompoundIdentifier(names)) => match names.as_slice() {
                [relation, name] => plain.push(columns.only_place(Some(relation), name)?),
                _ => return None,
            },
            _ => return None,
        }
    }
    let mut taken = HashSet::new();
    let names = plain.iter().map(|at| columns.fields[*at].1.name());
    names.into_iter().all(|name| taken.insert(name)).then_some(plain)
}

/// The outcome of such a statement: nothing is to be planned.
fn of_columns(
    columns: &ReturningColumns,
    plain: &[usize],
    rows: Vec<RecordBatch>,
    tag: &'static str,
) -> Result<Outcome> {
    let fields = plain.iter().map(|at| columns.fields[*at].1.clone());
    let schema =
        DFSchema::try_from(Schema::new(fields.collect::<Vec<_>>())).map_err(|error| from_datafusion(&error))?;
    let rows = rows.into_iter().filter(|batch| batch.num_rows() > 0);
    let rows = rows.map(|batch| batch.project(plain).map_err(|error| from_arrow(&error)));
    let rows: Vec<Result<RecordBatch>> = rows.collect();
    Ok(Outcome::Rows {
        columns: describe_columns(&schema),
        stream: futures::stream::iter(rows).boxed(),
        tag: RowsTag::Counted(tag),
    })
}
