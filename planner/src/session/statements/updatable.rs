//! Changes of rows through a view or a partition: the relation to change, with its table's rows beside its own columns,
//! and what new rows must fulfil.

use super::constraints::Checks;
use crate::catalog::bind::Binder;
pub(super) use crate::catalog::through::{BASE, Through, Use, of, of_partition};
use crate::catalog::through::{base, plain};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::walk::VisitMut;
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, ObjectName, ObjectNamePart, SelectItem, SetExpr, Statement, TableAlias, TableFactor,
    TableWithJoins, VisitorMut,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use tenon_storage::{Relation, TableDefinition, TableVersion};

/// What a statement changes: a table, or one through a view.
pub(super) fn target(
    binder: &Binder,
    name: &ast::ObjectName,
    what: Use,
) -> Result<(Arc<TableVersion>, Option<Through>)> {
    let relation = binder.names().relation(name)?;
    match relation {
        Relation::Table(table) => {
            super::insert::refuse_materialized(table.definition())?;
            Ok((table.clone(), None))
        }
        Relation::View(view) => {
            let through = of(binder, view, what)?;
            Ok((through.table.clone(), Some(through)))
        }
        Relation::Partition(partition) => {
            let through = of_partition(binder, partition)?;
            Ok((through.table.clone(), Some(through)))
        }
        Relation::Sequence(sequence) => {
            let message = format!("cannot change sequence \"{}\"", sequence.name);
            Err(SqlError::new(state::WRONG_OBJECT_TYPE, message))
        }
    }
}

/// The view as a relation that shows its table's columns, too, under names that only we use, and what `more` names.
pub(super) fn factor(through: &Through, alias: &str, more: &[&str]) -> TableFactor {
    let item = |expr: Expr, name: String| SelectItem::ExprWithAlias {
        expr,
        alias: Ident::with_quote('"', name),
    };
    let definition = through.table.definition();
    let mut items: Vec<SelectItem> = through
        .columns
        .iter()
        .map(|(name, expr)| item(expr.clone(), name.clone()))
        .collect();
    items.extend(more.iter().map(|name| item(base(name), (*name).to_string())));
    items.extend(
        definition
            .columns
            .iter()
            .map(|column| item(base(&column.name), hidden(&column.name))),
    );
    let quoted = |name: &str| ObjectNamePart::Identifier(Ident::with_quote('"', name));
    let mut statement = super::select::over(
        ObjectName(vec![quoted(&definition.schema_name), quoted(&definition.name)]),
        items,
    );
    super::select::restrict(&mut statement, through.selection.clone());
    if let Statement::Query(query) = &mut statement
        && let SetExpr::Select(select) = query.body.as_mut()
        && let Some(TableWithJoins {
            relation: TableFactor::Table { alias, .. },
            ..
        }) = select.from.first_mut()
    {
        *alias = Some(named(BASE));
    }
    let Statement::Query(subquery) = statement else {
        unreachable!("a SELECT is a query")
    };
    TableFactor::Derived {
        lateral: false,
        subquery,
        alias: Some(named(alias)),
        sample: None,
    }
}

/// The table's checks with those of the views, or of the partition, that rows are written through.
pub(super) fn checks(
    session: &Session,
    through: Option<&Through>,
    binder: &Binder,
    table: &Arc<TableDefinition>,
) -> Result<Checks> {
    let mut checks = Checks::of(session, binder, table)?;
    let Some(through) = through else { return Ok(checks) };
    if let Some((name, condition)) = &through.partition {
        checks = checks.and_of_partition(binder, name, over_table(condition))?;
    }
    for (view, condition) in &through.checks {
        checks = checks.and_of_view(binder, view, over_table(condition))?;
    }
    Ok(checks)
}

/// A condition over the view's table alone, for CHECK OPTION.
fn over_table(condition: &Expr) -> Expr {
    struct Unqualified;
    impl VisitorMut for Unqualified {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Some(column) = plain(expr) {
                *expr = Expr::Identifier(Ident::with_quote('"', column));
            }
            ControlFlow::Continue(())
        }
    }
    let mut out = condition.clone();
    let _ = VisitMut::visit(&mut out, &mut Unqualified);
    out
}

/// The name under which a view's relation shows a column of its table.
pub(super) fn hidden(column: &str) -> String {
    format!("\u{1}base {column}")
}

fn named(alias: &str) -> TableAlias {
    TableAlias {
        explicit: true,
        name: Ident::with_quote('"', alias),
        columns: Vec::new(),
        at: None,
    }
}
