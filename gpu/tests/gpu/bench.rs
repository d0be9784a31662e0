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
        &[],
        &[
            "hash.pairs.u32.16Mx16M",
            "he.ninlj",
            "ordered.band.16Mx16M",
            "cpu.hash.sum.u64.128Mx128M",
        ],
    );
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
            "baseline.cpu_partitioned.128M",
            "baseline.host_table.16M.linear",
            "partition.hierarchical.device.device.32",
        ],
    );
}
