//! How long each trial took, told at the end: a suite that grows is cut where its time goes.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

static TIMES: Mutex<Vec<(String, Duration)>> = Mutex::new(Vec::new());

const LONGEST: usize = 25;

/// The time from here to its end is a trial's.
pub struct Timed(String, Instant);

impl Timed {
    pub fn start(name: &str) -> Self {
        Self(name.into(), Instant::now())
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        TIMES.lock().push((std::mem::take(&mut self.0), self.1.elapsed()));
    }
}

/// The longest trials, and the sum of each group: what comes before a trial's last `::`.
pub fn report() {
    let mut times = std::mem::take(&mut *TIMES.lock());
    if times.len() < LONGEST {
        return;
    }
    times.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    println!("the longest trials, in seconds:");
    for (name, time) in &times[..LONGEST] {
        println!("{:9.1}  {name}", time.as_secs_f64());
    }
    let mut groups: BTreeMap<&str, Duration> = BTreeMap::new();
    for (name, time) in &times {
        let group = name.rsplit_once("::").map_or("", |(group, _)| group);
        *groups.entry(group).or_default() += *time;
    }
    println!("all trials by group:");
    let mut groups: Vec<(&str, Duration)> = groups.into_iter().collect();
    groups.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    for (group, time) in groups {
        println!("{:9.1}  {group}", time.as_secs_f64());
    }
}
