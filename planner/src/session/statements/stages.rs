//! Statements of which parts run before the rest: queries that lock rows (`inner_locks`), changes in a WITH (`with`). Parameters of the
//! rest stand for what these give: a value, the array after IN, or an array for each column of a relation. So each of them is a
//! statement like any other, which keeps its plan. Queues of jobs take their work so, `UPDATE jobs ... WHERE id = (SELECT id ... LIMIT 1
//! FOR UPDATE SKIP LOCKED)`, and `WITH new AS (INSERT ... RETURNING id) INSERT ...` writes to two tables.

mod arrays;

use super::{Description, describe_tree, parameters, run_locked};
use crate::catalog::bind::named_in_full;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::{from_arrow, from_datafusion};
use crate::pg::outcome::{ColumnDesc, Outcome};
use crate::pg::statement::{Kind, Statement as PgStatement};
use crate::pg::types::{array_oid, pg_type};
use crate::session::made_for::MadeFor;
use crate::session::{Prepared, Session};
use arrays::{ArrayColumn, Arrays, RowArrays, without_with};
use datafusion::arrow::array::{Array, ArrayRef, ListArray, RecordBatch, new_empty_array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{cast, concat};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{Query, SetExpr, Statement};
use futures::TryStreamExt;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tenon_storage::SqlType;

/// `char(n)`.
const BPCHAR: u32 = 1042;
const VARCHAR: u32 = 1043;
const TEXT: u32 = 25;

/// Rows of a part for which arrays stand.
const ROWS_MAX: usize = 1024;

/// What stands for a part.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stands {
    /// The query itself, without its locks.
    Itself,
    /// A relation of this name, with its rows.
    Rows(String),
    /// A parameter: its only row's value.
    Value,
    /// A parameter: an array of its rows' values.
    Values,
    /// Nothing: nobody reads what it gives.
    Nothing,
}

impl Stands {
    /// Whether it is one parameter.
    pub(super) fn is_parameter(&self) -> bool {
        matches!(self, Stands::Value | Stands::Values)
    }

    fn is_relation(&self) -> bool {
        matches!(self, Stands::Rows(_))
    }
}

/// The parts and the rest, each with plans of its own.
pub(crate) struct Stages {
    pub(super) parts: Vec<(Stands, Arc<Prepared>)>,
    rest: Arc<Prepared>,
    made_for: MadeFor,
    /// A part has given more rows than are worth being constants of a plan: relations stand for them after that.
    large: AtomicBool,
}

/// Where a statement keeps it.
pub(crate) type Place = Mutex<Option<Arc<Stages>>>;

/// What a statement keeps, if it is right.
pub(super) fn known(session: &Session, prepared: &Prepared) -> Option<Arc<Stages>> {
    let known = prepared.stages.lock().clone();
    known.filter(|known| known.made_for.is_right(session) && !known.large.load(Ordering::Relaxed))
}

impl Stages {
    /// Made of a statement's parts, and kept with it. None where a part gives what no parameter is, or is none alone, which is told
    /// where it runs.
    pub(super) fn keep(
        session: &mut Session,
        prepared: &Prepared,
        parts: Vec<(Stands, Statement)>,
        rest: Statement,
    ) -> Option<Arc<Self>> {
        let is_large = |known: &Arc<Stages>| known.large.load(Ordering::Relaxed);
        if prepared.stages.lock().as_ref().is_some_and(is_large) {
            return None;
        }
        let made = Arc::new(Self::of(session, prepared, parts, rest)?);
        *prepared.stages.lock() = Some(made.clone());
        // Made for another statement than what runs now.
        prepared.plan.lock().take();
        Some(made)
    }

    fn of(
        session: &mut Session,
        prepared: &Prepared,
        parts: Vec<(Stands, Statement)>,
        mut rest: Statement,
    ) -> Option<Self> {
        // Values are numbered where they stand, as if no relation had parameters before them.
        let stand = |of: fn(&Stands) -> bool| parts.iter().any(|(stands, _)| of(stands));
        if stand(Stands::is_relation) && stand(Stands::is_parameter) {
            return None;
        }
        let mut fields = prepared.param_fields.clone();
        let mut arrays = Arrays(vec![]);
        let mut made = vec![];
        for (stands, mut tree) in parts {
            arrays.put_into(&mut tree)?;
            let tree = bare(tree);
            let types: Vec<u32> = fields.iter().map(|field| pg_type(field).oid).collect();
            let Description {
                columns,
                plan,
                returned,
                ..
            } = describe_tree(session, &tree, &types).ok()?;
            let taken = fields.clone();
            match (&stands, columns.as_deref().unwrap_or_default()) {
                (Stands::Itself | Stands::Nothing, _) => {}
                (Stands::Value, [only]) => fields.push(parameter(session, only, only.pg_type.oid)?),
                (Stands::Values, [only]) => fields.push(parameter(session, only, array_oid(only.pg_type.oid))?),
                (Stands::Rows(name), columns) => {
                    let before = fields.len();
                    let mut named = vec![];
                    for column in columns {
                        let (field, cast) = array_of(session, column)?;
                        fields.push(field);
                        named.push(ArrayColumn {
                            name: column.name.clone(),
                            cast,
                        });
                    }
                    arrays.0.push(RowArrays::of(name, &named, before)?);
                }
                _ => return None,
            }
            // What only locks rows does not run it, and it holds versions of tables.
            let plan = plan.filter(|_| stands != Stands::Itself);
            let own = Prepared {
                plan: Mutex::new(plan),
                returned: Mutex::new(returned),
                rights: session.plan_rights(),
                ..Prepared::of(part_of(prepared, tree), taken, columns)
            };
            made.push((stands, Arc::new(own)));
        }
        arrays.put_into(&mut rest)?;
        let rest = bare(without_with(rest, &arrays));
        let types: Vec<u32> = fields.iter().map(|field| pg_type(field).oid).collect();
        let described = describe_tree(session, &rest, &types).ok()?;
        let of = |columns: &Option<Vec<ColumnDesc>>| -> Option<Vec<_>> {
            Some(columns.as_ref()?.iter().map(|column| column.pg_type).collect())
        };
        if of(&described.columns) != of(&prepared.columns) {
            return None;
        }
        let rest = Prepared {
            plan: Mutex::new(described.plan),
            returned: Mutex::new(described.returned),
            rights: session.plan_rights(),
            ..Prepared::of(part_of(prepared, rest), fields, prepared.columns.clone())
        };
        Some(Self {
            parts: made,
            rest: Arc::new(rest),
            made_for: MadeFor::of(session),
            large: AtomicBool::new(false),
        })
    }

    /// Runs a part, after the values of those before it, and adds what stands for it.
    pub(super) async fn run_part(&self, session: &mut Session, at: usize, values: &mut Vec<ScalarValue>) -> Result<()> {
        let (stands, own) = &self.parts[at];
        let given = values[..own.param_fields.len()].to_vec();
        let outcome = Box::pin(run_locked(session, own, own.tree().ok_or_else(lost)?, &given)).await?;
        let Outcome::Rows { columns, stream, .. } = outcome else {
            return Ok(());
        };
        let batches: Vec<RecordBatch> = stream.try_collect().await?;
        if batches.iter().map(RecordBatch::num_rows).sum::<usize>() > ROWS_MAX {
            self.large.store(true, Ordering::Relaxed);
        }
        for at in 0..columns.len() {
            if *stands == Stands::Nothing {
                break;
            }
            let of = self.rest.param_data_types.get(values.len()).ok_or_else(lost)?;
            values.push(value_of(stands, &batches, at, of)?);
        }
        Ok(())
    }

    /// Runs the rest, with the values of all parts.
    pub(super) async fn run_rest(&self, session: &mut Session, values: &[ScalarValue]) -> Result<Outcome> {
        Box::pin(run_locked(
            session,
            &self.rest,
            self.rest.tree().ok_or_else(lost)?,
            values,
        ))
        .await
    }

    /// Whether the rest only reads.
    pub(super) fn rest_reads(&self) -> bool {
        self.rest.tree().is_some_and(super::is_plain_query)
    }
}

fn lost() -> SqlError {
    SqlError::internal("a part of a statement is none")
}

/// The change that a query without a WITH is; any other statement as it is.
fn bare(tree: Statement) -> Statement {
    match tree {
        Statement::Query(query) if query.with.is_none() => match *query.body {
            SetExpr::Insert(own) | SetExpr::Update(own) | SetExpr::Delete(own) | SetExpr::Merge(own) => own,
            body => Statement::Query(Box::new(Query {
                body: Box::new(body),
                ..*query
            })),
        },
        tree => tree,
    }
}

fn part_of(prepared: &Prepared, tree: Statement) -> PgStatement {
    prepared.statement.with_kind(Kind::Sql(Box::new(tree)))
}

/// The field of a parameter of a type, which has the values of the column as they are, and says the same of their type.
fn parameter(session: &Session, column: &ColumnDesc, oid: u32) -> Option<FieldRef> {
    let field = field_of(session, column, oid)?;
    says_all(&field, column).then_some(field)
}

/// The field of an array of a column's values, and what these are cast to where it says less of their type.
fn array_of(session: &Session, column: &ColumnDesc) -> Option<(FieldRef, Option<String>)> {
    // Arrays of arrays would be taken apart, too.
    if matches!(column.data_type, DataType::List(_)) {
        return None;
    }
    let element = match column.pg_type.oid {
        VARCHAR => TEXT,
        oid => oid,
    };
    let field = field_of(session, column, array_oid(element))?;
    let of = SqlType::of_oid(column.pg_type.oid, column.pg_type.typmod);
    match says_all(&field, column) {
        true => Some((field, None)),
        // A cast to it changes no value.
        false => Some((field, Some(named_in_full(of?)))),
    }
}

/// The field of a parameter of a type, or of its items, which has the values of the column as they are.
fn field_of(session: &Session, column: &ColumnDesc, oid: u32) -> Option<FieldRef> {
    let field = parameters::declared(&session.binder(), &[oid], 1).ok()?.pop()??;
    let item = match field.data_type() {
        of if oid == column.pg_type.oid => of,
        DataType::List(item) => item.data_type(),
        _ => return None,
    };
    // Plans are told of it by the oid alone. Without its length, a `char(n)` would have other blanks.
    let is_told = pg_type(&field).oid == oid && column.pg_type.oid != BPCHAR;
    (*item == column.data_type && is_told).then_some(field)
}

fn says_all(field: &FieldRef, column: &ColumnDesc) -> bool {
    let said = match SqlType::from_field(field) {
        Some(SqlType::Array(of)) => Some(of.element()),
        said => said,
    };
    let of = SqlType::of_oid(column.pg_type.oid, column.pg_type.typmod);
    of.is_none() || of == said
}

/// The value of a parameter that stands for a column of a part's rows.
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
