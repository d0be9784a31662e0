//! Rows picked from arrays, and arrays put one behind the other.
//!
//! More than 400 lines because views, lists and structs are gathered by the same walk, and its tests stand beside it.
//!
//! Views (of strings and byte strings) name the buffers that their bytes lie in by a list. Arrow's `take` copies that list
//! and its `concat` appends lists to each other, so that over a chain of joins they multiply with the batches of each.
//! Here rows that are picked share the list that they came with, and what is put together lists every buffer once; where
//! these are many, their bytes move into few new ones.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, ByteView, Decimal128Array, GenericByteViewArray, MAX_INLINE_VIEW_LEN,
    NullBufferBuilder, RecordBatch, RecordBatchOptions, UInt32Array, make_array, new_empty_array,
};
use arrow::buffer::{Buffer, MutableBuffer, NullBuffer, ScalarBuffer};
use arrow::compute;
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, Decimal128Type, StringViewType};
use datafusion::common::Result;
use hashbrown::HashMap;
use rayon::prelude::*;
use tenon_cpu::filled;

/// Rows from which on all cores copy.
const COPIED_ROWS_MIN: usize = 128 * 1024;
/// Most buffers that are listed as they are.
const LISTED_MAX: usize = 32;
/// Most bytes of a new buffer; views hold 32-bit offsets.
const BUFFER_BYTES_MAX: usize = 1 << 30;

/// Most buffers that a column lists, whatever the number of batches that its rows came in.
pub const LISTS_MAX: usize = LISTED_MAX;

/// Of a batch's strings, bytes up to which they move where they lie in many buffers: longer ones are few for each buffer.
const MOVED_BYTES_MAX: usize = 4 << 20;

/// A batch whose columns of views list every buffer once, and at most `LISTS_MAX` where their strings are short.
pub fn listed_once(batch: RecordBatch) -> Result<RecordBatch> {
    if !batch.columns().iter().any(|column| listed_buffers(column) > LISTED_MAX) {
        return Ok(batch);
    }
    let columns = batch.columns().iter().map(|column| match column.data_type() {
        _ if listed_buffers(column) <= LISTED_MAX => Ok(Arc::clone(column)),
        DataType::Utf8View => relisted::<StringViewType>(column),
        _ => relisted::<BinaryViewType>(column),
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = columns.collect::<Result<_>>()?;
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}

fn relisted<T: ByteViewType>(column: &ArrayRef) -> Result<ArrayRef> {
    match column.as_byte_view::<T>().total_buffer_bytes_used() > MOVED_BYTES_MAX {
        true => Ok(Arc::clone(column)),
        false => concat_views::<T>(std::slice::from_ref(column)),
    }
}

/// How many buffers a column of views lists.
pub fn listed_buffers(column: &dyn Array) -> usize {
    match column.data_type() {
        DataType::Utf8View => column.as_string_view().data_buffers().len(),
        DataType::BinaryView => column.as_binary_view().data_buffers().len(),
        _ => 0,
    }
}

/// Holds, in debug builds, that lists do not grow with the batches that fed an operator: what it gives lists no more than
/// what one of its sources does, or than what `listed_once` leaves.
pub fn debug_assert_listed(columns: &[ArrayRef], sources: impl IntoIterator<Item = usize>) {
    if cfg!(debug_assertions) {
        let most = sources.into_iter().fold(LISTED_MAX, usize::max);
        for column in columns {
            let used = match column.data_type() {
                DataType::Utf8View => column.as_string_view().total_buffer_bytes_used(),
                DataType::BinaryView => column.as_binary_view().total_buffer_bytes_used(),
                _ => 0,
            };
            let listed = listed_buffers(column);
            debug_assert!(
                listed <= most || used > MOVED_BYTES_MAX,
                "a column lists {listed} buffers, its sources at most {most}"
            );
        }
    }
}

/// The rows of `array` whose numbers are `rows`; null where a number is.
pub fn pick(array: &ArrayRef, rows: &UInt32Array) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Utf8View => pick_views::<StringViewType>(array, rows),
        DataType::BinaryView => pick_views::<BinaryViewType>(array, rows),
        _ => Ok(compute::take(array, rows, None)?),
    }
}

fn pick_views<T: ByteViewType>(array: &ArrayRef, rows: &UInt32Array) -> Result<ArrayRef> {
    let (views, buffers, nulls) = array.as_byte_view::<T>().clone().into_parts();
    // To Arrow's `take`, views without their list are numbers of as many bits.
    let numbers = Decimal128Array::new(views.into_inner().into(), nulls);
    let picked = compute::take(&numbers, rows, None)?;
    let picked = picked.as_primitive::<Decimal128Type>();
    let views = ScalarBuffer::from(picked.values().inner().clone());
    // SAFETY: each view is one of the array's, or zero where it is null, beside the array's own list.
    Ok(Arc::new(unsafe {
        GenericByteViewArray::<T>::new_unchecked(views, buffers, picked.nulls().cloned())
    }))
}

/// `arrays`, all of the same type, one behind the other; an array of `data_type` where there are none.
pub fn concat(arrays: &[ArrayRef], data_type: impl FnOnce() -> Result<DataType>) -> Result<ArrayRef> {
    let first = match arrays {
        [] => return Ok(new_empty_array(&data_type()?)),
        [only] => return Ok(Arc::clone(only)),
        [first, ..] => first,
    };
    match first.data_type() {
        DataType::Utf8View => concat_views::<StringViewType>(arrays),
        DataType::BinaryView => concat_views::<BinaryViewType>(arrays),
        other => match other.primitive_width() {
            Some(width) if rows_of(arrays) >= COPIED_ROWS_MIN => concat_by_all(arrays, width),
            _ => plain(arrays),
        },
    }
}

/// Batches of one schema as one.
pub fn concat_batches(batches: &[RecordBatch]) -> Result<Option<RecordBatch>> {
    let first = match batches {
        [] => return Ok(None),
        [only] => return Ok(Some(only.clone())),
        [first, ..] => first,
    };
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let columns = (0..first.num_columns()).map(|column| {
        let pieces: Vec<_> = batches.iter().map(|batch| Arc::clone(batch.column(column))).collect();
        concat(&pieces, || Ok(first.column(column).data_type().clone()))
    });
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let columns = columns.collect::<Result<_>>()?;
    Ok(Some(RecordBatch::try_new_with_options(
        first.schema(),
        columns,
        &options,
    )?))
}

fn plain(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    Ok(compute::concat(
        &arrays.iter().map(|array| array.as_ref()).collect::<Vec<_>>(),
    )?)
}

fn rows_of(arrays: &[ArrayRef]) -> usize {
    arrays.iter().map(|array| array.len()).sum()
}

fn nulls_of(arrays: &[ArrayRef]) -> Option<NullBuffer> {
    if arrays.iter().all(|array| array.null_count() == 0) {
        return None;
    }
    let mut all = NullBufferBuilder::new(rows_of(arrays));
    for array in arrays {
        match array.nulls() {
            Some(nulls) => all.append_buffer(nulls),
            None => all.append_n_non_nulls(array.len()),
        }
    }
    all.finish()
}

/// Many arrays of numbers, `width` bytes each, put together by all cores.
fn concat_by_all(arrays: &[ArrayRef], width: usize) -> Result<ArrayRef> {
    let rows = rows_of(arrays);
    let pieces: Vec<_> = arrays.iter().map(|array| array.to_data()).collect();
    // Aligned for the widest number.
    let mut all = MutableBuffer::from(filled(0i128, (rows * width).div_ceil(size_of::<i128>())));
    all.truncate(rows * width);
    let mut rest = all.as_slice_mut();
    let mut copies = Vec::with_capacity(pieces.len());
    for piece in &pieces {
        let (to, after) = rest.split_at_mut(piece.len() * width);
        copies.push((
            to,
            &piece.buffers()[0].as_slice()[piece.offset() * width..][..piece.len() * width],
        ));
        rest = after;
    }
    copies.into_par_iter().for_each(|(to, from)| to.copy_from_slice(from));
    let data = ArrayData::builder(arrays[0].data_type().clone())
        .len(rows)
        .nulls(nulls_of(arrays))
        .add_buffer(all.into());
    Ok(make_array(data.build()?))
}

/// The buffers that arrays of views list, each once.
struct Listed {
    buffers: Vec<Buffer>,
    /// For each list that differs from the others, where each of its buffers stands in `buffers`.
    lists: Vec<Vec<usize>>,
    /// For each array, which list is its.
    list_of: Vec<usize>,
}

impl Listed {
    fn of<T: ByteViewType>(arrays: &[ArrayRef]) -> Self {
        let (mut buffers, mut lists, mut list_of) = (vec![], vec![], Vec::with_capacity(arrays.len()));
        let (mut known_buffers, mut known_lists) = (HashMap::new(), HashMap::new());
        for array in arrays {
            let list = array.as_byte_view::<T>().data_buffers();
            list_of.push(*known_lists.entry((list.as_ptr(), list.len())).or_insert_with(|| {
                let places = list.iter().map(|buffer| {
                    let key = (buffer.as_ptr(), buffer.len());
                    *known_buffers.entry(key).or_insert_with(|| {
                        buffers.push(buffer.clone());
                        buffers.len() - 1
                    })
                });
                lists.push(places.collect());
                lists.len() - 1
            }));
        }
        Self {
            buffers,
            lists,
            list_of,
        }
    }
}

fn concat_views<T: ByteViewType>(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let listed = Listed::of::<T>(arrays);
    if listed.buffers.len() <= LISTED_MAX {
        let places: Vec<_> = (0..listed.buffers.len() as u32).map(|at| (at, 0)).collect();
        let views = moved::<T>(arrays, &listed, &places);
        return Ok(views_of::<T>(views, listed.buffers, arrays));
    }
    let used: Vec<usize> = arrays
        .par_iter()
        .map(|array| array.as_byte_view::<T>().total_buffer_bytes_used())
        .collect();
    if used.iter().sum::<usize>() > listed.buffers.iter().map(Buffer::len).sum() {
        // Strings that many rows share: their buffers as they are, one behind the other.
        let (places, buffers) = merged(&listed.buffers);
        let views = moved::<T>(arrays, &listed, &places);
        return Ok(views_of::<T>(views, buffers, arrays));
    }
    if used.iter().any(|bytes| *bytes > BUFFER_BYTES_MAX) {
        return plain(arrays);
    }
    let (views, buffers) = copied::<T>(arrays, &used);
    Ok(views_of::<T>(views, buffers, arrays))
}

fn views_of<T: ByteViewType>(views: Vec<u128>, buffers: Vec<Buffer>, arrays: &[ArrayRef]) -> ArrayRef {
    debug_assert!(
        buffers.len() <= LISTED_MAX || buffers.iter().map(Buffer::len).sum::<usize>() > BUFFER_BYTES_MAX,
        "{} arrays became one that lists {} buffers",
        arrays.len(),
        buffers.len()
    );
    // SAFETY: each view is one of an array's, and names in this list the bytes that it named in the array's.
    Arc::new(unsafe { GenericByteViewArray::<T>::new_unchecked(views.into(), buffers, nulls_of(arrays)) })
}

/// The arrays' views, with the buffers that they name moved to `places`: a buffer's number and what lies before it there.
fn moved<T: ByteViewType>(arrays: &[ArrayRef], listed: &Listed, places: &[(u32, u32)]) -> Vec<u128> {
    let mut all = filled(0u128, rows_of(arrays));
    let mut rest = all.as_mut_slice();
    let mut copies = Vec::with_capacity(arrays.len());
    for (array, list) in arrays.iter().zip(&listed.list_of) {
        let views = array.as_byte_view::<T>().views();
        let (to, after) = rest.split_at_mut(views.len());
        copies.push((to, views, &listed.lists[*list]));
        rest = after;
    }
    let copy = |(to, views, list): (&mut [u128], &ScalarBuffer<u128>, &Vec<usize>)| {
        let stays = |(at, place): (usize, &usize)| places[*place] == (at as u32, 0);
        if list.iter().enumerate().all(stays) {
            return to.copy_from_slice(views);
        }
        for (to, view) in to.iter_mut().zip(views.iter()) {
            *to = match *view as u32 <= MAX_INLINE_VIEW_LEN {
                true => *view,
                false => {
                    let old = ByteView::from(*view);
                    let (buffer_index, before) = places[list[old.buffer_index as usize]];
                    ByteView {
                        buffer_index,
                        offset: before + old.offset,
                        ..old
                    }
                    .as_u128()
                }
            };
        }
    };
    match all_copy(&copies) {
        true => copies.into_par_iter().for_each(copy),
        false => copies.into_iter().for_each(copy),
    }
    all
}

fn all_copy<A, B>(copies: &[(&mut [u128], A, B)]) -> bool {
    copies.iter().map(|(to, ..)| to.len()).sum::<usize>() >= COPIED_ROWS_MIN
}

/// Buffers one behind the other in few new ones, and where each lies: which new one, behind how many bytes.
fn merged(buffers: &[Buffer]) -> (Vec<(u32, u32)>, Vec<Buffer>) {
    let mut places = Vec::with_capacity(buffers.len());
    let mut groups: Vec<Vec<&Buffer>> = vec![];
    let mut bytes = usize::MAX;
    for buffer in buffers {
        if bytes.saturating_add(buffer.len()) > BUFFER_BYTES_MAX {
            groups.push(vec![]);
            bytes = 0;
        }
        places.push((groups.len() as u32 - 1, bytes as u32));
        groups.last_mut().expect("pushed at first").push(buffer);
        bytes += buffer.len();
    }
    let one = |group: &Vec<&Buffer>| match group.as_slice() {
        [only] => (*only).clone(),
        several => Buffer::from_vec(
            several
                .iter()
                .flat_map(|buffer| buffer.iter().copied())
                .collect::<Vec<u8>>(),
        ),
    };
    (places, groups.iter().map(one).collect())
}

/// The arrays' views with their strings, `used` bytes of each array, in new buffers.
fn copied<T: ByteViewType>(arrays: &[ArrayRef], used: &[usize]) -> (Vec<u128>, Vec<Buffer>) {
    let mut all = filled(0u128, rows_of(arrays));
    let mut views = all.as_mut_slice();
    let mut buffers = vec![];
    let mut from = 0;
    while from < arrays.len() {
        let (mut to, mut bytes) = (from, 0);
        while to < arrays.len() && bytes + used[to] <= BUFFER_BYTES_MAX {
            bytes += used[to];
            to += 1;
        }
        let mut strings = filled(0u8, bytes);
        let mut rest = strings.as_mut_slice();
        let (mut copies, mut before) = (Vec::with_capacity(to - from), 0);
        for (array, used) in arrays[from..to].iter().zip(&used[from..to]) {
            let (own, after) = std::mem::take(&mut views).split_at_mut(array.len());
            views = after;
            let (into, after) = rest.split_at_mut(*used);
            rest = after;
            copies.push((own, (into, before), array.as_byte_view::<T>()));
            before += *used as u32;
        }
        let buffer_index = buffers.len() as u32;
        let copy = |(to, (into, before), array): (&mut [u128], (&mut [u8], u32), &GenericByteViewArray<T>)| {
            let mut offset = 0;
            for (to, view) in to.iter_mut().zip(array.views().iter()) {
                *to = match *view as u32 <= MAX_INLINE_VIEW_LEN {
                    true => *view,
                    false => {
                        let old = ByteView::from(*view);
                        let length = old.length as usize;
                        let bytes = &array.data_buffers()[old.buffer_index as usize][old.offset as usize..][..length];
                        into[offset..offset + length].copy_from_slice(bytes);
                        let new = ByteView {
                            buffer_index,
                            offset: before + offset as u32,
                            ..old
                        };
                        offset += length;
                        new.as_u128()
                    }
                };
            }
        };
        match all_copy(&copies) {
            true => copies.into_par_iter().for_each(copy),
            false => copies.into_iter().for_each(copy),
        }
        buffers.push(Buffer::from_vec(strings));
        from = to;
    }
    (all, buffers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringViewArray, StringViewBuilder};
    use rand::prelude::*;

    fn seed() -> u64 {
        let seed = std::env::var("TENON_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
        println!("TENON_SEED={seed}");
        seed
    }

    /// Arrays of strings and nulls, slices among them, that list buffers of a few other arrays.
    fn random_arrays(rng: &mut StdRng, sources: usize, arrays: usize, block: u32) -> Vec<ArrayRef> {
        let sources: Vec<StringViewArray> = (0..sources)
            .map(|_| {
                let mut builder = StringViewBuilder::new().with_fixed_block_size(block);
                for _ in 0..rng.random_range(1..60) {
                    match rng.random_range(0..8) {
                        0 => builder.append_null(),
                        1 => builder.append_value(""),
                        kind => builder.append_value("żó".repeat(rng.random_range(0..4 * kind))),
                    }
                }
                builder.finish()
            })
            .collect();
        let of = |_| {
            let source = sources.choose(rng).unwrap();
            let rows = (0..rng.random_range(0..90))
                .map(|_| (!rng.random_bool(0.1)).then(|| rng.random_range(0..source.len() as u32)));
            let rows: UInt32Array = rows.collect();
            let picked = pick(&(Arc::new(source.clone()) as ArrayRef), &rows).unwrap();
            let from = rng.random_range(0..=picked.len());
            picked.slice(from, rng.random_range(0..=picked.len() - from))
        };
        (0..arrays).map(of).collect()
    }

    #[test]
    fn views_put_together_are_as_arrow_puts_them() {
        let mut rng = StdRng::seed_from_u64(seed());
        for round in 0..300 {
            let (sources, arrays) = ([1, 3, 40, 200][round % 4], [2, 30, 400][round % 3]);
            let block = [16, 64, 8192][round % 3];
            let arrays = random_arrays(&mut rng, sources, arrays, block);
            let all = concat(&arrays, || unreachable!()).unwrap();
            assert_eq!(&all, &plain(&arrays).unwrap());
            all.to_data().validate_full().unwrap();
            assert!(all.as_string_view().data_buffers().len() <= LISTED_MAX);
        }
    }

    #[test]
    fn rows_picked_are_as_arrow_picks_them() {
        let mut rng = StdRng::seed_from_u64(seed());
        for array in random_arrays(&mut rng, 5, 100, 64) {
            let rows = (0..if array.is_empty() { 0 } else { 50 })
                .map(|_| (!rng.random_bool(0.2)).then(|| rng.random_range(0..array.len() as u32)));
            let rows: UInt32Array = rows.collect();
            let picked = pick(&array, &rows).unwrap();
            assert_eq!(&picked, &compute::take(&array, &rows, None).unwrap());
            picked.to_data().validate_full().unwrap();
        }
    }

    #[test]
    fn a_list_does_not_grow_with_the_batches_that_fed_it() {
        let name: ArrayRef = Arc::new(StringViewArray::from(vec!["a name of more than twelve bytes"; 3]));
        let mut build = name;
        for _ in 0..4 {
            let batches: Vec<_> = (0..200)
                .map(|_| pick(&build, &UInt32Array::from(vec![0, 2, 1])).unwrap())
                .collect();
            build = concat(&batches, || unreachable!()).unwrap();
            assert_eq!(build.as_string_view().data_buffers().len(), 1);
        }
    }

    #[test]
    fn all_cores_put_together_what_one_does() {
        let column = |from: i64, to: i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values(from..to)) };
        let mut arrays: Vec<_> = (0..20).map(|at| column(at * 10_000, (at + 1) * 10_000)).collect();
        arrays.push(column(0, 100).slice(7, 50));
        let data_type = || Ok(DataType::Int64);
        assert_eq!(&concat(&arrays, data_type).unwrap(), &plain(&arrays).unwrap());
        arrays.push(Arc::new(Int64Array::from(vec![None, Some(1)])));
        let all = concat(&arrays, data_type).unwrap();
        assert_eq!(&all, &plain(&arrays).unwrap());
        assert_eq!(all.null_count(), 1);
        assert_eq!(concat(&[], data_type).unwrap().len(), 0);
    }
}
