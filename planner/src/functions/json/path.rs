//! Functions with a jsonpath.

use super::call::{Call, Param, Returns, Row, Value, failed};
use crate::error::{SqlError, SqlState, state};
use crate::errors::to_datafusion;
use datafusion::arrow::array::StringArray;
use datafusion::arrow::compute::kernels::regexp::regexp_is_match_scalar;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::ScalarUDF;
use tenon_storage::json::Json;
use tenon_storage::json::path::{self, Path, PathError, evaluate};

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

/// What the path gives; where it fails and failures are to pass unseen, what it gives up to there, and false.
fn found(row: &Row, silent: bool) -> Result<(Vec<Json>, bool)> {
    let (path, variables) = prepared(row)?;
    match evaluate(&path, &row.json(0)?, variables.as_ref(), &matches) {
        (values, Ok(())) => Ok((values, true)),
        (values, Err(PathError::Soft(..))) if silent => Ok((values, false)),
        (_, Err(error)) => Err(told(error)),
    }
}

fn silent(row: &Row) -> bool {
    row.bool(3).unwrap_or(false)
}

fn exists(row: &Row, silent: bool) -> Result<Option<Value>> {
    let (path, variables) = prepared(row)?;
    match path::exists(&path, &row.json(0)?, variables.as_ref(), &matches) {
        Ok(found) => Ok(Some(Value::Bool(found))),
        Err(PathError::Soft(..)) if silent => Ok(None),
        Err(error) => Err(told(error)),
    }
}

fn matched(row: &Row, silent: bool) -> Result<Option<Value>> {
    let (values, done) = found(row, silent)?;
    match values.as_slice() {
        _ if !done => Ok(None),
        [Json::Bool(value)] => Ok(Some(Value::Bool(*value))),
        [Json::Null] => Ok(None),
        _ if silent => Ok(None),
        _ => failed(SqlState("22038"), "single boolean result is expected"),
    }
}

fn query(row: &Row) -> Result<Option<Value>> {
    let (values, _) = found(row, silent(row))?;
    Ok(Some(Value::Texts(
        values.iter().map(|value| Some(value.to_string())).collect(),
    )))
}

fn query_array(row: &Row) -> Result<Option<Value>> {
    let (values, _) = found(row, silent(row))?;
    Ok(Some(Json::Array(values).into()))
}

fn query_first(row: &Row) -> Result<Option<Value>> {
    let (values, _) = found(row, silent(row))?;
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
            exists(row, true)
        }),
        Call::new("jsonb_path_match_opr", &[J, Text], Returns::Bool, |row| {
            matched(row, true)
        }),
    ];
    type Body = fn(&Row) -> Result<Option<Value>>;
    let named: [(&'static str, &'static str, Returns, Body); 4] = [
        ("jsonb_path_exists", "jsonb_path_exists_tz", Returns::Bool, |row| {
            exists(row, silent(row))
        }),
        ("jsonb_path_match", "jsonb_path_match_tz", Returns::Bool, |row| {
            matched(row, silent(row))
        }),
        (
            "jsonb_path_query_array",
            "jsonb_path_query_array_tz",
            Returns::Jsonb,
            query_array,
        ),
        (
            "jsonb_path_query_first",
            "jsonb_path_query_first_tz",
            Returns::Jsonb,
            query_first,
        ),
    ];
    for (name, zoned, returns, body) in named {
        for name in [name, zoned] {
            all.push(Call::new(name, &[J, Text, J, Bool], returns, body).required(2));
        }
    }
    all.into_iter().map(Call::udf).collect()
}

/// Functions that return sets, as arrays.
pub(super) fn sets() -> Vec<ScalarUDF> {
    use Param::{Bool, Json as J, Text};
    ["jsonb_path_query", "jsonb_path_query_tz"]
        .map(|name| {
            Call::new(name, &[J, Text, J, Bool], Returns::Jsonbs, query)
                .required(2)
                .udf()
        })
        .into()
}
