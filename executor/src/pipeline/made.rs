//! A table that a pipeline makes on the device for others to read: rows of columns as wide as their values need.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, Float32Array, Float64Array, RecordBatch, RecordBatchOptions, UInt32Array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::take;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, internal_err};
use tenon_gpu::memory::{DeviceBuffer, Element};

use super::flow::{Col, Flow, codes};
use super::fragment::{Fragment, Input};
use super::result::at_positions;
use super::run::Running;
use crate::codegen::{Given, Inputs, Range, Translated, c_type};
use crate::gpu_error::to_datafusion;
use crate::keys::{from_integer_keys, is_integer_key};

/// Its columns, of which only those are there that somebody reads.
pub struct Made {
    pub count: usize,
    pub rows_max: u64,
    columns: Vec<Option<Column>>,
    /// Whether a row may be there more than once.
    pub multiplied: bool,
}

struct Column {
    form: Form,
    data_type: DataType,
    nulls: Option<usize>,
    range: Option<Range>,
    origin: Option<(usize, usize)>,
    unique: bool,
}

enum Form {
    /// An array of this C++ type.
    Values(usize, &'static str),
    Codes(usize, &'static str, ArrayRef),
    /// The position of the row in the scan that the text is of.
    Position(usize),
}

/// The narrowest type that holds a value.
fn element(data_type: &DataType, range: Option<Range>) -> Translated<(&'static str, u64)> {
    Ok(match (c_type(data_type)?, range) {
        ("bool", _) => ("u8", 1),
        ("f64", _) => ("f64", 8),
        ("f32", _) => ("f32", 4),
        ("i64" | "i128", Some((low, high))) if i32::try_from(low).is_ok() && i32::try_from(high).is_ok() => ("i32", 4),
        ("i64" | "i128", Some((low, high))) if i64::try_from(low).is_ok() && i64::try_from(high).is_ok() => ("i64", 8),
        ("i64", None) => ("i64", 8),
        ("i128", _) => ("i128", 16),
        _ => return Err(format!("keeping values of {data_type}")),
    })
}

impl Made {
    /// Ends the rows of a flow in a new table that keeps the columns for which `reads` holds. What is put in after this
    /// sees the row as `at`.
    pub fn of(fragment: &mut Fragment, flow: &mut Flow, reads: impl Fn(usize) -> bool) -> Translated<Made> {
        // A row may come more than once where it has several partners; beyond this the CPU does the work.
        let rows_max = match flow.multiplied {
            true => flow.rows_max.saturating_mul(4).max(1 << 16),
            false => flow.rows_max,
        };
        Self::within(fragment, flow, rows_max, reads)
    }

    /// The same, of at most so many rows.
    pub fn within(
        fragment: &mut Fragment,
        flow: &mut Flow,
        rows_max: u64,
        reads: impl Fn(usize) -> bool,
    ) -> Translated<Made> {
        let rows_max = rows_max.min(u64::from(u32::MAX) - 2);
        let count = fragment.array(1, 4, Some(0));
        let count_at = flow.array(Input::Array(count), "u32");
        if flow.is_whole() && flow.rows_max <= rows_max {
            // Rows are where they are in the table: nobody counts them one after the other.
            let rows = flow.number(flow.rows_max);
            flow.begin += &format!("    if (blockIdx.x == 0 && threadIdx.x == 0) *{count_at} = (u32){rows};\n");
            flow.line("const u32 at = tile.before + place;");
        } else {
            let room = flow.number(rows_max);
            flow.line(&format!("u32 at = new_row(p, {count_at}, {room});"));
            flow.only_if("at != NO_ROW");
        }
        let mut columns = vec![];
        for index in 0..flow.columns.len() {
            columns.push(match reads(index) {
                true => Some(Column::put(fragment, flow, index, rows_max)?),
                false => None,
            });
        }
        Ok(Made {
            count,
            rows_max,
            columns,
            multiplied: flow.multiplied,
        })
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
        let types = columns.map(|column| &column.data_type);
        let promised = schema.fields().iter().map(|field| field.data_type());
        types.clone().eq(promised)
            && types.into_iter().all(|data_type| {
                is_integer_key(data_type)
                    || matches!(
                        data_type,
                        DataType::Decimal128(..) | DataType::Float64 | DataType::Float32 | DataType::Utf8View
                    )
            })
    }

    /// The arrays that the host reads.
    pub fn arrays(&self) -> Vec<usize> {
        let columns = self.columns.iter().flatten().flat_map(|column| {
            let (Form::Values(values, _) | Form::Codes(values, ..) | Form::Position(values)) = &column.form;
            [Some(*values), column.nulls].into_iter().flatten()
        });
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

/// What reads the arrays of a table's columns.
struct Reader<'a> {
    running: &'a Running,
    rows: usize,
    order: Option<&'a DeviceBuffer<u32>>,
}

impl Reader<'_> {
    fn words<T: Element>(&self, array: usize) -> Result<Vec<T>> {
        let words = match self.order {
            Some(order) => self.running.words_in(array, order),
            None => self.running.words(array, self.rows),
        };
        words.map_err(to_datafusion)
    }
}

impl Column {
    fn read(&self, fragment: &Fragment, reader: &Reader<'_>) -> Result<ArrayRef> {
        let nulls = match self.nulls {
            Some(id) => {
                let flags = reader.words::<u8>(id)?;
                Some(flags.iter().map(|flag| *flag == 0).collect::<NullBuffer>()).filter(|nulls| nulls.null_count() > 0)
            }
            None => None,
        };
        macro_rules! words {
            ($t:ty, $id:expr) => {
                reader.words::<$t>(*$id)?
            };
        }
        match &self.form {
            Form::Values(id, "f64") => Ok(Arc::new(Float64Array::new(words!(f64, id).into(), nulls))),
            Form::Values(id, "f32") => Ok(Arc::new(Float32Array::new(words!(f32, id).into(), nulls))),
            Form::Values(id, element) => {
                let wide: Vec<i128> = match *element {
                    "u8" => words!(u8, id).into_iter().map(i128::from).collect(),
                    "i32" => words!(i32, id).into_iter().map(i128::from).collect(),
                    "i64" => words!(i64, id).into_iter().map(i128::from).collect(),
                    _ => words!(i128, id),
                };
                if let DataType::Decimal128(..) = self.data_type {
                    let array = Decimal128Array::new(wide.into(), nulls);
                    return Ok(Arc::new(array.with_data_type(self.data_type.clone())));
                }
                let lanes: Vec<i64> = wide.into_iter().map(|value| value as i64).collect();
                from_integer_keys(&lanes, nulls, &self.data_type)
            }
            Form::Codes(id, element, texts) => {
                let codes: Vec<u32> = match *element {
                    "u8" => words!(u8, id).into_iter().map(u32::from).collect(),
                    "u16" => words!(u16, id).into_iter().map(u32::from).collect(),
                    _ => words!(u32, id),
                };
                Ok(take(texts, &UInt32Array::new(codes.into(), nulls), None)?)
            }
            Form::Position(id) => {
                let Some((scan, column)) = self.origin else {
                    return internal_err!("a text of no table");
                };
                let nulls = nulls.map(|nulls| nulls.iter().map(|valid| u8::from(!valid)).collect());
                at_positions(&fragment.scans[scan], column, &words!(u32, id), nulls)
            }
        }
    }

    fn put(fragment: &mut Fragment, flow: &mut Flow, index: usize, rows: u64) -> Translated<Column> {
        let Inputs::Row(given) = &flow.translator.inputs else {
            return Err("a row of no columns".into());
        };
        let (given, col) = (given[index].clone(), flow.columns[index].clone());
        let data_type = given.data_type.clone();
        let (form, null) = if let Some(count) = codes(&given) {
            let code = flow.translator.code_of(index)?.ok_or("a code that is not there")?;
            let (element, width) = match count {
                0..=0x100 => ("u8", 1),
                0x101..=0x1_0000 => ("u16", 2),
                _ => ("u32", 4),
            };
            let id = fragment.array(rows, width, None);
            let array = flow.array(Input::Array(id), element);
            flow.line(&format!("{array}[at] = ({element}){};", code.code));
            let texts = given.texts.ok_or("a code that is not there")?;
            (Form::Codes(id, element, texts), code.null)
        } else if c_type(&data_type)? == "Text" {
            let position = col.position.as_ref().ok_or("keeping texts that are computed")?;
            let id = fragment.array(rows, 4, None);
            let array = flow.array(Input::Array(id), "u32");
            flow.line(&format!("{array}[at] = {position};"));
            (Form::Position(id), given.null)
        } else {
            let value = flow.translator.value_of(index)?;
            let (element, width) = element(&data_type, value.range)?;
            let id = fragment.array(rows, width, None);
            let array = flow.array(Input::Array(id), element);
            flow.line(&format!("{array}[at] = ({element}){};", value.value));
            (Form::Values(id, element), value.null)
        };
        let range = match &form {
            Form::Values(..) => flow.translator.value_of(index)?.range,
            _ => None,
        };
        let nulls = match null {
            Some(null) => {
                let id = fragment.array(rows, 1, None);
                let array = flow.array(Input::Array(id), "u8");
                flow.line(&format!("{array}[at] = {null};"));
                Some(id)
            }
            None => None,
        };
        Ok(Column {
            form,
            data_type,
            nulls,
            range,
            origin: col.origin,
            unique: col.unique,
        })
    }

    fn get(&self, fragment: &mut Fragment, flow: &mut Flow, row: &str, missing: Option<&str>) -> Col {
        let guarded = |load: String, nothing: &str| match missing {
            Some(missing) => format!("({missing} ? {nothing} : {load})"),
            None => load,
        };
        let own = self
            .nulls
            .map(|id| format!("{}[{row}] != 0", flow.array(Input::Array(id), "const u8")));
        let null = match (missing, own) {
            (Some(missing), Some(own)) => Some(format!("({missing} || {own})")),
            (Some(missing), None) => Some(missing.to_string()),
            (None, own) => own,
        };
        let (given, position) = match &self.form {
            Form::Values(id, element) => {
                let array = flow.array(Input::Array(*id), &format!("const {element}"));
                let (load, range) = match *element {
                    "u8" => (guarded(format!("{array}[{row}] != 0"), "false"), None),
                    element => (guarded(format!("{array}[{row}]"), &format!("({element})0")), self.range),
                };
                let range = match missing {
                    Some(_) => range.map(|(low, high)| (low.min(0), high.max(0))),
                    None => range,
                };
                (Given::new(self.data_type.clone(), load, null, range), None)
            }
            Form::Codes(id, element, texts) => {
                let array = flow.array(Input::Array(*id), &format!("const {element}"));
                let load = guarded(format!("(u32){array}[{row}]"), "0u");
                (Given::coded(texts.clone(), load, null), None)
            }
            Form::Position(id) => {
                let array = flow.array(Input::Array(*id), "const u32");
                let position = guarded(format!("{array}[{row}]"), "0u");
                let Some(origin) = self.origin else {
                    return Col::unread(&self.data_type);
                };
                let late = flow.late(fragment, origin, position.clone());
                let null = match missing {
                    Some(missing) => match &late.given.null {
                        Some(own) => Some(format!("({missing} || {own})")),
                        None => Some(missing.to_string()),
                    },
                    None => late.given.null.clone(),
                };
                (late.given.with_null(null), Some(position))
            }
        };
        Col {
            given,
            origin: self.origin,
            position,
            unique: self.unique,
        }
    }
}
