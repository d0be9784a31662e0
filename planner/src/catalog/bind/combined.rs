//! Set operations and VALUES, whose columns get PostgreSQL's types while names are bound: see `rewrite::combined`, which makes
//! relations of them, and `semantics::resolve::columns`, which decides.

use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::parse::select;
use crate::pg::semantics::fields;
use crate::pg::semantics::resolve::columns::{Common, Given, VALUES, common, converted, given};
use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, NullEquality, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::logical_plan::Values;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, ExprSchemable, JoinType, LogicalPlan, LogicalPlanBuilder, Projection,
};
use datafusion::sql::sqlparser::ast::{self, SetExpr, SetOperator, SetQuantifier, TableFactor};
use std::collections::HashMap;
use std::sync::Arc;
use tenon_storage::SqlType;

/// The plan of such a relation.
pub(super) fn plan(body: SetExpr, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    // Operations on the left of others are as many as a statement's text has room for.
    let mut steps = Vec::new();
    let mut first = body;
    while let SetExpr::SetOperation {
        op,
        set_quantifier,
        left,
        right,
    } = first
    {
        steps.push((op, set_quantifier, *right));
        first = *left;
    }
    let mut plan = side(first, context)?;
    for (op, quantifier, right) in steps.into_iter().rev() {
        let right = side(right, context)?;
        plan = operation(op, quantifier, plan, right, context)?;
    }
    Ok(plan)
}

fn side(body: SetExpr, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    match body {
        SetExpr::SetOperation { .. } => self::plan(body, context),
        SetExpr::Values(values) => rows(values, context),
        body => context.plan(TableFactor::Derived {
            lateral: false,
            subquery: select::of_body(body),
            alias: None,
            sample: None,
        }),
    }
}

fn operation(
    op: SetOperator,
    quantifier: SetQuantifier,
    left: LogicalPlan,
    right: LogicalPlan,
    context: &dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    if left.schema().fields().len() != right.schema().fields().len() {
        let message = format!("each {op} query must have the same number of columns");
        return Err(to_datafusion(SqlError::new(state::SYNTAX_ERROR, message)));
    }
    let (left, right) = of_one_type(&op.to_string(), left, right)?;
    let all = quantifier == SetQuantifier::All;
    let builder = |left| LogicalPlanBuilder::from(left);
    match op {
        SetOperator::Union if all => builder(left).union(right)?.build(),
        SetOperator::Union => builder(left).union_distinct(right)?.build(),
        SetOperator::Intersect | SetOperator::Except if all => {
            let (left, right) = (numbered(left, context)?, numbered(right, context)?);
            let rows = operation(op, SetQuantifier::None, left, right, context)?;
            let mut columns = rows.schema().columns();
            columns.pop();
            builder(rows).project(columns.into_iter().map(Expr::Column))?.build()
        }
        SetOperator::Intersect => LogicalPlanBuilder::intersect(left, right, false),
        SetOperator::Except => LogicalPlanBuilder::except(left, right, false),
        SetOperator::Minus => internal_err!("{op} is planned elsewhere"),
    }
}

/// The rows with, at the end, a number among their equals: of INTERSECT ALL and EXCEPT ALL each counts.
fn numbered(plan: LogicalPlan, context: &dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let Some(function) = context.context_provider().get_window_meta("row_number") else {
        return internal_err!("no row_number");
    };
    let columns = plan.schema().columns().into_iter().map(Expr::Column);
    let columns: Vec<Expr> = columns.collect();
    let number = Expr::from(WindowFunction::new(function, Vec::new()));
    let number = number.partition_by(columns.clone()).build()?;
    let rows = LogicalPlanBuilder::from(plan).window(vec![number])?.build()?;
    let last = rows
        .schema()
        .columns()
        .pop()
        .map(|own| Expr::Column(own).alias("\u{1}number"));
    LogicalPlanBuilder::from(rows)
        .project(columns.into_iter().chain(last))?
        .build()
}

/// The two sides with columns of the same types.
fn of_one_type(op: &str, left: LogicalPlan, right: LogicalPlan) -> Result<(LogicalPlan, LogicalPlan)> {
    let width = left.schema().fields().len();
    let all: Vec<[Given; 2]> = (0..width)
        .map(|at| [given_at(&left, at), given_at(&right, at)])
        .collect();
    let types = all.iter().map(|both| match both {
        // What has no type on both sides is a text from here on.
        [Given::Null, Given::Null | Given::Literal] | [Given::Literal, Given::Null] => {
            Ok(Some(Common::Type(SqlType::Text)))
        }
        both => common(both, op),
    });
    let types = types.collect::<Result<Vec<_>>>()?;
    if types.iter().all(Option::is_none) {
        return Ok((left, right));
    }
    let (own, other): (Vec<Given>, Vec<Given>) = all.into_iter().map(|[own, other]| (own, other)).unzip();
    Ok((with_types(left, &own, &types)?, with_types(right, &other, &types)?))
}

fn given_at(input: &LogicalPlan, at: usize) -> Given {
    let shown = &input.schema().fields()[at];
    let LogicalPlan::Projection(projection) = input else {
        return given(None, shown);
    };
    let expr = projection.expr.get(at).map(|expr| expr.clone().unalias());
    // What a CASE gives is the plan's to see later.
    let own = match &expr {
        Some(expr @ (Expr::Case(_) | Expr::BinaryExpr(_) | Expr::ScalarFunction(_))) => {
            fields::field(expr, projection.input.schema()).ok()
        }
        _ => None,
    };
    given(expr.as_ref(), own.as_ref().unwrap_or(shown))
}

fn with_types(input: LogicalPlan, own: &[Given], types: &[Option<Common>]) -> Result<LogicalPlan> {
    let open = |at: usize| types[at].is_some() && matches!(own[at], Given::Null | Given::Literal);
    let mut input = input;
    if (0..types.len()).any(open)
        && let LogicalPlan::Projection(projection) = input
    {
        let names = projection.schema.columns();
        let exprs = projection
            .expr
            .into_iter()
            .zip(names)
            .enumerate()
            .map(|(at, (expr, name))| match &types[at] {
                Some(to) if open(at) => {
                    let value = converted(expr.unalias(), &own[at], to)?;
                    Ok(value.alias_qualified(name.relation, name.name))
                }
                _ => Ok(expr),
            });
        let exprs = exprs.collect::<Result<Vec<_>>>()?;
        input = LogicalPlan::Projection(Projection::try_new(exprs, projection.input)?);
    }
    let columns = input.schema().columns().into_iter().enumerate();
    let mut changed = false;
    let exprs = columns.map(|(at, column)| {
        let Some(to) = types[at].as_ref().filter(|_| !open(at)) else {
            return Ok(Expr::Column(column));
        };
        let (relation, name) = (column.relation.clone(), column.name.clone());
        let value = converted(Expr::Column(column), &own[at], to)?;
        Ok(match value {
            same @ Expr::Column(_) => same,
            value => {
                changed = true;
                value.alias_qualified(relation, name)
            }
        })
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    match changed {
        true => Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?)),
        false => Ok(input),
    }
}

/// VALUES, each of whose columns has the type that all its rows have together.
fn rows(values: ast::Values, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let none = DFSchema::empty();
    let row = |row: ast::Parens<Vec<ast::Expr>>| {
        let cells = row.content.into_iter().map(|cell| context.sql_to_expr(cell, &none));
        cells.collect::<Result<Vec<_>>>()
    };
    let mut rows = values.rows.into_iter().map(row).collect::<Result<Vec<_>>>()?;
    let width = rows.first().map_or(0, Vec::len);
    let mut fields: Vec<Option<FieldRef>> = Vec::with_capacity(width);
    for at in 0..width {
        let cells = rows.iter().filter_map(|row| row.get(at));
        let all = cells.map(|cell| {
            let field = fields::field(cell, &none)?;
            Ok(given(Some(cell), &field))
        });
        let all = all.collect::<Result<Vec<_>>>()?;
        let to = common(&all, VALUES)?;
        if let Some(to) = &to {
            for (cell, own) in rows.iter_mut().filter_map(|row| row.get_mut(at)).zip(&all) {
                *cell = converted(std::mem::take(cell), own, to)?;
            }
        }
        fields.push(to.map(|to| to.field(&format!("column{}", at + 1))));
    }
    if fields.iter().all(Option::is_none) {
        return LogicalPlanBuilder::values(rows)?.build();
    }
    // Columns of one type are DataFusion's to plan.
    let kept: Vec<usize> = (0..width).filter(|at| fields[*at].is_none()).collect();
    if !kept.is_empty() {
        let own = rows.iter().map(|row| kept.iter().map(|at| row[*at].clone()).collect());
        let plan = LogicalPlanBuilder::values(own.collect())?.build()?;
        let LogicalPlan::Values(planned) = plan else {
            return internal_err!("VALUES were planned as {}", plan.display());
        };
        for (cells, row) in planned.values.into_iter().zip(&mut rows) {
            for (cell, at) in cells.into_iter().zip(&kept) {
                row[*at] = cell;
            }
        }
        for (field, at) in planned.schema.fields().iter().zip(&kept) {
            let name = format!("column{}", at + 1);
            fields[*at] = Some(Arc::new(field.as_ref().clone().with_name(name)));
        }
    }
    let fields: Vec<FieldRef> = fields.into_iter().flatten().collect();
    for row in &mut rows {
        for (cell, field) in row.iter_mut().zip(&fields) {
            if let Expr::Literal(ScalarValue::Null, None) = cell {
                *cell = Expr::Literal(ScalarValue::try_from(field.data_type())?, None);
            } else if cell.get_type(&none)? != *field.data_type() {
                *cell = std::mem::take(cell).cast_to(field.data_type(), &none)?;
            }
        }
    }
    let fields = fields.into_iter().collect::<Vec<_>>();
    let schema = DFSchema::from_unqualified_fields(fields.into(), HashMap::new())?;
    Ok(LogicalPlan::Values(Values {
        schema: Arc::new(schema),
        values: rows,
    }))
}

/// The plan without the projections that show such a relation as it is.
pub(super) fn without_shows(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Projection(projection) = node else {
            return Ok(Transformed::no(node));
        };
        let columns = projection.input.schema().columns();
        let as_it_is =
            |(expr, own): (&Expr, &datafusion::common::Column)| matches!(expr, Expr::Column(column) if column == own);
        let same = projection.expr.len() == columns.len()
            && projection.expr.iter().zip(&columns).all(as_it_is)
            && projection.schema.columns() == columns;
        Ok(match same && is_combined(&projection.input) {
            true => Transformed::yes(Arc::unwrap_or_clone(projection.input)),
            false => Transformed::no(LogicalPlan::Projection(projection)),
        })
    })
    .data()
}

fn is_combined(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Union(_) | LogicalPlan::Values(_) => true,
        LogicalPlan::Distinct(Distinct::All(input)) => matches!(input.as_ref(), LogicalPlan::Union(_)),
        LogicalPlan::Join(join) => {
            matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
                && join.null_equality == NullEquality::NullEqualsNull
        }
        _ => false,
    }
}
