//! `SET column = value`: the assignments of UPDATE, ON CONFLICT DO UPDATE and their like, one value a column.

use super::updatable::{Through, Use};
use super::{defaults, row_cells};
use crate::catalog::bind::{Binder, fold};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::functions::aggregate::names::call_over_rows;
use crate::pg::functions::array::{ASSIGN, ASSIGN_SLICE};
use crate::pg::functions::record::RECORD;
use crate::pg::walk::is_ungrouped;
use datafusion::sql::sqlparser::ast::{
    self, Assignment, AssignmentTarget, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    Query, Select, SelectItem, SetExpr, Statement, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins,
};
use tenon_storage::{ColumnDef, Generated, TableDefinition};

/// The new value of each of the table's columns; None: the column is not named.
pub(super) fn values(
    binder: &Binder,
    definition: &TableDefinition,
    view: Option<&Through>,
    assignments: &[Assignment],
) -> Result<Vec<Option<Expr>>> {
    let mut values: Vec<Option<Expr>> = vec![None; definition.columns.len()];
    for assignment in assignments {
        for (name, path, value) in assigned(&definition.columns, assignment)? {
            let at = match view {
                Some(view) => view.column(&name, Use::Update)?,
                None => definition.column_index(&name).ok_or_else(|| {
                    let message = format!("column \"{name}\" of relation \"{}\" does not exist", definition.name);
                    SqlError::new(state::UNDEFINED_COLUMN, message)
                })?,
            };
            let column = &definition.columns[at];
            if !path.is_empty() {
                if defaults::is_default(&value) {
                    return Err(SqlError::unsupported_as("cannot set a subfield to DEFAULT"));
                }
                let earlier = values[at].take();
                if earlier.as_ref().is_some_and(|earlier| !is_record(earlier)) {
                    return Err(twice(&name));
                }
                let record = earlier.unwrap_or_else(|| Expr::Identifier(Ident::with_quote('"', &column.name)));
                values[at] = Some(row_cells::with_field(
                    binder,
                    (&name, column.sql_type),
                    record,
                    &path,
                    value,
                )?);
                continue;
            }
            let value = match values[at].take() {
                Some(earlier) => after(earlier, value).ok_or_else(|| twice(&name))?,
                None => row_cells::cell(binder, column.sql_type, value)?,
            };
            let is_default = defaults::is_default(&value);
            if let Some(generated @ (Generated::Stored | Generated::Always)) = column.generated
                && !is_default
            {
                let message = format!("column \"{name}\" can only be updated to DEFAULT");
                return Err(SqlError::new(state::GENERATED_ALWAYS, message).detail(defaults::detail(&name, generated)));
            }
            values[at] = Some(if is_default {
                defaults::tree(binder, definition, column)?
            } else {
                value
            });
        }
    }
    Ok(values)
}

fn twice(column: &str) -> SqlError {
    let message = format!("multiple assignments to same column \"{column}\"");
    SqlError::new(state::SYNTAX_ERROR, message)
}

/// Whether a value is a record in which a field was replaced.
fn is_record(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(call) if crate::pg::rewrite::function_name(call) == RECORD)
}

/// `a[2] = y` after `a[1] = x`: an array with an element, or a part, replaced in what the assignment before it has made. None
/// where either gives the column a value of its own.
fn after(earlier: Expr, mut later: Expr) -> Option<Expr> {
    let replaces = |expr: &Expr| match expr {
        Expr::Function(call) => [ASSIGN, ASSIGN_SLICE].contains(&crate::pg::rewrite::function_name(call).as_str()),
        _ => false,
    };
    if !replaces(&earlier) || !replaces(&later) {
        return None;
    }
    if let Expr::Function(call) = &mut later
        && let FunctionArguments::List(list) = &mut call.args
        && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(array))) = list.args.first_mut()
    {
        *array = earlier;
        return Some(later);
    }
    None
}

/// The names of the columns that get values.
pub(super) fn names(columns: &[ColumnDef], assignments: &[Assignment]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for assignment in assignments {
        let assigned = assigned(columns, assignment)?;
        names.extend(assigned.into_iter().map(|(name, ..)| name));
    }
    Ok(names)
}

/// Column names with the values they get, or the fields of their records where these are named.
fn assigned(columns: &[ColumnDef], assignment: &Assignment) -> Result<Vec<(String, Vec<String>, Expr)>> {
    let place = |name: &ObjectName| {
        row_cells::path(columns, name).unwrap_or_else(|| {
            // The relation's name may not stand before it.
            let first = name.0.first().and_then(|part| part.as_ident());
            (first.map(fold).unwrap_or_default(), Vec::new())
        })
    };
    let names = match &assignment.target {
        AssignmentTarget::ColumnName(name) => {
            let (column, path) = place(name);
            return Ok(vec![(column, path, assignment.value.clone())]);
        }
        AssignmentTarget::Tuple(names) => names,
    };
    let values = match unwrapped(&assignment.value) {
        Expr::Tuple(values) => values.clone(),
        Expr::Function(call) if crate::pg::rewrite::function_name(call) == "row" => arguments(&call.args),
        Expr::Subquery(query) => columns_of(query, names.len())?,
        single if names.len() == 1 => vec![single.clone()],
        _ => {
            let message = "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression";
            return Err(SqlError::unsupported_as(message));
        }
    };
    if values.len() != names.len() {
        let message = "number of columns does not match number of values";
        return Err(SqlError::new(state::SYNTAX_ERROR, message));
    }
    let places = names.iter().map(place).zip(values);
    Ok(places.map(|((column, path), value)| (column, path, value)).collect())
}

fn unwrapped(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) if matches!(**inner, Expr::Subquery(_) | Expr::Tuple(_)) => unwrapped(inner),
        other => other,
    }
}

fn arguments(arguments: &FunctionArguments) -> Vec<Expr> {
    let FunctionArguments::List(list) = arguments else {
        return Vec::new();
    };
    let values = list.args.iter().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    values.collect()
}

/// Whether each column of a query may be asked for by itself: it is of the same row then.
fn is_separable(query: &Query, select: &Select) -> bool {
    let plain = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    // A list with an aggregate is one row; of its other columns that is not to be seen.
    let mut over_rows = select.projection.iter().map(call_over_rows);
    let first = over_rows.next().flatten();
    select.distinct.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && select.projection.iter().all(plain)
        && (!is_ungrouped(select) || over_rows.all(|call| call == first))
}

/// `(SELECT a, b ...)` as a subquery for each column.
fn columns_of(query: &Query, width: usize) -> Result<Vec<Expr>> {
    if let SetExpr::Select(select) = query.body.as_ref()
        && is_separable(query, select)
    {
        let one = |at: usize| {
            let (mut query, mut select) = (query.clone(), select.clone());
            select.projection = vec![select.projection.swap_remove(at)];
            *query.body = SetExpr::Select(select);
            Expr::Subquery(Box::new(query))
        };
        return Ok((0..select.projection.len()).map(one).collect());
    }
    let names: Vec<Ident> = (0..width)
        .map(|at| Ident::with_quote('"', format!("\u{1}{at}")))
        .collect();
    let one = |name: &Ident| {
        let derived = TableFactor::Derived {
            lateral: false,
            subquery: Box::new(query.clone()),
            alias: Some(TableAlias {
                explicit: true,
                name: Ident::with_quote('"', "\u{1}source"),
                columns: names
                    .iter()
                    .map(|name| TableAliasColumnDef {
                        name: name.clone(),
                        data_type: None,
                    })
                    .collect(),
                at: None,
            }),
            sample: None,
        };
        let from = TableWithJoins {
            relation: derived,
            joins: Vec::new(),
        };
        let item = SelectItem::UnnamedExpr(Expr::Identifier(name.clone()));
        match super::select::of(vec![item], vec![from], None) {
            Statement::Query(query) => Ok(Expr::Subquery(query)),
            _ => Err(SqlError::internal("a SELECT is no query")),
        }
    };
    names.iter().map(one).collect()
}

/// The names under which the relations of a FROM clause are known.
pub(super) fn relations(from: &[TableWithJoins]) -> Vec<ast::ObjectName> {
    fn of(factor: &TableFactor, out: &mut Vec<ObjectName>) {
        let name = match factor {
            TableFactor::Table { name, alias: None, .. } => Some(name.clone()),
            TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => {
                joined(table_with_joins, out);
                None
            }
            TableFactor::Table { alias, .. }
            | TableFactor::Derived { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::NestedJoin { alias, .. } => alias.as_ref().map(|alias| alias.name.clone().into()),
            _ => None,
        };
        out.extend(name);
    }
    fn joined(table: &TableWithJoins, out: &mut Vec<ObjectName>) {
        of(&table.relation, out);
        table.joins.iter().for_each(|join| of(&join.relation, out));
    }
    let mut out = Vec::new();
    from.iter().for_each(|table| joined(table, &mut out));
    out
}
