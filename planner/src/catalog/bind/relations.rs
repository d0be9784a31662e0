//! What stands in FROM beside tables and subqueries: functions, samples, aliases that name some columns only, and
//! the queries of WITH that run once.
//!
//! More than 400 lines because it is one planner of FROM, an item after the other.

use super::fold;
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::functions::sets::{self, ONCE, ORDINALITY};
use crate::pg::nodes::Materialized;
use crate::pg::occurring::is_volatile;
use crate::pg::rewrite::{COMBINED, GATHERED, ROWS_FROM, call, displayed_name, repeated_name};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    self, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectNamePart, TableAlias, TableFactor,
};
use std::collections::{HashMap, HashSet};
use tenon_storage::range::is_range;

/// What the alias of a subquery begins with whose rows are made once and kept: the query of a WITH.
pub(super) const ONCE_MARK: &str = "\u{1}with always ";
/// The same where that is so only if it aggregates rows, or calls a volatile function.
pub(super) const ONCE_IF_COSTLY_MARK: &str = "\u{1}with if costly ";
/// The same where that is so only if it calls a volatile function. The other marks begin with this one.
pub(super) const ONCE_IF_VOLATILE_MARK: &str = "\u{1}with ";

#[derive(Debug)]
pub(super) struct Relations;

impl RelationPlanner for Relations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        crate::pg::planning::check().map_err(to_datafusion)?;
        match relation {
            TableFactor::Function {
                lateral,
                name,
                args,
                with_ordinality,
                alias,
            } => {
                let known = function_name(&name);
                if known != ROWS_FROM && context.context_provider().get_function_meta(&known).is_none() {
                    // A table function, or none at all.
                    let original = TableFactor::Function {
                        lateral,
                        name,
                        args,
                        with_ordinality,
                        alias,
                    };
                    return Ok(RelationPlanning::Original(Box::new(original)));
                }
                let calls = match known.as_str() {
                    ROWS_FROM => values(args)?,
                    _ => vec![function_call(name, args)],
                };
                from_calls(calls, with_ordinality, alias, context)
            }
            TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset: false,
                with_ordinality,
                ..
            } => {
                let calls = array_exprs.into_iter().map(|array| call("unnest", vec![array]));
                from_calls(calls.collect(), with_ordinality, alias, context)
            }
            TableFactor::Derived {
                lateral,
                subquery,
                alias: Some(alias),
                sample: None,
            } => {
                if alias.name.value == COMBINED {
                    let plan = super::combined::plan(*subquery.body, context)?;
                    return Ok(planned(plan, None));
                }
                if alias.name.value.starts_with(ONCE_IF_VOLATILE_MARK) {
                    let always = alias.name.value.starts_with(ONCE_MARK);
                    let if_costly = alias.name.value.starts_with(ONCE_IF_COSTLY_MARK);
                    let inner = TableFactor::Derived {
                        lateral,
                        subquery,
                        alias: None,
                        sample: None,
                    };
                    let plan = context.plan(inner)?;
                    let whole = always || is_volatile(&plan)?;
                    let once = whole || if_costly && is_costly(&plan)?;
                    let plan = match once {
                        true => Materialized::plan(plan, whole),
                        false => plan,
                    };
                    if alias.columns.is_empty() {
                        return Ok(planned(as_shown(plan, |_, _| None)?, None));
                    }
                    let columns = plan.schema().columns();
                    if alias.columns.len() > columns.len() {
                        let marks = [ONCE_MARK, ONCE_IF_COSTLY_MARK, ONCE_IF_VOLATILE_MARK];
                        let name = marks.iter().find_map(|mark| alias.name.value.strip_prefix(mark));
                        let name = name.unwrap_or_default();
                        let (has, wanted) = (columns.len(), alias.columns.len());
                        let message =
                            format!("WITH query \"{name}\" has {has} columns available but {wanted} columns specified");
                        return Err(to_datafusion(SqlError::new(state::INVALID_COLUMN_REFERENCE, message)));
                    }
                    let named = distinct(under_names(columns, &alias));
                    let plan = LogicalPlanBuilder::from(plan).project(named)?.build()?;
                    return Ok(planned(plan, None));
                }
                let inner = |alias| TableFactor::Derived {
                    lateral,
                    subquery,
                    alias,
                    sample: None,
                };
                named_anew(alias, inner, context)
            }
            TableFactor::Table {
                name,
                alias: Some(alias),
                args: None,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample: None,
                index_hints,
            } => {
                let inner = |alias| TableFactor::Table {
                    name,
                    alias,
                    args: None,
                    with_hints,
                    version,
                    with_ordinality,
                    partitions,
                    json_path,
                    sample: None,
                    index_hints,
                };
                renamed(alias, inner, context)
            }
            TableFactor::Table {
                name,
                alias,
                args: None,
                sample: Some(sample),
                ..
            } => {
                let name = context.object_name_to_table_reference(name)?;
                let plan = super::sample::plan(name, &sample, context)?;
                match alias {
                    Some(alias) if !alias.columns.is_empty() => {
                        let columns = plan.schema().columns();
                        if alias.columns.len() > columns.len() {
                            return Err(too_many(&fold(&alias.name), columns.len(), alias.columns.len()));
                        }
                        let named = distinct(under_names(columns, &alias));
                        let plan = LogicalPlanBuilder::from(plan).project(named)?.build()?;
                        Ok(planned(plan, Some(bare(alias))))
                    }
                    alias => Ok(planned(plan, alias)),
                }
            }
            TableFactor::Derived { sample: Some(_), .. }
            | TableFactor::Table {
                args: Some(_),
                sample: Some(_),
                ..
            } => Err(to_datafusion(SqlError::new(
                state::SYNTAX_ERROR,
                "syntax error at or near \"TABLESAMPLE\"",
            ))),
            TableFactor::NestedJoin {
                table_with_joins,
                alias: Some(alias),
            } => {
                let inner = |alias| TableFactor::NestedJoin {
                    table_with_joins,
                    alias,
                };
                named_anew(alias, inner, context)
            }
            other => Ok(RelationPlanning::Original(Box::new(other))),
        }
    }
}

fn planned(plan: LogicalPlan, alias: Option<TableAlias>) -> RelationPlanning {
    RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias)))
}

fn function_name(name: &ast::ObjectName) -> String {
    let last = name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
    last.unwrap_or_default()
}

fn function_call(name: ast::ObjectName, args: Vec<FunctionArg>) -> ast::Expr {
    let mut made = call("unnest", Vec::new());
    if let ast::Expr::Function(function) = &mut made {
        function.name = name;
        if let FunctionArguments::List(list) = &mut function.args {
            list.args = args;
        }
    }
    made
}

/// The calls inside ROWS FROM.
fn values(args: Vec<FunctionArg>) -> Result<Vec<ast::Expr>> {
    args.into_iter()
        .map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr @ ast::Expr::Function(_))) => Ok(expr),
            other => Err(to_datafusion(SqlError::new(
                state::SYNTAX_ERROR,
                format!("syntax error at or near \"{other}\""),
            ))),
        })
        .collect()
}

/// Functions side by side.
fn from_calls(
    calls: Vec<ast::Expr>,
    with_ordinality: bool,
    alias: Option<TableAlias>,
    context: &mut dyn RelationPlannerContext,
) -> Result<RelationPlanning> {
    let empty = DFSchema::empty();
    let single = calls.len() == 1;
    let mut names_itself = false;
    let mut items: Vec<(Expr, String)> = Vec::new();
    for call in calls {
        let name = match &call {
            ast::Expr::Function(function) => function_name(&function.name),
            _ => "?column?".into(),
        };
        let own = out_name(&name);
        names_itself = own.is_some();
        let name = own.map_or(name, Into::into);
        let expr = context.sql_to_expr(call, &empty)?;
        let mut nested = false;
        expr.apply_children(|arg| {
            nested = nested || arg.exists(|arg| Ok(sets::called(arg).is_some()))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        if nested {
            let message = "set-returning functions must appear at top level of FROM";
            return Err(to_datafusion(SqlError::new(state::FEATURE_NOT_SUPPORTED, message)));
        }
        let is_set = sets::called(&expr).is_some();
        let expr = match is_set || single && !with_ordinality {
            true => expr,
            false => once(expr, context)?,
        };
        items.push((expr, name));
    }
    if with_ordinality {
        items.push((ordinality(context)?, "ordinality".into()));
    }
    // A function of several columns is a row first, whose columns are taken apart above.
    let mut below = Vec::with_capacity(items.len());
    let mut above = Vec::new();
    let mut composite = false;
    for (at, (expr, name)) in items.into_iter().enumerate() {
        let column = format!("\u{1}item{at}");
        let value = Expr::Column(Column::new_unqualified(&column));
        match expr.get_type(&empty)? {
            of @ DataType::Struct(_) if is_range(&of) => above.push((value, name)),
            DataType::Struct(fields) if sets::called(&expr).is_some() => {
                composite = true;
                for field in &fields {
                    let part = datafusion::functions::core::expr_fn::get_field(value.clone(), field.name().as_str());
                    above.push((part, field.name().clone()));
                }
            }
            _ => above.push((value, name)),
        }
        below.push(expr.alias(column));
    }
    let table = alias.as_ref().map(|alias| fold(&alias.name));
    let declared = alias.as_ref().map_or(&[][..], |alias| alias.columns.as_slice());
    if declared.iter().any(|column| column.data_type.is_some()) {
        let message = "a column definition list is only allowed for functions returning \"record\"";
        return Err(to_datafusion(SqlError::new(state::SYNTAX_ERROR, message)));
    }
    if declared.len() > above.len() {
        return Err(too_many(
            table.as_deref().unwrap_or_default(),
            above.len(),
            declared.len(),
        ));
    }
    // The only column of a function is called as its table, unless the function names it.
    if let (true, false, Some(table), Some(first)) = (single, composite || names_itself, &table, above.first_mut()) {
        first.1.clone_from(table);
    }
    for (given, item) in declared.iter().zip(&mut above) {
        item.1 = fold(&given.name);
    }
    let named = distinct(above);
    let plan = LogicalPlanBuilder::empty(true)
        .project(below)?
        .project(named)?
        .build()?;
    Ok(planned(plan, alias.map(bare)))
}

/// The name that a function gives its only column, as PostgreSQL's parameters of mode OUT have it.
pub(super) fn out_name(function: &str) -> Option<&'static str> {
    let elements = function.strip_prefix("json").map(|rest| rest.trim_start_matches('b'));
    matches!(elements, Some("_array_elements" | "_array_elements_text")).then_some("value")
}

/// The items under their names, a repeated one with a mark that no client sees.
fn distinct(items: Vec<(Expr, String)>) -> Vec<Expr> {
    let mut taken = std::collections::HashSet::new();
    items
        .into_iter()
        .enumerate()
        .map(|(at, (expr, name))| match taken.insert(name.clone()) {
            true => expr.alias(name),
            false => expr.alias(format!("{name}\u{1}{at}")),
        })
        .collect()
}

fn once(expr: Expr, context: &dyn RelationPlannerContext) -> Result<Expr> {
    match context.context_provider().get_function_meta(ONCE) {
        Some(function) => Ok(function.call(vec![expr])),
        None => datafusion::common::internal_err!("no function {ONCE}"),
    }
}

fn ordinality(context: &dyn RelationPlannerContext) -> Result<Expr> {
    match context.context_provider().get_function_meta(ORDINALITY) {
        Some(function) => Ok(function.call(Vec::new())),
        None => datafusion::common::internal_err!("no function {ORDINALITY}"),
    }
}

/// The alias without its columns.
fn bare(alias: TableAlias) -> TableAlias {
    TableAlias {
        columns: Vec::new(),
        ..alias
    }
}

/// A relation whose alias names its first columns; the others keep their names.
fn renamed(
    alias: TableAlias,
    inner: impl FnOnce(Option<TableAlias>) -> TableFactor,
    context: &mut dyn RelationPlannerContext,
) -> Result<RelationPlanning> {
    if alias.columns.is_empty() {
        return Ok(RelationPlanning::Original(Box::new(inner(Some(alias)))));
    }
    let plan = context.plan(inner(None))?;
    let columns = plan.schema().columns();
    if alias.columns.len() > columns.len() {
        return Err(too_many(&fold(&alias.name), columns.len(), alias.columns.len()));
    }
    if alias.name.value == GATHERED && columns.len() > 1 {
        let message = "subquery must return only one column";
        return Err(to_datafusion(SqlError::new(state::SYNTAX_ERROR, message)));
    }
    let named = distinct(under_names(columns, &alias));
    let plan = LogicalPlanBuilder::from(plan).project(named)?.build()?;
    Ok(planned(plan, Some(bare(alias))))
}

/// Several tables' columns under one name, which may name them too.
fn named_anew(
    alias: TableAlias,
    inner: impl FnOnce(Option<TableAlias>) -> TableFactor,
    context: &mut dyn RelationPlannerContext,
) -> Result<RelationPlanning> {
    match alias.columns.is_empty() {
        true => told_apart(alias, inner(None), context),
        false => renamed(alias, inner, context),
    }
}

/// A relation under a name of its own, where columns that differed by their tables' names alone must differ by theirs:
/// all of them, so that none can be meant without saying which.
fn told_apart(
    alias: TableAlias,
    inner: TableFactor,
    context: &mut dyn RelationPlannerContext,
) -> Result<RelationPlanning> {
    let plan = as_shown(context.plan(inner)?, |name, at| Some(repeated_name(name, at)))?;
    Ok(planned(plan, Some(alias)))
}

/// Columns under the names that clients see. Of several of one name, `repeated` says what each is called, by its place.
fn as_shown(plan: LogicalPlan, repeated: impl Fn(&str, usize) -> Option<String>) -> Result<LogicalPlan> {
    let mut names = HashSet::new();
    let own = |field: &FieldRef| displayed_name(field.name()) == field.name();
    if plan
        .schema()
        .fields()
        .iter()
        .all(|field| own(field) && names.insert(field.name()))
    {
        return Ok(plan);
    }
    let columns = plan.schema().columns();
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for column in &columns {
        *seen.entry(shown(column)).or_default() += 1;
    }
    let names: Vec<Option<String>> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| match seen[shown(column)] {
            1 => Some(shown(column).to_string()).filter(|name| *name != column.name),
            _ if displayed_name(&column.name).is_empty() => None,
            _ => repeated(shown(column), at),
        })
        .collect();
    if names.iter().all(Option::is_none) {
        return Ok(plan);
    }
    let named = columns.iter().zip(names).map(|(column, name)| {
        let expr = Expr::Column(column.clone());
        match name {
            Some(name) => expr.alias(name),
            None => expr,
        }
    });
    let named: Vec<Expr> = named.collect();
    LogicalPlanBuilder::from(plan).project(named)?.build()
}

/// A column's name as clients see it; what has none for them is named apart by whoever made it.
fn shown(column: &Column) -> &str {
    match displayed_name(&column.name) {
        "" => &column.name,
        shown => shown,
    }
}

/// The columns under the alias's names as far as it has them, then under their own.
fn under_names(columns: Vec<Column>, alias: &TableAlias) -> Vec<(Expr, String)> {
    let named = columns.into_iter().enumerate().map(|(at, column)| {
        let name = match alias.columns.get(at) {
            Some(given) => fold(&given.name),
            None => shown(&column).to_string(),
        };
        (Expr::Column(column), name)
    });
    named.collect()
}

fn too_many(table: &str, columns: usize, names: usize) -> datafusion::error::DataFusionError {
    let message = format!("table \"{table}\" has {columns} columns available but {names} columns specified");
    to_datafusion(SqlError::new(state::INVALID_COLUMN_REFERENCE, message))
}

/// Whether rows are aggregated, so that to compute them twice takes longer than to keep them. Rows that are as many as those
/// they come from are computed where they are read, by the conditions there.
fn is_costly(plan: &LogicalPlan) -> Result<bool> {
    let aggregates = |node: &LogicalPlan| Ok(matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_)));
    Ok(!plan.contains_outer_reference() && plan.exists(aggregates)?)
}
