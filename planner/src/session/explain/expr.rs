//! Physical expressions as SQL.

use crate::pg::functions::each_row;
use crate::pg::semantics::zeros::ONE_ZERO;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NegativeExpr,
    NotExpr,
};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr, ScalarFunctionExpr};
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use std::sync::Arc;
use tenon_storage::numeric::{Numeric, compare_key};
use tenon_storage::{EnumType, quote};

/// `expr` as SQL, in parentheses where it is an operation, as PostgreSQL prints conditions. `names` are those of the
/// columns that it reads; a column beyond them goes by its own name.
pub(super) fn text(expr: &Arc<dyn PhysicalExpr>, names: &[String]) -> String {
    let text = |expr: &Arc<dyn PhysicalExpr>| text(expr, names);
    if let Some(original) = tenon_executor::expr::original(expr) {
        return text(original);
    }
    if let Some(column) = expr.downcast_ref::<Column>() {
        let name = names.get(column.index()).map_or(column.name(), String::as_str);
        return name.to_string();
    }
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return value(literal.value());
    }
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return format!("({} {} {})", text(binary.left()), binary.op(), text(binary.right()));
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let field = arrow::datatypes::Field::new("", cast.cast_type().clone(), true);
        let name = tenon_storage::SqlType::from_field(&field).map(|own| own.sql_name());
        let name = name.unwrap_or_else(|| cast.cast_type().to_string());
        return format!("({})::{name}", text(cast.expr()));
    }
    if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        let word = match (like.negated(), like.case_insensitive()) {
            (false, false) => "LIKE",
            (true, false) => "NOT LIKE",
            (false, true) => "ILIKE",
            (true, true) => "NOT ILIKE",
        };
        return format!("({} {word} {})", text(like.expr()), text(like.pattern()));
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        let members: Vec<String> = list.list().iter().map(&text).collect();
        let word = if list.negated() { "NOT IN" } else { "IN" };
        return format!("({} {word} ({}))", text(list.expr()), members.join(", "));
    }
    if let Some(test) = expr.downcast_ref::<IsNullExpr>() {
        return format!("({} IS NULL)", text(test.arg()));
    }
    if let Some(test) = expr.downcast_ref::<IsNotNullExpr>() {
        return format!("({} IS NOT NULL)", text(test.arg()));
    }
    if let Some(not) = expr.downcast_ref::<NotExpr>() {
        return format!("(NOT {})", text(not.arg()));
    }
    if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
        return format!("(- {})", text(negative.arg()));
    }
    if expr.downcast_ref::<ScalarSubqueryExpr>().is_some() {
        return "(InitPlan)".into();
    }
    if let Some(case) = expr.downcast_ref::<CaseExpr>() {
        let mut words = vec!["CASE".to_string()];
        words.extend(case.expr().map(&text));
        for (when, then) in case.when_then_expr() {
            words.push(format!("WHEN {} THEN {}", text(when), text(then)));
        }
        words.extend(case.else_expr().map(|other| format!("ELSE {}", text(other))));
        words.push("END".into());
        return words.join(" ");
    }
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        let arguments: Vec<String> = call.args().iter().map(&text).collect();
        let operator = match call.name() {
            "textcat" => Some("||"),
            "checked_add" => Some("+"),
            "checked_subtract" => Some("-"),
            "checked_multiply" => Some("*"),
            "checked_divide" => Some("/"),
            _ => None,
        };
        if let Some(constant) = each_row::value(call.fun()) {
            return value(constant);
        }
        return match (operator, arguments.as_slice()) {
            // It makes no difference that is shown.
            (None, [key]) if call.name() == ONE_ZERO => key.clone(),
            (Some(operator), [left, right]) => format!("({left} {operator} {right})"),
            _ => format!("{}({})", call.name(), arguments.join(", ")),
        };
    }
    fmt_sql(expr.as_ref()).to_string()
}

/// A sort key, with what differs from PostgreSQL's default order.
pub(super) fn sort_key(key: &PhysicalSortExpr, names: &[String]) -> String {
    let order = match (key.options.descending, key.options.nulls_first) {
        (false, false) => "",
        (false, true) => " NULLS FIRST",
        (true, true) => " DESC",
        (true, false) => " DESC NULLS LAST",
    };
    format!("{}{order}", text(&key.expr, names))
}

fn value(value: &ScalarValue) -> String {
    use ScalarValue::*;
    if value.is_null() {
        return "NULL".into();
    }
    if let (Some(of), TimestampMicrosecond(Some(at), _)) = (EnumType::of(&value.data_type()), value) {
        return format!("{}::{}", quote::literal(of.label(*at)), of.name);
    }
    match value {
        Int8(_) | Int16(_) | Int32(_) | Int64(_) | UInt8(_) | UInt16(_) | UInt32(_) | UInt64(_) | Float32(_)
        | Float64(_) | Boolean(_) => value.to_string(),
        Utf8(Some(text)) | Utf8View(Some(text)) | LargeUtf8(Some(text)) => quote::literal(text),
        LargeBinary(Some(bytes)) => Numeric::of_key(compare_key(bytes)).to_string(),
        Decimal128(..) | Decimal256(..) => match value.to_array().map(|one| array_text(&one)) {
            Ok(text) => text,
            Err(_) => value.to_string(),
        },
        _ => match value.to_array().map(|one| array_text(&one)) {
            Ok(text) => quote::literal(&text),
            Err(_) => value.to_string(),
        },
    }
}

fn array_text(one: &arrow::array::ArrayRef) -> String {
    tenon_storage::datetime::shown(one, 0)
}
