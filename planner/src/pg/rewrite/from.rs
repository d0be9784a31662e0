//! Functions in FROM: every one may refer to what stands before it, and is called as its table where it has no alias.

use super::calls::LISTENING;
use crate::pg::functions::notify::CHANNELS;
use crate::pg::names::fold;
use crate::pg::walk::Visit;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart, TableAlias, TableFactor,
    TableFunctionArgs, Visitor,
};
use std::ops::ControlFlow;

/// The name of ROWS FROM, as the parser sees it.
pub(crate) const ROWS_FROM: &str = "\u{1}rows_from";

/// Functions that are called without parentheses.
const WORDS: [&str; 11] = [
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "localtime",
    "localtimestamp",
    "session_user",
    "user",
];

/// `f(...)` as a function of FROM.
pub(super) fn function(factor: &mut TableFactor) {
    if let TableFactor::Table { name, args, .. } = factor
        && args.is_none()
        && let [ObjectNamePart::Identifier(word)] = name.0.as_slice()
        && word.quote_style.is_none()
        && WORDS.contains(&fold(word).as_str())
    {
        *args = Some(TableFunctionArgs {
            args: Vec::new(),
            settings: None,
        });
    }
    if let TableFactor::Table {
        name,
        alias,
        args: Some(args),
        with_ordinality,
        sample: None,
        ..
    } = factor
    {
        *factor = TableFactor::Function {
            lateral: args.args.iter().any(is_row) || refers(&args.args),
            name: unqualified(name),
            args: std::mem::take(&mut args.args),
            with_ordinality: *with_ordinality,
            alias: alias.take(),
        };
    }
    let (alias, name) = match factor {
        TableFactor::Function { name, alias, .. } => {
            let last = name.0.last().and_then(ObjectNamePart::as_ident);
            match last {
                // It is called as the first of its functions.
                Some(last) if last.value != ROWS_FROM => (alias, last.clone()),
                _ => return,
            }
        }
        TableFactor::UNNEST { alias, .. } => (alias, Ident::new("unnest")),
        _ => return,
    };
    alias.get_or_insert_with(|| TableAlias {
        explicit: true,
        name,
        columns: Vec::new(),
        at: None,
    });
    if let TableFactor::Function {
        name,
        args,
        alias,
        with_ordinality,
        ..
    } = factor
        && args.is_empty()
        && refers_to_channels(name)
    {
        *factor = TableFactor::UNNEST {
            alias: alias.take(),
            array_exprs: vec![super::call(CHANNELS, Vec::new())],
            with_offset: false,
            with_offset_alias: None,
            with_ordinality: *with_ordinality,
        };
    }
}

fn refers_to_channels(name: &ObjectName) -> bool {
    matches!(name.0.as_slice(), [ObjectNamePart::Identifier(name)] if fold(name) == LISTENING)
}

/// `pg_catalog.unnest` is `unnest`: the functions are one flat space here.
fn unqualified(name: &ObjectName) -> ObjectName {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(schema), function] if schema.value.eq_ignore_ascii_case("pg_catalog") => {
            ObjectName(vec![function.clone()])
        }
        _ => name.clone(),
    }
}

/// Whether something may be a column.
fn refers<T: Visit>(tree: &T) -> bool {
    struct Finder;
    impl Visitor for Finder {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let found = match expr {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Subquery(_) | Expr::QualifiedWildcard(..) => {
                    true
                }
                Expr::Function(call) => match &call.args {
                    FunctionArguments::List(list) => list.args.iter().any(is_row),
                    _ => false,
                },
                _ => false,
            };
            match found {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    tree.visit(&mut Finder).is_break()
}

/// `f(t.*)`.
fn is_row(argument: &FunctionArg) -> bool {
    matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(_)))
}
