//! The benchmark runs small, so that its checks of answers are among the tests.

use std::process::Command;

#[test]
fn the_benchmark_runs_small_and_its_answers_are_right() {
    let kind = std::env::var("TENON_DEVICE").unwrap_or_else(|_| "sim".into());
    let output = Command::new(env!("CARGO_BIN_EXE_bench_primitives"))
        .arg("--small")
        .env("TENON_DEVICE", kind)
        .output()
        .unwrap();
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{text}\n{errors}");
    for row in ["copy.u32.16M", "map.u32.128M"] {
        assert!(text.contains(row), "{text}");
    }
}
