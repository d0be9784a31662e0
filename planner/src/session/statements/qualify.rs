//! Texts that are kept - of views, defaults, conditions, indexes, keys of partitions, domains - name relations, types and
//! functions that are not PostgreSQL's own with their schemas, so that a later search path does not change what they mean.

use super::function_texts::written;
use crate::catalog::bind::{Binder, fold, parsed_type};
use crate::catalog::system::shipped_arguments;
use crate::pg::error::Result;
use crate::pg::rewrite::{is_regclass, relation_text};
use crate::pg::walk::VisitMut;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArguments, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, TableAlias, TableFactor, VisitorMut,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Qualifies the bare names in a query, but for common table expressions.
pub(super) fn query(binder: &Binder, query: &mut Box<Query>) {
    qualify(binder, query);
}

/// An expression with the bare names in it qualified; 42501 where it names what its schema keeps from who writes it.
pub(super) fn expression(binder: &Binder, expr: &Expr) -> Result<Expr> {
    binder.check_schemas(expr)?;
    let mut expr = expr.clone();
    qualify(binder, &mut expr);
    Ok(expr)
}

fn qualify<T: VisitMut>(binder: &Binder, tree: &mut T) {
    let mut qualifier = Qualifier {
        binder,
        defined: HashSet::new(),
    };
    let _ = tree.visit(&mut qualifier);
}

struct Qualifier<'a> {
    binder: &'a Binder,
    defined: HashSet<String>,
}

impl Qualifier<'_> {
    fn data_type(&self, declared: &mut DataType) {
        if let DataType::Custom(..) | DataType::Array(_) = declared
            && let Ok(full) = parsed_type(&self.binder.declared_in_full(declared))
        {
            *declared = full;
        }
    }

    /// A name in a string: `nextval('s')`.
    fn text(&self, text: &mut String) {
        if text.parse::<u32>().is_err()
            && let Ok(found) = self.binder.names().textual(text)
        {
            *text = format!("{}.{}", written(found.schema_name()), written(found.name()));
        }
    }

    /// The name of a function in SQL. Not where PostgreSQL has one that takes as many arguments, which may be meant.
    fn function(&self, name: &mut ObjectName, given: usize) {
        let [ObjectNamePart::Identifier(bare)] = name.0.as_slice() else {
            return;
        };
        let found = self.binder.functions_named(name);
        let Some(first) = found.first() else { return };
        let one_schema = found.iter().all(|own| own.schema_name == first.schema_name);
        if one_schema && !shipped_arguments(&fold(bare)).any(|own| own.len() == given) {
            *name = ObjectName::from(vec![written(&first.schema_name), bare.clone()]);
        }
    }
}

impl VisitorMut for Qualifier<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(text) = relation_text(expr) {
            self.text(text);
        }
        match expr {
            Expr::Cast { data_type, .. } if !is_regclass(data_type) => self.data_type(data_type),
            Expr::TypedString(typed) => self.data_type(&mut typed.data_type),
            Expr::Function(call) => {
                let given = match &call.args {
                    FunctionArguments::List(list) => list.args.len(),
                    _ => 0,
                };
                self.function(&mut call.name, given);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        // A column that is called like the function goes on being so.
        let (name, given, alias) = match factor {
            TableFactor::Table {
                name,
                args: Some(args),
                alias,
                ..
            } => (name, args.args.len(), alias),
            TableFactor::Function { name, args, alias, .. } => (name, args.len(), alias),
            _ => return ControlFlow::Continue(()),
        };
        let bare = match name.0.as_slice() {
            [ObjectNamePart::Identifier(bare)] => bare.clone(),
            _ => return ControlFlow::Continue(()),
        };
        self.function(name, given);
        if name.0.len() > 1 && alias.is_none() {
            *alias = Some(TableAlias {
                explicit: true,
                name: bare,
                columns: Vec::new(),
                at: None,
            });
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(with) = &query.with {
            self.defined
                .extend(with.cte_tables.iter().map(|table| fold(&table.alias.name)));
        }
        ControlFlow::Continue(())
    }

    /// `t.*` reads a relation that is called `t`, whatever schema stands before its name.
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &select.projection {
            let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(wanted), _) = item else {
                continue;
            };
            let [ObjectNamePart::Identifier(wanted)] = wanted.0.as_slice() else {
                continue;
            };
            let factors = select.from.iter_mut().flat_map(|table| {
                std::iter::once(&mut table.relation).chain(table.joins.iter_mut().map(|join| &mut join.relation))
            });
            for factor in factors {
                if let TableFactor::Table {
                    name,
                    alias: alias @ None,
                    args: None,
                    ..
                } = factor
                    && let [ObjectNamePart::Identifier(only)] = name.0.as_slice()
                    && fold(only) == fold(wanted)
                {
                    *alias = Some(TableAlias {
                        explicit: true,
                        name: only.clone(),
                        columns: Vec::new(),
                        at: None,
                    });
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        if let [ObjectNamePart::Identifier(ident)] = relation.0.as_slice()
            && ident.quote_style != Some('\'')
            && !self.defined.contains(&fold(ident))
            && let Some(found) = self.binder.names().find(None, &fold(ident))
        {
            let quoted = |text: &str| ObjectNamePart::Identifier(Ident::with_quote('"', text));
            relation.0 = vec![quoted(found.schema_name()), quoted(found.name())];
        }
        ControlFlow::Continue(())
    }
}
