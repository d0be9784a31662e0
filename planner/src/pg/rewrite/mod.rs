//! Rewrites of the parsed tree before DataFusion plans it: where PostgreSQL's reading of a query differs from
//! DataFusion's and the tree is the place to say so.
//!
//! - output columns get PostgreSQL's names (`names`);
//! - groups and aggregates that would get one name get two (`apart`), so do subqueries in them (`subqueries_apart`);
//! - integer literals get PostgreSQL's types (`literals`), columns of VALUES one type (`value_types`);
//! - ROLLUP, CUBE and GROUPING SETS become one list of sets (`grouping`);
//! - INTERSECT and EXCEPT of no columns get one (`no_columns`);
//! - operators bind as PostgreSQL's do (`precedence`);
//! - ANY and ALL of arrays by operators that no function compares by (`quantified`);
//! - IN, ANY and ALL over a subquery become EXISTS where they are no plain condition (`subqueries`);
//! - casts to arrays get their literals' dimensions, aggregates of json become ones of arrays (`nested`);
//! - arrays made of subqueries, and sets of rows made by functions, become subqueries (`arrays`);
//! - ranks of values that are keys of grouping sets are told apart by totals (`hypothetical_sets`);
//! - ordered-set and hypothetical-set aggregates become others (`ordered_sets`);
//! - a row compared with that of a subquery becomes a subquery (`row_subqueries`);
//! - records taken out of json become queries (`recordsets`);
//! - set operations and VALUES become relations where a statement is planned (`combined`);
//! - IS DISTINCT FROM becomes an operator where a statement is planned (`distinct_from`);
//! - spellings that DataFusion does not know become ones that it does (`spellings`, `calls`, `overlaps`).

mod apart;
mod arrays;
mod calls;
mod combined;
mod comparison;
mod distinct_from;
mod elements;
mod from;
mod grouping;
mod hypothetical_sets;
mod intervals;
mod like_calls;
mod literals;
mod names;
mod nested;
mod no_columns;
mod ordered_sets;
mod overlaps;
mod precedence;
mod qualified_stars;
mod quantified;
mod recordsets;
mod row_subqueries;
mod said;
mod sequences;
mod spellings;
mod subqueries;
mod subqueries_apart;
mod ties;
mod value_types;

pub(crate) use apart::arguments;
pub(crate) use arrays::{GATHERED, gathered};
pub(crate) use calls::VARIADIC;
pub(crate) use combined::{COMBINED, combined};
pub(crate) use comparison::COMPARED;
pub(crate) use distinct_from::{test_of, with_operators};
pub(crate) use from::ROWS_FROM;
pub(crate) use like_calls::{is_like_a_call, says_one};
pub(crate) use literals::{cast_to_float, cast_to_numeric, is_number};
pub(crate) use names::{displayed_name, function_name, index_key_name, output_name, repeated_name};
pub(crate) use quantified::QUANTIFIED;
pub(crate) use said::{are_alike, calls_apart, groups_apart};
pub(crate) use sequences::{OF_SEQUENCES, is_regclass, relation_text};
pub(crate) use spellings::{call, escape_by_backslash, itself_null, row_number};
pub(crate) use value_types::any_bits;

use crate::pg::walk::VisitMut;
use datafusion::sql::sqlparser::ast::{Expr, Query, Select, TableFactor, VisitorMut};
use std::ops::ControlFlow;

/// Rewrites a statement, query or expression in place.
pub(crate) fn rewrite<T: VisitMut>(tree: &mut T) {
    let _ = tree.visit(&mut Precedence);
    let _ = tree.visit(&mut Rewriter);
}

/// Gives output columns PostgreSQL's names, and changes nothing else.
pub(crate) fn name_outputs<T: VisitMut>(tree: &mut T) {
    struct Namer;
    impl VisitorMut for Namer {
        type Break = ();
        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            names::name_outputs(select);
            ControlFlow::Continue(())
        }
    }
    let _ = tree.visit(&mut Namer);
}

/// What the text says comes before any rewrite of it.
struct Precedence;

impl VisitorMut for Precedence {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        precedence::repair(expr);
        quantified::restore(expr);
        ControlFlow::Continue(())
    }
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        names::name_outputs(select);
        qualified_stars::in_select(select);
        select.selection.iter_mut().for_each(spellings::as_bool);
        select.having.iter_mut().for_each(spellings::as_bool);
        hypothetical_sets::in_select(select);
        subqueries::in_select(select);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        literals::restore_positions_in_select(select);
        grouping::in_select(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { lateral, subquery, .. } = factor {
            match lateral {
                true => names::name_lateral(subquery),
                false => names::name_outer(subquery),
            }
        }
        from::function(factor);
        recordsets::expand(factor);
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        spellings::fetch_as_limit(query);
        ties::with_ties(query);
        hypothetical_sets::in_query(query);
        subqueries::in_query(query);
        literals::type_values(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        no_columns::in_body(&mut query.body);
        literals::restore_positions_in_query(query);
        apart::in_query(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        row_subqueries::compared(expr);
        quantified::of_array(expr);
        elements::apart(expr);
        elements::cast(expr);
        if let Expr::Exists { subquery, .. } = expr {
            no_columns::in_exists(subquery);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        ordered_sets::respell(expr);
        if let Expr::Function(call) = expr {
            sequences::take_name(call);
        }
        spellings::respell(expr);
        nested::respell(expr);
        literals::type_literal(expr);
        ControlFlow::Continue(())
    }
}
