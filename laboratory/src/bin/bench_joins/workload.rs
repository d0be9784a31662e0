//! Inputs of the joins, on the device and on the host, and the check of their results.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rayon::prelude::*;
use tenon_gpu::join::Keys;
use tenon_gpu::join::from_host::HostColumn;
use tenon_gpu::join::hash::Column;
use tenon_gpu::memory::{DeviceBuffer, DeviceView, Element};
use tenon_gpu::{Result, Stream};
use tenon_laboratory::{Bench, PERMUTE, RANDOM, size_text};

use crate::expression;

/// How probe keys spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// Over the build keys, so that every one has partners.
    Uniform,
    /// Over this many times as many numbers as there are build keys: one of so many has partners.
    Sparse(u64),
    /// Zipf's law with this exponent, above 1.
    Zipf(f64),
    /// All the same.
    OneKey,
}

/// A join to measure.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Rows, powers of two.
    pub build: u64,
    pub probe: u64,
    /// Build rows of each key, a power of two.
    pub duplicates: u64,
    pub spread: Spread,
}

impl Workload {
    pub fn new(build: u64, probe: u64) -> Workload {
        Workload {
            build,
            probe,
            duplicates: 1,
            spread: Spread::Uniform,
        }
    }

    /// `16Mx16M`, then what is unusual.
    pub fn name(&self) -> String {
        let mut name = format!("{}x{}", size_text(self.build), size_text(self.probe));
        if self.duplicates > 1 {
            name += &format!(".dup{}", self.duplicates);
        }
        match self.spread {
            Spread::Uniform => {}
            Spread::Sparse(n) => name += &format!(".1in{n}"),
            Spread::Zipf(s) => name += &format!(".zipf{s}"),
            Spread::OneKey => name += ".onekey",
        }
        name
    }
}

/// Keys and payloads of 4 or 8 bytes.
pub trait Word: Element + PartialEq {
    /// What key `number` is: a number itself in 4 bytes, spread over all bits in 8.
    const KEY: &'static str;
    fn column(view: DeviceView<'_, Self>) -> Column<'_>;
    fn host_column(column: &[Self]) -> HostColumn<'_>;
    /// As the device writes it.
    fn from_bytes(bytes: &[u8]) -> impl Iterator<Item = Self>;
    fn to_u64(self) -> u64;
    /// The number of a key.
    fn number(self) -> u64;
}
/// Odd, so that multiplying by it loses nothing.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
impl Word for u32 {
    const KEY: &'static str = "";
    fn column(view: DeviceView<'_, u32>) -> Column<'_> {
        Keys::U32(view)
    }
    fn host_column(column: &[u32]) -> HostColumn<'_> {
        HostColumn::U32(column)
    }
    fn from_bytes(bytes: &[u8]) -> impl Iterator<Item = u32> {
        bytes.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word))
    }
    fn to_u64(self) -> u64 {
        self as u64
    }
    fn number(self) -> u64 {
        self as u64
    }
}
impl Word for u64 {
    const KEY: &'static str = " * 0x9e3779b97f4a7c15ull";
    fn column(view: DeviceView<'_, u64>) -> Column<'_> {
        Keys::U64(view)
    }
    fn host_column(column: &[u64]) -> HostColumn<'_> {
        HostColumn::U64(column)
    }
    fn from_bytes(bytes: &[u8]) -> impl Iterator<Item = u64> {
        bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word))
    }
    fn to_u64(self) -> u64 {
        self
    }
    fn number(self) -> u64 {
        // Newton's iteration for the factor's inverse modulo 2^64.
        let inverse = (0..6).fold(FACTOR, |x, _| x.wrapping_mul(2u64.wrapping_sub(FACTOR.wrapping_mul(x))));
        self.wrapping_mul(inverse)
    }
}

/// Both sides on the device: keys, and row numbers as payload.
pub struct Inputs<K> {
    pub build: (DeviceBuffer<K>, DeviceBuffer<K>),
    pub probe: (DeviceBuffer<K>, DeviceBuffer<K>),
    pub name: String,
    distinct: u64,
}

impl<K: Word> Inputs<K> {
    /// At the benchmark's scale. Sides are at least of 1024 rows.
    pub fn new(bench: &Bench, workload: &Workload, salt: u64) -> Result<Inputs<K>> {
        let (build, probe) = (rows(bench, workload.build), rows(bench, workload.probe));
        let distinct = (build / workload.duplicates).max(1);
        let half = build.trailing_zeros().div_ceil(2) as u64;
        let of_build = format!("({PERMUTE} % literal.template get<u64>(3)){}", K::KEY);
        let number = match workload.spread {
            Spread::Uniform | Spread::Sparse(_) => format!("{RANDOM} % literal.template get<u64>(1)"),
            Spread::Zipf(_) => format!(
                "(u64)(pow(({RANDOM} >> 11) * 0x1p-53 + 0x1p-54, literal.template get<f64>(2)) - 1.0) % \
                 literal.template get<u64>(1)"
            ),
            Spread::OneKey => "literal.template get<u64>(1) / 3".into(),
        };
        let (range, exponent) = match workload.spread {
            Spread::Sparse(n) => (distinct * n, 0.0f64),
            Spread::Zipf(s) => (distinct, -1.0 / (s - 1.0)),
            _ => (distinct, 0.0),
        };
        let of_probe = format!("({number}){}", K::KEY);
        Ok(Inputs {
            name: workload.name(),
            build: (
                bench.numbers(build, expression(&of_build), &[salt, build - 1, half, distinct])?,
                bench.numbers(build, expression("x"), &[])?,
            ),
            probe: (
                bench.numbers(probe, expression(&of_probe), &[salt + 77, range, exponent.to_bits()])?,
                bench.numbers(probe, expression("x"), &[])?,
            ),
            distinct,
        })
    }

    pub fn columns(&self) -> ((Column<'_>, Column<'_>), (Column<'_>, Column<'_>)) {
        (
            (K::column(self.build.0.view()), K::column(self.build.1.view())),
            (K::column(self.probe.0.view()), K::column(self.probe.1.view())),
        )
    }

    /// Whether every probe row has one partner, of any build row.
    pub fn is_usual(&self) -> bool {
        !self.name.contains('.') && self.build.0.len() == self.probe.0.len()
    }

    pub fn tuples(&self) -> u64 {
        self.build.0.len() + self.probe.0.len()
    }

    /// Both inputs read, and `rows` of three columns written.
    pub fn bytes(&self, rows: u64) -> u64 {
        (self.tuples() * 2 + rows * 3) * size_of::<K>() as u64
    }

    pub fn download(&self, stream: &Stream) -> Result<Host<K>> {
        let build = stream.download(self.build.0.view())?;
        let probe = stream.download(self.probe.0.view())?;
        Ok(Host::new(build, probe, self.distinct))
    }
}

/// The keys on the host, and what is right.
pub struct Host<K> {
    pub build: Vec<K>,
    pub probe: Vec<K>,
    /// Pairs of the join.
    pub pairs: u64,
    /// Sum of the products of row numbers of all pairs, modulo 2^64.
    pub products: u64,
}

impl<K: Word> Host<K> {
    fn new(build: Vec<K>, probe: Vec<K>, distinct: u64) -> Host<K> {
        let of_key: Vec<_> = (0..distinct)
            .into_par_iter()
            .map(|_| [AtomicU64::new(0), AtomicU64::new(0)])
            .collect();
        build.par_iter().enumerate().for_each(|(row, key)| {
            let [count, sum] = &of_key[key.number() as usize];
            count.fetch_add(1, Ordering::Relaxed);
            sum.fetch_add(row as u64, Ordering::Relaxed);
        });
        let of_key: Vec<(u64, u64)> = of_key
            .into_par_iter()
            .map(|[count, sum]| (count.into_inner(), sum.into_inner()))
            .collect();
        let (pairs, products) = probe
            .par_iter()
            .enumerate()
            .map(|(row, key)| match of_key.get(key.number() as usize) {
                Some(&(count, sum)) => (count, sum.wrapping_mul(row as u64)),
                None => (0, 0),
            })
            .reduce(|| (0, 0), |a, b| (a.0 + b.0, a.1.wrapping_add(b.1)));
        Host {
            build,
            probe,
            pairs,
            products,
        }
    }

    /// The rows of one side that have a partner, ascending.
    pub fn rows_with_partner(&self, of_build: bool) -> Vec<u32> {
        let (rows, others) = if of_build {
            (&self.build, &self.probe)
        } else {
            (&self.probe, &self.build)
        };
        let highest = rows.par_iter().chain(others).map(|key| key.number()).max().unwrap_or(0);
        let met: Vec<AtomicBool> = (0..highest + 1)
            .into_par_iter()
            .map(|_| AtomicBool::new(false))
            .collect();
        others
            .par_iter()
            .for_each(|key| met[key.number() as usize].store(true, Ordering::Relaxed));
        let has_partner = |&row: &u32| met[rows[row as usize].number() as usize].load(Ordering::Relaxed);
        (0..rows.len() as u32).into_par_iter().filter(has_partner).collect()
    }

    /// Panics unless these are all pairs of the join, in any order: as many, each one right, and the same checksum.
    pub fn check<V: Word>(&self, name: &str, keys: Option<&[K]>, build_rows: &[V], probe_rows: &[V]) {
        assert_eq!(build_rows.len() as u64, self.pairs, "{name}: pairs");
        let products = build_rows
            .par_iter()
            .zip(probe_rows)
            .enumerate()
            .map(|(at, (build, probe))| {
                let (build, probe) = (build.to_u64(), probe.to_u64());
                let key = self.build[build as usize];
                assert!(
                    key == self.probe[probe as usize],
                    "{name}: pair {at} has different keys"
                );
                assert!(keys.is_none_or(|keys| keys[at] == key), "{name}: key {at}");
                build.wrapping_mul(probe)
            })
            .reduce(|| 0, u64::wrapping_add);
        assert_eq!(products, self.products, "{name}: sum of products");
    }
}

/// Rows at the benchmark's scale: a power of two.
pub fn rows(bench: &Bench, full: u64) -> u64 {
    if bench.small { (full >> 12).max(1024) } else { full }
}
