//! Latency over time as SVG: a panel a kind, with its median, p99 and maximum of every second on a logarithmic axis.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tenon_tests::histogram::Histogram;

use super::mix::Kind;
use super::report::{Report, milliseconds};

const WIDTH: f64 = 720.0;
const PANEL: f64 = 150.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 30.0;
const GAP: f64 = 34.0;

type Line = (&'static str, &'static str, fn(&Histogram) -> Duration);

const LINES: [Line; 3] = [
    ("p50", "#1f77b4", |latency| latency.quantile(0.5)),
    ("p99", "#ff7f0e", |latency| latency.quantile(0.99)),
    ("max", "#d62728", Histogram::max),
];

pub fn write(report: &Report, path: &Path) -> Result<()> {
    std::fs::write(path, svg(report)).with_context(|| path.display().to_string())
}

pub fn svg(report: &Report) -> String {
    let height = TOP + report.kinds.len() as f64 * (PANEL + GAP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (at, (name, color, _)) in LINES.iter().enumerate() {
        let x = LEFT + 60.0 * at as f64;
        // A String takes all that is written, here and below.
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"16\" fill=\"{color}\">{name}</text>");
    }
    for (at, kind) in report.kinds.keys().enumerate() {
        panel(&mut svg, report, *kind, TOP + at as f64 * (PANEL + GAP));
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, report: &Report, kind: Kind, top: f64) {
    let of_kind = |(second, kinds): (usize, &std::collections::BTreeMap<Kind, Histogram>)| {
        LINES.map(|(_, _, of)| {
            kinds
                .get(&kind)
                .map(|latency| (second, milliseconds(of(latency)).max(1e-3)))
        })
    };
    let points: Vec<_> = report.seconds.iter().enumerate().map(of_kind).collect();
    let values = points.iter().flatten().flatten().map(|(_, value)| value.log10());
    let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    let (low, high) = (low.floor(), high.ceil().max(low.floor() + 1.0));
    let last = (report.seconds.len() as f64 - 1.0).max(1.0);
    let x = |second: f64| LEFT + second / last * (WIDTH - LEFT - RIGHT);
    let y = |log: f64| top + PANEL - (log - low) / (high - low) * PANEL;
    // A String takes all that is written.
    for power in low as i32..=high as i32 {
        let (at, label) = (y(f64::from(power)), 10_f64.powi(power));
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label} ms</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0
        );
    }
    for part in 0..=4 {
        let second = last * f64::from(part) / 4.0;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{second:.0} s</text>",
            x(second),
            top + PANEL + 14.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{:.1}\" font-weight=\"bold\">{}</text>",
        LEFT + 6.0,
        top + 12.0,
        kind.name()
    );
    for (at, (_, color, _)) in LINES.iter().enumerate() {
        // Seconds without an answer of the kind are gaps.
        let parts = points.split(|point| point[at].is_none());
        for part in parts.filter(|part| !part.is_empty()) {
            let place = |point: &[Option<(usize, f64)>; 3]| {
                let (second, value) = point[at].unwrap_or_default();
                format!("{:.1},{:.1}", x(second as f64), y(value.log10()))
            };
            let places: Vec<String> = part.iter().map(place).collect();
            let _ = match places.as_slice() {
                [one] => {
                    let (x, y) = one.split_once(',').unwrap_or_default();
                    writeln!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"1.5\" fill=\"{color}\"/>")
                }
                _ => writeln!(
                    svg,
                    "<polyline fill=\"none\" stroke=\"{color}\" points=\"{}\"/>",
                    places.join(" ")
                ),
            };
        }
    }
}
