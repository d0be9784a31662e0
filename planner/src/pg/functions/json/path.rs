//! Functions with a jsonpath.

use super::call::{Call, Param, Returns, Row, Value, failed};
use crate::pg::error::{SqlError, SqlState, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::StringArray;
use datafusion::arrow::compute::kernels::regexp::regexp_is_match_scalar;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::ScalarUDF;
use tenon_storage::json::Json;
use tenon_storage::json::path::{self, Given, Path, PathError, evaluate};

fn told(error: PathError) -> DataFusionError {
    let (PathError::Soft(code, message) | PathError::Hard(code, message)) = error;
    to_datafusion(SqlError::new(SqlState(code), message))
}

/// Whether a text matches under XQuery's flags.
fn matches(pattern: &str, flags: &str, text: &str) -> std::result::Result<bool, String> {
    let quoted;
    let pattern = match flags.contains('q') {
        true => {
            let special = |c: char| "\\.+*?()|[]{}^$#&-~".contains(c);
            quoted = pattern.chars().fold(String::new(), |mut out, c| {
                if special(c) {
                    out.push('\\');
                }
                out.push(c);
                out
            });
            quoted.as_str()
        }
        false => pattern,
    };
    let own: String = flags.chars().filter(|flag| "ism".contains(*flag)).collect();
    let flags = Some(own.as_str()).filter(|flags| !flags.is_empty());
    let found = regexp_is_match_scalar(&StringArray::from(vec![text]), pattern, flags);
    match found {
        Ok(found) => Ok(found.value(0)),
        Err(_) => Err(format!("invalid regular expression: {pattern}")),
    }
}

fn prepared(row: &Row) -> Result<(Path, Option<Json>)> {
    let path = Path::parse(row.text(1)).map_err(told)?;
    let variables = match row.is_given(2) {
        true => Some(row.json(2)?),
        false => None,
    };
    if let Some(other) = &variables
        && !matches!(other, Json::Object(_))
    {
        let error = SqlError::new(state::INVALID_PARAMETER_VALUE, "\"vars\" argument is not an object");
        let detail = "Jsonpath parameters should be encoded as key-value pairs of \"vars\" object.";
        return Err(to_datafusion(error.detail(detail)));
    }
    Ok((path, variables))
}

/// `zoned`: whether dates and times may be compared by the session's zone.
fn given<'a>(row: &Row<'a>, variables: Option<&'a Json>, zoned: bool) -> Given<'a> {
    Given {
        variables,
        regex: &matches,
        zone: zoned.then_some(&row.conventions.zone),
    }
}

/// What the path gives; where it fails and failures are to pass unseen, what it gives up to there, and false.
fn found(row: &Row, silent: bool, zoned: bool) -> Result<(Vec<Json>, bool)> {
    let (path, variables) = prepared(row)?;
    match evaluate(&path, &row.json(0)?, given(row, variables.as_ref(), zoned)) {
        (values, Ok(())) => Ok((values, true)),
        (values, Err(PathError::Soft(..))) if silent => Ok((values, false)),
        (_, Err(error)) => Err(told(error)),
    }
}

fn silent(row: &Row) -> bool {
    row.bool(3).unwrap_or(false)
}

fn exists(row: &Row, silent: bool, zoned: bool) -> Result<Option<Value>> {
    let (path, variables) = prepared(row)?;
    match path::exists(&path, &row.json(0)?, given(row, variables.as_ref(), zoned)) {
        Ok(found) => Ok(Some(Value::Bool(found))),
        Err(PathError::Soft(..)) if silent => Ok(None),
        Err(error) => Err(told(error)),
    }
}

fn matched(row: &Row, silent: bool, zoned: bool) -> Result<Option<Value>> {
    let (values, done) = found(row, silent, zoned)?;
    match values.as_slice() {
        _ if !done => Ok(None),
        [Json::Bool(value)] => Ok(Some(Value::Bool(*value))),
        [Json::Null] => Ok(None),
        _ if silent => Ok(None),
        _ => failed(SqlState("22038"), "single boolean result is expected"),
    }
}

fn query(row: &Row, zoned: bool) -> Result<Option<Value>> {
    let (values, _) = found(row, silent(row), zoned)?;
    Ok(Some(Value::Texts(
        values.iter().map(|value| Some(value.to_string())).collect(),
    )))
}

fn query_array(row: &Row, zoned: bool) -> Result<Option<Value>> {
    let (values, _) = found(row, silent(row), zoned)?;
    Ok(Some(Json::Array(values).into()))
}

fn query_first(row: &Row, zoned: bool) -> Result<Option<Value>> {
    let (values, _) = found(row, silent(row), zoned)?;
    Ok(values.into_iter().next().map(Value::from))
}

/// `'...'::jsonpath`: its text as PostgreSQL writes it.
pub(crate) const PATH: &str = "\u{1}jsonpath";

pub(super) fn functions() -> Vec<ScalarUDF> {
    use Param::{Bool, Json as J, Text};
    let mut all = vec![
        Call::new(PATH, &[Text], Returns::Text, |row| {
            Ok(Some(Value::Text(Path::parse(row.text(0)).map_err(told)?.to_string())))
        }),
        Call::new("jsonb_path_exists_opr", &[J, Text], Returns::Bool, |row| {
            exists(row, true, false)
        }),
        Call::new("jsonb_path_match_opr", &[J, Text], Returns::Bool, |row| {
            matched(row, true, false)
        }),
    ];
    type Body = fn(&Row) -> Result<Option<Value>>;
    let named: [(&'static str, Returns, Body); 8] = [
        ("jsonb_path_exists", Returns::Bool, |row| {
            exists(row, silent(row), false)
        }),
        ("jsonb_path_exists_tz", Returns::Bool, |row| {
            exists(row, silent(row), true)
        }),
        ("jsonb_path_match", Returns::Bool, |row| {
            matched(row, silent(row), false)
        }),
        ("jsonb_path_match_tz", Returns::Bool, |row| {
            matched(row, silent(row), true)
        }),
        ("jsonb_path_query_array", Returns::Jsonb, |row| query_array(row, false)),
        ("jsonb_path_query_array_tz", Returns::Jsonb, |row| {
            query_array(row, true)
        }),
        ("jsonb_path_query_first", Returns::Jsonb, |row| query_first(row, false)),
        ("jsonb_path_query_first_tz", Returns::Jsonb, |row| {
            query_first(row, true)
        }),
    ];
    for (name, returns, body) in named {
        all.push(Call::new(name, &[J, Text, J, Bool], returns, body).required(2));
    }
    all.into_iter().map(Call::udf).collect()
}

/// Functions that return sets, as arrays.
pub(super) fn sets() -> Vec<ScalarUDF> {
    use Param::{Bool, Json as J, Text};
    vec![
        Call::new("jsonb_path_query", &[J, Text, J, Bool], Returns::Jsonbs, |row| {
            query(row, false)
        })
        .required(2)
        .udf(),
        Call::new("jsonb_path_query_tz", &[J, Text, J, Bool], Returns::Jsonbs, |row| {
            query(row, true)
        })
        .required(2)
        .udf(),
    ]
}
