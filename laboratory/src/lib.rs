//! What the benchmark binaries share. Measuring one operation: warm-up, repeats timed by events, the median, and the
//! floor it is compared with; inputs that device and host make alike.

use std::time::Instant;

use tenon_gpu::Device;
use tenon_gpu::Result;
use tenon_gpu::Stream;
use tenon_gpu::memory::{DeviceBuffer, Element};
use tenon_gpu::primitives::{expression::Expression, fill::iota, map::map};

/// Bytes a second that the floor assumes: what a copy reaches on an H100.
pub const FLOOR_BYTES_PER_S: f64 = 3.0e12;

/// What all rows share.
pub struct Bench {
    pub device: Device,
    pub stream: Stream,
    /// A thousandth of the sizes and one repeat: for the tests, on the simulator.
    pub small: bool,
    /// Only rows whose name contains it, or begins with it after `^`.
    filter: Option<String>,
}

impl Bench {
    pub fn new(device: Device, small: bool, filter: Option<String>) -> Result<Bench> {
        let stream = device.stream()?;
        Ok(Bench {
            device,
            stream,
            small,
            filter,
        })
    }

    /// The size to run at instead of this one.
    pub fn items(&self, full: u64) -> u64 {
        if self.small { (full >> 11).max(1000) } else { full }
    }

    /// Whether to run rows of this name.
    pub fn wants(&self, name: &str) -> bool {
        self.filter
            .as_ref()
            .is_none_or(|filter| match filter.strip_prefix('^') {
                Some(start) => name.starts_with(start),
                None => name.contains(filter.as_str()),
            })
    }

    /// How many sets of inputs and outputs to rotate among, so that none is found in the L2 cache.
    pub fn sets(&self, set_bytes: u64) -> usize {
        let l2 = self.device.info().l2_bytes.max(1);
        ((4 * l2).div_ceil(set_bytes.max(1)) as usize).clamp(1, if self.small { 2 } else { 8 })
    }

    /// Times `f`, which gets the number of the run, and prints the row. `bytes` is the least that must move.
    /// Returns milliseconds; none if the row is filtered out.
    pub fn row(&self, name: &str, items: u64, bytes: u64, f: impl FnMut(usize) -> Result<()>) -> Result<Option<f64>> {
        if !self.wants(name) {
            return Ok(None);
        }
        let ms = self.measure(f)?;
        print_row(name, items, bytes, ms);
        Ok(Some(ms))
    }

    /// Times `f`, which gets the number of the run, on the device. Returns milliseconds.
    pub fn measure(&self, mut f: impl FnMut(usize) -> Result<()>) -> Result<f64> {
        let warm_ups = if self.small { 0 } else { 3 };
        let start = Instant::now();
        for run in 0..warm_ups {
            f(run)?;
        }
        self.stream.synchronize()?;
        // Fewer repeats of what takes long: it varies less.
        let repeats = match start.elapsed().as_millis() {
            _ if self.small => 1,
            0..=100 => 15,
            _ => 5,
        };
        let mut marks = vec![self.stream.record()?];
        for run in 0..repeats {
            f(warm_ups + run)?;
            marks.push(self.stream.record()?);
        }
        self.stream.synchronize()?;
        let mut times = Vec::new();
        for pair in marks.windows(2) {
            times.push(pair[1].elapsed_ms_since(&pair[0])? as f64);
        }
        Ok(median(times))
    }

    /// Times `f` on the host and prints the row. Returns milliseconds; none if the row is filtered out.
    pub fn cpu_row(&self, name: &str, items: u64, bytes: u64, f: impl FnMut()) -> Option<f64> {
        if !self.wants(name) {
            return None;
        }
        let ms = self.measure_cpu(f);
        print_row(name, items, bytes, ms);
        Some(ms)
    }

    /// Times `f` on the host. Returns milliseconds.
    pub fn measure_cpu(&self, mut f: impl FnMut()) -> f64 {
        let repeats = if self.small { 1 } else { 5 };
        let times = (0..repeats)
            .map(|_| {
                let start = Instant::now();
                f();
                start.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        median(times)
    }

    /// `items` pseudo-random numbers, the same as [`random_at`] gives, made on the device.
    pub fn random_u32(&self, items: u64, salt: u64) -> Result<DeviceBuffer<u32>> {
        self.random(items, salt)
    }

    /// The same with 64 bits.
    pub fn random_u64(&self, items: u64, salt: u64) -> Result<DeviceBuffer<u64>> {
        self.random(items, salt)
    }

    /// Pseudo-random numbers below `limit`: those of [`Self::random_u64`] modulo it.
    pub fn random_below(&self, items: u64, limit: u64, salt: u64) -> Result<DeviceBuffer<u32>> {
        let text = format!("{RANDOM} % literal.template get<u64>(1)");
        // SAFETY: it computes with its argument and literals.
        self.numbers(items, unsafe { Expression::new(&text) }, &[salt, limit])
    }

    /// All numbers below `items`, a power of two, each once, in a random order: [`permuted`].
    pub fn permutation(&self, items: u64, salt: u64) -> Result<DeviceBuffer<u32>> {
        assert!(items.is_power_of_two(), "a permutation of {items} numbers");
        let half = items.trailing_zeros().div_ceil(2) as u64;
        self.numbers(items, PERMUTE, &[salt, items - 1, half])
    }

    /// An expression of `map` over the numbers 0 to `items`, the number being `x`.
    pub fn numbers<T: Element>(
        &self,
        items: u64,
        expression: Expression<'_>,
        literals: &[u64],
    ) -> Result<DeviceBuffer<T>> {
        let mut numbers = self.stream.alloc::<u64>(items)?;
        iota(&self.stream, numbers.view_mut(), 0)?;
        let mut output = self.stream.alloc::<T>(items)?;
        map(&self.stream, numbers.view(), output.view_mut(), expression, literals)?;
        Ok(output)
    }

    fn random<T: Element>(&self, items: u64, salt: u64) -> Result<DeviceBuffer<T>> {
        self.numbers(items, RANDOM, &[salt])
    }
}

/// A mixing function (splitmix64) as an expression of `map`.
// SAFETY: it computes with its argument and literals.
pub const RANDOM: Expression<'static> = unsafe {
    Expression::new(
        "[](u64 z) { z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull; \
    z = (z ^ z >> 27) * 0x94d049bb133111ebull; return z ^ z >> 31; }((x + literal.template get<u64>(0)) * 0x9e3779b97f4a7c15ull)",
    )
};

/// Invertible steps within the bits of the mask: adding, multiplying by odd numbers, folding the upper half down.
// SAFETY: it computes with its argument and literals.
pub const PERMUTE: Expression<'static> = unsafe {
    Expression::new(
        "[](u64 z, u64 mask, u64 half) { \
    z = z * 0x9e3779b97f4a7c15ull & mask; z ^= z >> half; \
    z = z * 0xbf58476d1ce4e5b9ull & mask; z ^= z >> half; \
    z = z * 0x94d049bb133111ebull & mask; return z ^ z >> half; \
    }(x + literal.template get<u64>(0), literal.template get<u64>(1), literal.template get<u64>(2))",
    )
};

/// What [`Bench::permutation`] has at this place.
pub fn permuted(index: u64, items: u64, salt: u64) -> u64 {
    let (mask, half) = (items - 1, items.trailing_zeros().div_ceil(2));
    let step = |z: u64, factor: u64| {
        let z = z.wrapping_mul(factor) & mask;
        z ^ z >> half
    };
    let z = step(index + salt, 0x9e37_79b9_7f4a_7c15);
    step(step(z, 0xbf58_476d_1ce4_e5b9), 0x94d0_49bb_1331_11eb)
}

/// What [`Bench::random_u64`] has at this place; the low bits are what [`Bench::random_u32`] has.
pub fn random_at(index: u64, salt: u64) -> u64 {
    let z = index.wrapping_add(salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Prints the table's head.
pub fn print_head() {
    println!(
        "{:<34} {:>10} {:>9} {:>7} {:>9} {:>6}",
        "row", "items", "ms", "GB/s", "floor ms", "ratio"
    );
}

/// Prints one row of the table.
pub fn print_row(name: &str, items: u64, bytes: u64, ms: f64) {
    print_row_over(name, items, bytes, ms, FLOOR_BYTES_PER_S);
}

/// The same with another rate as the floor.
pub fn print_row_over(name: &str, items: u64, bytes: u64, ms: f64, floor_bytes_per_s: f64) {
    let floor_ms = bytes as f64 / floor_bytes_per_s * 1e3;
    let gb_per_s = bytes as f64 / ms / 1e6;
    println!(
        "{name:<34} {items:>10} {ms:>9.4} {gb_per_s:>7.0} {floor_ms:>9.4} {:>6.2}",
        ms / floor_ms
    );
}

/// `16M`, `128K`, `100`.
pub fn size_text(items: u64) -> String {
    match items {
        i if i >= 1 << 20 && i.is_multiple_of(1 << 20) => format!("{}M", i >> 20),
        i if i >= 1 << 10 && i.is_multiple_of(1 << 10) => format!("{}K", i >> 10),
        i => i.to_string(),
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
