//! Arrays that stand for the rows of a statement's parts, where the rest names them.

use crate::catalog::bind::fold;
use crate::pg::parse::parse_query;
use crate::pg::walk::VisitMut;
use crate::session::statements::select;
use datafusion::sql::sqlparser::ast::{
    Delete, FromTable, Ident, Query, SetExpr, Statement, TableFactor, TableWithJoins, Update, VisitorMut,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// A column of a part's rows.
pub(super) struct ArrayColumn {
    pub name: String,
    /// What its values are cast to, where the array says less of their type.
    pub cast: Option<String>,
}

/// The rows of a part: `unnest` of parameters.
pub(super) struct RowArrays {
    name: String,
    /// `(SELECT columns FROM unnest($n, ...) AS name (columns)) AS name`
    factor: TableFactor,
    /// All of it.
    query: Box<Query>,
}

impl RowArrays {
    /// Of parameters of which the first comes after `before` others. None: columns share a name.
    pub fn of(name: &str, columns: &[ArrayColumn], before: usize) -> Option<Self> {
        let mut names = HashSet::new();
        if columns.is_empty() || !columns.iter().all(|column| names.insert(column.name.as_str())) {
            return None;
        }
        let quoted = |name: &str| Ident::with_quote('"', name).to_string();
        let params: Vec<String> = (1..=columns.len()).map(|at| format!("${}", before + at)).collect();
        let named: Vec<String> = columns.iter().map(|column| quoted(&column.name)).collect();
        let item = |column: &ArrayColumn| match &column.cast {
            Some(cast) => format!("{0}::{cast} AS {0}", quoted(&column.name)),
            None => quoted(&column.name),
        };
        let items: Vec<String> = columns.iter().map(item).collect();
        let (items, params, named) = (items.join(", "), params.join(", "), named.join(", "));
        let rows = format!("SELECT {items} FROM unnest({params}) AS {} ({named})", quoted(name));
        Self::over(name, parse_query(&rows).ok()??, &[])
    }

    /// Of a query's rows, with these names of columns.
    fn over(name: &str, rows: Box<Query>, columns: &[Ident]) -> Option<Self> {
        let factor = select::derived(rows, name, columns);
        let mut query = parse_query("SELECT * FROM t").ok()??;
        let SetExpr::Select(select) = query.body.as_mut() else {
            return None;
        };
        select.from = vec![select::alone(factor.clone())];
        Some(Self {
            name: name.to_owned(),
            factor,
            query,
        })
    }
}

/// What stands for relations.
pub(super) struct Arrays(pub Vec<RowArrays>);

impl Arrays {
    /// Puts them where the relations are named. None: something else has such a name.
    pub fn put_into(&mut self, tree: &mut Statement) -> Option<()> {
        if self.0.is_empty() {
            return Some(());
        }
        let taken = target_of(tree).is_some_and(|target| self.named(&target.relation).is_some());
        (!taken && tree.visit(self).is_continue()).then_some(())
    }

    fn named(&self, factor: &TableFactor) -> Option<&RowArrays> {
        let TableFactor::Table { name, args: None, .. } = factor else {
            return None;
        };
        let [part] = name.0.as_slice() else { return None };
        let name = fold(part.as_ident()?);
        self.0.iter().find(|arrays| arrays.name == name)
    }
}

impl VisitorMut for Arrays {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut own = query.with.iter().flat_map(|with| &with.cte_tables);
        match own.any(|cte| self.0.iter().any(|arrays| arrays.name == fold(&cte.alias.name))) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let Some(arrays) = self.named(factor) else {
            return ControlFlow::Continue(());
        };
        let alias = match factor {
            TableFactor::Table { alias, .. } => alias.as_ref(),
            _ => None,
        };
        *factor = match alias {
            None => arrays.factor.clone(),
            Some(alias) => {
                let columns: Vec<Ident> = alias.columns.iter().map(|column| column.name.clone()).collect();
                select::derived(arrays.query.clone(), &fold(&alias.name), &columns)
            }
        };
        ControlFlow::Continue(())
    }
}

/// The table that a change names.
fn target_of(tree: &Statement) -> Option<&TableWithJoins> {
    match tree {
        Statement::Update(Update { table, .. }) => Some(table),
        Statement::Delete(Delete {
            from: FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from),
            ..
        }) => from.first(),
        Statement::Query(query) => match query.body.as_ref() {
            SetExpr::Update(own) | SetExpr::Delete(own) => target_of(own),
            _ => None,
        },
        _ => None,
    }
}

/// An UPDATE or DELETE after a WITH of nothing but such relations, which stand where they are named: a plan of it may be kept then.
/// Any other statement as it is.
pub(super) fn without_with(tree: Statement, arrays: &Arrays) -> Statement {
    let Statement::Query(query) = &tree else { return tree };
    let Some(with) = &query.with else { return tree };
    let mut named = Arrays(vec![]);
    for cte in &with.cte_tables {
        // One that names another would be looked into again.
        if with.recursive || !is_over(&cte.query, arrays) {
            return tree;
        }
        let columns: Vec<Ident> = cte.alias.columns.iter().map(|column| column.name.clone()).collect();
        match RowArrays::over(&fold(&cte.alias.name), cte.query.clone(), &columns) {
            Some(rows) => named.0.push(rows),
            None => return tree,
        }
    }
    let mut inner = match query.body.as_ref() {
        SetExpr::Update(inner) | SetExpr::Delete(inner) => inner.clone(),
        _ => return tree,
    };
    match named.put_into(&mut inner) {
        Some(()) => inner,
        None => tree,
    }
}

/// Whether a query is all of the arrays that stand for one.
fn is_over(query: &Query, arrays: &Arrays) -> bool {
    match query.body.as_ref() {
        SetExpr::Select(select) => match select.from.as_slice() {
            [only] => query.with.is_none() && arrays.0.iter().any(|own| own.factor == only.relation),
            _ => false,
        },
        _ => false,
    }
}
