//! Rows of several flows in one table.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, StringViewArray};
use arrow::datatypes::DataType;

use super::super::flow::{Flow, codes};
use super::super::fragment::{Fragment, Input, ROWS_MAX};
use super::Made;
use super::column::{Column, Form, Shown, element};
use crate::codegen::{Given, Inputs, Range, Translated, Value, c_type, scale};
use tenon_storage::types::NUMERIC;

/// What of a column all flows have in common.
enum Kind {
    Values(Option<Range>),
    /// Numerics as decimals of one scale: the values of each flow, and the digits that they show.
    Numerics(Vec<Value>, DataType, Option<Range>),
    /// Texts of any origin, wherever they are.
    Texts,
    /// Texts of one table's column, or what no kernel reads.
    Positions((usize, usize)),
    /// All texts, and for each flow the place of each of its own among these.
    Codes(ArrayRef, Vec<ArrayRef>),
}

impl Made {
    /// Ends the rows of all flows, whose columns are of the same types, in one new table.
    pub fn of_all(fragment: &mut Fragment, mut flows: Vec<Flow>) -> Translated<Made> {
        let (count, rows_max, room) = Self::sizes(fragment, &flows);
        if rows_max >= ROWS_MAX {
            return Err("a union of too many rows".into());
        }
        let multiplied = flows.iter().any(|flow| flow.multiplied);
        let width = flows.first().map_or(0, |flow| flow.columns.len());
        let kinds = (0..width).map(|index| kind(fragment, &mut flows, index));
        let kinds = kinds.collect::<Translated<Vec<_>>>()?;
        for flow in &mut flows {
            let (count, room) = (flow.array(Input::Array(count), "u32"), flow.number(room));
            flow.line(&format!("u32 at = new_row(p, {count}, {room});"));
            flow.only_if("at != NO_ROW");
        }
        let mut columns = vec![];
        for (index, kind) in kinds.into_iter().enumerate() {
            columns.push(Some(put(fragment, &mut flows, index, kind, room)?));
        }
        for flow in flows {
            flow.finish(fragment)?;
        }
        Ok(Made {
            count,
            rows_max,
            room,
            columns,
            multiplied,
            stage: fragment.gathered(),
            in_order: false,
        })
    }
}

fn kind(fragment: &Fragment, flows: &mut [Flow], index: usize) -> Translated<Kind> {
    let mut given = vec![];
    for flow in flows.iter() {
        let Inputs::Row(own) = &flow.translator.inputs else {
            return Err("a row of no columns".into());
        };
        let promised = flow.translator.schema.field(index).data_type();
        let is_numeric = *promised == NUMERIC && matches!(own[index].data_type, DataType::Decimal128(_, 0..));
        if own[index].data_type != *promised && !is_numeric {
            return Err(format!("a union of values of {promised}"));
        }
        given.push(own[index].clone());
    }
    if given.iter().all(|own| own.data_type.is_decimal())
        && *flows[0].translator.schema.field(index).data_type() == NUMERIC
    {
        return numerics(flows, index);
    }
    let data_type = &given[0].data_type;
    if given.iter().any(|own| own.data_type != *data_type) {
        return Err(format!("a union of {data_type} and others"));
    }
    let is_unread = given.iter().any(Given::is_unread);
    if !is_unread && c_type(data_type)? != "Text" {
        let mut range: Option<Range> = None;
        for (at, flow) in flows.iter_mut().enumerate() {
            let own = flow.translator.value_of(index)?.range;
            range = match (at, range, own) {
                (0, _, own) => own,
                (_, Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
                _ => None,
            };
        }
        return Ok(Kind::Values(range));
    }
    let columns = flows.iter().map(|flow| &flow.columns[index]);
    let mut origins = columns.map(|column| column.position.as_ref().and(column.origin));
    // A position is of the same row in all scans of a table.
    let table = |(scan, column): (usize, usize)| (Arc::as_ptr(&fragment.scans[scan].table), column);
    if given.iter().all(|own| codes(own).is_none())
        && let Some(Some(origin)) = origins.next()
        && origins.all(|own| own.map(table) == Some(table(origin)))
    {
        return Ok(Kind::Positions(origin));
    }
    if !data_type.is_string() || is_unread {
        return Err(format!("a union of values of {data_type}"));
    }
    if *data_type != DataType::Utf8View || given.iter().any(|own| codes(own).is_none()) {
        return Ok(Kind::Texts);
    }
    let (mut known, mut texts, mut places) = (HashMap::new(), vec![], vec![]);
    for own in given.iter().filter_map(|own| own.texts.as_ref()) {
        let place = own.as_string_view().iter().map(|text| {
            let text = text.unwrap_or_default();
            *known.entry(text).or_insert_with(|| {
                texts.push(text);
                (texts.len() - 1) as i32
            })
        });
        places.push(Arc::new(place.collect::<Int32Array>()) as ArrayRef);
    }
    Ok(Kind::Codes(Arc::new(StringViewArray::from_iter_values(texts)), places))
}

/// Numerics of all flows, brought to the most digits that those of one have.
fn numerics(flows: &mut [Flow], index: usize) -> Translated<Kind> {
    let (mut values, mut range): (Vec<Value>, Option<Range>) = (vec![], None);
    for flow in flows.iter_mut() {
        values.push(flow.translator.value_of(index)?);
    }
    let after = values.iter().map(|value| scale(&value.data_type)).max().unwrap_or(0);
    for (value, flow) in values.iter_mut().zip(flows) {
        let shown = Some(value.digits_shown());
        let scaled = flow.translator.raised(value.clone(), after)?;
        let (low, high) = scaled.range.ok_or("a union of values of unknown range")?;
        range = Some(range.map_or((low, high), |all| (all.0.min(low), all.1.max(high))));
        *value = Value { shown, ..scaled };
    }
    Ok(Kind::Numerics(values, DataType::Decimal128(38, after), range))
}

/// Puts column `index` of each flow into the same arrays.
fn put(fragment: &mut Fragment, flows: &mut [Flow], index: usize, kind: Kind, rows: u64) -> Translated<Column> {
    let mut nulls = None;
    let (c_type, width) = match &kind {
        Kind::Values(range) => element(flows[0].translator.schema.field(index).data_type(), *range)?,
        Kind::Numerics(_, data_type, range) => element(data_type, *range)?,
        Kind::Texts => ("u64", 8),
        Kind::Codes(..) | Kind::Positions(_) => ("u32", 4),
    };
    let mut numeric = None;
    if let Kind::Numerics(values, ..) = &kind {
        let shown = fragment.array(rows, 1, None);
        numeric = Some(Shown::Each(shown));
        for (flow, value) in flows.iter_mut().zip(values) {
            let array = flow.array(Input::Array(shown), "u8");
            flow.line(&format!("{array}[at] = (u8){};", value.digits_shown()));
        }
    }
    let id = fragment.array(rows, width, None);
    let mut values = vec![];
    for (at, flow) in flows.iter_mut().enumerate() {
        let (value, null) = match &kind {
            Kind::Values(_) => {
                let value = flow.translator.value_of(index)?;
                (value.value, value.null)
            }
            Kind::Numerics(values, ..) => (values[at].value.clone(), values[at].null.clone()),
            Kind::Texts => {
                let value = flow.translator.value_of(index)?;
                flow.keeps_texts = true;
                let text = match &value.null {
                    Some(null) => format!("({null} ? Text() : {})", value.value),
                    None => value.value,
                };
                (format!("text_place(p, {text})"), value.null)
            }
            Kind::Positions(_) => {
                let column = &flow.current()[index];
                let position = column.position.clone().ok_or("a text of no table")?;
                (position, column.given.null.clone())
            }
            Kind::Codes(_, places) => {
                let code = flow.translator.code_of(index)?.ok_or("a code that is not there")?;
                match places[at].is_empty() {
                    true => ("0u".into(), Some("true".into())),
                    false => {
                        let place = flow.translator.array(&places[at], &code.code)?;
                        (place.value, code.null)
                    }
                }
            }
        };
        values.push((value, null));
    }
    if values.iter().any(|(_, null)| null.is_some()) {
        nulls = Some(fragment.array(rows, 1, None));
    }
    for (flow, (value, null)) in flows.iter_mut().zip(values) {
        let array = flow.array(Input::Array(id), c_type);
        flow.line(&format!("{array}[at] = ({c_type}){value};"));
        if let Some(nulls) = nulls {
            let array = flow.array(Input::Array(nulls), "u8");
            flow.line(&format!("{array}[at] = {};", null.as_deref().unwrap_or("false")));
        }
    }
    let data_type = match &kind {
        Kind::Numerics(_, data_type, _) => data_type.clone(),
        _ => flows[0].translator.schema.field(index).data_type().clone(),
    };
    let origin = match &kind {
        Kind::Positions(origin) => Some(*origin),
        _ => None,
    };
    let (form, range) = match kind {
        Kind::Values(range) => (Form::Values(id, c_type), range),
        Kind::Numerics(_, _, range) => (Form::Values(id, c_type), range),
        Kind::Texts => (Form::Text(id), None),
        Kind::Positions(_) => (Form::Position(id), None),
        Kind::Codes(texts, _) => (Form::Codes(id, c_type, texts), None),
    };
    Ok(Column {
        form,
        data_type,
        nulls,
        range,
        origin,
        unique: false,
        equals: None,
        numeric,
    })
}
