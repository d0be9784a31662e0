//! Keys that radix passes take.

use crate::memory::Element;

/// Ascending or descending. Equal keys keep their order in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    Ascending,
    Descending,
}

/// A key type whose order radix passes know.
///
/// Floats are in Postgres's order: every NaN is equal to every other and larger than infinity, and -0 equals 0. The
/// bits of equal keys are kept, so with payload `-0` and `0` stay in their input order.
pub trait SortKey: Element {
    /// Whether the bits are those of a float.
    const FLOAT: bool;
    /// Whether the top bit is a sign in two's complement.
    const SIGNED: bool;
    /// The unsigned (or float) type that kernels are compiled for: signed keys share the unsigned one's programs.
    const KERNEL_TYPE: &'static str;
    /// Bits of the key.
    const BITS: u32 = 8 * size_of::<Self>() as u32;

    /// The key as an unsigned number of the same order: what the passes compare.
    type Code: RadixCode;
    /// See [`SortKey::Code`].
    fn code(self) -> Self::Code;

    /// The order of two keys, as the radix passes see it.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        self.code().cmp(&other.code())
    }
}

/// An unsigned number that has digits.
pub trait RadixCode: Copy + Ord + Send + Sync + 'static {
    /// The bits from `shift` up, masked.
    fn digit(self, shift: u32, mask: usize) -> usize;
    /// Bits turned over.
    fn flip(self, bits: u128) -> Self;
    /// All bits.
    fn wide(self) -> u128;
}

macro_rules! codes {
    ($($type:ty)*) => {
        $(impl RadixCode for $type {
            #[inline(always)]
            fn digit(self, shift: u32, mask: usize) -> usize {
                (self >> shift) as usize & mask
            }
            #[inline(always)]
            fn flip(self, bits: u128) -> Self {
                self ^ bits as $type
            }
            fn wide(self) -> u128 {
                self as u128
            }
        })*
    };
}
codes! { u8 u16 u32 u64 u128 }

macro_rules! integers {
    ($($type:ty, $code:ty, $signed:literal, $kernel:literal;)*) => {
        $(impl SortKey for $type {
            const FLOAT: bool = false;
            const SIGNED: bool = $signed;
            const KERNEL_TYPE: &'static str = $kernel;
            type Code = $code;
            #[inline(always)]
            fn code(self) -> $code {
                // Of an unsigned type the least value is 0, of a signed one the sign bit.
                self as $code ^ <$type>::MIN as $code
            }
        })*
    };
}
integers! {
    u8, u8, false, "u8"; u16, u16, false, "u16"; u32, u32, false, "u32"; u64, u64, false, "u64";
    u128, u128, false, "u128"; i8, u8, true, "u8"; i16, u16, true, "u16"; i32, u32, true, "u32";
    i64, u64, true, "u64"; i128, u128, true, "u128";
}

macro_rules! floats {
    ($($type:ty, $code:ty, $kernel:literal;)*) => {
        $(impl SortKey for $type {
            const FLOAT: bool = true;
            const SIGNED: bool = false;
            const KERNEL_TYPE: &'static str = $kernel;
            type Code = $code;
            #[inline(always)]
            fn code(self) -> $code {
                let sign: $code = 1 << (<$code>::BITS - 1);
                if self.is_nan() {
                    return <$code>::MAX;
                }
                // Adding zero turns -0 into 0.
                let bits = (self + 0.0).to_bits();
                if bits & sign != 0 { !bits } else { bits | sign }
            }
        })*
    };
}
floats! { f32, u32, "f32"; f64, u64, "f64"; }

/// The bits that the passes turn over before they compare unsigned numbers: the sign bit of integers, and every bit
/// for descending order.
pub fn flip_bits<K: SortKey>(order: Order) -> u128 {
    let all = u128::MAX >> (128 - K::BITS);
    let sign = if K::SIGNED { 1u128 << (K::BITS - 1) } else { 0 };
    match order {
        Order::Ascending => sign,
        Order::Descending => sign ^ all,
    }
}
