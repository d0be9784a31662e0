//! Columns of any type, from texts and from json.

use super::field;
use super::parse_record;
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::functions::array::leaf;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, StructArray, new_null_array};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::concat;
use datafusion::arrow::compute::kernels::zip::zip;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, internal_err};
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::datetime::Conventions;
use tenon_storage::json::scan;
use tenon_storage::parse::{Invalid, parse_array, parse_column_by};

/// Where a value comes from.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// The value of the record that is there already.
    Kept,
    Null,
    Text(String),
    /// The text of a JSON value that is not null.
    Json(String),
}

impl Item {
    /// Of a JSON text.
    pub(super) fn json(text: &str) -> Item {
        match scan::kind(text) {
            "null" => Item::Null,
            _ => Item::Json(text.to_owned()),
        }
    }
}

fn invalid(error: Invalid) -> datafusion::error::DataFusionError {
    to_datafusion(error.into_error(SqlType::Json, "").into())
}

fn bad<T>(message: &str) -> Result<T> {
    Err(to_datafusion(SqlError::new(
        state::INVALID_TEXT_REPRESENTATION,
        message,
    )))
}

/// A column of a field's type. `base`: what `Kept` means.
pub(super) fn column(field: &Field, items: &[Item], base: Option<&ArrayRef>, by: &Conventions) -> Result<ArrayRef> {
    let is_range = matches!(
        SqlType::from_field(field),
        Some(SqlType::Range(_) | SqlType::Multirange(_))
    );
    let built = match field.data_type() {
        _ if is_range => scalars(field, items, by)?,
        DataType::Struct(fields) => return records(fields, items, base, by),
        DataType::List(_) => lists(field, items, by)?,
        _ => scalars(field, items, by)?,
    };
    let kept = items.iter().any(|item| matches!(item, Item::Kept));
    match base.filter(|_| kept) {
        Some(base) => {
            let mask: Vec<bool> = items.iter().map(|item| matches!(item, Item::Kept)).collect();
            Ok(zip(&BooleanArray::from(mask), base, &built)?)
        }
        None => Ok(built),
    }
}

fn scalars(field: &Field, items: &[Item], by: &Conventions) -> Result<ArrayRef> {
    let Some(of) = SqlType::from_field(field) else {
        let message = format!("a value of type {} from text", field.data_type());
        return Err(to_datafusion(SqlError::unsupported(message)));
    };
    let is_json = matches!(of, SqlType::Json | SqlType::Jsonb);
    let text = |item: &Item| match item {
        Item::Kept | Item::Null => Ok(None),
        Item::Text(text) => Ok(Some(text.clone())),
        Item::Json(json) if is_json => Ok(Some(json.clone())),
        Item::Json(json) => scan::as_text(json).map_err(invalid),
    };
    let texts = items.iter().map(text).collect::<Result<Vec<_>>>()?;
    let values = parse_column_by(of, texts.iter().map(Option::as_deref), by);
    values.map_err(|(_, error)| to_datafusion(error.into()))
}

/// How deep arrays are nested: what the first items say.
fn depth(json: &str) -> usize {
    match scan::kind(json) {
        "array" => {
            1 + scan::elements(json)
                .and_then(|items| items.first().map(|first| depth(first)))
                .unwrap_or(0)
        }
        _ => 0,
    }
}

/// The sizes of a JSON array's dimensions; None where its arrays differ.
fn sizes(json: &str, depth: usize) -> Option<Vec<usize>> {
    if depth == 0 {
        return Some(Vec::new());
    }
    let items = scan::elements(json)?;
    let mut inner: Option<Vec<usize>> = None;
    for item in &items {
        let own = sizes(item, depth - 1)?;
        match &inner {
            Some(first) if *first != own => return None,
            _ => inner = Some(own),
        }
    }
    let mut out = vec![items.len()];
    out.extend(inner.unwrap_or_default());
    Some(out)
}

fn lists(field: &Field, items: &[Item], by: &Conventions) -> Result<ArrayRef> {
    if items.is_empty() {
        return Ok(new_null_array(field.data_type(), 0));
    }
    let lists = items.iter().map(|own| list(field, own, by));
    let lists = lists.collect::<Result<Vec<_>>>()?;
    let lists: Vec<&dyn Array> = lists.iter().map(AsRef::as_ref).collect();
    Ok(concat(&lists)?)
}

/// A column of one array.
fn list(field: &Field, own: &Item, by: &Conventions) -> Result<ArrayRef> {
    let json = match own {
        Item::Kept | Item::Null => return Ok(new_null_array(field.data_type(), 1)),
        Item::Text(text) => return list_of_text(field, text, by),
        Item::Json(json) => json,
    };
    match scan::kind(json) {
        "array" => {}
        "string" => {
            let text = scan::as_text(json).map_err(invalid)?.unwrap_or_default();
            return list_of_text(field, &text, by);
        }
        _ => return bad("expected JSON array"),
    }
    let (given, (_, wanted)) = (depth(json), leaf(field.data_type()));
    match sizes(json, given) {
        None => return bad("malformed JSON array"),
        Some(sizes) if sizes.contains(&0) => return one_list(field, Vec::new(), by),
        Some(_) if given != wanted => {
            let of = SqlType::from_field(field).map_or_else(|| "record[]".to_string(), SqlType::sql_name);
            let message = format!("an array of {given} dimensions as a value of type {of}");
            return Err(to_datafusion(SqlError::unsupported(message)));
        }
        Some(_) => {}
    }
    let items = scan::elements(json).unwrap_or_default().into_iter().map(Item::json);
    one_list(field, items.collect(), by)
}

fn list_of_text(field: &Field, text: &str, by: &Conventions) -> Result<ArrayRef> {
    if let Some(of) = SqlType::from_field(field) {
        let parsed = parse_column_by(of, std::iter::once(Some(text)), by);
        return parsed.map_err(|(_, error)| to_datafusion(error.into()));
    }
    let parsed = parse_array(text).map_err(|error| to_datafusion(error.into()))?;
    if parsed.sizes.len() > 1 || leaf(field.data_type()).1 > 1 {
        return Err(to_datafusion(SqlError::unsupported(
            "an array of records with several dimensions",
        )));
    }
    let items = parsed.items.into_iter().map(|item| item.map_or(Item::Null, Item::Text));
    one_list(field, items.collect(), by)
}

fn one_list(field: &Field, items: Vec<Item>, by: &Conventions) -> Result<ArrayRef> {
    let DataType::List(item) = field.data_type() else {
        return internal_err!("an array is a list");
    };
    // Of what SQL type the items are, the array's own field says.
    let of = match SqlType::from_field(field) {
        Some(SqlType::Array(of)) if of.dimensions() == 1 => of.element().field("item", true),
        Some(SqlType::Array(of)) => SqlType::Array(of.with_dimensions(of.dimensions() - 1)).field("item", true),
        _ => item.as_ref().clone(),
    };
    let values = column(&of, &items, None, by)?;
    let offsets = OffsetBuffer::from_lengths([items.len()]);
    Ok(Arc::new(ListArray::try_new(item.clone(), offsets, values, None)?))
}

/// Records: of objects by the names of their columns, of texts in their order.
pub(super) fn records(fields: &Fields, items: &[Item], base: Option<&ArrayRef>, by: &Conventions) -> Result<ArrayRef> {
    let base = base.map(|base| base.as_struct());
    let mut columns = vec![Vec::with_capacity(items.len()); fields.len()];
    let mut valid = Vec::with_capacity(items.len());
    for (row, item) in items.iter().enumerate() {
        let own = of_record(fields, item)?;
        columns
            .iter_mut()
            .zip(own)
            .for_each(|(column, value)| column.push(value));
        valid.push(match item {
            Item::Null => false,
            Item::Kept => base.is_some_and(|base| base.is_valid(row)),
            _ => true,
        });
    }
    let columns = fields.iter().zip(&columns).enumerate().map(|(at, (field, items))| {
        let own = base.map(|base| field::column(base, at)).transpose()?;
        column(field, items, own.as_ref(), by)
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let nulls = Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0);
    Ok(Arc::new(match fields.is_empty() {
        true => StructArray::new_empty_fields(items.len(), nulls),
        false => StructArray::try_new(fields.clone(), columns, nulls)?,
    }))
}

fn of_record(fields: &Fields, item: &Item) -> Result<Vec<Item>> {
    let of_text = |text: &str| {
        let values = parse_record(text, fields.len()).map_err(to_datafusion)?.into_iter();
        Ok(values.map(|value| value.map_or(Item::Null, Item::Text)).collect())
    };
    let json = match item {
        Item::Kept => return Ok(vec![Item::Kept; fields.len()]),
        Item::Null => return Ok(vec![Item::Null; fields.len()]),
        Item::Text(text) => return of_text(text),
        Item::Json(json) => json,
    };
    match scan::kind(json) {
        "object" => {
            let pairs = scan::pairs(json).map_err(invalid)?.unwrap_or_default();
            let value = |field: &FieldRef| {
                let found = pairs.iter().rev().find(|(key, _)| key == field.name());
                found.map_or(Item::Kept, |(_, value)| Item::json(value))
            };
            Ok(fields.iter().map(value).collect())
        }
        "string" => of_text(&scan::as_text(json).map_err(invalid)?.unwrap_or_default()),
        kind => {
            let article = if kind == "array" { "an array" } else { "a scalar" };
            let message = format!("cannot call populate_composite on {article}");
            Err(to_datafusion(SqlError::new(state::INVALID_PARAMETER_VALUE, message)))
        }
    }
}
