//! All rows in an order.
//!
//! The expressions of the order become words that sort as these do (`codegen`'s `ordered`), packed side by side as far as
//! their bits fit into 64. Once the host knows how many rows there are, the words are sorted with the rows' places, the
//! last word first, and the columns are read in that order; few rows are put in order by the host itself.

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{SortOptions, take_record_batch};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;
use datafusion::physical_expr::{LexOrdering, PhysicalExprRef};
use tenon_gpu::Stream;
use tenon_gpu::memory::{DeviceBuffer, Element};
use tenon_gpu::primitives::gather::gather;
use tenon_gpu::primitives::sort::{self, sort_indices, sort_pairs};

use super::flow::Flow;
use super::fragment::{Fragment, Input};
use super::made::Made;
use super::run::Running;
use super::top::{self, Top};
use crate::codegen::Translated;
use crate::gpu_error::to_datafusion;

/// Fewer rows are put in order by the host.
const ON_HOST_MAX: usize = 1 << 12;

/// The bits of a word.
const WORD_BITS: u32 = u64::BITS;

/// Rows, and the words of each: the array and its low bits that count, those that count most first.
pub struct Sorted {
    rows: Made,
    words: Vec<(usize, u32)>,
    fetch: Option<usize>,
}

/// Loads what `Running::order` and reading in that order call: nobody waits for the compiler when they have begun.
pub fn prepare(stream: &Stream) -> tenon_gpu::Result<()> {
    fn picked<T: Element>(stream: &Stream, places: &DeviceBuffer<u32>) -> tenon_gpu::Result<()> {
        let (from, mut to) = (
            stream.alloc_zeroed::<T>(places.len())?,
            stream.alloc::<T>(places.len())?,
        );
        gather(stream, from.view(), places.view(), to.view_mut())
    }
    let rows = 4 * ON_HOST_MAX as u64;
    let words = stream.alloc_zeroed::<u64>(rows)?;
    let (mut sorted, mut order) = (stream.alloc::<u64>(rows)?, stream.alloc::<u32>(rows)?);
    let mut again = stream.alloc::<u32>(rows)?;
    let options = sort::SortOptions::default();
    sort_indices(stream, words.view(), order.view_mut(), &options)?;
    sort_pairs(
        stream,
        words.view(),
        order.view(),
        sorted.view_mut(),
        again.view_mut(),
        &options,
    )?;
    picked::<u8>(stream, &order)?;
    picked::<u16>(stream, &order)?;
    picked::<u32>(stream, &order)?;
    picked::<u64>(stream, &order)?;
    picked::<i128>(stream, &order)
}

impl Sorted {
    /// The rows of a flow, of this schema, in an order; where that is given, only so many.
    pub fn made(
        fragment: &mut Fragment,
        mut flow: Flow,
        schema: SchemaRef,
        order: &LexOrdering,
        fetch: Option<usize>,
    ) -> Translated<Self> {
        let keys = || order.iter().map(|own| (&own.expr, own.options));
        let (rows, words) = match fetch {
            None => {
                let fields = fields(&mut flow, keys())?;
                flow.to_host = true;
                let rows = Made::of(fragment, &mut flow, |_| true)?;
                let words = put(fragment, &mut flow, &rows, fields, "at");
                flow.finish(fragment)?;
                let ordered = rows.room.saturating_mul(words.len() as u64);
                fragment.ordered_words = fragment.ordered_words.saturating_add(ordered);
                (rows, words)
            }
            Some(fetch) => {
                let first = top::made(fragment, flow, &schema, &Top::new(order.first(), fetch))?;
                let mut flow = Flow::over(&first, schema.clone());
                let columns = first.columns(fragment, &mut flow, &schema, "row", None);
                flow.enter(schema, columns);
                let fields = fields(&mut flow, keys())?;
                let words = put(fragment, &mut flow, &first, fields, "row");
                flow.finish(fragment)?;
                (first, words)
            }
        };
        fragment.sorts = true;
        Ok(Self { rows, words, fetch })
    }

    /// So many of the first rows, but for so many before them, as an open pipeline.
    pub fn first(
        fragment: &mut Fragment,
        flow: Flow,
        schema: SchemaRef,
        order: &LexOrdering,
        (skip, fetch): (usize, usize),
    ) -> Translated<Flow> {
        let sorts = fragment.sorts;
        let rows_max = skip.saturating_add(fetch);
        let own = Self::made(fragment, flow, schema.clone(), order, Some(rows_max))?;
        fragment.sorts = sorts;
        let table = (own.rows.count, own.rows.room);
        let words: Vec<(usize, u32)> = own.words.into_iter().filter(|(_, bits)| *bits > 0).collect();
        let order = (!words.is_empty()).then(|| fragment.order(table, words));
        let mut flow = Flow::over(&own.rows, schema.clone());
        let (skip, end) = (flow.number(skip as u64), flow.number(rows_max as u64));
        flow.only_if(&format!("row >= {skip} && row < {end}"));
        let at = match order {
            Some(order) => {
                let order = flow.array(Input::Array(order), "const u32");
                let at = format!("{order}[row]");
                flow.translator.define("u32", at, None, DataType::UInt32, None).value
            }
            None => "row".into(),
        };
        flow.rows_max = flow.rows_max.min(fetch as u64);
        flow.room = flow.room.min(fetch as u64);
        let mut columns = own.rows.columns(fragment, &mut flow, &schema, &at, None);
        columns
            .iter_mut()
            .for_each(|column| column.unique &= !own.rows.multiplied);
        flow.enter(schema, columns);
        Ok(flow)
    }

    /// The arrays that the host reads.
    pub fn arrays(&self) -> Vec<usize> {
        let mut arrays = self.rows.arrays();
        arrays.extend(self.words.iter().map(|(array, _)| array));
        arrays
    }

    /// The most rows that the host reads.
    pub fn rows_max(&self) -> u64 {
        self.fetch
            .map_or(self.rows.room, |fetch| self.rows.room.min(fetch as u64))
    }

    /// As `Made`'s.
    pub fn row_as_numbers(&self) -> u64 {
        self.rows.row_as_numbers()
    }

    pub fn is_readable(&self, schema: &SchemaRef) -> bool {
        self.rows.is_readable(schema)
    }

    /// The rows on the host.
    pub fn read(&self, fragment: &Fragment, running: &Running, schema: &SchemaRef) -> Result<RecordBatch> {
        let rows = self.rows.rows(running)?;
        let batch = match rows {
            0..ON_HOST_MAX => {
                let words = self.words.iter().map(|(array, _)| running.words::<u64>(*array, rows));
                let words = words.collect::<tenon_gpu::Result<Vec<_>>>().map_err(to_datafusion)?;
                let mut order: Vec<u32> = (0..rows as u32).collect();
                order.sort_by(|&a, &b| {
                    let of = |row: u32| words.iter().map(move |words| words[row as usize]);
                    of(a).cmp(of(b))
                });
                let batch = self.rows.read(fragment, running, schema, rows, None)?;
                take_record_batch(&batch, &UInt32Array::from(order))?
            }
            _ => {
                let order = running.order(&self.words, rows as u64).map_err(to_datafusion)?;
                self.rows.read(fragment, running, schema, rows, Some(&order))?
            }
        };
        Ok(match self.fetch {
            Some(fetch) if fetch < batch.num_rows() => batch.slice(0, fetch),
            _ => batch,
        })
    }
}

/// C++ of the words of an order, and their bits; an error where words do not tell all values apart.
pub fn fields<'e>(
    flow: &mut Flow,
    order: impl IntoIterator<Item = (&'e PhysicalExprRef, SortOptions)>,
) -> Translated<Vec<(String, u32)>> {
    let mut words: Vec<(String, u32)> = vec![];
    for (expr, options) in order {
        for own in flow.translator.ordered_exactly(expr, options)? {
            match words.last_mut() {
                Some((word, bits)) if *bits + own.bits <= WORD_BITS && own.bits < WORD_BITS => {
                    *word = format!("({word} << {} | {})", own.bits, own.word);
                    *bits += own.bits;
                }
                _ => words.push((own.word, own.bits)),
            }
        }
    }
    Ok(words)
}

/// Keeps the words of each row at its place.
pub fn put(
    fragment: &mut Fragment,
    flow: &mut Flow,
    rows: &Made,
    fields: Vec<(String, u32)>,
    place: &str,
) -> Vec<(usize, u32)> {
    let words = fields.into_iter().map(|(word, bits)| {
        let array = fragment.array(rows.room, 8, None);
        let to = flow.array(Input::Array(array), "u64");
        flow.line(&format!("{to}[{place}] = {word};"));
        (array, bits)
    });
    words.collect()
}
