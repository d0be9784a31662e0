//! CHECK constraints, evaluated over rows before they are published: of INSERT, UPDATE and COPY alike (23514).

use crate::bind::{Binder, fold};
use crate::error::{Result, SqlError, state};
use crate::errors::from_datafusion;
use crate::parse::parse_expression;
use crate::rewrite::rewrite;
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::DFSchema;
use datafusion::logical_expr::ExprSchemable;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::sql::sqlparser::ast::{
    self, CheckConstraint, Ident, IndexColumn, NullsDistinctOption, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use tenon_storage::datetime::shown;
use tenon_storage::{Check, ColumnOrder, IndexDef, Segment, TableDefinition};

/// The conditions of a table, ready to be evaluated.
pub(super) struct Checks {
    definition: Arc<TableDefinition>,
    conditions: Vec<(String, Arc<dyn PhysicalExpr>)>,
}

impl Checks {
    pub(super) fn of(binder: &Binder, definition: &Arc<TableDefinition>) -> Result<Checks> {
        let conditions = definition.checks.iter().map(|check| {
            let condition = parse_expression(&check.condition)?;
            Ok((check.name.clone(), physical(binder, condition, &definition.schema)?))
        });
        Ok(Checks {
            definition: definition.clone(),
            conditions: conditions.collect::<Result<_>>()?,
        })
    }

    /// Fails on the first row of the segments for which a condition is false.
    pub(super) fn verify(&self, segments: &[Arc<Segment>]) -> Result<()> {
        if self.conditions.is_empty() {
            return Ok(());
        }
        let columns: Vec<usize> = (0..self.definition.columns.len()).collect();
        for segment in segments {
            let rows = segment.batch(&self.definition.schema, &columns, 0, segment.rows())?;
            for (name, condition) in &self.conditions {
                let met = condition
                    .evaluate(&rows)
                    .and_then(|met| met.into_array(rows.num_rows()))
                    .map_err(|error| from_datafusion(&error))?;
                let met = met.as_boolean();
                if let Some(row) = (0..met.len()).find(|row| met.is_valid(*row) && !met.value(*row)) {
                    return Err(self.violated(name, &rows, row));
                }
            }
        }
        Ok(())
    }

    fn violated(&self, name: &str, rows: &RecordBatch, row: usize) -> SqlError {
        let table = &self.definition.name;
        let values = rows.columns().iter().map(|column| shown(column, row));
        let values: Vec<String> = values.collect();
        let message = format!("new row for relation \"{table}\" violates check constraint \"{name}\"");
        SqlError::new(state::CHECK_VIOLATION, message).detail(format!("Failing row contains ({}).", values.join(", ")))
    }
}

/// A condition over a table's columns; 42804 where it is no boolean.
fn physical(binder: &Binder, mut condition: ast::Expr, schema: &Arc<Schema>) -> Result<Arc<dyn PhysicalExpr>> {
    rewrite(&mut condition);
    let schema = DFSchema::try_from(schema.as_ref().clone()).map_err(|error| from_datafusion(&error))?;
    let condition = binder.expression(condition, &schema)?;
    let given = condition.get_type(&schema).map_err(|error| from_datafusion(&error))?;
    if !matches!(given, DataType::Boolean | DataType::Null) {
        let name = tenon_storage::SqlType::from_data_type(&given).map_or("record", |known| known.base_name());
        let message = format!("argument of CHECK must be type boolean, not type {name}");
        return Err(SqlError::new(state::DATATYPE_MISMATCH, message));
    }
    let condition = condition
        .cast_to(&DataType::Boolean, &schema)
        .map_err(|error| from_datafusion(&error))?;
    let planned = binder.engine.state.create_physical_expr(condition, &schema);
    planned.map_err(|error| from_datafusion(&error))
}

/// A CHECK as a table keeps it, over columns of this schema. `column`: the one that it was declared with.
pub(super) fn check(
    binder: &Binder,
    declared: &CheckConstraint,
    name: Option<&Ident>,
    table: &str,
    column: Option<&str>,
    schema: &Arc<Schema>,
    taken: &[Check],
) -> Result<Check> {
    physical(binder, (*declared.expr).clone(), schema)?;
    let wanted = match column {
        Some(column) => format!("{table}_{column}_check"),
        None => format!("{table}_check"),
    };
    let is_free = |name: &String| taken.iter().all(|check| check.name != *name);
    let name = match name.or(declared.name.as_ref()) {
        Some(name) => fold(name),
        None => std::iter::once(wanted.clone())
            .chain((1..).map(|number| format!("{wanted}{number}")))
            .find(is_free)
            .unwrap_or_default(),
    };
    if !is_free(&name) {
        let message = format!("check constraint \"{name}\" already exists");
        return Err(SqlError::new(state::DUPLICATE_OBJECT, message));
    }
    Ok(Check {
        name,
        condition: declared.expr.to_string(),
    })
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
        nulls_not_distinct: false,
    }
}

/// The conditions after a column has another name.
pub(super) fn renamed(checks: &[Check], from: &str, to: &str) -> Result<Vec<Check>> {
    let change = |check: &Check| {
        let mut condition = parse_expression(&check.condition)?;
        let _ = condition.visit(&mut Columns {
            name: from,
            to: Some(to),
            found: false,
        });
        Ok(Check {
            name: check.name.clone(),
            condition: condition.to_string(),
        })
    };
    checks.iter().map(change).collect()
}

/// The names of the conditions that speak of a column.
pub(super) fn about(checks: &[Check], column: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for check in checks {
        let mut columns = Columns {
            name: column,
            to: None,
            found: false,
        };
        let _ = parse_expression(&check.condition)?.visit(&mut columns);
        if columns.found {
            names.push(check.name.clone());
        }
    }
    Ok(names)
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
