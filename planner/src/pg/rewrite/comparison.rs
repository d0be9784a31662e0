//! A value compared with the rows of a subquery, by EXISTS.
//!
//! An aggregate or a window function on the left can stand in no WHERE: there the subquery's rows become an array, once,
//! `x op ANY (ARRAY (S))`.

use super::spellings::{call, compare_rows, row_items, take};
use crate::pg::functions::aggregate::names::call_over_rows;
use crate::pg::parse::select;
use crate::pg::walk::null;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, DataType, Expr, FunctionArguments, Ident, Query, SelectItem, TableWithJoins,
    UnaryOperator, Value,
};

/// What the subquery's rows are called.
pub(crate) const COMPARED: &str = "\u{1}any";

/// `left op ANY (subquery)`, or its negation.
pub(super) struct Comparison {
    pub left: Expr,
    pub op: BinaryOperator,
    pub subquery: Box<Query>,
    pub negated: bool,
    /// Whether the operator is to be false: it has none that is its opposite.
    pub inverted: bool,
}

impl Comparison {
    pub(super) fn of(expr: &mut Expr) -> Option<Comparison> {
        match expr {
            Expr::InSubquery {
                expr: left,
                subquery,
                negated,
            } => Some(Comparison {
                left: take(left),
                op: BinaryOperator::Eq,
                subquery: subquery.clone(),
                negated: *negated,
                inverted: false,
            }),
            Expr::AnyOp {
                left,
                compare_op,
                right,
                ..
            } => take_subquery(right).map(|subquery| Comparison {
                left: take(left),
                op: compare_op.clone(),
                subquery,
                negated: false,
                inverted: false,
            }),
            Expr::AllOp {
                left,
                compare_op,
                right,
            } => {
                let opposite = opposite(compare_op);
                let inverted = opposite.is_none();
                let op = opposite.unwrap_or_else(|| compare_op.clone());
                take_subquery(right).map(|subquery| Comparison {
                    left: take(left),
                    op,
                    subquery,
                    negated: true,
                    inverted,
                })
            }
            _ => None,
        }
    }

    /// Whether what is compared is known after the rows of the query are. Rows are not: records that hold NULL are equal.
    pub(super) fn is_over_rows(&self) -> bool {
        is_plain(&self.left) && call_over_rows(&self.left).is_some()
    }

    /// Compared with an array of the subquery's rows.
    fn with_array(self) -> Expr {
        let Comparison {
            left,
            op,
            subquery,
            negated,
            ..
        } = self;
        let mut array = call("array", Vec::new());
        if let Expr::Function(function) = &mut array {
            function.args = FunctionArguments::Subquery(subquery);
        }
        let met = Expr::AnyOp {
            left: Box::new(left),
            compare_op: op,
            right: Box::new(array),
            is_some: false,
        };
        match negated {
            true => not(met),
            false => met,
        }
    }

    pub(super) fn three_valued(self) -> Expr {
        if self.is_over_rows() {
            return self.with_array();
        }
        let Comparison {
            left,
            op,
            subquery,
            negated,
            inverted,
        } = self;
        let compared = |left: &Expr, value: &Expr| held(left, &op, inverted, value);
        let met = exists(&left, subquery.clone(), compared);
        let mut unknown = Vec::new();
        if op == BinaryOperator::Eq && is_plain(&left) {
            unknown.push(exists(&left, subquery.clone(), |_, value| {
                Some(Expr::IsNull(Box::new(value.clone())))
            }));
            let any = exists(&left, subquery, |_, _| Some(Expr::Value(Value::Boolean(true).into())));
            unknown.push(Expr::BinaryOp {
                left: Box::new(Expr::IsNull(Box::new(left))),
                op: BinaryOperator::And,
                right: Box::new(any),
            });
        } else {
            unknown.push(exists(&left, subquery, |left, value| {
                compared(left, value).map(|met| Expr::IsNull(Box::new(Expr::Nested(Box::new(met)))))
            }));
        }
        let boolean = |value: bool| Expr::Value(Value::Boolean(value).into());
        let mut conditions = vec![CaseWhen {
            condition: met,
            result: boolean(!negated),
        }];
        conditions.extend(unknown.into_iter().map(|condition| CaseWhen {
            condition,
            result: Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(null()),
                data_type: DataType::Boolean,
                array: false,
                format: None,
            },
        }));
        Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions,
            else_result: Some(Box::new(boolean(negated))),
        }
    }
}

fn take_subquery(right: &mut Box<Expr>) -> Option<Box<Query>> {
    match right.as_mut() {
        Expr::Subquery(subquery) => Some(subquery.clone()),
        _ => None,
    }
}

fn opposite(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Eq => BinaryOperator::NotEq,
        BinaryOperator::NotEq => BinaryOperator::Eq,
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        BinaryOperator::PGLikeMatch => BinaryOperator::PGNotLikeMatch,
        BinaryOperator::PGNotLikeMatch => BinaryOperator::PGLikeMatch,
        BinaryOperator::PGILikeMatch => BinaryOperator::PGNotILikeMatch,
        BinaryOperator::PGNotILikeMatch => BinaryOperator::PGILikeMatch,
        BinaryOperator::PGRegexMatch => BinaryOperator::PGRegexNotMatch,
        BinaryOperator::PGRegexNotMatch => BinaryOperator::PGRegexMatch,
        BinaryOperator::PGRegexIMatch => BinaryOperator::PGRegexNotIMatch,
        BinaryOperator::PGRegexNotIMatch => BinaryOperator::PGRegexIMatch,
        _ => return None,
    })
}

/// `left op value`, or that it is not so.
pub(super) fn held(left: &Expr, op: &BinaryOperator, inverted: bool, value: &Expr) -> Option<Expr> {
    let met = compared(left, op, value)?;
    Some(match inverted {
        true => not(met),
        false => met,
    })
}

/// `left op value`; rows column by column.
pub(super) fn compared(left: &Expr, op: &BinaryOperator, value: &Expr) -> Option<Expr> {
    if !is_plain(left) {
        return compare_rows(left, op, value);
    }
    Some(Expr::BinaryOp {
        left: Box::new(left.clone()),
        op: op.clone(),
        right: Box::new(value.clone()),
    })
}

/// `EXISTS (SELECT true FROM (subquery) AS s(v) WHERE condition(left, v))`, with as many columns as `left` has.
pub(super) fn exists(left: &Expr, subquery: Box<Query>, condition: impl Fn(&Expr, &Expr) -> Option<Expr>) -> Expr {
    let width = match is_plain(left) {
        true => 1,
        false => row_items(left).map_or(1, |items| items.len()),
    };
    let (from, value) = named(subquery, width);
    let Some(condition) = condition(left, &value) else {
        return null();
    };
    let item = SelectItem::UnnamedExpr(Expr::Value(Value::Boolean(true).into()));
    Expr::Exists {
        subquery: select::query(vec![item], vec![from], Some(condition)),
        negated: false,
    }
}

/// A subquery in FROM, and the row of its columns, or the only one.
pub(super) fn named(subquery: Box<Query>, width: usize) -> (TableWithJoins, Expr) {
    let name = |text: &str| Ident::with_quote('"', text);
    let columns: Vec<Ident> = (0..width).map(|at| name(&format!("\u{1}value{at}"))).collect();
    let mut values: Vec<Expr> = columns
        .iter()
        .map(|column| Expr::CompoundIdentifier(vec![name(COMPARED), column.clone()]))
        .collect();
    let value = match values.len() {
        1 => values.remove(0),
        _ => Expr::Tuple(values),
    };
    let from = select::alone(select::derived(subquery, COMPARED, &columns));
    (from, value)
}

pub(super) fn is_plain(expr: &Expr) -> bool {
    row_items(expr).is_none_or(|items| items.len() < 2)
}

pub(super) fn not(expr: Expr) -> Expr {
    Expr::UnaryOp {
        op: UnaryOperator::Not,
        expr: Box::new(Expr::Nested(Box::new(expr))),
    }
}
