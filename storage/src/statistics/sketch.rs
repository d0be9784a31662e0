//! Distinct counts in bounded space: exact up to 256 values, a HyperLogLog above (4096 registers, error 1.6 %).

use crate::numeric::compare_key;
use crate::range;
use arrow::array::*;
use arrow::datatypes::*;
use hashbrown::HashTable;
use std::sync::Arc;

const PRECISION: u32 = 12;
const REGISTERS: usize = 1 << PRECISION;
const EXACT_MAX: usize = 256;
/// Most that a register holds, and the byte of a text that says none.
const RANK_MAX: u8 = (u64::BITS - PRECISION) as u8 + 1;
const RANK_ZERO: u8 = b'0';

/// A mergeable estimate of how many distinct hashes were added.
#[derive(Clone, Debug)]
pub enum Sketch {
    Exact(HashTable<u64>),
    /// Shared by copies until one of them grows: each version of a table has one, and few rows change nothing in it.
    Registers(Arc<[u8; REGISTERS]>),
}

impl Default for Sketch {
    fn default() -> Self {
        Sketch::Exact(HashTable::new())
    }
}

/// Mixes an integer to a hash (the finalizer of SplitMix64).
#[inline(always)]
pub fn hash_u64(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Hashes bytes eight at a time.
#[inline]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut state = bytes.len() as u64;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes([
            chunk[0], chunk[1], chunk[2], chunk[3], chunk[4], chunk[5], chunk[6], chunk[7],
        ]);
        let product = u128::from(state ^ word) * 0xa076_1d64_78bd_642f_u128;
        state = (product >> 64) as u64 ^ product as u64 ^ 0xe703_7ed1_a0b4_28db;
    }
    let mut last = [0_u8; 8];
    let rest = chunks.remainder();
    last[..rest.len()].copy_from_slice(rest);
    hash_u64(state ^ u64::from_le_bytes(last))
}

/// Bits that are the same of floats that are equal: the two zeros, and whatever is no number.
fn equal_bits(value: f64) -> u64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }.to_bits()
}

/// Folds each row's value into `hashes`, which begin as zeros: equal rows of equal types get equal hashes.
pub fn hash_array(array: &ArrayRef, hashes: &mut [u64]) {
    fn fold(hashes: &mut [u64], values: impl Iterator<Item = u64>) {
        hashes
            .iter_mut()
            .zip(values)
            .for_each(|(hash, value)| *hash = hash_u64(value ^ hash.rotate_left(23)));
    }
    fn bytes<'a>(hashes: &mut [u64], values: impl Iterator<Item = Option<&'a [u8]>>) {
        fold(hashes, values.map(|value| value.map_or(0, hash_bytes)));
    }
    macro_rules! primitive {
        ($type:ty) => {
            primitive!($type, value => value as u64)
        };
        ($type:ty, $value:ident => $word:expr) => {
            fold(hashes, array.as_primitive::<$type>().values().iter().map(|&$value| $word))
        };
    }
    match array.data_type() {
        DataType::Float32 => primitive!(Float32Type, value => equal_bits(value.into())),
        DataType::Float64 => primitive!(Float64Type, value => equal_bits(value)),
        DataType::Int16 => primitive!(Int16Type),
        DataType::Int32 => primitive!(Int32Type),
        DataType::Int64 => primitive!(Int64Type),
        DataType::Date32 => primitive!(Date32Type),
        DataType::Time64(TimeUnit::Microsecond) => primitive!(Time64MicrosecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => primitive!(TimestampMicrosecondType),
        DataType::Decimal128(..) => primitive!(Decimal128Type),
        DataType::Utf8View => bytes(
            hashes,
            array.as_string_view().iter().map(|value| value.map(str::as_bytes)),
        ),
        DataType::BinaryView => bytes(hashes, array.as_binary_view().iter()),
        DataType::Binary => bytes(hashes, array.as_binary::<i32>().iter()),
        DataType::LargeBinary => bytes(
            hashes,
            array.as_binary::<i64>().iter().map(|value| value.map(compare_key)),
        ),
        DataType::FixedSizeBinary(_) => bytes(hashes, array.as_fixed_size_binary().iter()),
        DataType::Boolean => fold(
            hashes,
            array.as_boolean().iter().map(|value| value.map_or(2, u64::from)),
        ),
        _ if let Some(ranges) = range::Values::of(array) => bytes(hashes, ranges.iter()),
        DataType::Struct(_) => {
            let mut own = vec![0; hashes.len()];
            for column in array.as_struct().columns() {
                own.fill(0);
                hash_array(column, &mut own);
                fold(
                    hashes,
                    own.iter()
                        .enumerate()
                        .map(|(row, hash)| if column.is_null(row) { 0 } else { *hash }),
                );
            }
        }
        // Rare as keys: the text of a value stands for it.
        _ => {
            let options = arrow::util::display::FormatOptions::default();
            if let Ok(formatter) = arrow::util::display::ArrayFormatter::try_new(array, &options) {
                fold(
                    hashes,
                    (0..array.len()).map(|row| {
                        let text = formatter.value(row).try_to_string().unwrap_or_default();
                        hash_bytes(text.as_bytes())
                    }),
                );
            }
        }
    }
}

impl Sketch {
    #[inline(always)]
    pub fn add(&mut self, hash: u64) {
        match self {
            Sketch::Registers(registers) => {
                let (register, rank) = place_of(hash);
                if registers[register] < rank {
                    Arc::make_mut(registers)[register] = rank;
                }
            }
            Sketch::Exact(hashes) => {
                if hashes.find(hash, |held| *held == hash).is_none() {
                    hashes.insert_unique(hash, hash, |held| *held);
                    if hashes.len() > EXACT_MAX {
                        self.spill();
                    }
                }
            }
        }
    }

    /// Adds many: the loop that loads run.
    pub fn extend(&mut self, hashes: impl Iterator<Item = u64>) {
        let mut hashes = hashes;
        while let Sketch::Exact(_) = self {
            match hashes.next() {
                Some(hash) => self.add(hash),
                None => return,
            }
        }
        if let Sketch::Registers(registers) = self {
            let registers = Arc::make_mut(registers);
            hashes.for_each(|hash| add_to_registers(registers, hash));
        }
    }

    pub fn merge(&mut self, other: &Sketch) {
        match other {
            Sketch::Exact(hashes) => hashes.iter().for_each(|hash| self.add(*hash)),
            Sketch::Registers(theirs) => {
                if let Sketch::Exact(_) = self {
                    self.spill();
                }
                if let Sketch::Registers(registers) = self {
                    Arc::make_mut(registers)
                        .iter_mut()
                        .zip(theirs.iter())
                        .for_each(|(own, their)| *own = (*own).max(*their));
                }
            }
        }
    }

    /// The number of distinct hashes: exact up to 256, else estimated.
    pub fn distinct(&self) -> u64 {
        let registers = match self {
            Sketch::Exact(hashes) => return hashes.len() as u64,
            Sketch::Registers(registers) => registers,
        };
        let mut counts = [0_u32; 64];
        registers.iter().for_each(|rank| counts[usize::from(*rank)] += 1);
        let m = REGISTERS as f64;
        // Ertl's improved estimator: no switch between small and large ranges.
        let last = (64 - PRECISION) as usize;
        let mut z = m * tau(1.0 - f64::from(counts[last + 1]) / m);
        for rank in (1..=last).rev() {
            z = 0.5 * (z + f64::from(counts[rank]));
        }
        z += m * sigma(f64::from(counts[0]) / m);
        (m * m / (2.0 * std::f64::consts::LN_2) / z).round() as u64
    }

    /// A letter that says which, then the hashes in sixteen digits each, or the registers in one byte each.
    pub(super) fn to_text(&self) -> String {
        match self {
            Sketch::Exact(hashes) => {
                let digits = hashes.iter().map(|hash| format!("{hash:016x}"));
                std::iter::once("x".to_string()).chain(digits).collect()
            }
            Sketch::Registers(registers) => {
                let ranks = registers.iter().map(|rank| char::from(RANK_ZERO + rank));
                std::iter::once('r').chain(ranks).collect()
            }
        }
    }

    /// None: the text is not a sketch's.
    pub(super) fn of_text(text: &str) -> Option<Self> {
        if let Some(digits) = text.strip_prefix('x') {
            let (hashes, rest) = digits.as_bytes().as_chunks::<16>();
            let mut own = Sketch::default();
            for hash in hashes {
                own.add(u64::from_str_radix(std::str::from_utf8(hash).ok()?, 16).ok()?);
            }
            return rest.is_empty().then_some(own);
        }
        let ranks = text.strip_prefix('r').filter(|ranks| ranks.len() == REGISTERS)?;
        let mut registers = [0; REGISTERS];
        for (rank, byte) in registers.iter_mut().zip(ranks.bytes()) {
            *rank = byte.checked_sub(RANK_ZERO).filter(|rank| *rank <= RANK_MAX)?;
        }
        Some(Sketch::Registers(Arc::new(registers)))
    }

    fn spill(&mut self) {
        if let Sketch::Exact(hashes) = self {
            let mut registers = [0; REGISTERS];
            hashes.iter().for_each(|hash| add_to_registers(&mut registers, *hash));
            *self = Sketch::Registers(Arc::new(registers));
        }
    }
}

#[inline(always)]
fn add_to_registers(registers: &mut [u8; REGISTERS], hash: u64) {
    let (register, rank) = place_of(hash);
    registers[register] = registers[register].max(rank);
}

/// The register of a hash, and what that is at least.
#[inline(always)]
fn place_of(hash: u64) -> (usize, u8) {
    let rank = ((hash << PRECISION) | (1 << (PRECISION - 1))).leading_zeros() as u8 + 1;
    ((hash >> (64 - PRECISION)) as usize, rank)
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_within_five_percent() {
        for count in [0_u64, 1, 100, 256, 257, 1000, 5000, 20_000, 300_000, 1_000_000] {
            let mut whole = Sketch::default();
            whole.extend((0..count).map(hash_u64));
            let mut halves = Sketch::default();
            halves.extend((0..count / 2).map(hash_u64));
            let mut second = Sketch::default();
            second.extend((count / 3..count).map(hash_u64));
            halves.merge(&second);
            let error = (whole.distinct() as f64 - count as f64).abs() / (count as f64).max(1.0);
            assert!(error < 0.05, "{count}: {}", whole.distinct());
            assert_eq!(whole.distinct(), halves.distinct(), "merge of halves, {count}");
        }
    }

    #[test]
    fn strings_spread() {
        let mut sketch = Sketch::default();
        sketch.extend((0..100_000).map(|i| hash_bytes(format!("Customer#{i:09}").as_bytes())));
        let distinct = sketch.distinct() as f64;
        assert!((distinct - 100_000.0).abs() < 5_000.0, "{distinct}");
    }
}
