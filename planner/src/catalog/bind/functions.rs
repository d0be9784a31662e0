//! The functions in SQL, and in PL/pgSQL, that a name is of.

use super::{Binder, Calls, named_in_full, parts, with_value};
use crate::catalog::system::split;
use crate::pg::error::{Result, SqlError};
use crate::pg::errors::from_datafusion;
use crate::pg::parse::{parse_expression, parse_query};
use crate::pg::rewrite::rewrite;
use crate::pg::types::planner::sql_type;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::DFSchema;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Query};
use std::sync::Arc;
use tenon_storage::{DatabaseState, Domain, Function, Object, ObjectKey, quote};

impl Binder {
    /// The functions that what is planned calls at a depth of calls: 0: itself.
    fn calls_at(&self, depth: usize, plan: impl FnOnce(&Binder) -> Result<()>) -> Result<Vec<u32>> {
        let calls = Calls::default();
        let binder = Binder {
            calls: Some(calls.clone()),
            ..self.clone().trusted()
        };
        plan(&binder)?;
        let calls = calls.lock();
        Ok(calls.iter().filter(|own| own.0 == depth).map(|own| own.1).collect())
    }

    /// Those that a function's body calls.
    pub(crate) fn calls_of_function(&self, of: &Function) -> Result<Vec<u32>> {
        let values = of.arguments.iter().map(|own| format!("NULL::{}", own.sql_type));
        let name = format!("{}.{}", quote::identifier(&of.schema_name), quote::identifier(&of.name));
        let call = format!("SELECT {name}({})", values.collect::<Vec<_>>().join(", "));
        let query = parse_query(&call)?.ok_or_else(|| SqlError::internal("a call is no query"))?;
        self.calls_at(1, |binder| binder.view_query(query).map(|_| ()))
    }

    /// The functions that a query which is kept calls itself, and not only in the body of another.
    pub(crate) fn calls_of_query(&self, query: Box<Query>) -> Result<Vec<u32>> {
        self.calls_at(0, |binder| binder.view_query(query).map(|_| ()))
    }

    /// The same of an expression over such columns.
    pub(crate) fn calls_of_expression(&self, mut expr: Expr, columns: &Schema) -> Result<Vec<u32>> {
        rewrite(&mut expr);
        let columns = DFSchema::try_from(columns.clone()).map_err(|error| from_datafusion(&error))?;
        self.calls_at(0, |binder| binder.expression(expr, &columns).map(|_| ()))
    }

    /// The same of a domain's condition, which is about VALUE.
    pub(crate) fn calls_of_condition(&self, condition: Expr, of: &Domain) -> Result<Vec<u32>> {
        let value = parse_expression(&format!("NULL::{}", named_in_full(of.base)))?;
        self.calls_of_expression(with_value(condition, &value), &Schema::empty())
    }

    /// The oid of a function in SQL by its name, and the types of its arguments where they are given: `f`, `s.f(int, text)`. None:
    /// there is none, or there are several.
    pub(crate) fn function_oid(&self, signature: &str) -> Option<u32> {
        let (name, arguments) = match signature.split_once('(') {
            Some((name, arguments)) => (name, Some(arguments.trim_end().strip_suffix(')')?)),
            None => (signature, None),
        };
        let given = arguments.map(|given| given.split(',').map(str::trim).filter(|own| !own.is_empty()));
        let given: Option<Vec<String>> = given.map(|given| given.map(argument_type).collect());
        let mut parts = split(name);
        let last = parts.pop()?;
        let mut found = overloads(&self.snapshot, self.schemas_of_calls(parts.pop()), &last, given);
        let (_, object) = found.next()?;
        let (oid, _) = object.secured()?;
        found.next().is_none().then_some(oid)
    }

    /// Where a function is looked for: in the given schema, or along the path.
    fn schemas_of_calls(&self, given: Option<String>) -> Vec<String> {
        match given {
            Some(schema) => vec![self.names().temporary(Some(&schema)).unwrap_or_default().to_string()],
            // Functions in the session's own schema are called by their full names only.
            None => self
                .path()
                .iter()
                .filter(|schema| !schema.starts_with("pg_temp_"))
                .cloned()
                .collect(),
        }
    }

    /// The functions of that name that the search path, or the given schema, has.
    pub(crate) fn functions_named(&self, name: &ObjectName) -> Vec<Arc<Function>> {
        let mut parts = parts(name);
        let Some(last) = parts.pop() else { return Vec::new() };
        let schemas = self.schemas_of_calls(parts.pop());
        let mut out = Vec::new();
        for schema in schemas {
            let first = ObjectKey::Function {
                schema: schema.clone(),
                name: last.clone(),
                arguments: Vec::new(),
            };
            for (key, object) in self.snapshot.objects().range(first..) {
                match (key, object) {
                    (ObjectKey::Function { schema: own, name, .. }, Object::Function(function))
                        if *own == schema && *name == last =>
                    {
                        out.push(function.clone());
                    }
                    _ => break,
                }
            }
        }
        out
    }
}

/// The functions of a name in some schemas, of such arguments where they are given.
pub(crate) fn overloads<'s>(
    state: &'s DatabaseState,
    schemas: Vec<String>,
    name: &'s str,
    arguments: Option<Vec<String>>,
) -> impl Iterator<Item = (&'s ObjectKey, &'s Object)> {
    state.objects().iter().filter(move |(key, _)| match key {
        ObjectKey::Function {
            schema,
            name: own_name,
            arguments: own,
        } => schemas.contains(schema) && own_name == name && arguments.as_ref().is_none_or(|given| given == own),
        _ => false,
    })
}

/// A type as PostgreSQL names it among a function's arguments.
pub(crate) fn argument_type(declared: &str) -> String {
    match parse_expression(&format!("NULL::{declared}")) {
        Ok(Expr::Cast { data_type, .. }) => {
            sql_type(&data_type).map_or_else(|_| declared.to_lowercase(), |known| known.base_name().to_string())
        }
        _ => declared.to_lowercase(),
    }
}
