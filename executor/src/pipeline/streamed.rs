//! A fragment whose columns do not fit device memory: its largest scan goes there a few segments at a time, under the pipeline
//! that reads it, while the groups and tables that this makes stay; the next largest, too, until all fits.
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

use super::columns::{Held, Made, with_room};
use super::fragment::{Fragment, Input, Scan, Source, Step};
use super::stored::{Stored, bytes};
use crate::counts::COUNTS;

/// A chunk is not larger: the first is not waited for long, and what is done with the last once all are copied is little.
const CHUNK_BYTES_MAX: u64 = 64 << 20;
/// Chunks that are on the device at once, where there is room: one is read, one is copied, and others may wait.
const CHUNKS_AT_ONCE: [u64; 3] = [4, 3, 2];

/// A scan that goes to the device in chunks, and the segments of each.
pub struct StreamedScan {
    pub scan: usize,
    /// Of each pass that differs from others.
    chunks: Vec<Vec<Range<usize>>>,
    /// How many are on the device at once.
    at_once: usize,
}

impl StreamedScan {
    fn of_pass(&self, pass: u64) -> &[Range<usize>] {
        let last = self.chunks.len().saturating_sub(1);
        self.chunks.get(last.min(pass as usize)).map_or(&[], Vec::as_slice)
    }

    /// How many there are in all.
    pub fn chunks(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }
}

/// The scans that do, and the bytes of all of them together.
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
            // Their pipelines run one after the other: each has all of the room.
            let room = limit.saturating_sub(rest(&largest[..taken]));
            let chunked = largest[..taken].iter().map(|&scan| {
                let segments = fragment.scans[scan].table.segments();
                let rows: Vec<u64> = segments.iter().map(|segment| segment.rows() as u64).collect();
                let passes = match fragment.segments_of_pass(scan, 0) {
                    Some(_) => fragment.passes().map_or(1, |passes| passes.count),
                    None => 1,
                };
                let part = |pass: u64| fragment.segments_of_pass(scan, pass).unwrap_or(0..rows.len());
                let parts: Vec<Range<usize>> = (0..passes).map(part).collect();
                let fits = |&at_once: &u64| {
                    let of = |part: &Range<usize>| chunks(&rows, part, sizes[scan], room / at_once);
                    Some((at_once, parts.iter().map(of).collect::<Option<Vec<_>>>()?))
                };
                let (at_once, chunks) = CHUNKS_AT_ONCE.iter().find_map(fits)?;
                let at_once = at_once as usize;
                Some(StreamedScan { scan, chunks, at_once })
            });
            if let Some(scans) = chunked.collect() {
                let bytes = |&scan: &usize| (sizes[scan] as f64 * fragment.reads(scan)) as u64;
                let bytes = largest[..taken].iter().map(bytes).sum();
                return Ok(Self { bytes, scans });
            }
        }
        let mb = |bytes: u64| bytes >> 20;
        let (arrays, tables) = (mb(fragment.array_bytes()), mb(all - fragment.array_bytes()));
        Err(format!(
            "{arrays} MiB of device memory beside {tables} of columns, {} are there",
            mb(limit)
        ))
    }

    pub fn is_empty(&self) -> bool {
        self.scans.is_empty()
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

/// Some of the segments of so many rows, which have so many bytes together, in chunks that fit the room; None: one alone does
/// not.
fn chunks(rows: &[u64], part: &Range<usize>, bytes: u64, room: u64) -> Option<Vec<Range<usize>>> {
    let all = rows.iter().sum::<u64>().max(1);
    let chunk = room.min(CHUNK_BYTES_MAX);
    let mut chunks: Vec<Range<usize>> = vec![];
    let mut taken = 0;
    for at in part.clone() {
        let rows = &rows[at];
        let own = (u128::from(bytes) * u128::from(*rows) / u128::from(all)) as u64;
        if own > room {
            return None;
        }
        match chunks.last_mut().filter(|_| taken + own <= chunk) {
            Some(last) => {
                last.end = at + 1;
                taken += own;
            }
            None => {
                chunks.push(at..at + 1);
                taken = own;
            }
        }
    }
    Some(chunks)
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
    !fragment.steps.iter().any(late) && !own.columns.iter().any(few)
}

/// Some segments' columns on the device.
pub struct Chunk {
    columns: Vec<usize>,
    /// The descriptors of each column, one after the other, of all segments: those of others are empty.
    descriptors: DeviceBuffer<SegmentColumn>,
    /// Which of the table's tiles it has.
    pub tiles: Range<u64>,
    _held: Vec<Held>,
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
        let bytes = self.descriptors.bytes() / self.columns.len() as u64;
        Some(self.descriptors.ptr().0 + at as u64 * bytes)
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
        Ok(Self {
            columns: scan.columns.clone(),
            descriptors,
            tiles: tiles_of(scan, segments),
            _held: held,
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

/// Launches a pipeline for each chunk, and waits for the last.
pub fn stream(
    (scan, streamed, pass): (&Scan, &StreamedScan, u64),
    computing: &Stream,
    cancelled: &AtomicBool,
    mut launch: impl FnMut(&Chunk) -> Result<()>,
) -> Result<()> {
    let copying = computing.device().stream()?;
    let mut under_way: VecDeque<(Chunk, Event)> = VecDeque::new();
    let mut run = || {
        for segments in streamed.of_pass(pass) {
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
    use super::chunks;

    #[test]
    fn chunks_have_all_segments_once_and_fit() {
        for (segments, room) in [(1, 5), (5, 5), (64, 50), (64, 10)] {
            let found = chunks(&vec![1000; segments], &(0..segments), 5 * segments as u64, room)
                .expect("each segment has 5 bytes");
            let all: Vec<usize> = found.iter().cloned().flatten().collect();
            assert_eq!(all, (0..segments).collect::<Vec<_>>());
            assert!(
                found.iter().all(|chunk| chunk.len() as u64 * 5 <= room),
                "{found:?} of {room}"
            );
        }
        assert_eq!(chunks(&[1000; 3], &(0..3), 15, 4), None, "no segment fits");
        assert_eq!(chunks(&[], &(0..0), 0, 0), Some(vec![]));
    }
}
