//! The functions in SQL, and in PL/pgSQL, that a name is of.

use super::{Binder, parts};
use crate::catalog::system::split;
use crate::pg::parse::parse_expression;
use crate::pg::types::planner::sql_type;
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, ObjectNamePart};
use std::sync::Arc;
use tenon_storage::{Function, Object, ObjectKey};

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
        let quoted = |part: String| ObjectNamePart::Identifier(Ident::with_quote('"', part));
        let name = ObjectName(split(name).into_iter().map(quoted).collect());
        let types = |function: &Function| {
            let types = function
                .arguments
                .iter()
                .map(|argument| argument_type(&argument.sql_type));
            types.collect::<Vec<_>>()
        };
        let functions = self.functions_named(&name);
        let mut found = functions
            .iter()
            .filter(|own| given.as_ref().is_none_or(|given| *given == types(own)));
        let first = found.next()?;
        found.next().is_none().then_some(first.oid)
    }

    /// The functions of that name that the search path, or the given schema, has.
    pub(super) fn functions_named(&self, name: &ObjectName) -> Vec<Arc<Function>> {
        let mut parts = parts(name);
        let Some(last) = parts.pop() else { return Vec::new() };
        let schemas = match parts.pop() {
            Some(schema) => vec![schema],
            // Functions in the session's own schema are called by their full names only.
            None => self
                .facts
                .path
                .iter()
                .filter(|schema| !schema.starts_with("pg_temp_"))
                .cloned()
                .collect(),
        };
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

/// A type as PostgreSQL names it among a function's arguments.
pub(crate) fn argument_type(declared: &str) -> String {
    match parse_expression(&format!("NULL::{declared}")) {
        Ok(Expr::Cast { data_type, .. }) => {
            sql_type(&data_type).map_or_else(|_| declared.to_lowercase(), |known| known.base_name().to_string())
        }
        _ => declared.to_lowercase(),
    }
}
