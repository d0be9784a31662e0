//! Numbers that can be reduced and scanned, the same on device and host.

use crate::memory::Element;

/// A commutative reduction. Integer sums wrap. Floats order NaN as the greatest value, as SQL does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    Sum,
    Min,
    Max,
}

impl Reduction {
    pub const ALL: [Reduction; 3] = [Reduction::Sum, Reduction::Min, Reduction::Max];

    /// Its functor in kernel sources.
    pub(crate) fn functor(self) -> &'static str {
        match self {
            Reduction::Sum => "Sum",
            Reduction::Min => "Least",
            Reduction::Max => "Greatest",
        }
    }
}

/// A number type of kernels.
pub trait Number: Element + PartialEq + PartialOrd + std::fmt::Debug {
    const ZERO: Self;
    /// The least value in the order of [`Reduction::Max`].
    const LEAST: Self;
    /// The greatest value in the order of [`Reduction::Min`]: NaN for floats.
    const GREATEST: Self;

    /// The sum; of integers, wrapping.
    fn plus(self, other: Self) -> Self;

    /// What the reduction of nothing gives.
    fn identity(reduction: Reduction) -> Self {
        match reduction {
            Reduction::Sum => Self::ZERO,
            Reduction::Min => Self::GREATEST,
            Reduction::Max => Self::LEAST,
        }
    }

    /// The reduction of two values.
    #[expect(clippy::eq_op, reason = "a NaN differs from itself")]
    fn combine(self, other: Self, reduction: Reduction) -> Self {
        let (a, b) = (self, other);
        match reduction {
            Reduction::Sum => a.plus(b),
            Reduction::Min if b < a || a != a => b,
            Reduction::Max if a < b || b != b => b,
            _ => a,
        }
    }
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Number for $type {
            const ZERO: Self = 0;
            const LEAST: Self = <$type>::MIN;
            const GREATEST: Self = <$type>::MAX;
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        }
    )*};
}
macro_rules! floats {
    ($($type:ty),*) => {$(
        impl Number for $type {
            const ZERO: Self = 0.0;
            const LEAST: Self = <$type>::NEG_INFINITY;
            const GREATEST: Self = <$type>::NAN;
            fn plus(self, other: Self) -> Self {
                self + other
            }
        }
    )*};
}
integers!(i32, u32, i64, u64, i128, u128);
floats!(f32, f64);

/// A number that widens to the accumulator `A` without loss.
pub trait Widen<A: Number>: Number {
    fn widen(self) -> A;
}

macro_rules! widen {
    ($($from:ty => $($to:ty),*;)*) => {$($(
        impl Widen<$to> for $from {
            fn widen(self) -> $to {
                self as $to
            }
        }
    )*)*};
}
widen! {
    i32 => i32, i64, i128; u32 => u32, u64; i64 => i64, i128; u64 => u64, u128; i128 => i128; u128 => u128;
    f32 => f32, f64; f64 => f64;
}

/// Pairs of number and accumulator types by their names in kernels, for the compile test.
pub(crate) const WIDENINGS: &[(&str, &str)] = &[
    ("i32", "i32"),
    ("i32", "i64"),
    ("i32", "i128"),
    ("u32", "u32"),
    ("u32", "u64"),
    ("i64", "i64"),
    ("i64", "i128"),
    ("u64", "u64"),
    ("u64", "u128"),
    ("i128", "i128"),
    ("u128", "u128"),
    ("f32", "f32"),
    ("f32", "f64"),
    ("f64", "f64"),
];

/// The bytes of an element of at most 16 bytes as two words, low bytes first.
pub(crate) fn words_of<T: Element>(value: T) -> [u64; 2] {
    assert!(size_of::<T>() <= 16, "a value of at most 16 bytes");
    let mut words = [0u64; 2];
    // SAFETY: at most 16 bytes of plain data, copied into 16.
    unsafe {
        std::ptr::copy_nonoverlapping(
            (&raw const value).cast::<u8>(),
            words.as_mut_ptr().cast(),
            size_of::<T>(),
        )
    };
    words
}
