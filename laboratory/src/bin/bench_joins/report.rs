//! The table of results, and the same as CSV.

use std::fs::File;
use std::io::Write;

use tenon_gpu::{GpuError, Result};
use tenon_laboratory::FLOOR_BYTES_PER_S;

/// Prints rows, and writes them to a file if wanted.
pub struct Report {
    csv: Option<File>,
}

impl Report {
    pub fn new(csv: Option<String>) -> Result<Report> {
        println!(
            "{:<44} {:>12} {:>10} {:>9} {:>9} {:>6}",
            "row", "tuples", "ms", "G tup/s", "floor ms", "ratio"
        );
        let open = |path: String| File::create(&path).map_err(|e| GpuError::Invalid(format!("{path}: {e}")));
        let mut report = Report {
            csv: csv.map(open).transpose()?,
        };
        report.line("row,tuples,ms,g_tuples_per_s,floor_ms,ratio")?;
        Ok(report)
    }

    fn line(&mut self, text: &str) -> Result<()> {
        match &mut self.csv {
            Some(file) => writeln!(file, "{text}").map_err(|e| GpuError::Invalid(format!("CSV: {e}"))),
            None => Ok(()),
        }
    }

    /// `tuples` of both inputs; `bytes` is the least that must move.
    pub fn row(&mut self, name: &str, tuples: u64, bytes: u64, ms: f64) -> Result<()> {
        let (rate, floor_ms) = (tuples as f64 / ms / 1e6, bytes as f64 / FLOOR_BYTES_PER_S * 1e3);
        let ratio = ms / floor_ms;
        println!("{name:<44} {tuples:>12} {ms:>10.4} {rate:>9.2} {floor_ms:>9.4} {ratio:>6.2}");
        self.line(&format!("{name},{tuples},{ms:.4},{rate:.3},{floor_ms:.4},{ratio:.3}"))
    }
}
