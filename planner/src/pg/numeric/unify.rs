//! Expressions that get one type: branches, lists, unions, what is compared. Runs before DataFusion's type coercion,
//! which knows no numerics, and would make one scale of all: a float beside a numeric stays a float, and exact numbers of
//! different types become numerics, each value with its own digits.

use super::convert::to_numeric;
use super::floats::{beside_reals, floats_of};
use super::operators::{self, as_float, plain};
use super::sums::decimals_in_sums;
use super::{Class, compare, digits, equal};
use crate::pg::named;
use crate::pg::occurring::only_columns;
use crate::pg::semantics::fields;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Case, InList};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, Projection, Union, cast, lit, when};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// Functions whose arguments become one type.
pub(crate) const OF_ONE_TYPE: [&str; 3] = ["coalesce", "greatest", "least"];

#[derive(Debug)]
pub(crate) struct NumbersOfOneType;

impl AnalyzerRule for NumbersOfOneType {
    fn name(&self) -> &str {
        "numbers_of_one_type"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut changed = false;
        let plan = plan.transform_up_with_subqueries(|node| {
            let node = rewrite_node(node)?;
            changed |= node.transformed;
            if !changed {
                return Ok(node);
            }
            Ok(Transformed::yes(match node.data {
                // Its types are those of its first input when it was made.
                LogicalPlan::Union(union) => LogicalPlan::Union(Union::try_new_with_loose_types(union.inputs)?),
                other => other.recompute_schema()?,
            }))
        })?;
        Ok(plan.data)
    }
}

fn rewrite_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::Union(union) = node {
        return rewrite_union(union);
    }
    if only_columns(&node)? {
        return equal::rewrite(node);
    }
    let schema = merge_schema(&node.inputs());
    let rewritten = named::map_expressions(node, |expr| {
        expr.transform_down_up(
            |expr| Ok(decimals_in_sums(expr, &schema)),
            |expr| rewrite_expr(expr, &schema),
        )
    })?;
    rewritten.transform_data(equal::rewrite)
}

pub(crate) fn rewrite_expr(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(mut binary) => {
            if matches!(binary.op, Operator::And | Operator::Or) {
                return Ok(Transformed::no(Expr::BinaryExpr(binary)));
            }
            let (Ok(left), Ok(right)) = (
                fields::data_type(&binary.left, schema),
                fields::data_type(&binary.right, schema),
            ) else {
                return Ok(Transformed::no(Expr::BinaryExpr(binary)));
            };
            if let Some(planned) = operators::binary(binary.op, &binary.left, &binary.right, (&left, &right))? {
                return Ok(Transformed::new_transformed(
                    planned.clone(),
                    planned != Expr::BinaryExpr(binary),
                ));
            }
            let changed =
                operators::is_comparison(binary.op) && to_floats(vec![&mut binary.left, &mut binary.right], schema);
            Ok(Transformed::new_transformed(Expr::BinaryExpr(binary), changed))
        }
        Expr::Negative(inner) if is_numeric(&inner, schema) => Ok(Transformed::yes(operators::negated(*inner))),
        Expr::InList(list) => in_list(list, schema),
        Expr::Between(mut between) => {
            let mut all = [&mut *between.expr, &mut between.low, &mut between.high];
            let numeric = by_keys(all.iter().map(|expr| &**expr), schema);
            if to_floats(all.iter_mut().map(|expr| &mut **expr).collect(), schema) || !numeric {
                return Ok(Transformed::new_transformed(Expr::Between(between), numeric));
            }
            let compared = |op, bound: &Expr| compared(op, &between.expr, bound, schema);
            let inside = compared(Operator::GtEq, &between.low)?.and(compared(Operator::LtEq, &between.high)?);
            Ok(Transformed::yes(match between.negated {
                true => Expr::Not(Box::new(inside)),
                false => inside,
            }))
        }
        Expr::Case(case) => rewrite_case(case, schema),
        Expr::ScalarFunction(call) if call.name() == "nullif" && call.args.len() == 2 => {
            let types: Vec<_> = call
                .args
                .iter()
                .filter_map(|arg| fields::data_type(arg, schema).ok())
                .collect();
            let exact = types.len() == 2 && types.iter().all(|own| Class::of(own).is_exact());
            if !exact || types[0] == types[1] && types[0] != tenon_storage::types::NUMERIC {
                let mut call = call;
                if types.len() == 2 && types[0] == DataType::Float32 && types[0] != types[1] {
                    // What it gives is the first as it was.
                    let first = call.args[0].clone();
                    to_floats(call.args.iter_mut().collect(), schema);
                    let equal = plain(Operator::Eq, call.args.remove(0), call.args.remove(0));
                    let null = lit(datafusion::common::ScalarValue::Float32(None));
                    return Ok(Transformed::yes(when(equal, null).otherwise(first)?));
                }
                let changed = to_floats(call.args.iter_mut().collect(), schema);
                return Ok(Transformed::new_transformed(Expr::ScalarFunction(call), changed));
            }
            let equal = compared(Operator::Eq, &call.args[0], &call.args[1], schema)?;
            // An integer is compared as a numeric beside one, and so that is what there is.
            let (first, own) = match (Class::of(&types[0]), Class::of(&types[1])) {
                (Class::Integer, Class::Decimal | Class::Numeric) => (
                    to_numeric(call.args[0].clone(), &types[0])?,
                    tenon_storage::types::NUMERIC,
                ),
                _ => (call.args[0].clone(), types[0].clone()),
            };
            let null = lit(datafusion::common::ScalarValue::try_from(&own)?);
            Ok(Transformed::yes(when(equal, null).otherwise(first)?))
        }
        Expr::ScalarFunction(mut call) if OF_ONE_TYPE.contains(&call.name()) => {
            let mut changed = to_one_type(call.args.iter_mut().collect(), schema)?;
            if let Some(of_numerics) = compare::extreme_of(call.name())
                && call.args.iter().all(|arg| is_numeric(arg, schema))
            {
                call.func = of_numerics;
                changed = true;
            }
            Ok(Transformed::new_transformed(Expr::ScalarFunction(call), changed))
        }
        // The value and its default.
        Expr::WindowFunction(mut call) if matches!(call.fun.name(), "lag" | "lead") && call.params.args.len() == 3 => {
            let mut changed = false;
            if let [value, _, default] = call.params.args.as_mut_slice() {
                changed = to_one_type(vec![value, default], schema)?;
            }
            let keyed = equal::rewrite_expr(Expr::WindowFunction(call), schema)?;
            Ok(Transformed::new_transformed(keyed.data, changed || keyed.transformed))
        }
        mut other => {
            let floats = match &mut other {
                Expr::ScalarFunction(call) => floats_of(call.func.name(), &mut call.args, schema),
                Expr::AggregateFunction(call) => floats_of(call.func.name(), &mut call.params.args, schema),
                Expr::WindowFunction(call) => floats_of(call.fun.name(), &mut call.params.args, schema),
                _ => false,
            };
            let keyed = equal::rewrite_expr(other, schema)?;
            Ok(Transformed::new_transformed(keyed.data, floats || keyed.transformed))
        }
    }
}

/// `left op right`, of types that DataFusion compares or that are compared here.
fn compared(op: Operator, left: &Expr, right: &Expr, schema: &DFSchema) -> Result<Expr> {
    let types = (fields::data_type(left, schema)?, fields::data_type(right, schema)?);
    let planned = operators::binary(op, left, right, (&types.0, &types.1))?;
    Ok(planned.unwrap_or_else(|| plain(op, left.clone(), right.clone())))
}

pub(super) fn is_numeric(expr: &Expr, schema: &DFSchema) -> bool {
    fields::data_type(expr, schema).is_ok_and(|own| own == tenon_storage::types::NUMERIC)
}

/// Whether exact numbers are compared by their keys: numerics are, and what no decimal holds together.
fn by_keys<'a>(exprs: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> bool {
    let types: Vec<(DataType, bool)> = exprs
        .filter_map(|expr| Some((fields::data_type(expr, schema).ok()?, operators::is_constant(expr))))
        .collect();
    let types: Vec<(&DataType, bool)> = types.iter().map(|(own, constant)| (own, *constant)).collect();
    types.iter().any(|(own, _)| **own == tenon_storage::types::NUMERIC) || operators::no_decimal(&types)
}

/// The same of two that are asked for being equal.
pub(super) fn pair_by_keys(left: (&Expr, &DFSchema), right: (&Expr, &DFSchema)) -> bool {
    let types = (fields::data_type(left.0, left.1), fields::data_type(right.0, right.1));
    let (Ok(own), Ok(other)) = types else { return false };
    let numeric = tenon_storage::types::NUMERIC;
    own == numeric || other == numeric || operators::no_decimal(&[(&own, false), (&other, false)])
}

fn in_list(mut list: InList, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut all: Vec<&mut Expr> = vec![&mut list.expr];
    all.extend(&mut list.list);
    let numeric = by_keys(all.iter().map(|expr| &**expr), schema);
    // One value is compared, several are an array of one type.
    let float = match all.len() > 2 && !all[1..].iter().any(|expr| expr.any_column_refs()) {
        true => float_of(all.iter().filter_map(|expr| fields::data_type(expr, schema).ok())),
        false => DataType::Float64,
    };
    if all.len() > 2 && float == DataType::Float32 && beside_reals(&mut all, schema) {
        return Ok(Transformed::yes(Expr::InList(list)));
    }
    if to_float(all.iter_mut().map(|expr| &mut **expr).collect(), schema, &float) {
        return Ok(Transformed::yes(Expr::InList(list)));
    }
    if !numeric {
        return Ok(Transformed::no(Expr::InList(list)));
    }
    for expr in all {
        *expr = keyed(expr, schema)?;
    }
    Ok(Transformed::yes(Expr::InList(list)))
}

/// The key of an exact number or a text.
pub(super) fn keyed(expr: &Expr, schema: &DFSchema) -> Result<Expr> {
    let own = fields::data_type(expr, schema)?;
    Ok(compare::key(to_numeric(expr.clone(), &own)?))
}

fn rewrite_case(mut case: Case, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut results: Vec<&mut Expr> = Vec::new();
    let mut compared: Vec<&mut Expr> = Vec::new();
    for (when, then) in &mut case.when_then_expr {
        compared.push(when);
        results.push(then);
    }
    results.extend(case.else_expr.as_deref_mut());
    let mut changed = to_one_type(results, schema)?;
    if let Some(base) = case.expr.as_deref_mut() {
        compared.push(base);
        let numeric = by_keys(compared.iter().map(|expr| &**expr), schema);
        let float = compared
            .iter()
            .any(|expr| fields::data_type(expr, schema).is_ok_and(|own| own.is_floating()));
        changed |= to_floats(compared.iter_mut().map(|expr| &mut **expr).collect(), schema);
        if numeric && !float {
            for expr in compared {
                *expr = keyed(expr, schema)?;
            }
            changed = true;
        }
    }
    Ok(Transformed::new_transformed(Expr::Case(case), changed))
}

fn narrowed(float: Expr, to: &DataType) -> Expr {
    match to {
        DataType::Float32 => cast(float, DataType::Float32),
        _ => float,
    }
}

/// The float that numbers become where they get one type.
fn float_of(mut types: impl Iterator<Item = impl std::borrow::Borrow<DataType>>) -> DataType {
    match types.any(|own| *own.borrow() == DataType::Float64) {
        true => DataType::Float64,
        false => DataType::Float32,
    }
}

/// Converts the exact numbers among expressions that are compared to floats, where one of them is a float.
fn to_floats(exprs: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    to_float(exprs, schema, &DataType::Float64)
}

pub(super) fn to_float(exprs: Vec<&mut Expr>, schema: &DFSchema, to: &DataType) -> bool {
    let types: Vec<Option<DataType>> = exprs.iter().map(|expr| fields::data_type(expr, schema).ok()).collect();
    let float = types.iter().flatten().any(DataType::is_floating);
    // Beside `real`, integers are doubles, too, where a float of 32 bits would not hold them.
    let real = *to == DataType::Float64 && types.iter().flatten().any(|own| *own == DataType::Float32);
    let mut changed = false;
    for (expr, own) in exprs.into_iter().zip(types) {
        match own.as_ref().map(Class::of) {
            Some(Class::Integer) if real && own.is_some_and(|own| !operators::fits_real(expr, &own)) => {
                *expr = cast(std::mem::take(expr), DataType::Float64);
            }
            Some(Class::Decimal) if float => *expr = cast(std::mem::take(expr), to.clone()),
            Some(Class::Numeric) if float => *expr = narrowed(as_float(std::mem::take(expr)), to),
            _ => continue,
        }
        changed = true;
    }
    changed
}

/// Whether all are exact numbers, a decimal or a numeric among them.
pub(crate) fn are_decimals(types: &[DataType]) -> bool {
    types.iter().all(|own| Class::of(own).is_exact()) && types.iter().any(|own| Class::of(own) != Class::Integer)
}

/// Whether exact numbers of these types share none of them that shows each value as it is.
pub(crate) fn differ(types: &[DataType]) -> bool {
    let exact = || types.iter().filter(|own| !own.is_null());
    let classes = || exact().map(Class::of);
    let broad = classes().any(|class| matches!(class, Class::Decimal | Class::Numeric));
    let scales = || exact().map(digits).map(|digits| digits.map(|(_, scale)| scale));
    broad
        && classes().all(Class::is_exact)
        && (classes().any(|class| class == Class::Integer || class == Class::Numeric)
            || scales().zip(scales().skip(1)).any(|(a, b)| a != b))
        && exact().zip(exact().skip(1)).any(|(a, b)| a != b)
}

fn to_one_type(exprs: Vec<&mut Expr>, schema: &DFSchema) -> Result<bool> {
    let types: Vec<Option<DataType>> = exprs.iter().map(|expr| fields::data_type(expr, schema).ok()).collect();
    if types.iter().flatten().any(DataType::is_floating) {
        let float = float_of(types.iter().flatten());
        let mut changed = false;
        for (expr, own) in exprs.into_iter().zip(types) {
            let own = own.filter(|own| *own != float);
            *expr = match own.as_ref().map(Class::of) {
                Some(Class::Integer | Class::Decimal | Class::Float) => cast(std::mem::take(expr), float.clone()),
                Some(Class::Numeric) => narrowed(as_float(std::mem::take(expr)), &float),
                _ => continue,
            };
            changed = true;
        }
        return Ok(changed);
    }
    let texts = |own: &DataType| Class::of(own) == Class::Text;
    let numbers: Vec<DataType> = types.iter().flatten().filter(|own| !texts(own)).cloned().collect();
    let some_text = types.iter().flatten().any(texts);
    let numeric = numbers.contains(&tenon_storage::types::NUMERIC);
    if !(differ(&numbers) || numeric && some_text) {
        return Ok(false);
    }
    for (expr, own) in exprs.into_iter().zip(types) {
        let literal = matches!(expr, Expr::Literal(..));
        if let Some(own) = own
            && (Class::of(&own).is_exact() || own.is_null() || literal)
        {
            *expr = to_numeric(std::mem::take(expr), &own)?;
        }
    }
    Ok(true)
}

fn rewrite_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let width = union.inputs.first().map_or(0, |input| input.schema().fields().len());
    if union.inputs.iter().any(|input| input.schema().fields().len() != width) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let inputs = union.inputs.iter();
    let column = |at: usize| -> Vec<DataType> {
        let own = inputs.clone().map(|input| input.schema().field(at).data_type().clone());
        own.collect()
    };
    let columns: Vec<Vec<DataType>> = (0..width).map(column).collect();
    let float = |types: &[DataType]| types.iter().any(DataType::is_floating);
    let broad = |own: &DataType| matches!(Class::of(own), Class::Decimal | Class::Numeric);
    let mixed = |types: &Vec<DataType>| float(types) && types.iter().any(broad) || differ(types);
    if !columns.iter().any(mixed) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let inputs = union.inputs.iter().map(|input| {
        let names = input.schema().columns().into_iter().enumerate();
        let exprs = names.map(|(at, column)| {
            let own = input.schema().field(at).data_type().clone();
            let (qualifier, name) = (column.relation.clone(), column.name.clone());
            let expr = Expr::Column(column);
            if !mixed(&columns[at]) {
                return Ok(expr);
            }
            let converted = match (float(&columns[at]), Class::of(&own)) {
                (true, Class::Decimal) => cast(expr, float_of(columns[at].iter())),
                (true, Class::Numeric) => narrowed(as_float(expr), &float_of(columns[at].iter())),
                (true, _) => return Ok(expr),
                (false, _) => to_numeric(expr, &own)?,
            };
            Ok(converted.alias_qualified(qualifier, name))
        });
        let exprs = exprs.collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(
            exprs,
            input.clone(),
        )?)))
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(
        inputs,
    )?)))
}
