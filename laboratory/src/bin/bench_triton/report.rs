//! The table of results, the same as CSV, and the points of figures as CSV: `figure,series,x,y,unit`.

use std::fs::File;
use std::io::Write;

use tenon_gpu::join::triton::TritonResult;
use tenon_gpu::{GpuError, Result};

/// What the bus reaches (PCIe 5 x16).
const BUS_BYTES_PER_S: f64 = 52.0e9;

/// Prints rows, and writes them and the points of figures to files if wanted.
pub struct Report {
    csv: Option<File>,
    figures: Option<File>,
}

/// Where a row stands in the figures of the paper (Lutz 2022, section 6).
pub struct Point {
    pub figure: &'static str,
    pub series: String,
    pub x: String,
}

/// A point of a figure.
pub fn point(figure: &'static str, series: impl Into<String>, x: impl ToString) -> Point {
    Point {
        figure,
        series: series.into(),
        x: x.to_string(),
    }
}

fn open(path: Option<String>) -> Result<Option<File>> {
    let open = |path: String| File::create(&path).map_err(|e| GpuError::Invalid(format!("{path}: {e}")));
    path.map(open).transpose()
}

fn write(file: &mut Option<File>, text: &str) -> Result<()> {
    match file {
        Some(file) => writeln!(file, "{text}").map_err(|e| GpuError::Invalid(format!("CSV: {e}"))),
        None => Ok(()),
    }
}

impl Report {
    pub fn new(csv: Option<String>, figures: Option<String>) -> Result<Report> {
        println!(
            "{:<40} {:>11} {:>9} {:>9} {:>8} {:>6}  {:>7} {:>6} {:>8} {:>8} {:>8} {:>7} {:>7}",
            "row",
            "tuples",
            "ms",
            "shortest",
            "G tup/s",
            "ratio",
            "cached",
            "parts",
            "build",
            "probe",
            "pairs",
            "in GB",
            "out GB"
        );
        let mut report = Report {
            csv: open(csv)?,
            figures: open(figures)?,
        };
        report.line(
            "row,tuples,ms,ms_min,g_tuples_per_s,bound_ms,ratio,cached_share,partitions,build_ms,probe_ms,pairs_ms,\
             bytes_in,bytes_out,spilled_bytes,memory_bytes,runs_ms",
        )?;
        write(&mut report.figures, "figure,series,x,y,unit")?;
        Ok(report)
    }

    fn line(&mut self, text: &str) -> Result<()> {
        write(&mut self.csv, text)
    }

    fn figure(&mut self, point: &Point, y: f64, unit: &str) -> Result<()> {
        let Point { figure, series, x } = point;
        write(&mut self.figures, &format!("{figure},{series},{x},{y:.4},{unit}"))
    }

    /// `tuples` of both inputs, which have `bytes` bytes; the milliseconds of the runs, ascending, and what the median run
    /// did.
    pub fn join(
        &mut self,
        name: &str,
        points: &[Point],
        (tuples, bytes): (u64, u64),
        times: &[f64],
        result: &TritonResult,
    ) -> Result<()> {
        let (ms, ms_min) = (times[times.len() / 2], times[0]);
        let rate = tuples as f64 / ms / 1e6;
        let bound_ms = bytes as f64 / BUS_BYTES_PER_S * 1e3;
        let runs: Vec<String> = times.iter().map(|ms| format!("{ms:.1}")).collect();
        let cached = result.cached_share;
        let phases = &result.phases;
        println!(
            "{name:<40} {tuples:>11} {ms:>9.2} {ms_min:>9.2} {rate:>8.3} {:>6.2}  {cached:>7.3} {:>6} {:>8.1} {:>8.1} \
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
            "{name},{tuples},{ms:.3},{ms_min:.3},{rate:.4},{bound_ms:.3},{:.4},{cached:.4},{},{:.2},{:.2},{:.2},{},{},{},{},{}",
            ms / bound_ms,
            result.partitions,
            phases.build_ms,
            phases.probe_ms,
            phases.pairs_ms,
            result.bytes_in,
            result.bytes_out,
            result.spilled_bytes,
            result.memory_bytes,
            runs.join(" ")
        ))?;
        for point in points {
            self.figure(point, rate, "G tuples/s")?;
        }
        // Time by phase, of the rows that a figure of budgets shows (figure 15).
        let timed = points.iter().find(|point| point.figure == "1");
        for (phase, ms) in [
            ("build", phases.build_ms),
            ("probe", phases.probe_ms),
            ("pairs", phases.pairs_ms),
        ] {
            if let Some(Point { series, x, .. }) = timed {
                self.figure(&point("15", phase, format!("{series} at {x}")), ms as f64, "ms")?;
            }
        }
        Ok(())
    }

    /// Another strategy's join: the shortest of its runs.
    pub fn other(&mut self, name: &str, points: &[Point], (tuples, bytes): (u64, u64), ms: f64) -> Result<()> {
        self.step(name, &[], (tuples, bytes), ms)?;
        let rate = tuples as f64 / ms / 1e6;
        points
            .iter()
            .try_for_each(|point| self.figure(point, rate, "G tuples/s"))
    }

    /// A step over `tuples` whose input has `bytes` bytes.
    pub fn step(&mut self, name: &str, points: &[Point], (tuples, bytes): (u64, u64), ms: f64) -> Result<()> {
        let rate = tuples as f64 / ms / 1e6;
        let ratio = ms / (bytes as f64 / BUS_BYTES_PER_S * 1e3);
        let gib_per_s = bytes as f64 / ms * 1e3 / (1u64 << 30) as f64;
        println!(
            "{name:<40} {tuples:>11} {ms:>9.2} {ms:>9.2} {rate:>8.3} {ratio:>6.2}  {gib_per_s:>7.2} GiB/s of input"
        );
        self.line(&format!(
            "{name},{tuples},{ms:.3},{ms:.3},{rate:.4},{:.3},{ratio:.4},,,,,,,,,,",
            ms / ratio
        ))?;
        points
            .iter()
            .try_for_each(|point| self.figure(point, gib_per_s, "GiB/s"))
    }

    /// A row that could not run.
    pub fn skipped(&mut self, name: &str, reason: &dyn std::fmt::Display) -> Result<()> {
        println!("{name:<40} not run: {reason}");
        self.line(&format!("{name},,,,,,,,,,,,,,,,"))
    }
}
