//! The operator classes of indexes' keys, as `pg_index` names them. All indexes are btrees.

use crate::catalog::bind::Binder;
use crate::pg::parse::parse;
use crate::pg::rewrite::rewrite;
use crate::pg::statement::Kind;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::DFSchema;
use datafusion::sql::sqlparser::ast::{Expr, SelectItem, SetExpr, Statement};
use tenon_storage::{ColumnOrder, ExpressionIndex, Index, SqlType, TableDefinition};

/// The class of a type that an index takes where none is named.
pub(super) fn default_of(of: SqlType) -> i64 {
    match of {
        SqlType::Int4 => 1978,
        SqlType::Int2 => 1979,
        SqlType::Date => 3122,
        SqlType::Float8 => 3123,
        SqlType::Int8 => 3124,
        SqlType::Numeric | SqlType::NumericOf(..) | SqlType::NumericWide(..) => 3125,
        SqlType::Text | SqlType::Varchar | SqlType::VarcharOf(_) => 3126,
        SqlType::TimestampTz | SqlType::TimestampTzOf(_) => 3127,
        SqlType::Timestamp | SqlType::TimestampOf(_) => 3128,
        SqlType::Array(_) => 10000,
        SqlType::Bit | SqlType::BitOf(_) => 10002,
        SqlType::Bool => 10003,
        SqlType::CharOf(_) | SqlType::Bpchar => 10004,
        SqlType::Bytea => 10006,
        SqlType::Float4 => 10012,
        SqlType::Inet | SqlType::Cidr => 10015,
        SqlType::Interval | SqlType::IntervalOf(..) => 10022,
        SqlType::MacAddr => 10024,
        SqlType::MacAddr8 => 10026,
        SqlType::Name => 10028,
        SqlType::Composite(_) => 10034,
        SqlType::Time | SqlType::TimeOf(_) => 10038,
        SqlType::TimeTz | SqlType::TimeTzOf(_) => 10041,
        SqlType::VarBit | SqlType::VarBitOf(_) => 10043,
        SqlType::Tid => 10050,
        SqlType::Uuid => 10065,
        SqlType::Enum(_) => 10069,
        SqlType::Range(_) => 10076,
        SqlType::Multirange(_) => 10080,
        SqlType::Jsonb => 10088,
        // It has none.
        SqlType::Json => 0,
    }
}

/// Those that CREATE INDEX can name beside the defaults.
fn named(name: &str) -> Option<i64> {
    Some(match name {
        "text_pattern_ops" => 4217,
        "varchar_pattern_ops" => 4218,
        "bpchar_pattern_ops" => 4219,
        "cidr_ops" => 10009,
        "varchar_ops" => 10044,
        _ => return None,
    })
}

pub(super) fn of_columns(definition: &TableDefinition, index: &Index) -> Vec<i64> {
    let keys = index.columns.iter().zip(&index.order);
    let class = |(at, order): (&usize, &ColumnOrder)| {
        let own = order.operator_class.as_deref().and_then(named);
        own.unwrap_or_else(|| default_of(definition.columns[*at].sql_type))
    };
    keys.map(class).collect()
}

pub(super) fn of_expressions(binder: &Binder, definition: &TableDefinition, index: &ExpressionIndex) -> Vec<i64> {
    let types = key_types(binder, definition, index).into_iter();
    let class = |(own, order): (Option<SqlType>, ColumnOrder)| {
        let named = order.operator_class.as_deref().and_then(named);
        named.or_else(|| own.map(default_of)).unwrap_or_default()
    };
    types
        .zip(index.ordered_keys().map(|(_, order)| order))
        .map(class)
        .collect()
}

/// The types of an index's keys, as far as they can be told.
pub(super) fn key_types(
    binder: &Binder,
    definition: &TableDefinition,
    index: &ExpressionIndex,
) -> Vec<Option<SqlType>> {
    let fields: Vec<_> = definition
        .columns
        .iter()
        .map(|own| own.sql_type.field(&own.name, true))
        .collect();
    let schema = DFSchema::try_from(Schema::new(fields)).ok();
    let of = |key: &String| {
        let schema = schema.as_ref()?;
        let expr = selected(key)?;
        let binder = binder.clone().trusted();
        let expr = binder.expression(expr, schema).ok()?;
        let expr = binder.physical(expr, schema).ok()?;
        let field = expr.return_field(schema.as_arrow()).ok()?;
        SqlType::from_field(&field)
    };
    index.keys.iter().map(of).collect()
}

/// An expression as a SELECT has it, where numbers have the types that they have there.
fn selected(key: &str) -> Option<Expr> {
    let Kind::Sql(mut tree) = parse(&format!("SELECT {key}")).ok()?.pop()?.kind else {
        return None;
    };
    rewrite(&mut tree);
    let Statement::Query(query) = *tree else { return None };
    let SetExpr::Select(select) = *query.body else {
        return None;
    };
    match select.projection.into_iter().next()? {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}
