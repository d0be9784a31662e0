//! ANY and ALL of an array by operators other than comparisons, which have functions of their own: over the few items that are
//! written out by OR and AND, over others by the array's rows.

use super::comparison::Comparison;
use super::spellings::take;
use crate::pg::functions::aggregate::names::call_over_rows;
use crate::pg::functions::array::quantified;
use crate::pg::parse::{parse_expression, select};
use crate::pg::walk::{null, taken};
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, CaseWhen, CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    SelectItem, TableAlias, TableFactor, Value,
};

/// What the name of a mark begins with that stands around what ANY or ALL is of; the operator follows.
pub(crate) const QUANTIFIED: &str = "\u{1}quantified ";

/// As many items are compared one by one.
const ITEMS_MAX: usize = 32;

/// Gives ANY and ALL the operators that the text says.
pub(super) fn restore(expr: &mut Expr) {
    let (Expr::AnyOp { compare_op, right, .. } | Expr::AllOp { compare_op, right, .. }) = expr else {
        return;
    };
    let Expr::Function(mark) = right.as_mut() else { return };
    let name = mark.name.0.first().and_then(|part| part.as_ident());
    let Some(operator) = name.and_then(|name| name.value.strip_prefix(QUANTIFIED)) else {
        return;
    };
    let Ok(Expr::BinaryOp { op, .. }) = parse_expression(&format!("a {operator} b")) else {
        return;
    };
    let FunctionArguments::List(list) = &mut mark.args else {
        return;
    };
    if let [FunctionArg::Unnamed(FunctionArgExpr::Expr(inner))] = list.args.as_mut_slice() {
        let mut inner = taken(inner);
        while let Expr::Nested(own) = inner {
            inner = *own;
        }
        *compare_op = op;
        **right = inner;
    }
}

/// Such an expression over an array, in terms of others.
pub(super) fn of_array(expr: &mut Expr) {
    let (left, op, right, all) = match expr {
        Expr::AnyOp {
            left,
            compare_op,
            right,
            ..
        } => (left, compare_op, right, false),
        Expr::AllOp {
            left,
            compare_op,
            right,
        } => (left, compare_op, right, true),
        _ => return,
    };
    if matches!(right.as_ref(), Expr::Subquery(_)) || quantified(op, all).is_some() {
        return;
    }
    while let Expr::Nested(inner) = right.as_mut() {
        **right = take(inner);
    }
    let over_rows = call_over_rows(left.as_ref()).is_some();
    if let Some(items) = items(right, op, left, over_rows) {
        *expr = one_by_one(left, op, items, all);
        return;
    }
    // What is known after the rows are stands in no subquery of its own.
    if !over_rows {
        *expr = by_rows(take(left), op.clone(), take(right), all);
    }
}

fn is_of_texts(op: &BinaryOperator) -> bool {
    use BinaryOperator::{
        PGILikeMatch, PGLikeMatch, PGNotILikeMatch, PGNotLikeMatch, PGRegexIMatch, PGRegexMatch, PGRegexNotIMatch,
        PGRegexNotMatch, PGStartsWith,
    };
    matches!(
        op,
        PGILikeMatch
            | PGLikeMatch
            | PGNotILikeMatch
            | PGNotLikeMatch
            | PGRegexIMatch
            | PGRegexMatch
            | PGRegexNotIMatch
            | PGRegexNotMatch
            | PGStartsWith
    )
}

/// The items that are written out, where what is compared may be written as often.
fn items(array: &mut Expr, op: &BinaryOperator, left: &Expr, over_rows: bool) -> Option<Vec<Expr>> {
    let Expr::Array(written) = array else { return None };
    let nested = |item: &Expr| {
        matches!(
            item,
            Expr::Array(_)
                | Expr::Subquery(_)
                | Expr::Cast {
                    data_type: DataType::Array(_),
                    ..
                }
        )
    };
    let few = (1..=ITEMS_MAX).contains(&written.elem.len());
    if !few || !(is_simple(left) || over_rows) || written.elem.iter().any(nested) {
        return None;
    }
    let mut items = std::mem::take(&mut written.elem);
    let is_bare = |item: &Expr| matches!(item, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_) | Value::Null));
    // An array of literals is one of texts, whatever stands beside it.
    if !is_of_texts(op) && items.iter().all(is_bare) {
        items = items.into_iter().map(|item| as_type(item, DataType::Text)).collect();
    }
    Some(items)
}

fn is_simple(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) | Expr::TypedString(_) => true,
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => is_simple(inner),
        _ => false,
    }
}

fn one_by_one(left: &Expr, op: &BinaryOperator, items: Vec<Expr>, all: bool) -> Expr {
    let joined = match all {
        true => BinaryOperator::And,
        false => BinaryOperator::Or,
    };
    let met = items.into_iter().map(|item| Expr::BinaryOp {
        left: Box::new(left.clone()),
        op: op.clone(),
        right: Box::new(Expr::Nested(Box::new(item))),
    });
    let met = met.reduce(|before, next| Expr::BinaryOp {
        left: Box::new(before),
        op: joined.clone(),
        right: Box::new(next),
    });
    Expr::Nested(Box::new(met.unwrap_or_else(null)))
}

/// NULL where the array is, else the same of its rows.
fn by_rows(left: Expr, op: BinaryOperator, array: Expr, all: bool) -> Expr {
    let array = match &array {
        Expr::Value(value)
            if is_of_texts(&op)
                && matches!(
                    value.value,
                    Value::SingleQuotedString(_) | Value::Null | Value::Placeholder(_)
                ) =>
        {
            as_type(array, texts())
        }
        _ => array,
    };
    let item = Ident::with_quote('"', "\u{1}item");
    let rows = select::alone(TableFactor::Function {
        lateral: false,
        name: ast::ObjectName::from(vec![Ident::new("unnest")]),
        args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(array.clone()))],
        with_ordinality: false,
        alias: Some(TableAlias {
            explicit: true,
            name: Ident::with_quote('"', "\u{1}items"),
            columns: vec![ast::TableAliasColumnDef {
                name: item.clone(),
                data_type: None,
            }],
            at: None,
        }),
    });
    let query = select::query(vec![SelectItem::UnnamedExpr(Expr::Identifier(item))], vec![rows], None);
    let rows = Box::new(Expr::Subquery(query));
    let left = Box::new(left);
    let mut met = match all {
        true => Expr::AllOp {
            left,
            compare_op: op,
            right: rows,
        },
        false => Expr::AnyOp {
            left,
            compare_op: op,
            right: rows,
            is_some: false,
        },
    };
    if let Some(comparison) = Comparison::of(&mut met) {
        met = comparison.three_valued();
    }
    let unknown = CaseWhen {
        condition: Expr::IsNull(Box::new(Expr::Nested(Box::new(array)))),
        result: as_type(null(), DataType::Boolean),
    };
    match met {
        Expr::Case {
            case_token,
            end_token,
            operand,
            mut conditions,
            else_result,
        } => {
            conditions.insert(0, unknown);
            Expr::Case {
                case_token,
                end_token,
                operand,
                conditions,
                else_result,
            }
        }
        other => other,
    }
}

fn texts() -> DataType {
    DataType::Array(ast::ArrayElemTypeDef::SquareBracket(Box::new(DataType::Text), None))
}

fn as_type(expr: Expr, of: DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type: of,
        array: false,
        format: None,
    }
}
