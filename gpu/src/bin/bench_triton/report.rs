//! The table of results, and the same as CSV.

use std::fs::File;
use std::io::Write;

use tenon_gpu::join::triton::TritonResult;
use tenon_gpu::{GpuError, Result};

/// What the bus reaches (PCIe 5 x16).
const BUS_BYTES_PER_S: f64 = 52.0e9;

/// Prints rows, and writes them to a file if wanted.
pub struct Report {
    csv: Option<File>,
}

impl Report {
    pub fn new(csv: Option<String>) -> Result<Report> {
        println!(
            "{:<40} {:>11} {:>9} {:>8} {:>9} {:>6}  {:>7} {:>6} {:>8} {:>8} {:>8} {:>7} {:>7}",
            "row",
            "tuples",
            "ms",
            "G tup/s",
            "bound ms",
            "ratio",
            "cached",
            "parts",
            "build",
            "probe",
            "pairs",
            "in GB",
            "out GB"
        );
        let open = |path: String| File::create(&path).map_err(|e| GpuError::Invalid(format!("{path}: {e}")));
        let mut report = Report {
            csv: csv.map(open).transpose()?,
        };
        report.line(
            "row,tuples,ms,g_tuples_per_s,bound_ms,ratio,cached_share,partitions,build_ms,probe_ms,pairs_ms,bytes_in,\
             bytes_out,spilled_bytes,memory_bytes",
        )?;
        Ok(report)
    }

    fn line(&mut self, text: &str) -> Result<()> {
        match &mut self.csv {
            Some(file) => writeln!(file, "{text}").map_err(|e| GpuError::Invalid(format!("CSV: {e}"))),
            None => Ok(()),
        }
    }

    /// `tuples` of both inputs, which have `bytes` bytes.
    pub fn join(&mut self, name: &str, tuples: u64, bytes: u64, ms: f64, result: &TritonResult) -> Result<()> {
        let rate = tuples as f64 / ms / 1e6;
        let bound_ms = bytes as f64 / BUS_BYTES_PER_S * 1e3;
        let cached = result.cached_share;
        let phases = &result.phases;
        println!(
            "{name:<40} {tuples:>11} {ms:>9.2} {rate:>8.3} {bound_ms:>9.2} {:>6.2}  {cached:>7.3} {:>6} {:>8.1} {:>8.1} \
             {:>8.1} {:>7.2} {:>7.2}",
            ms / bound_ms,
            result.partitions,
            phases.build_ms,
            phases.probe_ms,
            phases.pairs_ms,
            result.bytes_in as f64 / 1e9,
            result.bytes_out as f64 / 1e9
        );
        self.line(&format!(
            "{name},{tuples},{ms:.3},{rate:.4},{bound_ms:.3},{:.4},{cached:.4},{},{:.2},{:.2},{:.2},{},{},{},{}",
            ms / bound_ms,
            result.partitions,
            phases.build_ms,
            phases.probe_ms,
            phases.pairs_ms,
            result.bytes_in,
            result.bytes_out,
            result.spilled_bytes,
            result.memory_bytes
        ))
    }

    /// A step over `tuples` whose input has `bytes` bytes.
    pub fn step(&mut self, name: &str, tuples: u64, bytes: u64, ms: f64) -> Result<()> {
        let rate = tuples as f64 / ms / 1e6;
        let bound_ms = bytes as f64 / BUS_BYTES_PER_S * 1e3;
        let gib_per_s = bytes as f64 / ms * 1e3 / (1u64 << 30) as f64;
        println!(
            "{name:<40} {tuples:>11} {ms:>9.2} {rate:>8.3} {bound_ms:>9.2} {:>6.2}  {gib_per_s:>7.2} GiB/s of input",
            ms / bound_ms
        );
        self.line(&format!(
            "{name},{tuples},{ms:.3},{rate:.4},{bound_ms:.3},{:.4},,,,,,,,,",
            ms / bound_ms
        ))
    }

    /// A row that could not run.
    pub fn skipped(&mut self, name: &str, reason: &GpuError) -> Result<()> {
        println!("{name:<40} not run: {reason}");
        self.line(&format!("{name},,,,,,,,,,,,,,"))
    }
}
