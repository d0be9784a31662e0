//! CHECK constraints, evaluated over rows before they are published: of INSERT, UPDATE and COPY alike (23514).
//!
//! More than 400 lines because conditions of tables, domains, partitions and views are checked in one pass over rows.

use super::parameters;
use super::references::{self, Replaced};
use super::storage_parameters;
use super::unique::Unique;
use crate::catalog::bind::{Binder, DomainCondition, conditions_of, fold, with_value};
use crate::catalog::partitions;
use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::errors::from_datafusion;
use crate::pg::parse::definition::storage;
use crate::pg::parse::parse_expression;
use crate::pg::rewrite::rewrite;
use crate::pg::tokens::clauses::PARAMETERS;
use crate::pg::walk::{self, VisitMut};
use crate::session::Session;
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::physical_plan::PhysicalExpr;
use datafusion::sql::sqlparser::ast::{self, Ident, IndexColumn, IndexOption, NullsDistinctOption, VisitorMut};
use std::ops::ControlFlow;
use std::sync::Arc;
use tenon_storage::datetime::{shown, shown_row};
use tenon_storage::{
    Check, ColumnOrder, ExpressionIndex, IndexDef, IndexShown, Object, ObjectKey, Segment, StorageError, Subject,
    TableDefinition, Transaction,
};

/// The conditions of rows that a statement writes.
pub(super) struct Checks {
    definition: Arc<TableDefinition>,
    table: Arc<TableChecks>,
    /// That the rows belong to the partition that they are written to.
    partition: Option<Condition>,
    /// WITH CHECK OPTION of the views that rows are written through.
    views: Vec<Condition>,
}

/// The conditions of a table, ready to be evaluated.
pub(super) struct TableChecks {
    /// Those of its columns' domains, then its own.
    conditions: Vec<Condition>,
    /// That there is a partition for the row.
    routes: Vec<Condition>,
    unique: Unique,
}

/// What an error says of the row.
enum Detail {
    None,
    Row,
    /// The partition key: as it is shown, and its values.
    Key(String, Vec<Arc<dyn PhysicalExpr>>),
}

struct Condition {
    met: Arc<dyn PhysicalExpr>,
    /// The error for a row that is not.
    state: SqlState,
    message: String,
    subject: Subject,
    detail: Detail,
}

impl TableChecks {
    pub(super) fn planned(binder: &Binder, definition: &Arc<TableDefinition>) -> Result<TableChecks> {
        let of_table = || Subject::table(&definition.schema_name, &definition.name);
        let mut conditions = Vec::new();
        for column in &definition.columns {
            let Some((schema, name)) = column.domain.clone() else {
                continue;
            };
            let Some(Object::Domain(domain)) = binder.snapshot.objects().get(&ObjectKey::Type { schema, name }) else {
                continue;
            };
            let value = ast::Expr::Identifier(Ident::with_quote('"', &column.name));
            for DomainCondition {
                condition,
                state,
                message,
                subject,
            } in conditions_of(binder, domain)?
            {
                let condition = match condition {
                    Some(condition) => with_value(condition, &value),
                    None => ast::Expr::IsNotNull(Box::new(value.clone())),
                };
                conditions.push(Condition {
                    met: physical(binder, condition, &definition.schema)?,
                    state: SqlState(state),
                    message,
                    subject,
                    detail: Detail::None,
                });
            }
        }
        let mut own: Vec<&Check> = definition.checks.iter().collect();
        // PostgreSQL checks them in the order of their names.
        own.sort_by(|a, b| a.name.cmp(&b.name));
        for check in own {
            let condition = parse_expression(&check.condition)?;
            conditions.push(Condition {
                met: physical(binder, condition, &definition.schema)?,
                state: state::CHECK_VIOLATION,
                message: format!(
                    "new row for relation \"{}\" violates check constraint \"{}\"",
                    definition.name, check.name
                ),
                subject: of_table().constraint(&check.name),
                detail: Detail::Row,
            });
        }
        for (condition, state, message, subject) in partitions::checks(&binder.snapshot, definition) {
            conditions.push(Condition {
                met: physical(binder, parse_expression(&condition)?, &definition.schema)?,
                state,
                message,
                subject,
                detail: Detail::Row,
            });
        }
        let mut routes = Vec::new();
        for route in partitions::routes(&binder.snapshot, definition) {
            let key = |key: &tenon_storage::PartitionKey| {
                expression(
                    binder,
                    parse_expression(&partitions::as_shown(key))?,
                    &definition.schema,
                )
            };
            routes.push(Condition {
                met: physical(binder, parse_expression(&route.condition)?, &definition.schema)?,
                state: state::CHECK_VIOLATION,
                message: format!("no partition of relation \"{}\" found for row", route.relation),
                subject: Subject::table(&definition.schema_name, &route.relation),
                detail: Detail::Key(
                    partitions::shown::key_names(&route.partitioning),
                    route.partitioning.keys.iter().map(key).collect::<Result<_>>()?,
                ),
            });
        }
        let unique = Unique::of(binder, definition)?;
        unique.install(definition);
        Ok(TableChecks {
            conditions,
            routes,
            unique,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.conditions.is_empty() && self.routes.is_empty() && self.unique.is_empty()
    }
}

impl Checks {
    pub(super) fn of(session: &Session, binder: &Binder, definition: &Arc<TableDefinition>) -> Result<Checks> {
        Ok(Checks {
            definition: definition.clone(),
            table: session.engine.checks.of(binder, definition)?,
            partition: None,
            views: Vec::new(),
        })
    }

    /// The same for rows that are written again: they need not satisfy what is not valid.
    pub(super) fn of_rows_there(
        session: &Session,
        binder: &Binder,
        definition: &Arc<TableDefinition>,
    ) -> Result<Checks> {
        if definition.checks.iter().all(|check| !check.not_valid) {
            return Self::of(session, binder, definition);
        }
        let mut asked = (**definition).clone();
        asked.checks.retain(|check| !check.not_valid);
        let table = TableChecks::planned(binder, &Arc::new(asked))?;
        table.unique.install(definition);
        Ok(Checks {
            definition: definition.clone(),
            table: Arc::new(table),
            partition: None,
            views: Vec::new(),
        })
    }

    /// Adds a view's WITH CHECK OPTION.
    pub(super) fn and_of_view(mut self, binder: &Binder, view: &str, condition: ast::Expr) -> Result<Self> {
        self.views.push(Condition {
            // A row for which the condition is NULL is not in the view either.
            met: physical(
                binder,
                ast::Expr::IsTrue(Box::new(ast::Expr::Nested(Box::new(condition)))),
                &self.definition.schema,
            )?,
            state: state::WITH_CHECK_OPTION_VIOLATION,
            message: format!("new row violates check option for view \"{view}\""),
            subject: Subject::table(&self.definition.schema_name, view),
            detail: Detail::Row,
        });
        Ok(self)
    }

    /// Adds that the rows belong to a partition.
    pub(super) fn and_of_partition(mut self, binder: &Binder, name: &str, condition: ast::Expr) -> Result<Self> {
        self.partition = Some(Condition {
            met: physical(binder, condition, &self.definition.schema)?,
            state: state::CHECK_VIOLATION,
            message: format!("new row for relation \"{name}\" violates partition constraint"),
            subject: Subject::table(&self.definition.schema_name, name),
            detail: Detail::Row,
        });
        Ok(self)
    }

    /// Checks what PostgreSQL checks after a row is written: the views that the new ones, in `written`, came through, and what
    /// they reference. `replaced` says whose successors they are.
    pub(super) fn verify_written(
        &self,
        transaction: &mut Transaction,
        written: &[Arc<Segment>],
        replaced: Option<&Replaced>,
    ) -> Result<()> {
        let now = transaction.state().table_by_oid(self.definition.oid);
        // The rows were given to the partitions that were.
        if self.definition.partitioning.is_some()
            && now.is_none_or(|now| !Arc::ptr_eq(now.definition(), &self.definition))
        {
            return Err(StorageError::serialization().into());
        }
        self.hold(&self.views, written)?;
        references::written(transaction, &self.definition, written, replaced)
    }

    /// Fails on the first row of the segments for which a condition is false.
    pub(super) fn verify(&self, segments: &[Arc<Segment>]) -> Result<()> {
        self.hold(&self.table.conditions, segments)?;
        self.hold(self.partition.as_slice(), segments)?;
        self.hold(&self.table.routes, segments)?;
        if self.table.unique.is_empty() {
            return Ok(());
        }
        self.each(segments, |rows| self.table.unique.compute(rows))
    }

    fn hold(&self, conditions: &[Condition], segments: &[Arc<Segment>]) -> Result<()> {
        if conditions.is_empty() {
            return Ok(());
        }
        self.each(segments, |rows| {
            conditions.iter().try_for_each(|condition| condition.hold(rows))
        })
    }

    /// Has the rows of each segment looked at.
    fn each(&self, segments: &[Arc<Segment>], mut look: impl FnMut(&RecordBatch) -> Result<()>) -> Result<()> {
        let columns: Vec<usize> = (0..self.definition.columns.len()).collect();
        segments.iter().try_for_each(|segment| {
            let rows = segment.batch(&self.definition.schema, &columns, 0, segment.rows())?;
            look(&rows)
        })
    }

    /// The same of rows, of the table's types, that may yet turn out to be there already (ON CONFLICT).
    pub(super) fn verify_proposed(&self, rows: &RecordBatch) -> Result<()> {
        let own = self
            .table
            .conditions
            .iter()
            .chain(&self.partition)
            .chain(&self.table.routes);
        own.into_iter().try_for_each(|condition| condition.hold(rows))
    }
}

impl Condition {
    /// Fails on the first row for which it is false.
    fn hold(&self, rows: &RecordBatch) -> Result<()> {
        let met = self.met.evaluate(rows).and_then(|met| met.into_array(rows.num_rows()));
        let met = met.map_err(|error| from_datafusion(&error))?;
        let met = met.as_boolean();
        match (0..met.len()).find(|row| met.is_valid(*row) && !met.value(*row)) {
            Some(row) => Err(self.violated(rows, row)),
            None => Ok(()),
        }
    }

    fn violated(&self, rows: &RecordBatch, row: usize) -> SqlError {
        let error = SqlError::new(self.state, self.message.clone()).about(self.subject.clone());
        match &self.detail {
            Detail::None => error,
            Detail::Row => {
                let values = shown_row(rows.columns(), row);
                error.detail(format!("Failing row contains ({values})."))
            }
            Detail::Key(shown_keys, keys) => {
                let value = |key: &Arc<dyn PhysicalExpr>| {
                    let value = key.evaluate(&rows.slice(row, 1)).and_then(|value| value.into_array(1));
                    value.map_or_else(|_| "null".into(), |value| shown(&value, 0))
                };
                let values: Vec<String> = keys.iter().map(value).collect();
                error.detail(format!(
                    "Partition key of the failing row contains {shown_keys} = ({}).",
                    values.join(", ")
                ))
            }
        }
    }
}

/// An expression of a table's own, without the table's name before its columns.
pub(super) fn unqualified(mut expr: ast::Expr, schema: &str, table: &str) -> ast::Expr {
    let _ = walk::expressions_mut(&mut expr, |expr, within| {
        let ast::Expr::CompoundIdentifier(parts) = expr else {
            return ControlFlow::<()>::Continue(());
        };
        let is_own = match parts.as_slice() {
            [relation, _] => fold(relation) == table,
            [place, relation, _] => fold(place) == schema && fold(relation) == table,
            _ => false,
        };
        if is_own
            && !within
            && let Some(column) = parts.pop()
        {
            *expr = ast::Expr::Identifier(column);
        }
        ControlFlow::Continue(())
    });
    expr
}

/// An expression over a table's columns.
pub(super) fn expression(binder: &Binder, mut expr: ast::Expr, schema: &Arc<Schema>) -> Result<Arc<dyn PhysicalExpr>> {
    rewrite(&mut expr);
    let schema = DFSchema::try_from(schema.as_ref().clone()).map_err(|error| from_datafusion(&error))?;
    let expr = binder.expression(expr, &schema)?;
    binder.physical(expr, &schema)
}

/// A condition over a table's columns; 42804 where it is no boolean.
pub(super) fn physical(binder: &Binder, condition: ast::Expr, schema: &Arc<Schema>) -> Result<Arc<dyn PhysicalExpr>> {
    with_parameters(binder, condition, schema, &[])
}

/// The same of one that names parameters.
pub(super) fn with_parameters(
    binder: &Binder,
    mut condition: ast::Expr,
    schema: &Arc<Schema>,
    params: &[ScalarValue],
) -> Result<Arc<dyn PhysicalExpr>> {
    rewrite(&mut condition);
    let schema = DFSchema::try_from(schema.as_ref().clone()).map_err(|error| from_datafusion(&error))?;
    let condition = bound(binder.expression(condition, &schema)?, params)?;
    // Literals may have no type yet: then it is known afterwards.
    let given = condition.get_type(&schema).unwrap_or(DataType::Boolean);
    let condition = match given {
        DataType::Null => condition.cast_to(&DataType::Boolean, &schema),
        _ => Ok(condition),
    };
    let planned = binder.physical(condition.map_err(|error| from_datafusion(&error))?, &schema)?;
    let given = planned
        .data_type(schema.as_arrow())
        .map_err(|error| from_datafusion(&error))?;
    if given != DataType::Boolean {
        let name = tenon_storage::SqlType::from_data_type(&given).map_or("record", |known| known.base_name());
        let message = format!("argument of CHECK must be type boolean, not type {name}");
        return Err(SqlError::new(state::DATATYPE_MISMATCH, message));
    }
    Ok(planned)
}

/// Values in the places of parameters, without casts to the types that they have: the condition is the one that literals make.
fn bound(condition: Expr, params: &[ScalarValue]) -> Result<Expr> {
    if params.is_empty() {
        return Ok(condition);
    }
    let each = |expr| {
        Ok(match expr {
            Expr::Placeholder(own) => match parameters::index(&own.id).and_then(|at| params.get(at)) {
                Some(value) => Transformed::yes(Expr::Literal(value.clone(), None)),
                None => Transformed::no(Expr::Placeholder(own)),
            },
            Expr::Cast(cast) => match cast.expr.as_ref() {
                Expr::Literal(value, _) if value.data_type() == *cast.field.data_type() => Transformed::yes(*cast.expr),
                _ => Transformed::no(Expr::Cast(cast)),
            },
            other => Transformed::no(other),
        })
    };
    let condition = condition.transform_up(each).map_err(|error| from_datafusion(&error))?;
    Ok(condition.data)
}

/// A UNIQUE constraint over listed columns.
pub(super) fn unique(columns: &[IndexColumn], name: Option<&Ident>, nulls: NullsDistinctOption) -> Result<IndexDef> {
    let columns = columns
        .iter()
        .map(super::create::key_column)
        .collect::<Result<Vec<_>>>()?;
    Ok(IndexDef {
        nulls_not_distinct: nulls == NullsDistinctOption::NotDistinct,
        ..unique_index(columns, name.map(fold))
    })
}

/// What a key says of columns that are to lie in its index, too, which must be there, and its storage parameters.
pub(super) fn included<'c>(
    session: &mut Session,
    options: &[IndexOption],
    columns: impl Iterator<Item = &'c str> + Clone,
) -> Result<(Vec<String>, IndexShown)> {
    let (mut include, mut shown) = (Vec::new(), IndexShown::default());
    for option in options {
        let IndexOption::Comment(listed) = option else { continue };
        if let Some(options) = parameters(listed)? {
            shown.options = options;
            continue;
        }
        for name in listed.split(',') {
            let name = match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
                Some(quoted) => quoted.replace("\"\"", "\""),
                None => name.to_lowercase(),
            };
            if !columns.clone().any(|own| own == name) {
                let message = format!("column \"{name}\" named in key does not exist");
                return Err(SqlError::new(state::UNDEFINED_COLUMN, message));
            }
            include.push(name);
        }
        session.debug(super::index::NO_INCLUDE);
    }
    Ok((include, shown))
}

/// The storage parameters of a key, where that is what a comment stands for.
pub(super) fn parameters(comment: &str) -> Result<Option<Vec<(String, String)>>> {
    let listed = comment.strip_prefix(PARAMETERS);
    let options = listed.map(|listed| storage_parameters::of_index("btree", &storage::of_text(listed)?));
    options.transpose()
}

/// The index of a UNIQUE constraint.
pub(super) fn unique_index(columns: Vec<String>, name: Option<String>) -> IndexDef {
    IndexDef {
        name,
        columns: columns
            .into_iter()
            .map(|column| (column, ColumnOrder::default()))
            .collect(),
        unique: true,
        constraint: true,
        ..IndexDef::default()
    }
}

/// The conditions after a column has another name.
pub(super) fn renamed(checks: &[Check], from: &str, to: &str) -> Result<Vec<Check>> {
    let change = |check: &Check| {
        Ok(Check {
            condition: renamed_text(&check.condition, from, to)?,
            ..check.clone()
        })
    };
    checks.iter().map(change).collect()
}

/// A text after a column has another name.
pub(super) fn renamed_text(text: &str, from: &str, to: &str) -> Result<String> {
    let mut expr = parse_expression(text)?;
    let _ = expr.visit(&mut Columns {
        name: from,
        to: Some(to),
        found: false,
    });
    Ok(expr.to_string())
}

/// Indexes on expressions after a column has another name.
pub(super) fn renamed_indexes(indexes: &[ExpressionIndex], from: &str, to: &str) -> Result<Vec<ExpressionIndex>> {
    let change = |index: &ExpressionIndex| {
        let key = |text: &String| renamed_text(text, from, to);
        let included = |name: &String| if name == from { to.into() } else { name.clone() };
        Ok(ExpressionIndex {
            keys: index.keys.iter().map(key).collect::<Result<_>>()?,
            predicate: index.predicate.as_ref().map(key).transpose()?,
            include: index.include.iter().map(included).collect(),
            ..index.clone()
        })
    };
    indexes.iter().map(change).collect()
}

/// The names of the conditions that speak of a column.
pub(super) fn about(checks: &[Check], column: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for check in checks {
        if mentions(&check.condition, column)? {
            names.push(check.name.clone());
        }
    }
    Ok(names)
}

/// Whether an expression, as text, speaks of a column.
pub(super) fn mentions(text: &str, column: &str) -> Result<bool> {
    Ok(reads(&parse_expression(text)?, column))
}

/// The same of an expression.
pub(super) fn reads(expr: &ast::Expr, column: &str) -> bool {
    let mut columns = Columns {
        name: column,
        to: None,
        found: false,
    };
    let _ = expr.clone().visit(&mut columns);
    columns.found
}

struct Columns<'a> {
    name: &'a str,
    to: Option<&'a str>,
    found: bool,
}

impl VisitorMut for Columns<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        let name = match expr {
            ast::Expr::Identifier(name) => Some(name),
            ast::Expr::CompoundIdentifier(parts) => parts.last_mut(),
            _ => None,
        };
        if let Some(name) = name
            && fold(name) == self.name
        {
            self.found = true;
            if let Some(to) = self.to {
                *name = Ident::with_quote('"', to);
            }
        }
        ControlFlow::Continue(())
    }
}
