//! Parameters without a type, while names are bound: the first place that says of what type one is decides it for the others.

use super::operands::is_comparison;
use crate::pg::semantics::fields;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use tenon_storage::{ArrayType, SqlType};

thread_local! {
    /// The types of the statement that is planned here, by the names of its parameters.
    static TOLD: RefCell<Option<HashMap<String, FieldRef>>> = const { RefCell::new(None) };
    /// The types that calls of functions in SQL give to what they are called with.
    static CALLED: RefCell<HashMap<String, FieldRef>> = RefCell::default();
}

/// Plans a statement some of whose parameters may have no type, and tells which calls of functions in SQL give them.
pub(crate) fn planning<T>(plan: impl FnOnce() -> T) -> (T, HashMap<String, FieldRef>) {
    struct Restored(Option<HashMap<String, FieldRef>>);
    impl Drop for Restored {
        fn drop(&mut self) {
            TOLD.set(self.0.take());
        }
    }
    let _restored = Restored(TOLD.replace(Some(HashMap::new())));
    let before = CALLED.take();
    let planned = plan();
    (planned, CALLED.replace(before))
}

/// A parameter without a type is what a function in SQL takes.
pub(crate) fn called(id: &str, of: SqlType) {
    let field = Arc::new(of_parameter(of).field("", true));
    CALLED.with_borrow_mut(|called| {
        called.entry(id.to_string()).or_insert(field);
    });
}

/// What a parameter is whose place asks for a type: values keep the digits and the length that they have.
pub(crate) fn of_parameter(of: SqlType) -> SqlType {
    match of.unlimited() {
        SqlType::NumericOf(..) | SqlType::NumericWide(..) => SqlType::Numeric,
        SqlType::VarcharOf(_) => SqlType::Varchar,
        SqlType::CharOf(_) => SqlType::Bpchar,
        of => of,
    }
}

pub(crate) fn is_open(expr: &Expr) -> bool {
    matches!(expr, Expr::Placeholder(open) if open.field.is_none())
}

/// The parameter as one of that type, where no place has said otherwise.
pub(super) fn told(expr: Expr, of: SqlType) -> Expr {
    let Expr::Placeholder(mut open) = expr else {
        return expr;
    };
    if open.field.is_none() {
        let field: FieldRef = Arc::new(of_parameter(of).field("", true));
        TOLD.with_borrow_mut(|told| {
            if let Some(told) = told {
                told.insert(open.id.clone(), field.clone());
            }
        });
        open.field = Some(field);
    }
    Expr::Placeholder(open)
}

/// A parameter whose type another place has said.
fn known(expr: Expr) -> Expr {
    let Expr::Placeholder(mut open) = expr else {
        return expr;
    };
    if open.field.is_none() {
        open.field = TOLD.with_borrow(|told| told.as_ref()?.get(&open.id).cloned());
    }
    Expr::Placeholder(open)
}

/// The operands of an operator with the types of parameters that are known, or that an array or a jsonb beside them tells.
pub(crate) fn operands(expr: RawBinaryExpr, schema: &DFSchema) -> RawBinaryExpr {
    let RawBinaryExpr { op, left, right } = expr;
    let (mut left, mut right) = (known(left), known(right));
    let of = match (is_open(&left), is_open(&right)) {
        (true, false) => beside(&op, &right, schema, false),
        (false, true) => beside(&op, &left, schema, true),
        _ => None,
    };
    if let Some(of) = of {
        (left, right) = (told(left, of), told(right, of));
    }
    RawBinaryExpr { op, left, right }
}

/// What stands beside an array or a jsonb; `is_left`: that is the left operand.
fn beside(op: &BinaryOperator, expr: &Expr, schema: &DFSchema, is_left: bool) -> Option<SqlType> {
    let field = fields::field(expr, schema).ok()?;
    let compares = is_comparison(op);
    if let DataType::List(_) = field.data_type() {
        let takes = compares
            || matches!(
                op,
                BinaryOperator::StringConcat
                    | BinaryOperator::AtArrow
                    | BinaryOperator::ArrowAt
                    | BinaryOperator::PGOverlap
            );
        return SqlType::from_field(&field).filter(|_| takes);
    }
    let texts = || SqlType::Array(ArrayType::of_items(SqlType::Text));
    match (SqlType::from_field(&field)?, op) {
        (SqlType::Jsonb, _) if compares => Some(SqlType::Jsonb),
        (SqlType::Jsonb, BinaryOperator::AtArrow | BinaryOperator::ArrowAt | BinaryOperator::StringConcat) => {
            Some(SqlType::Jsonb)
        }
        (SqlType::Jsonb, BinaryOperator::QuestionPipe | BinaryOperator::QuestionAnd | BinaryOperator::HashMinus)
        | (SqlType::Jsonb | SqlType::Json, BinaryOperator::HashArrow | BinaryOperator::HashLongArrow)
            if is_left =>
        {
            Some(texts())
        }
        _ => None,
    }
}
