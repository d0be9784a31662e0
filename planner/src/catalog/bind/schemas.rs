//! The schemas that a statement says before functions and types: who looks something up there needs USAGE of them. Relations
//! are asked about as they are looked up (`lookup`), and a name alone is looked for in schemas that may be used (the search path).
//!
//! Asked of what a client has written. Texts that are kept say the schemas of all that they name, whoever may use these.

use super::{Binder, parts};
use crate::catalog::rights::Rights;
use crate::pg::error::{Result, SqlError};
use crate::pg::identity::Acting;
use crate::pg::walk::Visit;
use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType, Expr, ObjectName, Statement, TableFactor, Visitor};
use std::ops::ControlFlow;
use tenon_storage::privilege;

impl Binder {
    /// Refuses names of functions and types in schemas that may not be used (42501).
    pub(crate) fn check_schemas<T: Visit>(&self, tree: &T) -> Result<()> {
        self.check_schemas_of(tree, self.facts.acting)
    }

    /// The same where it is asked of another role.
    pub(super) fn check_schemas_of<T: Visit>(&self, tree: &T, acting: Acting) -> Result<()> {
        if acting.superuser {
            return Ok(());
        }
        let mut schemas = Schemas(Rights {
            state: &self.snapshot,
            acting,
        });
        match tree.visit(&mut schemas) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    /// The same of the name of a function or a type.
    pub(crate) fn check_schema_of(&self, name: &ObjectName) -> Result<()> {
        of_name(&self.caller(), name)
    }

    /// The same of a type as it is declared.
    pub(crate) fn check_schema_of_type(&self, declared: &DataType) -> Result<()> {
        of_type(&self.caller(), declared)
    }

    /// The rights of who runs the statement, also where a view's owner is asked for what the view reads.
    fn caller(&self) -> Rights<'_> {
        Rights {
            state: &self.snapshot,
            acting: self.facts.acting,
        }
    }
}

fn of_name(rights: &Rights<'_>, name: &ObjectName) -> Result<()> {
    match parts(name).as_slice() {
        [.., schema, _] => rights.check_schema(schema, privilege::USAGE),
        _ => Ok(()),
    }
}

fn of_type(rights: &Rights<'_>, declared: &DataType) -> Result<()> {
    match declared {
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(item, _)
            | ArrayElemTypeDef::AngleBracket(item)
            | ArrayElemTypeDef::Parenthesis(item),
        ) => of_type(rights, item),
        DataType::Custom(name, _) => of_name(rights, name),
        _ => Ok(()),
    }
}

struct Schemas<'a>(Rights<'a>);

fn flow(answer: Result<()>) -> ControlFlow<SqlError> {
    answer.map_or_else(ControlFlow::Break, ControlFlow::Continue)
}

impl Visitor for Schemas<'_> {
    type Break = SqlError;

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<SqlError> {
        match statement {
            Statement::Prepare { data_types, .. } => flow(data_types.iter().try_for_each(|of| of_type(&self.0, of))),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        flow(match expr {
            Expr::Cast { data_type, .. } => of_type(&self.0, data_type),
            Expr::TypedString(typed) => of_type(&self.0, &typed.data_type),
            Expr::Function(call) => of_name(&self.0, &call.name),
            _ => Ok(()),
        })
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<SqlError> {
        flow(match factor {
            TableFactor::Table {
                name, args: Some(_), ..
            }
            | TableFactor::Function { name, .. } => of_name(&self.0, name),
            _ => Ok(()),
        })
    }
}
