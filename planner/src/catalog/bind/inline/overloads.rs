//! Which of several functions of a name a call means, by the types of its arguments, as PostgreSQL chooses.
//!
//! Calls are met before names are bound. So an argument's type is that of a query which gives nothing but the argument,
//! over the relations around the call. Where that cannot be planned, the first function that takes so many arguments is meant.
//!
//! More than 400 lines because the choice and what it knows of types are one table.

use super::variadic::{array_of, is_variadic};
use super::{Arguments, Inliner, cast_bare};
use crate::catalog::bind::{Binder, fold};
use crate::catalog::system::shipped_arguments;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::parse::select;
use crate::pg::semantics::resolve::open;
use crate::pg::types::type_oid;
use crate::pg::walk::{Visit, constraint, expressions, null};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::sql::sqlparser::ast::{
    Cte, Expr, JoinConstraint, ObjectName, Query, SelectItem, Statement, TableFactor, TableWithJoins, UnaryOperator,
    Value, Visitor, With,
};
use std::cell::Cell;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use tenon_storage::{Function, SqlType};

/// Relations around a call may have such calls in them: how often.
const DEPTH_MAX: usize = 4;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// What is known of an argument's type, or a parameter's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Type {
    /// A literal that takes the type that is wanted; a parameter that takes any.
    Open,
    Of(SqlType),
    Other,
}

/// A function with the values for its arguments.
pub(super) type Candidate = (Arc<Function>, Vec<Expr>);

impl Inliner<'_> {
    /// The function that a call means; None: one of PostgreSQL's. `of`: the call, where it stands in FROM.
    pub(super) fn meant(
        &self,
        name: &ObjectName,
        given: &Arguments,
        of: Option<&TableFactor>,
        candidates: Vec<Candidate>,
    ) -> Result<Option<Candidate>> {
        let said = given.iter().any(|(_, value)| array_of(value).is_some());
        let types = given
            .iter()
            .map(|(_, value)| self.type_of(array_of(value).unwrap_or(value), of));
        let types: Vec<Type> = types.collect();
        // PostgreSQL's own are looked at first, unless a schema is named.
        let shipped = match name.0.as_slice() {
            [only] => shipped(only.as_ident().map(fold).as_deref().unwrap_or_default(), given),
            _ => Vec::new(),
        };
        let first = shipped.len();
        let mut taken: Vec<Vec<Type>> = shipped;
        let mut visible: Vec<Candidate> = Vec::new();
        for (function, values) in candidates {
            let own = given.iter().enumerate();
            let own = own.map(|(at, (name, _))| self.parameter(&function, at, name.as_deref(), said));
            let own: Vec<Type> = own.collect();
            // One of a later schema is hidden.
            let hides = |((other, _), types): (&Candidate, &Vec<Type>)| {
                *types == own && other.schema_name != function.schema_name
            };
            if !taken[..first].contains(&own) && !visible.iter().zip(&taken[first..]).any(hides) {
                taken.push(own);
                visible.push((function, values));
            }
        }
        let message = |what: &str| {
            let types = types.iter().map(|of| shown(*of)).collect::<Vec<_>>().join(", ");
            format!("function {name}({types}) {what}")
        };
        // An expression over integers that are written is an int8 here, where PostgreSQL has an int4.
        let narrow = |(of, (_, value)): (&Type, &(_, Expr))| match of {
            Type::Of(SqlType::Int8) if is_over_integers(value) => Type::Of(SqlType::Int4),
            other => *other,
        };
        let found = choose(&types, &taken).or_else(|left| match left {
            0 => choose(&types.iter().zip(given).map(narrow).collect::<Vec<_>>(), &taken),
            several => Err(several),
        });
        match found {
            Ok(at) => {
                for ((_, value), (given, own)) in given.iter().zip(types.iter().zip(&taken[at])) {
                    if let (Type::Open, Type::Of(own), Some(id)) = (given, own, parameter_id(value)) {
                        open::called(id, *own);
                    }
                }
                Ok(at.checked_sub(first).map(|at| visible.swap_remove(at)))
            }
            Err(_) if visible.is_empty() => Ok(None),
            Err(_) if types.contains(&Type::Other) => Ok(Some(visible.swap_remove(0))),
            Err(_) if first > 0 => Ok(None),
            Err(0) => {
                let hint =
                    "No function matches the given name and argument types. You might need to add explicit type casts.";
                Err(SqlError::new(state::UNDEFINED_FUNCTION, message("does not exist")).hint(hint))
            }
            Err(_) => {
                let hint = "Could not choose a best candidate function. You might need to add explicit type casts.";
                Err(SqlError::new(state::AMBIGUOUS_FUNCTION, message("is not unique")).hint(hint))
            }
        }
    }

    /// The type of the parameter that gets an argument. `said`: the call says VARIADIC.
    fn parameter(&self, function: &Function, at: usize, name: Option<&str>, said: bool) -> Type {
        let named = |name| function.arguments.iter().find(|own| own.name.as_deref() == Some(name));
        let takes_rest = !said && is_variadic(function) && at + 1 >= function.arguments.len();
        let at = if takes_rest { function.arguments.len() - 1 } else { at };
        let own = name.map_or_else(|| function.arguments.get(at), named);
        let Some(declared) = own.map(|own| own.sql_type.as_str()) else {
            return Type::Other;
        };
        let declared = match takes_rest {
            true => declared.strip_suffix("[]").unwrap_or(declared),
            false => declared,
        };
        if declared.starts_with("any") {
            return Type::Open;
        }
        let cast = cast_bare(null(), declared).ok();
        cast.and_then(|cast| self.planned(select::query(vec![SelectItem::UnnamedExpr(cast)], Vec::new(), None)))
            .unwrap_or(Type::Other)
    }

    /// The type of an argument; `of`: the call, where it stands in FROM.
    fn type_of(&self, value: &Expr, of: Option<&TableFactor>) -> Type {
        match value {
            Expr::Nested(inner) => return self.type_of(inner, of),
            Expr::Value(literal) => match &literal.value {
                Value::Null | Value::SingleQuotedString(_) | Value::EscapedStringLiteral(_) => return Type::Open,
                Value::Placeholder(id) => {
                    let at = id.strip_prefix('$').and_then(|id| id.parse::<usize>().ok());
                    let known = at.and_then(|at| self.parameters.get(at.checked_sub(1)?));
                    if known.is_none_or(Option::is_none) {
                        return Type::Open;
                    }
                }
                // Names are bound over an int8 here.
                Value::Number(digits, _) if digits.parse::<i32>().is_ok() => return Type::Of(SqlType::Int4),
                _ => {}
            },
            Expr::UnaryOp {
                op: UnaryOperator::Minus | UnaryOperator::Plus,
                expr,
            } if self.type_of(expr, of) == Type::Of(SqlType::Int4) => return Type::Of(SqlType::Int4),
            _ => {}
        }
        let items = |value: Expr| vec![SelectItem::UnnamedExpr(value)];
        let mut scopes: Vec<&Vec<TableWithJoins>> = self.scopes.iter().rev().collect();
        scopes.dedup();
        let mut query: Option<Box<Query>> = None;
        let mut own_call = of;
        for scope in scopes {
            let scope = around(scope, own_call.take());
            if scope.is_empty() {
                continue;
            }
            let inner = match query.take() {
                Some(query) => Expr::Subquery(query),
                None => value.clone(),
            };
            let wider = select::query(items(inner), scope, None);
            if let Some(found) = self
                .planned(wider.clone())
                .or_else(|| self.planned(self.with(wider.clone())))
            {
                return found;
            }
            query = Some(wider);
        }
        self.planned(select::query(items(value.clone()), Vec::new(), None))
            .unwrap_or(Type::Other)
    }

    /// A query with those queries of the WITH around it that it names.
    pub(super) fn with(&self, mut query: Box<Query>) -> Box<Query> {
        let known: Vec<&With> = self.withs.iter().flatten().collect();
        let mut names = named(query.as_ref());
        let mut tables: Vec<Cte> = Vec::new();
        for with in known.iter().rev() {
            for table in with.cte_tables.iter().rev() {
                let name = fold(&table.alias.name);
                if names.contains(&name) && !tables.iter().any(|own| fold(&own.alias.name) == name) {
                    names.extend(named(table.query.as_ref()));
                    tables.insert(0, table.clone());
                }
            }
        }
        query.with = known.last().filter(|_| !tables.is_empty()).map(|last| With {
            recursive: known.iter().any(|with| with.recursive),
            cte_tables: tables,
            ..(*last).clone()
        });
        query
    }

    /// The type of a query's only column; None where it cannot be planned.
    pub(super) fn planned(&self, query: Box<Query>) -> Option<Type> {
        if DEPTH.get() >= DEPTH_MAX {
            return None;
        }
        DEPTH.set(DEPTH.get() + 1);
        let found = planned(self.binder, query, self.parameters);
        DEPTH.set(DEPTH.get() - 1);
        found
    }
}

fn planned(binder: &Binder, query: Box<Query>, parameters: &[Option<FieldRef>]) -> Option<Type> {
    let own = Binder {
        describes: true,
        reads: binder.reads.within(),
        ..binder.clone()
    };
    let plan = own.plan(Statement::Query(query), parameters.to_vec()).ok()?;
    let settings = &binder.facts.settings;
    let state = binder
        .services
        .under(settings.join_options(), settings.conventions(None));
    let plan = state
        .analyzer()
        .execute_and_check(plan, state.config_options(), |_, _| {});
    let plan = plan.ok()?;
    let field = plan.schema().fields().first()?;
    Some(match field.data_type() {
        DataType::Null => Type::Open,
        _ => match SqlType::from_field(field).map(SqlType::unlimited) {
            Some(SqlType::Composite(_)) | None => Type::Other,
            Some(_) if type_oid(field).is_some_and(|oid| SqlType::of_oid(oid, -1).is_none()) => Type::Other,
            Some(own) => Type::Of(own),
        },
    })
}

/// Whether an expression computes with integers that are written in it.
fn is_over_integers(value: &Expr) -> bool {
    match value {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Cast { .. } => false,
        Expr::Nested(inner) => is_over_integers(inner),
        other => expressions(other, |expr, _| match expr {
            Expr::Value(literal) if matches!(literal.value, Value::Number(..)) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .is_break(),
    }
}

/// The name of the parameter that an expression is.
fn parameter_id(value: &Expr) -> Option<&str> {
    match value {
        Expr::Nested(inner) => parameter_id(inner),
        Expr::Value(literal) => match &literal.value {
            Value::Placeholder(id) => Some(id),
            _ => None,
        },
        _ => None,
    }
}

/// What PostgreSQL's functions of that name take, as far as they take a call with so many arguments.
fn shipped(name: &str, given: &Arguments) -> Vec<Vec<Type>> {
    if given.iter().any(|(name, _)| name.is_some()) {
        return Vec::new();
    }
    let of = |oid: &u32| match SqlType::of_oid(*oid, -1) {
        Some(of) => Type::Of(of),
        None if is_polymorphic(*oid) => Type::Open,
        None => Type::Other,
    };
    shipped_arguments(name)
        .filter(|own| own.len() == given.len())
        .map(|own| own.iter().map(of).collect())
        .collect()
}

/// Whether a type is one of those that take any other: `"any"`, `anyelement` and its like.
fn is_polymorphic(oid: u32) -> bool {
    matches!(
        oid,
        2276 | 2277 | 2283 | 2776 | 3500 | 3831 | 4537 | 5077 | 5078 | 5079 | 5080
    )
}

/// The relations around a call, without conditions, since it may stand there; of a call in FROM those before it.
fn around(from: &[TableWithJoins], call: Option<&TableFactor>) -> Vec<TableWithJoins> {
    let mut out = Vec::new();
    for table in from {
        if call == Some(&table.relation) {
            break;
        }
        let mut own = table.clone();
        let end = own.joins.iter().position(|join| call == Some(&join.relation));
        own.joins.truncate(end.unwrap_or(own.joins.len()));
        for join in &mut own.joins {
            if let Some(JoinConstraint::On(condition)) = constraint(&mut join.join_operator) {
                *condition = Expr::Value(Value::Boolean(true).into());
            }
        }
        out.push(own);
        if end.is_some() {
            break;
        }
    }
    out
}

/// The relations that a query names by one word.
fn named(query: &Query) -> HashSet<String> {
    struct Names(HashSet<String>);
    impl Visitor for Names {
        type Break = ();

        fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
            if let [name] = super::parts(relation).as_slice() {
                self.0.insert(name.clone());
            }
            ControlFlow::Continue(())
        }
    }
    let mut names = Names(HashSet::new());
    let _ = Visit::visit(query, &mut names);
    names.0
}

fn shown(of: Type) -> String {
    match of {
        Type::Open => "unknown".into(),
        Type::Other => "record".into(),
        Type::Of(SqlType::Timestamp) => "timestamp without time zone".into(),
        Type::Of(SqlType::Time) => "time without time zone".into(),
        Type::Of(own @ SqlType::Array(_)) => own.to_string(),
        Type::Of(own) => own.base_name().into(),
    }
}

/// The number of the candidate whose parameters fit best. An error: how many are as good, none or several.
fn choose(given: &[Type], candidates: &[Vec<Type>]) -> std::result::Result<usize, usize> {
    let pairs = |at: usize| given.iter().copied().zip(candidates[at].iter().copied());
    let equal = |at: usize| pairs(at).filter(|(given, own)| is_same(*given, *own)).count();
    let left: Vec<usize> = (0..candidates.len()).collect();
    let exact: Vec<usize> = left.iter().copied().filter(|at| equal(*at) == given.len()).collect();
    if !exact.is_empty() {
        return only(&exact);
    }
    let fits = |at: usize| pairs(at).all(|(given, own)| goes(given, own));
    let left: Vec<usize> = left.into_iter().filter(|at| fits(*at)).collect();
    if left.len() < 2 {
        return only(&left);
    }
    let left = most(left, equal);
    let left = most(left, |at| {
        let good = |(given, own): &(Type, Type)| {
            let preferred = category(*given) == category(*own) && is_preferred(*own);
            is_same(*given, *own) || *given != Type::Open && preferred
        };
        pairs(at).filter(good).count()
    });
    if left.len() == 1 || !given.contains(&Type::Open) {
        return only(&left);
    }
    // Literals without a type prefer to be strings, else what all candidates have there.
    let mut resolved = Vec::new();
    for (place, _) in given.iter().enumerate().filter(|(_, of)| **of == Type::Open) {
        let own = || left.iter().map(|at| candidates[*at][place]);
        let categories: HashSet<char> = own().map(category).collect();
        let wanted = match categories.len() {
            _ if categories.contains(&'S') => 'S',
            1 => category(own().next().unwrap_or(Type::Other)),
            _ => break,
        };
        let prefers = own().any(|own| category(own) == wanted && is_preferred(own));
        resolved.push((place, wanted, prefers));
    }
    let mut left = left;
    if resolved.len() == given.iter().filter(|of| **of == Type::Open).count() {
        let good = |at: &usize| {
            resolved.iter().all(|(place, wanted, prefers)| {
                let own = candidates[*at][*place];
                category(own) == *wanted && (!prefers || is_preferred(own))
            })
        };
        let better: Vec<usize> = left.iter().copied().filter(good).collect();
        if !better.is_empty() {
            left = better;
        }
    }
    if left.len() == 1 {
        return only(&left);
    }
    // Or the type that all the others have.
    let mut known = given.iter().filter(|of| **of != Type::Open);
    let first = known.next().copied();
    if let Some(first) = first.filter(|first| known.all(|of| is_same(*of, *first))) {
        let all = |at: &usize| candidates[*at].iter().all(|own| goes(first, *own));
        let fitting: Vec<usize> = left.iter().copied().filter(all).collect();
        if fitting.len() == 1 {
            return only(&fitting);
        }
    }
    only(&left)
}

fn only(left: &[usize]) -> std::result::Result<usize, usize> {
    match left {
        [one] => Ok(*one),
        others => Err(others.len()),
    }
}

/// Those of which a number is highest.
fn most(left: Vec<usize>, number: impl Fn(usize) -> usize) -> Vec<usize> {
    let highest = left.iter().map(|at| number(*at)).max();
    left.into_iter().filter(|at| Some(number(*at)) == highest).collect()
}

fn is_same(a: Type, b: Type) -> bool {
    match (a, b) {
        (Type::Of(a), Type::Of(b)) => a.oid() == b.oid(),
        (a, b) => a == b && a == Type::Other,
    }
}

/// Whether an argument is taken for a parameter without a cast that is written.
fn goes(given: Type, own: Type) -> bool {
    use SqlType::{Bit, Interval, Time, TimeTz, Timestamp, TimestampTz, VarBit};
    use SqlType::{Cidr, Date, Float4, Float8, Inet, Int2, Int4, Int8, MacAddr, MacAddr8, Numeric};
    let (from, to) = match (given, own) {
        (Type::Open, _) | (_, Type::Open) => return true,
        (Type::Of(from), Type::Of(to)) => (from, to),
        // Such as oid.
        (Type::Of(Int2 | Int4 | Int8), Type::Other) => return true,
        _ => return given == own,
    };
    if from.oid() == to.oid() || category(given) == 'S' && category(own) == 'S' {
        return true;
    }
    // Each to those that come after it.
    let numbers = [Int2, Int4, Int8, Numeric, Float4, Float8];
    let place = |own: SqlType| numbers.iter().position(|number| number.oid() == own.oid());
    match (place(from), place(to)) {
        (Some(from), Some(to)) => from < to,
        _ => matches!(
            (from, to),
            (Date, Timestamp | TimestampTz)
                | (Timestamp, TimestampTz)
                | (Time, TimeTz | Interval)
                | (Cidr, Inet)
                | (MacAddr, MacAddr8)
                | (MacAddr8, MacAddr)
                | (Bit, VarBit)
                | (VarBit, Bit)
        ),
    }
}

/// As `pg_type` has it.
fn category(of: Type) -> char {
    use SqlType::{Array, Bit, Bool, Cidr, Date, Enum, Float4, Float8, Inet, Int2, Int4, Int8, Interval, Multirange};
    use SqlType::{Bpchar, CharOf, Name, Text, Time, TimeTz, Timestamp, TimestampTz, VarBit, Varchar, VarcharOf};
    use SqlType::{Numeric, NumericOf, NumericWide, Range};
    let Type::Of(of) = of else {
        return if of == Type::Open { 'P' } else { 'C' };
    };
    match of {
        Bool => 'B',
        Int2 | Int4 | Int8 | Float4 | Float8 | Numeric | NumericOf(..) | NumericWide(..) => 'N',
        Text | Name | Varchar | VarcharOf(_) | CharOf(_) | Bpchar => 'S',
        Date | Time | TimeTz | Timestamp | TimestampTz => 'D',
        Interval => 'T',
        Inet | Cidr => 'I',
        Bit | VarBit => 'V',
        Array(_) => 'A',
        Enum(_) => 'E',
        Range(_) | Multirange(_) => 'R',
        _ => 'U',
    }
}

fn is_preferred(of: Type) -> bool {
    use SqlType::{Bool, Float8, Inet, Interval, Text, TimestampTz, VarBit};
    matches!(
        of,
        Type::Of(Bool | Float8 | Text | TimestampTz | Interval | Inet | VarBit)
    )
}
