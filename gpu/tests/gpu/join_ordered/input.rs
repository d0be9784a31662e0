//! Random inputs of joins: keys of several shapes, rows left out, and a condition beyond the keys.

use std::borrow::Cow;

use rand::{Rng, rngs::StdRng};
use tenon_cpu::join::CssKey;
use tenon_gpu::Stream;
use tenon_gpu::join::{Keys, Residual, Side};
use tenon_gpu::memory::{DeviceBuffer, DevicePtr, Element};
use tenon_gpu::primitives::sort::SortKey;

/// One input: key `i` is row `rows[i]`'s, and every row has a number that the residual condition reads.
#[derive(Clone)]
pub struct Input<K> {
    pub keys: Vec<K>,
    pub rows: Option<Vec<u32>>,
    pub numbers: Vec<u32>,
}

impl<K: Key> Input<K> {
    /// Keys below `limit`; with `leave_out`, some rows have none.
    pub fn random(rng: &mut StdRng, items: usize, limit: u64, leave_out: bool) -> Input<K> {
        let keys = (0..items).map(|_| K::of(rng.random_range(0..limit))).collect();
        let mut row = 0;
        let rows = leave_out.then(|| {
            let mut next = || {
                row += rng.random_range(1..3);
                row - 1
            };
            (0..items).map(|_| next()).collect::<Vec<u32>>()
        });
        let row_count = rows
            .as_ref()
            .map_or(items, |rows| rows.last().map_or(3, |&row| row as usize + 2));
        Input {
            keys,
            rows,
            numbers: (0..row_count).map(|_| rng.random_range(0..100)).collect(),
        }
    }

    /// The same, ascending by key: the rows then follow their keys.
    pub fn sorted(mut self) -> Input<K> {
        let mut order: Vec<usize> = (0..self.keys.len()).collect();
        order.sort_by_key(|&i| self.keys[i]);
        self.rows = Some(order.iter().map(|&i| self.row(i)).collect());
        self.keys.sort_unstable();
        self
    }

    pub fn row(&self, i: usize) -> u32 {
        self.rows.as_ref().map_or(i as u32, |rows| rows[i])
    }

    pub fn row_count(&self) -> u64 {
        self.numbers.len() as u64
    }

    pub fn cpu_side(&self) -> tenon_cpu::join::Side<'_, K> {
        tenon_cpu::join::Side::new(&self.keys, self.rows.as_deref().map(Cow::Borrowed)).unwrap()
    }

    pub fn upload(&self, stream: &Stream) -> Uploaded<K> {
        Uploaded {
            keys: stream.upload(&self.keys).unwrap(),
            rows: self.rows.as_ref().map(|rows| stream.upload(rows).unwrap()),
            numbers: stream.upload(&self.numbers).unwrap(),
            row_count: self.row_count(),
        }
    }
}

/// The same in device memory.
pub struct Uploaded<K: Element> {
    pub keys: DeviceBuffer<K>,
    pub rows: Option<DeviceBuffer<u32>>,
    pub numbers: DeviceBuffer<u32>,
    row_count: u64,
}

impl<K: Key> Uploaded<K> {
    pub fn side(&self) -> Side<'_> {
        let rows = self.rows.as_ref().map(|rows| rows.view());
        Side::with_rows(K::keys(&self.keys), rows, self.row_count).unwrap()
    }
}

/// Key types of joins.
pub trait Key: Element + Ord + CssKey + SortKey {
    fn of(number: u64) -> Self;
    fn number(self) -> u64;
    fn keys(buffer: &DeviceBuffer<Self>) -> Keys<'_>;
}
impl Key for u32 {
    fn of(number: u64) -> u32 {
        number as u32
    }
    fn number(self) -> u64 {
        self as u64
    }
    fn keys(buffer: &DeviceBuffer<u32>) -> Keys<'_> {
        Keys::U32(buffer.view())
    }
}
impl Key for u64 {
    fn of(number: u64) -> u64 {
        number
    }
    fn number(self) -> u64 {
        self
    }
    fn keys(buffer: &DeviceBuffer<u64>) -> Keys<'_> {
        Keys::U64(buffer.view())
    }
}

/// A condition beyond the keys: the rows' numbers do not add up to a multiple of `modulus`; none without one.
pub fn residual<K: Element>(modulus: Option<u32>, build: &Uploaded<K>, probe: &Uploaded<K>) -> Residual {
    let Some(modulus) = modulus else {
        return Residual::none();
    };
    let address = |buffer: &DeviceBuffer<u32>| DevicePtr::new(buffer.ptr().0);
    let body = "return (p.value<u32>(0, build_row) + p.value<u32>(1, probe_row)) % p.literal<u64>(0) != 0;";
    let buffers = vec![address(&build.numbers), address(&probe.numbers)];
    // SAFETY: both buffers have a number for each row, and outlive the join.
    unsafe { Residual::new(body, "", buffers, vec![modulus as u64], None) }
}

/// That condition on the host.
pub fn holds<'a, K: Key>(
    modulus: Option<u32>,
    build: &'a Input<K>,
    probe: &'a Input<K>,
) -> impl Fn(u32, u32) -> bool + 'a {
    move |b, p| {
        modulus.is_none_or(|modulus| !(build.numbers[b as usize] + probe.numbers[p as usize]).is_multiple_of(modulus))
    }
}

/// All pairs of rows whose keys fulfil `matches` and whose numbers fulfil the residual condition, in order.
pub fn reference<K: Key>(
    build: &Input<K>,
    probe: &Input<K>,
    modulus: Option<u32>,
    matches: impl Fn(usize, usize) -> bool,
) -> Vec<(u32, u32)> {
    let holds = holds(modulus, build, probe);
    let mut pairs = Vec::new();
    for b in 0..build.keys.len() {
        for p in 0..probe.keys.len() {
            let (build_row, probe_row) = (build.row(b), probe.row(p));
            if matches(b, p) && holds(build_row, probe_row) {
                pairs.push((build_row, probe_row));
            }
        }
    }
    pairs.sort_unstable();
    pairs
}
