//! Parts of JSON values: fields, elements, what paths of keys lead to, keys and kinds.

use super::call::{Call, Param, Returns, Row, Value, failed, invalid};
use crate::pg::error::state;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, LargeStringArray};
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;
use tenon_storage::json::{Json, scan};
use tenon_storage::parse::write_array;

fn text_of(found: Option<&str>) -> Result<Option<Value>> {
    match found {
        Some(found) => Ok(scan::as_text(found).map_err(invalid)?.map(Value::Text)),
        None => Ok(None),
    }
}

fn json_of(found: Option<&str>) -> Result<Option<Value>> {
    Ok(found.map(|found| Value::Text(found.to_owned())))
}

/// Escapes that stand for no character fail wherever they are in a text that is looked into.
fn checked<'a>(row: &Row<'a>) -> Result<&'a str> {
    let text = row.text(0);
    if text.contains("\\u") {
        Json::parse_verbatim(text).map_err(invalid)?;
    }
    Ok(text)
}

fn field<'a>(row: &Row<'a>) -> Result<Option<&'a str>> {
    scan::field(checked(row)?, row.text(1)).map_err(invalid)
}

fn element<'a>(row: &Row<'a>) -> Option<&'a str> {
    let text = row.text(0);
    // A scalar of jsonb is an array of one here.
    match scan::kind(text) {
        "array" | "object" => scan::element(text, row.int(1).into()),
        _ if row.is_jsonb(0) && matches!(row.int(1), 0 | -1) => Some(text),
        _ => None,
    }
}

/// One step of a path: a key of an object, or the position of an element.
fn step<'a>(json: &'a str, key: &str) -> Result<Option<&'a str>> {
    Ok(match scan::kind(json) {
        "object" => scan::field(json, key).map_err(invalid)?,
        "array" => match key.trim().parse::<i32>() {
            Ok(position) => scan::element(json, position.into()),
            Err(_) => None,
        },
        _ => None,
    })
}

fn walk(json: &str, keys: impl IntoIterator<Item = Option<String>>) -> Result<Option<&str>> {
    let mut at = scan::trim(json);
    for key in keys {
        let Some(key) = key else { return Ok(None) };
        match step(at, &key)? {
            Some(next) => at = next,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

/// `#>`: the path is an array; else it is the arguments.
fn at_path<'a>(row: &Row<'a>) -> Result<Option<&'a str>> {
    walk(checked(row)?, row.texts(1))
}

fn at_arguments<'a>(row: &Row<'a>) -> Result<Option<&'a str>> {
    walk(checked(row)?, (1..row.count()).map(|at| Some(row.text(at).to_owned())))
}

/// `j['a'][1]` of jsonb.
pub(crate) fn subscript(arrays: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let json = arrays[0].as_string::<i64>();
    let found = (0..rows).map(|row| {
        if arrays.iter().any(|array| array.is_null(row)) {
            return Ok(None);
        }
        let keys = arrays[1..]
            .iter()
            .map(|key| Some(key.as_string_view().value(row).to_owned()));
        walk(json.value(row), keys)
    });
    Ok(Arc::new(LargeStringArray::from_iter(
        found.collect::<Result<Vec<_>>>()?,
    )))
}

fn elements<'a>(row: &Row<'a>) -> Result<Vec<&'a str>> {
    match scan::kind(row.text(0)) {
        "array" => Ok(scan::elements(row.text(0)).unwrap_or_default()),
        "object" => failed(state::INVALID_PARAMETER_VALUE, "cannot extract elements from an object"),
        _ => failed(state::INVALID_PARAMETER_VALUE, "cannot extract elements from a scalar"),
    }
}

fn elements_as_json(row: &Row) -> Result<Option<Value>> {
    let items = elements(row)?;
    Ok(Some(Value::Texts(
        items.into_iter().map(|item| Some(item.to_owned())).collect(),
    )))
}

fn elements_as_text(row: &Row) -> Result<Option<Value>> {
    let items = elements(row)?.into_iter().map(scan::as_text);
    Ok(Some(Value::Texts(items.collect::<Result<_, _>>().map_err(invalid)?)))
}

fn pairs<'a>(row: &Row<'a>, what: &str) -> Result<Vec<(String, &'a str)>> {
    match scan::kind(row.text(0)) {
        "object" => Ok(scan::pairs(row.text(0)).map_err(invalid)?.unwrap_or_default()),
        kind if what.is_empty() => {
            let article = if kind == "array" { "an array" } else { "a non-object" };
            failed(state::INVALID_PARAMETER_VALUE, format!("cannot deconstruct {article}"))
        }
        kind => {
            let article = if kind == "array" { "an array" } else { "a scalar" };
            failed(
                state::INVALID_PARAMETER_VALUE,
                format!("cannot call {what} on {article}"),
            )
        }
    }
}

fn keys(row: &Row) -> Result<Option<Value>> {
    let pairs = pairs(row, "json_object_keys")?;
    Ok(Some(Value::Texts(
        pairs.into_iter().map(|(key, _)| Some(key)).collect(),
    )))
}

fn each(row: &Row) -> Result<Option<Value>> {
    let pairs = pairs(row, "")?.into_iter();
    Ok(Some(Value::Pairs(
        pairs.map(|(key, value)| (key, Some(value.to_owned()))).collect(),
    )))
}

fn each_text(row: &Row) -> Result<Option<Value>> {
    let pairs = pairs(row, "")?.into_iter();
    let pairs = pairs.map(|(key, value)| Ok((key, scan::as_text(value)?)));
    Ok(Some(Value::Pairs(pairs.collect::<Result<_, _>>().map_err(invalid)?)))
}

fn kind(row: &Row) -> Result<Option<Value>> {
    Ok(Some(Value::Text(scan::kind(row.text(0)).to_owned())))
}

fn length(row: &Row) -> Result<Option<Value>> {
    match scan::kind(row.text(0)) {
        "array" => Ok(scan::elements(row.text(0)).map(|items| Value::Int(items.len() as i32))),
        "object" => failed(state::INVALID_PARAMETER_VALUE, "cannot get array length of a non-array"),
        _ => failed(state::INVALID_PARAMETER_VALUE, "cannot get array length of a scalar"),
    }
}

/// Fields of an object on their way to columns of a record. The last of the names no client can write.
pub(crate) const FIELD_AS_JSON: &str = "json_object_field";
pub(crate) const FIELD_AS_TEXT: &str = "json_object_field_text";
pub(crate) const FIELD_AS_ARRAY: &str = "\u{1}json_field_as_array";

/// A JSON array as the text of an SQL one.
fn array_text(items: &[Json], out: &mut String) {
    let texts: Vec<Option<String>> = items
        .iter()
        .map(|item| match item {
            Json::Null => None,
            Json::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        })
        .collect();
    if items.iter().any(|item| matches!(item, Json::Array(_))) {
        out.push('{');
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            match item {
                Json::Array(inner) => array_text(inner, out),
                other => out.push_str(&other.to_string()),
            }
        }
        out.push('}');
    } else {
        write_array(texts.iter().map(Option::as_deref), out);
    }
}

fn field_as_array(row: &Row) -> Result<Option<Value>> {
    let Some(found) = field(row)? else { return Ok(None) };
    match Json::parse(found).map_err(invalid)? {
        Json::Null => Ok(None),
        Json::Array(items) => {
            let mut out = String::new();
            array_text(&items, &mut out);
            Ok(Some(Value::Text(out)))
        }
        // A string is the array's own text.
        Json::String(text) => Ok(Some(Value::Text(text))),
        _ => failed(state::INVALID_TEXT_REPRESENTATION, "expected JSON array"),
    }
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    use Param::{Int, Json, Text, Texts};
    let mut all = vec![
        Call::new(FIELD_AS_ARRAY, &[Json, Text], Returns::Text, field_as_array),
        Call::new("json_object_field", &[Json, Text], Returns::First, |row| {
            json_of(field(row)?)
        }),
        Call::new("json_object_field_text", &[Json, Text], Returns::Text, |row| {
            text_of(field(row)?)
        }),
        Call::new("json_array_element", &[Json, Int], Returns::First, |row| {
            json_of(element(row))
        }),
        Call::new("json_array_element_text", &[Json, Int], Returns::Text, |row| {
            text_of(element(row))
        }),
        Call::new("json_at_path", &[Json, Texts], Returns::First, |row| {
            json_of(at_path(row)?)
        }),
        Call::new("json_at_path_text", &[Json, Texts], Returns::Text, |row| {
            text_of(at_path(row)?)
        }),
        Call::new("json_typeof", &[Json], Returns::Text, kind),
        Call::new("jsonb_typeof", &[Json], Returns::Text, kind),
        Call::new("json_array_length", &[Json], Returns::Int, length),
        Call::new("jsonb_array_length", &[Json], Returns::Int, length),
    ];
    for (name, returns) in [
        ("json_extract_path", Returns::Json),
        ("jsonb_extract_path", Returns::Jsonb),
    ] {
        all.push(Call {
            variadic: true,
            ..Call::new(name, &[Json, Text], returns, |row| json_of(at_arguments(row)?)).required(1)
        });
    }
    for name in ["json_extract_path_text", "jsonb_extract_path_text"] {
        all.push(Call {
            variadic: true,
            ..Call::new(name, &[Json, Text], Returns::Text, |row| text_of(at_arguments(row)?)).required(1)
        });
    }
    all.into_iter().map(Call::udf).collect()
}

/// Functions that return sets, as arrays.
pub(super) fn sets() -> Vec<ScalarUDF> {
    use Param::Json;
    let all = vec![
        Call::new("json_array_elements", &[Json], Returns::Jsons, elements_as_json),
        Call::new("jsonb_array_elements", &[Json], Returns::Jsonbs, elements_as_json),
        Call::new("json_array_elements_text", &[Json], Returns::Texts, elements_as_text),
        Call::new("jsonb_array_elements_text", &[Json], Returns::Texts, elements_as_text),
        Call::new("json_object_keys", &[Json], Returns::Texts, keys),
        Call::new("jsonb_object_keys", &[Json], Returns::Texts, keys),
        Call::new("json_each", &[Json], Returns::JsonPairs, each),
        Call::new("jsonb_each", &[Json], Returns::JsonbPairs, each),
        Call::new("json_each_text", &[Json], Returns::TextPairs, each_text),
        Call::new("jsonb_each_text", &[Json], Returns::TextPairs, each_text),
    ];
    all.into_iter().map(Call::udf).collect()
}
