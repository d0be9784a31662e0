//! Which hash partition a row falls in, as PostgreSQL counts it: its hash of each key with its seed, combined.

use super::simple::function;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Date32Type, Int64Type, TimestampMicrosecondType};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};
use std::sync::Arc;
use tenon_storage::SqlType;

/// `in_hash_partition(modulus, remainder, keys...)`
pub(crate) const IN_HASH_PARTITION: &str = "tenon_in_hash_partition";

const SEED: u64 = 0x7A5B_2236_7996_DCFD;

/// Days and microseconds between 1970 and 2000, from which PostgreSQL counts.
const EPOCH_DAYS: i32 = 10_957;
const EPOCH_US: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

/// Whether keys of a type can be hashed.
pub(crate) fn hashes(sql_type: SqlType) -> bool {
    use SqlType::*;
    matches!(sql_type, Int2 | Int4 | Int8 | Bool | Date | Timestamp | TimestampTz)
        || sql_type.is_string() && !matches!(sql_type, Json | Jsonb)
}

pub(super) fn udf() -> ScalarUDF {
    let any = Signature::variadic_any(Volatility::Immutable);
    function(IN_HASH_PARTITION, any, DataType::Boolean, |args, rows| {
        let [modulus, remainder, keys @ ..] = args else {
            return plan_err!("{IN_HASH_PARTITION} needs a modulus and a remainder");
        };
        let number = |array: &ArrayRef| Ok::<_, datafusion::error::DataFusionError>(cast(array, &DataType::Int64)?);
        let (modulus, remainder) = (number(modulus)?, number(remainder)?);
        let (modulus, remainder) = (
            modulus.as_primitive::<Int64Type>(),
            remainder.as_primitive::<Int64Type>(),
        );
        let mut hashes = vec![0_u64; rows];
        for key in keys {
            add(key, &mut hashes)?;
        }
        let fits = |row: usize| hashes[row] % modulus.value(row) as u64 == remainder.value(row) as u64;
        Ok(Arc::new((0..rows).map(|row| Some(fits(row))).collect::<BooleanArray>()))
    })
}

/// Combines the hashes with those of a key; NULL changes none.
fn add(key: &ArrayRef, hashes: &mut [u64]) -> Result<()> {
    let mut each = |hash: &dyn Fn(usize) -> u64| {
        for row in (0..hashes.len()).filter(|row| key.is_valid(*row)) {
            hashes[row] = combined(hashes[row], hash(row));
        }
    };
    match key.data_type() {
        DataType::Boolean => {
            let values = key.as_boolean();
            each(&|row| of_u32(values.value(row).into()));
        }
        DataType::Int16 | DataType::Int32 | DataType::Int64 => {
            let values = cast(key, &DataType::Int64)?;
            let values = values.as_primitive::<Int64Type>();
            each(&|row| of_i64(values.value(row)));
        }
        DataType::Date32 => {
            let values = key.as_primitive::<Date32Type>();
            each(&|row| of_u32(values.value(row).wrapping_sub(EPOCH_DAYS) as u32));
        }
        DataType::Timestamp(..) => {
            let values = key.as_primitive::<TimestampMicrosecondType>();
            each(&|row| of_i64(values.value(row).wrapping_sub(EPOCH_US)));
        }
        _ => {
            let values = cast(key, &DataType::Utf8View)?;
            let values = values.as_string_view();
            each(&|row| of_bytes(values.value(row).as_bytes()));
        }
    }
    Ok(())
}

fn combined(a: u64, b: u64) -> u64 {
    a ^ b
        .wrapping_add(0x49a0_f4dd_15e5_a8e3)
        .wrapping_add(a << 54)
        .wrapping_add(a >> 7)
}

/// One that is the same for equal numbers of any width.
fn of_i64(value: i64) -> u64 {
    let (low, high) = (value as u32, (value >> 32) as u32);
    of_u32(low ^ if value >= 0 { high } else { !high })
}

fn of_u32(value: u32) -> u64 {
    let mut state = seeded(4, SEED);
    state[0] = state[0].wrapping_add(value);
    last(state)
}

/// Jenkins' hash of 64 bits, with the seed.
fn of_bytes(bytes: &[u8]) -> u64 {
    with_seed(bytes, SEED)
}

/// The same with any seed, of which 0 is none. Its lower half is then PostgreSQL's hash of 32 bits.
pub(super) fn with_seed(bytes: &[u8], seed: u64) -> u64 {
    let mut state = seeded(bytes.len() as u32, seed);
    let word = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0_u32, |word, byte| word << 8 | u32::from(*byte))
    };
    let mut pieces = bytes.chunks_exact(12);
    for piece in &mut pieces {
        for (part, four) in state.iter_mut().zip(piece.chunks(4)) {
            *part = part.wrapping_add(word(four));
        }
        mix(&mut state);
    }
    let rest = pieces.remainder();
    for (at, four) in rest.chunks(4).enumerate() {
        // The lowest byte of the third is the length's.
        let own = if at == 2 { word(four) << 8 } else { word(four) };
        state[at] = state[at].wrapping_add(own);
    }
    last(state)
}

fn seeded(length: u32, seed: u64) -> [u32; 3] {
    let first = 0x9e37_79b9_u32.wrapping_add(length).wrapping_add(3_923_095);
    if seed == 0 {
        return [first; 3];
    }
    let mut state = [
        first.wrapping_add((seed >> 32) as u32),
        first.wrapping_add(seed as u32),
        first,
    ];
    mix(&mut state);
    state
}

fn mix([a, b, c]: &mut [u32; 3]) {
    let step = |x: &mut u32, y: &mut u32, z: &mut u32, bits: u32| {
        *x = x.wrapping_sub(*z);
        *x ^= z.rotate_left(bits);
        *z = z.wrapping_add(*y);
    };
    step(a, b, c, 4);
    step(b, c, a, 6);
    step(c, a, b, 8);
    step(a, b, c, 16);
    step(b, c, a, 19);
    step(c, a, b, 4);
}

fn last([mut a, mut b, mut c]: [u32; 3]) -> u64 {
    let step = |x: &mut u32, y: u32, bits: u32| *x = (*x ^ y).wrapping_sub(y.rotate_left(bits));
    step(&mut c, b, 14);
    step(&mut a, c, 11);
    step(&mut b, a, 25);
    step(&mut c, b, 16);
    step(&mut a, c, 4);
    step(&mut b, a, 14);
    step(&mut c, b, 24);
    u64::from(b) << 32 | u64::from(c)
}
