//! CHECK constraints of tables, partitions and domains as `pg_constraint` and `pg_get_constraintdef` show them.

use super::names::without_parentheses;
use super::relations::{relations, schema_oid};
use super::rights::is_accessible;
use super::rows::{Row, row};
use super::shown_text::{pretty_text, shown_text};
use crate::catalog::bind::{Binder, fold};
use crate::pg::parse::parse_expression;
use crate::pg::walk::{Visit, VisitMut};
use datafusion::sql::sqlparser::ast::{Expr, Ident, Visitor, VisitorMut};
use std::ops::ControlFlow;
use tenon_storage::{Check, Object, Relation, quote};

/// A condition with the oids of the table, or the domain, that it is of.
struct Shown<'a> {
    oid: u32,
    name: &'a str,
    schema: &'a str,
    table: u32,
    domain: u32,
    condition: String,
    not_valid: bool,
    comment: Option<&'a str>,
    inherited: bool,
}

/// The first oid that `part_oid` gives.
const PARTS_FROM: u32 = 1 << 30;

/// An oid for what storage gives none: a part of the object with this oid. No other object's, as long as there are fewer than
/// half a million of them; the same until the object changes.
pub(super) fn part_oid(of: u32, at: usize) -> u32 {
    const PARTS_MAX: u32 = 2048;
    PARTS_FROM | (of.wrapping_mul(PARTS_MAX).wrapping_add(at as u32) & (PARTS_FROM - 1))
}

/// The conditions of a relation's rows, and whether a partition has them of its table.
pub(super) fn of_relation<'a>(binder: &'a Binder, relation: &'a Relation) -> Vec<(&'a Check, bool)> {
    let own = |check: &'a Check| (check, false);
    match relation {
        Relation::Table(table) => table.definition().checks.iter().map(own).collect(),
        Relation::Partition(partition) => {
            let root = binder.snapshot.table_by_oid(partition.root).into_iter();
            let inherited = root.flat_map(|root| root.definition().checks.iter().map(|check| (check, true)));
            partition.checks.iter().map(own).chain(inherited).collect()
        }
        Relation::View(_) | Relation::Sequence(_) => Vec::new(),
    }
}

/// The condition of a domain, with VALUE as a word.
fn of_value(condition: &str) -> String {
    struct Words;
    impl VisitorMut for Words {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Identifier(name) = expr
                && fold(name) == "value"
            {
                *name = Ident::new("VALUE");
            }
            ControlFlow::Continue(())
        }
    }
    match parse_expression(condition) {
        Ok(mut expr) => {
            let _ = VisitMut::visit(&mut expr, &mut Words);
            expr.to_string()
        }
        Err(_) => condition.to_string(),
    }
}

/// A condition's text, without parentheses around all of it.
fn shown(binder: &Binder, condition: &str) -> String {
    let mut text = shown_text(binder, condition);
    loop {
        let bare = without_parentheses(text.clone());
        if bare == text {
            return text;
        }
        text = bare;
    }
}

fn all(binder: &Binder) -> Vec<Shown<'_>> {
    let of_tables = relations(binder).flat_map(|relation| {
        let checks = of_relation(binder, relation).into_iter().enumerate();
        checks.map(|(at, (check, inherited))| Shown {
            oid: part_oid(relation.oid(), at),
            name: &check.name,
            schema: relation.schema_name(),
            table: relation.oid(),
            domain: 0,
            condition: shown(binder, &check.condition),
            not_valid: check.not_valid,
            comment: check.comment.as_deref().filter(|_| !inherited),
            inherited,
        })
    });
    let domains = binder.snapshot.objects().values().filter_map(|object| match object {
        Object::Domain(of) => Some(of),
        _ => None,
    });
    let of_domains = domains.flat_map(|of| {
        of.checks.iter().enumerate().map(|(at, (name, condition))| Shown {
            oid: part_oid(of.oid, at),
            name,
            schema: &of.schema_name,
            table: 0,
            domain: of.oid,
            condition: shown(binder, &of_value(condition)),
            not_valid: false,
            comment: None,
            inherited: false,
        })
    });
    of_tables.chain(of_domains).collect()
}

/// Rows of `domain_constraints`.
pub(super) fn of_domains(binder: &Binder, database: &str) -> Vec<Row> {
    let constraint = |shown: Shown<'_>| {
        let domain = binder.snapshot.objects().values().find_map(|object| match object {
            Object::Domain(of) if of.oid == shown.domain => Some(of),
            _ => None,
        })?;
        Some(row! {
            "constraint_catalog": database,
            "constraint_schema": shown.schema,
            "constraint_name": shown.name,
            "domain_catalog": database,
            "domain_schema": domain.schema_name.as_str(),
            "domain_name": domain.name.as_str(),
            "is_deferrable": "NO",
            "initially_deferred": "NO",
        })
    };
    all(binder).into_iter().filter_map(constraint).collect()
}

/// Rows of `pg_constraint`.
pub(super) fn constraints(binder: &Binder) -> Vec<Row> {
    let constraint = |shown: Shown<'_>| {
        row! {
            "oid": shown.oid,
            "conname": shown.name,
            "connamespace": schema_oid(binder, shown.schema),
            "contype": "c",
            "condeferrable": false,
            "condeferred": false,
            "convalidated": !shown.not_valid,
            "conrelid": shown.table,
            "contypid": shown.domain,
            "conindid": 0_i64,
            "conparentid": 0_i64,
            "confrelid": 0_i64,
            "confupdtype": " ",
            "confdeltype": " ",
            "confmatchtype": " ",
            "conislocal": !shown.inherited,
            "coninhcount": i64::from(shown.inherited),
            "connoinherit": false,
            "conbin": shown.condition.as_str(),
            "conkey": columns_of(binder, &shown).iter().map(|at| *at as i64 + 1).collect::<Vec<_>>(),
        }
    };
    all(binder).into_iter().map(constraint).collect()
}

/// What COMMENT ON says of the condition with this oid.
pub(super) fn comment(binder: &Binder, oid: i64) -> Option<String> {
    if oid < i64::from(PARTS_FROM) {
        return None;
    }
    let shown = all(binder).into_iter().find(|shown| i64::from(shown.oid) == oid)?;
    shown.comment.map(str::to_string)
}

/// Rows of `pg_description`.
pub(super) fn descriptions(binder: &Binder) -> Vec<Row> {
    const PG_CONSTRAINT: i64 = 2606;
    let described = |shown: Shown<'_>| {
        Some(row! {
            "objoid": shown.oid,
            "classoid": PG_CONSTRAINT,
            "objsubid": 0_i64,
            "description": shown.comment?,
        })
    };
    all(binder).into_iter().filter_map(described).collect()
}

/// The columns that a table's condition names, in its order.
fn columns_of(binder: &Binder, shown: &Shown<'_>) -> Vec<usize> {
    let relation = binder.snapshot.relation_by_oid(shown.table);
    relation.map_or_else(Vec::new, |relation| named_columns(relation, &shown.condition))
}

/// The columns of a relation that an expression names, in its order.
pub(super) fn named_columns(relation: &Relation, text: &str) -> Vec<usize> {
    struct Names<'a>(&'a Relation, Vec<usize>);
    impl Visitor for Names<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let name = match expr {
                Expr::Identifier(name) => Some(name),
                Expr::CompoundIdentifier(parts) => parts.last(),
                _ => None,
            };
            let found = name.and_then(|name| self.0.columns().column_with_name(&fold(name)));
            if let Some((at, _)) = found.filter(|(at, _)| !self.1.contains(at)) {
                self.1.push(at);
            }
            ControlFlow::Continue(())
        }
    }
    let mut names = Names(relation, Vec::new());
    if let Ok(condition) = parse_expression(text) {
        let _ = condition.visit(&mut names);
    }
    names.1
}

/// Conditions and NOT NULL of tables, each with its schema, its name, its table and its clause.
fn of_tables(binder: &Binder) -> Vec<(&str, String, &Relation, String)> {
    let mut out = Vec::new();
    for shown in all(binder).iter().filter(|shown| shown.table != 0) {
        if let Some(relation) = binder.snapshot.relation_by_oid(shown.table) {
            out.push((
                shown.schema,
                shown.name.to_string(),
                relation,
                format!("(({}))", shown.condition),
            ));
        }
    }
    // PostgreSQL makes names for these there.
    for relation in relations(binder).filter(|own| matches!(own, Relation::Table(_) | Relation::Partition(_))) {
        let fields = relation.columns().fields().iter().enumerate();
        for (at, field) in fields.filter(|(_, field)| !field.is_nullable()) {
            let schema = schema_oid(binder, relation.schema_name());
            let name = format!("{schema}_{}_{}_not_null", relation.oid(), at + 1);
            let clause = format!("{} IS NOT NULL", quote::identifier(field.name()));
            out.push((relation.schema_name(), name, relation, clause));
        }
    }
    out.retain(|(_, _, relation, _)| is_accessible(binder, relation));
    out
}

/// Rows of `information_schema.table_constraints`.
pub(super) fn table_constraints(binder: &Binder, database: &str) -> Vec<Row> {
    let constraint = |(schema, name, relation, _): (&str, String, &Relation, String)| {
        row! {
            "constraint_catalog": database,
            "constraint_schema": schema,
            "constraint_name": name,
            "table_catalog": database,
            "table_schema": relation.schema_name(),
            "table_name": relation.name(),
            "constraint_type": "CHECK",
            "is_deferrable": "NO",
            "initially_deferred": "NO",
            "enforced": "YES",
        }
    };
    of_tables(binder).into_iter().map(constraint).collect()
}

/// Rows of `information_schema.check_constraints`.
pub(super) fn clauses(binder: &Binder, database: &str) -> Vec<Row> {
    let clause = |schema: &str, name: &str, clause: String| {
        row! {
            "constraint_catalog": database,
            "constraint_schema": schema,
            "constraint_name": name,
            "check_clause": clause,
        }
    };
    let of_tables = of_tables(binder).into_iter();
    let of_tables = of_tables.map(|(schema, name, _, own)| clause(schema, &name, own));
    let domains = all(binder).into_iter().filter(|shown| shown.domain != 0);
    let of_domains = domains.map(|shown| clause(shown.schema, shown.name, format!("(({}))", shown.condition)));
    of_tables.chain(of_domains).collect()
}

/// Rows of `information_schema.constraint_column_usage`: the columns that conditions name.
pub(super) fn used_columns(binder: &Binder, database: &str) -> Vec<Row> {
    let mut out = Vec::new();
    for shown in all(binder).iter().filter(|shown| shown.table != 0) {
        let Some(relation) = binder.snapshot.relation_by_oid(shown.table) else {
            continue;
        };
        for at in columns_of(binder, shown) {
            out.push(row! {
                "table_catalog": database,
                "table_schema": relation.schema_name(),
                "table_name": relation.name(),
                "column_name": relation.columns().field(at).name().as_str(),
                "constraint_catalog": database,
                "constraint_schema": shown.schema,
                "constraint_name": shown.name,
            });
        }
    }
    out
}
/// Those of the domains of `information_schema`, by their oids.
const SHIPPED: [(i64, &str); 2] = [
    (13_298, "CHECK ((VALUE >= 0))"),
    (
        13_311,
        "CHECK (((VALUE)::text = ANY ((ARRAY['YES'::character varying, 'NO'::character varying])::text[])))",
    ),
];

/// `pg_get_constraintdef` of the condition with this oid.
pub(super) fn definition(binder: &Binder, oid: i64, is_pretty: bool) -> Option<String> {
    if let Some((_, shipped)) = SHIPPED.iter().find(|(own, _)| *own == oid) {
        return Some((*shipped).to_string());
    }
    let shown = all(binder).into_iter().find(|shown| i64::from(shown.oid) == oid)?;
    let not_valid = if shown.not_valid { " NOT VALID" } else { "" };
    Some(match is_pretty {
        true => format!("CHECK ({}){not_valid}", pretty_text(shown.condition)),
        false => format!("CHECK (({})){not_valid}", shown.condition),
    })
}
