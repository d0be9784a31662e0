//! The 22 TPC-H queries and their answers as another engine found them (see `scripts/tpch-answers.py`).

use anyhow::{Context, Result, bail, ensure};
use std::path::PathBuf;

/// A scale factor with committed answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Scale factor 0.1: 600 thousand line items.
    Tenth,
    /// Scale factor 1: 6 million line items.
    One,
}

impl Scale {
    pub fn name(self) -> &'static str {
        match self {
            Scale::Tenth => "0.1",
            Scale::One => "1",
        }
    }
}

fn directory() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tpch"))
}

/// The text of query `number` (1 to 22). Query 11's fraction is divided by the scale factor, as its specification says.
pub fn query(number: usize, scale: Scale) -> Result<String> {
    let path = directory().join(format!("q{number:02}.sql"));
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(match (number, scale) {
        (11, Scale::Tenth) => text.replace("0.0001", "0.001"),
        _ => text,
    })
}

/// Compares the rows of query `number`, as the wire's text format gives them, with the committed answer.
///
/// Exact, but for the columns marked approximate (averages and quotients: six decimals at least, within one of the
/// last one shown), and in order, but for query 11, whose order leaves ties open.
pub fn check(number: usize, scale: Scale, rows: &[Vec<Option<String>>]) -> Result<()> {
    let path = directory()
        .join("answers")
        .join(format!("sf{}", scale.name()))
        .join(format!("q{number:02}.txt"));
    let answer = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut lines = answer.lines();
    let header: Vec<&str> = lines.next().context("empty answer file")?.split('|').collect();
    let expected: Vec<&str> = lines.collect();
    let mut found: Vec<Vec<String>> = Vec::with_capacity(rows.len());
    for row in rows {
        ensure!(
            row.len() == header.len(),
            "{} columns, expected {}",
            row.len(),
            header.len()
        );
        found.push(row.iter().map(|value| canonical(value.as_deref())).collect());
    }
    if let Some(count) = expected.first().and_then(|line| line.strip_prefix("#rows ")) {
        let sum = expected
            .get(1)
            .and_then(|line| line.strip_prefix("#sum "))
            .context("no #sum line")?;
        ensure!(found.len() == count.parse()?, "{} rows, expected {count}", found.len());
        let own = found
            .iter()
            .fold(0u64, |sum, row| sum.wrapping_add(fnv(&row.join("|"))));
        ensure!(own == sum.parse()?, "the rows' checksum is {own}, expected {sum}");
        return Ok(());
    }
    ensure!(
        found.len() == expected.len(),
        "{} rows, expected {}",
        found.len(),
        expected.len()
    );
    let mut expected: Vec<Vec<String>> = expected
        .iter()
        .map(|line| line.split('|').map(|v| canonical(Some(v))).collect())
        .collect();
    if number == 11 {
        found.sort();
        expected.sort();
    }
    for (i, (row, wanted)) in found.iter().zip(&expected).enumerate() {
        for ((name, a), b) in header.iter().zip(row).zip(wanted) {
            let same = if name.starts_with('~') { close(a, b)? } else { a == b };
            if !same {
                bail!("row {} column {name}: {a}, expected {b}", i + 1);
            }
        }
    }
    Ok(())
}

/// A number without its trailing zeros, everything else as it is.
fn canonical(value: Option<&str>) -> String {
    let Some(value) = value else { return "NULL".into() };
    let value = value.trim_end_matches(' ');
    let digits = value.strip_prefix('-').unwrap_or(value);
    let number = digits.contains('.') && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if number {
        value.trim_end_matches('0').trim_end_matches('.').into()
    } else {
        value.into()
    }
}

fn close(a: &str, b: &str) -> Result<bool> {
    // Trailing zeros are gone from both: below six decimals the value must be exact to six.
    let decimals = a.split_once('.').map_or(0, |(_, part)| part.len()).max(6);
    let (a, b): (f64, f64) = (a.parse()?, b.parse()?);
    Ok((a - b).abs() <= 1e-9 * b.abs() + 1.000001 * 10f64.powi(-(decimals as i32)))
}

/// FNV-1a, 64 bits.
fn fnv(line: &str) -> u64 {
    line.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    })
}
