//! A function that reads the session's conventions and takes its arguments in types of its own choice.

use crate::pg::conventions;
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, FixedSizeBinaryArray, IntervalMonthDayNanoArray, PrimitiveArray,
    Time64MicrosecondArray, TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};
use tenon_storage::datetime::{Conventions, Span, TIMETZ_BYTES, out_of_range};
use tenon_storage::{SqlType, StorageError};

pub(crate) const STAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
pub(crate) static STAMPTZ: LazyLock<DataType> = LazyLock::new(|| SqlType::TimestampTz.data_type());
pub(crate) const TIME: DataType = DataType::Time64(TimeUnit::Microsecond);
pub(crate) const TIMETZ: DataType = DataType::FixedSizeBinary(TIMETZ_BYTES as i32);
pub(super) const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Arguments, all as arrays of the types that the function asked for.
pub(super) struct Call {
    pub args: Vec<ArrayRef>,
    pub rows: usize,
    pub conventions: Arc<Conventions>,
}

type Coerce = fn(&[DataType]) -> Option<Vec<DataType>>;
type Returns = fn(&[DataType]) -> DataType;
type Body = fn(&Call) -> Result<ArrayRef>;

#[derive(Debug)]
struct Temporal {
    name: &'static str,
    signature: Signature,
    coerce: Coerce,
    returns: Returns,
    body: Body,
}

impl PartialEq for Temporal {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Temporal {}

impl Hash for Temporal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// `coerce` gives the types that the arguments are brought to; None: no such function.
pub(super) fn function(name: &'static str, coerce: Coerce, returns: Returns, body: Body) -> ScalarUDF {
    ScalarUDF::new_from_impl(Temporal {
        name,
        signature: Signature::user_defined(Volatility::Immutable),
        coerce,
        returns,
        body,
    })
}

/// 42883 with the types that were given.
pub(super) fn undefined(name: &str, types: &[DataType]) -> DataFusionError {
    let names = types.iter().map(|of| match of {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => "unknown".to_string(),
        other => SqlType::from_data_type(other).map_or_else(|| other.to_string(), |of| of.unlimited().sql_name()),
    });
    let names = names.collect::<Vec<_>>().join(", ");
    to_datafusion(
        SqlError::new(
            state::UNDEFINED_FUNCTION,
            format!("function {name}({names}) does not exist"),
        )
        .hint("No function matches the given name and argument types. You might need to add explicit type casts."),
    )
}

impl ScalarUDFImpl for Temporal {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        (self.coerce)(types).ok_or_else(|| undefined(self.name, types))
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok((self.returns)(types))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&args, self.body)
    }
}

/// Runs `body` over arrays; over one row where all arguments are constant.
pub(super) fn invoke(args: &ScalarFunctionArgs, body: impl Fn(&Call) -> Result<ArrayRef>) -> Result<ColumnarValue> {
    let scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
    let rows = if scalar { 1 } else { args.number_rows };
    let call = Call {
        args: args
            .args
            .iter()
            .map(|value| value.to_array(rows))
            .collect::<Result<_>>()?,
        rows,
        conventions: conventions::of(&args.config_options),
    };
    let result = body(&call)?;
    Ok(match scalar {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
        false => ColumnarValue::Array(result),
    })
}

pub(super) fn fail(error: StorageError) -> DataFusionError {
    to_datafusion(error.into())
}

/// Texts of any layout.
pub(super) fn is_text(of: &DataType) -> bool {
    matches!(
        of,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null
    )
}

/// The type in which storage keeps a temporal type; None for any other.
pub(crate) fn exact(of: &DataType) -> Option<DataType> {
    Some(match of {
        DataType::Date32 | DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(_) => TIME,
        DataType::FixedSizeBinary(width) if *width == TIMETZ_BYTES as i32 => TIMETZ,
        DataType::Timestamp(_, None) => STAMP,
        DataType::Timestamp(_, Some(_)) => STAMPTZ.clone(),
        DataType::Interval(_) | DataType::Duration(_) => INTERVAL,
        _ => return None,
    })
}

/// A point in time: dates become timestamps, and texts are read as timestamptz.
pub(super) fn point(of: &DataType) -> Option<DataType> {
    match exact(of) {
        Some(DataType::Date32) => Some(STAMP),
        Some(found @ DataType::Timestamp(..)) => Some(found),
        None if is_text(of) => Some(STAMPTZ.clone()),
        _ => None,
    }
}

/// As `point`, with dates too as timestamptz where PostgreSQL prefers it.
pub(super) fn instant(of: &DataType) -> Option<DataType> {
    match exact(of) {
        Some(DataType::Date32) => Some(STAMPTZ.clone()),
        _ => point(of),
    }
}

/// One value for each row of a column; NULL where it is NULL.
pub(super) fn map<T: ArrowPrimitiveType, R: ArrowPrimitiveType>(
    values: &ArrayRef,
    of: impl Fn(T::Native) -> Result<R::Native, StorageError>,
) -> Result<PrimitiveArray<R>> {
    values
        .as_primitive::<T>()
        .try_unary::<_, R, StorageError>(of)
        .map_err(fail)
}

/// The same, where a value may have none.
pub(super) fn map_some<T: ArrowPrimitiveType, R: ArrowPrimitiveType>(
    values: &ArrayRef,
    of: impl Fn(T::Native) -> Result<Option<R::Native>, StorageError>,
) -> Result<PrimitiveArray<R>> {
    let found = values.as_primitive::<T>().iter().map(|value| match value {
        Some(value) => of(value),
        None => Ok(None),
    });
    found.collect::<Result<_, StorageError>>().map_err(fail)
}

/// One value for each pair.
pub(super) fn zip<A: ArrowPrimitiveType, B: ArrowPrimitiveType, R: ArrowPrimitiveType>(
    a: &ArrayRef,
    b: &ArrayRef,
    of: impl Fn(A::Native, B::Native) -> Result<R::Native, StorageError>,
) -> Result<PrimitiveArray<R>> {
    let pairs = a.as_primitive::<A>().iter().zip(b.as_primitive::<B>());
    let found = pairs.map(|pair| match pair {
        (Some(a), Some(b)) => of(a, b).map(Some),
        _ => Ok(None),
    });
    found.collect::<Result<_, StorageError>>().map_err(fail)
}

pub(super) fn arrow(span: Span) -> Result<IntervalMonthDayNano, StorageError> {
    span.to_arrow().ok_or_else(|| out_of_range("interval"))
}

pub(super) fn spans(array: &ArrayRef, of: impl Fn(Span) -> Result<Span, StorageError>) -> Result<ArrayRef> {
    let out = map::<IntervalMonthDayNanoType, IntervalMonthDayNanoType>(array, |value| arrow(of(value.into())?))?;
    Ok(Arc::new(out))
}

pub(super) fn dates(array: Date32Array) -> ArrayRef {
    Arc::new(array)
}

pub(super) fn times(array: Time64MicrosecondArray) -> ArrayRef {
    Arc::new(array)
}

pub(super) fn stamps(array: TimestampMicrosecondArray) -> ArrayRef {
    Arc::new(array)
}

pub(super) fn stampstz(array: TimestampMicrosecondArray) -> ArrayRef {
    Arc::new(array.with_data_type(STAMPTZ.clone()))
}

pub(super) fn intervals(array: IntervalMonthDayNanoArray) -> ArrayRef {
    Arc::new(array)
}

pub(super) fn timestz(values: impl Iterator<Item = Option<[u8; TIMETZ_BYTES]>>) -> Result<ArrayRef> {
    let array = FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, TIMETZ_BYTES as i32)?;
    Ok(Arc::new(array))
}

/// Whether an array's points in time are `timestamptz`.
pub(super) fn zoned(array: &ArrayRef) -> bool {
    matches!(array.data_type(), DataType::Timestamp(_, Some(_)))
}

/// Points in time of the type that `like` has.
pub(super) fn stamps_like(array: TimestampMicrosecondArray, like: &ArrayRef) -> ArrayRef {
    if zoned(like) { stampstz(array) } else { stamps(array) }
}
