//! A subquery for many rows at once: a plan over a relation of their values ([`RowsTable`]), whose rows say by a number whom
//! they are for. Each node is made to work for all numbers beside each other (Neumann and Kemper, "Unnesting Arbitrary
//! Queries", 2015): groups, partitions of windows and what is distinct are so for each number, joins are of rows of one
//! number, and the first rows of an order are those of each number's.
//!
//! More than 400 lines because each kind of node is a case of one walk.

use super::mentions;
use super::rows::{NUMBER, RowsTable};
use crate::pg::functions::aggregate::single::SINGLE_ROW;
use crate::pg::nodes::ProjectSet;
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, Result, TableReference};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{Sort as SortExpr, WindowFunction};
use datafusion::logical_expr::utils::{conjunction, expr_to_columns};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, Extension, FetchType, Filter, Join, JoinConstraint, Limit, LogicalPlan,
    LogicalPlanBuilder, Projection, SkipType, SubqueryAlias, Union, Window, WindowFrame, WindowFrameBound,
    WindowFrameUnits, lit, when,
};
use std::collections::HashSet;
use std::sync::Arc;

/// A plan for all rows.
pub(super) struct Unnested {
    /// The number of the row that a row is for, its place in that row's order where there is one, and the subquery's columns.
    pub plan: LogicalPlan,
    pub in_order: bool,
}

/// The subquery, in which placeholders of these ids stand for values of a row, over the relation that has them as columns in
/// this order. `is_mark`: only the numbers are wanted for which it has a row. None: it cannot be made so.
pub(super) fn unnested(
    subquery: &LogicalPlan,
    ids: &[String],
    table: Arc<RowsTable>,
    is_mark: bool,
) -> Result<Option<Unnested>> {
    let mut walk = Walk { ids, table, made: 0 };
    let Some(own) = walk.ordered(subquery, !is_mark)? else {
        return Ok(None);
    };
    let number = Expr::Column(own.number).alias(NUMBER);
    if is_mark {
        let plan = LogicalPlanBuilder::from(own.plan)
            .project([number])?
            .distinct()?
            .build()?;
        return Ok(Some(Unnested { plan, in_order: false }));
    }
    let in_order = own.place.is_some();
    let columns = subquery.schema().columns().into_iter().map(Expr::Column);
    let place = own.place.into_iter().map(Expr::Column);
    let items: Vec<Expr> = std::iter::once(number).chain(place).chain(columns).collect();
    let plan = LogicalPlan::Projection(Projection::try_new(items, Arc::new(own.plan))?);
    Ok(Some(Unnested { plan, in_order }))
}

/// A plan with the columns that it had, and those of the rows that its rows are for.
struct Numbered {
    plan: LogicalPlan,
    number: Column,
    /// The row's values, where they are at hand.
    values: Option<Vec<Column>>,
    /// The place in the row's order.
    place: Option<Column>,
}

impl Numbered {
    /// The columns that are not the plan's own.
    fn added(&self) -> impl Iterator<Item = Expr> {
        let values = self.values.iter().flatten();
        let all = std::iter::once(&self.number).chain(values).chain(&self.place);
        all.cloned().map(Expr::Column)
    }

    /// The same columns of another plan, which hands them on.
    fn over(self, plan: LogicalPlan) -> Self {
        Self { plan, ..self }
    }
}

struct Walk<'a> {
    ids: &'a [String],
    table: Arc<RowsTable>,
    /// Names that have been made.
    made: usize,
}

impl Walk<'_> {
    fn name(&mut self, kind: &str) -> String {
        self.made += 1;
        format!("__{kind}{}", self.made)
    }

    /// The relation itself.
    fn rows(&mut self) -> Result<Numbered> {
        let source = provider_as_source(Arc::clone(&self.table) as _);
        let scan = LogicalPlanBuilder::scan(TableReference::bare(self.name("rows")), source, None)?;
        let (number, prefix) = (self.name("number"), self.name("value"));
        let names: Vec<String> = (0..self.ids.len()).map(|at| format!("{prefix}_{at}")).collect();
        let columns = scan.schema().columns().into_iter().map(Expr::Column);
        let items = columns.zip(std::iter::once(&number).chain(&names));
        let items: Vec<Expr> = items.map(|(column, name)| column.alias(name)).collect();
        Ok(Numbered {
            plan: scan.project(items)?.build()?,
            number: Column::new_unqualified(number),
            values: Some(names.into_iter().map(Column::new_unqualified).collect()),
            place: None,
        })
    }

    /// A plan of which all rows are for each row.
    fn for_each(&mut self, plan: LogicalPlan) -> Result<Numbered> {
        let rows = self.rows()?;
        if let LogicalPlan::EmptyRelation(empty) = &plan
            && empty.produce_one_row
            && empty.schema.fields().is_empty()
        {
            return Ok(rows);
        }
        let both = LogicalPlanBuilder::from(rows.plan.clone()).cross_join(plan)?.build()?;
        Ok(rows.over(both))
    }

    /// The same with the row's values at hand.
    fn with_values(&mut self, own: Numbered) -> Result<Numbered> {
        if own.values.is_some() {
            return Ok(own);
        }
        let rows = self.rows()?;
        let on = vec![(Expr::Column(rows.number), Expr::Column(own.number.clone()))];
        let plan = joined(
            rows.plan,
            own.plan,
            on,
            None,
            JoinType::Inner,
            NullEquality::NullEqualsNothing,
        )?;
        Ok(Numbered {
            plan,
            values: rows.values,
            ..own
        })
    }

    /// An expression with the row's values in place of placeholders. None: a subquery in it refers to them, or it refers to
    /// other rows.
    fn valued(&self, expr: Expr, values: &[Column]) -> Result<Option<Expr>> {
        let mut possible = true;
        let valued = expr.transform_up(|expr| {
            Ok(match &expr {
                Expr::Placeholder(placeholder) => match self.ids.iter().position(|id| *id == placeholder.id) {
                    Some(at) => Transformed::yes(Expr::Column(values[at].clone())),
                    None => {
                        possible = false;
                        Transformed::no(expr)
                    }
                },
                Expr::OuterReferenceColumn(..) => {
                    possible = false;
                    Transformed::no(expr)
                }
                Expr::ScalarSubquery(subquery) => {
                    possible &= !mentions(&subquery.subquery, self.ids)?;
                    Transformed::no(expr)
                }
                Expr::Exists(exists) => {
                    possible &= !mentions(&exists.subquery.subquery, self.ids)?;
                    Transformed::no(expr)
                }
                Expr::InSubquery(within) => {
                    possible &= !mentions(&within.subquery.subquery, self.ids)?;
                    Transformed::no(expr)
                }
                Expr::SetComparison(_) => {
                    possible = false;
                    Transformed::no(expr)
                }
                _ => Transformed::no(expr),
            })
        })?;
        Ok(possible.then_some(valued.data))
    }

    fn all_valued(&self, exprs: Vec<Expr>, values: &[Column]) -> Result<Option<Vec<Expr>>> {
        let exprs = exprs.into_iter().map(|expr| self.valued(expr, values));
        exprs.collect()
    }

    fn asks(&self, exprs: &[Expr]) -> Result<bool> {
        let mut found = false;
        for expr in exprs {
            found = found
                || expr.exists(|expr| {
                    Ok(matches!(expr, Expr::Placeholder(placeholder) if self.ids.contains(&placeholder.id)))
                })?;
        }
        Ok(found)
    }

    /// An input of a node with these expressions, and the expressions over it.
    fn below(&mut self, input: &LogicalPlan, exprs: Vec<Expr>) -> Result<Option<(Numbered, Vec<Expr>)>> {
        let Some(own) = self.numbered(input)? else {
            return Ok(None);
        };
        self.over(own, exprs)
    }

    fn over(&mut self, own: Numbered, exprs: Vec<Expr>) -> Result<Option<(Numbered, Vec<Expr>)>> {
        let own = match self.asks(&exprs)? {
            true => self.with_values(own)?,
            false => own,
        };
        let exprs = self.all_valued(exprs, own.values.as_deref().unwrap_or_default())?;
        Ok(exprs.map(|exprs| (own, exprs)))
    }

    /// The top of the subquery, down to where its rows' order is made.
    fn ordered(&mut self, plan: &LogicalPlan, wanted: bool) -> Result<Option<Numbered>> {
        if !wanted || !mentions(plan, self.ids)? {
            return self.numbered(plan);
        }
        match plan {
            LogicalPlan::Projection(projection) => {
                let Some(own) = self.ordered(&projection.input, true)? else {
                    return Ok(None);
                };
                self.projection(projection, own)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let Some(own) = self.ordered(&alias.input, true)? else {
                    return Ok(None);
                };
                aliased(alias, own).map(Some)
            }
            LogicalPlan::Filter(filter) => {
                let Some(own) = self.ordered(&filter.input, true)? else {
                    return Ok(None);
                };
                self.filter(filter, own)
            }
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => self.first(&sort.input, sort.expr.clone(), 0, None),
            plan => self.numbered(plan),
        }
    }

    fn numbered(&mut self, plan: &LogicalPlan) -> Result<Option<Numbered>> {
        if !mentions(plan, self.ids)? {
            return self.for_each(plan.clone()).map(Some);
        }
        match plan {
            LogicalPlan::Projection(projection) => match self.numbered(&projection.input)? {
                Some(own) => self.projection(projection, own),
                None => Ok(None),
            },
            LogicalPlan::Filter(filter) => match self.numbered(&filter.input)? {
                Some(own) => self.filter(filter, own),
                None => Ok(None),
            },
            LogicalPlan::SubqueryAlias(alias) => match self.numbered(&alias.input)? {
                Some(own) => aliased(alias, own).map(Some),
                None => Ok(None),
            },
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Window(window) => self.window(window),
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let Some(own) = self.numbered(input)? else {
                    return Ok(None);
                };
                let columns = input.schema().columns().into_iter().map(Expr::Column);
                let items: Vec<Expr> = columns.chain([Expr::Column(own.number.clone())]).collect();
                let distinct = LogicalPlanBuilder::from(own.plan).project(items)?.distinct()?.build()?;
                Ok(Some(Numbered {
                    plan: distinct,
                    number: own.number,
                    values: None,
                    place: None,
                }))
            }
            LogicalPlan::Extension(Extension { node }) if node.as_any().is::<ProjectSet>() => {
                let Some((own, exprs)) = self.below(node.inputs()[0], node.expressions())? else {
                    return Ok(None);
                };
                let node = node.with_exprs_and_inputs(exprs, vec![own.plan.clone()])?;
                Ok(Some(own.over(LogicalPlan::Extension(Extension { node }))))
            }
            _ => Ok(None),
        }
    }

    fn projection(&mut self, projection: &Projection, own: Numbered) -> Result<Option<Numbered>> {
        let Some((own, exprs)) = self.over(own, projection.expr.clone())? else {
            return Ok(None);
        };
        let items = exprs.into_iter().zip(projection.schema.iter());
        let items = items.map(|(expr, (qualifier, field))| named(expr, qualifier, field.name()));
        let items: Vec<Expr> = items.chain(own.added()).collect();
        let plan = Projection::try_new(items, Arc::new(own.plan.clone()))?;
        Ok(Some(own.over(LogicalPlan::Projection(plan))))
    }

    fn filter(&mut self, filter: &Filter, own: Numbered) -> Result<Option<Numbered>> {
        let Some((own, mut exprs)) = self.over(own, vec![filter.predicate.clone()])? else {
            return Ok(None);
        };
        let plan = Filter::try_new(exprs.remove(0), Arc::new(own.plan.clone()))?;
        Ok(Some(own.over(LogicalPlan::Filter(plan))))
    }

    fn aggregate(&mut self, aggregate: &Aggregate) -> Result<Option<Numbered>> {
        let is_set = |expr: &Expr| matches!(expr, Expr::GroupingSet(_));
        if aggregate.group_expr.iter().any(is_set) {
            return Ok(None);
        }
        let input = match (only_counts(aggregate), aggregate.input.as_ref()) {
            (true, LogicalPlan::Limit(limit)) => &limit.input,
            _ => &aggregate.input,
        };
        let groups = aggregate.group_expr.len();
        let exprs = aggregate.group_expr.iter().chain(&aggregate.aggr_expr).cloned();
        let Some((own, mut exprs)) = self.below(input, exprs.collect())? else {
            return Ok(None);
        };
        let aggregates = exprs.split_off(groups);
        let keys = std::iter::once(Expr::Column(own.number.clone())).chain(exprs).collect();
        let made = Aggregate::try_new(Arc::new(own.plan), keys, aggregates)?;
        let defaults = match groups {
            0 => match defaults(aggregate)? {
                Some(defaults) => defaults,
                None => return Ok(None),
            },
            _ => Vec::new(),
        };
        let columns: Vec<Column> = made.schema.columns().into_iter().skip(1).collect();
        let made = Numbered {
            plan: LogicalPlan::Aggregate(made),
            number: own.number,
            values: None,
            place: None,
        };
        let names = columns.iter().cloned().zip(aggregate.schema.iter());
        if groups > 0 {
            let items = names.map(|(column, (qualifier, field))| named(Expr::Column(column), qualifier, field.name()));
            let items: Vec<Expr> = items.chain(made.added()).collect();
            let plan = Projection::try_new(items, Arc::new(made.plan.clone()))?;
            return Ok(Some(made.over(LogicalPlan::Projection(plan))));
        }
        // One row for each, also for those without any below.
        let found = self.name("found");
        let marked = made.added().chain([lit(true).alias(&found)]);
        let marked = marked.chain(columns.iter().cloned().map(Expr::Column));
        let marked = Projection::try_new(marked.collect(), Arc::new(made.plan.clone()))?;
        let rows = self.rows()?;
        let on = vec![(Expr::Column(rows.number.clone()), Expr::Column(made.number))];
        let marked = LogicalPlan::Projection(marked);
        let (kind, nulls) = (JoinType::Left, NullEquality::NullEqualsNothing);
        let plan = joined(rows.plan.clone(), marked, on, None, kind, nulls)?;
        let rows = rows.over(plan);
        let items = names.zip(defaults).map(|((column, (qualifier, field)), default)| {
            let column = Expr::Column(column);
            let item = match default.is_null() {
                true => column,
                false => {
                    let found = Expr::Column(Column::new_unqualified(&found));
                    when(found.is_null(), lit(default)).otherwise(column)?
                }
            };
            Ok(named(item, qualifier, field.name()))
        });
        let items: Vec<Expr> = items.chain(rows.added().map(Ok)).collect::<Result<_>>()?;
        let plan = Projection::try_new(items, Arc::new(rows.plan.clone()))?;
        Ok(Some(rows.over(LogicalPlan::Projection(plan))))
    }

    fn window(&mut self, window: &Window) -> Result<Option<Numbered>> {
        let Some((own, exprs)) = self.below(&window.input, window.window_expr.clone())? else {
            return Ok(None);
        };
        let number = Expr::Column(own.number.clone());
        let of_number = |expr: Expr| {
            expr.transform_up(|expr| match expr {
                Expr::WindowFunction(mut function) => {
                    function.params.partition_by.push(number.clone());
                    Ok(Transformed::yes(Expr::WindowFunction(function)))
                }
                other => Ok(Transformed::no(other)),
            })
            .data()
        };
        let exprs = exprs.into_iter().map(of_number).collect::<Result<Vec<_>>>()?;
        let made = Window::try_new(exprs, Arc::new(own.plan.clone()))?;
        let width = own.plan.schema().fields().len();
        let columns = made.schema.columns().into_iter().skip(width);
        let kept = window.input.schema().fields().len();
        let functions = columns.zip(window.schema.iter().skip(kept));
        let functions =
            functions.map(|(column, (qualifier, field))| named(Expr::Column(column), qualifier, field.name()));
        let kept = window.input.schema().columns().into_iter().map(Expr::Column);
        let items: Vec<Expr> = kept.chain(functions).chain(own.added()).collect();
        let plan = Projection::try_new(items, Arc::new(LogicalPlan::Window(made)))?;
        Ok(Some(own.over(LogicalPlan::Projection(plan))))
    }

    fn limit(&mut self, limit: &Limit) -> Result<Option<Numbered>> {
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) = (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return Ok(None);
        };
        let within = |input: &Arc<LogicalPlan>| {
            LogicalPlan::Limit(Limit {
                input: Arc::clone(input),
                ..limit.clone()
            })
        };
        match limit.input.as_ref() {
            LogicalPlan::Projection(projection) => match self.numbered(&within(&projection.input))? {
                Some(own) => self.projection(projection, own),
                None => Ok(None),
            },
            LogicalPlan::SubqueryAlias(alias) => match self.numbered(&within(&alias.input))? {
                Some(own) => aliased(alias, own).map(Some),
                None => Ok(None),
            },
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => self.first(&sort.input, sort.expr.clone(), skip, fetch),
            _ => self.first(&limit.input, Vec::new(), skip, fetch),
        }
    }

    /// The rows that follow the first `skip` of each number's in an order, `fetch` of them at most.
    fn first(
        &mut self,
        input: &LogicalPlan,
        order: Vec<SortExpr>,
        skip: usize,
        fetch: Option<usize>,
    ) -> Result<Option<Numbered>> {
        let keys = order.iter().map(|key| key.expr.clone()).collect();
        let Some((own, keys)) = self.below(input, keys)? else {
            return Ok(None);
        };
        let order = order.into_iter().zip(keys);
        let order = order.map(|(key, expr)| SortExpr { expr, ..key }).collect();
        let mut function = WindowFunction::new(row_number_udwf(), Vec::new());
        function.params.partition_by = vec![Expr::Column(own.number.clone())];
        function.params.order_by = order;
        function.params.window_frame = WindowFrame::new_bounds(
            WindowFrameUnits::Rows,
            WindowFrameBound::Preceding(datafusion::common::ScalarValue::UInt64(None)),
            WindowFrameBound::CurrentRow,
        );
        let made = Window::try_new(vec![Expr::from(function)], Arc::new(own.plan.clone()))?;
        let Some(place) = made.schema.columns().pop() else {
            return Ok(None);
        };
        let name = self.name("place");
        let columns = input.schema().columns().into_iter().map(Expr::Column);
        let items: Vec<Expr> = columns
            .chain(own.added())
            .chain([Expr::Column(place).alias(&name)])
            .collect();
        let plan = LogicalPlan::Projection(Projection::try_new(items, Arc::new(LogicalPlan::Window(made)))?);
        let place = Column::new_unqualified(name);
        let bound = |at: usize| lit(at as u64);
        let after = (skip > 0).then(|| Expr::Column(place.clone()).gt(bound(skip)));
        let until = fetch.map(|fetch| Expr::Column(place.clone()).lt_eq(bound(skip.saturating_add(fetch))));
        let plan = match conjunction(after.into_iter().chain(until)) {
            Some(condition) => LogicalPlan::Filter(Filter::try_new(condition, Arc::new(plan))?),
            None => plan,
        };
        Ok(Some(Numbered {
            plan,
            place: Some(place),
            ..own
        }))
    }

    fn union(&mut self, union: &Union) -> Result<Option<Numbered>> {
        let number = self.name("number");
        let mut inputs = Vec::with_capacity(union.inputs.len());
        for input in &union.inputs {
            let Some(own) = self.numbered(input)? else {
                return Ok(None);
            };
            let columns = input.schema().columns().into_iter().zip(union.schema.iter());
            let columns = columns.map(|(column, (_, field))| Expr::Column(column).alias(field.name()));
            let items = columns.chain([Expr::Column(own.number).alias(&number)]);
            let input = Projection::try_new(items.collect(), Arc::new(own.plan))?;
            inputs.push(Arc::new(LogicalPlan::Projection(input)));
        }
        let all = Union::try_new(inputs)?;
        let columns = all.schema.columns().into_iter().zip(union.schema.iter());
        let items = columns.map(|(column, (qualifier, field))| named(Expr::Column(column), qualifier, field.name()));
        let number = Column::new_unqualified(number);
        let items: Vec<Expr> = items.chain([Expr::Column(number.clone())]).collect();
        let plan = Projection::try_new(items, Arc::new(LogicalPlan::Union(all)))?;
        Ok(Some(Numbered {
            plan: LogicalPlan::Projection(plan),
            number,
            values: None,
            place: None,
        }))
    }

    fn join(&mut self, join: &Join) -> Result<Option<Numbered>> {
        use JoinType::*;
        let (left, right) = (mentions(&join.left, self.ids)?, mentions(&join.right, self.ids)?);
        let on = join.on.iter().flat_map(|(left, right)| [left, right]).cloned();
        let conditions: Vec<Expr> = on.chain(join.filter.clone()).collect();
        let asks = self.asks(&conditions)?;
        // Whose rows come out whatever they meet: those are for each number.
        let (left, right) = match join.join_type {
            Inner => (left || asks && !right, right),
            Left | LeftSemi | LeftAnti | LeftMark => (true, right),
            Right | RightSemi | RightAnti | RightMark => (left, true),
            Full => return Ok(None),
        };
        if join.null_aware {
            return Ok(None);
        }
        let mut side = |plan: &Arc<LogicalPlan>, own: bool| match own {
            true => self.numbered(plan).map(|own| own.map(Ok)),
            false => Ok(Some(Err(plan.as_ref().clone()))),
        };
        let (Some(left), Some(right)) = (side(&join.left, left)?, side(&join.right, right)?) else {
            return Ok(None);
        };
        // The side whose columns come out, and have the values that the condition asks for.
        let is_left = left.is_ok() && !matches!(join.join_type, Right | RightSemi | RightAnti | RightMark);
        let (left, right) = match (asks, is_left) {
            (true, true) => (
                left.map(|own| self.with_values(own))
                    .map_or_else(|plan| Ok(Err(plan)), |own| own.map(Ok))?,
                right,
            ),
            (true, false) => (
                left,
                right
                    .map(|own| self.with_values(own))
                    .map_or_else(|plan| Ok(Err(plan)), |own| own.map(Ok))?,
            ),
            (false, _) => (left, right),
        };
        let number =
            |side: &std::result::Result<Numbered, LogicalPlan>| side.as_ref().ok().map(|own| own.number.clone());
        let mut on = Vec::new();
        if let (Some(left), Some(right)) = (number(&left), number(&right)) {
            on.push((Expr::Column(left), Expr::Column(right)));
        }
        let (left_plan, right_plan) = (
            left.as_ref().map_or_else(Clone::clone, |own| own.plan.clone()),
            right.as_ref().map_or_else(Clone::clone, |own| own.plan.clone()),
        );
        let Some(own) = (if is_left { left.ok() } else { right.ok() }) else {
            return Ok(None);
        };
        let values = own.values.clone().unwrap_or_default();
        let mut filter = Vec::new();
        for (one, other) in &join.on {
            let (Some(one), Some(other)) = (self.valued(one.clone(), &values)?, self.valued(other.clone(), &values)?)
            else {
                return Ok(None);
            };
            let is_of = |expr: &Expr, plan: &LogicalPlan| is_over(expr, plan.schema());
            match is_of(&one, &left_plan)? && is_of(&other, &right_plan)? {
                true => on.push((one, other)),
                false if join.null_equality == NullEquality::NullEqualsNothing => filter.push(one.eq(other)),
                false => return Ok(None),
            }
        }
        if let Some(condition) = &join.filter {
            let Some(condition) = self.valued(condition.clone(), &values)? else {
                return Ok(None);
            };
            filter.push(condition);
        }
        let plan = joined(
            left_plan,
            right_plan,
            on,
            conjunction(filter),
            join.join_type,
            join.null_equality,
        )?;
        Ok(Some(Numbered {
            place: None,
            ..own.over(plan)
        }))
    }
}

/// Whether an expression reads columns of a schema only.
fn is_over(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    let mut columns = HashSet::new();
    expr_to_columns(expr, &mut columns)?;
    Ok(columns.iter().all(|column| schema.has_column(column)))
}

fn joined(
    left: LogicalPlan,
    right: LogicalPlan,
    on: Vec<(Expr, Expr)>,
    filter: Option<Expr>,
    join_type: JoinType,
    nulls: NullEquality,
) -> Result<LogicalPlan> {
    let (left, right) = (Arc::new(left), Arc::new(right));
    let join = Join::try_new(left, right, on, filter, join_type, JoinConstraint::On, nulls, false)?;
    Ok(LogicalPlan::Join(join))
}

/// The expression as a column of this name.
fn named(expr: Expr, qualifier: Option<&TableReference>, name: &str) -> Expr {
    let (own, own_name) = expr.qualified_name();
    match own.as_ref() == qualifier && own_name == name {
        true => expr,
        false => expr.unalias().alias_qualified(qualifier.cloned(), name),
    }
}

fn aliased(alias: &SubqueryAlias, own: Numbered) -> Result<Numbered> {
    let plan = SubqueryAlias::try_new(Arc::new(own.plan), alias.alias.clone())?;
    let moved = |column: Column| Column::new(Some(alias.alias.clone()), column.name);
    Ok(Numbered {
        plan: LogicalPlan::SubqueryAlias(plan),
        number: moved(own.number),
        values: own.values.map(|values| values.into_iter().map(moved).collect()),
        place: own.place.map(moved),
    })
}

/// Whether an aggregate only looks whether there is one row: which of many it sees counts as little as how many.
fn only_counts(aggregate: &Aggregate) -> bool {
    let is_single = |expr: &Expr| match expr.clone().unalias() {
        Expr::AggregateFunction(call) => call.func == *SINGLE_ROW,
        _ => false,
    };
    aggregate.group_expr.is_empty() && aggregate.aggr_expr.iter().all(is_single)
}

/// What each aggregate is over no rows; None where that is not known.
fn defaults(aggregate: &Aggregate) -> Result<Option<Vec<datafusion::common::ScalarValue>>> {
    const UNKNOWN: [&str; 5] = ["regr_count", "rank", "dense_rank", "percent_rank", "cume_dist"];
    let mut values = Vec::with_capacity(aggregate.aggr_expr.len());
    for (expr, field) in aggregate.aggr_expr.iter().zip(aggregate.schema.fields()) {
        let Expr::AggregateFunction(call) = expr.clone().unalias() else {
            return Ok(None);
        };
        if UNKNOWN.contains(&call.func.name()) {
            return Ok(None);
        }
        values.push(call.func.default_value(field.data_type())?);
    }
    Ok(Some(values))
}
