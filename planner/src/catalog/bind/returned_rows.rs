//! The name of a relation as a value in RETURNING, where no FROM says which relations there are: `RETURNING t`, `(t).a`, `(t).*`.

use super::{Binder, fold, hygiene, row_values};
use crate::pg::error::{Result, SqlError};
use crate::pg::names::known_as;
use crate::pg::parse::{ALL_COLUMNS, select};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Ident, ObjectName, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor,
    WildcardAdditionalOptions,
};

impl Binder {
    /// Puts records in the places of relations' names. `relations`: what they are called, with their columns. `target`: the
    /// table that one of them is.
    pub(crate) fn returned_rows(
        &self,
        items: Vec<SelectItem>,
        relations: &[(String, Vec<String>)],
        target: Option<(&str, &ObjectName)>,
    ) -> Result<Vec<SelectItem>> {
        let is_row = |name: &Ident| {
            let name = fold(name);
            let is_column = relations.iter().any(|(_, columns)| columns.contains(&name));
            !is_column && relations.iter().any(|(own, _)| *own == name)
        };
        let whole = |item: SelectItem| match all_of(&item).filter(|name| is_row(name)) {
            Some(name) => {
                let kind = SelectItemQualifiedWildcardKind::ObjectName(name.clone().into());
                SelectItem::QualifiedWildcard(kind, WildcardAdditionalOptions::default())
            }
            None => item,
        };
        let from = relations.iter().map(|(name, _)| {
            let name = ObjectName::from(vec![Ident::with_quote('"', name)]);
            select::alone(select::factor(name, None))
        });
        let mut query = select::query(items.into_iter().map(whole).collect(), from.collect(), None);
        let SetExpr::Select(select) = query.body.as_mut() else {
            return Ok(Vec::new());
        };
        let columns = |factor: &TableFactor| {
            let name = known_as(factor);
            let found = relations.iter().find(|(own, _)| Some(own) == name.as_ref());
            let found = found.map(|(_, columns)| columns.clone());
            // One of a subquery.
            let unknown = || SqlError::internal("columns that are not known");
            found.or_else(|| hygiene::columns(self, factor)).ok_or_else(unknown)
        };
        let row_type = |name: Option<String>| {
            let (alias, table) = target?;
            self.row_type_oids(table).filter(|_| name.as_deref() == Some(alias))
        };
        row_values::resolve(
            select,
            &mut [],
            |factor| columns(&factor),
            |factor| row_type(known_as(factor)),
        )?;
        Ok(std::mem::take(&mut select.projection))
    }
}

/// The name in `(name).*`.
fn all_of(item: &SelectItem) -> Option<&Ident> {
    let (SelectItem::UnnamedExpr(Expr::CompoundFieldAccess { root, access_chain })
    | SelectItem::ExprWithAlias {
        expr: Expr::CompoundFieldAccess { root, access_chain },
        ..
    }) = item
    else {
        return None;
    };
    let [AccessExpr::Dot(Expr::Identifier(last))] = access_chain.as_slice() else {
        return None;
    };
    match root.as_ref() {
        Expr::Nested(inner) if last.value == ALL_COLUMNS => match inner.as_ref() {
            Expr::Identifier(name) => Some(name),
            _ => None,
        },
        _ => None,
    }
}
