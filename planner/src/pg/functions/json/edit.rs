//! Changed JSON values, and values held in others.

use super::call::{Call, Param, Returns, Row, Value, failed, invalid};
use crate::pg::error::{SqlState, state};
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use tenon_storage::json::{Json, order_key};

/// What is done at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Set { create: bool },
    Insert { after: bool },
    Delete,
}

fn change(json: Json, path: &[Option<String>], value: Option<&Json>, change: Change, depth: usize) -> Result<Json> {
    let Some((key, rest)) = path.split_first() else {
        return Ok(json);
    };
    let Some(key) = key else {
        let message = format!("path element at position {} is null", depth + 1);
        return failed(SqlState("22004"), message);
    };
    match json {
        Json::Object(mut pairs) => {
            let own = pairs.iter().position(|(name, _)| name == key);
            match (own, rest.is_empty(), change) {
                (Some(at), false, _) => {
                    let inner = std::mem::replace(&mut pairs[at].1, Json::Null);
                    pairs[at].1 = self::change(inner, rest, value, change, depth + 1)?;
                }
                (Some(at), true, Change::Delete) => {
                    pairs.remove(at);
                }
                (Some(_), true, Change::Insert { .. }) => {
                    return failed(state::INVALID_PARAMETER_VALUE, "cannot replace existing key");
                }
                (Some(_), true, Change::Set { .. })
                | (None, true, Change::Set { create: true } | Change::Insert { .. }) => {
                    Json::put(&mut pairs, key, value.cloned().unwrap_or(Json::Null));
                }
                _ => {}
            }
            Ok(Json::Object(pairs))
        }
        Json::Array(mut items) => {
            let Ok(position) = key.trim().parse::<i64>() else {
                let message = format!("path element at position {} is not an integer: \"{key}\"", depth + 1);
                return failed(state::INVALID_TEXT_REPRESENTATION, message);
            };
            let length = items.len() as i64;
            let at = if position < 0 { position + length } else { position };
            let inside = (0..length).contains(&at);
            match (rest.is_empty(), change) {
                (false, _) if inside => {
                    let inner = std::mem::replace(&mut items[at as usize], Json::Null);
                    items[at as usize] = self::change(inner, rest, value, change, depth + 1)?;
                }
                (true, Change::Delete) if inside => {
                    items.remove(at as usize);
                }
                (true, Change::Set { .. }) if inside => items[at as usize] = value.cloned().unwrap_or(Json::Null),
                (true, Change::Set { create: true }) => {
                    let end = if at < 0 { 0 } else { items.len() };
                    items.insert(end, value.cloned().unwrap_or(Json::Null));
                }
                (true, Change::Insert { after }) => {
                    let at = at + i64::from(after && inside);
                    items.insert(at.clamp(0, length) as usize, value.cloned().unwrap_or(Json::Null));
                }
                _ => {}
            }
            Ok(Json::Array(items))
        }
        scalar => Ok(scalar),
    }
}

fn refuse_scalar(json: &Json, what: &str) -> Result<()> {
    match json.is_scalar() {
        true => failed(state::INVALID_PARAMETER_VALUE, format!("cannot {what} scalar")),
        false => Ok(()),
    }
}

fn set(row: &Row) -> Result<Option<Value>> {
    let json = row.json(0)?;
    refuse_scalar(&json, "set path in")?;
    let create = row.bool(3).unwrap_or(true);
    let empty = matches!(&json, Json::Object(pairs) if pairs.is_empty())
        || matches!(&json, Json::Array(items) if items.is_empty());
    if empty && !create {
        return Ok(Some(json.into()));
    }
    let value = row.json(2)?;
    Ok(Some(
        change(json, &row.texts(1), Some(&value), Change::Set { create }, 0)?.into(),
    ))
}

fn set_lax(row: &Row) -> Result<Option<Value>> {
    if !row.is_given(0) || !row.is_given(1) || (row.count() > 3 && !row.is_given(3)) {
        return Ok(None);
    }
    if row.is_given(2) {
        return set(row);
    }
    let json = row.json(0)?;
    let treatment = if row.count() > 4 { row.text(4) } else { "use_json_null" };
    let create = row.bool(3).unwrap_or(true);
    let changed = match treatment {
        "raise_exception" => {
            let code = SqlState("22004");
            return failed(code, "JSON value must not be null");
        }
        "use_json_null" => change(json, &row.texts(1), Some(&Json::Null), Change::Set { create }, 0)?,
        "delete_key" => change(json, &row.texts(1), None, Change::Delete, 0)?,
        "return_target" => json,
        _ => {
            let message = "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \
                           \"raise_exception\"";
            return failed(state::INVALID_PARAMETER_VALUE, message);
        }
    };
    Ok(Some(changed.into()))
}

fn insert(row: &Row) -> Result<Option<Value>> {
    let (json, value) = (row.json(0)?, row.json(2)?);
    refuse_scalar(&json, "set path in")?;
    let after = row.bool(3).unwrap_or(false);
    Ok(Some(
        change(json, &row.texts(1), Some(&value), Change::Insert { after }, 0)?.into(),
    ))
}

fn delete_path(row: &Row) -> Result<Option<Value>> {
    let json = row.json(0)?;
    refuse_scalar(&json, "delete path in")?;
    Ok(Some(change(json, &row.texts(1), None, Change::Delete, 0)?.into()))
}

fn without(json: Json, keys: &[&str]) -> Result<Json> {
    refuse_scalar(&json, "delete from")?;
    Ok(match json {
        Json::Object(pairs) => {
            let kept = pairs.into_iter().filter(|(key, _)| !keys.contains(&key.as_str()));
            Json::Object(kept.collect())
        }
        Json::Array(items) => {
            let gone = |item: &Json| matches!(item, Json::String(text) if keys.contains(&text.as_str()));
            Json::Array(items.into_iter().filter(|item| !gone(item)).collect())
        }
        scalar => scalar,
    })
}

fn delete_keys(row: &Row) -> Result<Option<Value>> {
    let keys = row.texts(1);
    let keys: Vec<&str> = keys.iter().flatten().map(String::as_str).collect();
    Ok(Some(without(row.json(0)?, &keys)?.into()))
}

fn delete_element(row: &Row) -> Result<Option<Value>> {
    match row.json(0)? {
        Json::Object(_) => failed(
            state::INVALID_PARAMETER_VALUE,
            "cannot delete from object using integer index",
        ),
        Json::Array(mut items) => {
            let position = i64::from(row.int(1));
            let at = if position < 0 {
                position + items.len() as i64
            } else {
                position
            };
            if (0..items.len() as i64).contains(&at) {
                items.remove(at as usize);
            }
            Ok(Some(Json::Array(items).into()))
        }
        _ => failed(state::INVALID_PARAMETER_VALUE, "cannot delete from scalar"),
    }
}

fn concat(row: &Row) -> Result<Option<Value>> {
    let list = |json: Json| match json {
        Json::Array(items) => items,
        other => vec![other],
    };
    Ok(Some(match (row.json(0)?, row.json(1)?) {
        (Json::Object(mut left), Json::Object(right)) => {
            left.extend(right);
            Json::object(left).into()
        }
        (left, right) => Json::Array([list(left), list(right)].concat()).into(),
    }))
}

fn stripped(json: Json) -> Json {
    match json {
        Json::Object(pairs) => {
            let kept = pairs.into_iter().filter(|(_, value)| *value != Json::Null);
            Json::Object(kept.map(|(key, value)| (key, stripped(value))).collect())
        }
        Json::Array(items) => Json::Array(items.into_iter().map(stripped).collect()),
        scalar => scalar,
    }
}

fn strip(row: &Row) -> Result<Option<Value>> {
    Ok(Some(stripped(row.json(0)?).into()))
}

/// Of `json`, which keeps its keys as they stand.
fn strip_verbatim(row: &Row) -> Result<Option<Value>> {
    let json = Json::parse_verbatim(row.text(0)).map_err(invalid)?;
    let mut out = String::new();
    stripped(json).compact(&mut out);
    Ok(Some(Value::Text(out)))
}

fn pretty(row: &Row) -> Result<Option<Value>> {
    let mut out = String::new();
    row.json(0)?.pretty(0, &mut out);
    Ok(Some(Value::Text(out)))
}

/// `@>`. At the top an array also contains a scalar that it holds.
fn contains(left: &Json, right: &Json, top: bool) -> bool {
    match (left, right) {
        (Json::Object(_), Json::Object(wanted)) => wanted
            .iter()
            .all(|(key, value)| left.get(key).is_some_and(|own| contains(own, value, false))),
        (Json::Array(own), Json::Array(wanted)) => wanted.iter().all(|value| match value.is_scalar() {
            true => own.iter().any(|item| equal(item, value)),
            false => own.iter().any(|item| contains(item, value, false)),
        }),
        (Json::Array(own), scalar) if top && scalar.is_scalar() => own.iter().any(|item| equal(item, scalar)),
        _ => left.is_scalar() && equal(left, right),
    }
}

pub(super) fn equal(left: &Json, right: &Json) -> bool {
    left == right || order_key(left) == order_key(right)
}

fn has_key(json: &Json, key: &str) -> bool {
    match json {
        Json::Object(_) => json.get(key).is_some(),
        Json::Array(items) => items
            .iter()
            .any(|item| matches!(item, Json::String(text) if text == key)),
        Json::String(text) => text == key,
        _ => false,
    }
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    use Param::{Bool, Int, Json as J, Text, Texts};
    let all = vec![
        Call::new("jsonb_set", &[J, Texts, J, Bool], Returns::Jsonb, set).required(3),
        Call {
            strict: false,
            ..Call::new("jsonb_set_lax", &[J, Texts, J, Bool, Text], Returns::Jsonb, set_lax).required(3)
        },
        Call::new("jsonb_insert", &[J, Texts, J, Bool], Returns::Jsonb, insert).required(3),
        Call::new("jsonb_delete_path", &[J, Texts], Returns::Jsonb, delete_path),
        Call::new("jsonb_delete_keys", &[J, Texts], Returns::Jsonb, delete_keys),
        Call::new("jsonb_delete_key", &[J, Text], Returns::Jsonb, |row| {
            Ok(Some(without(row.json(0)?, &[row.text(1)])?.into()))
        }),
        Call::new("jsonb_delete_element", &[J, Int], Returns::Jsonb, delete_element),
        Call::new("jsonb_concat", &[J, J], Returns::Jsonb, concat),
        Call::new("json_strip_nulls", &[J], Returns::Json, strip_verbatim),
        Call::new("jsonb_strip_nulls", &[J], Returns::Jsonb, strip),
        Call::new("jsonb_pretty", &[J], Returns::Text, pretty),
        Call::new("jsonb_contains", &[J, J], Returns::Bool, |row| {
            Ok(Some(Value::Bool(contains(&row.json(0)?, &row.json(1)?, true))))
        }),
        Call::new("jsonb_contained", &[J, J], Returns::Bool, |row| {
            Ok(Some(Value::Bool(contains(&row.json(1)?, &row.json(0)?, true))))
        }),
        Call::new("jsonb_exists", &[J, Text], Returns::Bool, |row| {
            Ok(Some(Value::Bool(has_key(&row.json(0)?, row.text(1)))))
        }),
        Call::new("jsonb_exists_any", &[J, Texts], Returns::Bool, |row| {
            let json = row.json(0)?;
            Ok(Some(Value::Bool(
                row.texts(1).iter().flatten().any(|key| has_key(&json, key)),
            )))
        }),
        Call::new("jsonb_exists_all", &[J, Texts], Returns::Bool, |row| {
            let json = row.json(0)?;
            Ok(Some(Value::Bool(
                row.texts(1).iter().flatten().all(|key| has_key(&json, key)),
            )))
        }),
    ];
    all.into_iter().map(Call::udf).collect()
}
