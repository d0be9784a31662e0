//! Launch shapes and kernel parameters.

use crate::error::{GpuError, Result};

/// Grid, block and dynamic shared memory of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    pub grid: (u32, u32, u32),
    pub block: (u32, u32, u32),
    /// Dynamic shared memory of each block.
    pub shared_bytes: u32,
    /// All blocks must be resident at once (grid-wide barriers): a cooperative launch.
    pub cooperative: bool,
}

impl LaunchConfig {
    /// `blocks` blocks of `threads` threads, in one dimension.
    pub fn new(blocks: u32, threads: u32) -> LaunchConfig {
        LaunchConfig {
            grid: (blocks, 1, 1),
            block: (threads, 1, 1),
            shared_bytes: 0,
            cooperative: false,
        }
    }

    /// Enough blocks of `threads` threads for `items` items, `items_per_block` each. Zero items give zero blocks,
    /// and a launch of zero blocks does nothing.
    pub fn cover(items: u64, items_per_block: u64, threads: u32) -> Result<LaunchConfig> {
        let blocks = items.div_ceil(items_per_block);
        match u32::try_from(blocks) {
            Ok(blocks) if blocks <= i32::MAX as u32 => Ok(LaunchConfig::new(blocks, threads)),
            _ => Err(GpuError::Invalid(format!(
                "{items} items need {blocks} blocks, above the grid's limit"
            ))),
        }
    }

    /// The same with dynamic shared memory.
    pub fn shared(self, bytes: u32) -> LaunchConfig {
        LaunchConfig {
            shared_bytes: bytes,
            ..self
        }
    }

    /// The same as a cooperative launch.
    pub fn cooperative(self) -> LaunchConfig {
        LaunchConfig {
            cooperative: true,
            ..self
        }
    }

    /// Threads of one block.
    pub fn threads(&self) -> u32 {
        self.block.0 * self.block.1 * self.block.2
    }

    /// Blocks of the grid.
    pub fn blocks(&self) -> u64 {
        self.grid.0 as u64 * self.grid.1 as u64 * self.grid.2 as u64
    }
}

/// A kernel's parameter struct: `#[repr(C)]`, without padding bytes that matter, the same in the kernel source.
///
/// Made by [`kernel_params!`](crate::kernel_params), which derives the C assertions of size and offsets.
///
/// # Safety
/// The type is `#[repr(C)]` and `layout` describes it truly.
pub unsafe trait KernelParams: Copy + 'static {
    /// The struct's name in the kernel source.
    const NAME: &'static str;
    /// `static_assert`s, appended to the kernel source, that its struct has this size and these offsets.
    fn layout() -> String;
}

/// Declares a kernel's parameter struct. The kernel source declares the same struct by hand; the layouts are compared
/// when the source is compiled.
///
/// ```
/// use tenon_gpu::{kernel_params, memory::{DevicePtr, DevicePtrMut}};
/// kernel_params! {
///     /// Adds `amount` to `items` numbers.
///     pub struct AddParams { input: DevicePtr<u32>, output: DevicePtrMut<u32>, items: u64, amount: u32 }
/// }
/// ```
#[macro_export]
macro_rules! kernel_params {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($(#[$field_meta:meta])* $field:ident : $type:ty),* $(,)? }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        $vis struct $name { $($(#[$field_meta])* pub $field: $type),* }

        // SAFETY: the struct is `repr(C)`, and the assertions are computed from it.
        unsafe impl $crate::KernelParams for $name {
            const NAME: &'static str = stringify!($name);
            fn layout() -> String {
                let mut text = format!(
                    "static_assert(sizeof({0}) == {1}, \"size of {0} differs from the host's\");\n",
                    stringify!($name), size_of::<$name>(),
                );
                $(text.push_str(&format!(
                    "static_assert(TENON_OFFSETOF({0}, {1}) == {2}, \"{0}::{1} lies elsewhere than on the host\");\n",
                    stringify!($name), stringify!($field), std::mem::offset_of!($name, $field),
                ));)*
                text
            }
        }
    };
}
