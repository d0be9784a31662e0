//! The functions in SQL, and in PL/pgSQL, that a name is of.

use super::{Binder, parts};
use crate::catalog::system::split;
use crate::pg::parse::parse_expression;
use crate::pg::types::planner::sql_type;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName};
use std::sync::Arc;
use tenon_storage::{DatabaseState, Function, Object, ObjectKey};

impl Binder {
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
            Some(schema) => vec![schema],
            // Functions in the session's own schema are called by their full names only.
            None => self
                .facts
                .path
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
