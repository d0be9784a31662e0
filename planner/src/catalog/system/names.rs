//! PostgreSQL's texts for types and keys.

use super::system_types;
use crate::pg::parse::parse_expression;
use datafusion::sql::sqlparser::ast::Expr;
use tenon_storage::datetime::IntervalRange;
use tenon_storage::{ColumnOrder, EnumType, IndexShown, SqlType, quote};

/// `pg_type.typlen`: bytes, -1 for a varying length.
pub(super) fn length(sql_type: SqlType) -> i64 {
    match sql_type.unlimited() {
        SqlType::Bool => 1,
        SqlType::Int2 => 2,
        SqlType::Int4 | SqlType::Float4 | SqlType::Date | SqlType::Enum(_) => 4,
        SqlType::Int8 | SqlType::Float8 | SqlType::Time | SqlType::Timestamp | SqlType::TimestampTz => 8,
        SqlType::MacAddr | SqlType::Tid => 6,
        SqlType::MacAddr8 => 8,
        SqlType::TimeTz => 12,
        SqlType::Interval | SqlType::Uuid => 16,
        SqlType::Name => 64,
        _ => -1,
    }
}

/// `format_type(oid, typmod)`; None for an unknown oid.
pub(super) fn format_type(oid: i64, typmod: Option<i64>) -> Option<String> {
    // A length that is asked for and is none.
    if oid == 1042 && typmod.is_some_and(|typmod| typmod < 0) {
        return Some("bpchar".into());
    }
    if oid == 1560 && typmod.is_some_and(|typmod| typmod < 0) {
        return Some("\"bit\"".into());
    }
    let typmod = typmod.filter(|typmod| *typmod >= 0);
    if let Some(of) = u32::try_from(oid).ok().and_then(EnumType::newest) {
        let array = if i64::from(of.oid) == oid { "" } else { "[]" };
        return Some(format!("{}{array}", quote::identifier(&of.name)));
    }
    let known = u32::try_from(oid).ok().and_then(system_types::by_oid);
    let element = known.map(|of| i64::from(of.element)).filter(|element| *element != 0);
    if let Some(element) = element {
        return format_type(element, typmod).map(|name| format!("{name}[]"));
    }
    let name = match oid {
        16 => "boolean",
        17 => "bytea",
        18 => "\"char\"",
        19 => "name",
        20 => "bigint",
        21 => "smallint",
        22 => "int2vector",
        23 => "integer",
        24 => "regproc",
        25 => "text",
        26 => "oid",
        27 => "tid",
        28 => "xid",
        30 => "oidvector",
        114 => "json",
        194 => "pg_node_tree",
        700 => "real",
        701 => "double precision",
        705 => "unknown",
        1042 => match typmod {
            Some(typmod) => return Some(format!("character({})", typmod - 4)),
            None => "character",
        },
        1043 => match typmod {
            Some(typmod) => return Some(format!("character varying({})", typmod - 4)),
            None => "character varying",
        },
        1082 => "date",
        1083 | 1114 | 1184 | 1266 => {
            let (of, zone) = match oid {
                1083 => ("time", "without"),
                1114 => ("timestamp", "without"),
                1184 => ("timestamp", "with"),
                _ => ("time", "with"),
            };
            let digits = typmod.map_or_else(String::new, |digits| format!("({digits})"));
            return Some(format!("{of}{digits} {zone} time zone"));
        }
        1186 => {
            let Some(typmod) = typmod else {
                return Some("interval".into());
            };
            let (bits, digits) = ((typmod >> 16) & 0x7fff, typmod & 0xffff);
            let range = IntervalRange::ALL
                .into_iter()
                .find(|range| i64::from(range.bits()) == bits);
            let digits = (digits != 0xffff).then_some(digits as u8);
            return Some(SqlType::IntervalOf(range, digits).to_string());
        }
        1560 => match typmod {
            Some(typmod) => return Some(format!("bit({typmod})")),
            None => "bit",
        },
        1562 => match typmod {
            Some(typmod) => return Some(format!("bit varying({typmod})")),
            None => "bit varying",
        },
        1700 => match typmod {
            Some(typmod) => {
                let (precision, scale) = ((typmod - 4) >> 16, (typmod - 4) & 0xffff);
                return Some(format!("numeric({precision},{scale})"));
            }
            None => "numeric",
        },
        2205 => "regclass",
        2206 => "regtype",
        2249 => "record",
        2276 => "\"any\"",
        2277 => "anyarray",
        2278 => "void",
        2279 => "trigger",
        2283 => "anyelement",
        2281 => "internal",
        2950 => "uuid",
        3802 => "jsonb",
        _ => return known.map(|of| quote::identifier(&of.name)),
    };
    Some(name.into())
}

/// A key with its operator class and order.
pub(super) fn in_order(mut key: String, order: &ColumnOrder) -> String {
    if let Some(class) = &order.operator_class {
        key.push_str(&format!(" {class}"));
    }
    key.push_str(match (order.descending, order.nulls_first) {
        (false, false) => "",
        (false, true) => " NULLS FIRST",
        (true, true) => " DESC",
        (true, false) => " DESC NULLS LAST",
    });
    key
}

/// The clause of an index's columns that are no keys.
pub(super) fn included<'a>(columns: impl Iterator<Item = &'a String>) -> String {
    let columns: Vec<String> = columns.map(|name| quote::identifier(name)).collect();
    match columns.is_empty() {
        true => String::new(),
        false => format!(" INCLUDE ({})", columns.join(", ")),
    }
}

/// WITH and the options of an index.
pub(super) fn with_options(shown: &IndexShown) -> String {
    if shown.options.is_empty() {
        return String::new();
    }
    let option = |(name, value): &(String, String)| match quote::identifier(value) == *value {
        true => format!("{name}={value}"),
        false => format!("{name}={}", quote::literal(value)),
    };
    let options = shown.options.iter().map(option);
    format!(" WITH ({})", options.collect::<Vec<_>>().join(", "))
}

/// An expression that is a key: in parentheses, and once more where it is an operator's.
pub(super) fn shown_key(text: String) -> String {
    match parse_expression(&text) {
        Ok(Expr::Nested(inner)) if matches!(*inner, Expr::BinaryOp { .. } | Expr::IsNull(_) | Expr::IsNotNull(_)) => {
            format!("({text})")
        }
        _ => text,
    }
}

/// An expression without the parentheses around all of it.
pub(super) fn without_parentheses(shown: String) -> String {
    let Some(inner) = shown.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else {
        return shown;
    };
    let (mut depth, mut quoted) = (0_i32, false);
    for c in inner.chars() {
        match c {
            '\'' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        // The first parenthesis ends before the last.
        if depth < 0 {
            return shown;
        }
    }
    inner.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_their_modifiers() {
        assert_eq!(format_type(1700, Some(((15 << 16) | 2) + 4)).unwrap(), "numeric(15,2)");
        assert_eq!(format_type(1043, Some(14)).unwrap(), "character varying(10)");
        assert_eq!(format_type(1007, None).unwrap(), "integer[]");
        assert_eq!(format_type(23, Some(-1)).unwrap(), "integer");
        assert_eq!(format_type(999_999, None), None);
    }
}
