//! The types of `$1`, `$2`, ...: declared by the client, said by a cast, inferred by the planner, else text.

mod beside;
mod hints;

use hints::placeholder;
pub(super) use hints::{Hints, hints};

use crate::catalog::bind::{Binder, parsed_type};
use crate::pg::error::{Result, SqlError};
use crate::pg::errors::from_datafusion;
use crate::pg::functions::constant::is_void;
use crate::pg::semantics::resolve::open::{self, of_parameter};
use crate::pg::types::{pg_type, planner::PgTypePlanner, type_for_oid};
use crate::pg::walk::VisitMut;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{self, Expr, Value, VisitorMut};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use tenon_storage::types::OIDS_OF_OBJECTS;
use tenon_storage::{SqlType, TableDefinition};

/// Most parameters that a statement has.
const PARAMETERS_MAX: usize = 65_535;

/// Plans a statement and finds the type of each of its parameters.
pub(super) fn plan(binder: &Binder, mut tree: ast::Statement, types: &[u32]) -> Result<(LogicalPlan, Vec<FieldRef>)> {
    if !binder.facts.dimensions.is_empty() {
        let _ = VisitMut::visit(&mut tree, &mut Deepened(&binder.facts.dimensions));
    }
    let hints = hints(&tree)?;
    typed(binder, &hints, types, |known| binder.plan(tree.clone(), known))
}

/// The same of what is planned with types for some parameters.
pub(super) fn typed(
    binder: &Binder,
    hints: &Hints,
    types: &[u32],
    plan: impl Fn(Vec<Option<FieldRef>>) -> Result<LogicalPlan>,
) -> Result<(LogicalPlan, Vec<FieldRef>)> {
    let count = hints.count.max(types.len());
    if count == 0 {
        return Ok((plan(Vec::new())?, Vec::new()));
    }
    let plan = |known| open::planning(|| plan(known));
    let mut known = declared(binder, types, count)?;
    for (field, dimensions) in known.iter_mut().zip(binder.facts.dimensions.iter()) {
        if let Some(own) = field {
            *field = Some(with_dimensions(own, *dimensions));
        }
    }
    for (at, field) in &hints.certain {
        known[*at].get_or_insert_with(|| field.clone());
    }
    for (at, declared) in &hints.casts {
        if let (None, Ok(of)) = (&known[*at], binder.field_of_type(declared)) {
            known[*at] = Some(Arc::new(of));
        }
    }
    let text = || Arc::new(Field::new("", DataType::Utf8View, true));
    let (first, called) = plan(known.clone());
    let called = called.into_iter().filter_map(|(id, field)| Some((index(&id)?, field)));
    let called: Vec<_> = called.filter(|(at, _)| *at < count && known[*at].is_none()).collect();
    let plan = |known| plan(known).0;
    let first = match called.is_empty() {
        true => first,
        false => {
            for (at, field) in called {
                known[at] = Some(field);
            }
            plan(known.clone())
        }
    };
    let first = match first {
        Err(error) if error.message.contains("laceholder") => {
            for at in &hints.free {
                known[*at].get_or_insert_with(text);
            }
            match plan(known.clone()) {
                Err(error) if error.message.contains("laceholder") => {
                    known.iter_mut().for_each(|field| {
                        field.get_or_insert_with(text);
                    });
                    plan(known.clone())?
                }
                other => other?,
            }
        }
        other => other?,
    };
    let mut arrays = false;
    for (at, field) in beside::types(&first)? {
        let open = matches!(types.get(at).copied().unwrap_or(0), 0 | 705) && !hints.certain.contains_key(&at);
        if open && at < count {
            known[at] = Some(field);
            arrays = true;
        }
    }
    let first = match arrays {
        true => plan(known.clone())?,
        false => first,
    };
    let inferred = first.get_parameter_fields().map_err(|error| from_datafusion(&error))?;
    let mut limited = false;
    for (id, field) in inferred {
        if let (Some(at), Some(field)) = (index(&id), field)
            && at < count
            && *field.data_type() != DataType::Null
            && known[at].is_none()
        {
            // A value keeps its digits beside a column that has fewer.
            let unlimited = match SqlType::from_field(&field) {
                Some(of @ SqlType::NumericOf(..)) => Some(Arc::new(of_parameter(of).field("", true))),
                // Beside what says nothing it is text, which that is kept as.
                _ => is_void(&field).then(text),
            };
            limited |= unlimited.is_some();
            known[at] = Some(unlimited.unwrap_or(field));
        }
    }
    if !limited && known.iter().all(Option::is_some) {
        return Ok((first, known.into_iter().flatten().collect()));
    }
    known.iter_mut().for_each(|field| {
        field.get_or_insert_with(text);
    });
    Ok((plan(known.clone())?, known.into_iter().flatten().collect()))
}

/// Casts of parameters to array types, which say as many dimensions as the parameters have: to PostgreSQL it is one type.
struct Deepened<'a>(&'a [usize]);

impl VisitorMut for Deepened<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Cast {
            expr: inner, data_type, ..
        } = expr
            && let Expr::Value(value) = inner.as_ref()
            && let Value::Placeholder(id) = &value.value
            && let Some(dimensions) = index(id).and_then(|at| self.0.get(at))
        {
            if let Some(item) = item_of_array(data_type) {
                *data_type = ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(Box::new(item), None));
            }
            let mut declared = 0;
            let mut of = &*data_type;
            while let ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(item, _)) = of {
                (declared, of) = (declared + 1, item);
            }
            if declared > 0 {
                for _ in declared..*dimensions {
                    let item = Box::new(data_type.clone());
                    *data_type = ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(item, None));
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// The type of whose arrays a name of the system, such as `pg_catalog._int4`, is.
fn item_of_array(declared: &ast::DataType) -> Option<ast::DataType> {
    let ast::DataType::Custom(name, arguments) = declared else {
        return None;
    };
    let last = name.0.last()?.as_ident()?.value.strip_prefix('_')?;
    let element = PgTypePlanner.plan_type_field(&parsed_type(last).ok()?).ok()??;
    let array = PgTypePlanner.plan_type_field(declared).ok()??;
    let is_array = matches!(array.data_type(), DataType::List(item) if item.data_type() == element.data_type());
    (is_array && arguments.is_empty())
        .then(|| parsed_type(last).ok())
        .flatten()
}

/// An array's field with so many dimensions; that of another type as it is.
fn with_dimensions(field: &FieldRef, dimensions: usize) -> FieldRef {
    let DataType::List(item) = field.data_type() else {
        return field.clone();
    };
    if dimensions < 2 {
        return field.clone();
    }
    let list = (1..dimensions).fold(item.clone(), |item, _| {
        Arc::new(Field::new("item", DataType::List(item), true))
    });
    // What it says of its type says the number of dimensions too.
    Arc::new(Field::new(field.name(), DataType::List(list), true))
}

/// The fields of declared types; None where the client left the choice.
pub(super) fn declared(binder: &Binder, types: &[u32], count: usize) -> Result<Vec<Option<FieldRef>>> {
    (0..count)
        .map(|at| match types.get(at).copied().unwrap_or(0) {
            // 705: unknown.
            0 | 705 => Ok(None),
            oid => match field_of_oid(binder, oid) {
                Some(field) => Ok(Some(Arc::new(field))),
                None => Err(SqlError::unsupported(format!("parameter type with oid {oid}"))),
            },
        })
        .collect()
}

/// The field of a type of the system or of the database.
fn field_of_oid(binder: &Binder, oid: u32) -> Option<Field> {
    // What the snapshot has of an enum comes first: others may be about to change it.
    let own = (oid >= OIDS_OF_OBJECTS).then(|| binder.enum_of_oid(oid)).flatten();
    own.or_else(|| type_for_oid(oid))
        .or_else(|| binder.composite_of_oid(oid))
}

/// The declared types of parameters, and that of its column for each that stands alone as a column's new value.
pub(super) fn of_assigned(definition: &TableDefinition, values: &[Option<Expr>], types: &[u32]) -> Vec<u32> {
    let mut types = types.to_vec();
    for (value, column) in values.iter().zip(&definition.columns) {
        let Some(at) = value.as_ref().and_then(placeholder) else {
            continue;
        };
        if at < PARAMETERS_MAX {
            types.resize(types.len().max(at + 1), 0);
            if types[at] == 0 {
                types[at] = column.sql_type.oid();
            }
        }
    }
    types
}

/// The parameters of a statement of which `own` are those of its first part, which names `named`, and `more` those of what is
/// described after it.
pub(super) fn together(own: Vec<FieldRef>, named: &BTreeSet<usize>, more: Vec<FieldRef>) -> Vec<FieldRef> {
    let count = own.len().max(more.len());
    let (mut own, mut more) = (own.into_iter(), more.into_iter());
    (0..count)
        .filter_map(|at| match (own.next(), more.next()) {
            (Some(own), _) if named.contains(&at) => Some(own),
            (own, more) => more.or(own),
        })
        .collect()
}

/// The types that are known of parameters after a part of a statement that names some: what the client declares, and theirs.
pub(super) fn known_after(fields: &[FieldRef], named: &BTreeSet<usize>, types: &[u32]) -> Vec<u32> {
    let mut known = types.to_vec();
    known.resize(known.len().max(fields.len()), 0);
    for (at, field) in fields.iter().enumerate().filter(|(at, _)| named.contains(at)) {
        known[at] = pg_type(field).oid;
    }
    known
}

/// The position of `$n`, from 0.
pub(super) fn index(placeholder: &str) -> Option<usize> {
    placeholder.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}
