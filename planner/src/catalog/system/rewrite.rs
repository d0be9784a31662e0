//! Statements that read the system catalogs are rewritten for DataFusion's dialect; others never are.

use super::dialect_rewrite::{rewrite_dialect, rewrite_expression};
use super::regnames::RegType;
use crate::catalog::bind::fold;
use crate::pg::rewrite::name_outputs;
use crate::pg::walk::Visit;
use datafusion::sql::sqlparser::ast::{DataType, Expr, Function, ObjectName, Statement, Visitor};
use std::ops::ControlFlow;

/// Whether a statement names a system table or one of the catalog's own type names.
pub(crate) fn touches(statement: &Statement) -> bool {
    statement.visit(&mut Finder).is_break()
}

/// The statement as DataFusion can plan it.
pub(crate) fn rewrite(mut statement: Statement) -> Statement {
    // First, so that columns are called by what the client wrote.
    name_outputs(&mut statement);
    rewrite_dialect(&mut statement);
    statement
}

/// The same of a value that a statement is given.
pub(crate) fn rewrite_value(value: &mut Expr) {
    if value.visit(&mut Finder).is_break() {
        rewrite_expression(value);
    }
}

struct Finder;

fn found(is: bool) -> ControlFlow<()> {
    if is {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

fn is_system(name: &ObjectName) -> bool {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(fold).collect();
    match parts.as_slice() {
        [.., schema, _] => schema == super::PG_CATALOG || schema == super::INFORMATION_SCHEMA,
        [name] => name.starts_with("pg_") || super::OWN.contains(&name.as_str()),
        [] => false,
    }
}

impl Visitor for Finder {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        found(is_system(relation))
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        found(match expr {
            Expr::Cast {
                data_type: DataType::Regclass,
                ..
            } => true,
            Expr::Cast {
                data_type: DataType::Custom(name, _),
                ..
            } => {
                let name = name.to_string().to_lowercase();
                let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
                name == "oid" || RegType::named(name).is_some()
            }
            Expr::Function(Function { name, .. }) => {
                let last = name.0.last().and_then(|part| part.as_ident()).map(fold);
                name.0.len() > 1 && is_system(name) || last.is_some_and(|name| RegType::looked_up_by(&name).is_some())
            }
            Expr::Collate { .. } => true,
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn touching(sql: &str) -> bool {
        let statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap();
        touches(&statements[0])
    }

    #[test]
    fn only_catalog_statements_are_rewritten() {
        assert!(touching("SELECT relname FROM pg_catalog.pg_class"));
        assert!(touching("SELECT 1 FROM a WHERE EXISTS (SELECT 1 FROM pg_index)"));
        assert!(touching("SELECT 't'::regclass"));
        assert!(touching("SELECT table_name FROM information_schema.tables"));
        assert!(!touching("SELECT a, (SELECT max(b) FROM u WHERE u.x = t.x) FROM t"));
    }
}
