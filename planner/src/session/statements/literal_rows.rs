//! INSERT ... VALUES of several rows of plain literals, or of many parameters: read column by column, as COPY reads its
//! fields, where a plan with an expression for each of them would take ten times as long.
//!
//! What is no plain literal or parameter, or none of its column's kind, is left to the planner, and so are literals that cannot be
//! read: it has the words for errors.

use super::insert::{assigned_type, check_assignable};
use super::parameters::{declared, index};
use crate::catalog::bind::Binder;
use crate::pg::error::Result;
use crate::pg::errors::from_arrow;
use crate::pg::types::planner::field_of;
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{self, CastKind, SetExpr, UnaryOperator, Value};
use std::borrow::Cow;
use std::sync::Arc;
use tenon_storage::datetime::Conventions;
use tenon_storage::parse::{parse_column_by, parse_scalar_by};
use tenon_storage::{ColumnDef, SqlType};

/// Fewer rows are planned: their statement may keep its plan.
const ROWS_MIN: usize = 2;

/// The rows, which have a value for each of `columns`. None: they are the planner's.
pub(super) fn read(
    binder: &Binder,
    source: &ast::Query,
    columns: &[&ColumnDef],
    (declared, params): (&[FieldRef], &[ScalarValue]),
) -> Result<Option<RecordBatch>> {
    let Some(rows) = rows(source, columns.len()) else {
        return Ok(None);
    };
    let conventions = binder.facts.settings.conventions(None);
    let mut arrays = Vec::with_capacity(columns.len());
    let mut fields: Vec<FieldRef> = Vec::with_capacity(columns.len());
    for (at, column) in columns.iter().enumerate() {
        let cells = rows.iter().map(|row| &row.content[at]);
        let given = match cells.clone().any(|cell| parameter(cell).is_some()) {
            false => literals(cells, assigned_type(column.sql_type), &conventions),
            true => mixed(cells, (declared, params), &conventions),
        };
        let Some((of, array)) = given else {
            return Ok(None);
        };
        let field = of.field(format!("column{}", at + 1), true);
        check_assignable(&field, column)?;
        fields.push(Arc::new(field));
        arrays.push(array);
    }
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
    rows.map(Some).map_err(|error| from_arrow(&error))
}

/// The rows of VALUES that nothing stands beside, all of them of this width.
fn rows(source: &ast::Query, width: usize) -> Option<&[ast::Parens<Vec<ast::Expr>>]> {
    let SetExpr::Values(values) = source.body.as_ref() else {
        return None;
    };
    let is_bare = source.with.is_none()
        && source.order_by.is_none()
        && source.limit_clause.is_none()
        && source.fetch.is_none()
        && source.locks.is_empty();
    let as_wide = values.rows.iter().all(|row| row.content.len() == width);
    (is_bare && width > 0 && as_wide && values.rows.len() >= ROWS_MIN).then_some(&values.rows)
}

fn literals<'a>(
    cells: impl Iterator<Item = &'a ast::Expr>,
    of: SqlType,
    conventions: &Conventions,
) -> Option<(SqlType, ArrayRef)> {
    let texts = cells.map(|cell| text(cell, of)).collect::<Option<Vec<_>>>()?;
    let array = parse_column_by(of, texts.iter().map(Option::as_deref), conventions).ok()?;
    Some((of, array))
}

/// Parameters that stand alone, or whose casts change nothing, in one type for all, and literals that are read as of that.
fn mixed<'a>(
    cells: impl Iterator<Item = &'a ast::Expr>,
    (declared, params): (&[FieldRef], &[ScalarValue]),
    conventions: &Conventions,
) -> Option<(SqlType, ArrayRef)> {
    let mut first = None;
    let mut all: Option<SqlType> = None;
    let mut values = Vec::new();
    let mut literals = Vec::new();
    for (row, cell) in cells.enumerate() {
        let Some((at, cast)) = parameter(cell) else {
            literals.push((row, cell));
            values.push(&ScalarValue::Null);
            continue;
        };
        let of = simple(declared.get(at)?, cast)?;
        let value = params.get(at)?;
        if !value.is_null() {
            all = Some(all.map_or(Some(of), |all| together(all, of))?);
        }
        first.get_or_insert(of);
        values.push(value);
    }
    let of = all.or(first)?;
    let wanted = of.data_type();
    let values = values.into_iter().map(|value| match value {
        null if null.is_null() => ScalarValue::try_from(&wanted).ok(),
        value if value.data_type() == wanted => Some(value.clone()),
        value => value.cast_to(&wanted).ok(),
    });
    let mut values = values.collect::<Option<Vec<_>>>()?;
    for (row, cell) in literals {
        if let Some(text) = text(cell, of)? {
            let read = parse_scalar_by(of, &text, conventions).ok()?;
            values[row] = ScalarValue::try_from_array(&read, 0).ok()?;
        }
    }
    Some((of, ScalarValue::iter_to_array(values).ok()?))
}

/// The type of a parameter's values as a cast leaves them, where it changes none.
fn simple(declared: &FieldRef, cast: Option<SqlType>) -> Option<SqlType> {
    let of = SqlType::from_field(declared).filter(|of| is_simple(*of))?;
    match cast {
        Some(cast) => together(of, cast).filter(|both| *both == cast && is_simple(cast)),
        None => Some(of),
    }
}

/// The type of which values of both are, unchanged: drivers send each integer as the narrowest that holds it.
fn together(a: SqlType, b: SqlType) -> Option<SqlType> {
    use SqlType::{Int2, Int4, Int8, Text, Varchar};
    match (a, b) {
        _ if a == b => Some(a),
        (Int8, Int2 | Int4) | (Int2 | Int4, Int8) => Some(Int8),
        (Int2, Int4) | (Int4, Int2) => Some(Int4),
        (Text, Varchar) | (Varchar, Text) => Some(b),
        _ => None,
    }
}

/// A parameter's place, and the type that it is cast to.
fn parameter(cell: &ast::Expr) -> Option<(usize, Option<SqlType>)> {
    match cell {
        ast::Expr::Value(value) => match &value.value {
            Value::Placeholder(id) => Some((index(id)?, None)),
            _ => None,
        },
        ast::Expr::Cast {
            kind: CastKind::DoubleColon | CastKind::Cast,
            expr,
            data_type,
            format: None,
            ..
        } => match parameter(expr)? {
            (at, None) => Some((at, Some(SqlType::from_field(&field_of(data_type).ok()?)?))),
            _ => None,
        },
        _ => None,
    }
}

/// Types without limits, whose values a cast to them leaves as they are.
fn is_simple(of: SqlType) -> bool {
    use SqlType::*;
    matches!(
        of,
        Bool | Int2 | Int4 | Int8 | Float4 | Float8 | Numeric | Text | Varchar | Date | Time | Timestamp | TimestampTz
    ) || matches!(of, Uuid | Json | Jsonb | Bytea | Interval)
}

/// The parameters of such rows, with literals that can be read beside them, `types` of which are declared or their columns'. None: what they are is the planner's to find.
pub(super) fn described(
    binder: &Binder,
    source: &ast::Query,
    columns: &[&ColumnDef],
    types: &[u32],
) -> Result<Option<Vec<FieldRef>>> {
    let Some(rows) = rows(source, columns.len()) else {
        return Ok(None);
    };
    let mut known = declared(binder, types, types.len())?;
    let mut seen = 0;
    let mut others: Vec<Vec<&ast::Expr>> = vec![vec![]; columns.len()];
    for row in rows {
        for ((cell, column), others) in row.content.iter().zip(columns).zip(&mut others) {
            let Some((at, cast)) = parameter(cell) else {
                others.push(cell);
                continue;
            };
            if known.len() <= at {
                known.resize(at + 1, None);
            }
            let field = match cast {
                Some(cast) => known[at].get_or_insert_with(|| Arc::new(cast.field("", true))),
                None => match &known[at] {
                    Some(field) => field,
                    None => return Ok(None),
                },
            };
            let given = simple(field, cast).map(|of| check_assignable(&of.field("", true), column));
            if !matches!(given, Some(Ok(()))) {
                return Ok(None);
            }
            seen += 1;
        }
    }
    let conventions = binder.facts.settings.conventions(None);
    let are_read = |(column, cells): (&&ColumnDef, Vec<&ast::Expr>)| {
        cells.is_empty() || literals(cells.into_iter(), assigned_type(column.sql_type), &conventions).is_some()
    };
    let all: Option<Vec<FieldRef>> = known.into_iter().collect();
    // Each of them once.
    Ok(all.filter(|all| all.len() == seen && columns.iter().zip(others).all(are_read)))
}

/// The text from which a literal's value for a column of this type can be read; of NULL, None. None instead of a text: it
/// cannot be, or the type's own reading is not all that there is to it.
fn text(cell: &ast::Expr, of: SqlType) -> Option<Option<Cow<'_, str>>> {
    use SqlType::*;
    let is_integer = matches!(of, Int2 | Int4 | Int8);
    let is_number = is_integer || matches!(of, Float4 | Float8 | Numeric | NumericOf(..) | NumericWide(..));
    let is_temporal = matches!(
        of,
        Date | Time | TimeOf(_) | Timestamp | TimestampOf(_) | TimestampTz | TimestampTzOf(_)
    );
    let number = |digits: &str| {
        let digit = |byte: u8| byte.is_ascii_digit() || byte == b'.' && !is_integer;
        is_number && digits.bytes().all(digit)
    };
    match cell {
        ast::Expr::Value(value) => match &value.value {
            Value::Null => Some(None),
            Value::Number(digits, false) if number(digits) => Some(Some(digits.as_str().into())),
            Value::Boolean(value) if of == Bool => Some(Some(if *value { "true" } else { "false" }.into())),
            Value::SingleQuotedString(text) => {
                // Others may name the present.
                let is_absolute = || text.starts_with(|first: char| first.is_ascii_digit());
                let is_read = match of {
                    Bool | Text | Uuid | Json | Jsonb => true,
                    _ if is_temporal => is_absolute(),
                    _ => is_number,
                };
                is_read.then_some(Some(text.as_str().into()))
            }
            _ => None,
        },
        ast::Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => match expr.as_ref() {
            ast::Expr::Value(value) => match &value.value {
                // As a numeric, zero has no sign.
                Value::Number(digits, false) if number(digits) => {
                    match digits.bytes().all(|byte| b"0.".contains(&byte)) {
                        true => Some(Some(digits.as_str().into())),
                        false => Some(Some(format!("-{digits}").into())),
                    }
                }
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}
