//! WITH over statements that change data: each runs once, in order, and what it returns is a relation of the statement
//! around it. That one reads the data as they were before.

use super::stages::{self, Stages, Stands};
use super::{Description, describe_tree, parameters, run_tree};
use crate::catalog::bind::{fold, recursion, refers_to, undefined};
use crate::pg::error::{Result, SqlError};
use crate::pg::errors::from_datafusion;
use crate::pg::outcome::{ColumnDesc, Outcome};
use crate::pg::rewrite::repeated_name;
use crate::pg::types::pg_type;
use crate::session::{Prepared, Session, run as plans};
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::logical_expr::TableSource;
use datafusion::sql::sqlparser::ast::{Cte, Expr, SetExpr, Statement, Value, With, visit_expressions};
use futures::TryStreamExt;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use tenon_storage::{DatabaseState, SqlType};

/// What a statement sees of the WITH before it.
#[derive(Clone, Default)]
pub(crate) struct Surroundings {
    /// Rows that changes have returned, by name.
    pub relations: Vec<(String, Arc<dyn TableSource>)>,
    /// The data before any of the changes.
    pub snapshot: Option<Arc<DatabaseState>>,
    /// The same, for what an INSERT among the changes reads.
    pub source: Option<Arc<DatabaseState>>,
}

impl Surroundings {
    /// Whether there is a WITH that changes data.
    pub(crate) fn are_some(&self) -> bool {
        self.snapshot.is_some() || self.source.is_some() || self.have_relations()
    }

    /// Whether the statement may name rows that are its own.
    pub(crate) fn have_relations(&self) -> bool {
        !self.relations.is_empty()
    }
}

/// Whether a query of WITH changes data.
pub(super) fn changes(cte: &Cte) -> bool {
    matches!(
        cte.query.body.as_ref(),
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_)
    )
}

fn with_of(tree: &mut Statement) -> Option<&mut Option<With>> {
    match tree {
        Statement::Query(query) => Some(&mut query.with),
        Statement::Insert(insert) => insert.source.as_mut().map(|source| &mut source.with),
        _ => None,
    }
}

/// The statement without the changes in its WITH, and these; None where there are none.
fn parted(tree: &Statement) -> Option<Result<(Statement, Vec<Cte>)>> {
    // A change comes after the changes that it names.
    let own = match tree {
        Statement::Query(query) => query.with.as_ref(),
        Statement::Insert(insert) => insert.source.as_ref().and_then(|source| source.with.as_ref()),
        _ => None,
    };
    if !own?.cte_tables.iter().any(changes) {
        return None;
    }
    let mut rest = tree.clone();
    let with = with_of(&mut rest)?;
    let mut all = with.take()?.cte_tables;
    if own.is_some_and(|own| own.recursive)
        && let Err(error) = recursion::order_changes(&mut all)
    {
        return Some(Err(error));
    }
    if let Some(error) = named_too_early(&all) {
        return Some(Err(error));
    }
    // Queries stay, those that a change names also as its own WITH.
    let (mut found, mut kept) = (Vec::new(), Vec::new());
    for mut cte in all {
        if !changes(&cte) {
            kept.push(cte);
            continue;
        }
        let named = named(&cte, &kept);
        if let (None, Some(own), false) = (&cte.query.with, own, named.is_empty()) {
            cte.query.with = Some(With {
                cte_tables: named,
                ..own.clone()
            });
        }
        found.push(cte);
    }
    let plain = own.map(|own| With {
        cte_tables: kept,
        ..own.clone()
    });
    *with = plain.filter(|with| !with.cte_tables.is_empty());
    if let Some(unnamed) = found.iter().find(|cte| is_read(&rest, &found, cte)) {
        let name = fold(&unnamed.alias.name);
        let message = format!("WITH query \"{name}\" does not have a RETURNING clause");
        return Some(Err(SqlError::unsupported_as(message)));
    }
    Some(Ok((rest, found)))
}

/// Where a query names a change after it, whose rows it must not see.
fn named_too_early(ctes: &[Cte]) -> Option<SqlError> {
    // A change before it runs before there are such rows.
    let queries = |at: usize| ctes[..at].iter().filter(|cte| !changes(cte));
    let names = |at: usize, name: &str| queries(at).any(|cte| refers_to(&cte.query, name));
    let later = ctes.iter().enumerate().filter(|(_, cte)| changes(cte));
    let mut later = later.map(|(at, cte)| (at, fold(&cte.alias.name)));
    let (_, name) = later.find(|(at, name)| names(*at, name))?;
    let detail =
        format!("There is a WITH item named \"{name}\", but it cannot be referenced from this part of the query.");
    Some(
        undefined(None, &name)
            .detail(detail)
            .hint("Use WITH RECURSIVE, or re-order the WITH items to remove forward references."),
    )
}

/// Of the queries before a change those that it names, and those that they name.
fn named(change: &Cte, before: &[Cte]) -> Vec<Cte> {
    let mut named: Vec<Cte> = Vec::new();
    for cte in before.iter().rev() {
        let name = fold(&cte.alias.name);
        let by = |other: &Cte| refers_to(&other.query, &name);
        if by(change) || named.iter().any(by) {
            named.push(cte.clone());
        }
    }
    named.reverse();
    named
}

/// Whether a change gives rows.
fn returns(cte: &Cte) -> bool {
    match cte.query.body.as_ref() {
        SetExpr::Insert(Statement::Insert(insert)) => insert.returning.is_some(),
        SetExpr::Update(Statement::Update(update)) => update.returning.is_some(),
        SetExpr::Delete(Statement::Delete(delete)) => delete.returning.is_some(),
        _ => true,
    }
}

/// Whether a change that returns nothing is named as if it did.
fn is_read(rest: &Statement, found: &[Cte], cte: &Cte) -> bool {
    let name = fold(&cte.alias.name);
    let mut others = found.iter().filter(|other| !std::ptr::eq(*other, cte));
    !returns(cte) && (refers_to(rest, &name) || others.any(|other| refers_to(&other.query, &name)))
}

/// The statement that a query of WITH is.
fn statement(cte: &Cte) -> Statement {
    crate::pg::parse::unnested(Statement::Query(cte.query.clone()))
}

fn relation(cte: &Cte, columns: &[ColumnDesc], batches: Vec<RecordBatch>) -> Result<(String, Arc<dyn TableSource>)> {
    let named = |at: usize| cte.alias.columns.get(at).map(|given| fold(&given.name));
    rows_as(fold(&cte.alias.name), named, columns, batches)
}

/// Rows as a relation of that name; `named` gives columns other names than their own.
pub(super) fn rows_as(
    name: String,
    named: impl Fn(usize) -> Option<String>,
    columns: &[ColumnDesc],
    batches: Vec<RecordBatch>,
) -> Result<(String, Arc<dyn TableSource>)> {
    let given = batches.first().map(|batch| batch.schema());
    let shown = |(at, column): (usize, &ColumnDesc)| named(at).unwrap_or_else(|| column.name.clone());
    let names: Vec<String> = columns.iter().enumerate().map(shown).collect();
    let fields = columns.iter().enumerate().map(|(at, column)| {
        // None of several columns of one name can be meant by it.
        let name = match names.iter().filter(|name| **name == names[at]).count() {
            1 => names[at].clone(),
            _ => repeated_name(&names[at], at),
        };
        let carried = given.as_ref().map(|schema| schema.field(at));
        // What the statement tells of a column, so that what was prepared and what runs have one type.
        let told = SqlType::of_oid(column.pg_type.oid, column.pg_type.typmod).map(|of| of.field(&name, true));
        let of = carried.map_or(&column.data_type, Field::data_type);
        match (told.filter(|told| told.data_type() == of), carried) {
            (Some(told), _) => told,
            // The items say what it is.
            (None, Some(carried)) if carried.data_type().is_list() => {
                Field::new(name, carried.data_type().clone(), true)
            }
            (None, Some(carried)) => carried.clone().with_name(name).with_nullable(true),
            (None, None) => Field::new(name, column.data_type.clone(), true),
        }
    });
    let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batches = batches.into_iter().map(|batch| {
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &rows)
    });
    let batches = batches.collect::<Result<Vec<_>, _>>();
    let batches = batches.map_err(|error| crate::pg::errors::from_arrow(&error))?;
    let table = MemTable::try_new(schema, vec![batches]).map_err(|error| from_datafusion(&error))?;
    Ok((name, provider_as_source(Arc::new(table))))
}

/// Runs a statement whose WITH changes data; None for any other.
pub(super) async fn run(
    session: &mut Session,
    prepared: &Prepared,
    tree: &Statement,
    params: &[ScalarValue],
) -> Result<Option<Outcome>> {
    let is_whole = prepared.tree().is_some_and(|own| std::ptr::eq(own, tree))
        && !session.surroundings.are_some()
        && !prepared.statement.may_lock;
    let known = is_whole.then(|| stages::known(session, prepared)).flatten();
    if let Some(known) = known {
        return run_stages(session, &known, params).await.map(Some);
    }
    let Some(parted) = parted(tree) else {
        return Ok(None);
    };
    let (rest, found) = parted?;
    // What does not come again is not worth it.
    if is_whole && prepared.slot.is_repeated() {
        let part = |cte: &Cte| {
            let stands = match returns(cte) {
                true => Stands::Rows(fold(&cte.alias.name)),
                false => Stands::Nothing,
            };
            (stands, statement(cte))
        };
        // Other names of columns are its relation's.
        let plain = found.iter().all(|cte| cte.alias.columns.is_empty());
        let parts = plain.then(|| found.iter().map(part).collect());
        if let Some(made) = parts.and_then(|parts| Stages::keep(session, prepared, parts, rest.clone())) {
            return run_stages(session, &made, params).await.map(Some);
        }
    }
    let before = session.state();
    let outer = std::mem::take(&mut session.surroundings);
    // What stands for queries within the statement stays.
    session.surroundings.relations.clone_from(&outer.relations);
    let result = within(session, prepared, &rest, &found, before, params).await;
    session.surroundings = outer;
    result.map(Some)
}

/// The same with plans that are kept.
async fn run_stages(session: &mut Session, stages: &Stages, params: &[ScalarValue]) -> Result<Outcome> {
    let before = session.state();
    session.surroundings.source = Some(before.clone());
    let result = stages_within(session, stages, before, params).await;
    session.surroundings = Surroundings::default();
    result
}

async fn stages_within(
    session: &mut Session,
    stages: &Stages,
    before: Arc<DatabaseState>,
    params: &[ScalarValue],
) -> Result<Outcome> {
    let mut values = params.to_vec();
    for at in 0..stages.parts.len() {
        stages.run_part(session, at, &mut values).await?;
    }
    let reads = stages.rest_reads();
    session.surroundings.snapshot = reads.then_some(before);
    let outcome = stages.run_rest(session, &values).await?;
    told(session, outcome, reads).await
}

/// The outcome of what comes after the changes: where a query fails, so do these.
async fn told(session: &Session, outcome: Outcome, reads: bool) -> Result<Outcome> {
    match outcome {
        Outcome::Rows { columns, stream, tag } if reads => Ok(Outcome::Rows {
            columns,
            stream: plans::whole(&session.run(), stream).await?,
            tag,
        }),
        outcome => Ok(outcome),
    }
}

async fn within(
    session: &mut Session,
    prepared: &Prepared,
    rest: &Statement,
    found: &[Cte],
    before: Arc<DatabaseState>,
    params: &[ScalarValue],
) -> Result<Outcome> {
    session.surroundings.source = Some(before.clone());
    for cte in found {
        let outcome = Box::pin(run_tree(session, prepared, &statement(cte), params)).await?;
        if let Outcome::Rows { columns, stream, .. } = outcome {
            let batches: Vec<RecordBatch> = stream.try_collect().await?;
            let relation = relation(cte, &columns, batches)?;
            session.surroundings.relations.push(relation);
        }
    }
    let reads = matches!(rest, Statement::Query(query) if !matches!(query.body.as_ref(), SetExpr::Update(_) | SetExpr::Delete(_)));
    session.surroundings.snapshot = reads.then_some(before);
    let outcome = Box::pin(run_tree(session, prepared, rest, params)).await?;
    told(session, outcome, reads).await
}

/// What preparing such a statement finds out: the relations are there, without rows.
pub(super) fn describe(session: &mut Session, tree: &Statement, types: &[u32]) -> Result<Option<Description>> {
    let Some(parted) = parted(tree) else {
        return Ok(None);
    };
    let (rest, found) = parted?;
    let outer = std::mem::take(&mut session.surroundings);
    let mut params = Parameters::of(types);
    let mut describe = || {
        for cte in &found {
            let described = params.describe(session, &statement(cte))?;
            if let Some(columns) = described.columns {
                let relation = relation(cte, &columns, Vec::new())?;
                session.surroundings.relations.push(relation);
            }
        }
        let described = params.describe(session, &rest)?;
        // The changes before it come between.
        Ok(Description {
            params: params.fields(),
            plan: None,
            ..described
        })
    };
    let described: Result<Description, SqlError> = describe();
    session.surroundings = outer;
    described.map(Some)
}

/// The parameters of a statement whose parts are described one after the other.
struct Parameters {
    /// What the client has declared, or a part has found.
    types: Vec<u32>,
    fields: Vec<Option<FieldRef>>,
}

impl Parameters {
    fn of(types: &[u32]) -> Self {
        Self {
            types: types.to_vec(),
            fields: Vec::new(),
        }
    }

    /// Describes a part, under the types that are known from those before it.
    fn describe(&mut self, session: &mut Session, part: &Statement) -> Result<Description> {
        let described = describe_tree(session, part, &self.types)?;
        let count = described.params.len().max(self.types.len());
        self.types.resize(count, 0);
        self.fields.resize(count, None);
        let mut named = HashSet::new();
        let _ = visit_expressions(part, |expr: &Expr| {
            if let Expr::Value(value) = expr
                && let Value::Placeholder(id) = &value.value
            {
                named.extend(parameters::index(id));
            }
            ControlFlow::<()>::Continue(())
        });
        for (at, field) in described.params.iter().enumerate() {
            let is_told = named.contains(&at) || self.types[at] != 0;
            if is_told && self.fields[at].is_none() {
                self.types[at] = pg_type(field).oid;
                self.fields[at] = Some(field.clone());
            }
        }
        Ok(described)
    }

    /// One that no part names is text.
    fn fields(&self) -> Vec<FieldRef> {
        let text = || Arc::new(Field::new("", DataType::Utf8View, true));
        let fields = self.fields.iter().cloned();
        fields.map(|field| field.unwrap_or_else(text)).collect()
    }
}
