//! ALTER SCHEMA ... RENAME TO: everything in the schema goes with it, and what names it by the schema goes on doing so. And what
//! names a type that gets another name or schema.

use super::stored_texts::{self, Change};
use super::{composite, domain, enums, role, row_types};
use crate::catalog::bind::{fold, parts, written};
use crate::catalog::system::split;
use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::outcome::Outcome;
use crate::pg::parse::definition::TypeChange;
use crate::pg::rewrite::relation_text;
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType, Expr, ObjectName, ObjectNamePart, Select, SelectItem, SelectItemQualifiedWildcardKind,
    TableFactor, VisitorMut,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use tenon_storage::{Composite, Function, FunctionResult, Object, ObjectKey, Relation, privilege, quote};

/// Has names that begin with a schema begin with another.
struct Names<'a> {
    from: &'a str,
    to: &'a str,
    /// Of this type alone, with what it is called afterwards.
    of_type: Option<(&'a str, &'a str)>,
    changed: bool,
}

impl Names<'_> {
    fn name(&mut self, name: &mut ObjectName) {
        if let [ObjectNamePart::Identifier(schema), _, ..] = name.0.as_mut_slice()
            && fold(schema) == self.from
            && self.of_type.is_none()
        {
            *schema = written(self.to);
            self.changed = true;
        }
    }

    fn data_type(&mut self, of: &mut DataType) {
        match of {
            DataType::Custom(name, _) => match self.of_type {
                Some((from, to)) => {
                    if let [schema, own] = parts(name).as_slice()
                        && schema == self.from
                        && own == from
                    {
                        *name = ObjectName::from(vec![written(self.to), written(to)]);
                        self.changed = true;
                    }
                }
                None => self.name(name),
            },
            DataType::Array(
                ArrayElemTypeDef::SquareBracket(item, _)
                | ArrayElemTypeDef::AngleBracket(item)
                | ArrayElemTypeDef::Parenthesis(item),
            ) => self.data_type(item),
            _ => {}
        }
    }

    /// The text of a relation's name.
    fn text(&mut self, text: &mut String) {
        if let [schema, name] = split(text).as_slice()
            && schema == self.from
            && self.of_type.is_none()
        {
            *text = format!("{}.{}", quote::identifier(self.to), quote::identifier(name));
            self.changed = true;
        }
    }
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        self.name(relation);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Function { name, .. } = factor {
            self.name(name);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item {
                self.name(name);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(text) = relation_text(expr) {
            self.text(text);
        }
        match expr {
            Expr::CompoundIdentifier(parts)
                if parts.len() > 2 && fold(&parts[0]) == self.from && self.of_type.is_none() =>
            {
                parts[0] = written(self.to);
                self.changed = true;
            }
            Expr::Cast { data_type, .. } => self.data_type(data_type),
            Expr::TypedString(typed) => self.data_type(&mut typed.data_type),
            Expr::Function(call) => self.name(&mut call.name),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl Change for Names<'_> {
    fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}

pub(super) async fn rename(session: &mut Session, from: &str, to: &str) -> Result<Outcome> {
    session.check_writable("ALTER SCHEMA")?;
    let state_now = session.state();
    if ["pg_catalog", "information_schema"].contains(&from) {
        return Err(SqlError::unsupported("another name for a schema of the system"));
    }
    let Some(schema) = state_now.schema(from) else {
        let message = format!("schema \"{from}\" does not exist");
        return Err(SqlError::new(state::INVALID_SCHEMA_NAME, message));
    };
    if state_now.schema(to).is_some() || ["pg_catalog", "information_schema"].contains(&to) {
        let message = format!("schema \"{to}\" already exists");
        return Err(SqlError::new(state::DUPLICATE_SCHEMA, message));
    }
    let asked = role::rights(session, &state_now);
    asked.check_owner_of(schema.oid, "schema", from)?;
    asked.check_database(&session.info.database, privilege::CREATE)?;
    if to.starts_with("pg_") {
        let message = format!("unacceptable schema name \"{to}\"");
        return Err(
            SqlError::new(SqlState("42939"), message).detail("The prefix \"pg_\" is reserved for system schemas.")
        );
    }
    session.transaction()?.lock().copy_schema(from, to)?;
    // Names are changed before what they stand for moves: what looks for uses by name finds none left.
    let mut names = Names {
        from,
        to,
        of_type: None,
        changed: false,
    };
    stored_texts::change_all(session, &mut names)?;
    functions(session, &mut names)?;
    attributes(session, &mut names)?;
    types(session, from, to).await?;
    relations(session, from, to).await?;
    session.transaction()?.lock().forget_schema(from)?;
    Ok(Outcome::Command("ALTER SCHEMA".into()))
}

/// A type that is about to be renamed or moved, by its schemas and its names.
pub(super) fn moves_type(session: &Session, from: (&str, &str), to: (&str, &str)) -> Result<()> {
    let mut names = Names {
        from: from.0,
        to: to.0,
        of_type: Some((from.1, to.1)),
        changed: false,
    };
    stored_texts::change_all(session, &mut names)?;
    functions(session, &mut names)?;
    attributes(session, &mut names)
}

/// The same of the type of a relation's rows.
pub(super) fn moves_rows(session: &Session, relation: &Relation, to: (&str, &str)) -> Result<()> {
    match relation {
        Relation::Table(_) | Relation::View(_) => moves_type(session, (relation.schema_name(), relation.name()), to),
        Relation::Partition(_) | Relation::Sequence(_) => Ok(()),
    }
}

/// A declared type.
fn declared(of: &mut String, names: &mut Names<'_>) {
    if let Ok(mut parsed) = crate::catalog::bind::parsed_type(of) {
        names.data_type(&mut parsed);
        if names.has_changed() {
            *of = parsed.to_string();
        }
    }
}

/// Moves functions, and has others say where the types of their arguments are. Their bodies stay as they were written.
fn functions(session: &Session, names: &mut Names<'_>) -> Result<()> {
    let state_now = session.state();
    for (key, object) in state_now.objects() {
        let (
            ObjectKey::Function {
                schema,
                name,
                arguments,
            },
            Object::Function(before),
        ) = (key, object)
        else {
            continue;
        };
        let mut next = Function::clone(before);
        let mut types: Vec<&mut String> = next.arguments.iter_mut().map(|own| &mut own.sql_type).collect();
        types.extend(next.parameters.iter_mut().map(|own| &mut own.sql_type));
        match &mut next.returns {
            FunctionResult::Scalar(of) | FunctionResult::Set(of) => types.push(of),
            FunctionResult::Table(columns) => types.extend(columns.iter_mut().map(|(_, of)| of)),
        }
        types.into_iter().for_each(|of| declared(of, names));
        let mut arguments = arguments.clone();
        arguments.iter_mut().for_each(|of| declared(of, names));
        if schema == names.from && names.of_type.is_none() {
            next.schema_name = names.to.to_string();
        }
        let new_key = ObjectKey::Function {
            schema: next.schema_name.clone(),
            name: name.clone(),
            arguments,
        };
        let transaction = session.transaction()?;
        let mut transaction = transaction.lock();
        if new_key != *key {
            transaction.put_object(key.clone(), None);
        }
        transaction.put_object(new_key, Some(Object::Function(Arc::new(next))));
    }
    Ok(())
}

/// Has composite types say where the types of their columns are.
fn attributes(session: &Session, names: &mut Names<'_>) -> Result<()> {
    let state_now = session.state();
    for (key, object) in state_now.objects() {
        let Object::Composite(before) = object else { continue };
        let mut next = Composite::clone(before);
        next.columns.iter_mut().for_each(|(_, of)| declared(of, names));
        if next.columns != before.columns {
            let object = Object::Composite(Arc::new(next));
            session.transaction()?.lock().put_object(key.clone(), Some(object));
        }
    }
    Ok(())
}

/// The names of the types in a schema that a type is made of.
fn parts_in(object: &Object, schema: &str) -> Vec<String> {
    let declared: Vec<&String> = match object {
        Object::Composite(of) => of.columns.iter().map(|(_, declared)| declared).collect(),
        Object::Domain(of) => vec![&of.declared],
        _ => Vec::new(),
    };
    let named = declared.into_iter().filter_map(|declared| {
        let mut of = crate::catalog::bind::parsed_type(declared).ok()?;
        while let DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) = of {
            of = *item;
        }
        match of {
            DataType::Custom(name, _) => match parts(&name).as_slice() {
                [own, name] if own == schema => Some(name.clone()),
                _ => None,
            },
            _ => None,
        }
    });
    named.collect()
}

async fn types(session: &mut Session, from: &str, to: &str) -> Result<()> {
    let change = TypeChange::SetSchema(to.to_string());
    let state_now = session.state();
    let is_there = |key: &ObjectKey| matches!(key, ObjectKey::Type { schema, .. } if schema == from);
    let mut keys: Vec<ObjectKey> = state_now
        .objects()
        .keys()
        .filter(|key| is_there(key))
        .cloned()
        .collect();
    while !keys.is_empty() {
        // What others are made of goes before them.
        let is_ready = |key: &ObjectKey| {
            let made_of = session
                .state()
                .objects()
                .get(key)
                .map_or_else(Vec::new, |own| parts_in(own, to));
            !keys
                .iter()
                .any(|other| other != key && matches!(other, ObjectKey::Type { name, .. } if made_of.contains(name)))
        };
        let at = keys.iter().position(is_ready).unwrap_or_default();
        let key = keys.remove(at);
        // As those before have left it.
        let object = session.state().objects().get(&key).cloned();
        match object {
            Some(Object::Domain(before)) => domain::move_to(session, &before, to)?,
            Some(Object::Range(before, multi)) => {
                let transaction = session.transaction()?;
                let mut transaction = transaction.lock();
                let name = if multi { &before.multirange_name } else { &before.name };
                let new_key = ObjectKey::Type {
                    schema: to.to_string(),
                    name: name.clone(),
                };
                transaction.put_object(key, None);
                transaction.put_object(new_key, Some(Object::Range(before.moved(to), multi)));
            }
            Some(Object::Enum(before)) => enums::move_to(session, before, to, &change).await?,
            Some(Object::Composite(before)) => {
                let mut next = Composite::clone(&before);
                next.numbers = (0..next.columns.len()).map(|at| before.number(at)).collect();
                next.schema_name = to.to_string();
                composite::put_anew(session, &before, next).await?;
            }
            _ => {}
        }
    }
    Ok(())
}

async fn relations(session: &mut Session, from: &str, to: &str) -> Result<()> {
    let state_now = session.state();
    let all = state_now.schema(from).into_iter().flat_map(|schema| schema.relations());
    let mut all: Vec<Relation> = all.cloned().collect();
    // A partition follows the table whose rows it names.
    all.sort_by_key(|relation| relation.as_partition().is_some());
    for relation in all {
        let of_rows = row_types::before(session, &relation);
        let name = relation.name();
        session.transaction()?.lock().move_relation(from, name, to, name)?;
        row_types::follow(session, of_rows).await?;
    }
    Ok(())
}
