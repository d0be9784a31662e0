//! The name of a relation where a value is wanted: the record of its columns. `row_to_json(t)`, `SELECT t FROM t`.
//!
//! More than 400 lines because one walk finds all the places where such a name may stand.

use super::fold;
use super::relations::out_name;
use super::whole_rows::has_outer_join;
use crate::pg::error::{Result, SqlError};
use crate::pg::functions::record::{COMPOSITE, RECORD};
use crate::pg::names::alias;
use crate::pg::rewrite::{call, displayed_name, itself_null, output_name};
use crate::pg::walk::{VisitMut, constraint, leaves, leaves_of};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Distinct, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, GroupByExpr, Ident, JoinConstraint, ObjectName, ObjectNamePart, Query, Select, SelectItem,
    TableFactor, Value, VisitorMut,
};
use std::ops::ControlFlow;

/// Puts records in the places of relations' names. `columns` are the names of a relation's columns, `row_type` the oids of the type
/// of its rows and of their arrays, where it has one.
pub(super) fn resolve(
    select: &mut Select,
    keys: &mut [&mut Expr],
    mut columns: impl FnMut(TableFactor) -> Result<Vec<String>>,
    row_type: impl Fn(&TableFactor) -> Option<[u32; 2]>,
) -> Result<()> {
    let mut rows = Rows {
        factors: select.from.iter().flat_map(leaves).cloned().collect(),
        nullable: select.from.iter().any(has_outer_join),
        columns: &mut columns,
        row_type: &row_type,
        queries: 0,
        selects: Vec::new(),
    };
    rows.in_from(select)?;
    // The record keeps the relation's name as its own.
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(Expr::Identifier(name)) = item
            && let Some(expr) = rows.named(&fold(name))?
        {
            let alias = name.clone();
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
    let shown: Vec<String> = select.projection.iter().filter_map(output_name).collect();
    let is_shown = |name: String| shown.iter().any(|own| displayed_name(own) == name);
    let items = select.projection.iter_mut().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    for expr in items.chain(select.having.as_mut()).chain(select.selection.as_mut()) {
        if let ControlFlow::Break(error) = expr.visit(&mut rows) {
            return Err(error);
        }
    }
    for join in select.from.iter_mut().flat_map(|table| &mut table.joins) {
        if let Some(JoinConstraint::On(condition)) = constraint(&mut join.join_operator)
            && let ControlFlow::Break(error) = condition.visit(&mut rows)
        {
            return Err(error);
        }
    }
    let groups = match &mut select.group_by {
        GroupByExpr::Expressions(keys, _) => keys.as_mut_slice(),
        GroupByExpr::All(_) => &mut [],
    };
    let distinct = match &mut select.distinct {
        Some(Distinct::On(keys)) => keys.as_mut_slice(),
        _ => &mut [],
    };
    // A key that is a bare name is an output column's first.
    let keys = keys.iter_mut().map(|key| &mut **key);
    for key in keys
        .chain(groups)
        .chain(distinct)
        .filter(|key| !name_of(key).is_some_and(is_shown))
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
    row_type: &'a dyn Fn(&TableFactor) -> Option<[u32; 2]>,
    /// Subqueries around the place, and of those of their SELECTs that it is in the relations, and the output columns that they group by.
    queries: usize,
    selects: Vec<(Vec<TableFactor>, Vec<String>)>,
}

impl VisitorMut for Rows<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        let factors = select.from.iter().flat_map(leaves).cloned().collect();
        // In GROUP BY alone a name may be an output column's.
        let keys: Vec<String> = match &select.group_by {
            GroupByExpr::Expressions(keys, _) => keys.iter().filter_map(name_of).collect(),
            GroupByExpr::All(_) => Vec::new(),
        };
        let names = select.projection.iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)).filter(|name| keys.contains(name)),
            _ => None,
        });
        self.selects.push((factors, names.collect()));
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<SqlError> {
        self.selects.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        // In ORDER BY of a subquery a name is an output column's first.
        if self.queries != self.selects.len() {
            return ControlFlow::Continue(());
        }
        let replaced = match expr {
            Expr::Identifier(name) => self.named(&fold(name)).map(|found| found.map(|row| *expr = row)),
            Expr::IsNull(row) => self.all(row, true).map(|found| found.map(|all| *expr = all)),
            Expr::IsNotNull(row) => self.all(row, false).map(|found| found.map(|all| *expr = all)),
            Expr::Function(function) if crate::pg::rewrite::function_name(function) == "row" => {
                self.spread(&mut function.args).map(Some)
            }
            // What `count(t.*)` counts is said elsewhere, but not which of them are different.
            Expr::Function(function)
                if crate::pg::rewrite::function_name(function) != "count" || is_distinct(function) =>
            {
                let FunctionArguments::List(list) = &mut function.args else {
                    return ControlFlow::Continue(());
                };
                self.arguments(&mut list.args).map(Some)
            }
            Expr::QualifiedWildcard(name, _) => match name.0.as_slice() {
                [ObjectNamePart::Identifier(name)] => self.row(&fold(name)).map(|found| found.map(|row| *expr = row)),
                _ => Ok(None),
            },
            _ => Ok(None),
        };
        match replaced {
            Ok(_) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn is_distinct(function: &Function) -> bool {
    match &function.args {
        FunctionArguments::List(list) => list.duplicate_treatment == Some(DuplicateTreatment::Distinct),
        _ => false,
    }
}

impl Rows<'_> {
    /// `f(t.*)`: the row as it is.
    fn arguments(&mut self, arguments: &mut [FunctionArg]) -> Result<()> {
        for argument in arguments {
            if let FunctionArg::Unnamed(argument) = argument
                && let FunctionArgExpr::QualifiedWildcard(name) = argument
                && let [ObjectNamePart::Identifier(name)] = name.0.as_slice()
                && let Some(row) = self.row(&fold(name))?
            {
                *argument = FunctionArgExpr::Expr(row);
            }
        }
        Ok(())
    }

    /// A row is NULL where all of its columns are, and is not where none is.
    fn all(&mut self, row: &Expr, null: bool) -> Result<Option<Expr>> {
        let row = match row {
            Expr::Nested(inner) => inner.as_ref(),
            other => other,
        };
        let relation = match row {
            Expr::Identifier(name) => self.relation(&fold(name))?,
            Expr::QualifiedWildcard(name, _) => match name.0.as_slice() {
                [ObjectNamePart::Identifier(name)] => self.starred(&fold(name))?,
                _ => None,
            },
            _ => None,
        };
        let Some((factor, columns)) = relation else {
            return Ok(None);
        };
        let tests = columns.iter().map(|own| itself_null(column(&factor, own), null));
        let all = tests.reduce(|a, b| Expr::BinaryOp {
            left: Box::new(a),
            op: BinaryOperator::And,
            right: Box::new(b),
        });
        Ok(all.map(|all| Expr::Nested(Box::new(all))))
    }

    /// `ROW(a, t.*)`: a row of the columns.
    fn spread(&mut self, arguments: &mut FunctionArguments) -> Result<()> {
        let FunctionArguments::List(list) = arguments else {
            return Ok(());
        };
        for argument in std::mem::take(&mut list.args) {
            let relation = match &argument {
                FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) => match name.0.as_slice() {
                    [ObjectNamePart::Identifier(name)] => self.starred(&fold(name))?,
                    _ => None,
                },
                _ => None,
            };
            match relation {
                Some((factor, columns)) => list.args.extend(
                    columns
                        .iter()
                        .map(|own| FunctionArg::Unnamed(FunctionArgExpr::Expr(column(&factor, own)))),
                ),
                None => list.args.push(argument),
            }
        }
        Ok(())
    }

    /// The rows of relations that stand before a subquery or a function in FROM, in these.
    fn in_from(&mut self, select: &mut Select) -> Result<()> {
        let all = std::mem::take(&mut self.factors);
        for table in &mut select.from {
            let joined = table.joins.iter_mut().map(|join| &mut join.relation);
            for factor in std::iter::once(&mut table.relation).chain(joined) {
                let before = self.factors.len();
                let own = leaves_of(factor).count();
                if before > 0
                    && let ControlFlow::Break(error) = factor.visit(self)
                {
                    return Err(error);
                }
                self.factors.extend(all[before..before + own].iter().cloned());
            }
        }
        self.factors = all;
        Ok(())
    }

    /// Whether a subquery around the place has something of its own that is called so, or may have.
    fn is_hidden(&mut self, name: &str) -> bool {
        self.selects.iter().any(|(factors, names)| {
            let has = |factor: &TableFactor| {
                alias(factor).as_deref() == Some(name)
                    || (self.columns)(factor.clone()).map_or(true, |columns| columns.iter().any(|own| own == name))
            };
            names.iter().any(|own| own == name) || factors.iter().any(has)
        })
    }

    /// What is called so in FROM, alone.
    fn factor(&mut self, name: &str) -> Option<TableFactor> {
        let mut named = self
            .factors
            .iter()
            .filter(|factor| alias(factor).as_deref() == Some(name));
        let first = named.next()?.clone();
        let is_alone = named.next().is_none();
        (is_alone && !self.is_hidden(name)).then_some(first)
    }

    /// The relation of this name and its columns; None where the name is a column's, or no relation's.
    fn relation(&mut self, name: &str) -> Result<Option<(TableFactor, Vec<String>)>> {
        let Some(factor) = self.factor(name) else {
            return Ok(None);
        };
        for other in &self.factors {
            // What cannot be asked for its columns alone may have any.
            match (self.columns)(other.clone()) {
                Ok(columns) if !columns.iter().any(|column| column == name) => {}
                _ => return Ok(None),
            }
        }
        let columns = (self.columns)(factor.clone())?;
        Ok(Some((factor, columns)))
    }

    /// The same before `.*`, where no column can be meant.
    fn starred(&mut self, name: &str) -> Result<Option<(TableFactor, Vec<String>)>> {
        let Some(factor) = self.factor(name) else {
            return Ok(None);
        };
        let columns = (self.columns)(factor.clone());
        Ok(columns.ok().map(|columns| (factor, columns)))
    }

    /// The value of a function in FROM that gives no records but names its column, or whose column has a name of its own
    /// there (`f() u(a)`), under its name in FROM.
    fn value(&mut self, name: &str) -> Option<Expr> {
        let factor = self.factor(name)?;
        let own = self.value_column(&factor)?;
        let mut others = self.factors.iter().filter(|other| **other != factor);
        let is_column =
            others.any(|other| (self.columns)(other.clone()).is_ok_and(|all| all.iter().any(|all| all == name)));
        (!is_column).then(|| column(&factor, &own))
    }

    /// The column of a function in FROM that gives it a name, or is given one there, and has no other.
    fn value_column(&mut self, factor: &TableFactor) -> Option<String> {
        let last = |name: &ObjectName| name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
        let (name, arguments, alias) = match factor {
            TableFactor::Function {
                name,
                args,
                alias,
                with_ordinality: false,
                ..
            } => (last(name)?, args.len(), alias),
            TableFactor::Table {
                name,
                args: Some(args),
                alias,
                with_ordinality: false,
                ..
            } => (last(name)?, args.args.len(), alias),
            TableFactor::UNNEST {
                array_exprs,
                alias,
                with_ordinality: false,
                ..
            } => ("unnest".to_string(), array_exprs.len(), alias),
            _ => return None,
        };
        let declared = alias.as_ref().and_then(|alias| alias.columns.first());
        let declared = declared.map(|declared| fold(&declared.name));
        if let Some(own) = out_name(&name) {
            return Some(declared.unwrap_or_else(|| own.to_string()));
        }
        let declared = declared?;
        let is_only = match (self.columns)(factor.clone()) {
            Ok(columns) => columns.len() == 1,
            // Where it refers to other queries, its columns cannot be asked for here.
            Err(_) => matches!((name.as_str(), arguments), ("generate_series", _) | ("unnest", 1)),
        };
        is_only.then_some(declared)
    }

    /// What a name alone is where it is a relation's.
    fn named(&mut self, name: &str) -> Result<Option<Expr>> {
        if let Some(value) = self.value(name) {
            return Ok(Some(value));
        }
        let relation = self.relation(name)?;
        self.record(relation)
    }

    /// What `t.*` is where it is one value.
    fn row(&mut self, name: &str) -> Result<Option<Expr>> {
        if let Some(value) = self.value(name) {
            return Ok(Some(value));
        }
        let relation = self.starred(name)?;
        self.record(relation)
    }

    /// The record of a relation's columns.
    fn record(&mut self, relation: Option<(TableFactor, Vec<String>)>) -> Result<Option<Expr>> {
        let Some((factor, columns)) = relation else {
            return Ok(None);
        };
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
        let names = (self.columns)(typed)?;
        let mut values = Vec::with_capacity(2 * columns.len() + 2);
        let oids = (self.row_type)(&factor);
        values.extend(
            oids.iter()
                .flatten()
                .map(|oid| Expr::Value(Value::Number(oid.to_string(), false).into())),
        );
        for (own, known) in columns.iter().zip(names) {
            values.push(Expr::Value(Value::SingleQuotedString(known).into()));
            values.push(column(&factor, own));
        }
        let record = call(if oids.is_some() { COMPOSITE } else { RECORD }, values);
        let present = columns
            .iter()
            .map(|own| Expr::IsNotNull(Box::new(column(&factor, own))));
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

/// A relation's column.
fn column(relation: &TableFactor, name: &str) -> Expr {
    let relation = alias(relation).unwrap_or_default();
    let quoted = |name: &str| Ident::with_quote('"', name);
    Expr::CompoundIdentifier(vec![quoted(&relation), quoted(name)])
}
