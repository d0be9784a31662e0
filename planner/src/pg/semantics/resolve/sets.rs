//! The columns of UNION, INTERSECT and EXCEPT, and of the subqueries after IN.

use super::becoming::{become_of, becomes};
use super::neighbours::{common_type, unmatched};
use super::strings::{as_type, is_blank};
use super::{Group, group, is_unknown, known, known_of, name, typed, undefined};
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::functions::text;
use crate::pg::rewrite::displayed_name;
use crate::pg::types::planner::WRITTEN;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, Result};
use datafusion::functions::string;
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection, RecursiveQuery, Union, cast, lit};
use std::sync::Arc;
use tenon_storage::SqlType;

/// 42883 where `=` takes no value of a subquery's column beside what stands before IN. Beside a `char(n)` the blanks at the
/// end of a varchar do not count, and beside a float not the digits of a numeric that floats lack; dates beside times become such.
pub(super) fn within(mut within: InSubquery, schema: &DFSchema) -> Result<Transformed<InSubquery>> {
    let inner = &within.subquery.subquery;
    let Some(column) = inner.schema().columns().into_iter().next() else {
        return Ok(Transformed::no(within));
    };
    let asked = match literal_column(inner, 0) {
        // A subquery's literals are texts by the time that they are compared.
        true => Some(SqlType::Text),
        false => known(&Expr::Column(column.clone()), inner.schema()),
    };
    if is_unknown(&within.expr)
        && let Some(asked) = asked.filter(|asked| is_blank(*asked))
    {
        *within.expr = typed(std::mem::take(&mut *within.expr), asked);
        return Ok(Transformed::yes(within));
    }
    let (Some(own), Some(asked)) = (known(&within.expr, schema), asked) else {
        return Ok(Transformed::no(within));
    };
    if group(own) != group(asked) {
        return Err(undefined("=", Some(own), Some(asked)));
    }
    let name = column.name.clone();
    let is_float = |of| matches!(of, SqlType::Float4 | SqlType::Float8);
    let is_numeric = |of| matches!(of, SqlType::Numeric | SqlType::NumericOf(..) | SqlType::NumericWide(..));
    let value = match (own, asked) {
        (SqlType::CharOf(_) | SqlType::Bpchar, SqlType::Varchar | SqlType::VarcharOf(_)) => {
            trimmed(Expr::Column(column))
        }
        (SqlType::Varchar | SqlType::VarcharOf(_), SqlType::CharOf(_) | SqlType::Bpchar) => {
            *within.expr = trimmed(*within.expr);
            return Ok(Transformed::yes(within));
        }
        // A numeric and a float are compared as floats.
        _ if is_float(own) && is_numeric(asked) || is_numeric(own) && is_float(asked) => {
            within.expr = Box::new(cast(*within.expr, DataType::Float64));
            cast(Expr::Column(column), DataType::Float64)
        }
        _ if becomes(own, asked) => {
            *within.expr = become_of(*within.expr, own, asked);
            return Ok(Transformed::yes(within));
        }
        _ if becomes(asked, own) => become_of(Expr::Column(column), asked, own),
        _ => return Ok(Transformed::no(within)),
    };
    let value = value.alias(name);
    let projection = Projection::try_new(vec![value], inner.clone())?;
    within.subquery.subquery = Arc::new(LogicalPlan::Projection(projection));
    Ok(Transformed::yes(within))
}

/// Columns of a union get one type: literals that of the others, strings beside a `char(n)` that of the first, and networks beside
/// addresses are such.
pub(super) fn union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let width = union.inputs.first().map_or(0, |input| input.schema().fields().len());
    if union.inputs.iter().any(|input| input.schema().fields().len() != width) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let mut types: Vec<Option<SqlType>> = Vec::with_capacity(width);
    let mut blanks: Vec<Option<Blanks>> = Vec::with_capacity(width);
    for at in 0..width {
        let mut found: Option<SqlType> = None;
        let mut first: Option<SqlType> = None;
        let mut other = false;
        let mut alike = true;
        let mut padded = false;
        for input in &union.inputs {
            if literal_column(input, at) {
                alike = false;
                continue;
            }
            let own = column_type(input, at);
            match (found, own) {
                (_, None) => other = true,
                (None, Some(own)) => (found, first) = (Some(own), Some(own)),
                (Some(earlier), Some(own)) => {
                    alike &= first == Some(own);
                    found = Some(common_type(earlier, own).ok_or_else(|| unmatched("UNION", earlier, own))?);
                }
            }
            padded |= own.is_some_and(is_blank);
        }
        blanks.push(match first {
            Some(first) if padded && !alike && !other => Some(match first {
                SqlType::CharOf(_) | SqlType::Bpchar => Blanks::Kept,
                _ => Blanks::OfTexts,
            }),
            _ => None,
        });
        types.push(found.filter(|found| !other && group(*found) != Group::String));
    }
    let wanted = |input: &LogicalPlan| (0..width).any(|at| types[at].is_some() && literal_column(input, at));
    let mixed = blanks.iter().any(Option::is_some);
    let others = |at: usize| {
        let mut inputs = union.inputs.iter();
        inputs.any(|input| becomes_at(input, at, &types))
    };
    let some_become = (0..width).any(others);
    if !mixed && !some_become && !union.inputs.iter().any(|input| wanted(input)) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let inputs = union.inputs.iter().map(|input| {
        let input = match input.as_ref() {
            LogicalPlan::Projection(projection) if wanted(input) => {
                let exprs = projection.expr.iter().zip(&types).map(|(expr, to)| match to {
                    Some(to) => in_projection(expr.clone(), *to),
                    None => expr.clone(),
                });
                let projection = Projection::try_new(exprs.collect(), projection.input.clone())?;
                Arc::new(LogicalPlan::Projection(projection))
            }
            _ => input.clone(),
        };
        let input = with_types(input, &types)?;
        match mixed {
            true => with_blanks(input, &blanks),
            false => Ok(input),
        }
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(
        inputs,
    )?)))
}

/// Which blanks at the end of strings count in a union of `char(n)` and others.
#[derive(Clone, Copy, PartialEq)]
enum Blanks {
    /// The first is a `char(n)` or `bpchar`, and so are all.
    Kept,
    /// The first is a text or varchar, and so are all.
    OfTexts,
}

fn with_blanks(input: Arc<LogicalPlan>, blanks: &[Option<Blanks>]) -> Result<Arc<LogicalPlan>> {
    let columns = input.schema().columns().into_iter().zip(blanks).enumerate();
    let exprs = columns.map(|(at, (column, blanks))| {
        let Some(blanks) = blanks else {
            return Expr::Column(column);
        };
        let (qualifier, name) = (column.relation.clone(), column.name.clone());
        let column = Expr::Column(column);
        let own = column_type(&input, at);
        let value = match (blanks, own) {
            (Blanks::Kept, _) => as_type(column, SqlType::Bpchar),
            (Blanks::OfTexts, Some(SqlType::CharOf(_))) => text::unpadded().call(vec![column]),
            (Blanks::OfTexts, Some(SqlType::Bpchar)) => trimmed(column),
            (Blanks::OfTexts, _) => return column,
        };
        value.alias_qualified(qualifier, name)
    });
    let projection = Projection::try_new(exprs.collect(), input.clone())?;
    Ok(Arc::new(LogicalPlan::Projection(projection)))
}

/// Whether a column's values become such of the type that is wanted there.
fn becomes_at(input: &LogicalPlan, at: usize, types: &[Option<SqlType>]) -> bool {
    let own = column_type(input, at).filter(|_| !literal_column(input, at));
    own.zip(types[at]).is_some_and(|(own, wanted)| becomes(own, wanted))
}

/// Networks in columns of addresses, and dates and timestamps in those of points in time.
fn with_types(input: Arc<LogicalPlan>, types: &[Option<SqlType>]) -> Result<Arc<LogicalPlan>> {
    if !(0..types.len()).any(|at| becomes_at(&input, at, types)) {
        return Ok(input);
    }
    let columns = input.schema().columns().into_iter().enumerate();
    let exprs = columns.map(
        |(at, column)| match (becomes_at(&input, at, types), column_type(&input, at), types[at]) {
            (true, Some(own), Some(wanted)) => {
                let (qualifier, name) = (column.relation.clone(), column.name.clone());
                become_of(Expr::Column(column), own, wanted).alias_qualified(qualifier, name)
            }
            _ => Expr::Column(column),
        },
    );
    let projection = Projection::try_new(exprs.collect(), input.clone())?;
    Ok(Arc::new(LogicalPlan::Projection(projection)))
}

fn trimmed(expr: Expr) -> Expr {
    string::rtrim().call(vec![expr, lit(" ")])
}

/// INTERSECT and EXCEPT are joins. Beside a `char(n)` on their left, a string's blanks do not count; networks beside addresses are
/// such, and numbers of two types are of the wider one.
pub(super) fn blankless(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let of_sets = matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull;
    let mut changed = false;
    if of_sets {
        changed = of_one_type(&mut join)?;
        for (left, right) in &mut join.on {
            let types = (known(left, join.left.schema()), known(right, join.right.schema()));
            let string = types
                .1
                .is_none_or(|of| group(of) == Group::String && !matches!(of, SqlType::CharOf(_)));
            if let (Some(of), Expr::Column(column)) = (types.0.filter(|of| of.is_range()), &*right)
                && let Some(typed) = with_type(&join.right, column, of)?
            {
                join.right = typed;
                changed = true;
            }
            if matches!(types.0, Some(SqlType::CharOf(_))) && string && !is_trimmed(right) {
                *right = trimmed(std::mem::take(right));
                changed = true;
            }
        }
    }
    Ok(Transformed::new_transformed(LogicalPlan::Join(join), changed))
}

/// Makes addresses of the networks that a set operation compares with such, and points in time of dates and timestamps; whether
/// there were any.
fn of_one_type(join: &mut Join) -> Result<bool> {
    let mut changed = false;
    let pairs = join.on.clone();
    for (left, right) in &pairs {
        let types = (known(left, join.left.schema()), known(right, join.right.schema()));
        if let (Some(own), Some(other), Expr::Column(left), Expr::Column(right)) = (types.0, types.1, left, right)
            && group(own) == Group::Number
            && own != other
            && let Some(to) = common_type(own, other)
        {
            for (side, column, own) in [(&mut join.left, left, own), (&mut join.right, right, other)] {
                if own != to {
                    *side = with_column(side, column, |number| as_type(number, to))?;
                }
            }
            changed = true;
            continue;
        }
        let (side, column, own, to) = match types {
            (Some(own), Some(other)) if becomes(own, other) => (&mut join.left, left, own, other),
            (Some(other), Some(own)) if becomes(own, other) => (&mut join.right, right, own, other),
            _ => continue,
        };
        let Expr::Column(column) = column else { continue };
        *side = with_column(side, column, |value| become_of(value, own, to))?;
        changed = true;
    }
    Ok(changed)
}

/// The input with another value in one of its columns.
fn with_column(input: &Arc<LogicalPlan>, column: &Column, value: impl Fn(Expr) -> Expr) -> Result<Arc<LogicalPlan>> {
    let exprs = input.schema().columns().into_iter().map(|own| match own == *column {
        true => value(Expr::Column(own)).alias_qualified(column.relation.clone(), &column.name),
        false => Expr::Column(own),
    });
    let projection = Projection::try_new(exprs.collect(), input.clone())?;
    Ok(Arc::new(LogicalPlan::Projection(projection)))
}

/// A query's literal as a value of the type that it is compared with, which DataFusion has no cast to; None: it is none.
fn with_type(input: &Arc<LogicalPlan>, column: &Column, of: SqlType) -> Result<Option<Arc<LogicalPlan>>> {
    let (LogicalPlan::Projection(projection), Some(at)) =
        (input.as_ref(), input.schema().maybe_index_of_column(column))
    else {
        return Ok(None);
    };
    if !literal_column(input, at) {
        return Ok(None);
    }
    let exprs = projection.expr.iter().enumerate().map(|(own, expr)| match own == at {
        true => in_projection(expr.clone(), of),
        false => expr.clone(),
    });
    let projection = Projection::try_new(exprs.collect(), projection.input.clone())?;
    Ok(Some(Arc::new(LogicalPlan::Projection(projection))))
}

fn is_trimmed(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(_))
}

fn column_type(input: &LogicalPlan, at: usize) -> Option<SqlType> {
    let column = input.schema().columns().into_iter().nth(at)?;
    known(&Expr::Column(column), input.schema())
}

fn literal_column(input: &LogicalPlan, at: usize) -> bool {
    match input {
        LogicalPlan::Projection(projection) => projection
            .expr
            .get(at)
            .is_some_and(|expr| is_unknown(&expr.clone().unalias())),
        _ => false,
    }
}

fn in_projection(expr: Expr, to: SqlType) -> Expr {
    let name = expr.schema_name().to_string();
    match expr {
        Expr::Alias(alias) if is_unknown(&alias.expr) => {
            typed(*alias.expr, to).alias_qualified(alias.relation, alias.name)
        }
        other if is_unknown(&other) => typed(other, to).alias(name),
        other => other,
    }
}

/// 42804 where the recursive term has numbers that the other term's type does not hold: DataFusion would convert them.
pub(super) fn recursion(query: &RecursiveQuery) -> Result<()> {
    let LogicalPlan::Projection(projection) = query.recursive_term.as_ref() else {
        return Ok(());
    };
    let fields = query.static_term.schema().fields();
    for (at, (field, expr)) in fields.iter().zip(&projection.expr).enumerate() {
        let mut expr = expr;
        while let Expr::Alias(alias) = expr {
            expr = &alias.expr;
        }
        let Expr::Cast(cast) = expr else { continue };
        if cast.field.name() == WRITTEN {
            continue;
        }
        let whole = |of: SqlType| matches!(of, SqlType::Int2 | SqlType::Int4 | SqlType::Int8);
        let types = (known_of(field), known(&cast.expr, projection.input.schema()));
        if let (Some(own), Some(next)) = types
            && whole(own)
            && group(next) == Group::Number
            && !whole(next)
        {
            let message = format!(
                "recursive query \"{}\" column {} has type {} in non-recursive term but type {} overall",
                displayed_name(&query.name),
                at + 1,
                name(Some(own)),
                name(Some(next))
            );
            return Err(to_datafusion(
                SqlError::new(state::DATATYPE_MISMATCH, message)
                    .hint("Cast the output of the non-recursive term to the correct type."),
            ));
        }
    }
    Ok(())
}
