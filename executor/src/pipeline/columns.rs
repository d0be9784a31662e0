//! Tables' columns, and orders of their rows, in device memory: columns as storage keeps them, loaded when a pipeline first reads
//! them, kept for the next, and given up, the longest unused first, where others need the memory. After a change of a table only its new segments are
//! loaded.
//!
//! More than 400 lines because the cache and what it holds know each other.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Instant;

use super::orders::TableOrder;
use super::stored::{Stored, bytes, width};
use crate::counts::COUNTS;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use parking_lot::Mutex;
use tenon_gpu::memory::DeviceBuffer;
use tenon_gpu::pipeline::{SegmentColumn, Tile, tiles};
use tenon_gpu::primitives::pieces::Pieces;
use tenon_gpu::{GpuError, Result, Stream};
use tenon_storage::{Codes, DeviceResidence, Differences, Expanded, Form, Segment, TableVersion};

/// A segment's column.
pub struct Held {
    values: DeviceBuffer<u8>,
    bytes: Option<DeviceBuffer<u8>>,
    valid: Option<DeviceBuffer<u8>>,
    base: i128,
    width: u64,
}

/// A table's column, by segment.
pub struct TableColumn {
    pub descriptors: DeviceBuffer<SegmentColumn>,
    /// What the descriptors point to; those of further segments are empty.
    held: Vec<Arc<Held>>,
}

/// A table's rows in tiles.
pub type Tiles = DeviceBuffer<Tile>;

/// What is cached, as long as that lives of which it is.
struct Entry<S: ?Sized, T> {
    source: Weak<S>,
    of: Arc<T>,
    /// When it was last asked for, and how often.
    used: u64,
    uses: u64,
    /// Given up after all that are not.
    resident: bool,
}

impl<S: ?Sized, T> Entry<S, T> {
    fn new(source: Weak<S>, of: Arc<T>, used: u64) -> Self {
        Self {
            source,
            of,
            used,
            uses: 1,
            resident: false,
        }
    }

    fn give(&mut self, now: u64) -> Arc<T> {
        self.used = now;
        self.uses += 1;
        Arc::clone(&self.of)
    }
}

type OfTable<T> = Entry<[Arc<Segment>], T>;

impl<T> OfTable<T> {
    fn of_table(table: &TableVersion, of: &Arc<T>, used: u64) -> Self {
        let mut entry = Self::new(Arc::downgrade(table.segments()), Arc::clone(of), used);
        entry.reside(table);
        entry
    }

    fn give_to(&mut self, table: &TableVersion, now: u64) -> Arc<T> {
        self.reside(table);
        self.give(now)
    }

    /// What the table asks for now.
    fn reside(&mut self, table: &TableVersion) {
        self.resident = table.definition().device == Some(DeviceResidence::Resident);
    }
}

#[derive(Default)]
struct Cache {
    segments: HashMap<Name, Entry<Segment, Held>>,
    tables: HashMap<OfSegments, OfTable<TableColumn>>,
    orders: HashMap<OfColumn, OfTable<TableOrder>>,
    tiles: HashMap<usize, OfTable<Tiles>>,
    clock: u64,
}

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

/// A column of a table, and of how many of its first segments.
type OfSegments = (usize, usize, usize);

/// A column of a table, and from where its words count.
type OfColumn = (usize, usize, i128);

/// Names a list of segments as long as a weak reference to it lives.
fn identity(table: &TableVersion) -> usize {
    Arc::as_ptr(table.segments()).cast::<()>() as usize
}

/// The tiles of a table.
pub fn table_tiles(stream: &Stream, table: &TableVersion) -> Result<Arc<Tiles>> {
    let name = identity(table);
    {
        let mut cache = CACHE.lock();
        let now = cache.tick();
        if let Some(entry) = cache.tiles.get_mut(&name) {
            return Ok(entry.give(now));
        }
    }
    let of = tiles(table.segments().iter().map(|segment| segment.rows()));
    let of = Arc::new(with_room(stream, || stream.upload(&of))?);
    let mut cache = CACHE.lock();
    let used = cache.tick();
    let entry = Entry::new(Arc::downgrade(table.segments()), Arc::clone(&of), used);
    cache.tiles.insert(name, entry);
    Ok(of)
}

/// Gives up what is in device memory of a table's columns and not in use.
pub fn forget(table: &TableVersion) {
    let mut cache = CACHE.lock();
    let segments: HashSet<u64> = table.segments().iter().map(|segment| segment.id()).collect();
    let is_own = |segment: &Arc<Segment>| segments.contains(&segment.id());
    // Of other versions of the table, too.
    let is_others = |source: &Weak<[Arc<Segment>]>| source.upgrade().is_some_and(|list| !list.iter().any(is_own));
    cache.tables.retain(|_, entry| is_others(&entry.source));
    cache.orders.retain(|_, entry| is_others(&entry.source));
    cache
        .segments
        .retain(|(own, ..), entry| Arc::strong_count(&entry.of) > 1 || !segments.contains(own));
}

/// Gives up a column of no resident table. False: there is none that is not in use.
pub fn give_up_unused() -> bool {
    CACHE.lock().give_up(false)
}

/// Whether a table's column is in device memory now.
pub fn is_there(table: &TableVersion, column: usize) -> bool {
    are_there(table, column, table.segments().len())
}

/// Whether a column of so many of a table's first segments is.
pub fn are_there(table: &TableVersion, column: usize, segments: usize) -> bool {
    let (cache, table) = (CACHE.lock(), identity(table));
    cache.tiles.contains_key(&table) && cache.tables.contains_key(&(table, column, segments))
}

/// Columns of a table, loaded where they are not there yet: all copies are under way before the first is waited for. The
/// largest columns go first: while the bus has those, the many small copies of the others are gathered.
pub fn table_columns(stream: &Stream, table: &TableVersion, columns: &[usize]) -> Result<Vec<Arc<TableColumn>>> {
    first_segments(stream, table, columns, table.segments().len())
}

/// The same of so many of the table's first segments.
pub fn first_segments(
    stream: &Stream,
    table: &TableVersion,
    columns: &[usize],
    segments: usize,
) -> Result<Vec<Arc<TableColumn>>> {
    let there = |&column: &usize| there(table, (column, segments));
    let mut all: Vec<Option<Arc<TableColumn>>> = columns.iter().map(there).collect();
    let absent: Vec<usize> = (0..columns.len()).filter(|&at| all[at].is_none()).collect();
    if !absent.is_empty() {
        let begun = Instant::now();
        let (mut made, mut loaded) = (Made::default(), vec![]);
        let mut order = absent;
        order.sort_by_cached_key(|&at| Reverse(bytes(table, columns[at])));
        let started = order.iter().try_for_each(|&at| {
            loaded.push(load_column(stream, table, (columns[at], segments), &mut made)?);
            Ok(())
        });
        let started = started.and_then(|()| made.send(stream));
        // What is copied is the table's, which may go when this returns, or was made for it.
        stream.synchronize()?;
        started?;
        COUNTS.column_ns.add(begun.elapsed().as_nanos() as u64);
        for (at, loaded) in order.into_iter().zip(loaded) {
            all[at] = Some(keep(table, loaded));
        }
    }
    Ok(all.into_iter().flatten().collect())
}

/// A column of so many segments that is in device memory now, for use.
fn there(table: &TableVersion, (column, segments): (usize, usize)) -> Option<Arc<TableColumn>> {
    let mut cache = CACHE.lock();
    let now = cache.tick();
    let entry = cache.tables.get_mut(&(identity(table), column, segments))?;
    Some(entry.give_to(table, now))
}

/// Lets others find what was loaded.
fn keep(table: &TableVersion, loaded: Loaded) -> Arc<TableColumn> {
    let copied = loaded.fresh.iter().map(|(.., held)| held.bytes()).sum();
    COUNTS.bytes_to_device.add(copied);
    COUNTS.column_bytes.add(copied);
    let name = (identity(table), loaded.column, loaded.held.len());
    let of = Arc::new(TableColumn {
        descriptors: loaded.descriptors,
        held: loaded.held,
    });
    let mut cache = CACHE.lock();
    let used = cache.tick();
    cache.forget_dropped();
    for (name, segment, held) in loaded.fresh {
        let entry = Entry::new(Arc::downgrade(&segment), held, used);
        cache.segments.insert(name, entry);
    }
    cache.tables.insert(name, Entry::of_table(table, &of, used));
    of
}

/// The order of a table's rows by a column, if it is in device memory now, for use.
pub fn kept_order(table: &TableVersion, column: usize, low: i128) -> Option<Arc<TableOrder>> {
    let mut cache = CACHE.lock();
    let now = cache.tick();
    let entry = cache.orders.get_mut(&(identity(table), column, low))?;
    Some(entry.give_to(table, now))
}

/// Whether it is.
pub fn is_order_there(table: &TableVersion, column: usize, low: i128) -> bool {
    CACHE.lock().orders.contains_key(&(identity(table), column, low))
}

/// Lets others find an order that was made.
pub fn keep_order(table: &TableVersion, column: usize, low: i128, order: &Arc<TableOrder>) {
    let mut cache = CACHE.lock();
    let used = cache.tick();
    cache.forget_dropped();
    let name = (identity(table), column, low);
    cache.orders.insert(name, Entry::of_table(table, order, used));
}

/// A segment's column by its segment's id, its number and whether it is in codes.
type Name = (u64, usize, bool);

/// A column whose copies are under way.
struct Loaded {
    column: usize,
    descriptors: DeviceBuffer<SegmentColumn>,
    /// What these are copied of.
    _descriptors: Vec<SegmentColumn>,
    /// What was not there before, and all of it.
    fresh: Vec<(Name, Arc<Segment>, Arc<Held>)>,
    held: Vec<Arc<Held>>,
}

/// Values that were made on the host to be copied, and are kept until they are; and small copies that are made together.
#[derive(Default)]
pub struct Made {
    expanded: Vec<Expanded>,
    rows: usize,
    pieces: Pieces,
}

/// Rows of such values, some 16 bytes each at most, after which copies are waited for.
const MADE_ROWS_MAX: usize = 4 << 20;

impl Made {
    /// Puts into the stream what waits to be copied.
    pub fn send(&mut self, stream: &Stream) -> Result<()> {
        self.pieces.send(stream)
    }

    fn keep(&mut self, stream: &Stream, expanded: Expanded, rows: usize) -> Result<()> {
        self.expanded.push(expanded);
        self.rows += rows;
        if self.rows > MADE_ROWS_MAX {
            self.send(stream)?;
            stream.synchronize()?;
            self.expanded.clear();
            self.rows = 0;
        }
        Ok(())
    }
}

/// Starts the copies of a column of so many segments: these are the table's, and `made` lives until the stream was waited for.
fn load_column(
    stream: &Stream,
    table: &TableVersion,
    (column, segments): (usize, usize),
    made: &mut Made,
) -> Result<Loaded> {
    let stored = Stored::of(table, column);
    let mut fresh = vec![];
    let held = match &stored {
        // Codes of this version of the table alone.
        Ok(Stored::Few(few)) => {
            let segments = table.segments().iter().zip(&few.codes).take(segments);
            let load = |(segment, codes): (&Arc<Segment>, &Vec<u16>)| {
                let load = || Held::codes(stream, codes, segment.column(column).nulls());
                Ok(Arc::new(with_room(stream, load)?))
            };
            segments.map(load).collect::<Result<Vec<_>>>()?
        }
        _ => {
            let segments = table.segments().iter().take(segments);
            let codes = matches!(stored, Ok(Stored::Code(_)));
            let load = |segment: &Arc<Segment>| {
                let name = (segment.id(), column, codes);
                if let Some(held) = known(name) {
                    return Ok(held);
                }
                let load = || Held::load((stream, &mut *made), segment, column, codes);
                let held = Arc::new(with_room(stream, load)?);
                fresh.push((name, Arc::clone(segment), Arc::clone(&held)));
                Ok(held)
            };
            segments.map(load).collect::<Result<Vec<_>>>()?
        }
    };
    let mut of_host: Vec<SegmentColumn> = held.iter().map(|held| held.descriptor()).collect();
    of_host.resize(table.segments().len(), SegmentColumn::default());
    // SAFETY: what is given back has them until the caller has waited for the stream.
    let descriptors = with_room(stream, || unsafe { stream.upload_later(&of_host) })?;
    Ok(Loaded {
        column,
        descriptors,
        _descriptors: of_host,
        fresh,
        held,
    })
}

fn known(name: Name) -> Option<Arc<Held>> {
    let mut cache = CACHE.lock();
    let now = cache.clock;
    let entry = cache.segments.get_mut(&name)?;
    Some(entry.give(now))
}

fn valid(stream: &Stream, nulls: Option<&NullBuffer>) -> Result<Option<DeviceBuffer<u8>>> {
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
    nulls
        .map(|nulls| stream.upload(nulls.inner().sliced().as_slice()))
        .transpose()
}

/// What of a column is in device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cached {
    pub segments: usize,
    pub bytes: u64,
    /// How often a fragment asked for the column since it was loaded.
    pub uses: u64,
}

/// What of a table's column is in device memory now, the order of its rows with it.
pub fn cached(table: &TableVersion, column: usize) -> Cached {
    let cache = CACHE.lock();
    let id = identity(table);
    let own = cache
        .orders
        .iter()
        .filter(|((table, of, _), _)| (*table, *of) == (id, column));
    let order_bytes: u64 = own.map(|(_, entry)| entry.of.bytes()).sum();
    if let Some(entry) = cache.tables.get(&(id, column, table.segments().len())) {
        let held = &entry.of.held;
        return Cached {
            segments: held.len(),
            bytes: order_bytes + held.iter().map(|held| held.bytes()).sum::<u64>(),
            uses: entry.uses,
        };
    }
    let names = table
        .segments()
        .iter()
        .flat_map(|segment| [false, true].map(|codes| (segment.id(), column, codes)));
    let none = Cached {
        bytes: order_bytes,
        ..Cached::default()
    };
    names
        .filter_map(|name| cache.segments.get(&name))
        .fold(none, |sum, entry| Cached {
            segments: sum.segments + 1,
            bytes: sum.bytes + entry.of.bytes(),
            uses: sum.uses.max(entry.uses),
        })
}

/// Bytes of all columns and orders that are in device memory now.
pub fn cached_bytes() -> u64 {
    let cache = CACHE.lock();
    let of_tables = cache.tables.values().flat_map(|entry| &entry.of.held);
    let all = cache.segments.values().map(|entry| &entry.of).chain(of_tables);
    // A table's columns hold those of its segments.
    let all: HashMap<_, _> = all.map(|held| (Arc::as_ptr(held), held.bytes())).collect();
    let orders = cache.orders.values().map(|entry| entry.of.bytes());
    all.values().copied().chain(orders).sum()
}

/// Does what takes device memory; where there is too little, gives up what is cached and not in use, and tries again.
pub fn with_room<T>(stream: &Stream, mut take: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match take() {
            Err(error) if error.is_out_of_memory() && CACHE.lock().give_up(true) => stream.synchronize()?,
            other => return other,
        }
    }
}

impl Cache {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Drops what is of tables that are no more.
    fn forget_dropped(&mut self) {
        self.tables.retain(|_, entry| entry.source.strong_count() > 0);
        self.orders.retain(|_, entry| entry.source.strong_count() > 0);
        self.tiles.retain(|_, entry| entry.source.strong_count() > 0);
        self.segments.retain(|_, entry| entry.source.strong_count() > 0);
    }

    /// Gives up the column, or the order, that nobody has asked for the longest, and those after it until that gave memory
    /// back; those of resident tables last, or not at all. False: all are in use.
    fn give_up(&mut self, residents: bool) -> bool {
        let before = (self.segments.len(), self.orders.len());
        self.forget_dropped();
        loop {
            // Those of no table's column: what is in use is held by one.
            self.segments.retain(|_, entry| Arc::strong_count(&entry.of) > 1);
            if self.segments.len() < before.0 || self.orders.len() < before.1 {
                return true;
            }
            match (idle(&self.tables, residents), idle(&self.orders, residents)) {
                (Some((column, name)), order) if order.is_none_or(|(order, _)| column <= order) => {
                    self.tables.remove(&name);
                }
                (_, Some((_, name))) => {
                    self.orders.remove(&name);
                }
                _ => return false,
            }
        }
    }
}

/// What of these nobody uses nor has asked for the longest, and since when; residents last, or not at all.
fn idle<K: Copy, T>(entries: &HashMap<K, OfTable<T>>, residents: bool) -> Option<((bool, u64), K)> {
    let idle = entries
        .iter()
        .filter(|(_, entry)| Arc::strong_count(&entry.of) == 1 && (residents || !entry.resident));
    idle.map(|(name, entry)| ((entry.resident, entry.used), *name))
        .min_by_key(|(order, _)| *order)
}

impl Held {
    fn codes(stream: &Stream, codes: &[u16], nulls: Option<&NullBuffer>) -> Result<Held> {
        Ok(Held {
            values: stream.upload(codes)?.cast()?,
            bytes: None,
            valid: valid(stream, nulls)?,
            base: 0,
            width: 2,
        })
    }

    /// Values that were made for the device.
    fn copied(stream: &Stream, values: &[u8], nulls: Option<&NullBuffer>, width: u64) -> Result<Held> {
        Ok(Held {
            values: stream.upload(values)?,
            bytes: None,
            valid: valid(stream, nulls)?,
            base: 0,
            width,
        })
    }

    /// Ends and bytes of texts that are not kept so.
    fn texts(stream: &Stream, array: &ArrayRef) -> Result<Held> {
        let (mut ends, mut bytes) = (vec![0u32], vec![]);
        for text in array.as_string_view().iter() {
            bytes.extend_from_slice(text.unwrap_or_default().as_bytes());
            let end = u32::try_from(bytes.len());
            ends.push(end.map_err(|_| GpuError::Invalid("a column of texts of 4 GiB and more".into()))?);
        }
        Ok(Held {
            values: stream.upload(&ends)?.cast()?,
            bytes: Some(stream.upload(&bytes)?),
            valid: valid(stream, array.nulls())?,
            base: 0,
            width: 4,
        })
    }

    /// `codes`: where there are codes, these. The segment and `made` live until the stream was waited for.
    pub fn load((stream, made): (&Stream, &mut Made), segment: &Segment, column: usize, codes: bool) -> Result<Held> {
        let waiting = made.pieces.waiting();
        // Runs are told apart by rows on the device: each row gets its value.
        let expanded = match segment.form(column) {
            Form::RunLength(own) => Some(own.expanded()),
            _ => None,
        };
        let form = expanded
            .as_ref()
            .map_or_else(|| segment.form(column), |expanded| expanded.form());
        let held = Self::of_form((stream, &mut made.pieces), form, (segment, column), codes);
        if held.is_err() {
            made.pieces.forget(waiting);
        }
        if let Some(expanded) = expanded {
            made.keep(stream, expanded, segment.rows())?;
        }
        held
    }

    /// A segment's column that is kept as `form`.
    fn of_form(
        (stream, pieces): (&Stream, &mut Pieces),
        form: Form<'_>,
        (segment, column): (&Segment, usize),
        codes: bool,
    ) -> Result<Held> {
        let refused = || GpuError::Invalid("a column that pipelines do not read".into());
        // SAFETY: these are buffers of the segment, which its table keeps until the caller has waited for the copies, or
        // of what `load` made, which the caller keeps so long.
        let mut put = |bytes: &[u8]| unsafe { pieces.upload_later(stream, bytes) };
        let mut made = |values: &[u8], nulls: Option<&NullBuffer>, base, width| {
            let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
            let valid = nulls.map(|nulls| {
                let bits = nulls.inner();
                match bits.offset() % 8 {
                    0 => put(&bits.values()[bits.offset() / 8..][..bits.len().div_ceil(8)]),
                    _ => stream.upload(bits.sliced().as_slice()),
                }
            });
            Ok(Held {
                values: put(values)?,
                bytes: None,
                valid: valid.transpose()?,
                base,
                width,
            })
        };
        match form {
            Form::Narrow(own) => {
                let (values, width) = match own.differences() {
                    Differences::None(_) => (&[][..], 0),
                    Differences::U8(values) => (values.inner().as_slice(), 1),
                    Differences::U16(values) => (values.inner().as_slice(), 2),
                    Differences::U32(values) => (values.inner().as_slice(), 4),
                    Differences::U64(values) => (values.inner().as_slice(), 8),
                };
                made(values, own.nulls(), own.base(), width)
            }
            // Of a column that has texts in other segments.
            Form::Dictionary(_) if !codes => Held::texts(stream, &segment.column(column)),
            Form::Dictionary(own) => {
                let (values, width) = match &own.codes {
                    Codes::U8(codes) => (codes.inner().as_slice(), 1),
                    Codes::U16(codes) => (codes.inner().as_slice(), 2),
                    // Of a column with more values than have codes on the device.
                    Codes::U32(_) => return Err(refused()),
                };
                made(values, own.nulls.as_ref(), 0, width)
            }
            Form::Text(own) => {
                let ends = made(own.offsets().inner().as_slice(), own.nulls(), 0, 4)?;
                Ok(Held {
                    bytes: Some(put(own.data().as_slice())?),
                    ..ends
                })
            }
            Form::Plain(array) => {
                let nulls = array.nulls();
                if let Some(width) = width(&form) {
                    let (data, bytes) = (array.to_data(), width.bytes() as usize);
                    let values = &data.buffers()[0].as_slice()[data.offset() * bytes..][..array.len() * bytes];
                    return made(values, nulls, 0, width.code());
                }
                match array.data_type() {
                    DataType::Float64 => {
                        let values = array.as_primitive::<Float64Type>().values();
                        made(values.inner().as_slice(), nulls, 0, 8)
                    }
                    DataType::Float32 => {
                        let values = array.as_primitive::<Float32Type>().values();
                        made(values.inner().as_slice(), nulls, 0, 4)
                    }
                    DataType::Boolean => {
                        let bits = array.as_boolean().values().sliced();
                        Held::copied(stream, bits.as_slice(), nulls, 0)
                    }
                    DataType::Utf8View => Held::texts(stream, array),
                    _ => Err(refused()),
                }
            }
            Form::RunLength(_) => Err(refused()),
        }
    }

    pub fn bytes(&self) -> u64 {
        let others = [&self.bytes, &self.valid].into_iter().flatten();
        self.values.bytes() + others.map(DeviceBuffer::bytes).sum::<u64>()
    }

    pub fn descriptor(&self) -> SegmentColumn {
        let address = |buffer: &Option<DeviceBuffer<u8>>| buffer.as_ref().map_or(0, |buffer| buffer.ptr().0);
        SegmentColumn {
            values: self.values.ptr().0,
            bytes: address(&self.bytes),
            valid: address(&self.valid),
            base_low: self.base as u64,
            base_high: (self.base >> 64) as u64,
            width: self.width,
        }
    }
}
