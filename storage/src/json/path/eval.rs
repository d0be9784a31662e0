//! What a jsonpath gives of a value.
//!
//! More than 400 lines because the steps of a path call each other.

use super::{Expr, Method, Operator, Path, PathError, Result, Step, arithmetic, moment};
use crate::datetime::Zone;
use crate::json::{Json, order_key};
use std::cmp::Ordering;

/// Named values, of an object.
pub type Variables<'a> = Option<&'a Json>;

/// Tells whether a text matches a pattern under flags; an error is the message for a bad pattern.
pub type Regex<'a> = &'a dyn Fn(&str, &str, &str) -> std::result::Result<bool, String>;

/// What a path is evaluated with beside the value.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    pub variables: Variables<'a>,
    pub regex: Regex<'a>,
    /// The session's zone, where dates and times may be compared by it.
    pub zone: Option<&'a Zone>,
}

/// Most values that one path gives.
const VALUES_MAX: usize = 10_000_000;

/// All that a path gives, in order; before a failure what it gives up to there.
pub fn evaluate(path: &Path, root: &Json, given: Given) -> (Vec<Json>, Result<()>) {
    let own = Evaluator {
        lax: !path.strict,
        root,
        given,
    };
    let mut out = Vec::new();
    let done = own.collect(&path.expr, own.scope(), &mut out);
    (out, done)
}

/// Whether a path gives anything. In lax mode what fails after the first value does not matter.
pub fn exists(path: &Path, root: &Json, given: Given) -> Result<bool> {
    let own = Evaluator {
        lax: !path.strict,
        root,
        given,
    };
    // Signs pass over what is no number where only its being there is asked for.
    if let Expr::Sign(_, operand) = &path.expr
        && own.lax
    {
        let values = own.operand(operand, own.scope())?;
        return Ok(values.iter().any(|value| matches!(value, Json::Number(_))));
    }
    let mut out = Vec::new();
    match own.collect(&path.expr, own.scope(), &mut out) {
        Err(PathError::Soft(..)) if own.lax && !out.is_empty() => Ok(true),
        done => done.map(|()| !out.is_empty()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Truth {
    False,
    True,
    Unknown,
}

impl Truth {
    fn of(value: bool) -> Truth {
        if value { Truth::True } else { Truth::False }
    }
}

#[derive(Clone, Copy)]
struct Scope<'a> {
    /// `@`.
    current: &'a Json,
    /// The innermost subscripted array's size, for LAST.
    size: Option<usize>,
    /// Whether parts that are not there are passed over.
    forgiving: bool,
}

struct Evaluator<'a> {
    lax: bool,
    root: &'a Json,
    given: Given<'a>,
}

fn soft<T>(code: &'static str, message: impl Into<String>) -> Result<T> {
    Err(PathError::Soft(code, message.into()))
}

/// Arrays among values are replaced by their elements.
fn unwrapped(values: Vec<Json>) -> Vec<Json> {
    values
        .into_iter()
        .flat_map(|value| match value {
            Json::Array(items) => items,
            other => vec![other],
        })
        .collect()
}

impl Evaluator<'_> {
    fn scope(&self) -> Scope<'_> {
        Scope {
            current: self.root,
            size: None,
            forgiving: self.lax,
        }
    }

    fn values(&self, expr: &Expr, scope: Scope) -> Result<Vec<Json>> {
        let mut out = Vec::new();
        self.collect(expr, scope, &mut out)?;
        Ok(out)
    }

    /// The values, each followed along its steps before the next, as far as nothing fails.
    fn collect(&self, expr: &Expr, scope: Scope, out: &mut Vec<Json>) -> Result<()> {
        let mut values = match expr {
            Expr::Root => vec![self.root.clone()],
            Expr::Current => vec![scope.current.clone()],
            Expr::Literal(value) => vec![value.clone()],
            Expr::Variable(name) => {
                let found = self.given.variables.and_then(|variables| variables.get(name));
                let missing = || PathError::Hard("42704", format!("could not find jsonpath variable \"{name}\""));
                vec![found.ok_or_else(missing)?.clone()]
            }
            Expr::Last => match scope.size {
                Some(size) => vec![Json::Number((size as i64 - 1).to_string())],
                None => {
                    let message = "evaluating jsonpath LAST outside of array subscript";
                    return Err(PathError::Hard("XX000", message.into()));
                }
            },
            predicate if predicate.is_predicate() => vec![match self.truth(predicate, scope)? {
                Truth::True => Json::Bool(true),
                Truth::False => Json::Bool(false),
                Truth::Unknown => Json::Null,
            }],
            Expr::Binary(op, left, right) => {
                let one = |side: &Expr, name: &str| -> Result<String> {
                    let mut found = self.operand(side, scope)?;
                    match (found.pop(), found.is_empty()) {
                        (Some(Json::Number(digits)), true) => Ok(digits),
                        _ => {
                            let symbol = match op {
                                Operator::Add => "+",
                                Operator::Subtract => "-",
                                Operator::Multiply => "*",
                                Operator::Divide => "/",
                                _ => "%",
                            };
                            let message =
                                format!("{name} operand of jsonpath operator {symbol} is not a single numeric value");
                            soft("22038", message)
                        }
                    }
                };
                let (left, right) = (one(left, "left")?, one(right, "right")?);
                vec![Json::Number(arithmetic::binary(*op, &left, &right)?)]
            }
            Expr::Sign(negative, inner) => {
                for value in self.operand(inner, scope)? {
                    let Json::Number(digits) = value else {
                        let symbol = if *negative { '-' } else { '+' };
                        let message = format!("operand of unary jsonpath operator {symbol} is not a numeric value");
                        return soft("2203B", message);
                    };
                    out.push(Json::Number(if *negative {
                        arithmetic::negated(&digits)
                    } else {
                        digits
                    }));
                }
                return Ok(());
            }
            Expr::Steps(base, steps) => {
                let mut bases = Vec::new();
                let done = self.collect(base, scope, &mut bases);
                for value in &bases {
                    self.walk(steps, value, scope, out)?;
                }
                return done;
            }
            _ => Vec::new(),
        };
        out.append(&mut values);
        Ok(())
    }

    fn walk(&self, steps: &[Step], value: &Json, scope: Scope, out: &mut Vec<Json>) -> Result<()> {
        let Some((step, rest)) = steps.split_first() else {
            if out.len() >= VALUES_MAX {
                return Err(PathError::Hard("54000", "a jsonpath gives too many values".into()));
            }
            out.push(value.clone());
            return Ok(());
        };
        let mut next = Vec::new();
        let done = self.step(step, value, scope, self.lax, &mut next);
        let scope = Scope {
            // Below any depth, parts that are not there are no error.
            forgiving: scope.forgiving || matches!(step, Step::AnyDepth(..)),
            ..scope
        };
        for value in &next {
            self.walk(rest, value, scope, out)?;
        }
        done
    }

    /// What an operator takes: in lax mode without the arrays around it.
    fn operand(&self, expr: &Expr, scope: Scope) -> Result<Vec<Json>> {
        let values = self.values(expr, scope)?;
        Ok(if self.lax { unwrapped(values) } else { values })
    }

    /// The step from one value. `unwrap`: of the elements of an array that the step itself does not take.
    fn step(&self, step: &Step, value: &Json, scope: Scope, unwrap: bool, out: &mut Vec<Json>) -> Result<()> {
        let elements = |out: &mut Vec<Json>| -> Option<Result<()>> {
            match value {
                Json::Array(items) if unwrap => Some(
                    items
                        .iter()
                        .try_for_each(|item| self.step(step, item, scope, false, out)),
                ),
                _ => None,
            }
        };
        match step {
            Step::Key(key) => match value {
                Json::Object(_) => match value.get(key) {
                    Some(found) => out.push(found.clone()),
                    None if scope.forgiving => {}
                    None => return soft("2203A", format!("JSON object does not contain key \"{key}\"")),
                },
                _ => match elements(out) {
                    Some(done) => return done,
                    None if scope.forgiving => {}
                    None => {
                        return soft("2203A", "jsonpath member accessor can only be applied to an object");
                    }
                },
            },
            Step::AnyKey => match value {
                Json::Object(pairs) => out.extend(pairs.iter().map(|(_, value)| value.clone())),
                _ => match elements(out) {
                    Some(done) => return done,
                    None if scope.forgiving => {}
                    None => {
                        let message = "jsonpath wildcard member accessor can only be applied to an object";
                        return soft("2203C", message);
                    }
                },
            },
            Step::AnyElement => match value {
                Json::Array(items) => out.extend(items.iter().cloned()),
                _ if self.lax => out.push(value.clone()),
                _ if scope.forgiving => {}
                _ => {
                    let message = "jsonpath wildcard array accessor can only be applied to an array";
                    return soft("22039", message);
                }
            },
            Step::Index(ranges) => return self.index(ranges, value, scope, out),
            Step::AnyDepth(from, upto) => {
                let (from, upto) = (from.unwrap_or(u32::MAX), upto.unwrap_or(u32::MAX));
                if from == 0 {
                    out.push(value.clone());
                }
                any_depth(value, 1, from, upto, out);
            }
            Step::Filter(condition) => {
                if let Some(done) = elements(out) {
                    return done;
                }
                let inner = Scope {
                    current: value,
                    ..scope
                };
                if self.truth(condition, inner)? == Truth::True {
                    out.push(value.clone());
                }
            }
            Step::Method(method) => {
                if !matches!(method, Method::Type | Method::Size)
                    && let Some(done) = elements(out)
                {
                    return done;
                }
                self.method(*method, value, scope, out)?;
            }
            Step::Datetime(template) => {
                if let Some(done) = elements(out) {
                    return done;
                }
                let Json::String(text) = value else {
                    let message = "jsonpath item method .datetime() can only be applied to a string";
                    return soft("22031", message);
                };
                out.push(Json::Moment(moment::read(text, template.as_deref())?));
            }
        }
        Ok(())
    }

    fn index(&self, ranges: &[(Expr, Option<Expr>)], value: &Json, scope: Scope, out: &mut Vec<Json>) -> Result<()> {
        let items = match value {
            Json::Array(items) => items.as_slice(),
            _ if self.lax => std::slice::from_ref(value),
            _ if scope.forgiving => return Ok(()),
            _ => return soft("22039", "jsonpath array accessor can only be applied to an array"),
        };
        let inner = Scope {
            size: Some(items.len()),
            ..scope
        };
        let position = |expr: &Expr| -> Result<i64> {
            let mut found = self.values(expr, inner)?;
            match (found.pop(), found.is_empty()) {
                (Some(Json::Number(digits)), true) => match arithmetic::subscript(&digits) {
                    Some(position) => Ok(position.into()),
                    None => soft("22033", "jsonpath array subscript is out of integer range"),
                },
                _ => soft("22033", "jsonpath array subscript is not a single numeric value"),
            }
        };
        let size = items.len() as i64;
        for (from, upto) in ranges {
            let from = position(from)?;
            let upto = match upto {
                Some(upto) => position(upto)?,
                None => from,
            };
            if !scope.forgiving && (from < 0 || from > upto || upto >= size) {
                return soft("22033", "jsonpath array subscript is out of bounds");
            }
            for at in from.max(0)..=upto.min(size - 1) {
                out.push(items[at as usize].clone());
            }
        }
        Ok(())
    }

    fn method(&self, method: Method, value: &Json, scope: Scope, out: &mut Vec<Json>) -> Result<()> {
        let name = method.name();
        match (method, value) {
            (Method::Type, value) => out.push(Json::String(value.kind().to_owned())),
            (Method::Size, Json::Array(items)) => out.push(Json::Number(items.len().to_string())),
            (Method::Size, _) if self.lax => out.push(Json::Number("1".into())),
            (Method::Size, _) if scope.forgiving => {}
            (Method::Size, _) => {
                return soft("22039", "jsonpath item method .size() can only be applied to an array");
            }
            (Method::Double, Json::Number(digits)) => out.push(double(digits, "numeric")?),
            (Method::Double, Json::String(text)) => out.push(double(text, "string")?),
            (Method::Double, _) => {
                let message = "jsonpath item method .double() can only be applied to a string or numeric value";
                return soft("22036", message);
            }
            (Method::KeyValue, Json::Object(pairs)) => {
                let fields = pairs.iter().map(|(key, value)| {
                    Json::object(vec![
                        ("key".into(), Json::String(key.clone())),
                        ("value".into(), value.clone()),
                        ("id".into(), Json::Number("0".into())),
                    ])
                });
                out.extend(fields);
            }
            (Method::KeyValue, _) => {
                return soft(
                    "2203C",
                    "jsonpath item method .keyvalue() can only be applied to an object",
                );
            }
            (_, Json::Number(digits)) => out.push(Json::Number(match method {
                Method::Abs => arithmetic::absolute(digits),
                Method::Floor => arithmetic::whole(digits, false)?,
                _ => arithmetic::whole(digits, true)?,
            })),
            _ => {
                let message = format!("jsonpath item method .{name}() can only be applied to a numeric value");
                return soft("22036", message);
            }
        }
        Ok(())
    }

    /// A condition. What fails in its operands makes it unknown.
    fn truth(&self, expr: &Expr, scope: Scope) -> Result<Truth> {
        Ok(match expr {
            Expr::Binary(Operator::And, left, right) => match self.truth(left, scope)? {
                Truth::False => Truth::False,
                left => match (left, self.truth(right, scope)?) {
                    (Truth::True, right) => right,
                    (_, Truth::False) => Truth::False,
                    _ => Truth::Unknown,
                },
            },
            Expr::Binary(Operator::Or, left, right) => match self.truth(left, scope)? {
                Truth::True => Truth::True,
                left => match (left, self.truth(right, scope)?) {
                    (Truth::False, right) => right,
                    (_, Truth::True) => Truth::True,
                    _ => Truth::Unknown,
                },
            },
            Expr::Not(inner) => match self.truth(inner, scope)? {
                Truth::True => Truth::False,
                Truth::False => Truth::True,
                Truth::Unknown => Truth::Unknown,
            },
            Expr::IsUnknown(inner) => Truth::of(self.truth(inner, scope)? == Truth::Unknown),
            Expr::Exists(inner) => match self.values(inner, scope) {
                Ok(values) => Truth::of(!values.is_empty()),
                Err(PathError::Soft(..)) => Truth::Unknown,
                Err(hard) => return Err(hard),
            },
            Expr::Binary(op, left, right) => self.pairs(left, Some(right), scope, |left, right| {
                compared(*op, left, right, self.given.zone)
            })?,
            Expr::StartsWith(left, initial) => self.pairs(left, Some(initial), scope, |left, right| {
                Ok(match (left, right) {
                    (Json::String(text), Json::String(initial)) => Truth::of(text.starts_with(initial.as_str())),
                    _ => Truth::Unknown,
                })
            })?,
            Expr::LikeRegex(left, pattern, flags) => self.pairs(left, None, scope, |left, _| match left {
                Json::String(text) => match (self.given.regex)(pattern, flags, text) {
                    Ok(found) => Ok(Truth::of(found)),
                    Err(message) => Err(PathError::Hard("2201B", message)),
                },
                _ => Ok(Truth::Unknown),
            })?,
            other => match self.values(other, scope)?.as_slice() {
                [Json::Bool(value)] => Truth::of(*value),
                _ => Truth::Unknown,
            },
        })
    }

    /// True where one pair is: in strict mode only if none is unknown.
    fn pairs(
        &self,
        left: &Expr,
        right: Option<&Expr>,
        scope: Scope,
        holds: impl Fn(&Json, &Json) -> Result<Truth>,
    ) -> Result<Truth> {
        let side = |expr: &Expr| match self.operand(expr, scope) {
            Ok(values) => Ok(Some(values)),
            Err(PathError::Soft(..)) => Ok(None),
            Err(hard) => Err(hard),
        };
        let Some(lefts) = side(left)? else {
            return Ok(Truth::Unknown);
        };
        let rights = match right {
            Some(right) => match side(right)? {
                Some(rights) => rights,
                None => return Ok(Truth::Unknown),
            },
            None => vec![Json::Null],
        };
        let (mut found, mut unknown) = (false, false);
        for left in &lefts {
            for right in &rights {
                match holds(left, right)? {
                    Truth::Unknown if !self.lax => return Ok(Truth::Unknown),
                    Truth::Unknown => unknown = true,
                    Truth::True if self.lax => return Ok(Truth::True),
                    Truth::True => found = true,
                    Truth::False => {}
                }
            }
        }
        Ok(match (found, unknown) {
            (true, _) => Truth::True,
            (_, true) => Truth::Unknown,
            _ => Truth::False,
        })
    }
}

fn compared(op: Operator, left: &Json, right: &Json, zone: Option<&Zone>) -> Result<Truth> {
    let order = match (left, right) {
        (Json::Null, Json::Null) => Ordering::Equal,
        (Json::Null, _) | (_, Json::Null) => return Ok(Truth::of(op == Operator::NotEqual)),
        (Json::Bool(a), Json::Bool(b)) => a.cmp(b),
        (Json::Number(_), Json::Number(_)) => order_key(left).cmp(&order_key(right)),
        (Json::String(a), Json::String(b)) => a.cmp(b),
        (Json::Moment(a), Json::Moment(b)) => match moment::compare(*a, *b, zone)? {
            Some(order) => order,
            None => return Ok(Truth::Unknown),
        },
        _ => return Ok(Truth::Unknown),
    };
    Ok(Truth::of(match op {
        Operator::Equal => order.is_eq(),
        Operator::NotEqual => order.is_ne(),
        Operator::Less => order.is_lt(),
        Operator::LessEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        _ => order.is_ge(),
    }))
}

/// The values within, from one depth to another; `u32::MAX` alone stands for the deepest.
fn any_depth(value: &Json, level: u32, from: u32, upto: u32, out: &mut Vec<Json>) {
    if level > upto {
        return;
    }
    let mut visit = |inner: &Json| {
        let deepest = from == u32::MAX && upto == u32::MAX && inner.is_scalar();
        if level >= from || deepest {
            out.push(inner.clone());
        }
        any_depth(inner, level + 1, from, upto, out);
    };
    match value {
        Json::Array(items) => items.iter().for_each(&mut visit),
        Json::Object(pairs) => pairs.iter().for_each(|(_, inner)| visit(inner)),
        _ => {}
    }
}

/// A number as the float nearest to it.
fn double(text: &str, kind: &str) -> Result<Json> {
    let value = crate::parse::parse_float8(text.as_bytes())
        .ok()
        .filter(|value: &f64| value.is_finite());
    match value.and_then(|value| Json::parse(&format!("{value:e}")).ok()) {
        Some(number) => Ok(number),
        None => soft(
            "22036",
            format!(
                "{kind} argument of jsonpath item method .double() is not a valid representation of a double precision number"
            ),
        ),
    }
}
