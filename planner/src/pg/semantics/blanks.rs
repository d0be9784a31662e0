//! `bpchar`, which values of `char(n)` are beside others: they keep their blanks, and are shown with them, but blanks at the
//! end do not count where such values are compared, and are not there where they become text.
//!
//! An analyzer rule before type coercion: what compares, groups, orders or joins such values takes them bare, and so does each
//! function but those that take values of any type.

use super::fields;
use super::intervals::Likeness;
use super::resolve::{is_blank, is_of_any_type};
use crate::pg::functions::array::bare_items;
use crate::pg::named;
use datafusion::arrow::datatypes::Field;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::functions::string;
use datafusion::logical_expr::expr::{Cast, Placeholder, Sort};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Aggregate, Distinct, DistinctOn, Expr, LogicalPlan, LogicalPlanBuilder, Operator, lit};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;
use tenon_storage::SqlType;

#[derive(Debug)]
pub(super) struct BlanksAtEnds;

impl AnalyzerRule for BlanksAtEnds {
    fn name(&self) -> &str {
        "blanks_at_ends"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut found = false;
        plan.apply_with_subqueries(|node| {
            found = match node {
                LogicalPlan::TableScan(scan) => {
                    let mut fields = scan.projected_schema.fields().iter();
                    fields.any(|field| is_bpchar(field) || holds_bpchar(field))
                }
                node => mentions(node)?,
            };
            Ok(match found {
                true => TreeNodeRecursion::Stop,
                false => TreeNodeRecursion::Continue,
            })
        })?;
        if !found {
            return Ok(plan);
        }
        let plan = plan.transform_up_with_subqueries(|node| {
            let node = rewrite_node(node)?;
            Ok(Transformed::yes(node.recompute_schema()?))
        })?;
        Ok(plan.data)
    }
}

fn is_bpchar(field: &Field) -> bool {
    SqlType::from_field(field) == Some(SqlType::Bpchar)
}

/// Whether values are arrays of such.
fn holds_bpchar(field: &Field) -> bool {
    matches!(SqlType::from_field(field), Some(SqlType::Array(of)) if of.element() == SqlType::Bpchar)
}

/// Whether a cast in a node makes such a value, or an array of them, or a parameter is one.
fn mentions(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    let is_one = |field: &Field| is_bpchar(field) || holds_bpchar(field);
    node.apply_expressions(|expr| {
        found = found
            || expr.exists(|expr| {
                Ok(match expr {
                    Expr::Cast(cast) => is_one(&cast.field),
                    Expr::Placeholder(Placeholder { field: Some(field), .. }) => is_one(field),
                    Expr::Literal(_, Some(_)) => is_one(fields::field(expr, &DFSchema::empty())?.as_ref()),
                    _ => false,
                })
            })?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// The value without blanks at its end.
pub(super) fn bare(expr: Expr) -> Expr {
    string::rtrim().call(vec![expr, lit(" ")])
}

fn has_blanks(expr: &Expr, schema: &DFSchema) -> bool {
    fields::field(expr, schema).is_ok_and(|field| is_bpchar(&field))
}

fn compared(expr: Expr, schema: &DFSchema) -> Expr {
    match fields::field(&expr, schema) {
        Ok(field) if is_bpchar(&field) => bare(expr),
        Ok(field) if holds_bpchar(&field) => bare_items(expr),
        _ => expr,
    }
}

fn sorts(keys: Vec<Sort>, schema: &DFSchema) -> Vec<Sort> {
    let keys = keys.into_iter().map(|key| Sort {
        expr: compared(key.expr, schema),
        ..key
    });
    keys.collect()
}

fn rewrite_node(node: LogicalPlan) -> Result<LogicalPlan> {
    let schema = merge_schema(&node.inputs());
    let node = named::map_expressions(node, |expr| expr.transform_up(|expr| rewrite_expr(expr, &schema)))?.data;
    Ok(match node {
        LogicalPlan::Sort(mut sort) => {
            sort.expr = sorts(sort.expr, &schema);
            LogicalPlan::Sort(sort)
        }
        LogicalPlan::Join(mut join) => {
            for (left, right) in &mut join.on {
                *left = compared(std::mem::take(left), &schema);
                *right = compared(std::mem::take(right), &schema);
            }
            LogicalPlan::Join(join)
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let of = input.schema().clone();
            if !of.fields().iter().any(|field| is_bpchar(field)) {
                return Ok(LogicalPlan::Distinct(Distinct::All(input)));
            }
            let keys = of.columns().into_iter().map(Expr::Column).collect();
            BLANKS.grouped(Aggregate::try_new(input, keys, Vec::new())?, of)?
        }
        LogicalPlan::Distinct(Distinct::On(on)) => {
            let keys = on.on_expr.into_iter().map(|key| compared(key, &schema)).collect();
            let sort = on.sort_expr.map(|keys| sorts(keys, &schema));
            LogicalPlan::Distinct(Distinct::On(DistinctOn::try_new(keys, on.select_expr, sort, on.input)?))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let sets = |expr: &Expr| matches!(expr, Expr::GroupingSet(_));
            let plain = !aggregate.group_expr.iter().any(sets);
            if plain && aggregate.group_expr.iter().any(|key| has_blanks(key, &schema)) {
                let of = aggregate.schema.clone();
                return BLANKS.grouped(aggregate, of);
            }
            LogicalPlan::Aggregate(aggregate)
        }
        other => other,
    })
}

/// Groups of values that are alike but for their blanks.
const BLANKS: Likeness = Likeness {
    differs: has_blanks,
    key: bare,
};

fn rewrite_expr(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let own = |expr: Box<Expr>| Box::new(compared(*expr, schema));
    let all = |exprs: Vec<Expr>| exprs.into_iter().map(|expr| compared(expr, schema)).collect();
    Ok(Transformed::yes(match expr {
        Expr::BinaryExpr(mut binary) if !matches(binary.op) => {
            binary.left = own(binary.left);
            binary.right = own(binary.right);
            Expr::BinaryExpr(binary)
        }
        Expr::Between(mut between) => {
            between.expr = own(between.expr);
            between.low = own(between.low);
            between.high = own(between.high);
            Expr::Between(between)
        }
        Expr::InList(mut list) => {
            list.expr = own(list.expr);
            list.list = all(list.list);
            Expr::InList(list)
        }
        Expr::InSubquery(mut within) => {
            within.expr = own(within.expr);
            let inner = within.subquery.subquery.clone();
            if let Some(column) = inner.schema().columns().into_iter().next().map(Expr::Column)
                && has_blanks(&column, inner.schema())
            {
                let inner = LogicalPlanBuilder::from(inner).project(vec![bare(column)])?.build()?;
                within.subquery.subquery = Arc::new(inner);
            }
            Expr::InSubquery(within)
        }
        Expr::Case(mut case) => {
            if let Some(expr) = case.expr.take() {
                case.expr = Some(own(expr));
                for (when, _) in &mut case.when_then_expr {
                    **when = compared(std::mem::take(when), schema);
                }
            }
            Expr::Case(case)
        }
        // A number or the like is read past blanks as well.
        Expr::Cast(Cast { expr, field }) if !is_blank_field(&field) => {
            // The text of an array shows the blanks of its items.
            let shows = fields::field(&expr, schema).is_ok_and(|own| holds_bpchar(&own)) && !takes_texts(&field);
            let expr = if shows { expr } else { own(expr) };
            Expr::Cast(Cast::new_from_field(expr, field))
        }
        Expr::ScalarFunction(mut call) if !is_of_any_type(call.name()) && call.name() != "octet_length" => {
            call.args = all(call.args);
            Expr::ScalarFunction(call)
        }
        Expr::AggregateFunction(mut call) => {
            let name = call.func.name();
            if call.params.distinct || !is_of_any_type(name) || name == "mode" {
                call.params.args = all(call.params.args);
            }
            call.params.order_by = sorts(call.params.order_by, schema);
            Expr::AggregateFunction(call)
        }
        Expr::WindowFunction(mut call) => {
            call.params.partition_by = all(call.params.partition_by);
            call.params.order_by = sorts(call.params.order_by, schema);
            Expr::WindowFunction(call)
        }
        other => return Ok(Transformed::no(other)),
    }))
}

fn is_blank_field(field: &datafusion::arrow::datatypes::Field) -> bool {
    SqlType::from_field(field).is_some_and(is_blank)
}

/// Whether values become arrays of strings that have no blanks of their type.
fn takes_texts(field: &datafusion::arrow::datatypes::Field) -> bool {
    matches!(SqlType::from_field(field), Some(SqlType::Array(of)) if !is_blank(of.element()))
}

/// Operators that look at blanks, as LIKE does.
fn matches(op: Operator) -> bool {
    matches!(
        op,
        Operator::RegexMatch
            | Operator::RegexIMatch
            | Operator::RegexNotMatch
            | Operator::RegexNotIMatch
            | Operator::LikeMatch
            | Operator::ILikeMatch
            | Operator::NotLikeMatch
            | Operator::NotILikeMatch
    )
}
