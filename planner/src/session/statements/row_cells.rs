//! Rows as values of columns that have composite types, in INSERT and SET.

use crate::catalog::bind::{Binder, fold, parsed_type};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::functions::record::{FIELD, RECORD};
use crate::pg::rewrite::{any_bits, call, function_name};
use crate::pg::walk::null;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, ObjectNamePart, Value,
};
use tenon_storage::composite_type::substituted;
use tenon_storage::{ColumnDef, CompositeType, SqlType, quote};

/// A composite type, or one of arrays of it, without the lengths of its columns: what is assigned is not cut, the row's
/// writer checks them.
pub(super) fn unlimited(of: SqlType) -> SqlType {
    let other = |of: SqlType| match of {
        SqlType::Name => None,
        of if of.is_limited_string() => Some(SqlType::Text),
        of if of.is_bits() && of.unlimited() != of => Some(of.unlimited()),
        _ => None,
    };
    substituted(of, &other).unwrap_or(of)
}

fn text(value: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(value.into()).into())
}

/// The values of a row.
fn row(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Nested(inner) => row(inner),
        Expr::Tuple(values) => Some(values.clone()),
        Expr::Function(own) if function_name(own) == "row" => {
            let FunctionArguments::List(list) = &own.args else {
                return None;
            };
            let values = list.args.iter().map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            });
            values.collect()
        }
        _ => None,
    }
}

/// What a column gets: of a row, its values as the columns of a composite type have them.
pub(super) fn cell(binder: &Binder, of: SqlType, expr: Expr) -> Result<Expr> {
    let SqlType::Composite(of) = of else {
        return Ok(expr);
    };
    let values = row(&expr).filter(|values| values.len() == of.attributes().len());
    let Some(values) = values else { return Ok(expr) };
    let mut made = Vec::with_capacity(2 * values.len());
    for ((name, declared), value) in declared(binder, of)?.into_iter().zip(values) {
        made.push(text(&name));
        made.push(assigned(binder, &declared, value)?);
    }
    Ok(call(RECORD, made))
}

/// Names and types of a composite type's columns.
fn declared(binder: &Binder, of: &CompositeType) -> Result<Vec<(String, DataType)>> {
    let name = [of.schema_name(), of.name()].map(|part| quote::name(part).to_string());
    let columns = binder.columns_of_type(&parsed_type(&name.join("."))?);
    let columns = columns.unwrap_or_default().into_iter();
    columns
        .map(|(name, declared)| Ok((name, parsed_type(&declared)?)))
        .collect()
}

/// A value of a declared type.
fn assigned(binder: &Binder, declared: &DataType, value: Expr) -> Result<Expr> {
    let of = binder.sql_type(declared)?;
    let data_type = match of {
        SqlType::Composite(_) if row(&value).is_some() => return cell(binder, of, value),
        SqlType::Name => declared.clone(),
        of if of.is_limited_string() => DataType::Text,
        of if of.is_bits() => any_bits(),
        // What is of another type already is not cut to its lengths.
        SqlType::Composite(_) | SqlType::Array(_) if unlimited(of) != of => return Ok(value),
        _ => declared.clone(),
    };
    Ok(Expr::Cast {
        kind: CastKind::DoubleColon,
        expr: Box::new(value),
        data_type,
        format: None,
        array: false,
    })
}

/// `column.a.b`, the target of an assignment: which field of a column it names. None: it names a column.
pub(super) fn path(columns: &[ColumnDef], name: &ObjectName) -> Option<(String, Vec<String>)> {
    let mut parts = name.0.iter().map(ObjectNamePart::as_ident);
    let first = fold(parts.next()??);
    let rest = parts.map(|part| part.map(fold)).collect::<Option<Vec<_>>>()?;
    let is_column = columns.iter().any(|own| own.name == first);
    (!rest.is_empty() && is_column).then_some((first, rest))
}

/// `record` with another value of one of its fields.
pub(super) fn with_field(
    binder: &Binder,
    (column, of): (&str, SqlType),
    record: Expr,
    path: &[String],
    value: Expr,
) -> Result<Expr> {
    let Some((field, inner)) = path.split_first() else {
        return cell(binder, of, value);
    };
    let of = with_fields(column, of, [field])?;
    let mut made = Vec::with_capacity(2 * of.attributes().len());
    let mut value = Some(value);
    for (own, (_, declared)) in of.attributes().iter().zip(declared(binder, of)?) {
        let before = call(FIELD, vec![record.clone(), text(&own.name)]);
        made.push(text(&own.name));
        made.push(match value.take_if(|_| own.name == *field) {
            Some(value) if inner.is_empty() => assigned(binder, &declared, value)?,
            Some(value) => with_field(binder, (column, own.sql_type), before, inner, value)?,
            None => before,
        });
    }
    Ok(call(RECORD, made))
}

/// The composite type of a column that is assigned to by these fields.
fn with_fields<'a>(
    column: &str,
    of: SqlType,
    fields: impl IntoIterator<Item = &'a String>,
) -> Result<&'static CompositeType> {
    let mut fields = fields.into_iter();
    let SqlType::Composite(of) = of else {
        let field = fields.next().map(String::as_str).unwrap_or_default();
        let message = format!(
            "cannot assign to field \"{field}\" of column \"{column}\" because its type {} is not a composite type",
            of.sql_name()
        );
        return Err(SqlError::new(state::DATATYPE_MISMATCH, message));
    };
    match fields.find(|field| !of.attributes().iter().any(|own| own.name == **field)) {
        None => Ok(of),
        Some(field) => {
            let message = format!(
                "cannot assign to field \"{field}\" of column \"{column}\" because there is no such column in data type {}",
                of.name()
            );
            Err(SqlError::new(state::UNDEFINED_COLUMN, message))
        }
    }
}

/// What a field of a new row is given: a value, and values of fields of its own, which count more.
struct Given {
    name: String,
    whole: Option<Expr>,
    parts: Vec<(Vec<String>, Expr)>,
}

/// A new row with these fields and NULL for the others.
fn of_fields(binder: &Binder, (column, of): (&str, SqlType), fields: Vec<Given>) -> Result<Expr> {
    let of = with_fields(column, of, fields.iter().map(|given| &given.name))?;
    let mut fields = fields;
    let mut made = Vec::with_capacity(2 * of.attributes().len());
    for (own, (_, declared)) in of.attributes().iter().zip(declared(binder, of)?) {
        made.push(text(&own.name));
        let given = fields.iter().position(|given| given.name == own.name);
        made.push(match given.map(|at| fields.swap_remove(at)) {
            None => assigned(binder, &declared, null())?,
            Some(Given { whole: None, parts, .. }) => of_parts(binder, (column, own.sql_type), parts)?,
            Some(Given {
                whole: Some(whole),
                parts,
                ..
            }) => {
                let whole = assigned(binder, &declared, whole)?;
                let with = |record, (path, value): (Vec<String>, Expr)| {
                    with_field(binder, (column, own.sql_type), record, &path, value)
                };
                parts.into_iter().try_fold(whole, with)?
            }
        });
    }
    Ok(call(RECORD, made))
}

/// A new row with the fields that these paths lead to. Of a field that is given more than once, the last value counts.
pub(super) fn of_parts(binder: &Binder, of: (&str, SqlType), parts: Vec<(Vec<String>, Expr)>) -> Result<Expr> {
    let mut fields: Vec<Given> = Vec::new();
    for (mut path, value) in parts {
        let inner = path.split_off(1);
        let name = path.remove(0);
        let at = match fields.iter().position(|given| given.name == name) {
            Some(at) => at,
            None => {
                fields.push(Given {
                    name,
                    whole: None,
                    parts: Vec::new(),
                });
                fields.len() - 1
            }
        };
        match inner.is_empty() {
            // It makes void what came before it.
            true => (fields[at].whole, fields[at].parts) = (Some(value), Vec::new()),
            false => fields[at].parts.push((inner, value)),
        }
    }
    of_fields(binder, of, fields)
}
