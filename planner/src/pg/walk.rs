//! Walks over syntax trees.
//!
//! The parser's own walks are compiled anew, whole, for every visitor: some megabytes each. These are compiled once for
//! every type that a visitor breaks with, and call it through a table.

use datafusion::sql::sqlparser::ast::{
    self, Expr, JoinConstraint, JoinOperator, ObjectName, Query, Select, Statement, TableFactor, TableWithJoins,
    ValueWithSpan, Visitor, VisitorMut,
};
use std::marker::PhantomData;
use std::ops::ControlFlow;

/// `sqlparser::ast::Visit`, compiled once.
pub(crate) trait Visit {
    fn visit<V: Visitor>(&self, visitor: &mut V) -> ControlFlow<V::Break>;
}

/// `sqlparser::ast::VisitMut`, compiled once.
pub(crate) trait VisitMut {
    fn visit<V: VisitorMut>(&mut self, visitor: &mut V) -> ControlFlow<V::Break>;
}

/// Puts a replacement, where there is one, in the place of what a walk has come to.
pub(crate) fn replace<T, E>(place: &mut T, replacement: Result<Option<T>, E>) -> ControlFlow<E> {
    match replacement {
        Ok(Some(replacement)) => *place = replacement,
        Ok(None) => {}
        Err(error) => return ControlFlow::Break(error),
    }
    ControlFlow::Continue(())
}

pub(crate) fn null() -> Expr {
    Expr::Value(ast::Value::Null.into())
}

/// The expression, in whose place NULL is left.
pub(crate) fn taken(place: &mut Expr) -> Expr {
    std::mem::replace(place, null())
}

/// Shows each expression of a tree, those around others first, and whether it stands in a query within the tree.
pub(crate) fn expressions<T: Visit, B>(tree: &T, see: impl FnMut(&Expr, bool) -> ControlFlow<B>) -> ControlFlow<B> {
    tree.visit(&mut Expressions {
        see,
        queries: 0,
        ends_with: PhantomData,
    })
}

/// The same where they may be changed.
pub(crate) fn expressions_mut<T: VisitMut, B>(
    tree: &mut T,
    see: impl FnMut(&mut Expr, bool) -> ControlFlow<B>,
) -> ControlFlow<B> {
    tree.visit(&mut Expressions {
        see,
        queries: 0,
        ends_with: PhantomData,
    })
}

/// Shows each expression of a tree to be changed, those within others first, and whether it stands in a query within the tree.
pub(crate) fn change_inner_first<T: VisitMut>(tree: &mut T, change: impl FnMut(&mut Expr, bool)) {
    let _ = tree.visit(&mut InnerFirst { change, queries: 0 });
}

/// The first that `see` makes of the calls in a tree, those in queries within it aside.
pub(crate) fn first_call<T: Visit, B>(tree: &T, mut see: impl FnMut(&ast::Function) -> Option<B>) -> Option<B> {
    let found = expressions(tree, |expr, within| match expr {
        Expr::Function(call) if !within => see(call).map_or(ControlFlow::Continue(()), ControlFlow::Break),
        _ => ControlFlow::Continue(()),
    });
    found.break_value()
}

/// Whether a SELECT has no GROUP BY.
pub(crate) fn is_ungrouped(select: &Select) -> bool {
    matches!(&select.group_by, ast::GroupByExpr::Expressions(keys, _) if keys.is_empty())
}

struct Expressions<F, B> {
    see: F,
    /// Queries around the place.
    queries: usize,
    ends_with: PhantomData<B>,
}

impl<B, F: FnMut(&Expr, bool) -> ControlFlow<B>> Visitor for Expressions<F, B> {
    type Break = B;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<B> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<B> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<B> {
        (self.see)(expr, self.queries > 0)
    }
}

impl<B, F: FnMut(&mut Expr, bool) -> ControlFlow<B>> VisitorMut for Expressions<F, B> {
    type Break = B;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<B> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<B> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<B> {
        (self.see)(expr, self.queries > 0)
    }
}

struct InnerFirst<F> {
    change: F,
    /// Queries around the place.
    queries: usize,
}

impl<F: FnMut(&mut Expr, bool)> VisitorMut for InnerFirst<F> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        (self.change)(expr, self.queries > 0);
        ControlFlow::Continue(())
    }
}

impl<T: ast::Visit> Visit for T {
    fn visit<V: Visitor>(&self, visitor: &mut V) -> ControlFlow<V::Break> {
        ast::Visit::visit(self, &mut Any(visitor))
    }
}

impl<T: ast::VisitMut> VisitMut for T {
    fn visit<V: VisitorMut>(&mut self, visitor: &mut V) -> ControlFlow<V::Break> {
        ast::VisitMut::visit(self, &mut AnyMut(visitor))
    }
}

struct Any<'a, B>(&'a mut (dyn Visitor<Break = B> + 'a));

struct AnyMut<'a, B>(&'a mut (dyn VisitorMut<Break = B> + 'a));

impl<B> Visitor for Any<'_, B> {
    type Break = B;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<B> {
        self.0.pre_visit_query(query)
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<B> {
        self.0.post_visit_query(query)
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<B> {
        self.0.pre_visit_select(select)
    }

    fn post_visit_select(&mut self, select: &Select) -> ControlFlow<B> {
        self.0.post_visit_select(select)
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<B> {
        self.0.pre_visit_relation(relation)
    }

    fn post_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<B> {
        self.0.post_visit_relation(relation)
    }

    fn pre_visit_table_factor(&mut self, table_factor: &TableFactor) -> ControlFlow<B> {
        self.0.pre_visit_table_factor(table_factor)
    }

    fn post_visit_table_factor(&mut self, table_factor: &TableFactor) -> ControlFlow<B> {
        self.0.post_visit_table_factor(table_factor)
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<B> {
        self.0.pre_visit_expr(expr)
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<B> {
        self.0.post_visit_expr(expr)
    }

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<B> {
        self.0.pre_visit_statement(statement)
    }

    fn post_visit_statement(&mut self, statement: &Statement) -> ControlFlow<B> {
        self.0.post_visit_statement(statement)
    }

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<B> {
        self.0.pre_visit_value(value)
    }

    fn post_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<B> {
        self.0.post_visit_value(value)
    }
}

impl<B> VisitorMut for AnyMut<'_, B> {
    type Break = B;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<B> {
        self.0.pre_visit_query(query)
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<B> {
        self.0.post_visit_query(query)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<B> {
        self.0.pre_visit_select(select)
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<B> {
        self.0.post_visit_select(select)
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<B> {
        self.0.pre_visit_relation(relation)
    }

    fn post_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<B> {
        self.0.post_visit_relation(relation)
    }

    fn pre_visit_table_factor(&mut self, table_factor: &mut TableFactor) -> ControlFlow<B> {
        self.0.pre_visit_table_factor(table_factor)
    }

    fn post_visit_table_factor(&mut self, table_factor: &mut TableFactor) -> ControlFlow<B> {
        self.0.post_visit_table_factor(table_factor)
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<B> {
        self.0.pre_visit_expr(expr)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<B> {
        self.0.post_visit_expr(expr)
    }

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<B> {
        self.0.pre_visit_statement(statement)
    }

    fn post_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<B> {
        self.0.post_visit_statement(statement)
    }

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<B> {
        self.0.pre_visit_value(value)
    }

    fn post_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<B> {
        self.0.post_visit_value(value)
    }
}

/// What the joins that have a condition have it in.
pub(crate) fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => Some(constraint),
        _ => None,
    }
}

/// What FROM joins.
pub(crate) fn factors(table: &TableWithJoins) -> impl Iterator<Item = &TableFactor> {
    std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation))
}

/// The same with those of joins in parentheses in the place of these.
pub(crate) fn leaves(table: &TableWithJoins) -> Box<dyn Iterator<Item = &TableFactor> + '_> {
    Box::new(factors(table).flat_map(leaves_of))
}

pub(crate) fn leaves_of(factor: &TableFactor) -> Box<dyn Iterator<Item = &TableFactor> + '_> {
    match factor {
        TableFactor::NestedJoin {
            table_with_joins,
            alias: None,
        } => leaves(table_with_joins),
        other => Box::new(std::iter::once(other)),
    }
}
