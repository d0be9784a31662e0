//! `tableoid`: the table or partition that a row is in. A constant of a table; of a partitioned one, what the bounds of its
//! partitions say of the row.

use super::{Binder, fold};
use crate::catalog::partitions;
use crate::catalog::system;
use crate::pg::error::Result;
use crate::pg::parse::parse_expression;
use crate::pg::walk::{Visit, VisitMut, replace};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, SetExpr, Statement, TableFactor,
    TableWithJoins, Visitor, VisitorMut,
};
use std::ops::ControlFlow;
use tenon_storage::Relation;

const TABLEOID: &str = "tableoid";

/// Puts what it is in the place of each `tableoid` in a statement.
pub(super) fn resolve(binder: &Binder, statement: &mut Statement) -> Result<()> {
    if Visit::visit(statement, &mut Named).is_continue() {
        return Ok(());
    }
    let mut resolver = Resolver {
        binder,
        scopes: Vec::new(),
        defined: Vec::new(),
    };
    match VisitMut::visit(statement, &mut resolver) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The same in expressions over the columns of one relation, known as `alias`.
pub(crate) fn of_relation(binder: &Binder, items: &mut [SelectItem], relation: u32, alias: &str) -> Result<()> {
    let Some(relation) = binder.snapshot.relation_by_oid(relation) else {
        return Ok(());
    };
    let mut resolver = Resolver {
        binder,
        scopes: vec![vec![Known {
            alias: alias.to_string(),
            relation: ObjectName(
                [relation.schema_name(), relation.name()]
                    .map(|part| ObjectNamePart::Identifier(Ident::with_quote('"', part)))
                    .to_vec(),
            ),
        }]],
        defined: Vec::new(),
    };
    for item in items {
        resolver.name(item);
        if let ControlFlow::Break(error) = VisitMut::visit(item, &mut resolver) {
            return Err(error);
        }
    }
    Ok(())
}

/// Stops where one is named.
struct Named;

impl Visitor for Named {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match column(expr) {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }
}

/// The qualifier, if any, of an expression that is a `tableoid`.
fn column(expr: &Expr) -> Option<Option<String>> {
    match expr {
        Expr::Identifier(name) if fold(name) == TABLEOID => Some(None),
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [.., qualifier, name] if fold(name) == TABLEOID => Some(Some(fold(qualifier))),
            _ => None,
        },
        _ => None,
    }
}

/// A relation in FROM.
struct Known {
    alias: String,
    relation: ObjectName,
}

struct Resolver<'a> {
    binder: &'a Binder,
    /// Those of the queries around, the innermost last.
    scopes: Vec<Vec<Known>>,
    /// The names of WITH.
    defined: Vec<String>,
}

fn factors(from: &[TableWithJoins], into: &mut Vec<Known>) {
    let each = |factor: &TableFactor, into: &mut Vec<Known>| match factor {
        TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } => {
            if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
                return;
            }
            let last = name.0.last().and_then(|part| part.as_ident()).map(fold);
            into.push(Known {
                alias: alias
                    .as_ref()
                    .map_or(last.unwrap_or_default(), |alias| fold(&alias.name)),
                relation: name.clone(),
            });
        }
        TableFactor::NestedJoin {
            table_with_joins,
            alias: None,
        } => factors(std::slice::from_ref(table_with_joins), into),
        _ => {}
    };
    for table in from {
        each(&table.relation, into);
        table.joins.iter().for_each(|join| each(&join.relation, into));
    }
}

impl Resolver<'_> {
    /// What a `tableoid` is; None where it is no column of a stored table or a system table.
    fn value(&self, qualifier: Option<&str>) -> Result<Option<Expr>> {
        for scope in self.scopes.iter().rev() {
            let found: Vec<&Known> = scope
                .iter()
                .filter(|known| qualifier.is_none_or(|qualifier| known.alias == qualifier))
                .collect();
            match found.as_slice() {
                [] => {}
                [one] => return self.of(one),
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    fn of(&self, known: &Known) -> Result<Option<Expr>> {
        let parts = super::parts(&known.relation);
        if parts.len() == 1 && self.defined.contains(&parts[0]) {
            return Ok(None);
        }
        let Ok(Some(relation)) = self.binder.names().existing(&known.relation) else {
            return system_table(&parts)
                .map(|own| parse_expression(&format!("CAST({own} AS oid)")))
                .transpose();
        };
        let own = match relation {
            Relation::Table(_) | Relation::Partition(_) => relation.oid(),
            Relation::View(_) | Relation::Sequence(_) => return Ok(None),
        };
        if relation.columns().column_with_name(TABLEOID).is_some() {
            return Ok(None);
        }
        let snapshot = &self.binder.snapshot;
        if relation.partitioning().is_none() {
            return parse_expression(&format!("CAST({own} AS oid)")).map(Some);
        }
        let below = snapshot.partitions_under(own);
        let leaves = below.iter().filter(|partition| partition.partitioning.is_none());
        let cases: Vec<String> = leaves
            .map(|leaf| {
                format!(
                    "WHEN {} THEN CAST({} AS oid)",
                    partitions::condition(snapshot, leaf),
                    leaf.oid
                )
            })
            .collect();
        if cases.is_empty() {
            return parse_expression("CAST(NULL AS oid)").map(Some);
        }
        let mut case = parse_expression(&format!("CASE {} END", cases.join(" ")))?;
        let _ = VisitMut::visit(&mut case, &mut Qualified(&known.alias));
        Ok(Some(case))
    }

    /// An output column that is nothing else, or that cast, keeps its name.
    fn name(&self, item: &mut SelectItem) {
        let SelectItem::UnnamedExpr(expr) = item else { return };
        let mut inner = &*expr;
        while let Expr::Cast { expr, .. } | Expr::Nested(expr) = inner {
            inner = expr;
        }
        if column(inner).is_some() {
            *item = SelectItem::ExprWithAlias {
                expr: expr.clone(),
                alias: Ident::new(TABLEOID),
            };
        }
    }
}

impl VisitorMut for Resolver<'_> {
    type Break = crate::pg::error::SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        let with = query.with.iter().flat_map(|with| &with.cte_tables);
        self.defined.extend(with.map(|table| fold(&table.alias.name)));
        // ORDER BY comes after the SELECT.
        let mut scope = Vec::new();
        if let SetExpr::Select(select) = query.body.as_ref() {
            factors(&select.from, &mut scope);
        }
        self.scopes.push(scope);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        let mut scope = Vec::new();
        factors(&select.from, &mut scope);
        self.scopes.push(scope);
        select.projection.iter_mut().for_each(|item| self.name(item));
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<Self::Break> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        match column(expr) {
            Some(qualifier) => replace(expr, self.value(qualifier.as_deref())),
            None => ControlFlow::Continue(()),
        }
    }
}

/// The oid of a system table by its name.
fn system_table(parts: &[String]) -> Option<u32> {
    match parts {
        [schema, name] if schema == system::PG_CATALOG => system::system_table(name),
        [name] => system::system_table(name),
        _ => None,
    }
}

/// Gives columns their relation.
struct Qualified<'a>(&'a str);

impl VisitorMut for Qualified<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = expr {
            *expr = Expr::CompoundIdentifier(vec![Ident::with_quote('"', self.0), name.clone()]);
        }
        ControlFlow::Continue(())
    }
}
