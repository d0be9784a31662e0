//! SQL values as JSON: `to_json`, the builders, and the aggregates, which build from what `array_agg` has gathered.
//!
//! More than 400 lines because one writer of values serves scalars, builders and aggregates.

use super::call::invalid;
use super::{is_json, is_jsonb, pairs};
use crate::pg::conventions;
use crate::pg::error::{SqlError, SqlState, state};
use crate::pg::errors::to_datafusion;
use crate::pg::functions::array::{leaf, type_name};
use crate::pg::rewrite::displayed_name;
use crate::pg::semantics::to_text::output;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, LargeStringArray, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;
use tenon_storage::EnumType;
use tenon_storage::SqlType;
use tenon_storage::datetime::Conventions;
use tenon_storage::json::{Json, write_string};
use tenon_storage::range::is_range;
use tenon_storage::types::NUMERIC;

/// The aggregates, and what makes their result of arrays, under names that no client can write; a `b` at the end: as jsonb.
/// See `rewrite`.
pub(crate) const AGGREGATES: [(&str, &str); 4] = [
    ("json_agg", "\u{1}json_array_of"),
    ("jsonb_agg", "\u{1}json_array_ofb"),
    ("json_object_agg", "\u{1}json_object_of"),
    ("jsonb_object_agg", "\u{1}json_object_ofb"),
];

type Write<'a> = Box<dyn Fn(usize, &mut String) + 'a>;

/// How the values of a column are written. `line`: what follows commas between items.
fn writer<'a>(array: &'a ArrayRef, field: &Field, line: &'static str, by: &Conventions) -> Result<Write<'a>> {
    let nulls = array.logical_nulls();
    let write = values_writer(array, field, line, by)?;
    Ok(Box::new(move |row, out| {
        match nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            true => out.push_str("null"),
            false => write(row, out),
        }
    }))
}

fn values_writer<'a>(array: &'a ArrayRef, field: &Field, line: &'static str, by: &Conventions) -> Result<Write<'a>> {
    if array.data_type().is_null() {
        return Ok(Box::new(|_, out| out.push_str("null")));
    }
    if let DataType::Struct(fields) = array.data_type()
        && !is_range(array.data_type())
    {
        let record = array.as_struct();
        let columns = record
            .columns()
            .iter()
            .zip(fields)
            .enumerate()
            .map(|(at, (column, field))| {
                let name = displayed_name(field.name());
                // The fields of ROW(...) have no names of their own.
                let name = match name == format!("c{at}") {
                    true => format!("f{}", at + 1),
                    false => name.to_string(),
                };
                let mut key = String::new();
                let _ = write_string(&name, &mut key);
                Ok((key, writer(column, field, "", by)?))
            });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        return Ok(Box::new(move |row, out| {
            out.push('{');
            for (at, (key, write)) in columns.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                    out.push_str(line);
                }
                out.push_str(key);
                out.push(':');
                write(row, out);
            }
            out.push('}');
        }));
    }
    if let DataType::List(item) = array.data_type() {
        let list = array.as_list::<i32>();
        let item = match SqlType::from_field(field) {
            Some(SqlType::Array(of)) if !field.metadata().is_empty() && of.dimensions() == 1 => {
                of.element().field("item", true)
            }
            _ => item.as_ref().clone(),
        };
        let write = writer(list.values(), &item, "", by)?;
        let offsets = list.value_offsets();
        return Ok(Box::new(move |row, out| {
            out.push('[');
            for at in offsets[row]..offsets[row + 1] {
                if at > offsets[row] {
                    out.push(',');
                    out.push_str(line);
                }
                write(at as usize, out);
            }
            out.push(']');
        }));
    }
    if matches!(array.data_type(), DataType::LargeList(_) | DataType::FixedSizeList(..)) {
        let message = format!("JSON of {}", array.data_type());
        return Err(to_datafusion(SqlError::unsupported(message)));
    }
    let texts = match (array.data_type(), SqlType::from_field(field)) {
        // Blanks fill what storage keeps without them.
        (_, Some(SqlType::CharOf(width))) => with_blanks(array, width as usize)?,
        _ => output(array, by)?,
    };
    let text = move |row: usize| texts.as_string_view().value(row).to_owned();
    Ok(match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean();
            Box::new(move |row, out| out.push_str(if values.value(row) { "true" } else { "false" }))
        }
        number if number.is_numeric() || *number == NUMERIC => Box::new(move |row, out| {
            let text = text(row);
            match text.contains(['N', 'I']) {
                true => out.push_str(&format!("\"{text}\"")),
                false => out.push_str(&text),
            }
        }),
        _ if is_json(field) || is_jsonb(field) => Box::new(move |row, out| out.push_str(&text(row))),
        DataType::Timestamp(_, zone) if EnumType::of(array.data_type()).is_none() => {
            let zoned = zone.is_some();
            Box::new(move |row, out| {
                let text = text(row).replacen(' ', "T", 1);
                out.push('"');
                out.push_str(&text);
                // ISO 8601 has minutes in an offset.
                if zoned && text.rfind(['+', '-']).is_some_and(|at| text.len() - at == 3) {
                    out.push_str(":00");
                }
                out.push('"');
            })
        }
        _ => Box::new(move |row, out| {
            let _ = write_string(&text(row), out);
        }),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// `to_json(value)`, `row_to_json(record [, pretty])`, `array_to_json(array [, pretty])`.
    Value,
    /// `json_build_array(...)`.
    Array,
    /// `json_build_object(key, value, ...)`.
    Object,
    /// `json_object(text[])`, `json_object(keys, values)`.
    OfTexts,
    /// Of the arrays that `array_agg` gives.
    ArrayOf,
    ObjectOf,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Make {
    name: &'static str,
    kind: Kind,
    jsonb: bool,
    signature: Signature,
}

fn bad<T>(code: SqlState, message: impl Into<String>) -> Result<T> {
    Err(to_datafusion(SqlError::new(code, message)))
}

const SUBSCRIPTS: SqlState = SqlState("2202E");
const NULL_NOT_ALLOWED: SqlState = SqlState("22004");

/// The values of a `char(n)`, which are kept without the blanks at their end.
fn with_blanks(values: &ArrayRef, width: usize) -> Result<ArrayRef> {
    let texts = cast(values, &DataType::Utf8View)?;
    let texts = texts.as_string_view().iter();
    let whole = texts.map(|text| text.map(|text| format!("{text:<width$}")));
    Ok(Arc::new(StringViewArray::from_iter(whole)))
}

/// Keys as text; `null` is what NULL is told.
fn keys(array: &ArrayRef, null: impl Fn(usize) -> Result<()>, rows: usize, by: &Conventions) -> Result<Vec<String>> {
    if leaf(array.data_type()).1 > 0
        || (matches!(array.data_type(), DataType::Struct(_)) && !is_range(array.data_type()))
    {
        return bad(
            state::INVALID_PARAMETER_VALUE,
            "key value must be scalar, not array, composite, or json",
        );
    }
    let texts = match array.data_type() {
        DataType::Boolean => cast(&cast(array, &DataType::Utf8)?, &DataType::Utf8View)?,
        _ => output(array, by)?,
    };
    let texts = texts.as_string_view();
    (0..rows)
        .map(|row| match texts.is_valid(row) {
            true => {
                let mut key = String::new();
                let _ = write_string(texts.value(row), &mut key);
                Ok(key)
            }
            false => null(row).map(|()| String::new()),
        })
        .collect()
}

impl Make {
    fn texts(
        &self,
        arrays: &[ArrayRef],
        fields: &[FieldRef],
        rows: usize,
        by: &Conventions,
    ) -> Result<Vec<Option<String>>> {
        match self.kind {
            Kind::Value => {
                let pretty = arrays.get(1).is_some_and(|flags| {
                    let flags = flags.as_boolean();
                    !flags.is_empty() && flags.is_valid(0) && flags.value(0)
                });
                let write = writer(&arrays[0], &fields[0], if pretty { "\n " } else { "" }, by)?;
                let nulls = arrays[0].logical_nulls();
                Ok((0..rows)
                    .map(|row| {
                        let null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
                        (!null).then(|| one(&write, row))
                    })
                    .collect())
            }
            Kind::Array => {
                let items = arrays
                    .iter()
                    .zip(fields)
                    .map(|(array, field)| writer(array, field, "", by));
                let items = items.collect::<Result<Vec<_>>>()?;
                Ok((0..rows)
                    .map(|row| {
                        let items: Vec<String> = items.iter().map(|write| one(write, row)).collect();
                        Some(format!("[{}]", items.join(", ")))
                    })
                    .collect())
            }
            Kind::Object => self.object(arrays, fields, rows, by),
            Kind::OfTexts => of_texts(arrays, rows),
            Kind::ArrayOf => {
                let DataType::List(item) = arrays[0].data_type() else {
                    return bad(state::INTERNAL_ERROR, "an aggregate has gathered no array");
                };
                let list = arrays[0].as_list::<i32>();
                let item = field_of_items(&fields[0], item);
                let line = match item.data_type() {
                    DataType::List(_) => ", \n ",
                    DataType::Struct(_) if !is_range(item.data_type()) => ", \n ",
                    _ => ", ",
                };
                let write = writer(list.values(), &item, "", by)?;
                Ok((0..rows)
                    .map(|row| {
                        let span = list.value_offsets()[row]..list.value_offsets()[row + 1];
                        let items: Vec<String> = span.map(|at| one(&write, at as usize)).collect();
                        list.is_valid(row).then(|| format!("[{}]", items.join(line)))
                    })
                    .collect())
            }
            Kind::ObjectOf => {
                let pairs = pairs::apart(arrays, fields);
                let (arrays, fields) = match &pairs {
                    Some((arrays, fields)) => (arrays.as_slice(), fields.as_slice()),
                    None => (arrays, fields),
                };
                let (DataType::List(_), DataType::List(item)) = (arrays[0].data_type(), arrays[1].data_type()) else {
                    return bad(state::INTERNAL_ERROR, "an aggregate has gathered no array");
                };
                let (names, values) = (arrays[0].as_list::<i32>(), arrays[1].as_list::<i32>());
                let item = field_of_items(&fields[1], item);
                let null = |_| bad(state::INVALID_PARAMETER_VALUE, "field name must not be null");
                let keys = keys(names.values(), null, names.values().len(), by)?;
                let write = writer(values.values(), &item, "", by)?;
                Ok((0..rows)
                    .map(|row| {
                        let (from, start) = (names.value_offsets(), values.value_offsets()[row]);
                        let pairs: Vec<String> = (from[row]..from[row + 1])
                            .map(|at| {
                                let value = one(&write, (start + at - from[row]) as usize);
                                format!("{} : {value}", keys[at as usize])
                            })
                            .collect();
                        names.is_valid(row).then(|| format!("{{ {} }}", pairs.join(", ")))
                    })
                    .collect())
            }
        }
    }

    fn object(
        &self,
        arrays: &[ArrayRef],
        fields: &[FieldRef],
        rows: usize,
        by: &Conventions,
    ) -> Result<Vec<Option<String>>> {
        if arrays.len() % 2 == 1 {
            let error = SqlError::new(
                state::INVALID_PARAMETER_VALUE,
                "argument list must have even number of elements",
            );
            let hint = format!(
                "The arguments of {}() must consist of alternating keys and values.",
                self.name
            );
            return Err(to_datafusion(error.hint(hint)));
        }
        let mut columns = Vec::new();
        for (pair, at) in arrays.chunks_exact(2).zip((0..).step_by(2)) {
            if is_json(&fields[at]) || is_jsonb(&fields[at]) {
                return bad(
                    state::INVALID_PARAMETER_VALUE,
                    "key value must be scalar, not array, composite, or json",
                );
            }
            let null = |_| match self.jsonb {
                true => bad(
                    state::INVALID_PARAMETER_VALUE,
                    format!("argument {}: key must not be null", at + 1),
                ),
                false => bad(
                    state::INVALID_PARAMETER_VALUE,
                    format!("argument {} cannot be null", at + 1),
                ),
            };
            let names = match SqlType::from_field(&fields[at]) {
                Some(SqlType::CharOf(width)) => with_blanks(&pair[0], width as usize)?,
                _ => pair[0].clone(),
            };
            columns.push((
                keys(&names, null, rows, by)?,
                writer(&pair[1], &fields[at + 1], "", by)?,
            ));
        }
        let row_of = |row: usize| {
            let pairs: Vec<String> = columns
                .iter()
                .map(|(keys, write)| format!("{} : {}", keys[row], one(write, row)))
                .collect();
            Some(format!("{{{}}}", pairs.join(", ")))
        };
        Ok((0..rows).map(row_of).collect())
    }
}

/// The field of an array's items: a declared element type is told by the array's own field.
fn field_of_items(list: &Field, item: &Field) -> Field {
    match SqlType::from_field(list) {
        Some(SqlType::Array(of)) if of.dimensions() == 1 && !list.metadata().is_empty() => {
            of.element().field("item", true)
        }
        _ => item.clone(),
    }
}

fn one(write: &Write, row: usize) -> String {
    let mut out = String::new();
    write(row, &mut out);
    out
}

fn of_texts(arrays: &[ArrayRef], rows: usize) -> Result<Vec<Option<String>>> {
    let mut columns = Vec::new();
    for array in arrays {
        let (item, depth) = leaf(array.data_type());
        if depth == 0 || !item.is_string() {
            return bad(
                state::UNDEFINED_FUNCTION,
                format!("function json_object({}) does not exist", type_name(item)),
            );
        }
        if depth > 2 || (depth == 2 && arrays.len() == 2) {
            return bad(SUBSCRIPTS, "wrong number of array subscripts");
        }
        columns.push(array.clone());
    }
    let row_of = |row: usize| {
        if columns.iter().any(|array| array.is_null(row)) {
            return Ok(None);
        }
        let items: Vec<Vec<Option<String>>> = columns
            .iter()
            .map(|array| texts_of(&array.slice(row, 1)))
            .collect::<Result<_>>()?;
        let nested = leaf(columns[0].data_type()).1 == 2;
        let (names, values): (Vec<_>, Vec<_>) = match items.as_slice() {
            [names, values] if names.len() != values.len() => return bad(SUBSCRIPTS, "mismatched array dimensions"),
            [names, values] => (names.clone(), values.clone()),
            [all] => {
                let inner = columns[0].as_list::<i32>().value(row);
                if nested && !inner.is_empty() && all.len() != 2 * inner.len() {
                    return bad(SUBSCRIPTS, "array must have two columns");
                }
                if all.len() % 2 == 1 {
                    return bad(SUBSCRIPTS, "array must have even number of elements");
                }
                all.chunks_exact(2)
                    .map(|pair| (pair[0].clone(), pair[1].clone()))
                    .unzip()
            }
            _ => return bad(SUBSCRIPTS, "wrong number of array subscripts"),
        };
        let mut pairs = Vec::new();
        for (name, value) in names.into_iter().zip(values) {
            let Some(name) = name else {
                return bad(NULL_NOT_ALLOWED, "null value not allowed for object key");
            };
            let mut pair = String::new();
            let _ = write_string(&name, &mut pair);
            pair.push_str(" : ");
            match value {
                Some(value) => {
                    let _ = write_string(&value, &mut pair);
                }
                None => pair.push_str("null"),
            }
            pairs.push(pair);
        }
        Ok(Some(format!("{{{}}}", pairs.join(", "))))
    };
    (0..rows).map(row_of).collect()
}

fn texts_of(array: &ArrayRef) -> Result<Vec<Option<String>>> {
    let mut inner = array.clone();
    while let DataType::List(_) = inner.data_type() {
        let list = inner.as_list::<i32>();
        let (start, end) = (list.value_offsets()[0], list.value_offsets()[list.len()]);
        let values = list.values().slice(start as usize, (end - start) as usize);
        inner = values;
    }
    let texts = cast(&inner, &DataType::Utf8View)?;
    Ok(texts
        .as_string_view()
        .iter()
        .map(|text| text.map(str::to_owned))
        .collect())
}

impl ScalarUDFImpl for Make {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let undefined = || {
            let names: Vec<String> = types.iter().map(type_name).collect();
            bad(
                state::UNDEFINED_FUNCTION,
                format!("function {}({}) does not exist", self.name, names.join(", ")),
            )
        };
        let mut wanted = types.to_vec();
        match (self.kind, types) {
            (Kind::Value, [one]) => {
                let fits = match self.name {
                    "row_to_json" => matches!(one, DataType::Struct(_)) && !is_range(one),
                    "array_to_json" => leaf(one).1 > 0,
                    _ => true,
                };
                if !fits {
                    return undefined();
                }
            }
            (Kind::Value, [_, DataType::Boolean]) if matches!(self.name, "row_to_json" | "array_to_json") => {}
            (Kind::Value, _) => return undefined(),
            (Kind::OfTexts, [_] | [_, _]) => {
                for own in &mut wanted {
                    if own.is_string() || own.is_null() {
                        *own = DataType::new_list(DataType::Utf8View, true);
                    }
                }
            }
            (Kind::OfTexts, _) => return undefined(),
            _ => {}
        }
        Ok(wanted)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.jsonb {
            true => DataType::LargeUtf8,
            false => DataType::Utf8View,
        })
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        let declared = if self.jsonb { SqlType::Jsonb } else { SqlType::Json };
        Ok(Arc::new(declared.field(self.name, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let arrays = args
            .args
            .iter()
            .map(|value| value.to_array(rows))
            .collect::<Result<Vec<_>>>()?;
        // Dates are written by the standard, whatever the session's form; times have its zone.
        let by = Conventions {
            zone: conventions::of(&args.config_options).zone.clone(),
            ..Conventions::default()
        };
        let texts = self.texts(&arrays, &args.arg_fields, rows, &by)?;
        let result: ArrayRef = match self.jsonb {
            true => {
                let canonical = texts
                    .into_iter()
                    .map(|text| text.map(|text| Ok(Json::parse(&text)?.to_string())).transpose());
                let canonical = canonical.collect::<Result<Vec<_>, _>>().map_err(invalid)?;
                Arc::new(LargeStringArray::from_iter(canonical))
            }
            false => Arc::new(StringViewArray::from_iter(texts)),
        };
        match scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?)),
            false => Ok(ColumnarValue::Array(result)),
        }
    }
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    let all = [
        ("to_json", Kind::Value, false),
        ("to_jsonb", Kind::Value, true),
        ("row_to_json", Kind::Value, false),
        ("array_to_json", Kind::Value, false),
        ("json_build_array", Kind::Array, false),
        ("jsonb_build_array", Kind::Array, true),
        ("json_build_object", Kind::Object, false),
        ("jsonb_build_object", Kind::Object, true),
        ("json_object", Kind::OfTexts, false),
        ("jsonb_object", Kind::OfTexts, true),
        (AGGREGATES[0].1, Kind::ArrayOf, false),
        (AGGREGATES[1].1, Kind::ArrayOf, true),
        (AGGREGATES[2].1, Kind::ObjectOf, false),
        (AGGREGATES[3].1, Kind::ObjectOf, true),
    ];
    all.map(|(name, kind, jsonb)| {
        ScalarUDF::new_from_impl(Make {
            name,
            kind,
            jsonb,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    })
    .into()
}
