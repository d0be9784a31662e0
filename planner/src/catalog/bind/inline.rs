//! Domains and functions in SQL. A cast to a domain becomes one to its base type with the domain's conditions around it; a
//! call of a function becomes what the function computes.
//!
//! More than 400 lines because casts to domains and calls of functions are met in one walk, and either may hold the
//! other.

mod once;
mod overloads;
mod parameters;
mod results;
mod variadic;

use results::gives_set;

use super::composite::{named_in_full, parsed};
use super::{Binder, argument_fields, as_role, changed, fold, hygiene, outer_aggregates, parts};
use crate::catalog::rights::Rights;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::functions::aggregate::names::has_aggregate;
use crate::pg::functions::raise::RAISE;
use crate::pg::functions::record::FIELD;
use crate::pg::functions::sets::names::has_set;
use crate::pg::identity::Acting;
use crate::pg::parse::{parse, parse_expression, select};
use crate::pg::plpgsql;
use crate::pg::rewrite::{call, rewrite};
use crate::pg::statement::Kind;
use crate::pg::walk::{VisitMut, is_ungrouped, null, replace};
use datafusion::arrow::datatypes::FieldRef;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CaseWhen, CastKind, DataType, ExactNumberInfo, Expr, Function as Call, FunctionArg,
    FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, SetExpr,
    Statement, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, UnaryOperator, Value, VisitorMut, With,
};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;
use tenon_storage::{Domain, Function, FunctionArgument, FunctionResult, Object, ObjectKey, Subject};

/// Functions that call functions: how deep.
const DEPTH_MAX: usize = 32;

/// Replaces casts to domains and calls of functions, in place.
pub(super) fn inline<T: VisitMut>(binder: &Binder, tree: &mut T, parameters: &[Option<FieldRef>]) -> Result<()> {
    let has_any = |key: &ObjectKey| !matches!(key, ObjectKey::Comment { .. } | ObjectKey::Role { .. });
    if !binder.snapshot.objects().keys().any(has_any) {
        return Ok(());
    }
    let mut inliner = Inliner {
        binder,
        parameters,
        depth: 0,
        scopes: Vec::new(),
        withs: Vec::new(),
        calls: Cell::new(0),
        sees_changes: false,
        acting: binder.facts.acting,
    };
    match tree.visit(&mut inliner) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

impl Binder {
    /// The domain that a type's name stands for.
    pub(crate) fn domain(&self, name: &ObjectName) -> Option<Arc<Domain>> {
        self.type_named(parts(name), |object| match object {
            Object::Domain(domain) => Some(domain.clone()),
            _ => None,
        })
    }

    pub(crate) fn domain_of(&self, declared: &DataType) -> Option<Arc<Domain>> {
        match declared {
            DataType::Custom(name, arguments) if arguments.is_empty() => self.domain(name),
            _ => None,
        }
    }

    /// A domain and those that it is made of, the innermost first.
    pub(crate) fn domain_chain(&self, domain: &Arc<Domain>) -> Vec<Arc<Domain>> {
        let mut chain = vec![domain.clone()];
        while let Some(inner) = chain
            .last()
            .and_then(|last| parse_expression(&format!("NULL::{}", last.declared)).ok())
            .and_then(|cast| match cast {
                Expr::Cast { data_type, .. } => self.domain_of(&data_type),
                _ => None,
            })
            .filter(|_| chain.len() < DEPTH_MAX)
        {
            chain.push(inner);
        }
        chain.reverse();
        chain
    }
}

struct Inliner<'a> {
    binder: &'a Binder,
    /// Of the statement, as far as they are known.
    parameters: &'a [Option<FieldRef>],
    depth: usize,
    /// FROM of each query around.
    scopes: Vec<Vec<TableWithJoins>>,
    /// WITH of each.
    withs: Vec<Option<With>>,
    /// Calls replaced so far.
    calls: Cell<usize>,
    /// Within a volatile function's body.
    sees_changes: bool,
    /// Whose rights are asked for: who calls the function, or within one of SECURITY DEFINER its owner.
    acting: Acting,
}

impl VisitorMut for Inliner<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        self.scopes.push(hygiene::from_of(query));
        self.withs.push(query.with.clone());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.scopes.pop();
        self.withs.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        self.scopes.push(select.from.clone());
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<SqlError> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        let replaced = match expr {
            Expr::Cast {
                expr: inner, data_type, ..
            } => match self.binder.domain_of(data_type) {
                Some(domain) => self.of_domain(inner, &domain).map(Some),
                None => Ok(None),
            },
            Expr::Function(call) => self.call(call),
            _ => Ok(None),
        };
        replace(expr, replaced)
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        let replaced = self.rows(factor);
        replace(factor, replaced)
    }
}

fn cast(expr: Expr, declared: &str) -> Result<Expr> {
    Ok(cast_to(expr, parsed(declared)?))
}

/// A cast to the type of a function's argument or result, whose length or scale PostgreSQL leaves out.
fn cast_bare(expr: Expr, declared: &str) -> Result<Expr> {
    fn bare(declared: DataType) -> DataType {
        match declared {
            DataType::Varchar(_) | DataType::CharVarying(_) | DataType::CharacterVarying(_) => DataType::Varchar(None),
            DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_) => DataType::Numeric(ExactNumberInfo::None),
            DataType::Time(_, zone) => DataType::Time(None, zone),
            DataType::Timestamp(_, zone) => DataType::Timestamp(None, zone),
            DataType::Array(ArrayElemTypeDef::SquareBracket(element, size)) => {
                DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(bare(*element)), size))
            }
            other => other,
        }
    }
    Ok(cast_to(expr, bare(parsed(declared)?)))
}

fn cast_to(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type,
        format: None,
        array: false,
    }
}

fn string(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.into()).into())
}

/// A value of a domain: `CASE WHEN NOT condition THEN raise(...) ELSE value END`.
fn checked(binder: &Binder, inner: &Expr, domain: &Arc<Domain>) -> Result<Expr> {
    let mut value = cast(inner.clone(), &named_in_full(domain.base))?;
    let mut once = Vec::new();
    if once::is_volatile(binder, inner) {
        once.push(once::stand_in(&mut value, Some(&named_in_full(domain.base)))?);
    }
    let mut conditions = Vec::new();
    for DomainCondition {
        condition,
        state,
        message,
        subject,
    } in conditions_of(binder, domain)?
    {
        let condition = match condition {
            Some(condition) => Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr: Box::new(Expr::Nested(Box::new(with_value(condition, &value)))),
            },
            None => Expr::IsNull(Box::new(value.clone())),
        };
        let named = |name: Option<String>| string(&name.unwrap_or_default());
        conditions.push(CaseWhen {
            condition,
            result: call(
                RAISE,
                vec![
                    string(state),
                    string(&message),
                    string(&subject.schema),
                    named(subject.data_type),
                    named(subject.constraint),
                    value.clone(),
                ],
            ),
        });
    }
    if conditions.is_empty() {
        return Ok(once.pop().map_or(value, |(_, value)| value));
    }
    let value = Expr::Case {
        case_token: datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
        end_token: datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
        operand: None,
        conditions,
        else_result: Some(Box::new(value)),
    };
    Ok(once::with(once, value))
}

/// What values of a domain have to satisfy, with the error for those that do not.
pub(crate) struct DomainCondition {
    /// Rewritten; None: NOT NULL.
    pub condition: Option<Expr>,
    pub state: &'static str,
    pub message: String,
    pub subject: Subject,
}

pub(crate) fn conditions_of(binder: &Binder, domain: &Arc<Domain>) -> Result<Vec<DomainCondition>> {
    let mut out = Vec::new();
    let shown = crate::catalog::system::type_name(binder, domain.oid.into()).unwrap_or_else(|| domain.name.clone());
    for own in binder.domain_chain(domain) {
        let name = &domain.name;
        if own.not_null {
            out.push(DomainCondition {
                condition: None,
                state: "23502",
                message: format!("domain {shown} does not allow null values"),
                subject: Subject::data_type(&domain.schema_name, name),
            });
        }
        for (check, text) in &own.checks {
            let mut condition = parse_expression(text)?;
            rewrite(&mut condition);
            let message = format!("value for domain {shown} violates check constraint \"{check}\"");
            out.push(DomainCondition {
                condition: Some(condition),
                state: "23514",
                message,
                subject: Subject::data_type(&domain.schema_name, name).constraint(check),
            });
        }
    }
    Ok(out)
}

/// A domain's condition with an expression in the place of VALUE.
pub(crate) fn with_value(mut condition: Expr, value: &Expr) -> Expr {
    struct Replacer<'a>(&'a Expr);
    impl VisitorMut for Replacer<'_> {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Identifier(name) = expr
                && name.quote_style.is_none()
                && name.value.eq_ignore_ascii_case("value")
            {
                *expr = self.0.clone();
            }
            ControlFlow::Continue(())
        }
    }
    let _ = condition.visit(&mut Replacer(value));
    condition
}

/// The arguments of a call in their order, and by their names.
type Arguments = Vec<(Option<String>, Expr)>;

fn arguments(given: &FunctionArguments) -> Option<Arguments> {
    let FunctionArguments::List(list) = given else {
        return matches!(given, FunctionArguments::None).then(Vec::new);
    };
    of_list(&list.args)
}

fn of_list(given: &[FunctionArg]) -> Option<Arguments> {
    let argument = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some((None, expr.clone())),
        // A relation's rows, as its name alone.
        FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) => match name.0.as_slice() {
            [ObjectNamePart::Identifier(name)] => Some((None, Expr::Identifier(name.clone()))),
            _ => None,
        },
        FunctionArg::Named {
            name,
            arg: FunctionArgExpr::Expr(expr),
            ..
        } => Some((Some(fold(name)), expr.clone())),
        FunctionArg::ExprNamed {
            name: Expr::Identifier(name),
            arg: FunctionArgExpr::Expr(expr),
            ..
        } => Some((Some(fold(name)), expr.clone())),
        _ => None,
    };
    given.iter().map(argument).collect()
}

/// The values of a function's arguments; None where the call does not fit it.
fn bound(function: &Function, given: &Arguments) -> Result<Option<Vec<Expr>>> {
    let Some(given) = variadic::gathered(function, given) else {
        return Ok(None);
    };
    let mut values: Vec<Option<Expr>> = vec![None; function.arguments.len()];
    for (at, (name, value)) in given.iter().enumerate() {
        let at = match name {
            None => Some(at).filter(|at| *at < values.len()),
            Some(name) => {
                let mut own = function.arguments.iter();
                own.position(|own| own.name.as_deref() == Some(name.as_str()))
            }
        };
        match at {
            Some(at) if values[at].is_none() => values[at] = Some(value.clone()),
            _ => return Ok(None),
        }
    }
    let mut out = Vec::new();
    for (value, argument) in values.into_iter().zip(&function.arguments) {
        let value = match (value, &argument.default) {
            (Some(value), _) => value,
            (None, Some(default)) => parse_expression(default)?,
            (None, None) => return Ok(None),
        };
        out.push(if argument.sql_type.starts_with("any") {
            value
        } else {
            cast_bare(value, &argument.sql_type)?
        });
    }
    Ok(Some(out))
}

/// A call's function and its query with the call's arguments in it.
struct Body {
    function: Arc<Function>,
    query: Box<Query>,
    values: Vec<Expr>,
    /// The arguments that the query does not compute wherever they stand.
    once: Vec<once::Once>,
}

impl Inliner<'_> {
    fn deeper(&self, sees_changes: bool, acting: Acting) -> Result<Inliner<'_>> {
        if self.depth >= DEPTH_MAX {
            return Err(SqlError::new(
                crate::pg::error::SqlState("54001"),
                "functions in SQL are nested too deeply",
            ));
        }
        Ok(Inliner {
            binder: self.binder,
            parameters: self.parameters,
            depth: self.depth + 1,
            scopes: self.scopes.clone(),
            withs: self.withs.clone(),
            calls: Cell::new(0),
            sees_changes,
            acting,
        })
    }

    /// The function's query with the call's arguments in it; None where no function fits the call. `of`: the call, in FROM.
    fn body(&self, name: &ObjectName, given: &Arguments, of: Option<&TableFactor>) -> Result<Option<Body>> {
        let mut candidates = Vec::new();
        for function in self.binder.functions_named(name) {
            if let Some(values) = bound(&function, given)? {
                candidates.push((function, values));
            }
        }
        let meant = match candidates.is_empty() {
            true => None,
            false => self.meant(name, given, of, candidates)?,
        };
        if let Some((function, mut values)) = meant {
            // Who calls it must have the right, also through a view.
            if let Some(calls) = &self.binder.calls {
                calls.lock().push((self.depth, function.oid));
            }
            let rights = |acting| Rights {
                state: &self.binder.snapshot,
                acting,
            };
            rights(self.acting).check_function(function.oid, &function.name)?;
            let acting = match function.options.security_definer {
                true => Acting::of(&self.binder.snapshot, self.binder.snapshot.owner(function.oid)),
                false => self.acting,
            };
            let body = match (function.language.as_str(), &function.returns) {
                ("sql", _) => Some(function.body.clone()),
                ("plpgsql", FunctionResult::Scalar(result)) if result != "void" && result != "record" => {
                    plpgsql::returned(&function.body).map(|expression| format!("SELECT {expression}"))
                }
                _ => None,
            };
            let Some(body) = body else {
                let language = &function.language;
                return Err(SqlError::unsupported(format!(
                    "a call of a function in language {language}"
                )));
            };
            let Some(Kind::Sql(tree)) = parse(&body)?.into_iter().next_back().map(|last| last.kind) else {
                return Err(SqlError::internal("a function has no body"));
            };
            let Statement::Query(mut query) = *tree else {
                return Err(SqlError::unsupported("a function in SQL that changes data"));
            };
            // A string is read by the names that who calls it may use.
            if !function.options.bound {
                self.binder.check_schemas_of(query.as_ref(), acting)?;
            }
            let mut settings = function.options.settings.iter();
            if let Some((_, path)) = settings.find(|(name, _)| name == "search_path") {
                self.binder.along(path).qualify(&mut query);
            }
            rewrite(&mut query);
            let records = self.records(&function, &query);
            argument_fields::resolve(&mut query, &function.name, &records);
            parameters::mark(self, &function, &mut query);
            self.calls.set(self.calls.get() + 1);
            let number = self.calls.get() * (DEPTH_MAX + 1) + self.depth;
            hygiene::part(self.binder, &mut query, &mut values, &self.scopes, number)?;
            let sees_changes = self.sees_changes || function.volatility == 'v';
            as_role::mark(self.binder, &mut query, acting);
            if sees_changes {
                changed::mark(self.binder, &mut query);
            }
            outer_aggregates::mark(&mut query, |expr| parameters::marked(expr).is_some());
            let is_plain = alone_items(&query).is_some();
            let once = self.once(&function, &query, &mut values, of.is_some())?;
            parameters::fill(&mut query, &values);
            if of.is_some() {
                once::with_rows(&once, &mut query, is_plain);
            }
            match query.visit(&mut self.deeper(sees_changes, acting)?) {
                ControlFlow::Break(error) => return Err(error),
                ControlFlow::Continue(()) => {}
            }
            return Ok(Some(Body {
                function,
                query,
                values,
                once,
            }));
        }
        Ok(None)
    }

    /// A value of a domain, whose conditions may call functions.
    fn of_domain(&self, inner: &Expr, domain: &Arc<Domain>) -> Result<Expr> {
        let mut value = checked(self.binder, inner, domain)?;
        match value.visit(&mut self.deeper(self.sees_changes, self.acting)?) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(value),
        }
    }

    /// The arguments that are records, whose fields `a.x` names where no relation of the body is called like one.
    fn records<'f>(&self, function: &'f Function, body: &Query) -> Vec<&'f str> {
        let arguments = function.arguments.iter();
        let is_record = |argument: &&FunctionArgument| {
            let declared = parsed(&argument.sql_type).ok();
            declared.is_some_and(|declared| self.binder.columns_of_type(&declared).is_some())
        };
        let names = arguments
            .filter(is_record)
            .filter_map(|argument| argument.name.as_deref());
        let names: Vec<&str> = names.collect();
        if names.is_empty() {
            return names;
        }
        let relations = hygiene::relations(self.binder, body);
        names.into_iter().filter(|name| !relations.contains(*name)).collect()
    }

    /// A call in an expression.
    fn call(&self, call: &Call) -> Result<Option<Expr>> {
        if call.over.is_some() || self.binder.functions_named(&call.name).is_empty() {
            return Ok(None);
        }
        let Some(given) = arguments(&call.args) else {
            return Ok(None);
        };
        let Some(Body {
            function,
            query,
            values,
            once,
        }) = self.body(&call.name, &given, None)?
        else {
            return Ok(None);
        };
        let value = self.value(&function, query)?;
        // A set of nothing is no row, which CASE cannot say.
        if !function.strict || values.is_empty() || gives_set(&function) {
            return Ok(Some(once::with(once, value)));
        }
        let null = |value: &Expr| CaseWhen {
            condition: Expr::IsNull(Box::new(value.clone())),
            result: null(),
        };
        let value = Expr::Case {
            case_token: datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
            end_token: datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
            operand: None,
            conditions: values.iter().map(null).collect(),
            else_result: Some(Box::new(value)),
        };
        Ok(Some(once::with(once, value)))
    }

    /// A call in FROM.
    fn rows(&self, factor: &TableFactor) -> Result<Option<TableFactor>> {
        let (name, given, alias, lateral, ordinality) = match factor {
            TableFactor::Table {
                name,
                args: Some(args),
                alias,
                with_ordinality,
                ..
            } => (name, of_list(&args.args), alias, false, *with_ordinality),
            TableFactor::Function {
                name,
                args,
                alias,
                lateral,
                with_ordinality,
            } => (name, of_list(args), alias, *lateral, *with_ordinality),
            _ => return Ok(None),
        };
        let Some(given) = given else { return Ok(None) };
        if self.binder.functions_named(name).is_empty() {
            return Ok(None);
        }
        let Some(Body {
            function, mut query, ..
        }) = self.body(name, &given, Some(factor))?
        else {
            return Ok(None);
        };
        let own_name = parts(name).pop().unwrap_or_default();
        let column = |name: &str| TableAliasColumnDef {
            name: Ident::with_quote('"', name),
            data_type: None,
        };
        let shown = alias.as_ref().map_or(own_name.clone(), |alias| fold(&alias.name));
        if let FunctionResult::Set(result) | FunctionResult::Scalar(result) = &function.returns {
            let declared = alias.as_ref().map_or(&[][..], |alias| &alias.columns);
            let columns = parsed(result)
                .ok()
                .and_then(|result| self.binder.columns_of_type(&result));
            query = match columns {
                _ if result == "record" => of_types(query, declared)?,
                Some(columns) => of_columns(query, &columns)?,
                None if result == "void" => without_value(query, matches!(function.returns, FunctionResult::Set(_)))?,
                None => query,
            };
        }
        let mut columns = match &function.returns {
            FunctionResult::Table(columns) => columns.iter().map(|(name, _)| column(name)).collect(),
            FunctionResult::Set(result) | FunctionResult::Scalar(result) => {
                match self.binder.names().textual(result) {
                    // Rows of a table.
                    Ok(relation) => relation
                        .columns()
                        .fields()
                        .iter()
                        .map(|field| column(field.name()))
                        .collect(),
                    Err(_) if matches!(result.as_str(), "record") => Vec::new(),
                    Err(_) if self.binder.composite_declared(result).is_some() => {
                        let composite = self.binder.composite_declared(result);
                        let names = composite.iter().flat_map(|of| &of.columns);
                        names.map(|(name, _)| column(name)).collect()
                    }
                    Err(_) => vec![column(only_out(&function).unwrap_or(&shown))],
                }
            }
        };
        if !gives_set(&function) {
            query = first_row(query);
        }
        if ordinality {
            columns.push(column("ordinality"));
            query = numbered(query);
        }
        let alias = match alias {
            Some(alias) if !alias.columns.is_empty() => alias.clone(),
            Some(alias) => TableAlias {
                columns,
                ..alias.clone()
            },
            None => TableAlias {
                explicit: true,
                name: Ident::with_quote('"', own_name),
                columns,
                at: None,
            },
        };
        Ok(Some(TableFactor::Derived {
            lateral,
            subquery: query,
            alias: Some(alias),
            sample: None,
        }))
    }
}

/// The name of a function's only OUT argument.
fn only_out(function: &Function) -> Option<&str> {
    let mut out = function
        .parameters
        .iter()
        .filter(|own| matches!(own.mode, 'o' | 'b' | 't'));
    match (out.next(), out.next()) {
        (Some(only), None) => only.name.as_deref(),
        _ => None,
    }
}

/// The expressions of a query that reads no table and gives one row.
fn alone_items(query: &Query) -> Option<Vec<Expr>> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let plain = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && select.from.is_empty()
        && select.selection.is_none()
        && select.having.is_none()
        && select.distinct.is_none()
        && is_ungrouped(select);
    let item = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }
            if plain && !has_aggregate(expr) && !has_set(expr) =>
        {
            Some(expr.clone())
        }
        _ => None,
    };
    select.projection.iter().map(item).collect()
}

/// The rows with, at the end, their number: WITH ORDINALITY.
fn numbered(query: Box<Query>) -> Box<Query> {
    let number = SelectItem::ExprWithAlias {
        expr: crate::pg::rewrite::row_number(Vec::new()),
        alias: Ident::with_quote('"', "ordinality"),
    };
    over(
        query,
        Vec::new(),
        vec![SelectItem::Wildcard(Default::default()), number],
    )
}

/// Values of a query's rows, whose columns get these names.
fn over(query: Box<Query>, columns: Vec<Ident>, items: Vec<SelectItem>) -> Box<Query> {
    let rows = select::derived(query, "\u{1}rows", &columns);
    select::query(items, vec![select::alone(rows)], None)
}

/// A query's columns as those of a composite type, or the columns of its one record.
fn of_columns(query: Box<Query>, columns: &[(String, String)]) -> Result<Box<Query>> {
    let mut body = query.body.as_ref();
    while let SetExpr::SetOperation { left, .. } = body {
        body = left;
    }
    let items = match body {
        SetExpr::Select(select) => select.projection.as_slice(),
        _ => &[],
    };
    let expression = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
        _ => None,
    };
    let values: Option<Vec<Expr>> = items.iter().map(expression).collect();
    let is_record = match values.as_deref() {
        Some([Expr::Cast { data_type, .. }]) => matches!(data_type, DataType::Custom(..)),
        // A single value may be a record, which the text does not tell.
        Some([Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Function(_)]) => return Ok(query),
        // Nor does it tell the columns of `*`.
        Some(values) if !values.is_empty() => false,
        _ => return Ok(query),
    };
    if !is_record && items.len() != columns.len() {
        return Ok(query);
    }
    let named = |at: usize| Ident::with_quote('"', format!("\u{1}{at}"));
    let values = columns.iter().enumerate().map(|(at, (name, declared))| {
        let value = match is_record {
            true => call(FIELD, vec![Expr::Identifier(named(0)), string(name)]),
            false => Expr::Identifier(named(at)),
        };
        Ok(SelectItem::ExprWithAlias {
            expr: cast(value, declared)?,
            alias: Ident::with_quote('"', name),
        })
    });
    let (names, values) = ((0..items.len()).map(named).collect(), values.collect::<Result<_>>()?);
    Ok(over(query, names, values))
}

/// Rows of a function that returns `record`, whose columns get the types that its call's alias declares.
fn of_types(query: Box<Query>, columns: &[TableAliasColumnDef]) -> Result<Box<Query>> {
    let types: Option<Vec<_>> = columns.iter().map(|column| column.data_type.clone()).collect();
    let types = types.filter(|types| !types.is_empty()).ok_or_else(|| {
        let message = "a column definition list is required for functions returning \"record\"";
        SqlError::new(state::SYNTAX_ERROR, message)
    })?;
    let is_plain = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    let mut body = query.body.as_ref();
    while let SetExpr::SetOperation { left, .. } = body {
        body = left;
    }
    if let SetExpr::Select(select) = body
        && select.projection.iter().all(is_plain)
        && select.projection.len() != types.len()
    {
        return Err(SqlError::new(
            state::INVALID_FUNCTION_DEFINITION,
            "return type mismatch in function declared to return record",
        ));
    }
    let names: Vec<Ident> = columns.iter().map(|column| column.name.clone()).collect();
    let values = names
        .iter()
        .zip(types)
        .map(|(name, data_type)| SelectItem::ExprWithAlias {
            expr: cast_to(Expr::Identifier(name.clone()), data_type),
            alias: name.clone(),
        });
    let values = values.collect();
    Ok(over(query, names, values))
}

/// What a function gives that returns nothing: as many rows as it is called, or none.
fn without_value(query: Box<Query>, set: bool) -> Result<Box<Query>> {
    let null = SelectItem::UnnamedExpr(cast(null(), "void")?);
    let mut query = first_row(over(query, Vec::new(), vec![null]));
    if set && let SetExpr::Select(select) = query.body.as_mut() {
        select.selection = Some(Expr::Value(Value::Boolean(false).into()));
    }
    Ok(query)
}

/// A function gives its query's first row.
fn first_row(mut query: Box<Query>) -> Box<Query> {
    let single = match query.body.as_ref() {
        SetExpr::Select(select) => {
            let aggregated = has_aggregate(&select.projection) || select.having.is_some();
            (select.from.is_empty() || is_ungrouped(select) && aggregated) && !has_set(&select.projection)
        }
        _ => false,
    };
    if !single && query.limit_clause.is_none() {
        query.limit_clause = Some(datafusion::sql::sqlparser::ast::LimitClause::LimitOffset {
            limit: Some(Expr::Value(Value::Number("1".into(), false).into())),
            offset: None,
            limit_by: Vec::new(),
        });
    }
    query
}

/// What a call of an unknown function says; used when a function is dropped.
pub(crate) fn undefined_function(name: &str, arguments: &[String]) -> SqlError {
    let message = format!("function {name}({}) does not exist", arguments.join(", "));
    SqlError::new(state::UNDEFINED_FUNCTION, message)
}
