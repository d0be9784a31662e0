//! SELECT trees that statements other than SELECT are made of.

use crate::pg::parse::parse;
use crate::pg::statement::Kind;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, Select, SelectItem, SetExpr, Statement, TableAlias, TableAliasColumnDef,
    TableFactor, TableWithJoins,
};

/// `SELECT 1`, to be changed into what is wanted.
fn template() -> (Box<Query>, Box<Select>) {
    let Ok(mut parsed) = parse("SELECT 1 FROM t") else {
        unreachable!("a constant text parses")
    };
    let Kind::Sql(tree) = parsed.remove(0).kind else {
        unreachable!("a constant text is SQL")
    };
    let Statement::Query(query) = *tree else {
        unreachable!("a constant text is a query")
    };
    let SetExpr::Select(select) = query.body.as_ref() else {
        unreachable!("a constant text is a SELECT")
    };
    let select = select.clone();
    (query, select)
}

/// `SELECT items FROM relation`.
pub(crate) fn over(relation: ObjectName, items: Vec<SelectItem>) -> Statement {
    let (mut query, mut select) = template();
    if let Some(TableWithJoins {
        relation: TableFactor::Table { name, .. },
        ..
    }) = select.from.first_mut()
    {
        *name = relation;
    }
    select.projection = items;
    *query.body = SetExpr::Select(select);
    Statement::Query(query)
}

/// A relation in FROM.
pub(crate) fn factor(name: ObjectName, alias: Option<Ident>) -> TableFactor {
    let (_, mut select) = template();
    let mut factor = select.from.remove(0).relation;
    if let TableFactor::Table {
        name: own,
        alias: known_as,
        ..
    } = &mut factor
    {
        *own = name;
        *known_as = alias.map(|name| TableAlias {
            explicit: true,
            name,
            columns: Vec::new(),
            at: None,
        });
    }
    factor
}

/// Gives a SELECT its WHERE.
pub(crate) fn restrict(statement: &mut Statement, condition: Option<Expr>) {
    if let Statement::Query(query) = statement
        && let SetExpr::Select(select) = query.body.as_mut()
    {
        select.selection = condition;
    }
}

/// `SELECT items FROM from WHERE selection`.
pub(crate) fn of(items: Vec<SelectItem>, from: Vec<TableWithJoins>, selection: Option<Expr>) -> Statement {
    Statement::Query(query(items, from, selection))
}

/// The same, as a query.
pub(crate) fn query(items: Vec<SelectItem>, from: Vec<TableWithJoins>, selection: Option<Expr>) -> Box<Query> {
    let (mut query, mut select) = template();
    select.projection = items;
    select.from = from;
    select.selection = selection;
    *query.body = SetExpr::Select(select);
    query
}

/// A query that is no more than its body.
pub(crate) fn of_body(body: SetExpr) -> Box<Query> {
    let (mut query, _) = template();
    *query.body = body;
    query
}

/// `(subquery) AS alias (columns)`.
pub(crate) fn derived(subquery: Box<Query>, alias: &str, columns: &[Ident]) -> TableFactor {
    let columns = columns.iter().map(|name| TableAliasColumnDef {
        name: name.clone(),
        data_type: None,
    });
    TableFactor::Derived {
        lateral: false,
        subquery,
        alias: Some(TableAlias {
            explicit: true,
            name: Ident::with_quote('"', alias),
            columns: columns.collect(),
            at: None,
        }),
        sample: None,
    }
}

/// A relation of FROM that is joined with nothing.
pub(crate) fn alone(relation: TableFactor) -> TableWithJoins {
    TableWithJoins {
        relation,
        joins: Vec::new(),
    }
}
