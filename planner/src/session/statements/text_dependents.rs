//! What names a type or a function that is dropped in a text that is kept: views, defaults, computed columns, conditions and
//! indexes; and the functions that take or give such a type. Without CASCADE they stand in the way, with it they go.

use super::drop::{depended_on, drop_views};
use super::{column, composite, domain, enums, function, function_bodies, index, ranges, view_texts};
use crate::catalog::bind::{Binder, Target, parsed_type};
use crate::pg::error::Result;
use crate::pg::parse::{parse_expression, parse_query};
use crate::pg::walk::Visit;
use crate::session::Session;
use datafusion::arrow::datatypes::Schema;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType, Expr, FunctionArguments, Ident, ObjectName, ObjectNamePart, Query, TableFactor, Visitor,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use tenon_storage::{
    Check, Domain, Function, FunctionResult, Generated, Object, ObjectKey, Relation, TableVersion, quote,
};

/// What is dropped.
pub(super) enum Dropped<'a> {
    /// By its schema and its name.
    Type(&'a str, &'a str),
    Function(&'a Function),
}

/// What names it.
enum Dependent {
    View(String, String),
    Default(Target, String),
    Computed(Target, String),
    Constraint(Target, String),
    Index(Target, String),
    DomainDefault(Arc<Domain>),
    DomainCondition(Arc<Domain>, String),
    Function(ObjectKey),
}

/// Drops what depends on a type or a function, or without `cascade` says that it does (2BP01). `what`: how DROP speaks of it.
pub(super) fn release(session: &mut Session, dropped: &Dropped<'_>, what: &str, cascade: bool) -> Result<()> {
    let found = all(session, dropped);
    if found.is_empty() {
        return Ok(());
    }
    let state_now = session.state();
    let told = found.iter().map(|own| match own {
        Dependent::View(schema, name) => {
            let kind = state_now.relation(schema, name).map_or("view", Relation::kind);
            format!("{kind} {name}")
        }
        Dependent::Default(place, column) => format!("default value for column {column} of table {}", place.name),
        Dependent::Computed(place, column) => format!("column {column} of table {}", place.name),
        Dependent::Constraint(place, name) => format!("constraint {name} on table {}", place.name),
        Dependent::Index(_, name) => format!("index {name}"),
        Dependent::DomainDefault(of) => format!("default value for type {}", of.name),
        Dependent::DomainCondition(of, name) => format!("constraint {name} on type {}", of.name),
        Dependent::Function(key) => function_of(key),
    });
    let told: Vec<String> = told.collect();
    if !cascade {
        return Err(depended_on(what, &told));
    }
    for (own, told) in found.into_iter().zip(told) {
        if !matches!(own, Dependent::View(..)) {
            session.cascades_to(told);
        }
        drop_one(session, own)?;
    }
    Ok(())
}

/// `function f(integer)`
pub(super) fn function_of(key: &ObjectKey) -> String {
    match key {
        ObjectKey::Function { name, arguments, .. } => format!("function {name}({})", arguments.join(",")),
        _ => String::new(),
    }
}

fn drop_one(session: &mut Session, dependent: Dependent) -> Result<()> {
    let changed = |session: &Session, of: &Domain| {
        let key = ObjectKey::Type {
            schema: of.schema_name.clone(),
            name: of.name.clone(),
        };
        match session.state().objects().get(&key) {
            Some(Object::Domain(now)) => Some((**now).clone()),
            _ => None,
        }
    };
    match dependent {
        Dependent::View(schema, name) => drop_views(session, vec![(schema, name)]),
        Dependent::Default(place, column) => {
            let transaction = session.transaction()?;
            Ok(transaction
                .lock()
                .set_default(&place.schema, &place.name, &column, None)?)
        }
        Dependent::Computed(place, column) => column::remove(session, &place, &column, true),
        Dependent::Constraint(place, name) => {
            let transaction = session.transaction()?;
            transaction.lock().drop_constraint(&place.schema, &place.name, &name)?;
            Ok(())
        }
        Dependent::Index(place, name) => {
            let quoted = [&place.schema, &name].map(|part| Ident::with_quote('"', part));
            index::drop(session, &ObjectName::from(quoted.to_vec()), true, true)
        }
        Dependent::DomainDefault(of) => match changed(session, &of) {
            Some(now) => domain::put(session, Domain { default: None, ..now }),
            None => Ok(()),
        },
        Dependent::DomainCondition(of, name) => match changed(session, &of) {
            Some(mut now) => {
                now.checks.retain(|(own, _)| *own != name);
                domain::put(session, now)
            }
            None => Ok(()),
        },
        Dependent::Function(key) => function::drop_one(session, &key, true),
    }
}

/// All objects that a schema holds beside its relations, with what depends on them.
pub(super) async fn drop_objects_of(session: &mut Session, schema: &str) -> Result<()> {
    loop {
        let state_now = session.state();
        let is_own = |key: &&ObjectKey| {
            key.schema() == Some(schema) && matches!(key, ObjectKey::Type { .. } | ObjectKey::Function { .. })
        };
        let Some(key) = state_now.objects().keys().find(is_own).cloned() else {
            return Ok(());
        };
        match (&key, state_now.objects().get(&key)) {
            (_, Some(Object::Range(of, _))) => session.cascades_to(format!("type {schema}.{}", of.name)),
            (ObjectKey::Type { name, .. }, _) => session.cascades_to(format!("type {schema}.{name}")),
            (ObjectKey::Function { name, arguments, .. }, _) => {
                session.cascades_to(format!("function {schema}.{name}({})", arguments.join(",")));
            }
            _ => (),
        }
        drop_object(session, &key, true).await?;
        // One of those that go together, such as a range and its multirange.
        if session.state().objects().contains_key(&key) {
            session.transaction()?.lock().put_object(key, None);
        }
    }
}

/// A type or a function and, with `cascade`, what depends on it.
pub(super) async fn drop_object(session: &mut Session, key: &ObjectKey, cascade: bool) -> Result<()> {
    match session.state().objects().get(key).cloned() {
        Some(Object::Domain(of)) => domain::drop_one(session, &of, cascade),
        Some(Object::Enum(of)) => enums::drop_one(session, of, cascade).await,
        Some(Object::Range(of, _)) => ranges::drop_one(session, of, false, cascade).await,
        Some(Object::Composite(of)) => composite::drop_one(session, &of, cascade).await,
        Some(Object::Function(_)) => function::drop_one(session, key, cascade),
        _ => Ok(()),
    }
}

fn all(session: &Session, dropped: &Dropped<'_>) -> Vec<Dependent> {
    let state_now = session.state();
    let mut finder = Finder {
        binder: session.binder(),
        dropped,
        is_open: false,
    };
    let mut out = Vec::new();
    for relation in state_now.relations() {
        if let Some((text, _)) = view_texts::text(relation)
            && let Ok(Some(query)) = parse_query(text)
            && finder.is_in_query(query)
        {
            let (schema, name) = (relation.schema_name().to_string(), relation.name().to_string());
            out.push(Dependent::View(schema, name));
            continue;
        }
        match relation {
            Relation::Table(table) => of_table(table, &mut finder, &mut out),
            Relation::Partition(partition) => {
                let place = Target {
                    schema: partition.schema_name.clone(),
                    name: partition.name.clone(),
                };
                let columns = relation.columns();
                constraints(&partition.checks, &place, columns, &mut finder, &mut out);
                // Those that are part of others go with them.
                for index in partition.indexes.iter().filter(|index| index.parent.is_none()) {
                    let mut texts = index.declared.keys.iter().chain(&index.declared.predicate);
                    if texts.any(|text| finder.is_in(text, columns)) {
                        out.push(Dependent::Index(place.clone(), index.declared.name.clone()));
                    }
                }
            }
            Relation::View(_) | Relation::Sequence(_) => {}
        }
    }
    for (key, object) in state_now.objects() {
        match object {
            Object::Domain(of) => {
                let none = Schema::empty();
                if of.default.as_deref().is_some_and(|text| finder.is_in(text, &none)) {
                    out.push(Dependent::DomainDefault(of.clone()));
                }
                let checks = of.checks.iter();
                let checks = checks.filter(|(_, condition)| finder.is_in_condition(condition, of));
                let checks: Vec<String> = checks.map(|(name, _)| name.clone()).collect();
                out.extend(
                    checks
                        .into_iter()
                        .map(|name| Dependent::DomainCondition(of.clone(), name)),
                );
            }
            Object::Function(of) if finder.is_declared(of) || finder.is_in_body(of) => {
                out.push(Dependent::Function(key.clone()));
            }
            _ => {}
        }
    }
    out
}

fn of_table(table: &Arc<TableVersion>, finder: &mut Finder<'_>, out: &mut Vec<Dependent>) {
    let definition = table.definition();
    let place = Target {
        schema: definition.schema_name.clone(),
        name: definition.name.clone(),
    };
    let own = table.schema().as_ref();
    for column in &definition.columns {
        if column.default.as_deref().is_some_and(|text| finder.is_in(text, own)) {
            let (place, name) = (place.clone(), column.name.clone());
            out.push(match column.generated {
                Some(Generated::Stored) => Dependent::Computed(place, name),
                _ => Dependent::Default(place, name),
            });
        }
    }
    constraints(&definition.checks, &place, own, finder, out);
    for index in &definition.expression_indexes {
        let mut texts = index.keys.iter().chain(&index.predicate);
        if texts.any(|text| finder.is_in(text, own)) {
            out.push(Dependent::Index(place.clone(), index.name.clone()));
        }
    }
}

fn constraints(checks: &[Check], place: &Target, columns: &Schema, finder: &mut Finder<'_>, out: &mut Vec<Dependent>) {
    for check in checks {
        if finder.is_in(&check.condition, columns) {
            out.push(Dependent::Constraint(place.clone(), check.name.clone()));
        }
    }
}

/// Ends where it meets what is dropped.
struct Finder<'a> {
    binder: Binder,
    dropped: &'a Dropped<'a>,
    /// Whether it has met a call that may be one of several functions.
    is_open: bool,
}

impl Finder<'_> {
    /// Whether a text over such columns names it.
    fn is_in(&mut self, text: &str, columns: &Schema) -> bool {
        let Ok(expr) = parse_expression(text) else { return false };
        expr.visit(self).is_break() || self.is_called(|binder| binder.calls_of_expression(expr, columns))
    }

    /// The same of a domain's condition.
    fn is_in_condition(&mut self, text: &str, of: &Domain) -> bool {
        let Ok(expr) = parse_expression(text) else { return false };
        expr.visit(self).is_break() || self.is_called(|binder| binder.calls_of_condition(expr, of))
    }

    fn is_in_query(&mut self, query: Box<Query>) -> bool {
        query.visit(self).is_break() || self.is_called(|binder| binder.calls_of_query(query))
    }

    /// The same of the bound body of another function.
    fn is_in_body(&mut self, of: &Function) -> bool {
        let is_other = !matches!(self.dropped, Dropped::Function(own) if own.oid == of.oid);
        let Some(query) = function_bodies::query(of).filter(|_| is_other) else {
            return false;
        };
        query.visit(self).is_break() || self.is_called(|binder| binder.calls_of_function(of))
    }

    /// Whether the function is one of those that a plan calls, where the text alone has not told. One that cannot be planned
    /// may call it.
    fn is_called(&mut self, calls: impl FnOnce(&Binder) -> Result<Vec<u32>>) -> bool {
        match (std::mem::take(&mut self.is_open), self.dropped) {
            (true, Dropped::Function(of)) => calls(&self.binder).map_or(true, |calls| calls.contains(&of.oid)),
            _ => false,
        }
    }

    /// Whether a function takes or gives a type that is dropped.
    fn is_declared(&self, of: &Function) -> bool {
        if matches!(self.dropped, Dropped::Function(_)) {
            return false;
        }
        let mut types: Vec<&String> = of.arguments.iter().map(|own| &own.sql_type).collect();
        types.extend(of.parameters.iter().map(|own| &own.sql_type));
        match &of.returns {
            FunctionResult::Scalar(of) | FunctionResult::Set(of) => types.push(of),
            FunctionResult::Table(columns) => types.extend(columns.iter().map(|(_, of)| of)),
        }
        types
            .into_iter()
            .any(|declared| parsed_type(declared).is_ok_and(|of| self.is_type(&of)))
    }

    fn is_type(&self, of: &DataType) -> bool {
        let Dropped::Type(schema, name) = self.dropped else {
            return false;
        };
        match of {
            DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) => self.is_type(item),
            DataType::Custom(..) => {
                let full = format!("{}.{}", quote::name(schema), quote::name(name));
                parsed_type(&self.binder.declared_in_full(of)).ok() == parsed_type(&full).ok()
            }
            _ => false,
        }
    }

    /// Whether a call is one of the function.
    fn is_call(&mut self, name: &ObjectName, given: usize) -> bool {
        let Dropped::Function(of) = self.dropped else {
            return false;
        };
        let Some(last) = name.0.last().and_then(ObjectNamePart::as_ident) else {
            return false;
        };
        if crate::catalog::bind::fold(last) != of.name {
            return false;
        }
        let mut fitting = self.binder.functions_named(name);
        fitting.retain(|own| own.takes(given));
        let is_one = fitting.iter().any(|own| own.oid == of.oid);
        self.is_open |= is_one && fitting.len() > 1;
        is_one && fitting.len() == 1
    }
}

fn found(is: bool) -> ControlFlow<()> {
    match is {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

impl Visitor for Finder<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        found(match expr {
            Expr::Cast { data_type, .. } => self.is_type(data_type),
            Expr::TypedString(typed) => self.is_type(&typed.data_type),
            Expr::Function(call) => {
                let given = match &call.args {
                    FunctionArguments::List(list) => list.args.len(),
                    _ => 0,
                };
                self.is_call(&call.name, given)
            }
            _ => false,
        })
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        found(match factor {
            TableFactor::Table {
                name, args: Some(args), ..
            } => self.is_call(name, args.args.len()),
            TableFactor::Function { name, args, .. } => self.is_call(name, args.len()),
            _ => false,
        })
    }
}
