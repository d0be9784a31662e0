//! A table that a pipeline makes on the device for others to read: rows of columns as wide as their values need.

mod column;
mod read;
mod union;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use tenon_gpu::memory::DeviceBuffer;

use super::col::Col;
use super::flow::Flow;
use super::fragment::{Fragment, Input, ROWS_MAX};
use super::passes::Stage;
use super::run::Running;
use crate::codegen::Translated;
use crate::gpu_error::to_datafusion;
use column::{Column, Form};
use read::Reader;

/// Its columns, of which only those are there that somebody reads.
pub struct Made {
    pub count: usize,
    /// At most so many rows are there.
    pub rows_max: u64,
    /// Its arrays are so long.
    pub room: u64,
    columns: Vec<Option<Column>>,
    /// Whether a row may be there more than once.
    pub multiplied: bool,
    /// When its rows are there.
    pub stage: Stage,
    /// Whether its rows are all those of a table, in their order.
    pub in_order: bool,
}

impl Made {
    /// Ends the rows of a flow in a new table that keeps the columns for which `reads` holds. What is put in after this
    /// sees the row as `at`.
    pub fn of(fragment: &mut Fragment, flow: &mut Flow, reads: impl Fn(usize) -> bool) -> Translated<Made> {
        Self::put(fragment, flow, reads, false)
    }

    /// The same of all rows of a table, where they are the table's own: columns are read where they are in it.
    pub fn in_place(fragment: &mut Fragment, flow: &mut Flow, reads: impl Fn(usize) -> bool) -> Translated<Made> {
        let in_place = flow.is_in_place(fragment);
        Self::put(fragment, flow, reads, in_place)
    }

    fn put(
        fragment: &mut Fragment,
        flow: &mut Flow,
        reads: impl Fn(usize) -> bool,
        in_place: bool,
    ) -> Translated<Made> {
        let (count, rows_max, room) = Self::sizes(fragment, std::slice::from_ref(flow));
        let count_at = flow.array(Input::Array(count), "u32");
        let in_order = flow.is_whole() && flow.rows_max <= room;
        if in_order {
            // Rows are where they are in the table: nobody counts them one after the other.
            let rows = flow.number(flow.rows_max);
            flow.begin += &format!("    if (blockIdx.x == 0 && threadIdx.x == 0) *{count_at} = (u32){rows};\n");
            flow.line("const u32 at = tile.before + place;");
        } else {
            let room = flow.number(room);
            flow.line(&format!("u32 at = new_row(p, {count_at}, {room});"));
            flow.only_if("at != NO_ROW");
        }
        let mut columns = vec![];
        for index in 0..flow.columns.len() {
            columns.push(match reads(index) {
                true if in_place && in_order && flow.columns[index].origin.is_some() => {
                    Some(Column::in_place(flow, index))
                }
                true => Some(Column::put(fragment, flow, index, room)?),
                false => None,
            });
        }
        Ok(Made {
            count,
            rows_max,
            room,
            columns,
            multiplied: flow.multiplied,
            stage: flow.stage,
            in_order,
        })
    }

    /// Whether no column has an array.
    pub fn is_in_place(&self) -> bool {
        let mut forms = self.columns.iter().flatten().map(|column| &column.form);
        forms.all(|form| matches!(form, Form::InPlace))
    }

    /// The same, of the rows of all passes.
    pub fn gathered(self, fragment: &Fragment) -> Self {
        Self {
            stage: fragment.gathered(),
            ..self
        }
    }

    /// The array that rows of such flows are counted in, how many there may be, and how many get room.
    fn sizes(fragment: &mut Fragment, flows: &[Flow]) -> (usize, u64, u64) {
        // A row may come more than once where it has several partners; beyond this the CPU does the work.
        let ended = |flow: &Flow, rows: u64| match flow.multiplied {
            true => rows.saturating_mul(4).max(1 << 16),
            false => rows,
        };
        let sum = |rows: &dyn Fn(&Flow) -> u64| flows.iter().map(rows).fold(0, u64::saturating_add);
        let rows_max = sum(&|flow| ended(flow, flow.rows_max)).min(ROWS_MAX);
        let most = sum(&|flow| ended(flow, flow.room)).min(rows_max);
        let count = fragment.array(1, 4, Some(0));
        // What only usually is the most may be seen to be too little.
        let limit = match flows.iter().any(|flow| flow.multiplied) {
            true => ROWS_MAX,
            false => most,
        };
        let expected = flows
            .iter()
            .map(|flow| flow.expected)
            .try_fold(0, |sum, own| Some(own?.saturating_add(sum)));
        let room = match flows {
            [flow] if flow.is_whole() => fragment.table(count, flow.stage, most, most, Some(most)),
            [flow] => fragment.table(count, flow.stage, most, limit, expected),
            _ => fragment.table(count, fragment.gathered(), most, limit, expected),
        };
        (count, rows_max.max(room), room)
    }

    /// The columns of row `row` of the table, in a flow that reads it; where `missing` holds they are null.
    pub fn columns(
        &self,
        fragment: &mut Fragment,
        flow: &mut Flow,
        schema: &SchemaRef,
        row: &str,
        missing: Option<&str>,
    ) -> Vec<Col> {
        let columns = self.columns.iter().enumerate().map(|(index, column)| match column {
            Some(column) => column.get(fragment, flow, row, missing),
            None => Col::unread(schema.field(index).data_type()),
        });
        columns.collect()
    }
}

impl Made {
    /// Whether the host can read all of its columns, as those of the schema.
    pub fn is_readable(&self, schema: &SchemaRef) -> bool {
        let columns = self.columns.iter().flatten();
        let types = columns.clone().map(Column::promised);
        let promised = schema.fields().iter().map(|field| field.data_type());
        types.eq(promised) && columns.into_iter().all(Column::is_readable)
    }

    /// A row takes the host as long as so many numbers.
    pub fn row_as_numbers(&self) -> u64 {
        self.columns.iter().flatten().map(Column::as_numbers).sum()
    }

    /// The arrays that the host reads.
    pub fn arrays(&self) -> Vec<usize> {
        let columns = self.columns.iter().flatten().flat_map(Column::arrays);
        [self.count].into_iter().chain(columns).collect()
    }

    /// How many rows there are.
    pub fn rows(&self, running: &Running) -> Result<usize> {
        let count = running.words::<u32>(self.count, 1).map_err(to_datafusion)?;
        Ok(count.first().map_or(0, |rows| *rows as usize))
    }

    /// The rows on the host, which are so many, as they lie or in this order.
    pub fn read(
        &self,
        fragment: &Fragment,
        running: &Running,
        schema: &SchemaRef,
        rows: usize,
        order: Option<&DeviceBuffer<u32>>,
    ) -> Result<RecordBatch> {
        let reader = Reader { running, rows, order };
        let columns = self.columns.iter().flatten();
        let columns = columns.map(|column| column.read(fragment, &reader));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(
            schema.clone(),
            columns.collect::<Result<_>>()?,
            &options,
        )?)
    }
}
