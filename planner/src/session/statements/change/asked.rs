//! What an UPDATE or DELETE asks for, as a query for the rows to change.

use super::beside;
use crate::catalog::bind::{Binder, fold, only};
use crate::catalog::system;
use crate::pg::error::{Result, SqlError};
use crate::pg::rewrite::rewrite;
use crate::session::Prepared;
use crate::session::statements::returning::ReturningColumns;
use crate::session::statements::updatable::{self, Through, Use};
use crate::session::statements::xmax::Xmax;
use crate::session::statements::{assign, defaults, insert, parameters, select, untyped};
use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    self, Delete, FromTable, Ident, SelectItem, TableFactor, TableWithJoins, Update, UpdateTableFromKind, With,
};
use std::sync::Arc;
use tenon_executor::scan::{ADDRESS_FIELD, POSITION_FIELDS};
use tenon_storage::{Generated, Keys, Relation, TableDefinition, TableVersion};

/// An UPDATE or DELETE as a query for rows to change.
pub(super) struct Change {
    pub target: Target,
    /// Segment and row number; then, for UPDATE, the whole new row.
    pub select: ast::Statement,
    pub returning: Option<Vec<SelectItem>>,
    pub assigned: Assigned,
    pub what: &'static str,
    pub xmax: Xmax,
}

/// What becomes of the columns of rows.
pub(super) struct Assigned {
    /// Those that may get other values.
    pub columns: Vec<usize>,
    /// Of the unique indexes.
    pub keys: Keys,
}

impl Assigned {
    fn none() -> Assigned {
        Assigned {
            columns: Vec::new(),
            keys: Keys::Kept,
        }
    }
}

impl Change {
    /// The same under a WITH.
    fn under(mut self, with: Option<&With>) -> Self {
        if let ast::Statement::Query(query) = &mut self.select
            && let Some(with) = with
        {
            query.with = Some(with.clone());
        }
        self
    }
}

/// What is asked for.
#[derive(Clone, Copy)]
pub(super) enum Asked<'a> {
    Update(&'a Update),
    Delete(&'a Delete),
}

impl<'a> Asked<'a> {
    pub fn what(self) -> &'static str {
        match self {
            Asked::Update(_) => "UPDATE",
            Asked::Delete(_) => "DELETE",
        }
    }

    /// What RETURNING tells of it.
    pub fn xmax(self) -> Xmax {
        match self {
            Asked::Update(_) => Xmax::Zero,
            Asked::Delete(_) => Xmax::Gone,
        }
    }

    pub fn returning(self) -> Option<&'a Vec<SelectItem>> {
        match self {
            Asked::Update(update) => update.returning.as_ref(),
            Asked::Delete(delete) => delete.returning.as_ref(),
        }
    }

    /// Checks the clauses; the table to be changed.
    pub fn target(self, binder: &Binder) -> Result<Target> {
        match self {
            Asked::Update(update) => {
                if update.limit.is_some() || !update.order_by.is_empty() || update.or.is_some() {
                    return Err(SqlError::unsupported("UPDATE with LIMIT or ORDER BY"));
                }
                if !update.table.joins.is_empty() {
                    return Err(SqlError::unsupported("UPDATE of a join"));
                }
                Target::of(binder, &update.table.relation, Use::Update)
            }
            Asked::Delete(delete) => {
                if delete.limit.is_some() || !delete.order_by.is_empty() || !delete.tables.is_empty() {
                    return Err(SqlError::unsupported("DELETE with LIMIT or ORDER BY"));
                }
                let only = only_table(delete)?;
                if !only.joins.is_empty() {
                    return Err(SqlError::unsupported("DELETE from a join"));
                }
                Target::of(binder, &only.relation, Use::Delete)
            }
        }
    }

    /// The query for the rows to change.
    pub fn change(self, binder: &Binder, target: Target, with: Option<&With>) -> Result<Change> {
        let change = match self {
            Asked::Update(update) => of_update(binder, update, target)?,
            Asked::Delete(delete) => of_delete(binder, delete, target)?,
        };
        Ok(change.under(with))
    }

    /// What becomes of the rows' columns.
    pub fn assigned(self, binder: &Binder, target: &Target) -> Result<Assigned> {
        let Asked::Update(update) = self else {
            return Ok(Assigned::none());
        };
        let definition = target.table.definition();
        let values = assign::values(binder, definition, target.view.as_ref(), &update.assignments)?;
        Ok(assigned(definition, &values))
    }

    /// The types of parameters, those of their columns among them.
    pub fn types(self, binder: &Binder, target: &Target, types: &[u32]) -> Result<Vec<u32>> {
        let Asked::Update(update) = self else {
            return Ok(types.to_vec());
        };
        let definition = target.table.definition();
        let values = assign::values(binder, definition, target.view.as_ref(), &update.assignments)?;
        Ok(parameters::of_assigned(definition, &values, types))
    }

    /// Whether the rows found are those of the target alone.
    pub fn is_of_one_table(self) -> bool {
        match self {
            Asked::Update(update) => update.from.is_none(),
            Asked::Delete(delete) => delete.using.is_none(),
        }
    }

    /// Whether what RETURNING sees, if there is one, is known without the plan: nothing of other tables.
    pub fn tells_columns(self) -> bool {
        self.is_of_one_table() || self.returning().is_none()
    }

    /// Whether it is the whole of a prepared statement, so that its plans may be kept with that.
    pub fn is_whole(self, prepared: &Prepared) -> bool {
        match self {
            Asked::Update(update) => prepared.is_update(update),
            Asked::Delete(delete) => prepared.is_delete(delete),
        }
    }
}

/// The table that a DELETE names.
pub(super) fn only_table(delete: &Delete) -> Result<&TableWithJoins> {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    match from.as_slice() {
        [only] => Ok(only),
        _ => Err(SqlError::unsupported("DELETE from several tables")),
    }
}

/// What is changed: a table, directly or through a view.
pub(super) struct Target {
    pub table: Arc<TableVersion>,
    pub view: Option<Through>,
    /// What the statement names.
    pub relation: Relation,
    pub alias: String,
    /// Stands for it in the query for its rows.
    factor: TableFactor,
    /// Whether ONLY says that none of its rows are meant, which are its partitions'.
    empty: bool,
}

impl Target {
    fn of(binder: &Binder, factor: &TableFactor, what: Use) -> Result<Target> {
        let TableFactor::Table { name, alias, .. } = factor else {
            return Err(SqlError::unsupported("changing anything but a table"));
        };
        let (table, view) = updatable::target(binder, name, what)?;
        let mut factor = factor.clone();
        let empty = only::is_empty(binder, &mut factor);
        let own = view.as_ref().map_or_else(|| table.name(), |view| view.view.as_str());
        let alias = alias
            .as_ref()
            .map_or_else(|| own.to_string(), |alias| fold(&alias.name));
        let factor = match &view {
            // A view has no addresses, as its rows are none.
            Some(view) if view.partition.is_none() => updatable::factor(view, &alias, &POSITION_FIELDS),
            Some(view) => updatable::factor(view, &alias, &[&POSITION_FIELDS[..], &[ADDRESS_FIELD]].concat()),
            None => factor,
        };
        Ok(Target {
            relation: binder.names().relation(name)?.clone(),
            table,
            view,
            alias,
            factor,
            empty,
        })
    }

    /// A column of the table as it is.
    fn column(&self, name: &str) -> ast::Expr {
        match self.view {
            Some(_) => column(&self.alias, &updatable::hidden(name)),
            None => column(&self.alias, name),
        }
    }

    /// The condition, which no row fulfils where none is meant.
    fn restricted(&self, selection: &Option<ast::Expr>) -> Option<ast::Expr> {
        let never = || ast::Expr::Value(ast::Value::Boolean(false).into());
        self.empty.then(never).or_else(|| selection.clone())
    }

    fn in_from(&self, of: &TableWithJoins) -> TableWithJoins {
        TableWithJoins {
            relation: self.factor.clone(),
            joins: of.joins.clone(),
        }
    }
}

fn column(alias: &str, name: &str) -> ast::Expr {
    ast::Expr::CompoundIdentifier(vec![Ident::with_quote('"', alias), Ident::with_quote('"', name)])
}

fn item(expr: ast::Expr, name: String) -> SelectItem {
    SelectItem::ExprWithAlias {
        expr,
        alias: Ident::with_quote('"', name),
    }
}

fn positions(alias: &str) -> Vec<SelectItem> {
    POSITION_FIELDS
        .iter()
        .map(|name| item(column(alias, name), name.to_string()))
        .collect()
}

/// What becomes of columns that get these values.
fn assigned(definition: &TableDefinition, values: &[Option<ast::Expr>]) -> Assigned {
    let is_changed = |at: usize| values[at].is_some() || definition.columns[at].generated.is_some();
    let keys = match definition.has_keys_of(is_changed) {
        true => Keys::Changed,
        false => Keys::Kept,
    };
    let computed = |at: usize| definition.columns[at].generated == Some(Generated::Stored);
    let may_change = |at: &usize| values[*at].is_some() || computed(*at);
    Assigned {
        columns: (0..values.len()).filter(may_change).collect(),
        keys,
    }
}

fn of_update(binder: &Binder, update: &Update, target: Target) -> Result<Change> {
    let definition = target.table.definition();
    let values = assign::values(binder, definition, target.view.as_ref(), &update.assignments)?;
    let assigned = assigned(definition, &values);
    let mut items = positions(&target.alias);
    for (value, own) in values.into_iter().zip(&definition.columns) {
        items.push(item(
            value.unwrap_or_else(|| target.column(&own.name)),
            format!("\u{1}new {}", own.name),
        ));
    }
    let mut from = vec![target.in_from(&update.table)];
    match &update.from {
        Some(UpdateTableFromKind::AfterSet(more) | UpdateTableFromKind::BeforeSet(more)) => from.extend(more.clone()),
        None => {}
    }
    if update.returning.is_some() {
        items.extend(beside::whole(binder, &target.table, &from[1..]));
    }
    Ok(Change {
        select: select::of(items, from, target.restricted(&update.selection)),
        target,
        returning: update.returning.clone(),
        assigned,
        what: "UPDATE",
        xmax: Asked::Update(update).xmax(),
    })
}

fn of_delete(binder: &Binder, delete: &Delete, target: Target) -> Result<Change> {
    let only = only_table(delete)?;
    let mut items = positions(&target.alias);
    if delete.returning.is_some() {
        for own in &target.table.definition().columns {
            items.push(item(target.column(&own.name), format!("\u{1}old {}", own.name)));
        }
        items.extend(beside::whole(
            binder,
            &target.table,
            delete.using.as_deref().unwrap_or_default(),
        ));
    }
    let mut from: Vec<TableWithJoins> = vec![target.in_from(only)];
    from.extend(delete.using.iter().flatten().cloned());
    Ok(Change {
        select: select::of(items, from, target.restricted(&delete.selection)),
        target,
        returning: delete.returning.clone(),
        assigned: Assigned::none(),
        what: "DELETE",
        xmax: Asked::Delete(delete).xmax(),
    })
}

/// The plan, its parameters, and the columns that RETURNING sees: in the plan they follow the position.
pub(super) fn plan(
    binder: &Binder,
    change: &Change,
    types: &[u32],
) -> Result<(LogicalPlan, Vec<FieldRef>, ReturningColumns)> {
    // What the statement reads of its target for its client is asked beside this.
    let mut own_binder = binder.clone().without_asking(change.target.table.oid());
    own_binder.positions_of = Some(change.target.table.oid());
    own_binder.hides_places = true;
    let mut tree = change.select.clone();
    if system::touches(&tree) {
        tree = system::rewrite(tree);
    }
    rewrite(&mut tree);
    let (plan, params) = parameters::plan(&own_binder, tree, types)?;
    let definition = change.target.table.definition();
    let target = &change.target;
    let mut seen =
        ReturningColumns::through(&target.table, target.view.as_ref(), Some(target.alias.clone())).with(change.xmax);
    let columns: Vec<(Column, FieldRef)> = plan
        .schema()
        .iter()
        .map(|(qualifier, field)| (Column::new(qualifier.cloned(), field.name()), field.clone()))
        .collect();
    let mut exprs: Vec<Expr> = Vec::with_capacity(columns.len());
    for (at, (column, field)) in columns.into_iter().enumerate() {
        let qualifier = column.relation.as_ref().map(|name| name.table().to_string());
        let expr = Expr::Column(column);
        exprs.push(match at.checked_sub(POSITION_FIELDS.len()) {
            None => expr,
            Some(at) if at < definition.columns.len() => {
                let own = &definition.columns[at];
                // Values that stay have their column's type.
                if change.what == "UPDATE" && change.assigned.columns.contains(&at) {
                    untyped::check_column(&plan, at + POSITION_FIELDS.len(), own)?;
                    insert::assigned(expr, own).alias(&own.name)
                } else {
                    expr.alias(&own.name)
                }
            }
            Some(at) => {
                seen.fields.push((qualifier.unwrap_or_default(), field));
                expr.alias(format!("\u{1}other {at}"))
            }
        });
    }
    let plan = LogicalPlanBuilder::from(plan)
        .project(exprs)
        .and_then(LogicalPlanBuilder::build);
    let plan = plan.map_err(|error| crate::pg::errors::from_datafusion(&error))?;
    let plan = match change.what {
        "UPDATE" => defaults::generate(binder, definition, plan, POSITION_FIELDS.len())?,
        _ => plan,
    };
    Ok((plan, params, seen))
}
