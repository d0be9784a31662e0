//! The schemas that a statement says before functions and types: who looks something up there needs USAGE of them. Relations
//! are asked about as they are looked up (`lookup`), and a name alone is looked for in schemas that may be used (the search path).
//!
//! Asked of what a client has written. Texts that are kept say the schemas of all that they name, whoever may use these.

use super::{Binder, parts};
use crate::catalog::rights::Rights;
use crate::pg::error::{Result, SqlError};
use crate::pg::walk::Visit;
use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType, Expr, ObjectName, Statement, TableFactor, Visitor};
use std::ops::ControlFlow;
use tenon_storage::privilege;

impl Binder {
    /// Refuses names of functions and types in schemas that may not be used (42501).
    pub(crate) fn check_schemas<T: Visit>(&self, tree: &T) -> Result<()> {
        if self.facts.acting.superuser {
            return Ok(());
        }
        match tree.visit(&mut Schemas(self)) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    /// The same of the name of a function or a type.
    pub(crate) fn check_schema_of(&self, name: &ObjectName) -> Result<()> {
        match parts(name).as_slice() {
            [.., schema, _] => self.caller().check_schema(schema, privilege::USAGE),
            _ => Ok(()),
        }
    }

    /// The rights of who runs the statement, also where a view's owner is asked for what the view reads.
    pub(super) fn caller(&self) -> Rights<'_> {
        Rights {
            state: &self.snapshot,
            acting: self.facts.acting,
        }
    }

    /// The same of a type as it is declared.
    pub(crate) fn check_schema_of_type(&self, declared: &DataType) -> Result<()> {
        match declared {
            DataType::Array(
                ArrayElemTypeDef::SquareBracket(item, _)
                | ArrayElemTypeDef::AngleBracket(item)
                | ArrayElemTypeDef::Parenthesis(item),
            ) => self.check_schema_of_type(item),
            DataType::Custom(name, _) => self.check_schema_of(name),
            _ => Ok(()),
        }
    }
}

struct Schemas<'a>(&'a Binder);

fn flow(answer: Result<()>) -> ControlFlow<SqlError> {
    answer.map_or_else(ControlFlow::Break, ControlFlow::Continue)
}

impl Visitor for Schemas<'_> {
    type Break = SqlError;

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<SqlError> {
        match statement {
            Statement::Prepare { data_types, .. } => {
                flow(data_types.iter().try_for_each(|of| self.0.check_schema_of_type(of)))
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        flow(match expr {
            Expr::Cast { data_type, .. } => self.0.check_schema_of_type(data_type),
            Expr::TypedString(typed) => self.0.check_schema_of_type(&typed.data_type),
            Expr::Function(call) => self.0.check_schema_of(&call.name),
            _ => Ok(()),
        })
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<SqlError> {
        flow(match factor {
            TableFactor::Table {
                name, args: Some(_), ..
            }
            | TableFactor::Function { name, .. } => self.0.check_schema_of(name),
            _ => Ok(()),
        })
    }
}
