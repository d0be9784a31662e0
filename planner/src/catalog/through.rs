//! Views through which rows of one table are changed: a plain SELECT of one table, or of one such view.

use crate::catalog::bind::{Binder, fold};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::functions::aggregate::names::is_aggregate;
use crate::pg::functions::sets::names::is_set;
use crate::pg::parse::{parse_expression, parse_query};
use crate::pg::walk::{change_inner_first, first_call, is_ungrouped};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins,
};
use std::sync::Arc;
use tenon_storage::{CheckOption, Partition, Relation, TableVersion, View};

/// What the view's table is called in the expressions below.
pub(crate) const BASE: &str = "\u{1}base";

/// A view's columns and condition in terms of its table.
#[derive(Clone)]
pub(crate) struct Through {
    pub view: String,
    pub table: Arc<TableVersion>,
    pub columns: Vec<(String, Expr)>,
    pub selection: Option<Expr>,
    /// WITH CHECK OPTION: the views that have it, with their conditions.
    pub checks: Vec<(String, Expr)>,
    /// A partition's name and condition: new rows must be its own.
    pub partition: Option<(String, Expr)>,
    /// The relation whose rows they are: a partition, or a table.
    pub oid: u32,
    /// The view and what it goes through, down to the relation at the bottom.
    pub path: Vec<u32>,
}

/// What the statement does, as errors say it.
#[derive(Clone, Copy)]
pub(crate) enum Use {
    Insert,
    Update,
    Delete,
}

impl Use {
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Use::Insert => ("insert into", "inserting into", "INSERT"),
            Use::Update => ("update", "updating", "UPDATE"),
            Use::Delete => ("delete from", "deleting from", "DELETE"),
        }
    }
}

fn refused(view: &str, what: Use, detail: &str) -> SqlError {
    let (verb, gerund, event) = what.words();
    let message = format!("cannot {verb} view \"{view}\"");
    SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        .detail(detail)
        .hint(format!(
            "To enable {gerund} the view, provide an INSTEAD OF {event} trigger or an unconditional ON {event} DO INSTEAD rule."
        ))
}

/// A column of the view's table.
pub(crate) fn base(column: &str) -> Expr {
    Expr::CompoundIdentifier(vec![Ident::with_quote('"', BASE), Ident::with_quote('"', column)])
}

/// The table behind a view; 55000 where there is no single one.
pub(crate) fn of(binder: &Binder, view: &View, what: Use) -> Result<Through> {
    let no = |detail: &str| Err(refused(&view.name, what, detail));
    let query = parse_query(&view.sql)?.ok_or_else(|| SqlError::internal("a view has no query"))?;
    let select = match query.body.as_ref() {
        SetExpr::Select(select) => select,
        SetExpr::SetOperation { .. } => {
            return no("Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable.");
        }
        _ => return no("Views that do not select from a single table or view are not automatically updatable."),
    };
    if let Some(detail) = obstacle(&query, select) {
        return no(detail);
    }
    let single = "Views that do not select from a single table or view are not automatically updatable.";
    let [TableWithJoins { relation, joins }] = select.from.as_slice() else {
        return no(single);
    };
    let TableFactor::Table {
        name,
        alias,
        args: None,
        sample,
        ..
    } = relation
    else {
        return no(single);
    };
    if !joins.is_empty() {
        return no(single);
    }
    if sample.is_some() {
        return no("Views containing TABLESAMPLE are not automatically updatable.");
    }
    // A view's names were looked up by who made it.
    let trusted = binder.clone().trusted();
    let source = trusted.names().relation(name)?;
    let mut inner = match source {
        Relation::Table(table) if table.definition().query.is_none() => Through {
            view: view.name.clone(),
            columns: table
                .definition()
                .columns
                .iter()
                .map(|column| (column.name.clone(), base(&column.name)))
                .collect(),
            table: table.clone(),
            selection: None,
            checks: Vec::new(),
            partition: None,
            oid: 0,
            path: vec![table.oid()],
        },
        Relation::View(inner) => of(binder, inner, what)?,
        Relation::Partition(partition) => Through {
            path: vec![partition.oid],
            ..of_partition(binder, partition)?
        },
        _ => return no(single),
    };
    let known_as = alias
        .as_ref()
        .map_or_else(|| source.name().to_string(), |alias| fold(&alias.name));
    let renamed: Vec<String> = alias
        .iter()
        .flat_map(|alias| &alias.columns)
        .map(|column| fold(&column.name))
        .collect();
    for (column, name) in inner.columns.iter_mut().zip(renamed) {
        column.0 = name;
    }
    let mut columns = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => {
                columns.extend(inner.columns.iter().map(|(_, expr)| expr.clone()));
            }
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                columns.push(inner.substituted(&known_as, expr));
            }
            _ => return no(single),
        }
    }
    let own = select
        .selection
        .as_ref()
        .map(|condition| inner.substituted(&known_as, condition));
    // CASCADED asks for the conditions of the views below, too.
    let mut checks = inner.checks;
    match (view.check_option, &own) {
        (CheckOption::None, _) => {}
        (CheckOption::Local, Some(own)) => checks.push((view.name.clone(), own.clone())),
        (CheckOption::Local, None) => {}
        (CheckOption::Cascaded, _) => {
            if let Some(all) = and(inner.selection.clone(), own.clone()) {
                checks.push((view.name.clone(), all));
            }
        }
    }
    let names = view.schema.fields().iter().map(|field| field.name().clone());
    Ok(Through {
        view: view.name.clone(),
        columns: names.zip(columns).collect(),
        selection: and(inner.selection, own),
        checks,
        partition: inner.partition,
        oid: 0,
        path: std::iter::once(view.oid).chain(inner.path).collect(),
        table: inner.table,
    })
}

fn and(first: Option<Expr>, second: Option<Expr>) -> Option<Expr> {
    match (first, second) {
        (Some(first), Some(second)) => Some(Expr::BinaryOp {
            left: Box::new(Expr::Nested(Box::new(first))),
            op: BinaryOperator::And,
            right: Box::new(Expr::Nested(Box::new(second))),
        }),
        (first, second) => first.or(second),
    }
}

/// Why rows of a query are not rows of its table.
fn obstacle(query: &Query, select: &Select) -> Option<&'static str> {
    if select.distinct.is_some() {
        return Some("Views containing DISTINCT are not automatically updatable.");
    }
    if !is_ungrouped(select) {
        return Some("Views containing GROUP BY are not automatically updatable.");
    }
    if select.having.is_some() {
        return Some("Views containing HAVING are not automatically updatable.");
    }
    if query.with.is_some() {
        return Some("Views containing WITH are not automatically updatable.");
    }
    if query.limit_clause.is_some() || query.fetch.is_some() {
        return Some("Views containing LIMIT or OFFSET are not automatically updatable.");
    }
    first_call(&select.projection, |call| match call.over {
        Some(_) => Some("Views that return window functions are not automatically updatable."),
        None if is_aggregate(call) => Some("Views that return aggregate functions are not automatically updatable."),
        None if is_set(call) => Some("Views that return set-returning functions are not automatically updatable."),
        None => None,
    })
}

impl Through {
    /// An expression over the columns, known under `alias`, as one over the table's.
    fn substituted(&self, alias: &str, expr: &Expr) -> Expr {
        let mut out = expr.clone();
        change_inner_first(&mut out, |expr, within| {
            let name = match expr {
                Expr::Identifier(name) if !within => Some(fold(name)),
                Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                    [.., qualifier, name] if fold(qualifier) == alias => Some(fold(name)),
                    _ => None,
                },
                _ => None,
            };
            let found = name.and_then(|name| self.columns.iter().find(|(own, _)| *own == name));
            if let Some((_, value)) = found {
                *expr = value.clone();
            }
        });
        out
    }

    /// The table's column that a column of the view is; 0A000 where it is computed.
    pub(crate) fn column(&self, name: &str, what: Use) -> Result<usize> {
        let found = self.columns.iter().find(|(own, _)| own == name);
        let (_, expr) = found.ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", self.view);
            SqlError::new(state::UNDEFINED_COLUMN, message)
        })?;
        plain(expr)
            .and_then(|column| self.table.definition().column_index(&column))
            .ok_or_else(|| {
                let verb = what.words().0;
                SqlError::unsupported_as(format!("cannot {verb} column \"{name}\" of view \"{}\"", self.view))
                    .detail("View columns that are not columns of their base relation are not updatable.")
            })
    }
}

/// The column of the view's table that an expression is.
pub(crate) fn plain(expr: &Expr) -> Option<String> {
    match expr {
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [qualifier, name] if qualifier.value == BASE => Some(name.value.clone()),
            _ => None,
        },
        Expr::Nested(inner) => plain(inner),
        _ => None,
    }
}

/// The rows of a partition, in terms of its table.
pub(crate) fn of_partition(binder: &Binder, partition: &Partition) -> Result<Through> {
    let table = binder.snapshot.table_by_oid(partition.root);
    let table = table.ok_or_else(|| SqlError::internal("a partition has no table"))?;
    let own = table.definition().columns.iter();
    let whole = Through {
        view: partition.name.clone(),
        columns: own.map(|column| (column.name.clone(), base(&column.name))).collect(),
        table: table.clone(),
        selection: None,
        checks: Vec::new(),
        partition: None,
        oid: partition.oid,
        path: Vec::new(),
    };
    let condition = parse_expression(&super::partitions::condition(&binder.snapshot, partition))?;
    let condition = whole.substituted("", &condition);
    Ok(Through {
        columns: partition.columns.iter().map(|at| whole.columns[*at].clone()).collect(),
        selection: Some(condition.clone()),
        partition: Some((partition.name.clone(), condition)),
        ..whole
    })
}

/// Whether rows of its table can be changed through a view.
pub(crate) fn is_updatable(binder: &Binder, view: &View) -> bool {
    of(binder, view, Use::Insert).is_ok()
}
