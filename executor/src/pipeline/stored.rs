//! How a table's column is kept, over all of its segments: what code that loads it must know.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::datatypes::DataType;
use tenon_storage::{Bound, Codes, DictionaryColumn, Differences, Form, Segment, TableVersion};

use crate::codegen::{Given, Range, Translated};

/// A column as kernels load it.
pub enum Stored {
    /// Whole numbers; how a difference is kept where that is the same in all segments.
    Number {
        width: Option<Width>,
        range: Range,
    },
    /// Codes of texts.
    Code(ArrayRef),
    /// Few texts, which get codes on their way to the device.
    Few(Few),
    Text,
    Float64,
    Float32,
    Bit,
}

impl Stored {
    pub fn of(table: &TableVersion, column: usize) -> Translated<Self> {
        let data_type = table.schema().field(column).data_type();
        let forms = || table.segments().iter().map(|segment| segment.form(column));
        match data_type {
            DataType::Float64 => return Ok(Self::Float64),
            DataType::Float32 => return Ok(Self::Float32),
            DataType::Boolean => return Ok(Self::Bit),
            DataType::Utf8View => return Ok(Self::texts(table, column)),
            _ => {}
        }
        let mut widths = forms().map(|form| width(&form));
        let first = widths.next().flatten();
        let same = first.filter(|first| widths.all(|width| width == Some(*first)));
        if forms().any(|form| width(&form).is_none()) {
            return Err(format!("a column of {data_type}"));
        }
        let statistics = &table.statistics().columns[column];
        let number = |bound: &Option<Bound>| match bound {
            Some(Bound::Int(value)) => Some(i128::from(*value)),
            Some(Bound::Decimal(value)) => Some(*value),
            _ => None,
        };
        let known = number(&statistics.min).zip(number(&statistics.max));
        let range = match (known, statistics.null_count) {
            (Some((low, high)), 0) => (low, high),
            // What null rows hold is never read as a value, but computed with.
            (Some((low, high)), _) => (low.min(0), high.max(0)),
            (None, nulls) if nulls == statistics.rows => (0, 0),
            (None, _) => return Err("a column without bounds".into()),
        };
        Ok(Self::Number { width: same, range })
    }

    fn texts(table: &TableVersion, column: usize) -> Self {
        let mut largest: Option<&DictionaryColumn> = None;
        for segment in table.segments().iter() {
            match coded(segment.form(column)) {
                // Later segments know more values, and the same codes for those of earlier ones.
                Some(own) if largest.is_none_or(|largest| own.values_len() > largest.values_len()) => {
                    largest = Some(own);
                }
                Some(_) => {}
                None if table.rows() <= CODED_ROWS_MAX => return Self::Few(few(table, column)),
                None => return Self::Text,
            }
        }
        match largest.filter(|largest| largest.values_len() <= CODES_MAX) {
            Some(largest) => Self::Code(Arc::new(largest.values()) as ArrayRef),
            None => Self::Text,
        }
    }

    /// How the column is loaded where a row of its segment is at hand, by the names of both.
    pub fn given(&self, data_type: &DataType, segment: &str, row: &str, nullable: bool) -> Given {
        let null = nullable.then(|| format!("stored_null({segment}, {row})"));
        let plain = |function: &str, range| {
            let load = format!("{function}({segment}, {row})");
            Given::new(data_type.clone(), load, null.clone(), range)
        };
        match self {
            Self::Number { width, range } => {
                let fits = i64::try_from(range.0).is_ok() && i64::try_from(range.1).is_ok();
                let function = match width {
                    _ if !fits => "stored_wide",
                    Some(Width::U(1)) => "stored<u8>",
                    Some(Width::U(2)) => "stored<u16>",
                    Some(Width::U(4)) => "stored<u32>",
                    Some(Width::U(8)) => "stored<u64>",
                    Some(Width::I(2)) => "stored<i16>",
                    Some(Width::I(4)) => "stored<i32>",
                    _ => "stored_any",
                };
                plain(function, Some(*range))
            }
            Self::Code(texts) | Self::Few(Few { texts, .. }) => {
                let load = format!("stored_code({segment}, {row})");
                Given::coded(Arc::clone(texts), load, null)
            }
            Self::Text => plain("stored_text", None),
            Self::Float64 => plain("stored_f64", None),
            Self::Float32 => plain("stored_f32", None),
            Self::Bit => plain("stored_bit", None),
        }
    }
}

/// The codes that a form has, a row for each run of them where there are runs.
fn coded(form: Form<'_>) -> Option<&DictionaryColumn> {
    match form {
        Form::Dictionary(own) => Some(own),
        Form::RunLength(own) => coded(own.values_form()),
        _ => None,
    }
}

/// Most values of a column that is in codes on the device, whose codes have at most 16 bits: what is computed of each value
/// costs more than it saves where they are more.
const CODES_MAX: usize = 1 << 16;
/// Rows of a table whose texts get codes on their way to the device.
const CODED_ROWS_MAX: u64 = 4096;

/// The texts of a small table's column, each once, and their codes by segment.
pub struct Few {
    pub texts: ArrayRef,
    pub codes: Vec<Vec<u16>>,
}

fn few(table: &TableVersion, column: usize) -> Few {
    let mut known: HashMap<String, u16> = HashMap::new();
    let mut texts: Vec<String> = vec![];
    let mut codes = vec![];
    for segment in table.segments().iter() {
        let array = segment.column(column);
        let own = array.as_string_view().iter().map(|text| match text {
            None => 0,
            Some(text) => *known.entry(text.into()).or_insert_with(|| {
                texts.push(text.into());
                (texts.len() - 1) as u16
            }),
        });
        codes.push(own.collect());
    }
    let texts = Arc::new(StringViewArray::from_iter_values(texts));
    Few { texts, codes }
}

/// Bytes of a column on the device.
pub fn bytes(table: &TableVersion, column: usize) -> u64 {
    let of = |segment: &Arc<Segment>| {
        let rows = segment.rows() as u64;
        match segment.form(column) {
            form if coded(form).is_some() => coded(form).map_or(0, |own| match own.codes {
                Codes::U8(_) => rows,
                Codes::U16(_) => 2 * rows,
                Codes::U32(_) => segment.plain_bytes(column) as u64,
            }),
            Form::RunLength(_) if width(&segment.form(column)).is_none() => segment.plain_bytes(column) as u64,
            Form::Text(own) => 4 * rows + own.data().len() as u64,
            Form::Plain(array) if width(&segment.form(column)).is_none() => array.get_array_memory_size() as u64,
            form => rows * width(&form).map_or(0, Width::bytes),
        }
    };
    table.segments().iter().map(of).sum()
}

/// How a number of a segment is kept on the device, in so many bytes: as a difference from the base, or with a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    U(u64),
    I(u64),
}

impl Width {
    pub fn bytes(self) -> u64 {
        let (Self::U(bytes) | Self::I(bytes)) = self;
        bytes
    }

    /// As `kernels/pipeline.cuh` tells them apart.
    pub fn code(self) -> u64 {
        const SIGNED: u64 = 0x100;
        match self {
            Self::U(bytes) => bytes,
            Self::I(bytes) => SIGNED | bytes,
        }
    }
}

/// None: these are no numbers that the device takes.
pub fn width(form: &Form<'_>) -> Option<Width> {
    match form {
        Form::RunLength(runs) => width(&runs.values_form()),
        Form::Narrow(column) => Some(Width::U(match column.differences() {
            Differences::None(_) => 0,
            Differences::U8(_) => 1,
            Differences::U16(_) => 2,
            Differences::U32(_) => 4,
            Differences::U64(_) => 8,
        })),
        Form::Plain(array) => match array.data_type() {
            DataType::Decimal128(..) => Some(Width::U(16)),
            DataType::Int16 => Some(Width::I(2)),
            DataType::Int32 | DataType::Date32 => Some(Width::I(4)),
            // From 0 on, modulo 2^64.
            DataType::Int64 | DataType::Time64(_) | DataType::Timestamp(..) => Some(Width::U(8)),
            _ => None,
        },
        _ => None,
    }
}
