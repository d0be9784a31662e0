//! What a statement that changes rows may do with its target: the rights that it needs there, and those of the owners of the
//! views that it changes rows through. What it reads beside that is asked as its plan is made. And the schemas that it names.

use super::select;
use super::updatable::Through;
use crate::catalog::bind::{Binder, fold};
use crate::catalog::rights::Rights;
use crate::pg::error::{Result, state};
use crate::pg::identity::Acting;
use crate::pg::parse::copy::Source;
use crate::pg::rewrite::rewrite;
use crate::pg::statement::Kind;
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, SelectItem, Statement, TableFactor, TableWithJoins, With, visit_expressions,
};
use std::ops::ControlFlow;
use tenon_storage::{DatabaseState, Relation, TableDefinition, TableVersion, privilege};

/// Rights on the columns of a target, by their names there.
pub(super) fn columns<'n>(
    binder: &Binder,
    relation: &Relation,
    wanted: u32,
    names: impl IntoIterator<Item = &'n str>,
) -> Result<()> {
    if binder.acting.superuser {
        return Ok(());
    }
    let asked = binder.rights().check_columns(relation, wanted, names);
    binder.answer(asked)
}

/// A right on a whole target.
pub(super) fn whole(binder: &Binder, relation: &Relation, wanted: u32) -> Result<()> {
    if binder.acting.superuser {
        return Ok(());
    }
    let asked = binder.rights().check(relation, wanted);
    binder.answer(asked)
}

/// The relations below a view that rows are changed through, each asked of the owner of the view above it. `changed`: the
/// columns of the table at the bottom; None: whole rows.
pub(super) fn below(
    binder: &Binder,
    view: Option<&Through>,
    table: &TableVersion,
    wanted: u32,
    changed: Option<&[usize]>,
) -> Result<()> {
    let Some(view) = view.filter(|view| !view.path.is_empty()) else {
        return Ok(());
    };
    let snapshot: &DatabaseState = &binder.snapshot;
    let mut above = view.path.iter();
    // A view of its invoker's asks for who runs the statement.
    let for_whom = |oid: &u32| match snapshot.relation_by_oid(*oid) {
        Some(Relation::View(view)) if view.is_of_invoker() => binder.facts.acting,
        _ => Acting::of(snapshot, snapshot.owner(*oid)),
    };
    let mut acting = above.next().map(for_whom);
    for oid in above {
        let (Some(own), Some(relation)) = (acting, snapshot.relation_by_oid(*oid)) else {
            return Ok(());
        };
        let rights = Rights {
            state: snapshot,
            acting: own,
        };
        let at_bottom = *oid == table.oid();
        let answer = match changed {
            Some(changed) if at_bottom => {
                let definition = table.definition();
                let names = changed.iter().map(|at| definition.columns[*at].name.as_str());
                rights.check_columns(relation, wanted, names)
            }
            Some(_) => match rights.has_any(relation, wanted) {
                true => Ok(()),
                false => rights.check(relation, wanted),
            },
            None => rights.check(relation, wanted),
        };
        binder.answer(answer)?;
        // What finds the rows reads the relation for the view.
        if wanted & (privilege::UPDATE | privilege::DELETE) != 0 && !rights.has_any(relation, privilege::SELECT) {
            binder.answer(rights.check(relation, privilege::SELECT))?;
        }
        acting = Some(for_whom(oid));
    }
    Ok(())
}

/// What a statement reads of its target: the values and conditions that it gives, and what it returns.
pub(super) struct Read<'a> {
    pub target: &'a Relation,
    /// The target in FROM, and what stands beside it.
    pub factor: &'a TableFactor,
    pub beside: Vec<TableWithJoins>,
    pub with: Option<&'a With>,
    pub exprs: Vec<Expr>,
    pub returning: Option<&'a [SelectItem]>,
}

impl Read<'_> {
    /// Refuses a statement that reads columns of its target which its role may not read. One that reads none needs no right
    /// to read it.
    pub fn check(self, binder: &Binder) -> Result<()> {
        if binder.acting.superuser || binder.rights().has(self.target, privilege::SELECT) {
            return Ok(());
        }
        let binder = binder.clone().asking_of_columns(self.target.oid());
        let exprs = self
            .exprs
            .into_iter()
            .enumerate()
            .map(|(at, expr)| SelectItem::ExprWithAlias {
                expr,
                alias: Ident::with_quote('"', format!("\u{1}read {at}")),
            });
        let target = TableWithJoins {
            relation: self.factor.clone(),
            joins: Vec::new(),
        };
        let mut from = vec![target.clone()];
        from.extend(self.beside);
        let exprs: Vec<SelectItem> = exprs.collect();
        if !exprs.is_empty() {
            let mut tree = select::of(exprs, from.clone(), None);
            if let (Statement::Query(query), Some(with)) = (&mut tree, self.with) {
                query.with = Some(with.clone());
            }
            plan(&binder, self.target, tree)?;
        }
        if let Some(items) = self.returning {
            let mut tree = select::of(items.to_vec(), from, None);
            if let (Statement::Query(query), Some(with)) = (&mut tree, self.with) {
                query.with = Some(with.clone());
            }
            plan(&binder, self.target, tree)?;
        }
        Ok(())
    }
}

/// Plans what is only asked about. What cannot be planned so counts as reading all of the target.
fn plan(binder: &Binder, target: &Relation, mut tree: Statement) -> Result<()> {
    rewrite(&mut tree);
    match super::parameters::plan(binder, tree, &[]) {
        Ok(_) => Ok(()),
        Err(error) if error.state == state::INSUFFICIENT_PRIVILEGE => Err(error),
        Err(_) => binder.answer(binder.rights().check(target, privilege::SELECT)),
    }
}

/// The columns of a table that expressions name, other than as those of `excluded`.
pub(super) fn named(definition: &TableDefinition, exprs: &[&Expr]) -> Vec<String> {
    named_among(exprs, |name| definition.column_index(name).is_some())
}

/// The same of what else has columns: those that are its own.
pub(super) fn named_among(exprs: &[&Expr], is_own: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for expr in exprs {
        let _ = visit_expressions(*expr, |expr: &Expr| {
            let name = match expr {
                Expr::Identifier(name) => Some(fold(name)),
                Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                    [.., qualifier, name] if fold(qualifier) != "excluded" => Some(fold(name)),
                    _ => None,
                },
                _ => None,
            };
            found.extend(name.filter(|name| is_own(name)));
            ControlFlow::<()>::Continue(())
        });
    }
    found
}

/// Whether the statement's role may use the schemas that it says before functions and types.
pub(super) fn schemas(session: &Session, kind: &Kind) -> Result<()> {
    if session.acting().superuser {
        return Ok(());
    }
    match kind {
        Kind::Sql(tree) => session.binder().check_schemas(tree.as_ref()),
        Kind::Copy(copy) => {
            let binder = session.binder();
            copy.filter.iter().try_for_each(|filter| binder.check_schemas(filter))?;
            match &copy.source {
                Source::Relation(..) => Ok(()),
                Source::Query(query) => binder.check_schemas(query.as_ref()),
                Source::Change(change) => binder.check_schemas(change.as_ref()),
            }
        }
        _ => Ok(()),
    }
}
