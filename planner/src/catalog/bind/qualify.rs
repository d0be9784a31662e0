//! Names of relations, types and functions that are not PostgreSQL's own, with the schemas in which they are found now: whatever
//! the search path is later, they mean the same.

use super::{Binder, argument_type, fold, parsed_type};
use crate::catalog::system::shipped_arguments;
use crate::pg::rewrite::{is_regclass, relation_text};
use crate::pg::settings::split_names;
use crate::pg::walk::VisitMut;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArguments, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, TableAlias, TableFactor, VisitorMut,
};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use tenon_storage::{Function, quote};

impl Binder {
    /// Qualifies the bare names in a tree, but for common table expressions.
    pub(crate) fn qualify<T: VisitMut>(&self, tree: &mut T) {
        let mut qualifier = Qualifier {
            binder: self,
            defined: HashSet::new(),
        };
        let _ = tree.visit(&mut qualifier);
    }

    /// The same that looks names up along another path.
    pub(super) fn along(&self, path: &str) -> Binder {
        let user = self.facts.settings.current_user(&self.facts.info.user);
        let is_own = |schema: &&String| schema.starts_with("pg_temp_");
        let mut schemas = split_names(path);
        for schema in &mut schemas {
            match schema.as_str() {
                "$user" => schema.clone_from(&user),
                "pg_temp" => {
                    if let Some(own) = self.path().iter().find(is_own) {
                        schema.clone_from(own);
                    }
                }
                _ => {}
            }
        }
        // The session's own relations come first where nothing is said of them.
        if let Some(own) = self.path().iter().find(is_own)
            && !schemas.contains(own)
        {
            schemas.insert(0, own.clone());
        }
        Binder {
            searched: Some(schemas.into()),
            ..self.clone()
        }
    }

    /// The schemas in which names are looked up.
    pub(super) fn path(&self) -> &[String] {
        self.searched.as_deref().unwrap_or(&self.facts.path)
    }
}

/// A name as it is written.
pub(crate) fn written(name: &str) -> Ident {
    match quote::identifier(name) == name {
        true => Ident::new(name),
        false => Ident::with_quote('"', name),
    }
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
        let Some(first) = found.iter().find(|own| own.takes(given)).or(found.first()) else {
            return;
        };
        // One of a later schema that takes the same is hidden.
        let types = |own: &Function| {
            own.arguments
                .iter()
                .map(|own| argument_type(&own.sql_type))
                .collect::<Vec<_>>()
        };
        let one_schema = found.iter().all(|own| {
            let hides =
                |before: &&Arc<Function>| before.schema_name == first.schema_name && types(before) == types(own);
            own.schema_name == first.schema_name || !own.takes(given) || found.iter().any(|before| hides(&before))
        });
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
