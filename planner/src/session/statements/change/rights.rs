//! Whether the role that acts may do what an UPDATE or DELETE asks for.

use super::asked::{Asked, Target, only_table};
use crate::catalog::bind::Binder;
use crate::pg::error::Result;
use crate::session::statements::{assign, permitted};
use datafusion::sql::sqlparser::ast::{self, UpdateTableFromKind, With};
use tenon_storage::privilege;

impl Asked<'_> {
    pub fn check(self, binder: &Binder, target: &Target, with: Option<&With>) -> Result<()> {
        if binder.acting.superuser {
            return Ok(());
        }
        let (relation, view, table) = (&target.relation, target.view.as_ref(), &target.table);
        let (mut exprs, factor, beside, selection) = match self {
            Asked::Update(update) => {
                let definition = table.definition();
                let values = assign::values(binder, definition, view, &update.assignments)?;
                let changed: Vec<usize> = (0..values.len()).filter(|at| values[*at].is_some()).collect();
                let names = assign::names(&definition.columns, &update.assignments)?;
                permitted::columns(binder, relation, privilege::UPDATE, names.iter().map(String::as_str))?;
                permitted::below(binder, view, table, privilege::UPDATE, Some(&changed))?;
                let beside = match &update.from {
                    Some(UpdateTableFromKind::AfterSet(more) | UpdateTableFromKind::BeforeSet(more)) => more.clone(),
                    None => Vec::new(),
                };
                let given: Vec<ast::Expr> = values.into_iter().flatten().collect();
                (given, &update.table.relation, beside, &update.selection)
            }
            Asked::Delete(delete) => {
                permitted::whole(binder, relation, privilege::DELETE)?;
                permitted::below(binder, view, table, privilege::DELETE, None)?;
                let beside = delete.using.clone().unwrap_or_default();
                (Vec::new(), &only_table(delete)?.relation, beside, &delete.selection)
            }
        };
        exprs.extend(selection.clone());
        let read = permitted::Read {
            target: relation,
            factor,
            beside,
            with,
            exprs,
            returning: self.returning().map(Vec::as_slice),
        };
        read.check(binder)
    }
}
