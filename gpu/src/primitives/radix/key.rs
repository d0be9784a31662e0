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

    /// The order of two keys, as the radix passes see it: the plain reference.
    fn order(&self, other: &Self) -> std::cmp::Ordering;
}

macro_rules! integers {
    ($($type:ty, $signed:literal, $kernel:literal;)*) => {
        $(impl SortKey for $type {
            const FLOAT: bool = false;
            const SIGNED: bool = $signed;
            const KERNEL_TYPE: &'static str = $kernel;
            fn order(&self, other: &Self) -> std::cmp::Ordering {
                self.cmp(other)
            }
        })*
    };
}
integers! {
    u8, false, "u8"; u16, false, "u16"; u32, false, "u32"; u64, false, "u64"; u128, false, "u128";
    i8, true, "u8"; i16, true, "u16"; i32, true, "u32"; i64, true, "u64"; i128, true, "u128";
}

macro_rules! floats {
    ($($type:ty, $kernel:literal;)*) => {
        $(impl SortKey for $type {
            const FLOAT: bool = true;
            const SIGNED: bool = false;
            const KERNEL_TYPE: &'static str = $kernel;
            fn order(&self, other: &Self) -> std::cmp::Ordering {
                // Only a NaN is not comparable to itself.
                self.partial_cmp(other).unwrap_or_else(|| self.is_nan().cmp(&other.is_nan()))
            }
        })*
    };
}
floats! { f32, "f32"; f64, "f64"; }

/// The bits that the passes turn over before they compare unsigned numbers: the sign bit of integers, and every bit
/// for descending order.
pub(crate) fn flip_bits<K: SortKey>(order: Order) -> u128 {
    let all = u128::MAX >> (128 - K::BITS);
    let sign = if K::SIGNED { 1u128 << (K::BITS - 1) } else { 0 };
    match order {
        Order::Ascending => sign,
        Order::Descending => sign ^ all,
    }
}
