//! What a device buffer may hold, and the pointers that kernels get.

use std::marker::PhantomData;

/// Plain data that means the same on the device: any bytes are a valid value.
///
/// # Safety
/// The type is `Copy`, has no padding and no invalid bit patterns, and its alignment is at most 16.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// Its name in kernel sources, for `-D T=...`.
    const C_NAME: &'static str;
}

macro_rules! elements {
    ($($type:ty => $name:literal),* $(,)?) => {
        $(
            // SAFETY: a primitive number.
            unsafe impl Element for $type {
                const C_NAME: &'static str = $name;
            }
        )*
    };
}

elements! {
    u8 => "u8", u16 => "u16", u32 => "u32", u64 => "u64", u128 => "u128",
    i8 => "i8", i16 => "i16", i32 => "i32", i64 => "i64", i128 => "i128",
    f32 => "f32", f64 => "f64",
}

// SAFETY: an array of elements is as plain as its element. Kernels take wide records as bytes or words.
unsafe impl<T: Element, const N: usize> Element for [T; N] {
    const C_NAME: &'static str = "record";
}

/// `const T*` in a kernel's parameter struct.
#[repr(transparent)]
pub struct DevicePtr<T>(pub u64, PhantomData<T>);

/// `T*` in a kernel's parameter struct.
#[repr(transparent)]
pub struct DevicePtrMut<T>(pub u64, PhantomData<T>);

macro_rules! pointer {
    ($name:ident) => {
        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T> Copy for $name<T> {}
        impl<T> $name<T> {
            /// The pointer to this device address.
            pub fn new(address: u64) -> Self {
                $name(address, PhantomData)
            }

            /// A null pointer, for optional inputs and outputs.
            pub fn null() -> Self {
                $name(0, PhantomData)
            }
        }
        impl<T> std::fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    };
}
pointer!(DevicePtr);
pointer!(DevicePtrMut);
