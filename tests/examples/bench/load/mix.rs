//! Which kinds of requests there are, and how often each is drawn.

use anyhow::{Context, Result, bail, ensure};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A row by its key.
    Points,
    /// Ten rows of one table with those of another, grouped.
    Joins,
    /// One of the 22 TPC-H queries.
    Tpch,
    /// COPY FROM STDIN of some rows.
    Copy,
    /// A change of two rows, in one statement or a block.
    Updates,
    /// A long statement that its client cancels.
    Cancels,
    /// A client that vanishes, or sends what is no message.
    Bad,
    /// `pg_sleep`: a connection that stalls.
    Sleeps,
}

impl Kind {
    pub const ALL: [Kind; 8] = [
        Kind::Points,
        Kind::Joins,
        Kind::Tpch,
        Kind::Copy,
        Kind::Updates,
        Kind::Cancels,
        Kind::Bad,
        Kind::Sleeps,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Points => "points",
            Kind::Joins => "joins",
            Kind::Tpch => "tpch",
            Kind::Copy => "copy",
            Kind::Updates => "updates",
            Kind::Cancels => "cancels",
            Kind::Bad => "bad",
            Kind::Sleeps => "sleeps",
        }
    }
}

/// Weights of kinds.
#[derive(Clone, Debug)]
pub struct Mix(Vec<(Kind, u64)>);

impl Mix {
    /// Of a text such as `points:70,joins:10`.
    pub fn parse(text: &str) -> Result<Mix> {
        let mut weights = vec![];
        for part in text.split(',') {
            let (name, weight) = part
                .split_once(':')
                .with_context(|| format!("{part}: want kind:weight"))?;
            let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.name() == name) else {
                bail!("no kind {name}: {}", Kind::ALL.map(Kind::name).join(", "));
            };
            ensure!(weights.iter().all(|(other, _)| *other != kind), "{name} is there twice");
            let weight: u32 = weight.parse().with_context(|| format!("{part}: want a whole number"))?;
            weights.push((kind, u64::from(weight)));
        }
        ensure!(weights.iter().any(|(_, weight)| *weight > 0), "{text}: nothing to do");
        Ok(Mix(weights))
    }

    pub fn has(&self, kind: Kind) -> bool {
        self.0.iter().any(|(own, weight)| *own == kind && *weight > 0)
    }

    /// The kind that a random number stands for.
    pub fn draw(&self, dice: u64) -> Kind {
        let all: u64 = self.0.iter().map(|(_, weight)| weight).sum();
        let mut at = dice % all;
        for &(kind, weight) in &self.0 {
            match at.checked_sub(weight) {
                Some(rest) => at = rest,
                None => return kind,
            }
        }
        unreachable!("a number below the sum of the weights")
    }
}

/// The random number of a seed and a place (splitmix64): a run's requests are the same again under the same seed.
pub fn dice(seed: u64, at: u64) -> u64 {
    let mut x = seed.wrapping_add(at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
