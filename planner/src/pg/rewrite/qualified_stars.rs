//! `SELECT t.* FROM s.t`: the planner knows the relation as `s.t`, and finds columns by the last part of that, but not stars.

use crate::pg::names::fold;
use datafusion::sql::sqlparser::ast::{
    ObjectName, ObjectNamePart, Select, SelectItem, SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins,
};

/// Calls relations in stars as FROM does.
pub(super) fn in_select(select: &mut Select) {
    let Select { projection, from, .. } = select;
    for item in projection {
        let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item else {
            continue;
        };
        let [ObjectNamePart::Identifier(only)] = name.0.as_slice() else {
            continue;
        };
        let wanted = fold(only);
        let is_own = |own: &&ObjectName| {
            let last = own.0.last().and_then(ObjectNamePart::as_ident);
            own.0.len() > 1 && last.is_some_and(|last| fold(last) == wanted)
        };
        let mut named = Vec::new();
        from.iter().for_each(|table| tables(table, &mut named));
        if let Some(own) = named.into_iter().find(is_own) {
            *name = own.clone();
        }
    }
}

/// The names of tables without another one.
fn tables<'a>(from: &'a TableWithJoins, found: &mut Vec<&'a ObjectName>) {
    for factor in std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)) {
        match factor {
            TableFactor::Table { name, alias: None, .. } => found.push(name),
            TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => tables(table_with_joins, found),
            _ => {}
        }
    }
}
