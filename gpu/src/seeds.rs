//! Seeds of random tests.

/// A seed: `TENON_TEST_SEED`, or a fresh one. Printed, so that a failure can be run again.
pub fn seed(test: &str) -> u64 {
    let seed = std::env::var("TENON_TEST_SEED")
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(1, |d| d.as_nanos() as u64)
        });
    println!("{test}: TENON_TEST_SEED={seed}");
    seed
}
