//! `SELECT t.* FROM s.t`: the planner knows the relation as `s.t`, and finds columns by the last part of that, but not stars.

use crate::catalog::bind::whole_rows::leaves;
use crate::pg::names::fold;
use datafusion::sql::sqlparser::ast::{
    ObjectName, ObjectNamePart, Select, SelectItem, SelectItemQualifiedWildcardKind, TableFactor,
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
        let mut named = from.iter().flat_map(leaves).filter_map(|factor| match factor {
            TableFactor::Table { name, alias: None, .. } => Some(name),
            _ => None,
        });
        if let Some(own) = named.find(is_own) {
            *name = own.clone();
        }
    }
}
