//! Sort of strings by their bytes, given by offsets.
//!
//! Words of seven bytes, and how many bytes were left, are sorted as numbers; what is still tied and goes on is sorted
//! by the next word within its group, and so on until nothing is tied. A word tells a string's end from zero bytes,
//! so any bytes and any lengths come out right, and only strings with long common prefixes are read to their ends.

use crate::compile::{Program, Source};
use crate::error::{GpuError, Result};
use crate::launch::LaunchConfig;
use crate::memory::{DeviceBuffer, DevicePtr, DevicePtrMut, DeviceView, DeviceViewMut};
use crate::number::Reduction;
use crate::primitives::fill::Index;
use crate::primitives::gather::{gather, scatter};
use crate::primitives::radix::Order;
use crate::primitives::scan::{exclusive_scan, inclusive_scan};
use crate::primitives::sort::{SortOptions, sort_indices, sort_pairs};
use crate::stream::Stream;
use crate::{kernel_params, source};

kernel_params! {
    /// A word of each string.
    struct WordsParams {
        offsets: DevicePtr<u8>,
        bytes: DevicePtr<u8>,
        indices: DevicePtr<u32>,
        words: DevicePtrMut<u64>,
        items: u64,
        skip: u64,
    }
}
kernel_params! {
    /// Groups of equal strings so far.
    struct TiesParams {
        words: DevicePtr<u64>,
        groups: DevicePtr<u32>,
        heads: DevicePtrMut<u32>,
        tied: DevicePtrMut<u32>,
        items: u64,
    }
}
kernel_params! {
    /// The tied items side by side.
    struct CompactParams {
        tied: DevicePtr<u32>,
        places: DevicePtr<u32>,
        heads: DevicePtr<u32>,
        rows: DevicePtr<u32>,
        positions: DevicePtr<u32>,
        rows_out: DevicePtrMut<u32>,
        positions_out: DevicePtrMut<u32>,
        groups_out: DevicePtrMut<u32>,
        items: u64,
    }
}

static SOURCE: Source = source!("strings.cu", WordsParams, TiesParams, CompactParams);

/// Bytes of a string that one word settles.
const WORD_BYTES: u64 = 7;

fn program(offset: &str) -> Program {
    Program::new(&SOURCE).define("OFFSET", offset)
}

/// Specialisations that the tests compile.
pub fn programs() -> Vec<Program> {
    vec![program("u32"), program("u64")]
}

fn config(items: u64) -> LaunchConfig {
    LaunchConfig::new(items.div_ceil(1024).min(1 << 20) as u32, 256)
}

/// Strings that are equal to a neighbour as far as they were compared.
struct Ties {
    /// Rows, in order of group.
    rows: DeviceBuffer<u32>,
    /// Where each goes in the result; ascending.
    positions: DeviceBuffer<u32>,
    /// Ascending numbers; equal for tied strings.
    groups: DeviceBuffer<u32>,
    /// Significant bits of a group's number.
    group_bits: u32,
}

/// The order of the strings `bytes[offsets[i]..offsets[i + 1]]`: `indices[i]` is the `i`-th smallest, equal ones in
/// input order (in descending order too). Offsets ascend within the bytes. At most 2^32 - 1 strings. Reads one number
/// back for each seven bytes of the longest common prefix. Allocates at most about 60 bytes a string.
pub fn sort_strings<O: Index>(
    stream: &Stream,
    offsets: DeviceView<'_, O>,
    bytes: DeviceView<'_, u8>,
    mut indices: DeviceViewMut<'_, u32>,
    order: Order,
) -> Result<()> {
    let items = indices.len();
    if offsets.len() != items + 1 || items > u32::MAX as u64 {
        return Err(GpuError::Invalid(format!(
            "{} offsets of {items} strings",
            offsets.len()
        )));
    }
    if items == 0 {
        return Ok(());
    }
    let module = stream.device().load(&program(O::C_NAME))?;
    let words_kernel = module.kernel::<WordsParams>("string_words")?;
    let options = SortOptions {
        order,
        ..SortOptions::default()
    };
    let words_of = |rows: Option<DeviceView<'_, u32>>, count: u64, skip: u64| -> Result<DeviceBuffer<u64>> {
        let mut words = stream.alloc::<u64>(count)?;
        let params = WordsParams {
            offsets: DevicePtr::new(offsets.ptr().0),
            bytes: bytes.ptr(),
            indices: rows.map_or(DevicePtr::null(), |rows| rows.ptr()),
            words: words.ptr_mut(),
            items: count,
            skip,
        };
        // SAFETY: rows are numbers of strings, whose offsets lie within the bytes by contract.
        unsafe { words_kernel.launch(stream, &config(count), &params)? };
        Ok(words)
    };

    let words = words_of(None, items, 0)?;
    let mut sorted = stream.alloc::<u64>(items)?;
    let mut numbers = stream.alloc::<u32>(items)?;
    super::fill::iota(stream, numbers.view_mut(), 0)?;
    sort_pairs(
        stream,
        words.view(),
        numbers.view(),
        sorted.view_mut(),
        indices.reborrow(),
        &options,
    )?;
    drop((words, numbers));
    let mut ties = find_ties(
        stream,
        &program(O::C_NAME),
        sorted.view(),
        None,
        indices.as_view(),
        None,
    )?;
    drop(sorted);
    let mut skip = WORD_BYTES;
    while let Some(found) = ties {
        let count = found.rows.len();
        let words = words_of(Some(found.rows.view()), count, skip)?;
        // By word, then by group: both stable.
        let mut by_word = stream.alloc::<u32>(count)?;
        sort_indices(stream, words.view(), by_word.view_mut(), &options)?;
        let mut group_of = stream.alloc::<u32>(count)?;
        gather(stream, found.groups.view(), by_word.view(), group_of.view_mut())?;
        let mut groups = stream.alloc::<u32>(count)?;
        let mut moved = stream.alloc::<u32>(count)?;
        let by_group = SortOptions::default().bits(0..found.group_bits);
        sort_pairs(
            stream,
            group_of.view(),
            by_word.view(),
            groups.view_mut(),
            moved.view_mut(),
            &by_group,
        )?;
        let mut rows = group_of;
        gather(stream, found.rows.view(), moved.view(), rows.view_mut())?;
        scatter(stream, rows.view(), found.positions.view(), indices.reborrow())?;
        let mut sorted = stream.alloc::<u64>(count)?;
        gather(stream, words.view(), moved.view(), sorted.view_mut())?;
        let positions = Some(found.positions.view());
        ties = find_ties(
            stream,
            &program(O::C_NAME),
            sorted.view(),
            Some(groups.view()),
            rows.view(),
            positions,
        )?;
        skip += WORD_BYTES;
    }
    Ok(())
}

/// What is still tied, if anything.
fn find_ties(
    stream: &Stream,
    program: &Program,
    words: DeviceView<'_, u64>,
    groups: Option<DeviceView<'_, u32>>,
    rows: DeviceView<'_, u32>,
    positions: Option<DeviceView<'_, u32>>,
) -> Result<Option<Ties>> {
    let items = words.len();
    let module = stream.device().load(program)?;
    let mut heads = stream.alloc::<u32>(items)?;
    let mut tied = stream.alloc::<u32>(items)?;
    let params = TiesParams {
        words: words.ptr(),
        groups: groups.map_or(DevicePtr::null(), |groups| groups.ptr()),
        heads: heads.ptr_mut(),
        tied: tied.ptr_mut(),
        items,
    };
    let kernel = module.kernel::<TiesParams>("string_ties")?;
    // SAFETY: arrays of `items` elements.
    unsafe { kernel.launch(stream, &config(items), &params)? };
    let mut places = stream.alloc::<u32>(items + 1)?;
    exclusive_scan(stream, tied.view(), places.view_mut(), Reduction::Sum)?;
    let count = stream.download(places.slice(items..)?)?[0] as u64;
    if count == 0 {
        return Ok(None);
    }
    let mut head_numbers = stream.alloc::<u32>(items)?;
    inclusive_scan(stream, heads.view(), head_numbers.view_mut(), Reduction::Sum)?;
    let mut ties = Ties {
        rows: stream.alloc(count)?,
        positions: stream.alloc(count)?,
        groups: stream.alloc(count)?,
        group_bits: 64 - items.leading_zeros(),
    };
    let params = CompactParams {
        tied: tied.ptr(),
        places: places.ptr(),
        heads: head_numbers.ptr(),
        rows: rows.ptr(),
        positions: positions.map_or(DevicePtr::null(), |positions| positions.ptr()),
        rows_out: ties.rows.ptr_mut(),
        positions_out: ties.positions.ptr_mut(),
        groups_out: ties.groups.ptr_mut(),
        items,
    };
    let kernel = module.kernel::<CompactParams>("string_compact")?;
    // SAFETY: `count` of the `items` items are tied, and the sums give each a place of its own.
    unsafe { kernel.launch(stream, &config(items), &params)? };
    Ok(Some(ties))
}
