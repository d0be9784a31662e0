//! Statements with queries that lock rows within them, which keep their plans: parameters of the statement stand for what those give
//! that are run before it (`inner_locks`): a value, the array after IN, or an array for each column of a relation. Queues of jobs take
//! their work so: `UPDATE jobs ... WHERE id = (SELECT id ... LIMIT 1 FOR UPDATE SKIP LOCKED)`, or with that query in WITH or FROM.

use super::inner_locks::{Inner, Stands, rows_of};
use super::{Description, describe_tree, for_update, parameters, run_locked, select};
use crate::catalog::bind::fold;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::{from_arrow, from_datafusion};
use crate::pg::outcome::{ColumnDesc, Outcome};
use crate::pg::parse::parse_query;
use crate::pg::statement::{Kind, Statement as PgStatement};
use crate::pg::types::{array_oid, pg_type};
use crate::pg::walk::VisitMut;
use crate::session::plan_cache::Purpose;
use crate::session::{Prepared, Session};
use datafusion::arrow::array::{Array, ArrayRef, ListArray, RecordBatch, new_empty_array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{cast, concat};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    Delete, FromTable, Ident, Query, SetExpr, Statement, TableFactor, TableWithJoins, Update, VisitorMut,
};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// `char(n)`.
const BPCHAR: u32 = 1042;

/// The queries that lock rows within a statement, and the statement with what stands for them: each with plans of its own.
pub(crate) struct LockedFirst {
    queries: Vec<(Stands, Arc<Prepared>)>,
    rest: Arc<Prepared>,
    meaning: u64,
    purpose: Purpose,
}

/// Where a statement keeps it.
pub(crate) type Place = Mutex<Option<Arc<LockedFirst>>>;

impl LockedFirst {
    /// None where a query gives what no parameter is, or is none alone, which is told where it runs.
    pub(super) fn of(session: &mut Session, prepared: &Prepared, rest: &Statement, found: &[Inner]) -> Option<Self> {
        let mut fields = prepared.param_fields.clone();
        let mut arrays = Arrays(vec![]);
        let mut queries = vec![];
        for inner in found {
            let mut tree = Statement::Query(inner.query.clone());
            arrays.put_into(&mut tree);
            let types: Vec<u32> = fields.iter().map(|field| pg_type(field).oid).collect();
            let Description {
                columns,
                plan,
                returned,
                ..
            } = describe_tree(session, &tree, &types).ok()?;
            let taken = fields.clone();
            match (&inner.stands, columns.as_deref()?) {
                (Stands::Itself, _) => {}
                (Stands::Value, [only]) => fields.push(parameter(session, only, only.pg_type.oid)?),
                (Stands::Values, [only]) => fields.push(parameter(session, only, array_oid(only.pg_type.oid))?),
                (Stands::Rows(name), columns) => {
                    arrays.0.push((name.clone(), unnested(name, columns, fields.len())?));
                    for column in columns {
                        // Arrays of arrays would be taken apart, too.
                        if matches!(column.data_type, DataType::List(_)) {
                            return None;
                        }
                        fields.push(parameter(session, column, array_oid(column.pg_type.oid))?);
                    }
                }
                _ => return None,
            }
            let own = Prepared {
                plan: Mutex::new(plan),
                returned: Mutex::new(returned),
                rights: session.plan_rights(),
                ..Prepared::of(part_of(prepared, tree), taken, columns)
            };
            queries.push((inner.stands.clone(), Arc::new(own)));
        }
        let mut rest = rest.clone();
        arrays.put_into(&mut rest);
        let rest = without_with(rest, &arrays);
        let rest = Prepared::of(part_of(prepared, rest), fields, prepared.columns.clone());
        Some(Self {
            queries,
            rest: Arc::new(rest),
            meaning: session.state().meaning(),
            purpose: session.purpose(),
        })
    }

    /// Whether it does for the session what one made now would.
    pub fn is_right(&self, session: &Session) -> bool {
        self.meaning == session.state().meaning() && self.purpose == session.purpose()
    }

    pub async fn run(&self, session: &mut Session, params: &[ScalarValue]) -> Result<Outcome> {
        let mut values = params.to_vec();
        let mut first = true;
        loop {
            let mut moved = false;
            for (stands, own) in &self.queries {
                let (Some(query), Some(tree)) = (own.query(), own.tree()) else {
                    return Err(SqlError::internal("what locks rows is no query"));
                };
                let given = values[..own.param_fields.len()].to_vec();
                match stands {
                    Stands::Itself => moved |= for_update::lock(session, own, query, &given).await?.moved,
                    _ if first => {
                        let outcome = Box::pin(run_locked(session, own, tree, &given)).await?;
                        let (columns, batches) = rows_of(outcome).await?;
                        for at in 0..columns.len() {
                            let of = self.rest.param_data_types.get(values.len());
                            let of = of.ok_or_else(|| SqlError::internal("a query stands for no parameter"))?;
                            values.push(value_of(stands, &batches, at, of)?);
                        }
                    }
                    _ => {}
                }
            }
            // Over a newer snapshot, those before may find other rows.
            if !moved {
                break;
            }
            first = false;
        }
        match self.rest.tree() {
            Some(rest) => Box::pin(run_locked(session, &self.rest, rest, &values)).await,
            None => Err(SqlError::internal("no statement")),
        }
    }
}

fn part_of(prepared: &Prepared, tree: Statement) -> PgStatement {
    prepared.statement.with_kind(Kind::Sql(Box::new(tree)))
}

/// The field of a parameter of a type, which has the values of the column as they are.
fn parameter(session: &Session, column: &ColumnDesc, oid: u32) -> Option<FieldRef> {
    let field = parameters::declared(&session.binder(), &[oid], 1).ok()?.pop()??;
    let item = match field.data_type() {
        DataType::List(item) if oid != column.pg_type.oid => item.data_type(),
        of => of,
    };
    // Without its length, a `char(n)` would have other blanks.
    (*item == column.data_type && column.pg_type.oid != BPCHAR).then_some(field)
}

/// The value of a parameter that stands for a column of a query's rows.
fn value_of(stands: &Stands, batches: &[RecordBatch], at: usize, of: &DataType) -> Result<ScalarValue> {
    let told = |error| from_datafusion(&error);
    let item = match (stands, of) {
        (Stands::Value, of) => of,
        (_, DataType::List(item)) => item.data_type(),
        _ => return Err(SqlError::internal("an array of no array type")),
    };
    let columns = batches.iter().map(|batch| cast(batch.column(at), item));
    let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>().map_err(|error| from_arrow(&error))?;
    let columns: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
    let values = match columns.is_empty() {
        true => new_empty_array(item),
        false => concat(&columns).map_err(|error| from_arrow(&error))?,
    };
    match (of, values.len()) {
        (DataType::List(item), rows) if *stands != Stands::Value => {
            let list = ListArray::try_new(item.clone(), OffsetBuffer::from_lengths([rows]), values, None);
            Ok(ScalarValue::List(Arc::new(list.map_err(|error| from_arrow(&error))?)))
        }
        (_, 0) => ScalarValue::try_from(of).map_err(told),
        (_, 1) => ScalarValue::try_from_array(&values, 0).map_err(told),
        _ => Err(SqlError::new(
            state::CARDINALITY_VIOLATION,
            "more than one row returned by a subquery used as an expression",
        )),
    }
}

/// What stands for relations of these names.
struct Arrays(Vec<(String, TableFactor)>);

impl Arrays {
    fn put_into(&mut self, tree: &mut Statement) {
        if !self.0.is_empty() {
            let _ = tree.visit(self);
        }
    }
}

impl VisitorMut for Arrays {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, .. } = factor
            && let [part] = name.0.as_slice()
            && let Some(part) = part.as_ident()
            && let Some((_, arrays)) = self.0.iter().find(|(name, _)| *name == part.value)
        {
            *factor = arrays.clone();
        }
        ControlFlow::Continue(())
    }
}

/// `unnest($n, ...) AS name (columns)`, whose first parameter comes after `before` others. None: columns share a name.
fn unnested(name: &str, columns: &[ColumnDesc], before: usize) -> Option<TableFactor> {
    let mut names = HashSet::new();
    if columns.is_empty() || !columns.iter().all(|column| names.insert(column.name.as_str())) {
        return None;
    }
    let params: Vec<String> = (1..=columns.len()).map(|at| format!("${}", before + at)).collect();
    let named: Vec<String> = columns
        .iter()
        .map(|column| Ident::with_quote('"', column.name.as_str()).to_string())
        .collect();
    let name = Ident::with_quote('"', name);
    let (params, named) = (params.join(", "), named.join(", "));
    let query = parse_query(&format!("SELECT * FROM unnest({params}) AS {name} ({named})")).ok()??;
    match *query.body {
        SetExpr::Select(mut select) => Some(select.from.pop()?.relation),
        _ => None,
    }
}

/// An UPDATE or DELETE after a WITH of nothing but such relations, which stand where they are named: a plan of it may be kept then.
/// Any other statement as it is.
fn without_with(tree: Statement, arrays: &Arrays) -> Statement {
    let Statement::Query(query) = &tree else { return tree };
    let Some(with) = &query.with else { return tree };
    let mut named = Named(vec![]);
    for cte in &with.cte_tables {
        let name = fold(&cte.alias.name);
        let given: Vec<Ident> = cte.alias.columns.iter().map(|column| column.name.clone()).collect();
        // One that names another would be looked into again.
        if with.recursive || !is_over(&cte.query, arrays) {
            return tree;
        }
        named.0.push((name, cte.query.clone(), given));
    }
    let mut inner = match query.body.as_ref() {
        SetExpr::Update(inner @ Statement::Update(_)) | SetExpr::Delete(inner @ Statement::Delete(_)) => inner.clone(),
        _ => return tree,
    };
    // What is changed is none of them.
    let target = |inner: &mut Statement| match inner {
        Statement::Update(Update { table, .. }) => Some(std::mem::replace(
            table,
            select::alone(select::factor(vec![].into(), None)),
        )),
        Statement::Delete(Delete {
            from: FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from),
            ..
        }) => Some(std::mem::replace(
            from.first_mut()?,
            select::alone(select::factor(vec![].into(), None)),
        )),
        _ => None,
    };
    let Some(own) = target(&mut inner) else { return tree };
    if inner.visit(&mut named).is_break() {
        return tree;
    }
    put_back(&mut inner, own);
    inner
}

fn put_back(statement: &mut Statement, own: TableWithJoins) {
    match statement {
        Statement::Update(update) => update.table = own,
        Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &mut delete.from;
            if let Some(first) = from.first_mut() {
                *first = own;
            }
        }
        _ => {}
    }
}

/// Whether a query is all of the arrays that stand for one.
fn is_over(query: &Query, arrays: &Arrays) -> bool {
    match query.body.as_ref() {
        SetExpr::Select(select) => match select.from.as_slice() {
            [only] => query.with.is_none() && arrays.0.iter().any(|(_, factor)| *factor == only.relation),
            _ => false,
        },
        _ => false,
    }
}

/// Queries of a WITH, by name, with the names of their columns, that take the places where they are named.
struct Named(Vec<(String, Box<Query>, Vec<Ident>)>);

impl VisitorMut for Named {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        // It may have one of the same name.
        match query.with.is_some() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = factor
            && let [part] = name.0.as_slice()
            && let Some(part) = part.as_ident()
            && let Some((own, query, columns)) = self.0.iter().find(|(own, ..)| *own == fold(part))
        {
            let known_as = alias.as_ref().map_or_else(|| own.clone(), |alias| fold(&alias.name));
            // Those of the alias come in the place of the first ones.
            if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
                return ControlFlow::Break(());
            }
            *factor = select::derived(query.clone(), &known_as, columns);
        }
        ControlFlow::Continue(())
    }
}
