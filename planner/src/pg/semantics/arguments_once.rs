//! Arguments of functions in SQL that are computed once a call (`functions::argument`) become columns of the rows below the node
//! that calls: whatever the body says, a value that is made once is the same everywhere.
//!
//! Where the call stands in a branch of CASE, the column is NULL for the rows that do not come there.

use crate::pg::functions::argument::{everywhere, filled, of_call};
use crate::pg::nodes::WholeRows;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    EmptyRelation, Expr, ExprSchemable, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Projection, Values, lit,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct ArgumentsOnce;

impl AnalyzerRule for ArgumentsOnce {
    fn name(&self) -> &str {
        "arguments_once"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut found = false;
        plan.apply_with_subqueries(|node| {
            found = found || calls(node)?;
            Ok(match found {
                true => TreeNodeRecursion::Stop,
                false => TreeNodeRecursion::Continue,
            })
        })?;
        if !found {
            return Ok(plan);
        }
        plan.transform_down_with_subqueries(|node| match calls(&node)? {
            true => Ok(Transformed::yes(lifted(node)?)),
            false => Ok(Transformed::no(node)),
        })
        .data()
    }
}

/// Whether a node's own expressions have such arguments.
fn calls(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found = found || expr.exists(|expr| Ok(of_call(expr).is_some()))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

fn lifted(node: LogicalPlan) -> Result<LogicalPlan> {
    let node = match node {
        LogicalPlan::Values(values) => return rows(values),
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner && join.filter.is_some() => {
            return joined(join);
        }
        node => node,
    };
    let inputs = node.inputs();
    // The number of rows is none of a row.
    let is_apart = matches!(node, LogicalPlan::Subquery(_) | LogicalPlan::Limit(_));
    let ([input], false) = (inputs.as_slice(), is_apart) else {
        let names = NamePreserver::new(&node);
        return node
            .map_expressions(|expr| {
                let name = names.save(&expr);
                Ok(Transformed::yes(name.restore(everywhere(expr)?)))
            })
            .data();
    };
    let shown = node.schema().columns();
    let mut below = Below {
        rows: (*input).clone(),
        known: Vec::new(),
    };
    let names = NamePreserver::new(&node);
    let exprs = node.expressions().into_iter().map(|expr| {
        let name = names.save(&expr);
        Ok(name.restore(below.lift(expr, &[])?))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let node = node.with_new_exprs(exprs, vec![below.rows])?;
    match node.schema().columns() == shown {
        true => Ok(node),
        false => LogicalPlanBuilder::from(node)
            .project(shown.into_iter().map(Expr::Column))?
            .build(),
    }
}

/// A join with the conditions that have such arguments above it.
fn joined(mut join: Join) -> Result<LogicalPlan> {
    let conditions = join.filter.take().map(split_conjunction_owned);
    let (mut above, mut within) = (Vec::new(), Vec::new());
    for condition in conditions.into_iter().flatten() {
        match condition.exists(|expr| Ok(of_call(expr).is_some()))? {
            true => above.push(condition),
            false => within.push(condition),
        }
    }
    join.filter = conjunction(within);
    let rows = LogicalPlanBuilder::from(LogicalPlan::Join(join));
    match conjunction(above) {
        Some(above) => lifted(rows.filter(above)?.build()?),
        None => rows.build(),
    }
}

/// VALUES as a row of each of its lists, in their order.
fn rows(values: Values) -> Result<LogicalPlan> {
    let columns = values.schema.columns();
    let (order, many) = ("\u{1}row", values.values.len() > 1);
    let mut out: Option<LogicalPlanBuilder> = None;
    for (at, list) in values.values.into_iter().enumerate() {
        let named = list.into_iter().zip(&columns);
        let mut items: Vec<Expr> = named.map(|(value, column)| value.alias(column.name())).collect();
        if many {
            items.push(lit(at as i64).alias(order));
        }
        let row = LogicalPlan::EmptyRelation(EmptyRelation {
            produce_one_row: true,
            schema: Arc::new(DFSchema::empty()),
        });
        let row = LogicalPlan::Projection(Projection::try_new(items, Arc::new(row))?);
        out = Some(match out {
            Some(before) => before.union(row)?,
            None => LogicalPlanBuilder::from(row),
        });
    }
    let Some(out) = out else {
        return datafusion::common::internal_err!("VALUES of no rows");
    };
    match many {
        true => out
            .sort(vec![Expr::Column(Column::new_unqualified(order)).sort(true, false)])?
            .project(
                columns
                    .into_iter()
                    .map(|column| Expr::Column(Column::new_unqualified(column.name))),
            )?
            .build(),
        false => lifted(out.build()?),
    }
}

/// What becomes of the rows that a node reads.
struct Below {
    rows: LogicalPlan,
    /// The numbers of the arguments that are columns by now.
    known: Vec<i64>,
}

/// WHEN and THEN, up to the place that is looked at, whose conditions must have failed, or the last of which must hold.
#[derive(Clone)]
struct Way {
    operand: Option<Box<Expr>>,
    failed: Vec<Expr>,
    holds: Option<Expr>,
}

impl Below {
    fn lift(&mut self, expr: Expr, ways: &[Way]) -> Result<Expr> {
        if let Some((number, value, body)) = of_call(&expr) {
            let column = Column::new_unqualified(format!("\u{1}argument {number}"));
            let is_new = !self.known.contains(&number);
            if is_new {
                let value = ways
                    .iter()
                    .rev()
                    .try_fold(value.clone(), |value, way| self.on(way, value))?;
                let rows = std::mem::replace(&mut self.rows, nothing());
                let own = rows.schema().columns().into_iter().map(Expr::Column);
                let items = own.chain([value.alias(&column.name)]);
                let made = Projection::try_new(items.collect(), Arc::new(rows))?;
                self.rows = LogicalPlan::Projection(made);
                self.known.push(number);
            }
            let field = Arc::clone(self.rows.schema().as_ref().field_from_column(&column)?);
            let within = Expr::OuterReferenceColumn(field, column.clone());
            let body = filled(body.clone(), number, &Expr::Column(column), &within)?;
            // One that nobody reads is computed all the same. In a condition of CASE it stays a column: to know whether the CASE
            // may be NULL, such conditions are evaluated while planning.
            let in_case = body.data.exists(|expr| Ok(matches!(expr, Expr::Case(_))))?;
            if is_new && (!body.transformed || in_case) {
                let rows = std::mem::replace(&mut self.rows, nothing());
                self.rows = WholeRows::plan(rows);
            }
            return self.lift(body.data, ways);
        }
        match expr {
            Expr::Case(case) => self.lift_case(case, ways),
            expr => expr
                .map_children(|child| Ok(Transformed::yes(self.lift(child, ways)?)))
                .data(),
        }
    }

    fn lift_case(&mut self, case: Case, ways: &[Way]) -> Result<Expr> {
        let operand = match case.expr {
            Some(operand) => Some(Box::new(self.lift(*operand, ways)?)),
            None => None,
        };
        let mut failed = Vec::new();
        let mut branches = Vec::new();
        let within = |below: &mut Self, expr: Expr, failed: &[Expr], holds: Option<Expr>| {
            let mut ways = ways.to_vec();
            ways.push(Way {
                operand: operand.clone(),
                failed: failed.to_vec(),
                holds,
            });
            below.lift(expr, &ways)
        };
        for (when, then) in case.when_then_expr {
            let when = within(self, *when, &failed, None)?;
            let then = within(self, *then, &failed, Some(when.clone()))?;
            failed.push(when.clone());
            branches.push((Box::new(when), Box::new(then)));
        }
        let otherwise = match case.else_expr {
            Some(otherwise) => Some(Box::new(within(self, *otherwise, &failed, None)?)),
            None => None,
        };
        Ok(Expr::Case(Case::new(operand, branches, otherwise)))
    }

    /// A value where a row comes that way.
    fn on(&self, way: &Way, value: Expr) -> Result<Expr> {
        if way.failed.is_empty() && way.holds.is_none() {
            return Ok(value);
        }
        let of = value.get_type(self.rows.schema().as_ref())?;
        let null = Expr::Literal(ScalarValue::try_from(&of)?, None);
        let failed = way
            .failed
            .iter()
            .map(|when| (Box::new(when.clone()), Box::new(null.clone())));
        let mut branches: Vec<_> = failed.collect();
        let otherwise = match &way.holds {
            Some(when) => {
                branches.push((Box::new(when.clone()), Box::new(value)));
                null
            }
            None => value,
        };
        Ok(Expr::Case(Case::new(
            way.operand.clone(),
            branches,
            Some(Box::new(otherwise)),
        )))
    }
}

fn nothing() -> LogicalPlan {
    LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: false,
        schema: Arc::new(DFSchema::empty()),
    })
}
