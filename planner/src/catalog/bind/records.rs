//! Records in expressions, before names are bound: `(r).column`, `(r).*`, and rows cast to composite types.

mod populated;

use super::{Binder, fold};
use crate::pg::error::{Result, SqlError, SqlState};
use crate::pg::functions::record::{COMPOSITE, FIELD, RECORD, parse_record};
use crate::pg::names::alias;
use crate::pg::parse::{ALL_COLUMNS, parse_expression};
use crate::pg::rewrite::{call, output_name, repeated_name};
use crate::pg::walk::{VisitMut, factors, null, replace, taken};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    ObjectNamePart, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins,
    Value, VisitorMut, WildcardAdditionalOptions,
};
use std::ops::ControlFlow;
use tenon_storage::SqlType;

/// The function that makes a record of its arguments.
const ROW: &str = "row";

pub(super) fn resolve<T: VisitMut>(binder: &Binder, tree: &mut T) -> Result<()> {
    match tree.visit(&mut Resolver { binder }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Resolver<'a> {
    binder: &'a Binder,
}

impl VisitorMut for Resolver<'_> {
    type Break = SqlError;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        let mut items: Vec<SelectItem> = Vec::with_capacity(select.projection.len());
        for mut item in std::mem::take(&mut select.projection) {
            match &mut item {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => row_value(expr),
                _ => {}
            }
            match self.expanded(&item, &select.from) {
                Some(columns) => {
                    for column in columns {
                        let renamed = apart(&items, column);
                        items.push(renamed);
                    }
                }
                None => items.push(item),
            }
        }
        select.projection = items;
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        if let SetExpr::Values(values) = query.body.as_mut() {
            values
                .rows
                .iter_mut()
                .flat_map(|row| row.content.iter_mut())
                .for_each(row_value);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::Cast { expr: inner, .. } => row_value(inner),
            Expr::BinaryOp { left, right, .. } if is_parameter(right) => row_value(left),
            Expr::BinaryOp { left, right, .. } if is_parameter(left) => row_value(right),
            // Beside what is no row, a row is a value.
            Expr::BinaryOp { left, right, .. } if is_row(left) != is_row(right) => {
                row_value(left);
                row_value(right);
            }
            Expr::InList { expr, list, .. } if !is_row(expr) => list.iter_mut().for_each(row_value),
            Expr::CompoundFieldAccess { root, .. } => row_value(root),
            Expr::Array(array) => array.elem.iter_mut().for_each(row_value),
            Expr::Function(call) => arguments(call).for_each(row_value),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        let replaced = match expr {
            Expr::Cast {
                expr: inner, data_type, ..
            } => self.cast(inner, data_type),
            Expr::CompoundFieldAccess { root, access_chain } => Ok(fields(root, access_chain)),
            _ => Ok(None),
        };
        replace(expr, replaced)
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        let replaced = self.populated(factor);
        replace(factor, replaced)
    }
}

/// A column of a record, told apart from those before it where one of them has its name.
fn apart(before: &[SelectItem], column: SelectItem) -> SelectItem {
    let SelectItem::ExprWithAlias { expr, alias } = column else {
        return column;
    };
    let is_taken = before.iter().filter_map(output_name).any(|name| name == alias.value);
    let alias = match is_taken {
        true => Ident::with_quote('"', repeated_name(&alias.value, before.len())),
        false => alias,
    };
    SelectItem::ExprWithAlias { expr, alias }
}

fn is_parameter(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)))
}

fn is_row(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_row(inner),
        other => matches!(other, Expr::Tuple(_) | Expr::Subquery(_)),
    }
}

fn arguments(call: &mut Function) -> impl Iterator<Item = &mut Expr> {
    let list = match &mut call.args {
        FunctionArguments::List(list) => list.args.as_mut_slice(),
        _ => &mut [],
    };
    list.iter_mut().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    })
}

/// A row where a value is wanted.
fn row_value(expr: &mut Expr) {
    match expr {
        Expr::Nested(inner) if matches!(inner.as_ref(), Expr::Tuple(_)) => {
            *expr = taken(inner.as_mut());
            row_value(expr);
        }
        Expr::Tuple(items) => {
            items.iter_mut().for_each(row_value);
            *expr = call(ROW, std::mem::take(items));
        }
        _ => {}
    }
}

fn text(value: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(value.into()).into())
}

pub(super) fn field(record: Expr, name: &str) -> Expr {
    call(FIELD, vec![record, text(name)])
}

/// `(r).a.b`
pub(super) fn fields(root: &Expr, chain: &[AccessExpr]) -> Option<Expr> {
    let root = match root {
        Expr::Nested(inner) => inner.as_ref(),
        other => other,
    };
    chain.iter().try_fold(root.clone(), |record, access| match access {
        AccessExpr::Dot(Expr::Identifier(name)) => Some(field(record, &fold(name))),
        _ => None,
    })
}

impl Resolver<'_> {
    /// A row, or a record's text, as one of a composite type.
    fn cast(&self, inner: &Expr, data_type: &DataType) -> Result<Option<Expr>> {
        let values = match inner {
            Expr::Function(call) if crate::pg::rewrite::function_name(call) == ROW => {
                let mut call = call.clone();
                arguments(&mut call).map(|value| value.clone()).collect::<Vec<_>>()
            }
            Expr::Value(value) => match &value.value {
                Value::SingleQuotedString(text) => match self.binder.columns_of_type(data_type) {
                    Some(columns) => of_text(text, columns.len())?,
                    None => return Ok(None),
                },
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        let Some(columns) = self.binder.columns_of_type(data_type) else {
            return Ok(None);
        };
        if columns.len() != values.len() {
            let detail = match values.len() < columns.len() {
                true => "Input has too few columns.",
                false => "Input has too many columns.",
            };
            let message = format!("cannot cast type record to {data_type}");
            return Err(SqlError::new(SqlState("42846"), message).detail(detail.to_string()));
        }
        let made = self.binder.record_of(Some(data_type), &columns, values)?;
        Ok(Some(made))
    }

    /// A cast, resolved where it is one to a composite type itself.
    fn cast_to(&self, value: Expr, declared: &str) -> Result<Expr> {
        let mut expr = match parse_expression(&format!("NULL::{declared}"))? {
            Expr::Cast {
                kind,
                data_type,
                format,
                array,
                ..
            } => Expr::Cast {
                kind,
                expr: Box::new(value),
                data_type,
                format,
                array,
            },
            _ => return Err(SqlError::internal("a type is no type")),
        };
        if let Expr::Cast {
            expr: inner, data_type, ..
        } = &expr
            && let Some(replacement) = self.cast(inner, data_type)?
        {
            expr = replacement;
        }
        Ok(expr)
    }

    /// The columns of an expression's type, where its text says that.
    fn columns(&self, expr: &Expr) -> Option<Vec<(String, String)>> {
        match expr {
            Expr::Nested(inner) => self.columns(inner),
            Expr::Cast { data_type, .. } => self.binder.columns_of_type(data_type),
            Expr::Function(call) => match crate::pg::rewrite::function_name(call).as_str() {
                "json_populate_record" | "jsonb_populate_record" => {
                    let mut call = call.clone();
                    let first = arguments(&mut call).next()?.clone();
                    self.columns(&first)
                }
                _ => self.binder.row_type_of_call(call).map(|rows| rows.columns),
            },
            _ => None,
        }
    }

    /// The type of a column of a table in FROM, or of a field of one.
    fn type_in(&self, from: &[TableWithJoins], expr: &Expr) -> Option<SqlType> {
        let (table, column) = match expr {
            Expr::Nested(inner) => return self.type_in(from, inner),
            Expr::Identifier(name) => (None, fold(name)),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, column] => (Some(fold(table)), fold(column)),
                _ => return None,
            },
            Expr::CompoundFieldAccess { root, access_chain } => {
                return self.type_in(from, &fields(root, access_chain)?);
            }
            Expr::Function(call) if crate::pg::rewrite::function_name(call) == FIELD => {
                let mut call = call.clone();
                let mut arguments = arguments(&mut call);
                let SqlType::Composite(of) = self.type_in(from, arguments.next()?)? else {
                    return None;
                };
                let Expr::Value(name) = arguments.next()? else {
                    return None;
                };
                let name = name.value.clone().into_string()?;
                return Some(of.attributes().iter().find(|own| own.name == name)?.sql_type);
            }
            _ => return None,
        };
        let mut found = from.iter().flat_map(factors).filter_map(|factor| {
            let TableFactor::Table {
                name,
                args: None,
                alias: own,
                ..
            } = factor
            else {
                return None;
            };
            if table.is_some() && alias(factor) != table {
                return None;
            }
            let relation = self.binder.names().existing(name).ok()??;
            let columns = relation.columns();
            let renamed = own.as_ref().map_or(&[][..], |own| own.columns.as_slice());
            let at = match renamed.iter().position(|own| fold(&own.name) == column) {
                Some(at) => at,
                None => columns.index_of(&column).ok().filter(|at| *at >= renamed.len())?,
            };
            SqlType::from_field(columns.fields().get(at)?)
        });
        found.next()
    }

    /// `(r).*`
    fn expanded(&self, item: &SelectItem, from: &[TableWithJoins]) -> Option<Vec<SelectItem>> {
        let (SelectItem::UnnamedExpr(all) | SelectItem::ExprWithAlias { expr: all, .. }) = item else {
            return None;
        };
        let Expr::CompoundFieldAccess { root, access_chain } = all else {
            return None;
        };
        let (last, before) = access_chain.split_last()?;
        if !matches!(last, AccessExpr::Dot(Expr::Identifier(name)) if name.value == ALL_COLUMNS) {
            return None;
        }
        let record = match before {
            [] => root.as_ref().clone(),
            _ => fields(root, before)?,
        };
        let record = match &record {
            Expr::Nested(inner) => inner.as_ref(),
            other => other,
        };
        let item = |name: &str| SelectItem::ExprWithAlias {
            expr: field(record.clone(), name),
            alias: Ident::with_quote('"', name),
        };
        if let Some(columns) = self.columns(record) {
            return Some(columns.iter().map(|(name, _)| item(name)).collect());
        }
        if let Some(SqlType::Composite(of)) = self.type_in(from, record) {
            return Some(of.attributes().iter().map(|own| item(&own.name)).collect());
        }
        // The row of a relation.
        if let Expr::Identifier(name) = record
            && from
                .iter()
                .flat_map(factors)
                .any(|factor| alias(factor) == Some(fold(name)))
        {
            let name = ObjectName(vec![ObjectNamePart::Identifier(name.clone())]);
            let kind = SelectItemQualifiedWildcardKind::ObjectName(name);
            return Some(vec![SelectItem::QualifiedWildcard(
                kind,
                WildcardAdditionalOptions::default(),
            )]);
        }
        let values = match record {
            Expr::Tuple(values) => values.len(),
            Expr::Function(call) if crate::pg::rewrite::function_name(call) == ROW => {
                arguments(&mut call.clone()).count()
            }
            _ => return None,
        };
        let mut record = record.clone();
        row_value(&mut record);
        let names = (1..=values).map(|at| format!("f{at}"));
        let items = names.map(|name| SelectItem::ExprWithAlias {
            expr: field(record.clone(), &name),
            alias: Ident::with_quote('"', &name),
        });
        Some(items.collect())
    }
}

impl Binder {
    /// The record of values for columns, of a composite type where one is given.
    pub(super) fn record_of(
        &self,
        data_type: Option<&DataType>,
        columns: &[(String, String)],
        values: Vec<Expr>,
    ) -> Result<Expr> {
        let mut made = Vec::with_capacity(2 * columns.len() + 2);
        // What the oid stands for is known from here on.
        data_type.map(|own| self.field_of_type(own)).transpose()?;
        let oid = data_type.and_then(|own| self.oid_of_record(own));
        if let (Some(oid), Some(data_type)) = (oid, data_type) {
            // 0: there is no type of its arrays.
            let array = self.array_of_record(data_type).unwrap_or_else(|| "0".into());
            made.extend([oid.to_string(), array].map(|oid| Expr::Value(Value::Number(oid, false).into())));
        }
        for ((name, declared), value) in columns.iter().zip(values) {
            made.push(text(name));
            made.push(Resolver { binder: self }.cast_to(value, declared)?);
        }
        Ok(call(if oid.is_some() { COMPOSITE } else { RECORD }, made))
    }
}

/// The values in a record's text.
fn of_text(given: &str, columns: usize) -> Result<Vec<Expr>> {
    let values = parse_record(given, columns)?;
    let values = values.into_iter().map(|value| match value {
        Some(value) => text(&value),
        None => null(),
    });
    Ok(values.collect())
}
