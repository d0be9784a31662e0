//! `UPDATE ... SET j['a'][1] = x` of jsonb: what is missing on the way is made, gaps of arrays are filled with null.

use super::call::{failed, invalid};
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, LargeStringArray};
use datafusion::common::Result;
use std::sync::Arc;
use tenon_storage::json::Json;

/// Most elements that a gap is filled up to.
const ELEMENTS_MAX: usize = 10_000_000;

/// The first column with the second put where the others lead to.
pub(crate) fn assigned(arrays: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (base, value) = (arrays[0].as_string::<i64>(), arrays[1].as_string::<i64>());
    let read = |text: &str| Json::parse(text).map_err(invalid);
    let out = (0..rows).map(|row| {
        let path = arrays[2..].iter().map(|key| match key.is_valid(row) {
            true => Ok(key.as_string_view().value(row)),
            false => {
                let message = "jsonb subscript in assignment must not be null";
                Err(to_datafusion(SqlError::new(
                    crate::pg::error::SqlState("22004"),
                    message,
                )))
            }
        });
        let path = path.collect::<Result<Vec<_>>>()?;
        let value = match value.is_valid(row) {
            true => read(value.value(row))?,
            false => Json::Null,
        };
        let changed = match base.is_valid(row) {
            true => put(read(base.value(row))?, &path, value, 1)?,
            false => made(&path, value, 1)?,
        };
        Ok(Some(changed.to_string()))
    });
    Ok(Arc::new(LargeStringArray::from_iter(out.collect::<Result<Vec<_>>>()?)))
}

fn out_of_range<T>(position: usize, index: i64) -> Result<T> {
    let message = format!("path element at position {position} is out of range: {index}");
    failed(state::INVALID_PARAMETER_VALUE, message)
}

fn put(json: Json, path: &[&str], value: Json, position: usize) -> Result<Json> {
    let Some((key, rest)) = path.split_first() else {
        return Ok(value);
    };
    match json {
        Json::Object(mut pairs) => {
            let own = pairs.iter().position(|(name, _)| name == key);
            let inner = match own {
                Some(at) => put(
                    std::mem::replace(&mut pairs[at].1, Json::Null),
                    rest,
                    value,
                    position + 1,
                )?,
                None => made(rest, value, position + 1)?,
            };
            Json::put(&mut pairs, key, inner);
            Ok(Json::Object(pairs))
        }
        Json::Array(mut items) => {
            let Ok(index) = key.trim().parse::<i64>() else {
                let message = format!("path element at position {position} is not an integer: \"{key}\"");
                return failed(state::INVALID_TEXT_REPRESENTATION, message);
            };
            let at = if index < 0 { index + items.len() as i64 } else { index };
            let Some(at) = usize::try_from(at).ok().filter(|at| *at < ELEMENTS_MAX) else {
                return out_of_range(position, index);
            };
            if at < items.len() {
                let inner = std::mem::replace(&mut items[at], Json::Null);
                items[at] = put(inner, rest, value, position + 1)?;
            } else {
                items.resize(at, Json::Null);
                items.push(made(rest, value, position + 1)?);
            }
            Ok(Json::Array(items))
        }
        _ => {
            let error = SqlError::new(state::INVALID_PARAMETER_VALUE, "cannot replace existing key");
            let detail = "The path assumes key is a composite object, but it is a scalar value.";
            Err(to_datafusion(error.detail(detail)))
        }
    }
}

/// The value with arrays and objects around it as the path names them.
fn made(path: &[&str], value: Json, position: usize) -> Result<Json> {
    let Some((key, rest)) = path.split_first() else {
        return Ok(value);
    };
    let inner = made(rest, value, position + 1)?;
    Ok(match key.trim().parse::<i64>() {
        Ok(index) => {
            let Some(at) = usize::try_from(index).ok().filter(|at| *at < ELEMENTS_MAX) else {
                return out_of_range(position, index);
            };
            let mut items = vec![Json::Null; at];
            items.push(inner);
            Json::Array(items)
        }
        Err(_) => Json::Object(vec![((*key).to_owned(), inner)]),
    })
}
