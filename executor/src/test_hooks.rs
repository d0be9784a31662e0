//! Conditions that tests put the server under by its environment, to meet cases that ordinary data seldom makes. They
//! change how much work a query is, never its answer.

use std::sync::LazyLock;

static EQUAL_HASHES: LazyLock<bool> = LazyLock::new(|| std::env::var_os("TENON_TEST_EQUAL_HASHES").is_some());
static THROUGH_FILES: LazyLock<bool> = LazyLock::new(|| std::env::var_os("TENON_TEST_THROUGH_FILES").is_some());
static BATCH_ROWS: LazyLock<Option<usize>> =
    LazyLock::new(|| std::env::var("TENON_TEST_BATCH_ROWS").ok()?.parse().ok());

static SCATTERED: LazyLock<bool> = LazyLock::new(|| std::env::var_os("TENON_TEST_SCATTERED").is_some());

/// Whether each segment of a table is worth a partition of its scan, however few rows it has.
pub fn scattered() -> bool {
    *SCATTERED
}

/// Whether all rows shall have the same hash: every comparison after a hash then counts.
pub fn equal_hashes() -> bool {
    *EQUAL_HASHES
}

/// Whether plans shall have the operators that go through files from the first, and these little memory.
pub fn through_files() -> bool {
    *THROUGH_FILES
}

/// The rows of a batch, where they shall not be the usual number.
pub fn batch_rows() -> Option<usize> {
    BATCH_ROWS.filter(|rows| *rows > 0)
}
