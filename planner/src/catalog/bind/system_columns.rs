//! Columns that a row has of the system's.
//!
//! `tableoid`: the table or partition that a row is in. A constant of a table; of a partitioned one, what the bounds of its
//! partitions say of the row. `ctid`: its address.

mod ctid;

pub(super) use ctid::WITH_ADDRESSES;

use super::{Binder, fold};
use crate::catalog::partitions;
use crate::catalog::system;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::parse::parse_expression;
use crate::pg::walk::{Visit, VisitMut, expressions, replace};
use ctid::shows_addresses;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, SetExpr, Statement, TableFactor,
    TableWithJoins, Visitor, VisitorMut,
};
use std::ops::ControlFlow;
use tenon_storage::Relation;

const TABLEOID: &str = "tableoid";
const CTID: &str = "ctid";

/// Puts what they are in the places of system columns in a statement.
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

/// The same in expressions over the columns of one relation, known as `alias`; if they name its rows' addresses, those are one
/// of the columns.
pub(crate) fn of_relation(binder: &Binder, items: &mut [SelectItem], relation: u32, alias: &str) -> Result<()> {
    let Some(relation) = binder.snapshot.relation_by_oid(relation) else {
        return Ok(());
    };
    let mut resolver = Resolver {
        binder,
        scopes: vec![vec![Known {
            alias: alias.to_string(),
            of: Source::Relation(ObjectName(
                [relation.schema_name(), relation.name()]
                    .map(|part| ObjectNamePart::Identifier(Ident::with_quote('"', part)))
                    .to_vec(),
            )),
            addressed: false,
            joined: false,
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

/// Whether items of a RETURNING name the addresses of rows.
pub(crate) fn names_addresses(items: &[SelectItem]) -> bool {
    let named = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            expressions(expr, |expr, _| match column(expr) {
                Some((CTID, _)) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
            .is_break()
        }
        _ => false,
    };
    items.iter().any(named)
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

/// Which system column an expression is, and its qualifier, if any.
fn column(expr: &Expr) -> Option<(&'static str, Option<String>)> {
    let known = |name: &Ident| [TABLEOID, CTID].into_iter().find(|known| fold(name) == *known);
    match expr {
        Expr::Identifier(name) => Some((known(name)?, None)),
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [.., qualifier, name] => Some((known(name)?, Some(fold(qualifier)))),
            _ => None,
        },
        _ => None,
    }
}

/// A relation in FROM.
struct Known {
    alias: String,
    of: Source,
    /// Whether the addresses of its rows are asked for.
    addressed: bool,
    /// Whether it stands in a join, where its name alone names its system columns.
    joined: bool,
}

enum Source {
    Relation(ObjectName),
    /// A query that stands for a partition that is changed, and shows its rows' addresses.
    Addressed,
}

struct Resolver<'a> {
    binder: &'a Binder,
    /// Those of the queries around, the innermost last.
    scopes: Vec<Vec<Known>>,
    /// The names of WITH.
    defined: Vec<String>,
}

fn factors(from: &[TableWithJoins], nested: bool, into: &mut Vec<Known>) {
    let each = |factor: &TableFactor, joined: bool, into: &mut Vec<Known>| match factor {
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
                of: Source::Relation(name.clone()),
                addressed: false,
                joined,
            });
        }
        TableFactor::Derived {
            subquery,
            alias: Some(alias),
            ..
        } if shows_addresses(subquery) => into.push(Known {
            alias: fold(&alias.name),
            of: Source::Addressed,
            addressed: false,
            joined,
        }),
        TableFactor::NestedJoin {
            table_with_joins,
            alias: None,
        } => factors(std::slice::from_ref(table_with_joins), true, into),
        _ => {}
    };
    for table in from {
        let joined = nested || !table.joins.is_empty();
        each(&table.relation, joined, into);
        table.joins.iter().for_each(|join| each(&join.relation, joined, into));
    }
}

impl Resolver<'_> {
    /// What a system column is; None where it is no column of a stored table or a system table.
    fn value(&mut self, name: &str, qualifier: Option<&str>) -> Result<Option<Expr>> {
        for at in (0..self.scopes.len()).rev() {
            let named = |(_, known): &(usize, &Known)| qualifier.is_none_or(|qualifier| known.alias == qualifier);
            let found: Vec<(usize, &Known)> = self.scopes[at].iter().enumerate().filter(named).collect();
            match found.as_slice() {
                [] => {}
                [(_, one)] if name == TABLEOID => return self.tableoid(one),
                _ if name == TABLEOID => return Ok(None),
                found => {
                    let known = found.iter().filter(|(_, known)| qualifier.is_some() || !known.joined);
                    let mut values = known.filter_map(|(number, known)| Some((*number, self.ctid(known)?)));
                    match (values.next(), values.next()) {
                        (None, _) if qualifier.is_some() => return Ok(None),
                        // One of the queries around.
                        (None, _) => {}
                        (Some((number, value)), None) => {
                            self.scopes[at][number].addressed = true;
                            return Ok(Some(value));
                        }
                        (Some(_), Some(_)) => {
                            let message = format!("column reference \"{CTID}\" is ambiguous");
                            return Err(SqlError::new(state::AMBIGUOUS_COLUMN, message));
                        }
                    }
                }
            }
        }
        Ok(None)
    }

    fn tableoid(&self, known: &Known) -> Result<Option<Expr>> {
        let Source::Relation(name) = &known.of else {
            return Ok(None);
        };
        let parts = super::parts(name);
        if parts.len() == 1 && self.defined.contains(&parts[0]) {
            return Ok(None);
        }
        let Ok(Some(relation)) = self.binder.names().existing(name) else {
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
        if let Some((name, _)) = column(inner) {
            *item = SelectItem::ExprWithAlias {
                expr: expr.clone(),
                alias: Ident::new(name),
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
            factors(&select.from, false, &mut scope);
        }
        self.scopes.push(scope);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        let scope = self.scopes.pop().unwrap_or_default();
        if let SetExpr::Select(select) = query.body.as_mut() {
            self.address(select, &scope);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        let mut scope = Vec::new();
        factors(&select.from, false, &mut scope);
        self.scopes.push(scope);
        select.projection.iter_mut().for_each(|item| self.name(item));
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        let scope = self.scopes.pop().unwrap_or_default();
        self.address(select, &scope);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        match column(expr) {
            Some((name, qualifier)) => replace(expr, self.value(name, qualifier.as_deref())),
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
