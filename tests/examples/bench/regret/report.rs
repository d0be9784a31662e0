//! The regrets as a table and as CSV, and their distribution.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Result, ensure};

use super::{Case, Measured};

pub const HEAD: &str =
    "case                                              auto ms   best ms  regret  best            auto chose";

#[derive(Default)]
pub struct Report {
    pub cases: Vec<Measured>,
}

/// Time of the choice, of the fastest, and who that was.
fn regret(measured: &Measured) -> (f64, f64, String) {
    let own = measured.times[0].ms.unwrap_or(f64::NAN);
    let times = measured.times.iter().filter_map(|timed| Some((timed, timed.ms?)));
    let best = times.min_by(|a, b| a.1.total_cmp(&b.1));
    match best {
        Some((timed, ms)) => (own, ms, format!("{} {}", timed.operator, timed.device)),
        None => (own, own, "auto".into()),
    }
}

fn name(case: &Case) -> String {
    let (predicate, keys) = (format!("{:?}", case.predicate), format!("{:?}", case.keys));
    let mut text = format!("{predicate} {keys} {}x{}", case.build_rows, case.probe_rows).to_lowercase();
    if case.one_in > 1 {
        let _ = write!(text, " 1in{}", case.one_in);
    }
    text + if case.index { " index" } else { "" }
}

pub fn line(measured: &Measured) -> String {
    let (own, best, by) = regret(measured);
    let (name, regret) = (name(&measured.case), own / best);
    format!(
        "{name:<48} {own:8.2}  {best:8.2}  {regret:6.2}  {by:<14}  {}",
        measured.reason
    )
}

impl Report {
    /// Every case's regret, ascending.
    pub fn regrets(&self) -> Vec<f64> {
        let mut regrets: Vec<f64> = self.cases.iter().map(regret).map(|(own, best, _)| own / best).collect();
        regrets.sort_by(f64::total_cmp);
        regrets
    }

    pub fn summary(&self) -> String {
        let regrets = self.regrets();
        if regrets.is_empty() {
            return "no case ran".into();
        }
        let at = |share: f64| regrets[((regrets.len() - 1) as f64 * share).ceil() as usize];
        format!(
            "{} cases: median {:.2}, 95th percentile {:.2}, worst {:.2}",
            regrets.len(),
            at(0.5),
            at(0.95),
            at(1.0)
        )
    }

    /// A line for each case and operator.
    pub fn write_csv(&self, path: &Path) -> Result<()> {
        ensure!(!self.cases.is_empty(), "no case ran");
        let mut text = String::from("case,operator,device,ms,regret,reason\n");
        for measured in &self.cases {
            let (own, best, _) = regret(measured);
            for timed in &measured.times {
                let ms = timed.ms.map_or("cut off".into(), |ms| format!("{ms:.3}"));
                let (case, reason) = (name(&measured.case), measured.reason.replace('"', "'"));
                let _ = writeln!(
                    text,
                    "{case},{},{},{ms},{:.3},\"{reason}\"",
                    timed.operator,
                    timed.device,
                    own / best
                );
            }
        }
        Ok(std::fs::write(path, text)?)
    }
}
