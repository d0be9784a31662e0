//! Tuning numbers, in one place for host and kernels: each is a Rust constant here and `tuning::NAME` in kernels.

macro_rules! tuning {
    ($($(#[$meta:meta])* $name:ident : u32 = $value:expr;)*) => {
        $($(#[$meta])* pub const $name: u32 = $value;)*

        /// The numbers as the header `tuning.cuh`, which `tenon.cuh` includes.
        pub fn header() -> String {
            let mut text = String::from("#pragma once\nnamespace tuning {\n");
            $(text.push_str(&format!("constexpr unsigned {} = {};\n", stringify!($name), $name));)*
            text.push_str("}\n");
            text
        }
    };
}

tuning! {
    /// Threads of a block in elementwise kernels.
    MAP_THREADS: u32 = 256;
    /// Items of one thread in elementwise kernels: enough loads in flight to fill the memory pipeline.
    MAP_ITEMS: u32 = 8;
}
