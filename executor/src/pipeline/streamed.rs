//! A fragment whose columns do not fit device memory: its largest scan goes there a few segments at a time, under the pipeline
//! that reads it, while the groups and tables that this makes stay; the next largest, too, until all fits. As many of the first
//! segments as there is room for stay, too, so that the bus has the rest alone: what little memory costs is in proportion.
//!
//! More than 400 lines because how the room is divided and what is done with it are told together.
//!
//! Copies are in a stream of their own: while one chunk is read, the next is copied.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tenon_gpu::memory::{DeviceBuffer, PinnedBuffer};
use tenon_gpu::pipeline::{SegmentColumn, tiles};
use tenon_gpu::{Event, GpuError, Result, Stream};
use tenon_storage::Segment;

use super::columns::{Held, Made, TableColumn, are_there, first_segments, with_room};
use super::fragment::{Fragment, Input, Scan, Source, Step};
use super::stored::{Stored, bytes};
use crate::counts::COUNTS;

/// A chunk is not larger: the first is not waited for long, and what is done with the last once all are copied is little; and
/// not smaller but for little room: the host takes as long for one as the bus for some 10 MiB.
const CHUNK_BYTES: Range<u64> = 16 << 20..64 << 20;
/// A chunk takes so much of the room, all together about an eighth: the rest is for what stays.
const CHUNK_OF_ROOM: u64 = 32;
/// Chunks of the least size leave so much of the room, or have all of it.
const LEFT_OF_ROOM: u64 = 4;
/// What stays leaves so much of its room: segments are not of the same size.
const SPARE_OF_ROOM: u64 = 16;
/// Chunks that are on the device at once, where there is room: one is read, one is copied, and others may wait.
const CHUNKS_AT_ONCE: [u64; 3] = [4, 3, 2];

/// A scan that goes to the device in chunks, and the segments of each.
pub struct StreamedScan {
    pub scan: usize,
    /// Of each pass that differs from others.
    passes: Vec<PassOfScan>,
    /// How many chunks are on the device at once.
    at_once: usize,
    /// How many of the first segments stay there.
    kept: usize,
}

/// The segments that a pass reads.
struct PassOfScan {
    /// Those that stay.
    kept: Range<usize>,
    /// Of each chunk.
    chunks: Vec<Range<usize>>,
}

impl StreamedScan {
    fn of_pass(&self, pass: u64) -> Option<&PassOfScan> {
        let last = self.passes.len().saturating_sub(1);
        self.passes.get(last.min(pass as usize))
    }

    /// How many there are in all.
    pub fn chunks(&self) -> usize {
        self.passes.iter().map(|pass| pass.chunks.len()).sum()
    }
}

/// The scans that do, and the bytes of all their chunks together.
#[derive(Default)]
pub struct Streamed {
    pub bytes: u64,
    scans: Vec<StreamedScan>,
}

impl Streamed {
    /// How a fragment, of whose scans' columns these are the bytes, keeps within so many bytes; of no scans: as it is.
    pub fn within(fragment: &Fragment, columns: &[Vec<u64>], limit: u64) -> std::result::Result<Self, String> {
        let sizes: Vec<u64> = columns.iter().map(|bytes| bytes.iter().sum()).collect();
        let rest = |chunked: &[usize]| resident(fragment, columns, chunked).saturating_add(fragment.array_bytes());
        let all = rest(&[]);
        if all <= limit {
            return Ok(Self::default());
        }
        let mut largest: Vec<usize> = (0..sizes.len()).filter(|&scan| is_streamable(fragment, scan)).collect();
        largest.sort_by_key(|&scan| std::cmp::Reverse(sizes[scan]));
        for taken in 1..=largest.len() {
            let chosen = &largest[..taken];
            let sizes = chosen.iter().map(|&scan| (scan, sizes[scan]));
            if let Some(streamed) = Self::of_scans(fragment, sizes, limit.saturating_sub(rest(chosen))) {
                return Ok(streamed);
            }
        }
        let mb = |bytes: u64| bytes >> 20;
        let (arrays, tables) = (mb(fragment.array_bytes()), mb(all - fragment.array_bytes()));
        Err(format!(
            "{arrays} MiB of device memory beside {tables} of columns, {} are there",
            mb(limit)
        ))
    }

    /// Scans of so many bytes in chunks within so much room: their pipelines run one after the other, so each has all of it for
    /// its chunks, and what these leave is for segments that stay. None: some segment alone is too large.
    fn of_scans(fragment: &Fragment, sizes: impl Iterator<Item = (usize, u64)>, room: u64) -> Option<Self> {
        let scans: Vec<SizedScan> = sizes
            .map(|(scan, bytes)| SizedScan::new(fragment, scan, bytes))
            .collect();
        let usual = (room / CHUNK_OF_ROOM).clamp(CHUNK_BYTES.start, CHUNK_BYTES.end);
        let largest = |chunk: u64| scans.iter().map(|scan| scan.largest(chunk)).max().unwrap_or(0);
        // Little room is all for chunks, but for one more that stays, or what segments take that are not divided.
        let leaves = CHUNKS_AT_ONCE[0] * usual <= room - room / LEFT_OF_ROOM;
        let usual = leaves.then_some((CHUNKS_AT_ONCE[0], usual));
        let smaller = CHUNKS_AT_ONCE.map(|at_once| (at_once, CHUNK_BYTES.end.min(room / (at_once + 1))));
        let fits = |&(at_once, chunk): &(u64, u64)| at_once * largest(chunk) <= room;
        let (at_once, chunk) = usual.into_iter().chain(smaller).find(fits)?;
        let largest = largest(chunk);
        let mut spare = room.saturating_sub(at_once * largest);
        spare -= spare / SPARE_OF_ROOM;
        // Those first that passes read most often.
        let mut order: Vec<usize> = (0..scans.len()).collect();
        order.sort_by(|&a, &b| scans[b].reads.total_cmp(&scans[a].reads));
        let mut kept = vec![0; scans.len()];
        for at in order {
            kept[at] = scans[at].first_within(spare);
            spare -= scans[at].bytes_of(0..kept[at]);
        }
        let mut streamed = Self::default();
        for (scan, kept) in scans.into_iter().zip(kept) {
            let passes: Vec<PassOfScan> = scan.parts.iter().map(|part| scan.pass(part, kept, chunk)).collect();
            let of_pass = |pass: &PassOfScan| pass.chunks.iter().cloned().map(|own| scan.bytes_of(own)).sum::<u64>();
            let bytes = passes.iter().map(of_pass).sum::<u64>() as f64;
            // One pass stands for all that are the same.
            let times = if passes.len() == 1 { scan.reads } else { 1.0 };
            streamed.bytes = streamed.bytes.saturating_add((bytes * times) as u64);
            streamed.scans.push(StreamedScan {
                scan: scan.scan,
                passes,
                at_once: at_once as usize,
                kept,
            });
        }
        Some(streamed)
    }

    pub fn is_empty(&self) -> bool {
        self.scans.is_empty()
    }

    /// Whether all that stays is there.
    pub fn is_there(&self, fragment: &Fragment) -> bool {
        self.scans.iter().all(|own| {
            let scan = &fragment.scans[own.scan];
            let there = |&column: &usize| own.kept == 0 || are_there(&scan.table, column, own.kept);
            scan.columns.iter().all(there)
        })
    }

    /// A scan's chunks, if it goes there in such.
    pub fn of(&self, scan: usize) -> Option<&StreamedScan> {
        self.scans.iter().find(|own| own.scan == scan)
    }
}

/// Bytes of the columns of all scans but those in chunks: what several scans read is there once.
fn resident(fragment: &Fragment, columns: &[Vec<u64>], chunked: &[usize]) -> u64 {
    let mut known = HashSet::new();
    let mut sum = 0u64;
    for (at, scan) in fragment.scans.iter().enumerate() {
        if chunked.contains(&at) {
            continue;
        }
        for (column, bytes) in scan.columns.iter().zip(&columns[at]) {
            if known.insert((Arc::as_ptr(&scan.table), *column)) {
                sum = sum.saturating_add(*bytes);
            }
        }
    }
    sum
}

/// A scan with the sizes of its segments.
struct SizedScan {
    scan: usize,
    /// Bytes of all segments before each, and of all.
    before: Vec<u64>,
    /// The segments that each pass that differs from others reads.
    parts: Vec<Range<usize>>,
    /// How often all segments are read.
    reads: f64,
}

impl SizedScan {
    fn new(fragment: &Fragment, scan: usize, bytes: u64) -> Self {
        let segments = fragment.scans[scan].table.segments();
        let passes = match fragment.segments_of_pass(scan, 0) {
            Some(_) => fragment.passes().map_or(1, |passes| passes.count),
            None => 1,
        };
        let part = |pass: u64| fragment.segments_of_pass(scan, pass).unwrap_or(0..segments.len());
        Self {
            scan,
            before: bytes_before(segments.iter().map(|segment| segment.rows() as u64), bytes),
            parts: (0..passes).map(part).collect(),
            reads: fragment.reads(scan),
        }
    }

    fn bytes_of(&self, segments: Range<usize>) -> u64 {
        self.before[segments.end.max(segments.start)] - self.before[segments.start]
    }

    fn segments(&self) -> usize {
        self.before.len() - 1
    }

    /// Bytes of the largest chunk, where these have about so many.
    fn largest(&self, chunk: u64) -> u64 {
        let own = (0..self.segments()).map(|at| self.bytes_of(at..at + 1)).max();
        own.unwrap_or(0).max(chunk.min(self.bytes_of(0..self.segments())))
    }

    /// How many of the first segments have at most so many bytes.
    fn first_within(&self, bytes: u64) -> usize {
        self.before.partition_point(|before| *before <= bytes) - 1
    }

    /// What a pass over some segments reads of those that stay, and in chunks.
    fn pass(&self, part: &Range<usize>, kept: usize, chunk: u64) -> PassOfScan {
        let from = kept.clamp(part.start, part.end.max(part.start));
        let mut chunks: Vec<Range<usize>> = vec![];
        for at in from..part.end {
            match chunks.last_mut() {
                Some(last) if self.bytes_of(last.start..at + 1) <= chunk => last.end = at + 1,
                _ => chunks.push(at..at + 1),
            }
        }
        PassOfScan {
            kept: part.start..from,
            chunks,
        }
    }
}

/// Bytes of all segments before each of those of so many rows, which have so many bytes together, and of all.
fn bytes_before(rows: impl Iterator<Item = u64> + Clone, bytes: u64) -> Vec<u64> {
    let all = rows.clone().sum::<u64>().max(1);
    let share = |rows: u64| (u128::from(bytes) * u128::from(rows) / u128::from(all)) as u64;
    let mut before = vec![0];
    before.extend(rows.scan(0, |sum, rows| {
        *sum += rows;
        Some(share(*sum))
    }));
    before
}

/// Whether one pipeline alone reads a scan's columns, row by row.
fn is_streamable(fragment: &Fragment, scan: usize) -> bool {
    let reads = |input: &Input| match input {
        Input::Column { scan: own, .. } | Input::Tiles(own) => *own == scan,
        _ => false,
    };
    let late = |step: &Step| {
        step.pipeline().is_some_and(|own| match own.source {
            Source::Scan(at) if at == scan => own.inputs.contains(&Input::Tiles(scan)),
            _ => own.inputs.iter().any(reads),
        })
    };
    let own = &fragment.scans[scan];
    let few = |column: &usize| matches!(Stored::of(&own.table, *column), Ok(Stored::Few(_)));
    // Texts that are read where they were must still be there.
    let texts = fragment.texts_of.contains(&scan);
    !texts && !fragment.steps.iter().any(late) && !own.columns.iter().any(few)
}

/// Some segments' columns on the device.
pub struct Chunk {
    columns: Vec<usize>,
    /// Where the descriptors of each column are, of all segments: those of others are empty.
    descriptors: Vec<u64>,
    /// Which of the table's tiles it has.
    pub tiles: Range<u64>,
    _described: Option<DeviceBuffer<SegmentColumn>>,
    _held: Vec<Held>,
    _kept: Vec<Arc<TableColumn>>,
    _copied: Copied,
}

/// What of the host a chunk is copied of, beside segments.
#[derive(Default)]
struct Copied {
    made: Made,
    descriptors: Option<PinnedBuffer<SegmentColumn>>,
}

impl Chunk {
    /// Where the descriptors of a column are.
    pub fn descriptors(&self, column: usize) -> Option<u64> {
        let at = self.columns.iter().position(|own| *own == column)?;
        Some(self.descriptors[at])
    }

    /// Some of the first segments, which stay.
    fn kept(stream: &Stream, scan: &Scan, kept: usize, segments: &Range<usize>) -> Result<Self> {
        let columns = first_segments(stream, &scan.table, &scan.columns, kept)?;
        Ok(Self {
            columns: scan.columns.clone(),
            descriptors: columns.iter().map(|column| column.descriptors.ptr().0).collect(),
            tiles: tiles_of(scan, segments),
            _described: None,
            _held: vec![],
            _kept: columns,
            _copied: Copied::default(),
        })
    }

    /// All of it is there until the stream was waited for.
    fn load(stream: &Stream, scan: &Scan, segments: &Range<usize>) -> Result<Self> {
        let mut copied = Copied::default();
        match Self::load_of(stream, scan, segments, &mut copied) {
            Ok(chunk) => Ok(Self {
                _copied: copied,
                ..chunk
            }),
            Err(error) => {
                // It is being copied.
                let _ = stream.synchronize();
                Err(error)
            }
        }
    }

    fn load_of(stream: &Stream, scan: &Scan, segments: &Range<usize>, copied: &mut Copied) -> Result<Self> {
        let all = scan.table.segments();
        let mut held = vec![];
        // The driver would wait for what is in the stream, to copy from memory that is not pinned.
        let device = stream.device();
        let descriptors = copied
            .descriptors
            .insert(device.pinned((scan.columns.len() * all.len()) as u64)?);
        descriptors.fill(SegmentColumn::default());
        for (own, &column) in descriptors.chunks_exact_mut(all.len().max(1)).zip(&scan.columns) {
            let codes = matches!(Stored::of(&scan.table, column), Ok(Stored::Code(_)));
            for at in segments.clone() {
                let segment: &Segment = &all[at];
                let loaded = with_room(stream, || {
                    Held::load((stream, &mut copied.made), segment, column, codes)
                })?;
                own[at] = loaded.descriptor();
                held.push(loaded);
            }
        }
        // SAFETY: who holds the chunk has them until the stream was waited for.
        let descriptors = with_room(stream, || unsafe { stream.upload_later(descriptors) })?;
        copied.made.send(stream)?;
        COUNTS.bytes_to_device.add(held.iter().map(Held::bytes).sum());
        let bytes = (all.len() * size_of::<SegmentColumn>()) as u64;
        let first = descriptors.ptr().0;
        Ok(Self {
            columns: scan.columns.clone(),
            descriptors: (0..scan.columns.len() as u64).map(|at| first + at * bytes).collect(),
            tiles: tiles_of(scan, segments),
            _described: Some(descriptors),
            _held: held,
            _kept: vec![],
            _copied: Copied::default(),
        })
    }
}

/// The tiles of some of a scan's segments.
pub fn tiles_of(scan: &Scan, segments: &Range<usize>) -> Range<u64> {
    let all = scan.table.segments();
    let before = |end: usize| tiles(all[..end].iter().map(|segment| segment.rows())).len() as u64;
    before(segments.start)..before(segments.end)
}

/// Launches a pipeline for what stays and for each chunk, and waits for the last.
pub fn stream(
    (scan, streamed, pass): (&Scan, &StreamedScan, u64),
    computing: &Stream,
    cancelled: &AtomicBool,
    mut launch: impl FnMut(&Chunk) -> Result<()>,
) -> Result<()> {
    let copying = computing.device().stream()?;
    let Some(own) = streamed.of_pass(pass) else {
        return Ok(());
    };
    let kept = match own.kept.is_empty() {
        true => None,
        false => Some(Chunk::kept(&copying, scan, streamed.kept, &own.kept)?),
    };
    let mut under_way: VecDeque<(Chunk, Event)> = VecDeque::new();
    let mut run = || {
        // Its descriptors are there: they were waited for when they were made.
        kept.as_ref().map_or(Ok(()), &mut launch)?;
        for segments in &own.chunks {
            if cancelled.load(Ordering::Relaxed) {
                return Err(GpuError::Cancelled);
            }
            if under_way.len() == streamed.at_once
                && let Some((_, read)) = under_way.front()
            {
                read.synchronize()?;
                under_way.pop_front();
            }
            let chunk = Chunk::load(&copying, scan, segments)?;
            computing.wait_for(&copying.record()?)?;
            launch(&chunk)?;
            under_way.push_back((chunk, computing.record()?));
        }
        Ok(())
    };
    let done = run();
    // Neither what is copied nor where it goes may be given up before.
    let copied = copying.synchronize();
    let computed = computing.synchronize();
    done.and(copied).and(computed)
}

/// Bytes of the columns of each scan.
pub fn column_bytes(fragment: &Fragment) -> Vec<Vec<u64>> {
    let of = |scan: &Scan| scan.columns.iter().map(|&column| bytes(&scan.table, column)).collect();
    fragment.scans.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::{SizedScan, bytes_before};

    fn scan(rows: &[u64], bytes: u64) -> SizedScan {
        SizedScan {
            scan: 0,
            before: bytes_before(rows.iter().copied(), bytes),
            parts: vec![],
            reads: 1.0,
        }
    }

    #[test]
    fn all_segments_are_read_once_and_chunks_fit() {
        for (segments, chunk, room) in [
            (1, 5, 0),
            (5, 5, 12),
            (64, 50, 99),
            (64, 10, 0),
            (64, 3, 1000),
            (0, 5, 5),
        ] {
            let own = scan(&vec![1000; segments], 5 * segments as u64);
            let kept = own.first_within(room);
            assert!(own.bytes_of(0..kept) <= room);
            assert!(kept == segments || own.bytes_of(0..kept + 1) > room);
            for part in [0..segments, segments / 3..segments / 2, 0..0] {
                let pass = own.pass(&part, kept, chunk);
                let all: Vec<usize> = pass.kept.clone().chain(pass.chunks.iter().cloned().flatten()).collect();
                assert_eq!(all, part.collect::<Vec<_>>());
                assert!(pass.kept.end <= kept || pass.kept.is_empty(), "they are there");
                let fits = |own: &std::ops::Range<usize>| own.len() as u64 * 5 <= chunk.max(5);
                assert!(pass.chunks.iter().all(fits), "{:?} of {chunk}", pass.chunks);
            }
        }
        assert_eq!(
            scan(&[1000, 3000, 1], 8002).largest(10),
            6000,
            "a segment is not divided"
        );
        assert_eq!(scan(&[1000; 4], 400).largest(1000), 400, "there is no more");
    }
}
