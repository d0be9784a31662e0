//! Durations in buckets that are some percent wide: a few thousand hold everything from a microsecond to hours.

use std::time::Duration;

/// Each power of two of microseconds is split into so many buckets: a bucket is at most a 64th wide.
const PARTS: u64 = 64;
const PARTS_BITS: u32 = PARTS.trailing_zeros();

/// How often durations of each length were seen.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// As many as the longest duration needs.
    buckets: Vec<u64>,
    count: u64,
    max: Duration,
}

/// The bucket of a number of microseconds: those below `PARTS` have one each.
fn bucket(micros: u64) -> usize {
    let power = micros.max(1).ilog2();
    if power < PARTS_BITS {
        return micros as usize;
    }
    let shift = power - PARTS_BITS;
    let part = (micros >> shift) - PARTS;
    (PARTS + u64::from(shift) * PARTS + part) as usize
}

/// The most microseconds of a bucket.
fn last_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PARTS {
        return bucket;
    }
    let (shift, part) = ((bucket - PARTS) / PARTS, (bucket - PARTS) % PARTS);
    ((PARTS + part + 1) << shift) - 1
}

impl Histogram {
    pub fn record(&mut self, duration: Duration) {
        // 2^50 us are 35 years.
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).min(1 << 50);
        let at = bucket(micros);
        if at >= self.buckets.len() {
            self.buckets.resize(at + 1, 0);
        }
        self.buckets[at] += 1;
        self.count += 1;
        self.max = self.max.max(duration);
    }

    /// All that the other has seen, too.
    pub fn add(&mut self, other: &Self) {
        if other.buckets.len() > self.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (own, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *own += more;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn max(&self) -> Duration {
        self.max
    }

    /// What this share of the durations does not exceed, such as 0.99; too long by a bucket's width at most. Zero where there
    /// are none.
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = (share * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (at, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_micros(last_of(at)).min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number lies in its bucket, and buckets follow each other without gaps.
    #[test]
    fn buckets_cover_all_numbers() {
        for micros in (0..5000).chain((12..50).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1])) {
            let at = bucket(micros);
            assert!(micros <= last_of(at), "{micros}");
            assert!(at == 0 || micros > last_of(at - 1), "{micros}");
            // A bucket's width against what is in it.
            let width = last_of(at) - at.checked_sub(1).map_or(0, last_of);
            assert!(micros < PARTS || width * PARTS <= micros, "{micros}: {width}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_durations() {
        let mut histogram = Histogram::default();
        let mut durations: Vec<u64> = (0..10_000_u64).map(|n| (n * 7919 % 10_007) * (n % 13 + 1)).collect();
        let (mut even, mut odd) = (Histogram::default(), Histogram::default());
        for (at, &micros) in durations.iter().enumerate() {
            histogram.record(Duration::from_micros(micros));
            [&mut even, &mut odd][at % 2].record(Duration::from_micros(micros));
        }
        even.add(&odd);
        durations.sort_unstable();
        for share in [0.0, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = durations[((share * 10_000.0_f64).ceil() as usize).max(1) - 1];
            let found = histogram.quantile(share).as_micros() as u64;
            assert!(
                found >= exact && found <= exact + exact / PARTS + 1,
                "{share}: {found}, {exact}"
            );
            assert_eq!(even.quantile(share), histogram.quantile(share));
        }
        assert_eq!(histogram.quantile(1.0), Duration::from_micros(durations[9_999]));
        assert_eq!((even.count(), even.max()), (10_000, histogram.max()));
        assert_eq!(Histogram::default().quantile(0.99), Duration::ZERO);
    }
}
