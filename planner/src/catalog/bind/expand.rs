//! What has to be told to DataFusion with the names of columns, which the parsed tree alone does not know.
//!
//! More than 400 lines because one walk over a query knows the names that all these rewrites need.
//!
//! - `JOIN ... USING` and NATURAL: what the merged column is, `merged` says; `*` shows merged columns first. They become `ON`,
//!   and references to merged columns what they mean, also those under the name that `USING (...) AS name` gives them.
//! - groups whose aggregates stand in subqueries with FROM become a relation (`grouped_apart`);
//! - columns that a primary key among the keys of all grouping sets determines are keys too (`determined`);
//! - calls and groups get names that no column has, where the statement's columns are named like calls (`pg::rewrite::said`);
//! - output columns beside `*` get their names (`output_names`), and names after ORDER BY are told apart (`order_keys`);

use super::determined::{self, Keyed};
use super::merged::{Merging, Side, merged};
use super::{
    Binder, column_names, fold, grouped_apart, lookup, order_keys, outer_aggregates, output_names, row_values,
    whole_rows, windows,
};
use crate::catalog::through::BASE;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::parse::select;
use crate::pg::rewrite::{calls_apart, groups_apart, is_like_a_call, output_name, says_one};
use crate::pg::semantics::resolve::known_of;
use crate::pg::tokens::joins;
use crate::pg::walk::{VisitMut, constraint};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Cte, Expr, GroupByExpr, Ident, Join, JoinConstraint, ObjectName, ObjectNamePart, OrderBy,
    OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement, TableAlias,
    TableFactor, TableWithJoins, VisitorMut,
};
use std::ops::ControlFlow;
use tenon_executor::scan::is_place;
use tenon_storage::SqlType;

/// Expands a statement in place.
pub(super) fn expand(binder: &Binder, statement: &mut Statement) -> Result<()> {
    let mut expander = Expander {
        binder,
        levels: Vec::new(),
        named_like_calls: says_one(statement, |factor| {
            let TableFactor::Table { name, args: None, .. } = factor else {
                return false;
            };
            let relation = binder.names().relation(name).ok();
            let fields = relation.into_iter().flat_map(|relation| relation.columns().fields());
            fields.into_iter().any(|field| is_like_a_call(field.name()))
        }),
    };
    match statement.visit(&mut expander) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Expander<'a> {
    binder: &'a Binder,
    /// The WITH of each enclosing query.
    levels: Vec<Level>,
    /// Whether a column may be named as DataFusion names a call.
    named_like_calls: bool,
}

/// A WITH: its queries as they were, and those that are expanded already.
#[derive(Default)]
struct Level {
    all: Vec<Cte>,
    expanded: Vec<Cte>,
}

impl Level {
    /// What can be named now: the queries before the current one, and of a recursive one its first term.
    fn visible(&self) -> Vec<Cte> {
        let mut visible = self.expanded.clone();
        if let Some(current) = self.all.get(visible.len()) {
            let mut query = current.query.as_ref();
            while let SetExpr::Query(inner) = query.body.as_ref() {
                query = inner;
            }
            if let SetExpr::SetOperation { left, .. } = query.body.as_ref() {
                let mut first = current.clone();
                first.query.body = left.clone();
                visible.push(first);
            }
        }
        visible
    }
}

impl VisitorMut for Expander<'_> {
    type Break = SqlError;

    /// `(a JOIN b USING (x)) AS k` is `(SELECT * FROM a JOIN b USING (x)) AS k`.
    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        if let TableFactor::NestedJoin {
            table_with_joins,
            alias: alias @ Some(_),
        } = factor
            && merges(table_with_joins)
        {
            let items = vec![SelectItem::Wildcard(Default::default())];
            let from = vec![table_with_joins.as_ref().clone()];
            *factor = TableFactor::Derived {
                lateral: false,
                subquery: select::query(items, from, None),
                alias: alias.take(),
                sample: None,
            };
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        if let Err(error) = windows::resolve(query) {
            return ControlFlow::Break(error);
        }
        let own = query
            .with
            .as_ref()
            .map_or_else(Vec::new, |with| with.cte_tables.clone());
        self.levels.push(Level {
            all: own,
            expanded: Vec::new(),
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        let expanded = self.query(query);
        self.levels.pop();
        if let Some(outer) = self.levels.last_mut()
            && let Some(cte) = outer.all.get(outer.expanded.len())
        {
            let mut cte = cte.clone();
            *cte.query = query.clone();
            outer.expanded.push(cte);
        }
        match expanded {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn keys_of(order: &mut Option<OrderBy>) -> Vec<&mut Expr> {
    match order.as_mut().map(|order| &mut order.kind) {
        Some(OrderByKind::Expressions(keys)) => keys.iter_mut().map(|key| &mut key.expr).collect(),
        _ => Vec::new(),
    }
}

fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// Columns that a FROM clause gives: what each is called, and what it stands for.
#[derive(Clone, Default)]
struct Scope {
    columns: Vec<ScopeColumn>,
    aliases: Vec<JoinAlias>,
}

/// `USING (...) AS name`: the merged columns under a name of their own.
#[derive(Clone)]
struct JoinAlias {
    name: String,
    columns: Vec<(String, Expr)>,
}

#[derive(Clone)]
struct ScopeColumn {
    name: String,
    value: Expr,
    /// Its type, where that is known.
    of: Option<SqlType>,
    merged: bool,
}

impl ScopeColumn {
    fn merging(&self) -> Merging {
        Merging {
            value: self.value.clone(),
            of: self.of,
        }
    }
}

impl Scope {
    /// The one column of that name.
    fn find(&self, name: &str) -> Result<Option<&ScopeColumn>> {
        let mut found = self.columns.iter().filter(|column| column.name == name);
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => {
                let message = format!("common column name \"{name}\" appears more than once in left table");
                Err(SqlError::new(state::AMBIGUOUS_COLUMN, message))
            }
            (found, _) => Ok(found),
        }
    }

    /// Both, whose names must differ where one is a join's.
    fn and(mut self, other: Scope) -> Result<Scope> {
        for (one, two) in [(&self, &other), (&other, &self)] {
            let taken = one.aliases.iter().find(|alias| two.knows(&alias.name));
            if let Some(alias) = taken {
                let message = format!("table name \"{}\" specified more than once", alias.name);
                return Err(SqlError::new(state::DUPLICATE_ALIAS, message));
            }
        }
        self.columns.extend(other.columns);
        self.aliases.extend(other.aliases);
        Ok(self)
    }

    /// Whether a relation or a join has this name.
    fn knows(&self, name: &str) -> bool {
        let qualifies = |column: &ScopeColumn| matches!(&column.value, Expr::CompoundIdentifier(parts) if parts.len() == 2 && fold(&parts[0]) == name);
        self.alias(name).is_some() || self.columns.iter().any(qualifies)
    }

    fn alias(&self, name: &str) -> Option<&JoinAlias> {
        self.aliases.iter().find(|alias| alias.name == name)
    }

    /// What `alias.column` stands for.
    fn of_alias(&self, expr: &Expr) -> Result<Option<&Expr>> {
        let Expr::CompoundIdentifier(parts) = expr else {
            return Ok(None);
        };
        let [qualifier, column] = parts.as_slice() else {
            return Ok(None);
        };
        let (qualifier, column) = (fold(qualifier), fold(column));
        let Some(alias) = self.alias(&qualifier) else {
            return Ok(None);
        };
        match alias.columns.iter().find(|(name, _)| *name == column) {
            Some((_, value)) => Ok(Some(value)),
            None => {
                let message = format!("column {qualifier}.{column} does not exist");
                Err(SqlError::new(state::UNDEFINED_COLUMN, message))
            }
        }
    }

    fn merged(&self, name: &str) -> Option<&Expr> {
        let found = self.columns.iter().find(|column| column.merged && column.name == name);
        found.map(|column| &column.value)
    }
}

impl Expander<'_> {
    fn query(&self, query: &mut Query) -> Result<()> {
        self.body(&mut query.body)?;
        let SetExpr::Select(select) = query.body.as_mut() else {
            return Ok(());
        };
        let mut keys = keys_of(&mut query.order_by);
        self.groups(select, &mut keys)?;
        whole_rows::resolve(select, &mut keys, |factor| self.columns(|_| factor))?;
        self.row_values(select, &mut keys)?;
        let scope = self.using(select)?;
        self.output_names(select, scope.is_some(), false);
        order_keys::check(select, &keys)?;
        order_keys::distinct(select);
        if let Some(scope) = scope
            && let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(keys) = &mut order.kind
        {
            let shown: Vec<String> = select.projection.iter().filter_map(output_name).collect();
            for key in keys {
                let own = matches!(&key.expr, Expr::Identifier(name) if shown.contains(&fold(name)));
                if !own {
                    replace_merged(&mut key.expr, &scope)?;
                }
            }
        }
        let mut keys = keys_of(&mut query.order_by);
        order_keys::of_input(select, &mut keys, |factor| self.named(factor))?;
        self.calls(select, &mut keys);
        order_keys::of_outputs(select, &mut keys);
        match query.order_by.as_mut().map(|order| &mut order.kind) {
            Some(OrderByKind::Expressions(keys)) => order_keys::initial(select, keys),
            _ => Ok(()),
        }
    }

    fn body(&self, body: &mut SetExpr) -> Result<()> {
        let SetExpr::SetOperation { left, right, .. } = body else {
            return Ok(());
        };
        for side in [left.as_mut(), right.as_mut()] {
            self.body(side)?;
            if let SetExpr::Select(select) = side {
                self.groups(select, &mut [])?;
                whole_rows::resolve(select, &mut [], |factor| self.columns(|_| factor))?;
                self.row_values(select, &mut [])?;
                let scope = self.using(select)?;
                self.output_names(select, scope.is_some(), true);
                self.calls(select, &mut []);
            }
        }
        Ok(())
    }

    /// Names calls and groups apart from columns.
    fn calls(&self, select: &mut Select, keys: &mut [&mut Expr]) {
        groups_apart(select, keys);
        if self.named_like_calls {
            let factors: Vec<TableFactor> = select.from.iter().flat_map(crate::pg::walk::factors).cloned().collect();
            calls_apart(select, keys, || {
                let columns = factors.iter().filter_map(|factor| self.named(factor));
                columns.flatten().map(|(_, name)| name).collect()
            });
        }
    }

    /// What a query's groups and aggregates are, where its subqueries and its tables' keys have a say in it.
    fn groups(&self, select: &mut Select, keys: &mut [&mut Expr]) -> Result<()> {
        outer_aggregates::hoist(select, keys);
        determined::resolve(select, keys, |factor| self.keyed(factor));
        grouped_apart::resolve(select, keys, outer_aggregates::is_own)
    }

    /// Puts records in the places of relations' names.
    fn row_values(&self, select: &mut Select, keys: &mut [&mut Expr]) -> Result<()> {
        let row_type = |factor: &TableFactor| {
            let (name, _) = self.stored(factor)?;
            self.binder.row_type_oids(name)
        };
        row_values::resolve(select, keys, |factor| self.columns(|_| factor), row_type)
    }

    /// The name and alias of what is no query of a WITH.
    fn stored<'f>(&self, factor: &'f TableFactor) -> Option<(&'f ObjectName, Option<&'f TableAlias>)> {
        let TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = factor
        else {
            return None;
        };
        let named = self.levels.iter().flat_map(|level| level.visible());
        let mut named = named.map(|cte| fold(&cte.alias.name));
        let is_bare = name.0.len() == 1;
        let own = name.0.last().and_then(ObjectNamePart::as_ident).map(fold)?;
        (!is_bare || named.all(|cte| cte != own)).then_some((name, alias.as_ref()))
    }

    /// A table with a primary key, unless other names stand for its columns.
    fn keyed(&self, factor: &TableFactor) -> Option<Keyed> {
        let (name, alias) = self.stored(factor)?;
        if alias.is_some_and(|alias| !alias.columns.is_empty()) {
            return None;
        }
        let table = self.binder.names().relation(name).ok()?.as_table()?;
        let definition = table.definition();
        let key = definition.primary_key.as_ref()?;
        let name = |at: &usize| definition.columns[*at].name.clone();
        Some(Keyed {
            alias: crate::pg::names::alias(factor)?,
            columns: definition.columns.iter().map(|column| column.name.clone()).collect(),
            key: key.columns.iter().map(name).collect(),
        })
    }

    /// `spelt`: whether `*` was spelt out for a join whose columns merge.
    fn output_names(&self, select: &mut Select, spelt: bool, side: bool) {
        output_names::resolve(select, output_names::Shape { spelt, side }, |factor| self.named(factor));
    }

    /// What a relation in FROM has; None where that cannot be told.
    fn named(&self, factor: &TableFactor) -> Option<Vec<output_names::Column>> {
        let column = |column: ScopeColumn| match column.value {
            Expr::CompoundIdentifier(parts) => (parts.first().map(fold), column.name),
            _ => (None, column.name),
        };
        let scope = self.factor(&mut factor.clone()).ok()?;
        Some(scope.columns.into_iter().map(column).collect())
    }

    /// The names of the columns of a relation in FROM, which may refer to rows outside.
    fn columns(&self, relation: impl FnOnce(&Self) -> TableFactor) -> Result<Vec<String>> {
        let columns = self.typed_columns(relation(self))?;
        Ok(columns.into_iter().map(|(name, _)| name).collect())
    }

    /// The same with their types, as far as these are known.
    fn typed_columns(&self, mut relation: TableFactor) -> Result<Vec<(String, Option<SqlType>)>> {
        let plain = self.stored(&relation);
        let plain = plain.filter(|(_, alias)| alias.is_none_or(|alias| alias.columns.is_empty()));
        if let Some(view) = plain.and_then(|(name, _)| lookup::view(self.binder, name)) {
            let (snapshot, known) = (&self.binder.snapshot, &self.binder.columns_of_views);
            if let Some(columns) = known.get(snapshot, view.oid) {
                return Ok(columns);
            }
            let columns = self.columns_alone(relation)?;
            known.keep(snapshot, view.oid, &columns);
            return Ok(columns);
        }
        self.columns_alone(relation.clone()).or_else(|error| {
            column_names::reduce(&mut relation);
            let columns = self.columns_alone(relation).map_err(|_| error)?;
            Ok(columns.into_iter().map(|(name, _)| (name, None)).collect())
        })
    }

    /// The same of one that does not.
    fn columns_alone(&self, relation: TableFactor) -> Result<Vec<(String, Option<SqlType>)>> {
        let from = select::alone(relation);
        let mut statement = select::of(vec![SelectItem::Wildcard(Default::default())], vec![from], None);
        if let Statement::Query(query) = &mut statement {
            let mut ctes: Vec<Cte> = Vec::new();
            for level in &self.levels {
                for cte in level.visible() {
                    ctes.retain(|known| fold(&known.alias.name) != fold(&cte.alias.name));
                    ctes.push(cte);
                }
            }
            if !ctes.is_empty() {
                query.with = Some(datafusion::sql::sqlparser::ast::With {
                    with_token: datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
                    recursive: true,
                    cte_tables: ctes,
                });
            }
        }
        // Nothing is read for it.
        let plan = self.binder.clone().trusted().plan_expanded(statement, &[])?;
        Ok(plan
            .schema()
            .fields()
            .iter()
            .map(|field| (field.name().clone(), known_of(field)))
            // Nor what a view that is a target has of its table.
            .filter(|(name, _)| !is_place(name) && !name.starts_with(BASE))
            .collect())
    }

    /// Resolves a SELECT's USING and NATURAL joins; None where it has none.
    fn using(&self, select: &mut Select) -> Result<Option<Scope>> {
        if !select.from.iter().any(merges) {
            return Ok(None);
        }
        let mut scope = Scope::default();
        for table in &mut select.from {
            scope = scope.and(self.table(table)?)?;
        }
        let merged = scope.columns.iter().any(|column| column.merged);
        if !merged {
            return Ok(Some(scope));
        }
        let mut items: Vec<SelectItem> = Vec::with_capacity(select.projection.len());
        for item in std::mem::take(&mut select.projection) {
            match item {
                SelectItem::Wildcard(options) if options.to_string().is_empty() => {
                    items.extend(scope.columns.iter().map(shown));
                }
                SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
                    let name_folded = fold(&name);
                    items.push(match scope.merged(&name_folded) {
                        Some(value) => SelectItem::ExprWithAlias {
                            expr: value.clone(),
                            alias: quoted(&name_folded),
                        },
                        None => SelectItem::UnnamedExpr(Expr::Identifier(name)),
                    });
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    let alias = match name.0.as_slice() {
                        [ObjectNamePart::Identifier(only)] => scope.alias(&fold(only)),
                        _ => None,
                    };
                    match alias {
                        Some(alias) => {
                            items.extend(alias.columns.iter().map(|(name, value)| SelectItem::ExprWithAlias {
                                expr: value.clone(),
                                alias: quoted(name),
                            }))
                        }
                        None => {
                            let kind = SelectItemQualifiedWildcardKind::ObjectName(name);
                            items.push(SelectItem::QualifiedWildcard(kind, options));
                        }
                    }
                }
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
                    let expr = Expr::CompoundIdentifier(parts);
                    let item = match (
                        scope.of_alias(&expr)?,
                        output_name(&SelectItem::UnnamedExpr(expr.clone())),
                    ) {
                        (Some(value), Some(name)) => {
                            let taken = items.iter().any(|item| output_name(item).as_ref() == Some(&name));
                            let name = match taken {
                                true => format!("{name}\u{1}{}", items.len()),
                                false => name,
                            };
                            SelectItem::ExprWithAlias {
                                expr: value.clone(),
                                alias: quoted(&name),
                            }
                        }
                        _ => SelectItem::UnnamedExpr(expr),
                    };
                    items.push(item);
                }
                other => items.push(other),
            }
        }
        select.projection = items;
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                replace_merged(expr, &scope)?;
            }
        }
        for expr in select.selection.iter_mut().chain(&mut select.having) {
            replace_merged(expr, &scope)?;
        }
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
            keys.iter_mut().try_for_each(|key| replace_merged(key, &scope))?;
        }
        if let Some(datafusion::sql::sqlparser::ast::Distinct::On(keys)) = &mut select.distinct {
            keys.iter_mut().try_for_each(|key| replace_merged(key, &scope))?;
        }
        Ok(Some(scope))
    }

    fn table(&self, table: &mut TableWithJoins) -> Result<Scope> {
        let mut scope = self.factor(&mut table.relation)?;
        for join in &mut table.joins {
            let right = self.factor(&mut join.relation)?;
            scope = self.join(scope, join, right)?;
        }
        Ok(scope)
    }

    fn factor(&self, factor: &mut TableFactor) -> Result<Scope> {
        if let TableFactor::NestedJoin {
            table_with_joins,
            alias: None,
        } = factor
        {
            return self.table(table_with_joins);
        }
        let qualifier = match factor {
            TableFactor::Table { name, alias, .. } => alias
                .as_ref()
                .map(|alias| fold(&alias.name))
                .or_else(|| name.0.last().and_then(ObjectNamePart::as_ident).map(fold)),
            TableFactor::Derived { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::NestedJoin { alias, .. } => alias.as_ref().map(|alias| fold(&alias.name)),
            _ => None,
        };
        let own = factor.clone();
        let columns = self.typed_columns(own)?;
        let column = |(name, of): (String, Option<SqlType>)| ScopeColumn {
            value: match &qualifier {
                Some(qualifier) => Expr::CompoundIdentifier(vec![quoted(qualifier), quoted(&name)]),
                None => Expr::Identifier(quoted(&name)),
            },
            name,
            of,
            merged: false,
        };
        Ok(Scope {
            columns: columns.into_iter().map(column).collect(),
            aliases: Vec::new(),
        })
    }

    fn join(&self, left: Scope, join: &mut Join, right: Scope) -> Result<Scope> {
        let side = Side::of(&join.join_operator);
        let Some(constraint) = constraint(&mut join.join_operator) else {
            return left.and(right);
        };
        let mut alias = None;
        let names: Vec<String> = match constraint {
            JoinConstraint::Using(names) => names
                .iter()
                .filter_map(|name| name.0.last().and_then(ObjectNamePart::as_ident).map(fold))
                .filter(|name| match joins::alias_of(name) {
                    Some(own) => {
                        alias = Some(own.to_string());
                        false
                    }
                    None => true,
                })
                .collect(),
            JoinConstraint::Natural => {
                let mut names: Vec<String> = Vec::new();
                for column in &left.columns {
                    let common = right.columns.iter().any(|other| other.name == column.name);
                    if common && !names.contains(&column.name) {
                        names.push(column.name.clone());
                    }
                }
                names
            }
            _ => return left.and(right),
        };
        let mut condition: Option<Expr> = None;
        let mut columns = Vec::new();
        for name in &names {
            let missing = |side: &str| {
                let message = format!("column \"{name}\" specified in USING clause does not exist in {side} table");
                SqlError::new(state::UNDEFINED_COLUMN, message)
            };
            let first = left.find(name)?.ok_or_else(|| missing("left"))?.merging();
            let second = right.find(name)?.ok_or_else(|| missing("right"))?.merging();
            let equal = binary(first.value.clone(), BinaryOperator::Eq, second.value.clone());
            condition = Some(match condition {
                Some(before) => binary(before, BinaryOperator::And, equal),
                None => equal,
            });
            let merged = merged(first, second, side)?;
            columns.push(ScopeColumn {
                name: name.clone(),
                value: merged.value,
                of: merged.of,
                merged: true,
            });
        }
        let mut scope = left.and(right)?;
        if let Some(name) = alias {
            let columns = columns.iter().map(|column| (column.name.clone(), column.value.clone()));
            let columns = columns.collect();
            scope = scope.and(Scope {
                columns: Vec::new(),
                aliases: vec![JoinAlias { name, columns }],
            })?;
        }
        columns.extend(
            std::mem::take(&mut scope.columns)
                .into_iter()
                .filter(|column| !names.contains(&column.name)),
        );
        scope.columns = columns;
        let always = Expr::Value(datafusion::sql::sqlparser::ast::Value::Boolean(true).into());
        *constraint = JoinConstraint::On(condition.unwrap_or(always));
        Ok(scope)
    }
}

/// Whether columns of both sides of a join become one.
pub(super) fn merges(table: &TableWithJoins) -> bool {
    let nested = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin {
            table_with_joins,
            alias: None,
        } => merges(table_with_joins),
        _ => false,
    };
    nested(&table.relation)
        || table.joins.iter().any(|join| {
            let mut operator = join.join_operator.clone();
            nested(&join.relation)
                || matches!(
                    constraint(&mut operator),
                    Some(JoinConstraint::Using(_) | JoinConstraint::Natural)
                )
        })
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }
}

/// A column of `*`.
fn shown(column: &ScopeColumn) -> SelectItem {
    match &column.value {
        Expr::CompoundIdentifier(_) if !column.merged => SelectItem::UnnamedExpr(column.value.clone()),
        value => SelectItem::ExprWithAlias {
            expr: value.clone(),
            alias: quoted(&column.name),
        },
    }
}

/// Replaces references to merged columns, but not inside subqueries.
fn replace_merged(expr: &mut Expr, scope: &Scope) -> Result<()> {
    struct Replacer<'a>(&'a Scope, usize);
    impl VisitorMut for Replacer<'_> {
        type Break = SqlError;

        fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
            self.1 += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
            self.1 -= 1;
            ControlFlow::Continue(())
        }

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
            match self.0.of_alias(expr) {
                Ok(None) => {}
                Ok(Some(value)) => *expr = value.clone(),
                Err(error) => return ControlFlow::Break(error),
            }
            if self.1 == 0
                && let Expr::Identifier(name) = expr
                && let Some(value) = self.0.merged(&fold(name))
            {
                *expr = value.clone();
            }
            ControlFlow::Continue(())
        }
    }
    match expr.visit(&mut Replacer(scope, 0)) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}
