//! The type of a column of VALUES that casts in it say: `('b'::char(4)), (null)`. DataFusion wants one type of all rows,
//! with its length.

use super::literals::{cast_to_numeric, is_number};
use crate::pg::walk::taken;
use datafusion::sql::sqlparser::ast::{CastKind, DataType, ExactNumberInfo, Expr, Ident, ObjectName, Value};
use tenon_storage::SqlType;

/// Gives all rows of a column one type, and tells whether there was something to do.
pub(super) fn typed_by_casts(column: &mut [&mut Expr]) -> bool {
    let casts: Vec<&DataType> = column.iter().filter_map(|expr| cast_type(expr)).collect();
    let Some(first) = casts.first().map(|first| (*first).clone()) else {
        return false;
    };
    let same = column
        .iter()
        .all(|expr| is_null(expr) || cast_type(expr) == Some(&first));
    if is_decimal(&first) {
        let numbers = |expr: &&mut Expr| is_null(expr) || is_number(expr) || cast_type(expr).is_some_and(is_decimal);
        if same || !column.iter().all(numbers) {
            return false;
        }
        for expr in column.iter_mut().filter(|expr| !is_null(expr)) {
            match is_number(expr) {
                true => cast_to_numeric(expr, SqlType::Numeric),
                false => cast(expr, DataType::Decimal(ExactNumberInfo::None)),
            }
        }
        return true;
    }
    if casts.iter().all(|of| is_network(of)) {
        let fits = |expr: &&mut Expr| is_null(expr) || is_text(expr) || cast_type(expr).is_some();
        if same || !column.iter().all(fits) {
            return false;
        }
        // A network beside addresses is one.
        let of = casts.iter().find(|of| of.to_string().eq_ignore_ascii_case("inet"));
        let of = of.map_or(first, |of| (*of).clone());
        for expr in column.iter_mut().filter(|expr| cast_type(expr) != Some(&of)) {
            cast(expr, of.clone());
        }
        return true;
    }
    if is_of_catalog(&first) && casts.iter().all(|of| **of == first) {
        // DataFusion tells these from what they are kept as by the field alone.
        let fits = |expr: &&mut Expr| is_null(expr) || is_text(expr) || is_number(expr) || cast_type(expr).is_some();
        if casts.len() == column.len() || !column.iter().all(fits) {
            return false;
        }
        for expr in column.iter_mut().filter(|expr| cast_type(expr).is_none()) {
            cast(expr, first.clone());
        }
        return true;
    }
    if casts.iter().all(|of| is_bits(of)) {
        for expr in column.iter_mut().filter(|expr| !same && !is_null(expr)) {
            cast(expr, any_bits());
        }
        return !same;
    }
    if !casts.iter().all(|of| is_string(of)) || casts.iter().all(|of| matches!(of, DataType::Text)) {
        return false;
    }
    // Without its length, where not all have it.
    let of = match first {
        first if same => first,
        DataType::Char(_) | DataType::Character(_) => any_blanks(),
        of if of == any_blanks() => of,
        DataType::Text => DataType::Text,
        _ => DataType::Varchar(None),
    };
    for expr in column.iter_mut().filter(|expr| !same || is_null(expr)) {
        cast(expr, of.clone());
    }
    true
}

pub(super) fn cast(expr: &mut Expr, data_type: DataType) {
    let inner = taken(expr);
    *expr = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(inner),
        data_type,
        array: false,
        format: None,
    };
}

fn cast_type(expr: &Expr) -> Option<&DataType> {
    match expr {
        Expr::Cast {
            data_type,
            array: false,
            ..
        } => Some(data_type),
        Expr::Nested(inner) => cast_type(inner),
        _ => None,
    }
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if value.value == Value::Null)
}

fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
}

fn is_network(of: &DataType) -> bool {
    let named = |name: &str| ["inet", "cidr"].iter().any(|own| name.eq_ignore_ascii_case(own));
    matches!(of, DataType::Custom(name, arguments) if arguments.is_empty() && named(&name.to_string()))
}

/// Types of the catalog's columns.
fn is_of_catalog(of: &DataType) -> bool {
    let named = |name: &str| {
        ["oid", "name", "\"char\""]
            .iter()
            .any(|own| name.eq_ignore_ascii_case(own))
    };
    matches!(of, DataType::Custom(name, arguments) if arguments.is_empty() && named(&name.to_string()))
}

fn is_string(of: &DataType) -> bool {
    matches!(
        of,
        DataType::Char(_)
            | DataType::Character(_)
            | DataType::CharVarying(_)
            | DataType::CharacterVarying(_)
            | DataType::Varchar(_)
            | DataType::Text
    ) || *of == any_blanks()
}

/// `bpchar` of any length.
fn any_blanks() -> DataType {
    DataType::Custom(ObjectName::from(vec![Ident::new("bpchar")]), vec![])
}

/// `bit` of any length.
pub(crate) fn any_bits() -> DataType {
    DataType::Custom(ObjectName::from(vec![Ident::with_quote('"', "bit")]), vec![])
}

fn is_bits(of: &DataType) -> bool {
    matches!(of, DataType::Bit(_) | DataType::BitVarying(_) | DataType::VarBit(_)) || *of == any_bits()
}

pub(super) fn is_decimal(of: &DataType) -> bool {
    matches!(of, DataType::Numeric(_) | DataType::Decimal(_))
}
