//! A column of a table that a pipeline makes: put in row by row, read by later pipelines and by the host.
//!
//! More than 400 lines because how a column is put in, got and read stands together for each form.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::super::aggregated::{Aggregated, Cell};
use super::super::col::Col;
use super::super::flow::{Flow, codes};
use super::super::fragment::{Fragment, Input};
use super::super::on_host::OnHost;
use super::super::passes::ScanColumn;
use crate::codegen::{Given, Inputs, Range, Translated, c_type};
use crate::keys::is_integer_key;
use tenon_storage::types::NUMERIC;

/// The host takes a text out of those of its column, and a value out of its row of the table, which lies anywhere.
const CODE_AS_NUMBERS: u64 = 5;
const POSITION_AS_NUMBERS: u64 = 20;

/// A side of so few rows may be given by the CPU, where its texts are computed.
const FEW_ROWS: u64 = 1 << 18;

/// A column that somebody reads.
pub struct Column {
    pub form: Form,
    pub data_type: DataType,
    pub nulls: Option<usize>,
    pub range: Option<Range>,
    pub origin: Option<(usize, usize)>,
    pub unique: bool,
    pub equals: Option<ScanColumn>,
    /// Of a decimal that is a numeric to others.
    pub numeric: Option<Shown>,
}

/// The digits after the point that a numeric shows.
#[derive(Clone, Copy)]
pub enum Shown {
    /// Those of its type.
    All,
    /// By row, in an array of bytes.
    Each(usize),
}

/// How its values lie in arrays.
pub enum Form {
    /// An array of this C++ type.
    Values(usize, &'static str),
    Codes(usize, &'static str, ArrayRef),
    /// An array of where computed texts are, which only pipelines read.
    Text(usize),
    /// What the host makes of other columns.
    OnHost(Arc<OnHost>, Vec<Column>),
    /// The position of the row in the scan that the text, or what no kernel reads, is of.
    Position(usize),
    /// It is the scan's, of whose rows none is left out: row by row.
    InPlace,
    /// The arrays of the words of an aggregate's cells.
    State(Arc<Aggregated>, Vec<Vec<usize>>),
}

/// The narrowest type that holds a value.
pub fn element(data_type: &DataType, range: Option<Range>) -> Translated<(&'static str, u64)> {
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

impl Column {
    /// A scan's column, whose row is the scan's own.
    pub fn in_place(flow: &Flow, index: usize) -> Column {
        let col = &flow.columns[index];
        Column {
            form: Form::InPlace,
            data_type: col.given.data_type.clone(),
            nulls: None,
            range: None,
            origin: col.origin,
            unique: col.unique,
            equals: col.equals,
            numeric: None,
        }
    }

    pub fn put(fragment: &mut Fragment, flow: &mut Flow, index: usize, rows: u64) -> Translated<Column> {
        let Inputs::Row(given) = &flow.translator.inputs else {
            return Err("a row of no columns".into());
        };
        let (given, col) = (given[index].clone(), flow.columns[index].clone());
        let promised = flow.translator.schema.field(index).data_type().clone();
        if let Some(aggregated) = col
            .aggregated
            .filter(|_| given.data_type != promised || given.is_unread())
        {
            return Ok(Column::state(fragment, flow, aggregated, rows, promised));
        }
        let by_host = !fragment.reads_all && (flow.to_host || given.is_unread());
        if let Some(on_host) = col.on_host.filter(|_| by_host) {
            let null = given.null.clone().filter(|_| given.is_unread());
            return Column::on_host(fragment, flow, on_host, null, rows);
        }
        let data_type = given.data_type.clone();
        let mut numeric = None;
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
        } else if given.is_unread() || c_type(&data_type)? == "Text" {
            match &col.position {
                Some(position) => {
                    let id = fragment.array(rows, 4, None);
                    let array = flow.array(Input::Array(id), "u32");
                    flow.line(&format!("{array}[at] = {position};"));
                    (Form::Position(id), given.null)
                }
                // Few rows with such are made by the CPU, and get codes.
                None if given.is_unread() || rows <= FEW_ROWS => {
                    return Err(format!("keeping computed values of {data_type}"));
                }
                None => {
                    let value = flow.translator.value_of(index)?;
                    let text = match &value.null {
                        Some(null) => format!("({null} ? Text() : {})", value.value),
                        None => value.value,
                    };
                    let id = fragment.array(rows, 8, None);
                    let array = flow.array(Input::Array(id), "u64");
                    flow.line(&format!("{array}[at] = text_place(p, {text});"));
                    flow.keeps_texts = true;
                    (Form::Text(id), value.null)
                }
            }
        } else {
            let value = flow.translator.value_of(index)?;
            let (element, width) = element(&data_type, value.range)?;
            let id = fragment.array(rows, width, None);
            let array = flow.array(Input::Array(id), element);
            flow.line(&format!("{array}[at] = ({element}){};", value.value));
            if promised == NUMERIC && matches!(data_type, DataType::Decimal128(_, 0..)) {
                numeric = Some(match &value.shown {
                    Some(shown) => {
                        let id = fragment.array(rows, 1, None);
                        let array = flow.array(Input::Array(id), "u8");
                        flow.line(&format!("{array}[at] = (u8){shown};"));
                        Shown::Each(id)
                    }
                    None => Shown::All,
                });
            }
            (Form::Values(id, element), value.null)
        };
        let range = match &form {
            Form::Values(..) => flow.translator.value_of(index)?.range,
            _ => None,
        };
        Ok(Column {
            form,
            data_type,
            nulls: null.map(|null| Column::flags(fragment, flow, &null, rows)),
            range,
            origin: col.origin,
            unique: col.unique,
            equals: col.equals,
            numeric,
        })
    }

    /// Keeps whether a row's value is null.
    fn flags(fragment: &mut Fragment, flow: &mut Flow, null: &str, rows: u64) -> usize {
        let id = fragment.array(rows, 1, None);
        let array = flow.array(Input::Array(id), "u8");
        flow.line(&format!("{array}[at] = {null};"));
        id
    }

    /// What the host makes of others, of which these are kept.
    fn on_host(
        fragment: &mut Fragment,
        flow: &mut Flow,
        on_host: Arc<OnHost>,
        null: Option<String>,
        rows: u64,
    ) -> Translated<Column> {
        let (schema, before) = (flow.translator.schema.clone(), flow.current());
        flow.enter(on_host.schema.clone(), on_host.columns.clone());
        let columns = (0..on_host.columns.len()).map(|own| Column::put(fragment, flow, own, rows));
        let columns = columns.collect::<Translated<Vec<_>>>();
        flow.enter(schema, before);
        Ok(Column {
            form: Form::OnHost(on_host, columns?),
            data_type: DataType::Utf8View,
            nulls: null.map(|null| Column::flags(fragment, flow, &null, rows)),
            range: None,
            origin: None,
            unique: false,
            equals: None,
            numeric: None,
        })
    }

    /// Whether the host can read it.
    pub fn is_readable(&self) -> bool {
        use DataType::{Decimal128, Float32, Float64, UInt64, Utf8View};
        match &self.form {
            Form::State(..) | Form::Position(_) | Form::InPlace => true,
            Form::OnHost(own, columns) => {
                let promised = own.schema.fields().iter().map(|field| field.data_type());
                columns.iter().map(Column::promised).eq(promised) && columns.iter().all(Column::is_readable)
            }
            Form::Text(_) => false,
            Form::Values(..) | Form::Codes(..) => {
                is_integer_key(&self.data_type)
                    || matches!(self.data_type, Decimal128(..) | Float64 | Float32 | UInt64 | Utf8View)
            }
        }
    }

    /// A row's value takes the host as long as so many numbers.
    pub fn as_numbers(&self) -> u64 {
        match &self.form {
            Form::Values(..) if self.numeric.is_some() => CODE_AS_NUMBERS,
            Form::Values(..) => 1,
            Form::Codes(..) => CODE_AS_NUMBERS,
            Form::Text(_) | Form::Position(_) | Form::InPlace => POSITION_AS_NUMBERS,
            Form::State(_, cells) => cells.iter().map(|words| words.len() as u64).sum(),
            Form::OnHost(_, columns) => {
                let own = columns.iter().map(Column::as_numbers);
                own.fold(POSITION_AS_NUMBERS, u64::saturating_add)
            }
        }
    }

    /// The arrays that the host reads.
    pub fn arrays(&self) -> Vec<usize> {
        let mut arrays = match &self.form {
            Form::Values(values, _) | Form::Codes(values, ..) | Form::Position(values) | Form::Text(values) => {
                vec![*values]
            }
            Form::State(_, cells) => cells.concat(),
            Form::InPlace => vec![],
            Form::OnHost(_, columns) => columns.iter().flat_map(Column::arrays).collect(),
        };
        arrays.extend(self.nulls);
        if let Some(Shown::Each(id)) = self.numeric {
            arrays.push(id);
        }
        arrays
    }

    /// An aggregate whose value is no column's as it is.
    fn state(
        fragment: &mut Fragment,
        flow: &mut Flow,
        aggregated: Arc<Aggregated>,
        rows: u64,
        data_type: DataType,
    ) -> Column {
        let mut word = |word: &String| {
            let id = fragment.array(rows, 8, None);
            let array = flow.array(Input::Array(id), "u64");
            flow.line(&format!("{array}[at] = {word};"));
            id
        };
        let cells = aggregated
            .cells
            .iter()
            .map(|cell| cell.words.iter().map(&mut word).collect());
        let cells = cells.collect();
        Column {
            form: Form::State(aggregated, cells),
            data_type,
            nulls: None,
            range: None,
            origin: None,
            unique: false,
            equals: None,
            numeric: None,
        }
    }

    /// The type that others see.
    pub fn promised(&self) -> &DataType {
        match self.numeric {
            Some(_) => &NUMERIC,
            None => &self.data_type,
        }
    }

    pub fn get(&self, fragment: &mut Fragment, flow: &mut Flow, row: &str, missing: Option<&str>) -> Col {
        let guarded = |load: String, nothing: &str| match missing {
            Some(missing) => format!("({missing} ? {nothing} : {load})"),
            None => load,
        };
        let own = self
            .nulls
            .map(|id| format!("{}[{row}] != 0", flow.array(Input::Array(id), "const u8")));
        let or_missing = |own: Option<String>| match (missing, own) {
            (Some(missing), Some(own)) => Some(format!("({missing} || {own})")),
            (Some(missing), None) => Some(missing.to_string()),
            (None, own) => own,
        };
        let null = or_missing(own);
        let (given, position) = match &self.form {
            // Of rows that are missing no cell has counted anything.
            Form::State(aggregated, cells) => {
                let cells = aggregated.cells.iter().zip(cells).map(|(cell, arrays)| {
                    let words = arrays.iter();
                    let words = words.map(|id| {
                        let array = flow.array(Input::Array(*id), "const u64");
                        guarded(format!("{array}[{row}]"), "0ull")
                    });
                    Cell {
                        words: words.collect(),
                        ..cell.clone()
                    }
                });
                let own = Aggregated {
                    aggregate: Arc::clone(&aggregated.aggregate),
                    state: aggregated.state.clone(),
                    cells: cells.collect(),
                    rows_max: aggregated.rows_max,
                };
                // It had a form as code when it was put in.
                return own.column(&self.data_type).unwrap_or(Col::unread(&self.data_type));
            }
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
                let shown = match self.numeric {
                    Some(Shown::Each(id)) => {
                        let array = flow.array(Input::Array(id), "const u8");
                        Some(guarded(format!("(i64){array}[{row}]"), "(i64)0"))
                    }
                    _ => None,
                };
                let given = Given::new(self.data_type.clone(), load, null, range);
                (given.with_shown(shown), None)
            }
            Form::Codes(id, element, texts) => {
                let array = flow.array(Input::Array(*id), &format!("const {element}"));
                let load = guarded(format!("(u32){array}[{row}]"), "0u");
                (Given::coded(texts.clone(), load, null), None)
            }
            Form::Text(id) => {
                let array = flow.array(Input::Array(*id), "const u64");
                let load = guarded(format!("text_placed({array}[{row}])"), "Text()");
                (Given::new(self.data_type.clone(), load, null, None), None)
            }
            Form::OnHost(own, columns) => {
                let columns = columns.iter().map(|column| column.get(fragment, flow, row, missing));
                let own = Arc::new(own.over(columns.collect()));
                let given = Given::unread(self.data_type.clone(), null);
                return Col {
                    on_host: Some(own),
                    ..Col::computed(given)
                };
            }
            Form::Position(id) => {
                let array = flow.array(Input::Array(*id), "const u32");
                let position = guarded(format!("{array}[{row}]"), "0u");
                let Some(origin) = self.origin else {
                    return Col::unread(&self.data_type);
                };
                let late = flow.late(fragment, origin, position.clone());
                // What the table's own row is matters no more: a row of a join may have none.
                (late.given.with_null(null), Some(position))
            }
            Form::InPlace => {
                let Some(origin) = self.origin else {
                    return Col::unread(&self.data_type);
                };
                let position = guarded(row.to_string(), "0u");
                let own = flow.in_place(fragment, origin, position.clone()).given;
                let null = or_missing(own.null.clone());
                (own.with_null(null), Some(position))
            }
        };
        Col {
            given,
            origin: self.origin,
            position,
            unique: self.unique,
            aggregated: None,
            // Rows that are missing have no value of it.
            equals: self.equals.filter(|_| missing.is_none()),
            on_host: None,
        }
    }
}
