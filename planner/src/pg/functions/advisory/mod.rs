//! `pg_advisory_lock` and its like.

mod locks;

pub(crate) use locks::{Key, Locks, Owner, Shown};

use super::constant::as_void;
use super::each_row;
use super::session::Facts;
use crate::pg::error::{Result as SqlResult, SqlError, canceled, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanBuilder, Int64Array, StringViewBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use locks::Span;
use std::sync::Arc;
use std::time::Instant;
use tenon_storage::{LockMode, heap};

/// What a function does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Lock(Span),
    Try(Span),
    Unlock,
    UnlockAll,
}

const FUNCTIONS: [(&str, Kind, LockMode); 11] = [
    ("pg_advisory_lock", Kind::Lock(Span::Session), LockMode::Exclusive),
    ("pg_advisory_lock_shared", Kind::Lock(Span::Session), LockMode::Shared),
    ("pg_advisory_unlock", Kind::Unlock, LockMode::Exclusive),
    ("pg_advisory_unlock_all", Kind::UnlockAll, LockMode::Exclusive),
    ("pg_advisory_unlock_shared", Kind::Unlock, LockMode::Shared),
    (
        "pg_advisory_xact_lock",
        Kind::Lock(Span::Transaction),
        LockMode::Exclusive,
    ),
    (
        "pg_advisory_xact_lock_shared",
        Kind::Lock(Span::Transaction),
        LockMode::Shared,
    ),
    ("pg_try_advisory_lock", Kind::Try(Span::Session), LockMode::Exclusive),
    (
        "pg_try_advisory_lock_shared",
        Kind::Try(Span::Session),
        LockMode::Shared,
    ),
    (
        "pg_try_advisory_xact_lock",
        Kind::Try(Span::Transaction),
        LockMode::Exclusive,
    ),
    (
        "pg_try_advisory_xact_lock_shared",
        Kind::Try(Span::Transaction),
        LockMode::Shared,
    ),
];

/// Whether this is the name of a function that has keys of both kinds.
pub(crate) fn has_keys(name: &str) -> bool {
    FUNCTIONS
        .iter()
        .any(|(own, kind, _)| *own == name && *kind != Kind::UnlockAll)
}

/// What PostgreSQL calls a lock of this mode.
pub(crate) fn mode_name(mode: LockMode) -> &'static str {
    match mode {
        LockMode::Exclusive | LockMode::Change => "ExclusiveLock",
        LockMode::Shared => "ShareLock",
    }
}

/// Keys as numbers.
fn numbers(given: &ArrayRef, of: &str) -> Result<ArrayRef> {
    let Some(texts) = given.as_string_view_opt() else {
        return Ok(cast(given, &DataType::Int64)?);
    };
    let number = |text: Option<&str>| {
        let Some(text) = text else { return Ok(None) };
        let fits = |number: i64| of == "bigint" || i32::try_from(number).is_ok();
        match text.trim().parse::<i64>() {
            Ok(number) if fits(number) => Ok(Some(number)),
            // A number, of which there are none so large.
            known
                if known.is_ok()
                    || text.trim().bytes().all(|byte| byte.is_ascii_digit()) && !text.trim().is_empty() =>
            {
                let message = format!("value \"{text}\" is out of range for type {of}");
                Err(to_datafusion(SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, message)))
            }
            _ => {
                let message = format!("invalid input syntax for type {of}: \"{text}\"");
                Err(to_datafusion(SqlError::new(
                    state::INVALID_TEXT_REPRESENTATION,
                    message,
                )))
            }
        }
    };
    let numbers = texts.iter().map(number).collect::<Result<Int64Array>>()?;
    Ok(Arc::new(numbers))
}

/// The function of that name, for one statement.
pub(super) fn function(facts: &Arc<Facts>, name: &str) -> Option<Arc<ScalarUDF>> {
    let (name, kind, mode) = *FUNCTIONS.iter().find(|(own, ..)| *own == name)?;
    let signature = match kind {
        Kind::UnlockAll => Signature::nullary(Volatility::Volatile),
        _ => Signature::user_defined(Volatility::Volatile),
    };
    Some(Arc::new(ScalarUDF::new_from_impl(Advisory {
        facts: facts.clone(),
        name,
        kind,
        mode,
        signature,
    })))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Advisory {
    facts: Arc<Facts>,
    name: &'static str,
    kind: Kind,
    mode: LockMode,
    signature: Signature,
}

impl ScalarUDFImpl for Advisory {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// One key or two, of integers or of literals that have no type yet.
    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        use DataType::{Int8, Int16, Int32, Int64, Null, Utf8, Utf8View};
        let key = |of: &DataType| match of {
            Int8 | Int16 | Int32 | Int64 | Null => Ok(Int64),
            Utf8 | Utf8View => Ok(Utf8View),
            other => plan_err!("{other} is no key of a lock"),
        };
        match given.len() {
            1 | 2 => given.iter().map(key).collect(),
            number => plan_err!("{number} keys of a lock"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::Try(_) | Kind::Unlock => DataType::Boolean,
            Kind::Lock(_) | Kind::UnlockAll => DataType::Utf8View,
        })
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        let field = Field::new(self.name, self.return_type(&[])?, true);
        Ok(Arc::new(match self.kind {
            Kind::Try(_) | Kind::Unlock => field,
            Kind::Lock(_) | Kind::UnlockAll => as_void(field),
        }))
    }

    fn simplify(&self, mut args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let constant = |arg: &Expr| matches!(arg, Expr::Literal(..));
        if args.is_empty() || !args.iter().all(constant) {
            return Ok(ExprSimplifyResult::Original(args));
        }
        args[0] = each_row::of(std::mem::take(&mut args[0]));
        let function = ScalarUDF::new_from_impl(self.clone());
        Ok(ExprSimplifyResult::Simplified(function.call(args)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.iter().map(|given| given.to_array(rows));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let of = if arrays.len() == 1 { "bigint" } else { "integer" };
        let numbers = arrays.iter().map(|array| numbers(array, of));
        let numbers = numbers.collect::<Result<Vec<ArrayRef>>>()?;
        let mut done: Vec<Option<bool>> = Vec::with_capacity(rows);
        for row in 0..rows {
            let is_null = numbers.iter().any(|numbers| numbers.is_null(row));
            let number = |at: usize| numbers.get(at).map(|own| own.as_primitive::<Int64Type>().value(row));
            done.push(match is_null {
                true => None,
                false => Some(self.called(number(0), number(1)).map_err(to_datafusion)?),
            });
        }
        Ok(ColumnarValue::Array(match self.return_type(&[])? {
            DataType::Boolean => {
                let mut out = BooleanBuilder::with_capacity(rows);
                out.extend(done);
                Arc::new(out.finish())
            }
            _ => {
                let mut out = StringViewBuilder::with_capacity(rows);
                out.extend(done.into_iter().map(|done| done.map(|_| "")));
                Arc::new(out.finish())
            }
        }))
    }
}

impl Advisory {
    /// One call; what it says where it returns something.
    fn called(&self, first: Option<i64>, second: Option<i64>) -> SqlResult<bool> {
        let own = &self.facts.advisory;
        let key = match (first, second) {
            (Some(first), Some(second)) => Key::Two(int4(first)?, int4(second)?),
            (first, _) => Key::One(first.unwrap_or_default()),
        };
        match self.kind {
            Kind::Lock(span) => {
                let times = self.facts.settings.times();
                let until = times.lock.and_then(|limit| Instant::now().checked_add(limit));
                own.lock(key, self.mode, span, || self.wanted(until)).map(|()| true)
            }
            Kind::Try(span) => own.try_lock(key, self.mode, span, || self.wanted(None)),
            Kind::Unlock => {
                let done = own.unlock(key, self.mode);
                if !done {
                    let message = format!("you don't own a lock of type {}", mode_name(self.mode));
                    self.facts.warnings.lock().push(message);
                }
                Ok(done)
            }
            Kind::UnlockAll => {
                own.unlock_all();
                Ok(true)
            }
        }
    }

    /// Fails where the statement is to end, or waits for too long.
    fn wanted(&self, until: Option<Instant>) -> SqlResult<()> {
        let is_past = |until: Option<Instant>| until.is_some_and(|until| Instant::now() > until);
        // The second is of a cursor whose rows are fetched by another statement.
        if self.facts.cancel.is_cancelled() || heap::interrupted().is_some() {
            return Err(canceled());
        }
        // Of what the task evaluates that looks at the clock.
        if is_past(self.facts.planning.deadline) {
            let message = "canceling statement due to statement timeout";
            return Err(SqlError::new(state::QUERY_CANCELED, message));
        }
        if is_past(until) {
            let message = "canceling statement due to lock timeout";
            return Err(SqlError::new(state::LOCK_NOT_AVAILABLE, message));
        }
        Ok(())
    }
}

fn int4(number: i64) -> SqlResult<i32> {
    i32::try_from(number).map_err(|_| SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"))
}
