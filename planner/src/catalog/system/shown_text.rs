//! Texts of expressions as they are shown: names whose schemas they say stand alone where the search path finds them so, and in
//! quotes only where they must.

use super::split;
use crate::catalog::bind::Binder;
use crate::pg::names::parts;
use crate::pg::parse::parse_expression;
use crate::pg::rewrite::relation_text;
use crate::pg::walk::VisitMut;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CastKind, DataType, Expr, Ident, ObjectName, ObjectNamePart, Value, VisitorMut,
};
use std::ops::ControlFlow;
use tenon_storage::quote;

/// An expression's text as `pg_get_expr` shows it.
pub(super) fn shown_text(binder: &Binder, text: &str) -> String {
    // None has a schema, a type or a name in quotes in it.
    if !text.contains(['.', '"']) && !text.contains("::") {
        return text.to_string();
    }
    let Ok(mut expr) = parse_expression(text) else {
        return text.to_string();
    };
    let mut names = Names { binder, changed: false };
    let _ = expr.visit(&mut names);
    match names.changed {
        true => expr.to_string(),
        false => text.to_string(),
    }
}

/// The same as PostgreSQL prints it for people: what is cast stands in no parentheses that say nothing.
pub(super) fn pretty_text(text: String) -> String {
    struct Casts;
    impl VisitorMut for Casts {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            let Expr::Cast {
                expr: of, data_type, ..
            } = expr
            else {
                return ControlFlow::Continue(());
            };
            // It is spelt as it is printed, but for the letters.
            if !matches!(data_type, DataType::Custom(..)) {
                let name = Ident::new(data_type.to_string().to_lowercase());
                *data_type = DataType::Custom(ObjectName::from(vec![name]), Vec::new());
            }
            if let Expr::Nested(inner) = of.as_ref()
                && matches!(
                    inner.as_ref(),
                    Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) | Expr::Function(_)
                )
            {
                *of = inner.clone();
            }
            ControlFlow::Continue(())
        }
    }
    if !text.contains(")::") {
        return text;
    }
    match parse_expression(&text) {
        Ok(mut expr) => {
            let _ = expr.visit(&mut Casts);
            expr.to_string()
        }
        Err(_) => text,
    }
}

struct Names<'a> {
    binder: &'a Binder,
    changed: bool,
}

impl Names<'_> {
    /// Leaves the last part of a name where that alone means the same.
    fn bare(&mut self, name: &mut ObjectName, means: impl Fn(&Binder, &ObjectName) -> Option<u32>) {
        if let [_, last] = name.0.as_slice() {
            let alone = ObjectName(vec![last.clone()]);
            let own = means(self.binder, name);
            if own.is_some() && own == means(self.binder, &alone) {
                *name = alone;
            }
            self.changed = true;
        }
        for part in &mut name.0 {
            if let ObjectNamePart::Identifier(ident) = part {
                self.unquoted(ident);
            }
        }
    }

    /// Without quotes that say nothing.
    fn unquoted(&mut self, name: &mut Ident) {
        if name.quote_style.is_some() && quote::identifier(&name.value) == name.value {
            name.quote_style = None;
            self.changed = true;
        }
    }

    /// A type of the system's by the name that PostgreSQL prints.
    fn spelt(&mut self, declared: &mut DataType) {
        let Ok(of) = self.binder.sql_type(declared) else { return };
        let typmod = Some(i64::from(of.typmod()));
        if let Some(name) = super::names::format_type(of.oid().into(), typmod)
            && name != declared.to_string()
        {
            *declared = DataType::Custom(ObjectName::from(vec![Ident::new(name)]), Vec::new());
            self.changed = true;
        }
    }

    fn data_type(&mut self, declared: &mut DataType) {
        match declared {
            DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) => self.data_type(item),
            DataType::Custom(name, _) => self.bare(name, |binder, name| {
                // The system's come first.
                let hidden = name.0.len() == 1 && super::system_types::by_name(parts(name).last()?).is_some();
                let own = binder.type_named(parts(name), |object| super::type_identity(object).map(|(oid, ..)| oid));
                own.or_else(|| Some(binder.row_type_oids(name)?[0])).filter(|_| !hidden)
            }),
            _ => self.spelt(declared),
        }
    }

    fn text(&mut self, text: &mut String) {
        if let [schema, name] = split(text).as_slice()
            && let names = self.binder.names()
            && let Some(own) = names.find(Some(schema), name)
            && names.find(None, name).is_some_and(|first| first.oid() == own.oid())
        {
            *text = quote::identifier(name);
            self.changed = true;
        }
    }
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(text) = relation_text(expr) {
            self.text(text);
        }
        match expr {
            Expr::Cast {
                kind,
                expr: of,
                data_type,
                ..
            } => {
                self.data_type(data_type);
                // What is cast stands in parentheses, unless it is the text of a value.
                let is_bare = match of.as_ref() {
                    Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Function(_) => true,
                    Expr::Value(value) => matches!(value.value, Value::Number(..)),
                    _ => false,
                };
                if is_bare && *kind == CastKind::DoubleColon {
                    **of = Expr::Nested(of.clone());
                    self.changed = true;
                }
            }
            Expr::Identifier(name) => self.unquoted(name),
            Expr::CompoundIdentifier(parts) => parts.iter_mut().for_each(|part| self.unquoted(part)),
            Expr::TypedString(typed) => self.data_type(&mut typed.data_type),
            Expr::Function(call) => {
                self.bare(&mut call.name, |binder, name| {
                    binder.functions_named(name).first().map(|own| own.oid)
                });
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
