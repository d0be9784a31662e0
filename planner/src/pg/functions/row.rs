//! Functions given by Rust functions over the values of one row, and the choice among those of one name as PostgreSQL makes
//! it: by exact types first; text before others where a literal has no type of its own.
//!
//! More than 400 lines because the choice among overloads needs all their forms of arguments.

use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::semantics::to_text;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, BinaryViewBuilder, BooleanBuilder, FixedSizeBinaryBuilder, Int32Builder,
    Int64Builder, ListBuilder, StringViewBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int32Type, Int64Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::bits::BITS;
use tenon_storage::datetime::Conventions;
use tenon_storage::network::{CIDR, INET, MACADDR, MACADDR8};
use tenon_storage::parse::parse_column;
use tenon_storage::range::is_range;

/// A type of an argument or a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Bytea,
    Int4,
    Int8,
    Bool,
    /// `text[]`.
    Texts,
    /// As an argument: an array of any type.
    List,
    /// As a result: a list of `text[]`.
    Rows,
    /// As an argument: any type, as the text that its output is.
    Any,
    /// As an argument: text, a `char(n)` with its blanks.
    Padded,
    Bits,
    /// As a result: `bit varying`.
    VarBits,
    /// As an argument: `cidr` too.
    Inet,
    Cidr,
    MacAddr,
    MacAddr8,
}

/// A value of a row.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Text(&'a str),
    Bytes(&'a [u8]),
    /// The characters of a bit string.
    Bits(&'a [u8]),
    /// As a column of its type holds it.
    Address(&'a [u8]),
    Int(i64),
    Bool(bool),
    Texts(Vec<Option<&'a str>>),
}

/// A result.
#[derive(Debug)]
pub(crate) enum Out {
    Null,
    Text(String),
    Bytes(Vec<u8>),
    Int(i64),
    Bool(bool),
    Texts(Vec<Option<String>>),
    Rows(Vec<Vec<Option<String>>>),
}

pub(crate) type Body = fn(&[Value]) -> Result<Out, SqlError>;

/// The text of an argument; empty for another.
pub(crate) fn text<'a>(values: &[Value<'a>], at: usize) -> &'a str {
    match values.get(at) {
        Some(Value::Text(text)) => text,
        _ => "",
    }
}

pub(crate) fn bytes<'a>(values: &[Value<'a>], at: usize) -> &'a [u8] {
    match values.get(at) {
        Some(Value::Bytes(bytes)) => bytes,
        _ => &[],
    }
}

pub(crate) fn bits<'a>(values: &[Value<'a>], at: usize) -> &'a [u8] {
    match values.get(at) {
        Some(Value::Bits(bits)) => bits,
        _ => &[],
    }
}

pub(crate) fn address<'a>(values: &[Value<'a>], at: usize) -> &'a [u8] {
    match values.get(at) {
        Some(Value::Address(bytes)) => bytes,
        _ => &[],
    }
}

pub(crate) fn int(values: &[Value], at: usize, absent: i64) -> i64 {
    match values.get(at) {
        Some(Value::Int(value)) => *value,
        _ => absent,
    }
}

/// An argument of any type as its output is; None for NULL.
pub(crate) fn shown<'a>(value: &Value<'a>) -> Option<Cow<'a, str>> {
    match value {
        Value::Text(text) => Some(Cow::Borrowed(text)),
        Value::Bool(true) => Some(Cow::Borrowed("t")),
        Value::Bool(false) => Some(Cow::Borrowed("f")),
        Value::Int(value) => Some(Cow::Owned(value.to_string())),
        _ => None,
    }
}

/// Bytes that a text may have, as in PostgreSQL.
pub(crate) const TEXT_MAX: usize = (1 << 30) - 1;

pub(crate) fn too_long() -> SqlError {
    SqlError::new(state::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
}

/// What runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Implementation {
    Rows(Body),
    /// Another function, over whole columns.
    Function(fn() -> Arc<ScalarUDF>),
}

/// One of the functions of a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overload {
    pub takes: &'static [Kind],
    /// The last argument may repeat.
    pub variadic: bool,
    pub gives: Kind,
    /// NULL for a NULL argument, without a call.
    pub strict: bool,
    pub run: Implementation,
}

pub(crate) const fn of(takes: &'static [Kind], gives: Kind, body: Body) -> Overload {
    Overload {
        takes,
        variadic: false,
        gives,
        strict: true,
        run: Implementation::Rows(body),
    }
}

/// One that is called with NULLs too.
pub(crate) const fn with_nulls(takes: &'static [Kind], gives: Kind, body: Body) -> Overload {
    Overload {
        takes,
        variadic: false,
        gives,
        strict: false,
        run: Implementation::Rows(body),
    }
}

pub(crate) const fn variadic(takes: &'static [Kind], gives: Kind, body: Body) -> Overload {
    Overload {
        takes,
        variadic: true,
        gives,
        strict: false,
        run: Implementation::Rows(body),
    }
}

/// One that another function is.
pub(crate) const fn delegated(takes: &'static [Kind], gives: Kind, function: fn() -> Arc<ScalarUDF>) -> Overload {
    Overload {
        takes,
        variadic: false,
        gives,
        strict: true,
        run: Implementation::Function(function),
    }
}

/// The function of a name.
pub(crate) fn row_function(name: &'static str, overloads: Vec<Overload>) -> ScalarUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::new_from_impl(RowFunction {
        name,
        overloads,
        signature,
    })
}

#[derive(Debug)]
struct RowFunction {
    name: &'static str,
    overloads: Vec<Overload>,
    signature: Signature,
}

impl PartialEq for RowFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for RowFunction {}

impl Hash for RowFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Kind {
    fn data_type(self) -> DataType {
        let texts = || DataType::new_list(DataType::Utf8View, true);
        match self {
            Kind::Text | Kind::Any | Kind::Padded => DataType::Utf8View,
            Kind::Bytea => DataType::BinaryView,
            Kind::Int4 => DataType::Int32,
            Kind::Int8 => DataType::Int64,
            Kind::Bool => DataType::Boolean,
            Kind::Bits | Kind::VarBits => BITS,
            Kind::Inet => INET,
            Kind::Cidr => CIDR,
            Kind::MacAddr => MACADDR,
            Kind::MacAddr8 => MACADDR8,
            Kind::Texts | Kind::List => texts(),
            Kind::Rows => DataType::new_list(texts(), true),
        }
    }

    /// The type, if it is one of addresses.
    fn address(self) -> Option<SqlType> {
        SqlType::address_of(&self.data_type())
    }

    /// How well an argument of a type fits; None where it does not.
    fn fit(self, given: &DataType) -> Option<u32> {
        let unknown = matches!(given, DataType::Utf8 | DataType::Null);
        match self {
            Kind::Any => Some(1),
            Kind::Text | Kind::Padded if unknown => Some(2),
            Kind::Text | Kind::Padded => given.is_string().then_some(3),
            _ if unknown => Some(1),
            Kind::Bytea => is_binary(given).then_some(3),
            // A literal is an int8 here, whatever its size.
            Kind::Int4 => match given {
                DataType::Int32 => Some(3),
                DataType::Int16 | DataType::Int8 => Some(2),
                DataType::Int64 => Some(1),
                _ => None,
            },
            Kind::Int8 => match given {
                DataType::Int64 => Some(3),
                given if given.is_signed_integer() => Some(1),
                _ => None,
            },
            Kind::Bool => (*given == DataType::Boolean).then_some(3),
            Kind::Bits | Kind::VarBits => (*given == BITS).then_some(3),
            Kind::Inet if *given == CIDR => Some(2),
            Kind::Inet | Kind::Cidr | Kind::MacAddr | Kind::MacAddr8 => (*given == self.data_type()).then_some(3),
            Kind::Texts => match given {
                DataType::List(item) | DataType::LargeList(item) if item.data_type().is_string() => Some(3),
                DataType::List(_) => Some(1),
                _ => None,
            },
            Kind::List => matches!(given, DataType::List(_)).then_some(2),
            Kind::Rows => None,
        }
    }
}

/// Booleans are written otherwise as text than as an output.
fn is_list_of_bool(given: &DataType) -> bool {
    matches!(given, DataType::List(item) if *item.data_type() == DataType::Boolean)
}

fn is_binary(given: &DataType) -> bool {
    matches!(given, DataType::LargeBinary | DataType::BinaryView)
}

impl Overload {
    fn kind(&self, at: usize) -> Kind {
        self.takes[at.min(self.takes.len() - 1)]
    }

    fn fit(&self, types: &[DataType]) -> Option<u32> {
        let counted = match self.variadic {
            true => types.len() >= self.takes.len(),
            false => types.len() == self.takes.len(),
        };
        if !counted {
            return None;
        }
        let fits = types.iter().enumerate().map(|(at, given)| self.kind(at).fit(given));
        fits.sum()
    }
}

impl RowFunction {
    fn chosen(&self, types: &[DataType]) -> Option<&Overload> {
        let fitting = self
            .overloads
            .iter()
            .rev()
            .filter_map(|one| Some((one.fit(types)?, one)));
        fitting.max_by_key(|(fit, _)| *fit).map(|(_, one)| one)
    }

    fn expect(&self, types: &[DataType]) -> Result<&Overload> {
        match self.chosen(types) {
            Some(one) => Ok(one),
            None => {
                let types: Vec<String> = types.iter().map(ToString::to_string).collect();
                let call = format!("{}({})", self.name, types.join(", "));
                plan_err!("No function matches the given name and argument types '{call}'.")
            }
        }
    }
}

impl ScalarUDFImpl for RowFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let chosen = self.expect(types)?;
        let coerced = types.iter().enumerate().map(|(at, given)| match chosen.kind(at) {
            Kind::Any if is_range(given) || matches!(given, DataType::Boolean | DataType::FixedSizeBinary(_)) => {
                given.clone()
            }
            Kind::List if is_list_of_bool(given) => given.clone(),
            Kind::Inet if *given == CIDR => CIDR,
            // A literal, which is read when the function is called: DataFusion has no cast for it.
            kind if kind.address().is_some() && *given == DataType::Utf8 => DataType::Utf8,
            kind => kind.data_type(),
        });
        Ok(coerced.collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(self.expect(types)?.gives.data_type())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        if self.expect(&types)?.gives == Kind::VarBits {
            return Ok(Arc::new(SqlType::VarBit.field(self.name, true)));
        }
        Ok(Arc::new(Field::new(self.name, self.return_type(&types)?, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        let chosen = self.expect(&types)?;
        let body = match chosen.run {
            Implementation::Rows(body) => body,
            Implementation::Function(function) => return delegate(&function(), chosen.gives, args),
        };
        let scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let mut columns = Vec::with_capacity(args.args.len());
        for (at, (value, field)) in args.args.iter().zip(&args.arg_fields).enumerate() {
            let width = match SqlType::from_field(field) {
                Some(SqlType::CharOf(width)) if matches!(chosen.kind(at), Kind::Any | Kind::Padded) => width as usize,
                _ => 0,
            };
            columns.push(Column {
                one: matches!(value, ColumnarValue::Scalar(_)),
                width,
                values: as_kind(
                    match value {
                        ColumnarValue::Array(array) => array.clone(),
                        ColumnarValue::Scalar(value) => value.to_array()?,
                    },
                    chosen.kind(at),
                )?,
            });
        }
        let padded: Vec<Option<ArrayRef>> = columns.iter().map(Column::padded).collect();
        for (column, padded) in columns.iter_mut().zip(padded) {
            if let Some(padded) = padded {
                column.values = padded;
            }
        }
        let mut results = Builder::new(chosen.gives, rows);
        let mut values = Vec::with_capacity(columns.len());
        for row in 0..rows {
            values.clear();
            values.extend(columns.iter().map(|column| column.value(row)));
            if chosen.strict && values.iter().any(|value| matches!(value, Value::Null)) {
                results.push(Out::Null);
                continue;
            }
            results.push(body(&values).map_err(to_datafusion)?);
        }
        let results = results.finish();
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&results, 0)?));
        }
        Ok(ColumnarValue::Array(results))
    }
}

/// Texts as views, but as addresses where these are asked for. Only calls that are made behind type coercion have others.
fn as_kind(array: ArrayRef, kind: Kind) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::FixedSizeBinary(_) | DataType::Struct(_) if kind == Kind::Any => {
            to_text::output(&array, &Conventions::default())?
        }
        DataType::Utf8 if let Some(of) = kind.address() => {
            let fields = array.as_string::<i32>().iter();
            parse_column(of, fields).map_err(|(_, error)| to_datafusion(error.into()))?
        }
        DataType::Utf8 | DataType::LargeUtf8 => cast(&array, &DataType::Utf8View)?,
        _ => array,
    })
}

fn delegate(function: &ScalarUDF, gives: Kind, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
    let values = args.args.iter().map(|value| match value {
        ColumnarValue::Scalar(value) => Some(value),
        ColumnarValue::Array(_) => None,
    });
    args.return_field = function.return_field_from_args(ReturnFieldArgs {
        arg_fields: &args.arg_fields,
        scalar_arguments: &values.collect::<Vec<_>>(),
    })?;
    function.invoke_with_args(args)?.cast_to(&gives.data_type(), None)
}

/// An argument's values: a column's, or one for all rows.
struct Column {
    one: bool,
    /// Characters to which a `char(n)` is filled up.
    width: usize,
    values: ArrayRef,
}

impl Column {
    fn padded(&self) -> Option<ArrayRef> {
        if self.width == 0 {
            return None;
        }
        let width = self.width;
        let values = self.values.as_string_view_opt()?.iter();
        let padded = values.map(|text| text.map(|text| format!("{text:<width$}")));
        Some(Arc::new(padded.collect::<datafusion::arrow::array::StringViewArray>()))
    }

    fn value(&self, row: usize) -> Value<'_> {
        let (row, values) = (if self.one { 0 } else { row }, &self.values);
        if values.is_null(row) {
            return Value::Null;
        }
        match values.data_type() {
            DataType::Utf8View => Value::Text(values.as_string_view().value(row)),
            DataType::BinaryView => Value::Bytes(values.as_binary_view().value(row)),
            DataType::Binary => Value::Bits(values.as_binary::<i32>().value(row)),
            DataType::FixedSizeBinary(_) => Value::Address(values.as_fixed_size_binary().value(row)),
            DataType::Int32 => Value::Int(values.as_primitive::<Int32Type>().value(row).into()),
            DataType::Int64 => Value::Int(values.as_primitive::<Int64Type>().value(row)),
            DataType::Boolean => Value::Bool(values.as_boolean().value(row)),
            DataType::List(_) => {
                let list = values.as_list::<i32>();
                let (from, to) = (
                    list.value_offsets()[row] as usize,
                    list.value_offsets()[row + 1] as usize,
                );
                let valid = |at: usize| list.values().is_valid(at).then_some(at);
                if let Some(items) = list.values().as_string_view_opt() {
                    return Value::Texts((from..to).map(|at| valid(at).map(|at| items.value(at))).collect());
                }
                match list.values().as_boolean_opt() {
                    Some(items) => {
                        let shown = |at| if items.value(at) { "t" } else { "f" };
                        Value::Texts((from..to).map(|at| valid(at).map(shown)).collect())
                    }
                    None => Value::Null,
                }
            }
            _ => Value::Null,
        }
    }
}

enum Builder {
    Address(FixedSizeBinaryBuilder),
    Bits(BinaryBuilder),
    Text(StringViewBuilder),
    Bytes(BinaryViewBuilder),
    Int4(Int32Builder),
    Int8(Int64Builder),
    Bool(BooleanBuilder),
    Texts(ListBuilder<StringViewBuilder>),
    Rows(ListBuilder<ListBuilder<StringViewBuilder>>),
}

impl Builder {
    fn new(kind: Kind, rows: usize) -> Builder {
        let texts = || ListBuilder::new(StringViewBuilder::new());
        let addresses = || match kind.data_type() {
            DataType::FixedSizeBinary(width) => FixedSizeBinaryBuilder::with_capacity(rows, width),
            _ => FixedSizeBinaryBuilder::new(0),
        };
        match kind {
            Kind::Text | Kind::Any | Kind::Padded => Builder::Text(StringViewBuilder::with_capacity(rows)),
            Kind::Bits | Kind::VarBits => Builder::Bits(BinaryBuilder::with_capacity(rows, 0)),
            Kind::Inet | Kind::Cidr | Kind::MacAddr | Kind::MacAddr8 => Builder::Address(addresses()),
            Kind::Bytea => Builder::Bytes(BinaryViewBuilder::with_capacity(rows)),
            Kind::Int4 => Builder::Int4(Int32Builder::with_capacity(rows)),
            Kind::Int8 => Builder::Int8(Int64Builder::with_capacity(rows)),
            Kind::Bool => Builder::Bool(BooleanBuilder::with_capacity(rows)),
            Kind::Texts | Kind::List => Builder::Texts(texts()),
            Kind::Rows => Builder::Rows(ListBuilder::new(texts())),
        }
    }

    /// A result of another kind than the overload's is a NULL.
    fn push(&mut self, value: Out) {
        match (self, value) {
            (Builder::Text(to), Out::Text(value)) => to.append_value(value),
            (Builder::Text(to), _) => to.append_null(),
            (Builder::Bits(to), Out::Bytes(value)) => to.append_value(value),
            (Builder::Bits(to), _) => to.append_null(),
            // Each has as many bytes as its kind.
            (Builder::Address(to), Out::Bytes(value)) => {
                if to.append_value(value).is_err() {
                    to.append_null();
                }
            }
            (Builder::Address(to), _) => to.append_null(),
            (Builder::Bytes(to), Out::Bytes(value)) => to.append_value(value),
            (Builder::Bytes(to), _) => to.append_null(),
            (Builder::Int4(to), Out::Int(value)) => to.append_option(i32::try_from(value).ok()),
            (Builder::Int4(to), _) => to.append_null(),
            (Builder::Int8(to), Out::Int(value)) => to.append_value(value),
            (Builder::Int8(to), _) => to.append_null(),
            (Builder::Bool(to), Out::Bool(value)) => to.append_value(value),
            (Builder::Bool(to), _) => to.append_null(),
            (Builder::Texts(to), Out::Texts(items)) => {
                items.into_iter().for_each(|item| to.values().append_option(item));
                to.append(true);
            }
            (Builder::Texts(to), _) => to.append(false),
            (Builder::Rows(to), Out::Rows(rows)) => {
                for items in rows {
                    let row = to.values();
                    items.into_iter().for_each(|item| row.values().append_option(item));
                    row.append(true);
                }
                to.append(true);
            }
            (Builder::Rows(to), _) => to.append(false),
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Builder::Text(mut to) => Arc::new(to.finish()),
            Builder::Bits(mut to) => Arc::new(to.finish()),
            Builder::Address(mut to) => Arc::new(to.finish()),
            Builder::Bytes(mut to) => Arc::new(to.finish()),
            Builder::Int4(mut to) => Arc::new(to.finish()),
            Builder::Int8(mut to) => Arc::new(to.finish()),
            Builder::Bool(mut to) => Arc::new(to.finish()),
            Builder::Texts(mut to) => Arc::new(to.finish()),
            Builder::Rows(mut to) => Arc::new(to.finish()),
        }
    }
}
