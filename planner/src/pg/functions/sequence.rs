//! `nextval`, `currval`, `lastval` and `setval`.

use super::each_row;
use super::session::Facts;
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Builder, UInt32Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type, UInt32Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use std::collections::HashMap;
use std::sync::Arc;
use tenon_storage::{Relation, Secured, Sequence, privilege};

/// What a session has taken from sequences.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// By the oids of the sequences.
    values: HashMap<u32, Own>,
    /// The sequence that `nextval` was called for last.
    last: Option<u32>,
}

/// What a session has of one sequence.
#[derive(Debug)]
struct Own {
    /// The last value that was given.
    last: i64,
    /// The last that was taken ahead (CACHE), by which increment, from which sequence: one that counts otherwise has none of them.
    ahead: Option<(i64, i64, Arc<Sequence>)>,
}

impl Own {
    /// The next of the values that were taken ahead.
    fn next(&mut self, sequence: &Sequence) -> Option<i64> {
        let (until, increment, of) = self.ahead.as_ref()?;
        if self.last == *until || !of.counts_with(sequence) {
            self.ahead = None;
            return None;
        }
        self.last += increment;
        Some(self.last)
    }
}

impl Taken {
    /// After ALTER SEQUENCE or setval: values that were taken ahead are given no more.
    pub(crate) fn forget_ahead(&mut self, sequence: u32) {
        if let Some(own) = self.values.get_mut(&sequence) {
            own.ahead = None;
        }
    }

    /// DISCARD SEQUENCES.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Next,
    Current,
    Last,
    Set,
}

/// The function of that name, for one statement.
pub(super) fn function(facts: &Arc<Facts>, name: &str) -> Option<Arc<ScalarUDF>> {
    let kind = match name {
        "nextval" => Kind::Next,
        "currval" => Kind::Current,
        "lastval" => Kind::Last,
        "setval" => Kind::Set,
        _ => return None,
    };
    let exact = TypeSignature::Exact;
    // A sequence by its name, or as a regclass.
    let of = |more: &[DataType]| [DataType::UInt32, DataType::Utf8View].map(|first| exact([&[first], more].concat()));
    let signature = match kind {
        Kind::Next | Kind::Current => Signature::one_of(of(&[]).to_vec(), Volatility::Volatile),
        Kind::Last => Signature::exact(Vec::new(), Volatility::Volatile),
        Kind::Set => {
            let (two, three) = (of(&[DataType::Int64]), of(&[DataType::Int64, DataType::Boolean]));
            Signature::one_of([two, three].concat(), Volatility::Volatile)
        }
    };
    Some(Arc::new(ScalarUDF::new_from_impl(SequenceFunction {
        facts: facts.clone(),
        kind,
        signature,
    })))
}

/// Whether this is one of them.
pub(crate) fn is_one(function: &ScalarUDF) -> bool {
    function.inner().is::<SequenceFunction>()
}

/// Whether this is `nextval`.
pub(crate) fn is_next(function: &ScalarUDF) -> bool {
    let own = function.inner().downcast_ref::<SequenceFunction>();
    own.is_some_and(|own| own.kind == Kind::Next)
}

/// The sequence that a call of `nextval` names by a constant.
pub(crate) fn named(function: &ScalarUDF, args: &[Expr]) -> Option<u32> {
    let own = function.inner().downcast_ref::<SequenceFunction>()?;
    let [arg] = args else { return None };
    let mut arg = arg;
    // A number that is cast to oid.
    while let Expr::Cast(cast) = arg {
        arg = &cast.expr;
    }
    let Expr::Literal(value, _) = arg else { return None };
    match value.try_as_str() {
        Some(name) => Some((own.facts.relation_named)(&own.facts, name?).ok()?.oid()),
        None => match value.cast_to(&DataType::UInt32).ok()? {
            ScalarValue::UInt32(oid) => oid,
            _ => None,
        },
    }
}

/// What `nextval` gives for a sequence.
pub(crate) fn next(facts: &Arc<Facts>, sequence: u32) -> std::result::Result<i64, SqlError> {
    Ok(next_values(facts, sequence, 1)?[0])
}

/// The same for so many calls.
pub(crate) fn next_values(facts: &Arc<Facts>, sequence: u32, calls: usize) -> std::result::Result<Vec<i64>, SqlError> {
    let function = SequenceFunction {
        facts: facts.clone(),
        kind: Kind::Next,
        signature: Signature::any(1, Volatility::Volatile),
    };
    let names: ArrayRef = Arc::new(UInt32Array::from(vec![sequence]));
    let sequence = function.sequence(&names, 0)?;
    let values = (0..calls)
        .map(|_| function.next(&sequence))
        .collect::<std::result::Result<_, _>>()?;
    sequence.settle()?;
    Ok(values)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SequenceFunction {
    facts: Arc<Facts>,
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for SequenceFunction {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Next => "nextval",
            Kind::Current => "currval",
            Kind::Last => "lastval",
            Kind::Set => "setval",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
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
        let mut out = Int64Builder::with_capacity(rows);
        if self.kind == Kind::Last {
            let value = self.last().map_err(to_datafusion)?;
            out.append_value_n(value, rows);
            return Ok(ColumnarValue::Array(Arc::new(out.finish())));
        }
        let names = args.args[0].to_array(rows)?;
        let column = |at: usize, of: &DataType| -> Result<Option<ArrayRef>> {
            let given = args.args.get(at).map(|value| value.to_array(rows)).transpose()?;
            Ok(given.map(|given| cast(&given, of)).transpose()?)
        };
        let (values, called) = (column(1, &DataType::Int64)?, column(2, &DataType::Boolean)?);
        let is_null = |column: &Option<ArrayRef>, row: usize| column.as_ref().is_some_and(|column| column.is_null(row));
        // Mostly one sequence for all rows.
        let mut found: Option<(usize, Arc<Sequence>)> = None;
        for row in 0..rows {
            if names.is_null(row) || is_null(&values, row) || is_null(&called, row) {
                out.append_null();
                continue;
            }
            let sequence = match &found {
                Some((before, sequence)) if same(&names, *before, row) => sequence.clone(),
                _ => self.sequence(&names, row).map_err(to_datafusion)?,
            };
            let value = match self.kind {
                Kind::Next => self.next(&sequence),
                Kind::Current => self.current(&sequence),
                _ => {
                    let value = values
                        .as_ref()
                        .map_or(0, |values| values.as_primitive::<Int64Type>().value(row));
                    let called = called.as_ref().is_none_or(|called| called.as_boolean().value(row));
                    self.set(&sequence, value, called)
                }
            };
            out.append_value(value.map_err(to_datafusion)?);
            found = Some((row, sequence));
        }
        if let Some((_, sequence)) = found {
            // Once for all rows: the next process gives none of these values again.
            sequence.settle().map_err(|error| to_datafusion(error.into()))?;
        }
        Ok(ColumnarValue::Array(Arc::new(out.finish())))
    }
}

fn same(names: &ArrayRef, a: usize, b: usize) -> bool {
    match names.data_type() {
        DataType::UInt32 => names.as_primitive::<UInt32Type>().value(a) == names.as_primitive::<UInt32Type>().value(b),
        _ => names.as_string_view().value(a) == names.as_string_view().value(b),
    }
}

impl SequenceFunction {
    fn sequence(&self, names: &ArrayRef, row: usize) -> std::result::Result<Arc<Sequence>, SqlError> {
        let snapshot = &self.facts.snapshot;
        let relation = match names.data_type() {
            DataType::UInt32 => {
                let oid = names.as_primitive::<UInt32Type>().value(row);
                snapshot.relation_by_oid(oid).ok_or_else(|| {
                    let message = format!("could not open relation with OID {oid}");
                    SqlError::new(state::UNDEFINED_TABLE, message)
                })?
            }
            _ => {
                let name = names.as_string_view().value(row);
                (self.facts.relation_named)(&self.facts, name)?
            }
        };
        match relation {
            Relation::Sequence(sequence) => {
                self.check_allowed(sequence)?;
                Ok(sequence.clone())
            }
            other => {
                let message = format!("\"{}\" is not a sequence", other.name());
                Err(SqlError::new(state::WRONG_OBJECT_TYPE, message))
            }
        }
    }

    /// Whether the role may call the function for a sequence.
    fn check_allowed(&self, sequence: &Sequence) -> std::result::Result<(), SqlError> {
        let acting = self.facts.acting;
        // That of an identity column is asked by INSERT, whoever that is.
        let of_identity = sequence.owner.as_ref().is_some_and(|owner| owner.identity);
        if acting.superuser || self.kind == Kind::Next && of_identity {
            return Ok(());
        }
        let wanted = match self.kind {
            Kind::Next => privilege::USAGE | privilege::UPDATE,
            Kind::Current | Kind::Last => privilege::USAGE | privilege::SELECT,
            Kind::Set => privilege::UPDATE,
        };
        let state = &self.facts.snapshot;
        match state.granted(acting.role, Secured::Sequence, sequence.oid, wanted) {
            0 => {
                let message = format!("permission denied for sequence {}", sequence.name);
                Err(SqlError::new(state::INSUFFICIENT_PRIVILEGE, message))
            }
            _ => Ok(()),
        }
    }

    fn check_writable(&self) -> std::result::Result<(), SqlError> {
        if !self.facts.settings.is_on("transaction_read_only") {
            return Ok(());
        }
        let message = format!("cannot execute {}() in a read-only transaction", self.name());
        Err(SqlError::new(state::READ_ONLY_SQL_TRANSACTION, message))
    }

    fn next(&self, sequence: &Arc<Sequence>) -> std::result::Result<i64, SqlError> {
        if !sequence.schema_name.starts_with("pg_temp") {
            self.check_writable()?;
        }
        let mut taken = self.facts.taken.lock();
        let own = taken.values.get_mut(&sequence.oid);
        let value = match own.and_then(|own| own.next(sequence)) {
            Some(value) => value,
            None => {
                let (first, last) = sequence.take(sequence.def.cache)?;
                let ahead = (last, sequence.def.increment, sequence.clone());
                let ahead = (first != last).then_some(ahead);
                taken.values.insert(sequence.oid, Own { last: first, ahead });
                first
            }
        };
        taken.last = Some(sequence.oid);
        Ok(value)
    }

    fn current(&self, sequence: &Sequence) -> std::result::Result<i64, SqlError> {
        self.facts
            .taken
            .lock()
            .values
            .get(&sequence.oid)
            .map(|own| own.last)
            .ok_or_else(|| {
                let message = format!(
                    "currval of sequence \"{}\" is not yet defined in this session",
                    sequence.name
                );
                SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
            })
    }

    fn last(&self) -> std::result::Result<i64, SqlError> {
        let taken = self.facts.taken.lock();
        if let Some(Relation::Sequence(sequence)) = taken.last.and_then(|oid| self.facts.snapshot.relation_by_oid(oid))
        {
            self.check_allowed(sequence)?;
        }
        let there = |oid: &u32| self.facts.snapshot.relation_by_oid(*oid).is_some();
        let value = taken
            .last
            .filter(there)
            .and_then(|oid| taken.values.get(&oid).map(|own| own.last));
        value.ok_or_else(|| {
            let message = "lastval is not yet defined in this session";
            SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        })
    }

    fn set(&self, sequence: &Sequence, value: i64, is_called: bool) -> std::result::Result<i64, SqlError> {
        if !sequence.schema_name.starts_with("pg_temp") {
            self.check_writable()?;
        }
        sequence.set(value, is_called)?;
        let mut taken = self.facts.taken.lock();
        match is_called {
            true => drop(taken.values.insert(
                sequence.oid,
                Own {
                    last: value,
                    ahead: None,
                },
            )),
            // Values that were taken ahead are given no more.
            false => taken.forget_ahead(sequence.oid),
        }
        Ok(value)
    }
}
