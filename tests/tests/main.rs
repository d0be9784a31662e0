//! Every test that needs a running server: one binary, each test a named trial (`cargo test --workspace --test server -- NAME`).
//!
//! With `TENON_SLT_POSTGRES=postgresql://...` the .slt files run against that PostgreSQL instead, and with
//! `TENON_SLT_UPDATE=1` their expected results are rewritten from what it answers (see `scripts/slt-oracle.sh`).

mod copy;
mod demo;
mod drivers;
mod limits;
mod pgtext;
mod process;
mod raw;
mod slt;
mod tpch;
mod types;
mod wire;

use libtest_mimic::{Arguments, Failed, Trial};
use std::future::Future;
use std::time::Duration;

fn main() {
    let args = Arguments::from_args();
    if let Ok(url) = std::env::var("TENON_SLT_POSTGRES") {
        libtest_mimic::run(&args, slt::postgres_trials(&url)).exit();
    }
    let mut trials = Vec::new();
    trials.extend(tpch::trials());
    trials.extend(slt::trials());
    trials.extend(copy::trials());
    trials.extend(types::trials());
    trials.extend(wire::trials());
    trials.extend(limits::trials());
    trials.extend(demo::trials());
    trials.extend(drivers::trials());
    libtest_mimic::run(&args, trials).exit();
}

/// Far more than any trial takes on two loaded cores.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(300);

/// A trial whose body is asynchronous and fails by an error or a panic.
fn trial<F>(name: &str, body: impl FnOnce() -> F + Send + 'static) -> Trial
where
    F: Future<Output = anyhow::Result<()>>,
{
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime
            .block_on(body())
            .map_err(|error| Failed::from(format!("{error:#}")))
    })
}
