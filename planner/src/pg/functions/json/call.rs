//! Functions that are given by what they make of one row's arguments.

use super::path::PATH;
use crate::pg::conventions;
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::functions::array::type_name;
use crate::pg::types::OID_KEY;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int32Array, LargeStringArray, ListBuilder, StringViewArray,
    StringViewBuilder, StructBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Int32Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::datetime::Conventions;
use tenon_storage::json::Json;
use tenon_storage::parse::{Invalid, check_json};

/// The oid of `jsonpath`, whose values are their texts.
pub(crate) const JSONPATH_OID: u32 = 4072;

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Param {
    /// `json` or `jsonb`; text is checked to be JSON.
    Json,
    Text,
    Int,
    Bool,
    /// `text[]`.
    Texts,
}

/// What a function returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Returns {
    Json,
    Jsonb,
    /// What the first argument is.
    First,
    Text,
    Bool,
    Int,
    /// Arrays of these.
    Texts,
    Jsons,
    Jsonbs,
    /// Arrays of pairs of a key and a value: text, json or jsonb.
    TextPairs,
    JsonPairs,
    JsonbPairs,
}

pub(super) enum Value {
    Text(String),
    Bool(bool),
    Int(i32),
    Texts(Vec<Option<String>>),
    Pairs(Vec<(String, Option<String>)>),
}

impl From<Json> for Value {
    fn from(json: Json) -> Value {
        Value::Text(json.to_string())
    }
}

pub(super) fn invalid(invalid: Invalid) -> datafusion::error::DataFusionError {
    to_datafusion(invalid.into_error(SqlType::Json, "").into())
}

pub(super) fn failed<T>(code: crate::pg::error::SqlState, message: impl Into<String>) -> Result<T> {
    Err(to_datafusion(SqlError::new(code, message)))
}

/// The arguments of a row.
pub(super) struct Row<'a> {
    arrays: &'a [ArrayRef],
    row: usize,
    /// The session's.
    pub conventions: &'a Conventions,
}

impl<'a> Row<'a> {
    pub(super) fn is_given(&self, at: usize) -> bool {
        self.arrays.get(at).is_some_and(|array| array.is_valid(self.row))
    }

    pub(super) fn is_jsonb(&self, at: usize) -> bool {
        self.arrays
            .get(at)
            .is_some_and(|array| *array.data_type() == DataType::LargeUtf8)
    }

    pub(super) fn count(&self) -> usize {
        self.arrays.len()
    }

    /// Empty for NULL.
    pub(super) fn text(&self, at: usize) -> &'a str {
        match self.arrays.get(at) {
            Some(array) if array.is_valid(self.row) => match array.data_type() {
                DataType::LargeUtf8 => array.as_string::<i64>().value(self.row),
                _ => array.as_string_view().value(self.row),
            },
            _ => "",
        }
    }

    pub(super) fn json(&self, at: usize) -> Result<Json> {
        Json::parse(self.text(at)).map_err(invalid)
    }

    pub(super) fn int(&self, at: usize) -> i32 {
        self.arrays[at].as_primitive::<Int32Type>().value(self.row)
    }

    pub(super) fn bool(&self, at: usize) -> Option<bool> {
        let array = self.arrays.get(at)?.as_boolean();
        array.is_valid(self.row).then(|| array.value(self.row))
    }

    pub(super) fn texts(&self, at: usize) -> Vec<Option<String>> {
        let items = self.arrays[at].as_list::<i32>().value(self.row);
        let items = items.as_string_view();
        items.iter().map(|item| item.map(str::to_owned)).collect()
    }
}

type Body = fn(&Row) -> Result<Option<Value>>;

/// A function; NULL where an argument is, unless it is not `strict`.
pub(super) struct Call {
    pub name: &'static str,
    pub params: &'static [Param],
    pub required: usize,
    /// The last parameter any number of times.
    pub variadic: bool,
    pub strict: bool,
    pub returns: Returns,
    pub body: Body,
}

impl Call {
    pub(super) const fn new(name: &'static str, params: &'static [Param], returns: Returns, body: Body) -> Call {
        Call {
            name,
            params,
            required: params.len(),
            variadic: false,
            strict: true,
            returns,
            body,
        }
    }

    pub(super) const fn required(mut self, required: usize) -> Call {
        self.required = required;
        self
    }

    pub(super) fn udf(self) -> ScalarUDF {
        ScalarUDF::new_from_impl(Function {
            call: self,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    }
}

struct Function {
    call: Call,
    signature: Signature,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.call.name)
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.call.name == other.call.name
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.call.name.hash(state);
    }
}

impl Function {
    fn param(&self, at: usize) -> Option<Param> {
        let last = self.call.params.last().filter(|_| self.call.variadic);
        self.call.params.get(at).or(last).copied()
    }
}

pub(super) fn pair_fields(value: DataType) -> Fields {
    vec![
        Field::new("key", DataType::Utf8View, true),
        Field::new("value", value, true),
    ]
    .into()
}

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.call.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let undefined = || {
            let names: Vec<String> = types.iter().map(type_name).collect();
            let message = format!("function {}({}) does not exist", self.call.name, names.join(", "));
            to_datafusion(SqlError::new(state::UNDEFINED_FUNCTION, message))
        };
        if types.len() < self.call.required {
            return Err(undefined());
        }
        let wanted = types.iter().enumerate().map(|(at, own)| {
            let unknown = own.is_string() || own.is_null();
            Ok(match self.param(at).ok_or_else(undefined)? {
                Param::Json if *own == DataType::LargeUtf8 => DataType::LargeUtf8,
                // A literal given to a function of jsonb is one.
                Param::Json if unknown && self.call.name.starts_with("jsonb") => DataType::LargeUtf8,
                Param::Json | Param::Text if unknown => DataType::Utf8View,
                Param::Int if own.is_integer() || unknown => DataType::Int32,
                Param::Bool if *own == DataType::Boolean || unknown => DataType::Boolean,
                Param::Texts if matches!(own, DataType::List(_)) || unknown => list_of(DataType::Utf8View),
                _ => return Err(undefined()),
            })
        });
        wanted.collect()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match self.call.returns {
            Returns::Json | Returns::Text => DataType::Utf8View,
            Returns::Jsonb => DataType::LargeUtf8,
            Returns::First => types.first().cloned().unwrap_or(DataType::Utf8View),
            Returns::Bool => DataType::Boolean,
            Returns::Int => DataType::Int32,
            Returns::Texts | Returns::Jsons => list_of(DataType::Utf8View),
            Returns::Jsonbs => list_of(DataType::LargeUtf8),
            Returns::TextPairs | Returns::JsonPairs => list_of(DataType::Struct(pair_fields(DataType::Utf8View))),
            Returns::JsonbPairs => list_of(DataType::Struct(pair_fields(DataType::LargeUtf8))),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let json = match self.call.returns {
            Returns::Json => true,
            Returns::First => types.first() != Some(&DataType::LargeUtf8),
            _ => false,
        };
        Ok(Arc::new(match json {
            true => SqlType::Json.field(self.name(), true),
            false if self.call.name == PATH => {
                let metadata = [(OID_KEY.to_string(), JSONPATH_OID.to_string())].into();
                Field::new(self.name(), self.return_type(&types)?, true).with_metadata(metadata)
            }
            false => Field::new(self.name(), self.return_type(&types)?, true),
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let arrays = args
            .args
            .iter()
            .map(|value| value.to_array(rows))
            .collect::<Result<Vec<_>>>()?;
        for (at, array) in arrays.iter().enumerate() {
            let told = super::is_json(&args.arg_fields[at]) || super::is_jsonb(&args.arg_fields[at]);
            if self.param(at) == Some(Param::Json) && !told {
                let texts = array.as_string_view();
                texts.iter().flatten().try_for_each(check_json).map_err(invalid)?;
            }
        }
        let conventions = conventions::of(&args.config_options);
        let values = (0..rows).map(|row| {
            let own = Row {
                arrays: &arrays,
                row,
                conventions: &conventions,
            };
            match self.call.strict && arrays.iter().any(|array| array.is_null(row)) {
                true => Ok(None),
                false => (self.call.body)(&own),
            }
        });
        let values = values.collect::<Result<Vec<_>>>()?;
        let result = gathered(values, args.return_field.data_type())?;
        match scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?)),
            false => Ok(ColumnarValue::Array(result)),
        }
    }
}

/// The column of a function's values.
fn gathered(values: Vec<Option<Value>>, wanted: &DataType) -> Result<ArrayRef> {
    let texts = |values: Vec<Option<Value>>| {
        values.into_iter().map(|value| match value {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        })
    };
    Ok(match wanted {
        DataType::LargeUtf8 => Arc::new(LargeStringArray::from_iter(texts(values))),
        DataType::Boolean => Arc::new(BooleanArray::from_iter(values.into_iter().map(|value| match value {
            Some(Value::Bool(value)) => Some(value),
            _ => None,
        }))),
        DataType::Int32 => Arc::new(Int32Array::from_iter(values.into_iter().map(|value| match value {
            Some(Value::Int(value)) => Some(value),
            _ => None,
        }))),
        DataType::List(item) if matches!(item.data_type(), DataType::Struct(_)) => pairs(values, wanted)?,
        DataType::List(_) => {
            let mut builder = ListBuilder::new(StringViewBuilder::new());
            for value in values {
                match value {
                    Some(Value::Texts(items)) => {
                        items.into_iter().for_each(|item| builder.values().append_option(item));
                        builder.append(true);
                    }
                    _ => builder.append(false),
                }
            }
            let lists: ArrayRef = Arc::new(builder.finish());
            cast(&lists, wanted)?
        }
        _ => Arc::new(StringViewArray::from_iter(texts(values))),
    })
}

fn pairs(values: Vec<Option<Value>>, wanted: &DataType) -> Result<ArrayRef> {
    let fields = pair_fields(DataType::Utf8View);
    let mut builder = ListBuilder::new(StructBuilder::from_fields(fields, values.len()));
    for value in values {
        let Some(Value::Pairs(pairs)) = value else {
            builder.append(false);
            continue;
        };
        for (key, value) in pairs {
            let own = builder.values();
            if let Some(keys) = own.field_builder::<StringViewBuilder>(0) {
                keys.append_value(key);
            }
            if let Some(values) = own.field_builder::<StringViewBuilder>(1) {
                values.append_option(value);
            }
            own.append(true);
        }
        builder.append(true);
    }
    let lists: ArrayRef = Arc::new(builder.finish());
    Ok(cast(&lists, wanted)?)
}
