//! Expressions that get one type together: a rule before type coercion.

use super::becoming::{become_of, becomes, has_default, nullif_of_moments, with_default};
use super::booleans::{not_boolean, tested};
use super::carried::{mentions_enums, takes_enums};
use super::{
    Group, arrays, casts, group, is_unknown, items, known, like, name, pairs, quantified, results, rows, sets, strings,
    typed, undefined,
};
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::functions::common;
use crate::pg::named;
use crate::pg::semantics::fields;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;
use tenon_storage::SqlType;

#[derive(Debug)]
pub(in crate::pg::semantics) struct LiteralsTakeTypes;

impl AnalyzerRule for LiteralsTakeTypes {
    fn name(&self) -> &str {
        "literals_take_types"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut changed = false;
        let plan = plan.transform_up_with_subqueries(|node| {
            let node = rewrite_node(node)?;
            changed |= node.transformed;
            if changed {
                return Ok(Transformed::yes(node.data.recompute_schema()?));
            }
            Ok(node)
        })?;
        Ok(plan.data)
    }
}

fn rewrite_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let node = match node {
        LogicalPlan::Union(union) => return sets::union(union),
        LogicalPlan::Values(values) => {
            let columns = rows::values(values)?;
            let own = rewrite_expressions(columns.data)?;
            let cells = rows::strings(own.data)?;
            return Ok(Transformed::new_transformed(
                cells.data,
                columns.transformed || own.transformed || cells.transformed,
            ));
        }
        LogicalPlan::RecursiveQuery(query) => {
            sets::recursion(&query)?;
            Transformed::no(LogicalPlan::RecursiveQuery(query))
        }
        LogicalPlan::Join(join) => sets::blankless(join)?,
        node => Transformed::no(node),
    };
    match node.transformed {
        true => Ok(node),
        false => rewrite_expressions(node.data),
    }
}

fn rewrite_expressions(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let enums = mentions_enums(&node)?;
    let mut touched = enums;
    node.apply_expressions(|expr| {
        touched = touched || expr.exists(|expr| Ok(is_candidate(expr)))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !touched {
        return Ok(match results::with_types(&node)? {
            Some(typed) => Transformed::yes(typed),
            None => Transformed::no(node),
        });
    }
    let schema = merge_schema(&node.inputs());
    let node = named::map_expressions(node, |expr| {
        expr.transform_up(|expr| {
            if enums {
                takes_enums(&expr, &schema)?;
            }
            rewrite_expr(expr, &schema)
        })
    })?;
    match results::with_types(&node.data)? {
        Some(typed) => Ok(Transformed::yes(typed)),
        None => Ok(node),
    }
}

/// Functions whose arguments get one type, as errors name them.
fn of_one_type(name: &str) -> Option<&'static str> {
    Some(match name {
        "coalesce" => "COALESCE",
        "greatest" => "GREATEST",
        "least" => "LEAST",
        _ => return None,
    })
}

/// Functions of an array and values that it holds or gets.
const OF_ITEMS: &[&str] = &[
    "array_append",
    "array_position",
    "array_positions",
    "array_prepend",
    "array_remove",
    "array_replace",
];

/// Literals beside an array of ranges are ranges, which DataFusion has no cast to.
fn with_items(args: &mut [Expr], schema: &DFSchema) -> Result<bool> {
    let of_ranges = |own: &Expr| match fields::data_type(own, schema) {
        Ok(DataType::List(item)) => SqlType::range_of(item.data_type()),
        _ => None,
    };
    let Some(of) = args.iter().find_map(of_ranges) else {
        return Ok(false);
    };
    let mut changed = false;
    for own in args.iter_mut().filter(|own| is_unknown(own)) {
        *own = typed(std::mem::take(own), of);
        changed = true;
    }
    Ok(changed)
}

fn is_candidate(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(cast) => casts::is_doubtful(cast),
        Expr::IsTrue(_) | Expr::IsFalse(_) | Expr::IsUnknown(_) => true,
        Expr::IsNotTrue(_) | Expr::IsNotFalse(_) | Expr::IsNotUnknown(_) => true,
        Expr::InList(_) | Expr::InSubquery(_) | Expr::Between(_) | Expr::Like(_) | Expr::Case(_) => true,
        Expr::ScalarFunction(call) => {
            call.name() == "nullif"
                || of_one_type(call.name()).is_some()
                || OF_ITEMS.contains(&call.name())
                || items::is_candidate(call.name())
                || quantified::operator(call.name()).is_some()
        }
        Expr::BinaryExpr(binary) => matches!(binary.op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom),
        Expr::WindowFunction(call) => has_default(call),
        _ => false,
    }
}

/// What to say where types do not meet.
#[derive(Clone, Copy)]
enum Place {
    Operator(&'static str),
    Common(&'static str),
}

fn rewrite_expr(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let equal = Place::Operator("=");
    Ok(match expr {
        Expr::BinaryExpr(mut binary) if matches!(binary.op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom) => {
            let strings = pairs::pair(&mut binary.left, &mut binary.right, schema);
            let changed = strings || unify(vec![&mut binary.left, &mut binary.right], schema, equal)?.0;
            Transformed::new_transformed(Expr::BinaryExpr(binary), changed)
        }
        Expr::InList(list) => {
            let mut list = match pairs::in_list(list, schema) {
                strings if strings.transformed => return Ok(strings),
                Transformed {
                    data: Expr::InList(list),
                    ..
                } => list,
                other => return Ok(other),
            };
            let mut all: Vec<&mut Expr> = vec![&mut list.expr];
            all.extend(&mut list.list);
            let op = if list.negated { "<>" } else { "=" };
            let changed = unify(all, schema, Place::Operator(op))?.0;
            Transformed::new_transformed(Expr::InList(list), changed)
        }
        Expr::InSubquery(within) => {
            let within = sets::within(within, schema)?;
            within.update_data(Expr::InSubquery)
        }
        Expr::Between(between) => {
            let mut between = match pairs::between(between, schema) {
                strings if strings.transformed => return Ok(strings),
                Transformed {
                    data: Expr::Between(between),
                    ..
                } => between,
                other => return Ok(other),
            };
            let all = vec![&mut *between.expr, &mut *between.low, &mut *between.high];
            let op = if between.negated { "<" } else { ">=" };
            let changed = unify(all, schema, Place::Operator(op))?.0;
            Transformed::new_transformed(Expr::Between(between), changed)
        }
        Expr::Cast(cast) => {
            if casts::is_doubtful(&cast) {
                casts::check(&cast, schema)?;
            }
            Transformed::no(Expr::Cast(cast))
        }
        Expr::ScalarFunction(mut call) if OF_ITEMS.contains(&call.name()) => {
            let changed = with_items(&mut call.args, schema)?;
            match changed || !items::is_candidate(call.name()) {
                true => Transformed::new_transformed(Expr::ScalarFunction(call), changed),
                false => items::call(call, schema),
            }
        }
        Expr::ScalarFunction(call) if items::is_candidate(call.name()) => items::call(call, schema),
        Expr::IsTrue(inner) => tested(inner, schema, "IS TRUE", Expr::IsTrue)?,
        Expr::IsNotTrue(inner) => tested(inner, schema, "IS NOT TRUE", Expr::IsNotTrue)?,
        Expr::IsFalse(inner) => tested(inner, schema, "IS FALSE", Expr::IsFalse)?,
        Expr::IsNotFalse(inner) => tested(inner, schema, "IS NOT FALSE", Expr::IsNotFalse)?,
        Expr::IsUnknown(inner) => tested(inner, schema, "IS UNKNOWN", Expr::IsUnknown)?,
        Expr::IsNotUnknown(inner) => tested(inner, schema, "IS NOT UNKNOWN", Expr::IsNotUnknown)?,
        Expr::Like(own) => like::matched(own, schema)?,
        Expr::Case(mut case) => {
            let based = case.expr.is_some();
            let mut conditions = case.when_then_expr.iter().filter(|_| !based);
            let wrong = conditions.find_map(|(when, _)| known(when, schema));
            if let Some(of) = wrong.filter(|of| group(*of) != Group::Bool) {
                return Err(not_boolean("CASE/WHEN", of));
            }
            // The type of ELSE is looked at first.
            let mut results: Vec<&mut Expr> = case.else_expr.as_deref_mut().into_iter().collect();
            results.extend(case.when_then_expr.iter_mut().map(|(_, then)| &mut **then));
            let (mut changed, of) = unify(results, schema, Place::Common("CASE"))?;
            if based {
                changed |= pairs::case(&mut case, schema) || unify(compared(&mut case), schema, equal)?.0;
            }
            let mut results: Vec<&mut Expr> = case.else_expr.as_deref_mut().into_iter().collect();
            results.extend(case.when_then_expr.iter_mut().map(|(_, then)| &mut **then));
            let string = strings::unify(results, schema);
            let without = case.else_expr.is_none();
            match string.or(of.filter(|of| *of == SqlType::Json)) {
                Some(of) => {
                    let chosen = strings::as_type(Expr::Case(case), of);
                    // Without ELSE it may be NULL, a literal.
                    Transformed::yes(match without && strings::is_blank(of) {
                        true => strings::as_type(chosen, SqlType::Bpchar),
                        false => chosen,
                    })
                }
                None => Transformed::new_transformed(Expr::Case(case), changed),
            }
        }
        Expr::ScalarFunction(mut call) => {
            if let Some(op) = quantified::operator(call.name()) {
                return quantified::compared(call, op, schema);
            }
            let place = match of_one_type(call.name()) {
                Some(name) => Place::Common(name),
                None if call.name() == "nullif" => {
                    if let Some(compared) = pairs::nullif(&call.args, schema)? {
                        return Ok(Transformed::yes(compared));
                    }
                    match nullif_of_moments(&call.args, schema)? {
                        Some(compared) => return Ok(Transformed::yes(compared)),
                        None => equal,
                    }
                }
                None => return Ok(Transformed::no(Expr::ScalarFunction(call))),
            };
            let (mut changed, of) = unify(call.args.iter_mut().collect(), schema, place)?;
            let string = match place {
                Place::Common(_) => strings::unify(call.args.iter_mut().collect(), schema),
                Place::Operator(_) => None,
            };
            // Before the function is one that takes no numerics beside other numbers.
            let numbers = crate::pg::numeric::unify::rewrite_expr(Expr::ScalarFunction(call), schema)?;
            changed |= numbers.transformed;
            let mut expr = numbers.data;
            if let Expr::ScalarFunction(call) = &mut expr
                && let Some(original) = common::original(&call.func)
            {
                call.func = original;
                changed = true;
            }
            match string.or(of.filter(|of| *of == SqlType::Json)) {
                Some(of) => Transformed::yes(strings::as_type(expr, of)),
                None => Transformed::new_transformed(expr, changed),
            }
        }
        Expr::WindowFunction(call) if has_default(&call) => with_default(call, schema),
        other => Transformed::no(other),
    })
}

/// What a CASE compares.
fn compared(case: &mut Case) -> Vec<&mut Expr> {
    let mut all: Vec<&mut Expr> = case.expr.as_deref_mut().into_iter().collect();
    all.extend(case.when_then_expr.iter_mut().map(|(when, _)| &mut **when));
    all
}

/// Gives literals the type of the others; whether there were any, and that type where all others have one.
fn unify(exprs: Vec<&mut Expr>, schema: &DFSchema, place: Place) -> Result<(bool, Option<SqlType>)> {
    let mut found: Option<SqlType> = None;
    for expr in &exprs {
        if is_unknown(expr) {
            continue;
        }
        let Some(own) = known(expr, schema) else {
            if let Place::Operator(op) = place {
                arrays::meet(&exprs, schema, op)?;
            }
            return Ok((arrays::beside(exprs, schema), None));
        };
        found = Some(match found {
            None => own,
            Some(earlier) => match place {
                Place::Common(_) => common_type(earlier, own),
                Place::Operator(_) => type_of_two(earlier, own),
            }
            .ok_or_else(|| apart(place, earlier, own))?,
        });
    }
    let wanted = found.filter(|found| match found {
        // A literal keeps its blanks beside it where it is not compared.
        SqlType::CharOf(_) | SqlType::Bpchar => matches!(place, Place::Operator(_)),
        SqlType::Name => true,
        other => group(*other) != Group::String,
    });
    let Some(wanted) = wanted else {
        return Ok((false, found));
    };
    let mut changed = false;
    for expr in exprs {
        if is_unknown(expr) {
            *expr = typed(std::mem::take(expr), wanted);
            changed = true;
        } else if let Some(own) = known(expr, schema).filter(|own| becomes(*own, wanted)) {
            *expr = become_of(std::mem::take(expr), own, wanted);
            changed = true;
        }
    }
    Ok((changed, found))
}

/// The type that values of two have together.
pub(crate) fn common_type(a: SqlType, b: SqlType) -> Option<SqlType> {
    match group(a) == Group::String && group(b) == Group::String {
        true => Some(strings::of_two(a, b)),
        false => type_of_two(a, b),
    }
}

/// The type in which two are compared.
pub(super) fn type_of_two(a: SqlType, b: SqlType) -> Option<SqlType> {
    let rank = |of: SqlType| match of {
        SqlType::Int2 | SqlType::Date => 0,
        SqlType::Int4 | SqlType::Timestamp => 1,
        SqlType::Int8 | SqlType::TimestampTz => 2,
        SqlType::Numeric | SqlType::NumericOf(..) | SqlType::NumericWide(..) => 3,
        SqlType::Float4 => 4,
        SqlType::Float8 => 5,
        SqlType::CharOf(_) | SqlType::Bpchar => 0,
        SqlType::VarcharOf(_) | SqlType::Varchar | SqlType::VarBit | SqlType::Inet | SqlType::TimeTz => 1,
        SqlType::Text => 2,
        _ => 0,
    };
    if group(a) != group(b) {
        return None;
    }
    Some(if rank(b) > rank(a) { b } else { a })
}

fn apart(place: Place, a: SqlType, b: SqlType) -> DataFusionError {
    match place {
        Place::Operator(op) => undefined(op, Some(a), Some(b)),
        Place::Common(what) => unmatched(what, a, b),
    }
}

pub(crate) fn unmatched(what: &str, a: SqlType, b: SqlType) -> DataFusionError {
    let message = format!("{what} types {} and {} cannot be matched", name(Some(a)), name(Some(b)));
    to_datafusion(SqlError::new(state::DATATYPE_MISMATCH, message))
}
