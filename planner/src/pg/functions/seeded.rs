//! `setseed`, and `random` once a session has called it: PostgreSQL's numbers, one after the other.

use super::constant::as_void;
use super::session::Facts;
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a session's next random number is made of.
#[derive(Debug, Default)]
pub(crate) struct Seed {
    /// None: nothing of the session's own.
    state: Mutex<Option<[u64; 2]>>,
    /// Whether a statement calls `setseed`: the numbers in it, and in those after it, are the session's own.
    called: AtomicBool,
}

impl Seed {
    pub(crate) fn is_called(&self) -> bool {
        self.called.load(Ordering::Relaxed)
    }

    /// As `pg_prng_fseed`.
    fn set(&self, seed: f64) {
        let mut mixed = ((((1_u64 << 52) - 1) as f64) * seed) as i64 as u64;
        // SplitMix64.
        let mut next = || {
            mixed = mixed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let value = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            value ^ (value >> 31)
        };
        *self.state.lock() = Some([next(), next()]);
    }

    /// As `pg_prng_double`: xoroshiro128**.
    fn numbers(&self, count: usize) -> Float64Array {
        let mut state = self.state.lock();
        let Some([first, second]) = state.as_mut() else {
            return (0..count).map(|_| Some(rand::random::<f64>())).collect();
        };
        let next = |_| {
            let mixed = *second ^ *first;
            let value = first.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
            *first = first.rotate_left(24) ^ mixed ^ (mixed << 16);
            *second = mixed.rotate_left(37);
            (value >> 12) as f64 / (1_u64 << 52) as f64
        };
        Float64Array::from_iter_values((0..count).map(next))
    }
}

/// The function of that name, for one statement.
pub(super) fn function(facts: &Arc<Facts>, name: &str) -> Option<Arc<ScalarUDF>> {
    let (sets, signature) = match name {
        "setseed" => (true, Signature::exact(vec![DataType::Float64], Volatility::Volatile)),
        "random" if facts.seed.is_called() => (false, Signature::nullary(Volatility::Volatile)),
        _ => return None,
    };
    if sets {
        facts.seed.called.store(true, Ordering::Relaxed);
    }
    Some(Arc::new(ScalarUDF::new_from_impl(Seeded {
        facts: facts.clone(),
        sets,
        signature,
    })))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Seeded {
    facts: Arc<Facts>,
    sets: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Seeded {
    fn name(&self) -> &str {
        if self.sets { "setseed" } else { "random" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(if self.sets {
            DataType::Utf8View
        } else {
            DataType::Float64
        })
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        let field = Field::new(self.name(), self.return_type(&[])?, self.sets);
        Ok(Arc::new(if self.sets { as_void(field) } else { field }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        if !self.sets {
            return Ok(ColumnarValue::Array(Arc::new(self.facts.seed.numbers(rows))));
        }
        let seeds: ArrayRef = cast(&args.args[0].to_array(rows)?, &DataType::Float64)?;
        let set = |seed: Option<f64>| {
            let Some(seed) = seed else { return Ok(None) };
            if !(-1.0..=1.0).contains(&seed) {
                let message = format!("setseed parameter {seed} is out of allowed range [-1,1]");
                return Err(to_datafusion(SqlError::new(state::INVALID_PARAMETER_VALUE, message)));
            }
            self.facts.seed.set(seed);
            Ok(Some(""))
        };
        let done = seeds.as_primitive::<Float64Type>().iter().map(set);
        Ok(ColumnarValue::Array(Arc::new(
            done.collect::<Result<StringViewArray>>()?,
        )))
    }
}
