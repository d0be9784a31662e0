//! The fields and digits of an interval literal (`interval '1:02' minute to second(3)`), and those of the time now
//! (`current_timestamp(3)`).

use crate::pg::walk::taken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, Interval, IntervalFields, TimezoneInfo, Value,
};

type Limits = (Option<IntervalFields>, Option<u64>);

/// None for fields that no interval has.
pub(super) fn limits(interval: &Interval) -> Option<Limits> {
    use DateTimeField::{Day, Hour, Minute, Month, Second, Year};
    let fields = match (&interval.leading_field, &interval.last_field) {
        (None, None) => None,
        (Some(first), None) => Some(match first {
            Year => IntervalFields::Year,
            Month => IntervalFields::Month,
            Day => IntervalFields::Day,
            Hour => IntervalFields::Hour,
            Minute => IntervalFields::Minute,
            Second => IntervalFields::Second,
            _ => return None,
        }),
        (Some(first), Some(last)) => Some(match (first, last) {
            (Year, Month) => IntervalFields::YearToMonth,
            (Day, Hour) => IntervalFields::DayToHour,
            (Day, Minute) => IntervalFields::DayToMinute,
            (Day, Second) => IntervalFields::DayToSecond,
            (Hour, Minute) => IntervalFields::HourToMinute,
            (Hour, Second) => IntervalFields::HourToSecond,
            (Minute, Second) => IntervalFields::MinuteToSecond,
            _ => return None,
        }),
        (None, Some(_)) => return None,
    };
    let digits = interval.fractional_seconds_precision.or(interval.leading_precision);
    Some((fields, digits))
}

/// A function for the time now with a number of digits, as a cast of the same without.
pub(super) fn current(function: &mut Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &mut function.args else {
        return None;
    };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(digits))] = list.args.as_slice() else {
        return None;
    };
    let digits = match digits {
        Expr::Cast { expr, .. } => expr.as_ref(),
        other => other,
    };
    let Expr::Value(value) = digits else { return None };
    let Value::Number(digits, _) = &value.value else {
        return None;
    };
    let digits: Option<u64> = Some(digits.parse().ok()?);
    let data_type = match super::function_name(function).as_str() {
        "current_timestamp" => DataType::Timestamp(digits, TimezoneInfo::WithTimeZone),
        "localtimestamp" => DataType::Timestamp(digits, TimezoneInfo::None),
        "current_time" => DataType::Time(digits, TimezoneInfo::WithTimeZone),
        "localtime" => DataType::Time(digits, TimezoneInfo::None),
        _ => return None,
    };
    let FunctionArguments::List(list) = &mut function.args else {
        return None;
    };
    list.args.clear();
    Some(Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Function(function.clone())),
        data_type,
        array: false,
        format: None,
    })
}

/// `make_interval(days => 10)`: each argument in its place, zero for those left out.
pub(super) fn place_named(function: &mut Function) {
    const NAMES: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];
    if super::function_name(function) != "make_interval" {
        return;
    }
    let FunctionArguments::List(list) = &mut function.args else {
        return;
    };
    let name_of = |arg: &FunctionArg| match arg {
        FunctionArg::Named { name, .. } => Some(name.value.to_lowercase()),
        FunctionArg::ExprNamed {
            name: Expr::Identifier(Ident { value, .. }),
            ..
        } => Some(value.to_lowercase()),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp {
            left,
            op: BinaryOperator::Assignment,
            ..
        })) => match left.as_ref() {
            Expr::Identifier(ident) => Some(ident.value.to_lowercase()),
            _ => None,
        },
        _ => None,
    };
    let named = list.args.iter().any(|arg| name_of(arg).is_some());
    let known = list
        .args
        .iter()
        .all(|arg| name_of(arg).is_none_or(|name| NAMES.contains(&name.as_str())));
    if !named || !known || list.args.len() > NAMES.len() {
        return;
    }
    let zero = || FunctionArgExpr::Expr(Expr::Value(Value::Number("0".into(), false).into()));
    let mut placed: Vec<FunctionArgExpr> = (0..NAMES.len()).map(|_| zero()).collect();
    for (at, arg) in std::mem::take(&mut list.args).into_iter().enumerate() {
        let name = name_of(&arg);
        let place = name
            .and_then(|name| NAMES.iter().position(|known| *known == name))
            .unwrap_or(at);
        let (FunctionArg::Unnamed(value)
        | FunctionArg::Named { arg: value, .. }
        | FunctionArg::ExprNamed { arg: value, .. }) = arg;
        placed[place] = match value {
            FunctionArgExpr::Expr(Expr::BinaryOp {
                op: BinaryOperator::Assignment,
                right,
                ..
            }) => FunctionArgExpr::Expr(*right),
            value => value,
        };
    }
    list.args = placed.into_iter().map(FunctionArg::Unnamed).collect();
}

/// `date(x)` and `timestamptz(x)` are casts; `timestamptz(date, time)` is a sum.
pub(super) fn as_cast(function: &mut Function) -> Option<Expr> {
    let data_type = match super::function_name(function).as_str() {
        "date" => DataType::Date,
        "timestamptz" => DataType::Timestamp(None, TimezoneInfo::WithTimeZone),
        "timetz" => DataType::Time(None, TimezoneInfo::WithTimeZone),
        _ => return None,
    };
    let FunctionArguments::List(list) = &mut function.args else {
        return None;
    };
    let sum = matches!(data_type, DataType::Timestamp(..));
    let value = match list.args.as_mut_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] => take(value),
        [
            FunctionArg::Unnamed(FunctionArgExpr::Expr(date)),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(time)),
        ] if sum => Expr::Nested(Box::new(Expr::BinaryOp {
            left: Box::new(take(date)),
            op: BinaryOperator::Plus,
            right: Box::new(take(time)),
        })),
        _ => return None,
    };
    Some(Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(value),
        data_type,
        array: false,
        format: None,
    })
}

fn take(expr: &mut Expr) -> Expr {
    taken(expr)
}
