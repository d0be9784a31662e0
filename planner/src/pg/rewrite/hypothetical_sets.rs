//! What stands before WITHIN GROUP of `rank` and its like, in a query with grouping sets: a total has NULL for the keys that
//! it is over, but the rank counts rows before they are grouped (`ordered_sets`), where a key still has its values. So
//! `rank(k) WITHIN GROUP ...` becomes `CASE WHEN GROUPING(k) = 0 THEN rank(k) ... ELSE rank(NULL) ... END`.

use super::grouping::{has_sets, keys};
use super::names::function_name;
use super::spellings::call;
use crate::pg::walk::{Visit, VisitMut, change_inner_first};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Function, OrderBy, OrderByKind, Query, Select, SetExpr, Value, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// Keys of one call that are told apart; each doubles what is computed.
const KEYS_MAX: usize = 6;

pub(super) fn in_select(select: &mut Select) {
    if has_sets(&select.group_by) {
        let keys = keys(select);
        exchange(&mut select.projection, &keys);
        exchange(&mut select.having, &keys);
    }
}

/// ORDER BY stands outside of its SELECT.
pub(super) fn in_query(query: &mut Query) {
    if let SetExpr::Select(select) = query.body.as_ref()
        && has_sets(&select.group_by)
        && let Some(OrderBy {
            kind: OrderByKind::Expressions(items),
            ..
        }) = &mut query.order_by
    {
        exchange(items, &keys(select));
    }
}

/// Exchanges the calls of one query, not those of subqueries in it.
fn exchange<T: VisitMut>(tree: &mut T, keys: &[Expr]) {
    change_inner_first(tree, |expr, within| {
        if !within
            && let Expr::Function(function) = expr
            && !function.within_group.is_empty()
            && matches!(
                function_name(function).as_str(),
                "rank" | "dense_rank" | "percent_rank" | "cume_dist"
            )
        {
            let mut used = Used {
                keys,
                found: Vec::new(),
                within: 0,
            };
            let _ = function.args.visit(&mut used);
            let found = used.found;
            *expr = match found.len() > KEYS_MAX {
                // Nothing has this name: the call is refused.
                true => call("rank over the values of many keys", vec![]),
                false => by_totals(function, &found),
            };
        }
    });
}

/// The keys, and columns that are none, in the values of a call.
struct Used<'a> {
    keys: &'a [Expr],
    found: Vec<Expr>,
    /// How far the walk is within a key.
    within: usize,
}

impl Visitor for Used<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let is_column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        if self.within > 0 {
            self.within += 1;
        } else if is_column || self.keys.contains(expr) {
            self.within = 1;
            if !self.found.contains(expr) {
                self.found.push(expr.clone());
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.within = self.within.saturating_sub(1);
        ControlFlow::Continue(())
    }
}

fn by_totals(function: &Function, keys: &[Expr]) -> Expr {
    let Some((key, rest)) = keys.split_first() else {
        return Expr::Function(function.clone());
    };
    let mut total = function.clone();
    let _ = VisitMut::visit(&mut total.args, &mut Nulled(key));
    let grouped = Expr::BinaryOp {
        left: Box::new(call("grouping", vec![key.clone()])),
        op: BinaryOperator::Eq,
        right: Box::new(Expr::Value(Value::Number("0".into(), false).into())),
    };
    case(grouped, by_totals(function, rest), Some(by_totals(&total, rest)))
}

/// Puts a NULL of its type in the place of a key.
struct Nulled<'a>(&'a Expr);

impl VisitorMut for Nulled<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if expr == self.0 {
            *expr = case(Expr::Value(Value::Boolean(false).into()), expr.clone(), None);
        }
        ControlFlow::Continue(())
    }
}

fn case(condition: Expr, result: Expr, otherwise: Option<Expr>) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result }],
        else_result: otherwise.map(Box::new),
    }
}
