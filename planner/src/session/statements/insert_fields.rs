//! `INSERT INTO t (c.f, c.g)`: values of fields of columns that have composite types. Those of one column become a row, whose other
//! fields are NULL, as the column's default does not count then.

use super::{defaults, row_cells};
use crate::catalog::bind::{Binder, fold};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::from_datafusion;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{self, Ident, ObjectName, Values};
use tenon_storage::ColumnDef;

/// What the list of an INSERT names, where it names fields.
pub(super) struct Fields {
    /// How many values the source gives.
    pub width: usize,
    columns: Vec<Listed>,
}

/// A column of the list, in the order of its first place there.
struct Listed {
    name: String,
    /// The places in the list that name it, and the fields there.
    parts: Vec<(usize, Vec<String>)>,
}

impl Fields {
    /// None: the list names whole columns alone.
    pub(super) fn of(list: &[ObjectName]) -> Result<Option<Fields>> {
        if list.iter().all(|name| name.0.len() == 1) {
            return Ok(None);
        }
        let mut columns: Vec<Listed> = Vec::new();
        for (at, name) in list.iter().enumerate() {
            let parts = name.0.iter().map(|part| part.as_ident().map(fold));
            let mut parts = parts.collect::<Option<Vec<_>>>().unwrap_or_default();
            if parts.is_empty() {
                return Err(SqlError::unsupported("such a target of INSERT"));
            }
            let path = parts.split_off(1);
            let name = parts.remove(0);
            match columns.iter_mut().find(|own| own.name == name) {
                Some(own) if path.is_empty() || own.is_whole() => {
                    let message = format!("column \"{name}\" specified more than once");
                    return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
                }
                Some(own) => own.parts.push((at, path)),
                None => columns.push(Listed {
                    name,
                    parts: vec![(at, path)],
                }),
            }
        }
        Ok(Some(Fields {
            width: list.len(),
            columns,
        }))
    }

    /// The columns alone.
    pub(super) fn columns(&self) -> Vec<ObjectName> {
        let name = |own: &Listed| ObjectName::from(vec![Ident::with_quote('"', &own.name)]);
        self.columns.iter().map(name).collect()
    }

    /// Which column of these a whole value is for, by its place in the list.
    pub(super) fn whole(&self, place: usize) -> Option<usize> {
        self.columns
            .iter()
            .position(|own| own.is_whole() && own.parts[0].0 == place)
    }

    /// Gives rows one value for each column; `of` are those columns.
    pub(super) fn merge(&self, binder: &Binder, of: &[&ColumnDef], values: &mut Values) -> Result<()> {
        for row in &mut values.rows {
            let given = std::mem::take(&mut row.content);
            let columns = self.columns.iter().zip(of);
            let merged = columns.map(|(own, column)| own.value(binder, column, |place| given[place].clone()));
            row.content = merged.collect::<Result<_>>()?;
        }
        Ok(())
    }

    /// The same of a query's rows.
    pub(super) fn merge_plan(&self, binder: &Binder, of: &[&ColumnDef], plan: LogicalPlan) -> Result<LogicalPlan> {
        let place = |at: usize| format!("\u{1}field{at}");
        let columns = plan.schema().columns().into_iter().enumerate();
        let named = columns.map(|(at, column)| Expr::Column(column).alias(place(at)));
        let named = named.collect::<Vec<_>>();
        let told = |error| from_datafusion(&error);
        let plan = LogicalPlanBuilder::from(plan).project(named).map_err(told)?;
        let merged = self.columns.iter().zip(of).map(|(own, column)| {
            let name = |at: usize| ast::Expr::Identifier(Ident::with_quote('"', place(at)));
            let mut value = own.value(binder, column, name)?;
            crate::pg::rewrite::rewrite(&mut value);
            Ok(binder.expression(value, plan.schema())?.alias(&own.name))
        });
        let merged = merged.collect::<Result<Vec<_>>>()?;
        plan.project(merged).and_then(LogicalPlanBuilder::build).map_err(told)
    }
}

impl Listed {
    fn is_whole(&self) -> bool {
        self.parts[0].1.is_empty()
    }

    fn value(&self, binder: &Binder, column: &ColumnDef, given: impl Fn(usize) -> ast::Expr) -> Result<ast::Expr> {
        if self.is_whole() {
            return Ok(given(self.parts[0].0));
        }
        let mut fields = Vec::with_capacity(self.parts.len());
        for (place, path) in &self.parts {
            let value = given(*place);
            if defaults::is_default(&value) {
                return Err(SqlError::unsupported_as("cannot set a subfield to DEFAULT"));
            }
            fields.push((path.clone(), value));
        }
        row_cells::of_parts(binder, (&self.name, column.sql_type), fields)
    }
}
