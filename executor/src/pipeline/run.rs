//! A fragment's run on the device: its columns and arrays are made ready, its pipelines put into one stream, and the host waits
//! for the result.
//!
//! More than 400 lines because a run is one thing: what it holds must live until it has ended.

use std::collections::HashMap;
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tenon_gpu::memory::{DeviceBuffer, DevicePtr, DevicePtrMut, Element, Together};
use tenon_gpu::number::Reduction;
use tenon_gpu::pipeline::{IterationSpace, Launch, Loaded, PipelineCode, launch};
use tenon_gpu::primitives::gather::gather;
use tenon_gpu::primitives::scan::exclusive_scan;
use tenon_gpu::primitives::sort::{SortOptions, sort_indices, sort_pairs};
use tenon_gpu::{Device, Event, GpuError, Result, Stream};

use super::columns::{TableColumn, Tiles, table_columns, table_tiles, with_room};
use super::fragment::{ArraySpec, Fragment, Input, Pipeline, Scan, Source, Step};
use super::order_steps::{Order, Sums};
use super::orders::TableOrder;
use super::passes::Stage;
use super::sorted;
use super::streamed::{Chunk, Streamed, stream as stream_through, tiles_of};

/// Threads that compile a fragment's pipelines.
const COMPILERS_MAX: usize = 8;

/// How long a run is looked at all the time, before who waits for it sleeps between looks: a sleep may last two milliseconds.
const LOOK_FOR: Duration = Duration::from_millis(30);

/// What of a fragment's pipelines is the same in every run: their code on the device, and the texts, literals of texts and
/// functions of codes that it reads.
pub struct Ready(Vec<(Loaded, Vec<DeviceBuffer<u8>>)>);

impl Ready {
    pub fn new(fragment: &Fragment, device: &Device) -> Result<Self> {
        load_together(fragment, device);
        let stream = device.stream()?;
        if fragment.sorts || fragment.waits(|_| false) {
            sorted::prepare(&stream)?;
        }
        let ready = |step: &Pipeline| {
            let constants = step.buffers.iter().map(|buffer| {
                // SAFETY: the fragment holds the buffer, and the stream is waited for below.
                with_room(&stream, || unsafe { stream.upload_later(buffer.as_slice()) })
            });
            Ok((Loaded::new(device, &step.code)?, constants.collect::<Result<_>>()?))
        };
        let steps: Result<_> = fragment.steps.iter().filter_map(Step::pipeline).map(ready).collect();
        stream.synchronize()?;
        Ok(Self(steps?))
    }
}

/// Compiles what of a fragment is not loaded yet, several pipelines at a time. What fails is met again by who needs it.
fn load_together(fragment: &Fragment, device: &Device) {
    let codes = fragment.steps.iter().filter_map(Step::pipeline).map(|step| &step.code);
    let new: Vec<&PipelineCode> = codes.filter(|code| !device.is_loaded(&code.program())).collect();
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = new.len().min((cores / 2).clamp(2, COMPILERS_MAX));
    if threads < 2 {
        return;
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(code) = new.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if Loaded::new(device, code).is_err() {
                        return;
                    }
                }
            });
        }
    });
}

/// Where something begins that the host reads: the array and the byte.
pub type Part = (usize, u64);

/// Bytes of each part that come with the news that all pipelines have ended.
const EARLY_BYTES: u64 = 16 << 10;

/// A fragment whose pipelines are in a stream.
pub struct Running {
    stream: Stream,
    /// Where each array is, and its bytes.
    places: Vec<(usize, u64)>,
    memory: Vec<Memory>,
    /// What is kept of tables' rows in order, by step.
    orders: HashMap<usize, Arc<TableOrder>>,
    failed: DeviceBuffer<u32>,
    /// Whether some row failed, and the beginnings of what the host reads.
    early: Option<(Together, HashMap<Part, usize>)>,
    scans: Vec<OnDevice>,
    ready: Arc<Ready>,
    /// Before arrays are set; behind that (0), and behind each step (from 1 on).
    marks: Vec<(usize, Event)>,
    /// The pass at hand, and the row counts of tables of those before.
    pass: u64,
    of_passes: Vec<(Vec<usize>, Together)>,
    ended: bool,
    /// How many rows tables have of which the host knows it, by the array of their count.
    counts: HashMap<usize, u64>,
    /// The array of each table's row count and its room, and where these counts go.
    tables: Vec<(usize, u64)>,
    rows: Arc<TableRows>,
}

/// How many rows the tables of a fragment had in a run; more than a table has room for, where that was why it failed.
#[derive(Default)]
pub struct TableRows(OnceLock<Vec<u64>>);

impl TableRows {
    /// None: nobody has asked, or the run has not come to an end.
    pub fn known(&self) -> Option<&[u64]> {
        self.0.get().map(Vec::as_slice)
    }
}

/// What arrays lie in.
enum Memory {
    Own(DeviceBuffer<u8>),
    /// Words of a kept order, which runs share, its rows, or how many there are.
    Words(Arc<TableOrder>),
    Rows(Arc<TableOrder>),
    Count(Arc<TableOrder>),
}

impl Memory {
    fn read(&self) -> &DeviceBuffer<u8> {
        match self {
            Self::Own(own) => own,
            Self::Words(order) => &order.words,
            Self::Rows(order) => &order.rows,
            Self::Count(order) => &order.count,
        }
    }

    fn write(&mut self) -> Result<&mut DeviceBuffer<u8>> {
        match self {
            Self::Own(own) => Ok(own),
            _ => Err(GpuError::Invalid("an order that others read is not written".into())),
        }
    }
}

/// A scan's columns and tiles.
pub struct OnDevice {
    columns: Vec<(usize, Arc<TableColumn>)>,
    tiles: Arc<Tiles>,
}

impl OnDevice {
    pub fn of(stream: &Stream, scan: &Scan) -> Result<Self> {
        let columns = table_columns(stream, &scan.table, &scan.columns)?;
        Ok(Self {
            columns: scan.columns.iter().copied().zip(columns).collect(),
            tiles: table_tiles(stream, &scan.table)?,
        })
    }
}

impl Running {
    /// `streamed`: which scans' columns go to the device in chunks.
    pub fn start(
        fragment: &Fragment,
        ready: Arc<Ready>,
        device: &Device,
        streamed: &Streamed,
        rows: &Arc<TableRows>,
        cancelled: &AtomicBool,
    ) -> Result<Running> {
        let stream = device.stream()?;
        let mut scans = vec![];
        for (at, scan) in fragment.scans.iter().enumerate() {
            check(cancelled)?;
            scans.push(match streamed.of(at) {
                Some(_) => OnDevice {
                    columns: vec![],
                    tiles: table_tiles(&stream, &scan.table)?,
                },
                None => OnDevice::of(&stream, scan)?,
            });
        }
        let begun = stream.record()?;
        let layout = fragment.layout();
        let memory = layout
            .slots
            .iter()
            .map(|bytes| with_room(&stream, || stream.alloc::<u8>(*bytes)).map(Memory::Own));
        let memory = memory.collect::<Result<Vec<_>>>()?;
        let bytes = fragment.arrays.iter().map(|spec| spec.bytes);
        let kept = fragment.steps.iter().enumerate().filter_map(|(at, step)| match step {
            Step::Order(own) => Some((at, own.kept.as_ref()?.0.get(fragment)?)),
            _ => None,
        });
        let mut running = Running {
            failed: with_room(&stream, || stream.alloc_zeroed(1))?,
            early: None,
            stream,
            places: layout.slot_of.iter().copied().zip(bytes).collect(),
            memory,
            orders: kept.collect(),
            scans,
            ready,
            marks: vec![(0, begun)],
            pass: 0,
            of_passes: vec![],
            ended: false,
            counts: HashMap::new(),
            tables: fragment.tables.clone(),
            rows: Arc::clone(rows),
        };
        for &array in &layout.set_first {
            running.set(array, &fragment.arrays[array])?;
        }
        running.mark(0)?;
        let passes = fragment.in_passes();
        running.run(fragment, 0..passes.start, streamed, cancelled)?;
        for pass in fragment.passes().map_or(0..0, |own| 0..own.count) {
            running.pass = pass;
            running.run(fragment, passes.clone(), streamed, cancelled)?;
            running.tables_of_pass(fragment)?;
        }
        running.run(fragment, passes.end..fragment.steps.len(), streamed, cancelled)?;
        running.early = Some(running.early(&fragment.results)?);
        Ok(running)
    }

    /// Puts some of the steps into the stream.
    fn run(
        &mut self,
        fragment: &Fragment,
        steps: Range<usize>,
        streamed: &Streamed,
        cancelled: &AtomicBool,
    ) -> Result<()> {
        let layout = fragment.layout();
        let is_pipeline = |step: &&Step| step.pipeline().is_some();
        let mut pipelines = fragment.steps[..steps.start].iter().filter(is_pipeline).count();
        for at in steps {
            check(cancelled)?;
            for &array in &layout.set_before[at] {
                let spec = &fragment.arrays[array];
                if self.pass == 0 || spec.in_pass || fragment.stages[at] != Stage::Pass {
                    self.set(array, spec)?;
                }
            }
            match &fragment.steps[at] {
                Step::Pipeline(own) if self.is_kept(fragment, own) => pipelines += 1,
                Step::Pipeline(own) => {
                    let chunked = match own.source {
                        Source::Scan(scan) => streamed.of(scan),
                        _ => None,
                    };
                    match chunked {
                        Some(chunked) => {
                            let source = (&fragment.scans[chunked.scan], chunked, self.pass);
                            let launch = |chunk: &Chunk| self.launch(fragment, pipelines, own, Some(chunk));
                            stream_through(source, &self.stream, cancelled, launch)?;
                        }
                        None => self.launch(fragment, pipelines, own, None)?,
                    }
                    pipelines += 1;
                }
                Step::Order(own) => self.put_in_order(fragment, at, own, cancelled)?,
                Step::Sums(own) => self.add_up(own, cancelled)?,
            }
            self.mark(at + 1)?;
        }
        Ok(())
    }

    /// Whether a pipeline is for nothing but an order that is kept.
    fn is_kept(&self, fragment: &Fragment, step: &Pipeline) -> bool {
        let is_own = |order: &Order| order.words.iter().any(|(words, _)| Some(*words) == step.words_of_order);
        self.orders.keys().any(|at| match &fragment.steps[*at] {
            Step::Order(order) => is_own(order),
            _ => false,
        })
    }

    /// What is in the stream up to here was, since the last mark, for arrays (0) or a step (from 1 on).
    fn mark(&mut self, of: usize) -> Result<()> {
        self.marks.push((of, self.stream.record()?));
        Ok(())
    }

    /// The row counts of the tables that the next pass makes anew.
    fn tables_of_pass(&mut self, fragment: &Fragment) -> Result<()> {
        let own = (0..self.tables.len()).filter(|&table| fragment.arrays[self.tables[table].0].in_pass);
        let own: Vec<usize> = own.collect();
        let parts: Vec<(u64, usize)> = own.iter().map(|&table| self.count_part(self.tables[table].0)).collect();
        // SAFETY: parts of this run's arrays, which are kept until the stream is waited for.
        let counts = unsafe { self.stream.download_together(&parts) }?;
        self.of_passes.push((own, counts));
        Ok(())
    }

    fn count_part(&self, count: usize) -> (u64, usize) {
        (self.array(count).ptr().0, size_of::<u32>())
    }

    fn array(&self, array: usize) -> &DeviceBuffer<u8> {
        self.memory[self.places[array].0].read()
    }

    fn set(&mut self, array: usize, spec: &ArraySpec) -> Result<()> {
        let Some(byte) = spec.fill else { return Ok(()) };
        let (slot, bytes) = self.places[array];
        self.stream
            .set_bytes(self.memory[slot].write()?.view_mut().slice(0..bytes)?, byte)
    }

    fn early(&self, results: &[Part]) -> Result<(Together, HashMap<Part, usize>)> {
        let mut parts = vec![(self.failed.ptr().0, size_of::<u32>())];
        let mut known = HashMap::new();
        for &(array, first) in results {
            let bytes = self.places[array].1.saturating_sub(first).min(EARLY_BYTES);
            known.entry((array, first)).or_insert_with(|| {
                parts.push((self.array(array).ptr().0 + first, bytes as usize));
                parts.len() - 1
            });
        }
        // SAFETY: parts of this run's arrays, which are kept until the stream is waited for.
        Ok((unsafe { self.stream.download_together(&parts) }?, known))
    }

    /// All pipelines have ended: tells how many rows each table has.
    pub fn note_rows(&mut self) -> Result<()> {
        let rows = self.table_rows()?;
        // What is known already is the same.
        let _ = self.rows.0.set(rows);
        Ok(())
    }

    fn table_rows(&mut self) -> Result<Vec<u64>> {
        let parts: Vec<(u64, usize)> = self.tables.iter().map(|(count, _)| self.count_part(*count)).collect();
        // SAFETY: parts of this run's arrays, which are kept until all has come.
        let mut counts = unsafe { self.stream.download_together(&parts) }?;
        counts.wait()?;
        let rows = (0..parts.len()).filter_map(|part| counts.elements::<u32>(part, 1));
        let mut rows: Vec<u64> = rows.flatten().map(u64::from).collect();
        for (tables, counts) in &mut self.of_passes {
            counts.wait()?;
            for (part, table) in tables.iter().enumerate() {
                let count = counts.elements::<u32>(part, 1).and_then(|own| own.first().copied());
                rows[*table] = rows[*table].max(count.unwrap_or(0).into());
            }
        }
        Ok(rows)
    }

    /// Why a pipeline failed. If a table was full it is told which.
    fn failure(&mut self) -> Result<GpuError> {
        let rows = self.table_rows()?;
        let full = rows.iter().zip(&self.tables).any(|(rows, (_, room))| rows > room);
        if full {
            let _ = self.rows.0.set(rows);
        }
        Ok(match full {
            true => GpuError::TableFull,
            false => GpuError::RowFailed,
        })
    }

    /// How many rows a table has, once all pipelines before have ended.
    fn count(&mut self, count: usize, rows_max: u64, cancelled: &AtomicBool) -> Result<u64> {
        if let Some(rows) = self.counts.get(&count) {
            return Ok(*rows);
        }
        wait_for(&self.stream, cancelled)?;
        let failed = self.stream.download(self.failed.view())?;
        if failed != [0] {
            return Err(self.failure()?);
        }
        let counted = self.array(count).view().cast::<u32>()?.slice(0..1)?;
        let rows = self.stream.download(counted)?.first().copied().unwrap_or(0);
        let rows = u64::from(rows).min(rows_max);
        self.counts.insert(count, rows);
        Ok(rows)
    }

    fn put_in_order(&mut self, fragment: &Fragment, at: usize, step: &Order, cancelled: &AtomicBool) -> Result<()> {
        if let Some((of, words)) = &step.kept {
            let order = match self.orders.remove(&at) {
                Some(order) => order,
                None => {
                    let Some(order) = self.table_order(step, cancelled)? else {
                        return Ok(());
                    };
                    of.keep(fragment, &order);
                    order
                }
            };
            self.put_at(*words, Memory::Words(Arc::clone(&order)));
            self.put_at(step.count, Memory::Count(Arc::clone(&order)));
            self.put_at(step.order, Memory::Rows(order));
            return Ok(());
        }
        let rows = self.count(step.count, step.rows_max, cancelled)?;
        if rows > 0 {
            let order = self.order(&step.words, rows)?.cast()?;
            self.put_at(step.order, Memory::Own(order));
        }
        Ok(())
    }

    /// The array lies there from now on.
    fn put_at(&mut self, array: usize, memory: Memory) {
        self.places[array] = (self.memory.len(), memory.read().bytes());
        self.memory.push(memory);
    }

    /// An order for others, too: it is all there. None: there are no rows.
    fn table_order(&mut self, step: &Order, cancelled: &AtomicBool) -> Result<Option<Arc<TableOrder>>> {
        let rows = self.count(step.count, step.rows_max, cancelled)?;
        let &[(words, _)] = &step.words[..] else {
            return Err(GpuError::Invalid("a kept order by several words".into()));
        };
        if rows == 0 {
            return Ok(None);
        }
        let order = self.order(&step.words, rows)?;
        let mut sorted = with_room(&self.stream, || self.stream.alloc::<u64>(rows))?;
        let unordered = self.array(words).view().cast::<u64>()?.slice(0..rows)?;
        gather(&self.stream, unordered, order.view(), sorted.view_mut())?;
        let count = self.stream.upload(&[rows as u32])?.cast()?;
        wait_for(&self.stream, cancelled)?;
        Ok(Some(Arc::new(TableOrder {
            words: sorted.cast()?,
            rows: order.cast()?,
            count,
        })))
    }

    fn add_up(&mut self, step: &Sums, cancelled: &AtomicBool) -> Result<()> {
        let rows = self.count(step.count, step.rows_max, cancelled)?;
        let Ok([from, to]) = self
            .memory
            .get_disjoint_mut([self.places[step.from].0, self.places[step.to].0])
        else {
            return Err(GpuError::Invalid("sums in the place of what is added up".into()));
        };
        let (from, to) = (from.read(), to.write()?);
        macro_rules! sums {
            ($t:ty) => {{
                let from = from.view().cast::<$t>()?.slice(0..rows)?;
                let to = to.view_mut().cast::<$t>()?.slice(0..rows + 1)?;
                exclusive_scan::<$t, $t>(&self.stream, from, to, Reduction::Sum)
            }};
        }
        match step.wide {
            true => sums!(u64),
            false => sums!(u32),
        }
    }

    fn launch(&self, fragment: &Fragment, at: usize, step: &Pipeline, chunk: Option<&Chunk>) -> Result<()> {
        let (code, constants) = &self.ready.0[at];
        let buffers: Vec<_> = constants
            .iter()
            .map(|constant| DevicePtr::new(constant.ptr().0))
            .collect();
        let of_chunk = |input: &Input| match (chunk, input, step.source) {
            (Some(chunk), Input::Column { scan, column }, Source::Scan(own)) if *scan == own => {
                chunk.descriptors(*column)
            }
            _ => None,
        };
        let inputs = step.inputs.iter();
        let inputs: Vec<u64> = inputs
            .map(|input| of_chunk(input).unwrap_or_else(|| self.input(fragment, input)))
            .collect();
        let rows = match step.source {
            Source::Scan(scan) => {
                let all = &self.scans[scan].tiles;
                let own = match (chunk, fragment.segments_of_pass(scan, self.pass)) {
                    (Some(chunk), _) => chunk.tiles.clone(),
                    (None, Some(segments)) => tiles_of(&fragment.scans[scan], &segments),
                    (None, None) => 0..all.len(),
                };
                IterationSpace::Tiles(all.slice(own.clone())?, own.start)
            }
            Source::Made { count, room } => IterationSpace::Made(DevicePtr::new(self.array(count).ptr().0), room),
            Source::Numbers(rows) => IterationSpace::Known(rows),
        };
        let launched = Launch {
            code,
            buffers: &buffers,
            literals: &step.literals,
            inputs: &inputs,
            rows,
            failed: DevicePtrMut::new(self.failed.ptr().0),
        };
        // SAFETY: the code was made for these inputs: it reads rows of the scans' segments and of tables below their row
        // counts, and writes at places below the arrays' lengths; all are kept until the stream is waited for.
        unsafe { launch(&self.stream, &launched) }
    }

    fn input(&self, fragment: &Fragment, input: &Input) -> u64 {
        let bounds = || fragment.passes().map_or((0, 0), |passes| passes.bounds(self.pass));
        match input {
            Input::First => bounds().0 as u64,
            Input::Last => bounds().1 as u64,
            Input::IsFirst => u64::from(self.pass == 0),
            Input::Column { scan, column } => {
                let columns = &self.scans[*scan].columns;
                let found = columns.iter().find(|(own, _)| own == column);
                found.map_or(0, |(_, column)| column.descriptors.ptr().0)
            }
            Input::Tiles(scan) => self.scans[*scan].tiles.ptr().0,
            Input::Array(array) => self.array(*array).ptr().0,
            Input::Number(number) => *number,
        }
    }

    /// Whether all pipelines have ended; an error where some row has no value.
    fn has_ended(&mut self) -> Result<bool> {
        if !self.stream.is_idle()? {
            return Ok(false);
        }
        self.ended = true;
        let failed = match &mut self.early {
            Some((early, _)) => {
                early.wait()?;
                early.elements::<u32>(0, 1)
            }
            None => None,
        };
        match failed.as_deref() {
            Some([0]) => Ok(true),
            _ => Err(self.failure()?),
        }
    }

    /// Waits for all pipelines, and lets others run meanwhile.
    pub async fn ended(&mut self) -> Result<()> {
        let begun = Instant::now();
        while !self.has_ended()? {
            match begun.elapsed() < LOOK_FOR {
                true => tokio::task::yield_now().await,
                false => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
        Ok(())
    }

    /// Waits for all pipelines on a thread of its own.
    pub fn wait(&mut self, cancelled: &AtomicBool) -> Result<()> {
        let begun = Instant::now();
        while !self.has_ended()? {
            check(cancelled)?;
            match begun.elapsed() < LOOK_FOR {
                true => std::thread::yield_now(),
                false => std::thread::sleep(Duration::from_micros(50)),
            }
        }
        Ok(())
    }

    /// Makes pipelines under way end at their next tiles.
    fn stop(&mut self) -> Result<()> {
        let beside = self.stream.device().stream()?;
        beside.set_bytes(self.failed.view_mut(), 1)?;
        beside.synchronize()
    }

    /// How long setting arrays took, and each step; all are done.
    pub fn times(&self) -> Result<Vec<Duration>> {
        let steps = self.marks.iter().map(|(of, _)| of + 1).max().unwrap_or(0);
        let mut times = vec![Duration::ZERO; steps];
        for pair in self.marks.windows(2) {
            let (of, end) = &pair[1];
            let took = end.elapsed_ms_since(&pair[0].1)?.max(0.0) / 1e3;
            times[*of] += Duration::from_secs_f32(took);
        }
        Ok(times)
    }

    /// The first words of an array.
    pub fn words<T: Element>(&self, array: usize, words: usize) -> Result<Vec<T>> {
        self.words_from(array, 0, words)
    }

    /// The words of an array at these places.
    pub fn words_in<T: Element>(&self, array: usize, places: &DeviceBuffer<u32>) -> Result<Vec<T>> {
        let stream = &self.stream;
        let mut picked = with_room(stream, || stream.alloc::<T>(places.len()))?;
        let view = self.array(array).view().cast::<T>()?;
        gather(stream, view, places.view(), picked.view_mut())?;
        stream.download(picked.view())
    }

    /// Places on the host.
    pub fn places(&self, places: &DeviceBuffer<u32>) -> Result<Vec<u32>> {
        self.stream.download(places.view())
    }

    /// The places of so many rows in the order of their words: arrays of these, and the low bits that count of each.
    pub fn order(&self, words: &[(usize, u32)], rows: u64) -> Result<DeviceBuffer<u32>> {
        let stream = &self.stream;
        let mut order: Option<DeviceBuffer<u32>> = None;
        for (array, bits) in words.iter().rev() {
            let words = self.array(*array).view().cast::<u64>()?.slice(0..rows)?;
            let options = SortOptions::default().bits(0..*bits);
            let mut next = with_room(stream, || stream.alloc::<u32>(rows))?;
            match &order {
                None => with_room(stream, || sort_indices(stream, words, next.view_mut(), &options))?,
                Some(before) => {
                    let mut keys = with_room(stream, || stream.alloc::<u64>(rows))?;
                    gather(stream, words, before.view(), keys.view_mut())?;
                    let mut sorted = with_room(stream, || stream.alloc::<u64>(rows))?;
                    with_room(stream, || {
                        let (keys, places) = (keys.view(), before.view());
                        sort_pairs(stream, keys, places, sorted.view_mut(), next.view_mut(), &options)
                    })?;
                }
            }
            order = Some(next);
        }
        order.ok_or_else(|| GpuError::Invalid("an order by nothing".into()))
    }

    /// So many words of an array from one on.
    pub fn words_from<T: Element>(&self, array: usize, first: u64, words: usize) -> Result<Vec<T>> {
        if let Some((early, known)) = &self.early
            && let Some(part) = known.get(&(array, first * size_of::<T>() as u64))
            && let Some(words) = early.elements(*part, words)
        {
            return Ok(words);
        }
        let view = self.array(array).view().cast::<T>()?;
        self.stream.download(view.slice(first..first + words as u64)?)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nobody wants the result; columns may be given up as soon as nobody holds them.
        let stopped = if self.ended { Ok(()) } else { self.stop() };
        if let Err(error) = stopped.and_then(|()| self.stream.synchronize()) {
            tracing::error!(%error, "waiting for a pipeline");
        }
    }
}

/// Waits for what is in a stream.
fn wait_for(stream: &Stream, cancelled: &AtomicBool) -> Result<()> {
    let begun = Instant::now();
    while !stream.is_idle()? {
        check(cancelled)?;
        match begun.elapsed() < LOOK_FOR {
            true => std::thread::yield_now(),
            false => std::thread::sleep(Duration::from_micros(50)),
        }
    }
    Ok(())
}

fn check(cancelled: &AtomicBool) -> Result<()> {
    match cancelled.load(Ordering::Relaxed) {
        true => Err(GpuError::Cancelled),
        false => Ok(()),
    }
}
