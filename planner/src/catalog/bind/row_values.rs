//! The name of a relation where a value is wanted: the record of its columns. `row_to_json(t)`, `SELECT t FROM t`.

use super::fold;
use super::whole_rows::{alias, factors, has_outer_join};
use crate::pg::error::{Result, SqlError};
use crate::pg::functions::record::RECORD;
use crate::pg::rewrite::call;
use crate::pg::walk::VisitMut;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectNamePart, Query,
    Select, SelectItem, TableFactor, Value, VisitorMut,
};
use std::ops::ControlFlow;

/// Puts records in the places of relations' names. `columns` are the names of a relation's columns.
pub(super) fn resolve(
    select: &mut Select,
    keys: &mut [&mut Expr],
    mut columns: impl FnMut(TableFactor) -> Result<Vec<String>>,
) -> Result<()> {
    let mut rows = Rows {
        factors: select.from.iter().flat_map(factors).cloned().collect(),
        nullable: select.from.iter().any(has_outer_join),
        columns: &mut columns,
        depth: 0,
    };
    // The record keeps the relation's name as its own.
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(Expr::Identifier(name)) = item
            && let Some(expr) = rows.row(&fold(name))?
        {
            let alias = name.clone();
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
    let items = select.projection.iter_mut().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    let shown: Vec<String> = keys.iter().filter_map(|key| name_of(key)).collect();
    for expr in items.chain(select.having.as_mut()).chain(select.selection.as_mut()) {
        if let ControlFlow::Break(error) = expr.visit(&mut rows) {
            return Err(error);
        }
    }
    // A key that is a bare name is an output column's.
    for key in keys
        .iter_mut()
        .filter(|key| name_of(key).is_none_or(|name| !shown.contains(&name)))
    {
        if let ControlFlow::Break(error) = key.visit(&mut rows) {
            return Err(error);
        }
    }
    Ok(())
}

fn name_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(fold(name)),
        _ => None,
    }
}

struct Rows<'a> {
    factors: Vec<TableFactor>,
    /// Whether an outer join may have put NULL in the place of a row.
    nullable: bool,
    columns: &'a mut dyn FnMut(TableFactor) -> Result<Vec<String>>,
    /// Subqueries around the place.
    depth: usize,
}

impl VisitorMut for Rows<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        let replaced = match expr {
            Expr::Identifier(name) => self.row(&fold(name)).map(|found| found.map(|row| *expr = row)),
            Expr::Function(function) if crate::pg::rewrite::function_name(function) != "count" => {
                let FunctionArguments::List(list) = &mut function.args else {
                    return ControlFlow::Continue(());
                };
                let whole = list.args.iter_mut().filter_map(|argument| match argument {
                    FunctionArg::Unnamed(argument) => Some(argument),
                    _ => None,
                });
                whole.into_iter().try_fold(Some(()), |_, argument| {
                    if let FunctionArgExpr::QualifiedWildcard(name) = argument
                        && let [ObjectNamePart::Identifier(name)] = name.0.as_slice()
                        && let Some(row) = self.row(&fold(name))?
                    {
                        *argument = FunctionArgExpr::Expr(row);
                    }
                    Ok(None)
                })
            }
            _ => Ok(None),
        };
        match replaced {
            Ok(_) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

impl Rows<'_> {
    /// The record of a relation's columns; None where the name is a column's, or no relation's.
    fn row(&mut self, name: &str) -> Result<Option<Expr>> {
        let mut named = self
            .factors
            .iter()
            .filter(|factor| alias(factor).as_deref() == Some(name));
        let (Some(factor), None) = (named.next().cloned(), named.next()) else {
            return Ok(None);
        };
        for other in &self.factors {
            // What cannot be asked for its columns alone may have any.
            match (self.columns)(other.clone()) {
                Ok(columns) if !columns.iter().any(|column| column == name) => {}
                _ => return Ok(None),
            }
        }
        // A table's rows have a type, whose columns another name in FROM does not rename.
        let mut typed = factor.clone();
        if let TableFactor::Table {
            args: None,
            alias: Some(alias),
            ..
        } = &mut typed
        {
            alias.columns.clear();
        }
        let (columns, names) = ((self.columns)(factor)?, (self.columns)(typed)?);
        let quoted = |name: &str| Ident::with_quote('"', name);
        let column = |column: &String| Expr::CompoundIdentifier(vec![quoted(name), quoted(column)]);
        let mut values = Vec::with_capacity(2 * columns.len());
        for (own, known) in columns.iter().zip(names) {
            values.push(Expr::Value(Value::SingleQuotedString(known).into()));
            values.push(column(own));
        }
        let record = call(RECORD, values);
        let present = columns.iter().map(|own| Expr::IsNotNull(Box::new(column(own))));
        let present = present.reduce(|a, b| Expr::BinaryOp {
            left: Box::new(a),
            op: BinaryOperator::Or,
            right: Box::new(b),
        });
        Ok(Some(match present.filter(|_| self.nullable) {
            Some(condition) => Expr::Case {
                case_token: AttachedToken::empty(),
                end_token: AttachedToken::empty(),
                operand: None,
                conditions: vec![CaseWhen {
                    condition,
                    result: record,
                }],
                else_result: None,
            },
            None => record,
        }))
    }
}
