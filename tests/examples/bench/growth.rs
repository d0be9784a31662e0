//! `bench growth`: the TPC-H queries at growing scale factors, and how each one's time grows beside the rows that it reads.
//! What grows faster than its input has a list or a loop somewhere that one size does not show.

use anyhow::{Result, bail};

use crate::served::Served;
use crate::{Options, tpch};

/// Growth of the clock beside that of the input from which on a query is named.
const STEEP: f64 = 1.1;

pub fn run(options: &Options) -> Result<()> {
    let factors = &options.factors;
    if !factors.is_sorted() || factors.first().is_none_or(|first| *first <= 0.0) {
        bail!("scale factors go from small to large");
    }
    let mut measured = vec![];
    for &factor in factors {
        let options = Options {
            factor,
            ..options.clone()
        };
        let served = Served::new(&options, &[])?;
        let mut of_factor = vec![];
        served.run_with_raw(async |client, raw| {
            tpch::set(&options, client, raw).await?;
            for &number in &options.queries {
                let sql = options.sql(number)?;
                let query = tpch::measure(client, raw, &sql, options.runs).await?;
                of_factor.push((query.ms, query.cpu_ms));
            }
            Ok(())
        })?;
        measured.push(of_factor);
    }
    println!("ms, CPU ms, and time per row of input beside the smallest factor's, of the clock and of the CPU");
    let titles = factors.iter().map(|factor| format!("{:>31}", format!("sf {factor}")));
    println!("query {}", titles.collect::<String>());
    for (at, number) in options.queries.iter().enumerate() {
        let (first_ms, first_cpu) = measured[0][at];
        let mut steep = false;
        let mut line = format!("q{number:<5}");
        for (of_factor, factor) in measured.iter().zip(factors) {
            let ((ms, cpu), more) = (of_factor[at], factor / factors[0]);
            steep |= ms / first_ms > STEEP * more;
            line += &format!(
                "{ms:9.1}{cpu:10.1}{:6.2}{:6.2}",
                ms / first_ms / more,
                cpu / first_cpu / more
            );
        }
        println!("{line}{}", if steep { "  steep" } else { "" });
    }
    Ok(())
}
