//! Set operations, and VALUES whose rows may differ in type, as relations of their own: DataFusion's planner asks about what
//! stands in FROM, and about these it does not. Their columns get their types there, before names above are bound.

use crate::pg::names::{fold, refers_to};
use crate::pg::parse::select;
use crate::pg::walk::VisitMut;
use datafusion::sql::sqlparser::ast::{
    CastKind, Expr, Query, SelectItem, SetExpr, SetOperator, SetQuantifier, TableFactor, Value, Values, VisitorMut,
};
use std::mem::discriminant;
use std::ops::ControlFlow;

/// What such a relation is called.
pub(crate) const COMBINED: &str = "\u{1}combined";

/// Puts relations in their places; whether there were any.
pub(crate) fn combined<T: VisitMut>(tree: &mut T) -> bool {
    struct Combined {
        found: bool,
    }
    impl VisitorMut for Combined {
        type Break = ();

        fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            self.found |= wrap(&mut query.body);
            if let Some(with) = query.with.as_mut().filter(|with| with.recursive) {
                for cte in &mut with.cte_tables {
                    if refers_to(&cte.query, &fold(&cte.alias.name)) {
                        unwrap(&mut cte.query);
                    }
                }
            }
            ControlFlow::Continue(())
        }
    }
    let mut own = Combined { found: false };
    let _ = VisitMut::visit(tree, &mut own);
    own.found
}

fn wrap(body: &mut SetExpr) -> bool {
    let wanted = match body {
        SetExpr::SetOperation { op, set_quantifier, .. } => is_planned(*op, *set_quantifier),
        SetExpr::Values(values) => is_mixed(values),
        _ => false,
    };
    if wanted {
        let own = std::mem::replace(body, nothing());
        let relation = select::derived(select::of_body(own), COMBINED, &[]);
        let items = vec![SelectItem::Wildcard(Default::default())];
        let query = select::query(items, vec![select::alone(relation)], None);
        *body = *query.body;
    }
    wanted
}

fn nothing() -> SetExpr {
    SetExpr::Values(Values {
        explicit_row: false,
        value_keyword: false,
        rows: Vec::new(),
    })
}

/// The two terms of a recursive query stand as they are; what they are may be set operations.
fn unwrap(query: &mut Query) {
    let mut body = query.body.as_mut();
    while let SetExpr::Query(inner) = body {
        body = inner.body.as_mut();
    }
    let Some(own) = of_relation(body) else { return };
    *body = own;
    if let SetExpr::SetOperation { left, right, .. } = body {
        wrap(left);
        wrap(right);
    }
}

fn of_relation(body: &mut SetExpr) -> Option<SetExpr> {
    let SetExpr::Select(select) = body else { return None };
    match select.from.first_mut().map(|from| &mut from.relation) {
        Some(TableFactor::Derived {
            subquery,
            alias: Some(alias),
            ..
        }) if alias.name.value == COMBINED => Some(std::mem::replace(subquery.body.as_mut(), nothing())),
        _ => None,
    }
}

/// Whether it is a set operation that is planned so.
fn is_planned(op: SetOperator, quantifier: SetQuantifier) -> bool {
    match op {
        SetOperator::Union => matches!(
            quantifier,
            SetQuantifier::All | SetQuantifier::Distinct | SetQuantifier::None
        ),
        SetOperator::Intersect | SetOperator::Except => {
            matches!(
                quantifier,
                SetQuantifier::All | SetQuantifier::Distinct | SetQuantifier::None
            )
        }
        SetOperator::Minus => false,
    }
}

/// Whether rows of VALUES are not surely of one type. Those of an INSERT, which are marked, are converted to its columns' types.
fn is_mixed(values: &Values) -> bool {
    let width = values.rows.first().map_or(0, |row| row.content.len());
    let even = values.rows.iter().all(|row| row.content.len() == width);
    let mixed = |at: usize| {
        let first = values.rows.first().and_then(|row| row.content.get(at));
        let mut others = values.rows.iter().skip(1).filter_map(|row| row.content.get(at));
        first.is_some_and(|first| others.any(|cell| !of_one_type(first, cell)))
    };
    !values.explicit_row && even && (0..width).any(mixed)
}

/// Whether two values are sure to have one type.
fn of_one_type(a: &Expr, b: &Expr) -> bool {
    match (a, b) {
        (Expr::Value(a), Expr::Value(b)) => match (&a.value, &b.value) {
            (Value::Number(..) | Value::Placeholder(_), _) | (_, Value::Number(..) | Value::Placeholder(_)) => false,
            (Value::SingleQuotedString(_) | Value::Null, Value::SingleQuotedString(_) | Value::Null) => true,
            (a, b) => discriminant(a) == discriminant(b),
        },
        (
            Expr::Cast {
                kind: CastKind::Cast,
                data_type: a,
                ..
            },
            Expr::Cast {
                kind: CastKind::Cast,
                data_type: b,
                ..
            },
        ) => a == b,
        (Expr::TypedString(a), Expr::TypedString(b)) => a.data_type == b.data_type,
        _ => false,
    }
}
