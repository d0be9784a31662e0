//! The headers of `kernels/`, embedded in the binary. Sources (`.cu`) are embedded where they are used (`source!`).

macro_rules! headers {
    ($($name:literal),* $(,)?) => {
        /// Name as included, and text.
        pub const HEADERS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/", $name)))),*];
    };
}

headers![
    "tenon.cuh",
    "sim.cuh",
    "cuda.cuh",
    "warp.cuh",
    "block.cuh",
    "tile.cuh",
    "lookback.cuh",
    "ops.cuh",
    "radix_key.cuh",
    "literals.cuh",
    "residual_params.cuh",
    "text.cuh",
    "condition.cuh",
    "pipeline.cuh",
    "join_hash.cuh",
    "merge_path.cuh",
    "join_spans.cuh",
    "join_hash_table.cuh",
    "triton_hash.cuh",
    "triton.cuh",
];
