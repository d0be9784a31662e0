//! What stands beside the target of UPDATE and DELETE, in FROM and USING, as RETURNING sees it.

use crate::catalog::bind::Binder;
use crate::pg::names::known_as;
use crate::pg::walk::leaves;
use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Ident, ObjectName, SelectItem, SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins,
    WildcardAdditionalOptions,
};
use tenon_executor::scan::POSITION_FIELDS;
use tenon_storage::TableVersion;

/// `relation.*` for all relations of a FROM clause; of the target's table without the places of rows.
pub(super) fn whole(binder: &Binder, target: &TableVersion, from: &[TableWithJoins]) -> Vec<SelectItem> {
    let item = |factor: &TableFactor| {
        let known = known_as(factor)?;
        let (name, has_places) = match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                ..
            } => {
                let known = alias.as_ref().map(|_| Ident::with_quote('"', known).into());
                (known.unwrap_or_else(|| name.clone()), is_named(binder, name, target))
            }
            _ => (Ident::with_quote('"', known).into(), false),
        };
        let places = || POSITION_FIELDS.map(|name| ObjectName::from(vec![Ident::with_quote('"', name)]));
        let options = WildcardAdditionalOptions {
            opt_exclude: has_places.then(|| ExcludeSelectItem::Multiple(places().to_vec())),
            ..WildcardAdditionalOptions::default()
        };
        let kind = SelectItemQualifiedWildcardKind::ObjectName(name);
        Some(SelectItem::QualifiedWildcard(kind, options))
    };
    from.iter().flat_map(leaves).filter_map(item).collect()
}

fn is_named(binder: &Binder, name: &ObjectName, table: &TableVersion) -> bool {
    let found = binder.names().existing(name).ok().flatten();
    found.is_some_and(|found| found.oid() == table.oid())
}
