//! The type that a column of a set operation or of VALUES has: the one place that decides it, by PostgreSQL's rules. A set
//! operation's two sides are asked together, the rows of VALUES all at once; what is of another type is converted by an
//! explicit cast while names are bound, so that what stands above sees the type that there will be.

use super::becoming::{become_of, becomes};
use super::neighbours::{common_type, unmatched};
use super::strings::is_blank;
use super::{Group, group, is_unknown, known_of, typed};
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::functions::text;
use crate::pg::numeric::convert::to_numeric;
use crate::pg::semantics::blanks;
use crate::pg::types::type_oid;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, lit};
use std::sync::Arc;
use tenon_storage::{ArrayType, SqlType};

/// The name of the fields of casts to such types: by a cast to one without a name, DataFusion keeps what was said of the value.
const COMMON: &str = "common";

/// How errors call what is no set operation.
pub(crate) const VALUES: &str = "VALUES";

/// What one of those that get a type together has.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    /// A NULL without a type, or a parameter.
    Null,
    /// A string without a type.
    Literal,
    /// A type with its length.
    Type(SqlType),
    /// A type that tables cannot have.
    Other(FieldRef),
}

/// The type that they have together.
#[derive(Clone, Debug)]
pub(crate) enum Common {
    Type(SqlType),
    Other(FieldRef),
}

impl Common {
    /// A column of that type.
    pub(crate) fn field(&self, name: &str) -> FieldRef {
        match self {
            Common::Type(of) => Arc::new(of.field(name, true)),
            Common::Other(field) => Arc::new(field.as_ref().clone().with_name(name).with_nullable(true)),
        }
    }
}

/// What an expression gives, whose field this is.
pub(crate) fn given(expr: Option<&Expr>, field: &FieldRef) -> Given {
    match expr {
        Some(Expr::Placeholder(open)) if open.field.is_none() => return Given::Null,
        Some(Expr::Literal(ScalarValue::Null, None)) => return Given::Null,
        Some(literal) if is_unknown(literal) => return Given::Literal,
        _ => {}
    }
    if type_oid(field).is_some() || matches!(field.data_type(), DataType::UInt32 | DataType::LargeList(_)) {
        return Given::Other(field.clone());
    }
    match field.data_type() {
        DataType::Null => Given::Type(SqlType::Text),
        DataType::UInt64 => Given::Type(SqlType::Int8),
        _ => match SqlType::from_field(field) {
            Some(SqlType::Composite(_)) | None => Given::Other(field.clone()),
            Some(own) => Given::Type(own),
        },
    }
}

/// The common type of all, in their order; None: there is nothing to convert, or none that is known here. 42804 where they have
/// none, for `place`.
pub(crate) fn common(all: &[Given], place: &str) -> Result<Option<Common>> {
    let mut found: Option<SqlType> = None;
    let mut other: Option<&FieldRef> = None;
    // Lengths stay where all have the same.
    let mut alike = true;
    for own in all {
        match own {
            Given::Null | Given::Literal => alike = false,
            Given::Type(own) => {
                found = Some(match found {
                    None => *own,
                    Some(earlier) if earlier == *own => earlier,
                    Some(earlier) => {
                        alike = false;
                        match of_two(earlier, *own) {
                            Some(together) => together.map_err(|()| unmatched(place, earlier, *own))?,
                            None => return Ok(None),
                        }
                    }
                });
            }
            Given::Other(own) => match other {
                Some(earlier) if !is_same(earlier, own) => return Ok(None),
                _ => other = Some(own),
            },
        }
    }
    let whole = |of: &SqlType| matches!(of, SqlType::Int2 | SqlType::Int4 | SqlType::Int8);
    if let Some(of) = other {
        // Integers beside oids are such; a record has no literal here.
        let takes = match found {
            None => *of.data_type() != DataType::Null && !of.data_type().is_nested(),
            // What a query gives as a relation's name is a text here.
            Some(beside) if *of.data_type() == DataType::UInt32 && beside.is_string() && place != VALUES => {
                return Ok(None);
            }
            Some(beside) if *of.data_type() == DataType::UInt32 => {
                let number = all.iter().all(|own| !matches!(own, Given::Type(own) if !whole(own)));
                if !number {
                    return Err(no_oid(place, beside));
                }
                true
            }
            Some(_) => false,
        };
        return Ok((takes && !(alike && found.is_none())).then(|| Common::Other(of.clone())));
    }
    let Some(found) = found else {
        // NULLs alone are texts.
        return Ok(None);
    };
    if alike {
        return Ok(None);
    }
    let literal = all.iter().any(|own| matches!(own, Given::Literal));
    Ok(Some(Common::Type(match without_length(found) {
        // Each literal keeps its own digits.
        SqlType::NumericOf(..) if literal => SqlType::Numeric,
        of => of,
    })))
}

/// 42804 for what is no integer beside an oid.
fn no_oid(place: &str, beside: SqlType) -> DataFusionError {
    let message = format!("{place} types oid and {} cannot be matched", beside.base_name());
    to_datafusion(SqlError::new(state::DATATYPE_MISMATCH, message))
}

fn is_same(a: &FieldRef, b: &FieldRef) -> bool {
    a.data_type() == b.data_type() && a.metadata() == b.metadata()
}

/// Err: they have none; None: it is not known here.
fn of_two(a: SqlType, b: SqlType) -> Option<Result<SqlType, ()>> {
    if let (SqlType::Array(own), SqlType::Array(other)) = (a, b) {
        let (item, wanted) = (own.element(), other.element());
        let same = item.oid() == wanted.oid() && own.dimensions() == other.dimensions();
        return match same {
            true => Some(Ok(without_length(a))),
            false => None,
        };
    }
    if let (SqlType::Array(_), _) | (_, SqlType::Array(_)) = (a, b) {
        return Some(Err(()));
    }
    let (a, b) = (a.unlimited(), b.unlimited());
    if let (SqlType::NumericOf(wide, scale), SqlType::NumericOf(other, own)) = (a, b) {
        return Some(Ok(match scale == own {
            true => SqlType::NumericOf(wide.max(other), scale),
            false => SqlType::Numeric,
        }));
    }
    // Each becomes the other: so it is the first.
    if let (SqlType::Bit, SqlType::VarBit) = (a, b) {
        return Some(Ok(a));
    }
    if let (SqlType::Enum(own), SqlType::Enum(other)) = (a, b) {
        return match own.oid == other.oid {
            true => None,
            false => Some(Err(())),
        };
    }
    Some(match common_type(a, b) {
        // One whose digits differ from value to value.
        Some(SqlType::NumericOf(..) | SqlType::NumericWide(..)) => Ok(SqlType::Numeric),
        Some(of) => Ok(of),
        None => Err(()),
    })
}

/// The type where a length, or digits, are not the same everywhere.
fn without_length(of: SqlType) -> SqlType {
    match of.unlimited() {
        SqlType::VarcharOf(_) => SqlType::Varchar,
        SqlType::CharOf(_) => SqlType::Bpchar,
        SqlType::NumericWide(..) => SqlType::Numeric,
        SqlType::Array(items) => match items.element() {
            // Their digits are the type's that carries them.
            SqlType::NumericOf(..) => of,
            item => SqlType::Array(ArrayType::of_items(without_length(item)).with_dimensions(items.dimensions())),
        },
        other => other,
    }
}

/// The expression as a value of the common type.
pub(crate) fn converted(expr: Expr, own: &Given, to: &Common) -> Result<Expr> {
    let field = to.field(COMMON);
    Ok(match (own, to) {
        (Given::Null, _) => match expr {
            Expr::Placeholder(mut open) => {
                open.field = Some(field);
                Expr::Placeholder(open)
            }
            // A cast would say that the column was declared.
            _ if field.data_type().is_decimal() || matches!(to, Common::Type(SqlType::Enum(_))) => {
                lit(ScalarValue::try_from(field.data_type())?)
            }
            null => cast(null, field),
        },
        (Given::Literal, Common::Type(SqlType::Enum(of))) => typed(expr, SqlType::Enum(of)),
        (Given::Literal, _) => cast(expr, field),
        (Given::Type(own), Common::Type(to)) => of_type(expr, *own, *to)?,
        (Given::Other(_), Common::Other(_)) => expr,
        (_, Common::Other(_)) => cast(expr, field),
        (Given::Other(_), Common::Type(_)) => expr,
    })
}

fn of_type(expr: Expr, own: SqlType, to: SqlType) -> Result<Expr> {
    if own == to {
        return Ok(expr);
    }
    Ok(match (own, to) {
        (_, SqlType::Numeric) if group(own) == group(to) => to_numeric(expr, &own.data_type())?,
        (SqlType::CharOf(_), to) if !is_blank(to) => as_type(text::unpadded().call(vec![expr]), to),
        (SqlType::Bpchar, to) if !is_blank(to) => as_type(blanks::bare(expr), to),
        _ if becomes(own.unlimited(), to) => become_of(expr, own.unlimited(), to),
        _ => as_type(expr, to),
    })
}

fn as_type(expr: Expr, of: SqlType) -> Expr {
    cast(expr, Arc::new(of.field(COMMON, true)))
}

fn cast(expr: Expr, field: FieldRef) -> Expr {
    Expr::Cast(Cast::new_from_field(Box::new(expr), field))
}

/// The type that numbers have together where they are not all of one; NULLs are of any. None: some are no numbers.
pub(crate) fn of_numbers(fields: &[FieldRef]) -> Option<SqlType> {
    let mut found: Option<SqlType> = None;
    let mut alike = true;
    for field in fields.iter().filter(|field| !field.data_type().is_null()) {
        let own = known_of(field).filter(|own| group(*own) == Group::Number)?;
        found = match found {
            None => Some(own),
            Some(earlier) if earlier == own => found,
            Some(earlier) => {
                alike = false;
                of_two(earlier, own)?.ok()
            }
        };
    }
    found.filter(|_| !alike)
}
