//! Rows of `pg_depend` and `pg_rewrite` that are of this database: indexes, keys, sequences that columns own, defaults that take their values
//! from sequences, the database's types that columns, types and functions are made of, what views read, and the functions that
//! views, defaults and conditions call. pg_dump puts what it writes into their order.

use super::checks::{named_columns, of_relation, part_oid};
use super::foreign_keys::{self, Shown};
use super::indexes::ShownIndex;
use super::regnames::system_table;
use super::relations::{Column, columns, relations};
use super::rows::{Row, row};
use super::types;
use crate::catalog::bind::{Binder, named_sequence};
use crate::catalog::extensions::installed;
use crate::pg::parse::{parse, parse_expression, parse_query};
use crate::pg::statement::Kind;
use datafusion::arrow::datatypes::Schema;
use datafusion::sql::sqlparser::ast::{ObjectName, visit_relations};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use tenon_storage::range::RangeType;
use tenon_storage::{Domain, Function, FunctionResult, Object, Relation, SqlType, View};

/// The query of a view or materialized view.
pub(super) fn query(relation: &Relation) -> Option<&str> {
    match relation {
        Relation::View(view) => Some(&view.sql),
        Relation::Table(table) => table.definition().query.as_deref(),
        Relation::Sequence(_) | Relation::Partition(_) => None,
    }
}

/// The `_RETURN` rules of views.
pub(super) fn rules(binder: &Binder) -> Vec<Row> {
    let views = relations(binder).filter(|relation| query(relation).is_some());
    let rule = |view: &Relation| {
        row! {
            "oid": part_oid(view.oid(), 0),
            "rulename": "_RETURN",
            "ev_class": view.oid(),
            "ev_type": "1",
            "ev_enabled": "O",
            "is_instead": true,
        }
    };
    views.map(rule).collect()
}

/// An object: its system table, its oid and its column.
type Address = (&'static str, u32, usize);

pub(super) fn rows(binder: &Binder) -> Vec<Row> {
    let mut out = Vec::new();
    let mut depends = |(class, of, column): Address, (on_class, on, on_column): Address, how: &'static str| {
        out.push(row! {
            "classid": system_table(class).unwrap_or(0),
            "objid": of,
            "objsubid": column as i64,
            "refclassid": system_table(on_class).unwrap_or(0),
            "refobjid": on,
            "refobjsubid": on_column as i64,
            "deptype": how,
        });
    };
    let calls = Calls::of(binder);
    for object in binder.snapshot.objects().values() {
        let own = |declared: &str| types::oid(binder, declared.trim_end_matches("[]"));
        match object {
            Object::Composite(of) => {
                for (at, (_, declared)) in of.columns.iter().enumerate() {
                    if let Some(on) = own(declared) {
                        depends(("pg_class", of.oid, 0), ("pg_type", of.oid, 0), "i");
                        depends(("pg_class", of.oid, at + 1), ("pg_type", on, 0), "n");
                    }
                }
            }
            Object::Domain(of) => {
                let domain = ("pg_type", of.oid, 0);
                if let Some(on) = own(&of.declared) {
                    depends(domain, ("pg_type", on, 0), "n");
                }
                for on in of
                    .default
                    .iter()
                    .flat_map(|text| calls.expression(text, &Schema::empty()))
                {
                    depends(domain, ("pg_proc", on, 0), "n");
                }
                for (at, (_, condition)) in of.checks.iter().enumerate() {
                    let check = ("pg_constraint", part_oid(of.oid, at), 0);
                    depends(check, domain, "a");
                    for on in calls.condition(condition, of) {
                        depends(check, ("pg_proc", on, 0), "n");
                    }
                }
            }
            Object::Range(of, false) => {
                if let Some(on) = own_item(of.subtype) {
                    depends(("pg_type", of.oid, 0), ("pg_type", on, 0), "n");
                }
            }
            Object::Function(of) => {
                for on in declared_by(of).into_iter().filter_map(own).collect::<BTreeSet<u32>>() {
                    depends(("pg_proc", of.oid, 0), ("pg_type", on, 0), "n");
                }
            }
            _ => {}
        }
    }
    for extension in installed(&binder.snapshot) {
        let Some(first) = extension.first() else { continue };
        for (_, of) in &extension.functions {
            depends(("pg_proc", of.oid, 0), ("pg_extension", first.oid, 0), "e");
        }
    }
    for relation in relations(binder) {
        let own = relation.oid();
        if let Some(owner) = relation.as_sequence().and_then(|sequence| sequence.owner.as_ref()) {
            let table = binder.snapshot.relation_by_oid(owner.table_oid);
            let at = table.and_then(|table| {
                columns(binder, table)
                    .iter()
                    .position(|column| column.name == owner.column)
            });
            if let Some(at) = at {
                let how = if owner.identity { "i" } else { "a" };
                depends(("pg_class", own, 0), ("pg_class", owner.table_oid, at + 1), how);
            }
        }
        // pg_dump writes a table before those whose columns are of the type of its rows.
        if relation.as_table().is_some() {
            depends(("pg_type", own, 0), ("pg_class", own, 0), "i");
        }
        for (at, column) in columns(binder, relation).iter().enumerate() {
            if let Some(of) = own_type(binder, column) {
                depends(("pg_class", own, at + 1), ("pg_type", of, 0), "n");
            }
            let Some(default) = column.default else { continue };
            let of = ("pg_attrdef", part_oid(own, at), 0);
            depends(of, ("pg_class", own, at + 1), "a");
            let sequence = named_sequence(default).and_then(|name| binder.names().textual(&name).ok());
            if let Some(sequence) = sequence {
                depends(of, ("pg_class", sequence.oid(), 0), "n");
            }
            for on in calls.expression(default, relation.columns()) {
                depends(of, ("pg_proc", on, 0), "n");
            }
        }
        for (at, (check, _)) in of_relation(binder, relation).into_iter().enumerate() {
            let of = ("pg_constraint", part_oid(own, at), 0);
            depends(of, ("pg_class", own, 0), "a");
            for on in calls.expression(&check.condition, relation.columns()) {
                depends(of, ("pg_proc", on, 0), "n");
            }
        }
        if let Some(query) = query(relation) {
            let rule = ("pg_rewrite", part_oid(own, 0), 0);
            depends(rule, ("pg_class", own, 0), "i");
            for read in reads(binder, query) {
                depends(rule, ("pg_class", read, 0), "n");
            }
            for on in calls.query(query) {
                depends(rule, ("pg_proc", on, 0), "n");
            }
        }
    }
    of_indexes(binder, &calls, &mut depends);
    for Shown {
        table,
        key,
        referenced,
        columns,
    } in foreign_keys::all(binder)
    {
        let own = ("pg_constraint", key.oid, 0);
        for at in &key.columns {
            depends(own, ("pg_class", table.oid(), at + 1), "a");
        }
        for at in columns {
            depends(own, ("pg_class", referenced.oid(), at + 1), "n");
        }
        depends(own, ("pg_class", key.index, 0), "n");
    }
    out
}

/// Indexes go with their columns; one of a constraint with that, which has the columns then; what is part of another index
/// with it and its table.
fn of_indexes(binder: &Binder, calls: &Calls<'_>, depends: &mut impl FnMut(Address, Address, &'static str)) {
    let mut constraints = BTreeMap::new();
    for index in ShownIndex::constraints(binder) {
        constraints.insert(index.oid, index.constraint_oid());
    }
    for index in ShownIndex::all(binder) {
        let relation = index.relation.oid();
        let own = ("pg_class", index.oid, 0);
        let parent = index.parent();
        let of_columns = match constraints.get(&index.oid) {
            Some(constraint) => {
                depends(own, ("pg_constraint", *constraint, 0), "i");
                ("pg_constraint", *constraint, 0)
            }
            None => own,
        };
        let mut columns: BTreeSet<usize> = index.positions().into_iter().map(|at| at as usize).collect();
        columns.remove(&0);
        // One without a column among its keys is the table's by itself.
        if columns.is_empty() {
            columns.insert(0);
        }
        let texts = index.texts();
        for text in &texts {
            columns.extend(named_columns(index.relation, text).iter().map(|at| at + 1));
        }
        for at in columns {
            depends(of_columns, ("pg_class", relation, at), "a");
        }
        for text in texts {
            for on in calls.expression(text, index.relation.columns()) {
                depends(own, ("pg_proc", on, 0), "n");
            }
        }
        if let Some(parent) = parent {
            depends(own, ("pg_class", parent, 0), "P");
            depends(own, ("pg_class", relation, 0), "S");
            if let (Some(constraint), Some(above)) = (constraints.get(&index.oid), constraints.get(&parent)) {
                let own = ("pg_constraint", *constraint, 0);
                depends(own, ("pg_constraint", *above, 0), "P");
                depends(own, ("pg_class", relation, 0), "S");
            }
        }
    }
}

/// The functions in SQL that texts call.
struct Calls<'a> {
    binder: &'a Binder,
    /// What functions are called: a text with none of these words in it need not be planned.
    names: BTreeSet<&'a str>,
}

impl<'a> Calls<'a> {
    fn of(binder: &'a Binder) -> Self {
        let names = binder.snapshot.objects().values().filter_map(|object| match object {
            Object::Function(of) => Some(of.name.as_str()),
            _ => None,
        });
        Calls {
            binder,
            names: names.collect(),
        }
    }

    /// Those of a text that can be planned.
    fn found(&self, text: &str, calls: impl FnOnce() -> Option<Vec<u32>>) -> BTreeSet<u32> {
        let may_call = self.names.iter().any(|name| text.contains(name));
        let found = may_call.then(calls).flatten();
        found.into_iter().flatten().collect()
    }

    fn query(&self, text: &str) -> BTreeSet<u32> {
        self.found(text, || self.binder.calls_of_query(parse_query(text).ok()??).ok())
    }

    fn expression(&self, text: &str, columns: &Schema) -> BTreeSet<u32> {
        self.found(text, || {
            self.binder
                .calls_of_expression(parse_expression(text).ok()?, columns)
                .ok()
        })
    }

    fn condition(&self, text: &str, of: &Domain) -> BTreeSet<u32> {
        self.found(text, || {
            self.binder.calls_of_condition(parse_expression(text).ok()?, of).ok()
        })
    }
}

/// The types that a function takes and gives, as it says them.
fn declared_by(of: &Function) -> Vec<&str> {
    let mut types: Vec<&str> = of.arguments.iter().map(|own| own.sql_type.as_str()).collect();
    types.extend(of.parameters.iter().map(|own| own.sql_type.as_str()));
    match &of.returns {
        FunctionResult::Scalar(of) | FunctionResult::Set(of) => types.push(of),
        FunctionResult::Table(columns) => types.extend(columns.iter().map(|(_, of)| of.as_str())),
    }
    types
}

/// The oid of the database's own type of a column, or of its items.
fn own_type(binder: &Binder, column: &Column<'_>) -> Option<u32> {
    if let Some((schema, name)) = column.domain {
        return types::domain_oid(binder, schema, name);
    }
    own_item(column.sql_type)
}

/// The same of a type.
fn own_item(of: SqlType) -> Option<u32> {
    let of = match of {
        SqlType::Array(of) => of.element(),
        of => of,
    };
    let is_own = match of {
        SqlType::Range(of) | SqlType::Multirange(of) => matches!(of, RangeType::User(_)),
        of => matches!(of, SqlType::Enum(_) | SqlType::Composite(_)),
    };
    is_own.then(|| of.oid())
}

/// The columns of a relation that a view uses, by name.
pub(super) fn columns_read(binder: &Binder, view: &View, relation: &Relation) -> Vec<String> {
    let Some(plan) = parse_query(&view.sql)
        .ok()
        .flatten()
        .and_then(|query| binder.view_query(query).ok())
    else {
        return Vec::new();
    };
    let named = (relation.schema_name(), relation.name());
    let fields = relation.columns().fields().iter().map(|field| field.name());
    let mut found: Vec<String> = fields
        .filter(|name| Binder::uses_column(&plan, named, name))
        .cloned()
        .collect();
    found.sort();
    found
}

/// The relations that the text of a view names.
pub(super) fn reads(binder: &Binder, query: &str) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for statement in parse(query).unwrap_or_default() {
        let Kind::Sql(tree) = &statement.kind else { continue };
        let _ = visit_relations(tree.as_ref(), |name: &ObjectName| {
            if let Ok(Some(relation)) = binder.names().existing(name) {
                found.insert(relation.oid());
            }
            ControlFlow::<()>::Continue(())
        });
    }
    found
}
