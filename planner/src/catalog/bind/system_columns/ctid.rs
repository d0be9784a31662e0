//! `ctid`: a column that a table shows where FROM calls it by a name that says so, and that `*` does not.

use super::super::expand::merges;
use super::super::{fold, parts};
use super::{CTID, Known, Resolver, Source};
use crate::pg::names::alias;
use crate::pg::walk::leaves;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectNamePart, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableAlias,
    TableFactor, TableWithJoins,
};
use tenon_executor::scan::ADDRESS_FIELD;
use tenon_storage::Relation;

/// What a table's name ends with where its rows' addresses are wanted too.
pub(in crate::catalog::bind) const WITH_ADDRESSES: &str = "\u{1}addresses";

impl Resolver<'_> {
    /// The column that a table shows where it is asked for addresses.
    pub(super) fn ctid(&self, known: &Known) -> Option<Expr> {
        if let Source::Relation(name) = &known.of {
            let parts = parts(name);
            if parts.len() == 1 && self.defined.contains(&parts[0]) {
                return None;
            }
            let found = self.binder.names().existing(name).ok()??;
            let has_own = found.columns().column_with_name(CTID).is_some();
            if has_own || !matches!(found, Relation::Table(_) | Relation::Partition(_)) {
                return None;
            }
        }
        let parts = [known.alias.as_str(), ADDRESS_FIELD].map(|part| Ident::with_quote('"', part));
        Some(Expr::CompoundIdentifier(parts.to_vec()))
    }

    /// The columns of a table in FROM that is asked for addresses, which `*` does not show.
    fn shown(&self, scope: &[Known], factor: &TableFactor) -> Option<Vec<SelectItem>> {
        let alias = alias(factor)?;
        let known = scope.iter().find(|known| known.alias == alias && known.addressed)?;
        let Source::Relation(name) = &known.of else { return None };
        let relation = self.binder.names().existing(name).ok()??;
        let fields = relation.columns().fields().iter();
        let column = |name: &str| {
            let parts = [alias.as_str(), name].map(|part| Ident::with_quote('"', part));
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts.to_vec()))
        };
        Some(fields.map(|field| column(field.name())).collect())
    }

    /// Has the tables of a SELECT show the addresses that are asked of them.
    pub(super) fn address(&self, select: &mut Select, scope: &[Known]) {
        if !scope.iter().any(|known| known.addressed) {
            return;
        }
        let from: Vec<TableFactor> = select.from.iter().flat_map(leaves).cloned().collect();
        for item in std::mem::take(&mut select.projection) {
            match &item {
                // Of columns that a join merges, `*` is spelt out later, without what is hidden.
                SelectItem::Wildcard(_) if !select.from.iter().any(merges) => {
                    for factor in &from {
                        match (self.shown(scope, factor), alias(factor)) {
                            (Some(columns), _) => select.projection.extend(columns),
                            (None, Some(alias)) => select.projection.push(SelectItem::QualifiedWildcard(
                                SelectItemQualifiedWildcardKind::ObjectName(vec![Ident::with_quote('"', alias)].into()),
                                Default::default(),
                            )),
                            (None, None) => {}
                        }
                    }
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    let name = name.0.last().and_then(|part| part.as_ident()).map(fold);
                    let factor = from.iter().find(|factor| alias(factor) == name);
                    match factor.and_then(|factor| self.shown(scope, factor)) {
                        Some(columns) => select.projection.extend(columns),
                        None => select.projection.push(item),
                    }
                }
                _ => select.projection.push(item),
            }
        }
        select.from.iter_mut().for_each(|table| addressed(table, scope));
    }
}

pub(super) fn shows_addresses(query: &Query) -> bool {
    let shows =
        |item: &SelectItem| matches!(item, SelectItem::ExprWithAlias { alias, .. } if alias.value == ADDRESS_FIELD);
    matches!(query.body.as_ref(), SetExpr::Select(select) if select.projection.iter().any(shows))
}

/// Gives the tables among these that are asked for addresses the name that says so.
fn addressed(table: &mut TableWithJoins, scope: &[Known]) {
    let joined = table.joins.iter_mut().map(|join| &mut join.relation);
    for factor in std::iter::once(&mut table.relation).chain(joined) {
        let own = alias(factor);
        match factor {
            TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => addressed(table_with_joins, scope),
            TableFactor::Table {
                name,
                alias,
                args: None,
                ..
            } => {
                let is_asked = |known: &Known| known.addressed && own.as_ref() == Some(&known.alias);
                let Some(ObjectNamePart::Identifier(last)) = name.0.last_mut() else {
                    continue;
                };
                if !scope.iter().any(is_asked) || last.value.ends_with(WITH_ADDRESSES) {
                    continue;
                }
                let known = Ident::with_quote('"', own.unwrap_or_default());
                *last = Ident::with_quote('"', format!("{}{WITH_ADDRESSES}", fold(last)));
                alias.get_or_insert(TableAlias {
                    explicit: true,
                    name: known,
                    columns: Vec::new(),
                    at: None,
                });
            }
            _ => {}
        }
    }
}
