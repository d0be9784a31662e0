//! The benchmarks run small, so that their checks of answers are among the tests.

use std::process::Command;

fn run(binary: &str, arguments: &[&str], rows: &[&str]) {
    let kind = std::env::var("TENON_DEVICE").unwrap_or_else(|_| "sim".into());
    let output = Command::new(binary)
        .arg("--small")
        .args(arguments)
        .env("TENON_DEVICE", kind)
        .output()
        .unwrap();
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{text}\n{errors}");
    for row in rows {
        assert!(text.contains(row), "{row}: {text}");
    }
}

#[test]
fn primitives_run_small_and_their_answers_are_right() {
    run(
        env!("CARGO_BIN_EXE_bench_primitives"),
        &[],
        &["copy.u32.16M", "map.u32.128M"],
    );
}

#[test]
fn joins_run_small_and_their_answers_are_right() {
    run(
        env!("CARGO_BIN_EXE_bench_joins"),
        &["--rows", "4096"],
        &[
            "hash.pairs.u32.16Mx16M",
            "hash.pairs.u64.16Mx16M.copied",
            "he.ninlj",
            "he.hj_table.16Mx16M.copied",
            "ordered.16Mx16M.smj.from_host",
            "sweep.selectivity.hash.1%",
            "sweep.duplicates.inlj.32",
            "sweep.ratio.smj.32",
            "sweep.skew.hj_table.zipf1.25",
            "sweep.skew_both.sum.onekey",
            "sweep.skew_both.build_semi.onekey",
            "sweep.payload_dup8.chosen.16",
            "ordered.band.16Mx16M",
            "cpu.hash.sum.u64.128Mx128M",
        ],
    );
}

#[test]
fn joins_of_random_inputs_are_right() {
    let seed = tenon_gpu::testing::seed("bench_joins --fuzz").to_string();
    let arguments = ["--fuzz", "5", "--rows", "3000", "--seed", &seed];
    run(env!("CARGO_BIN_EXE_bench_joins"), &arguments, &["all right"]);
}

#[test]
fn triton_joins_run_small_and_their_answers_are_right() {
    let filters = [
        "128M",
        "16M",
        "triton.width",
        "cpu_",
        "prefix_sum.gpu",
        "device.device.32",
        "host.host.8",
    ];
    run(
        env!("CARGO_BIN_EXE_bench_triton"),
        &[&["--rows-max", "128"], &filters[..]].concat(),
        &[
            "triton.budget.128M.perfect.1/8 ",
            "triton.near.128M.linear.95%",
            "triton.pairs.128M.1/4",
            "baseline.cpu_radix.128M",
            "partition.hierarchical.device.device.32",
        ],
    );
}
