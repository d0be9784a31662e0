//! Whether a row is in a sample: a hash of its place, or of its block's, against the share that is wanted.

use crate::pg::error::{SqlError, SqlState};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::datatypes::{DataType, Float64Type, UInt32Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

const INVALID_ARGUMENT: SqlState = SqlState("2202H");
const INVALID_REPEAT: SqlState = SqlState("2202G");

/// Rows of a block, which SYSTEM takes whole.
const BLOCK_ROWS: u32 = 128;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sampled {
    by_blocks: bool,
    signature: Signature,
}

/// Of a row's segment, its number there, the percentage and, where `seeded`, the seed.
pub(crate) fn function(by_blocks: bool, seeded: bool) -> Arc<ScalarUDF> {
    let mut types = vec![DataType::UInt32, DataType::UInt32, DataType::Float64];
    types.extend(seeded.then_some(DataType::Float64));
    Arc::new(ScalarUDF::new_from_impl(Sampled {
        by_blocks,
        // Without a seed each run has a sample of its own; and scans know no places of rows, so that it stays above them.
        signature: Signature::exact(types, Volatility::Volatile),
    }))
}

impl ScalarUDFImpl for Sampled {
    fn name(&self) -> &str {
        if self.by_blocks {
            "\u{1}system_sample"
        } else {
            "\u{1}bernoulli_sample"
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args.args.iter().map(|arg| arg.to_array(args.number_rows));
        let arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;
        let segments = arrays[0].as_primitive::<UInt32Type>();
        let rows = arrays[1].as_primitive::<UInt32Type>();
        let percents = arrays[2].as_primitive::<Float64Type>();
        let seeds = arrays.get(3).map(|seeds| seeds.as_primitive::<Float64Type>());
        let own_seed = RandomState::new().hash_one(0u64);
        let taken = (0..args.number_rows).map(|row| {
            if percents.is_null(row) {
                return refused(INVALID_ARGUMENT, "TABLESAMPLE parameter cannot be null");
            }
            let percent = percents.value(row);
            if !(0.0..=100.0).contains(&percent) {
                return refused(INVALID_ARGUMENT, "sample percentage must be between 0 and 100");
            }
            let seed = match seeds {
                Some(seeds) if seeds.is_null(row) => {
                    return refused(INVALID_REPEAT, "TABLESAMPLE REPEATABLE parameter cannot be null");
                }
                Some(seeds) => mixed(seeds.value(row).to_bits()),
                None => own_seed,
            };
            let number = rows.value(row);
            let number = if self.by_blocks { number / BLOCK_ROWS } else { number };
            let place = u64::from(segments.value(row)) << 32 | u64::from(number);
            // The upper half of the hash, of 2^32 values.
            let hash = mixed(place ^ seed) >> 32;
            Ok(Some((hash as f64) < percent / 100.0 * 4_294_967_296.0))
        });
        let taken = taken.collect::<Result<BooleanArray>>()?;
        Ok(ColumnarValue::Array(Arc::new(taken)))
    }
}

fn refused<T>(state: SqlState, message: &str) -> Result<T> {
    Err(to_datafusion(SqlError::new(state, message)))
}

/// SplitMix64.
fn mixed(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
