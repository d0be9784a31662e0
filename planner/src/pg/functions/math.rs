//! Mathematical functions that integers, numerics and floats each have their own of.

use super::float;
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::numeric::{Class, failed, operators};
use crate::pg::semantics::arithmetic;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int32Array, PrimitiveArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::numeric::neg;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::numeric::Numeric;
use tenon_storage::numeric::column::{Values, collect};
use tenon_storage::types::NUMERIC;

const FUNCTIONS: [&str; 18] = [
    "abs",
    "tenon_negate",
    "signum",
    "sqrt",
    "exp",
    "ln",
    "log",
    "log10",
    "power",
    "mod",
    "div",
    "gcd",
    "lcm",
    "numeric_inc",
    "scale",
    "min_scale",
    "trim_scale",
    "factorial",
];

pub(super) fn functions() -> Vec<ScalarUDF> {
    FUNCTIONS
        .map(|name| {
            ScalarUDF::new_from_impl(Math {
                name,
                signature: Signature::user_defined(Volatility::Immutable),
            })
        })
        .into()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Math {
    name: &'static str,
    signature: Signature,
}

impl Math {
    fn unknown<T>(&self, types: &[DataType]) -> Result<T> {
        let name = |own: &DataType| match Class::of(own) {
            Class::Null => "unknown",
            Class::Decimal | Class::Numeric => "numeric",
            _ => SqlType::from_data_type(own).map_or("record", SqlType::base_name),
        };
        let types: Vec<&str> = types.iter().map(name).collect();
        let shown = if self.name == "signum" { "sign" } else { self.name };
        let message = format!("function {shown}({}) does not exist", types.join(", "));
        Err(to_datafusion(SqlError::new(state::UNDEFINED_FUNCTION, message).hint(
            "No function matches the given name and argument types. You might need to add explicit type casts.",
        )))
    }

    /// The class of numbers that the function computes in, for arguments of these types.
    fn class(&self, types: &[DataType]) -> Class {
        let classes = || types.iter().map(Class::of);
        let has = |class| classes().any(|own| own == class);
        if has(Class::Float) {
            Class::Float
        } else if has(Class::Numeric) || has(Class::Decimal) {
            Class::Numeric
        } else if has(Class::Integer) {
            Class::Integer
        } else {
            Class::Float
        }
    }
}

/// The wider of integers' types.
fn common_integer(types: &[DataType]) -> DataType {
    let width = types.iter().filter_map(DataType::primitive_width).max().unwrap_or(4);
    match width {
        0..=2 => DataType::Int16,
        4 => DataType::Int32,
        _ => DataType::Int64,
    }
}

impl ScalarUDFImpl for Math {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let count = match self.name {
            "log" if types.len() == 1 => 1,
            "log" | "power" | "mod" | "div" | "gcd" | "lcm" => 2,
            _ => 1,
        };
        let other = |own: &DataType| Class::of(own) == Class::Other;
        if self.name == "tenon_negate" && types.len() == 1 {
            // DataFusion's ranks and row numbers have no sign.
            let signed = |own: &DataType| match own {
                DataType::UInt64 => DataType::Int64,
                own => own.clone(),
            };
            return Ok(types.iter().map(signed).collect());
        }
        if types.len() != count || types.iter().any(other) {
            return self.unknown(types);
        }
        let class = self.class(types);
        let exact_only = matches!(
            self.name,
            "mod" | "div" | "gcd" | "lcm" | "scale" | "min_scale" | "trim_scale" | "factorial"
        ) || (self.name == "log" && count == 2);
        let unknown = |own: &DataType| own.is_null() || Class::of(own) == Class::Text;
        if exact_only && class == Class::Float && !types.iter().all(unknown) {
            return self.unknown(types);
        }
        let integers = matches!(self.name, "mod" | "gcd" | "lcm") && class == Class::Integer;
        Ok(types
            .iter()
            .map(|own| match Class::of(own) {
                _ if integers => common_integer(types),
                Class::Integer if self.name == "factorial" => DataType::Int64,
                Class::Integer => common_integer(std::slice::from_ref(own)),
                // A literal of unknown type.
                Class::Text if exact_only || class == Class::Numeric => NUMERIC,
                Class::Text | Class::Null => DataType::Float64,
                _ => own.clone(),
            })
            .collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let class = self.class(types);
        Ok(match self.name {
            "abs" | "tenon_negate" if types[0] == DataType::UInt64 => DataType::Int64,
            "abs" | "tenon_negate" => types[0].clone(),
            "scale" | "min_scale" => DataType::Int32,
            "div" | "trim_scale" | "factorial" | "numeric_inc" => NUMERIC,
            "log" if types.len() == 2 => NUMERIC,
            "mod" | "gcd" | "lcm" if class == Class::Integer => common_integer(types),
            "mod" | "gcd" | "lcm" => NUMERIC,
            _ if class == Class::Numeric => NUMERIC,
            _ => DataType::Float64,
        })
    }

    fn simplify(&self, mut args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        if self.name == "tenon_negate" && args.len() == 1 {
            let own = info.get_data_type(&args[0])?;
            if !matches!(Class::of(&own), Class::Integer | Class::Numeric) {
                let arg = args.remove(0);
                let negated = arithmetic::negated(arg.clone(), &own);
                return Ok(ExprSimplifyResult::Simplified(
                    negated.unwrap_or_else(|| Expr::Negative(Box::new(arg))),
                ));
            }
        }
        Ok(ExprSimplifyResult::Original(args))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let arrays = args
            .args
            .iter()
            .map(|value| value.to_array(rows))
            .collect::<Result<Vec<_>>>()?;
        let result = self.result(&arrays, rows)?;
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

impl Math {
    fn result(&self, args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let types: Vec<DataType> = args.iter().map(|array| array.data_type().clone()).collect();
        let class = self.class(&types);
        match (self.name, class) {
            ("abs" | "tenon_negate", _) => return self.signed(&args[0]),
            ("scale" | "min_scale", _) => {
                let Some(values) = Values::of(&args[0]) else {
                    return self.unknown(&types);
                };
                let digits = values.iter().map(|value| {
                    let value = value?;
                    let scale = if self.name == "scale" {
                        value.scale()
                    } else {
                        value.min_scale()
                    };
                    scale.map(|scale| scale as i32)
                });
                return Ok(Arc::new(digits.collect::<Int32Array>()));
            }
            ("factorial", _) => {
                let numbers = cast(&args[0], &DataType::Int64)?;
                let results = numbers.as_primitive::<Int64Type>().iter().map(|n| match n {
                    Some(..=-1) => {
                        let message = "factorial of a negative number is undefined";
                        Err(float::fail(state::NUMERIC_VALUE_OUT_OF_RANGE, message))
                    }
                    Some(n) => Numeric::factorial(n).map(Some).map_err(failed),
                    None => Ok(None),
                });
                return Ok(collect(results.collect::<Result<Vec<_>>>()?.into_iter()));
            }
            ("mod" | "gcd" | "lcm", Class::Integer) => {
                return match types[0] {
                    DataType::Int16 => self.integers::<Int16Type>(args),
                    DataType::Int32 => self.integers::<Int32Type>(args),
                    _ => self.integers::<Int64Type>(args),
                };
            }
            _ => {}
        }
        let exact = class == Class::Numeric;
        match (self.name, exact) {
            ("signum", true) => operators::map1(args, |v| Ok(v.sign())),
            ("signum", false) => float::map1(args, float::sign),
            ("sqrt", true) => operators::map1(args, Numeric::sqrt),
            ("sqrt", false) => float::map1(args, float::sqrt),
            ("exp", true) => operators::map1(args, Numeric::exp),
            ("exp", false) => float::map1(args, float::exp),
            ("ln", true) => operators::map1(args, Numeric::ln),
            ("ln", false) => float::map1(args, float::ln),
            ("log", _) if args.len() == 2 => operators::map2(args, rows, |base, value| value.log(base)),
            ("log" | "log10", true) => operators::map1(args, |v| v.log(&Numeric::from(10))),
            ("log" | "log10", false) => float::map1(args, float::log10),
            ("power", true) => operators::map2(args, rows, Numeric::power),
            ("power", false) => float::map2(args, float::power),
            ("mod", _) => operators::map2(args, rows, Numeric::rem),
            ("div", _) => operators::map2(args, rows, Numeric::div_trunc),
            ("gcd", _) => operators::map2(args, rows, |a, b| Ok(a.gcd(b))),
            ("lcm", _) => operators::map2(args, rows, Numeric::lcm),
            ("numeric_inc", _) => operators::map1(args, |v| v.add(&Numeric::from(1))),
            ("trim_scale", _) => operators::map1(args, |v| Ok(v.trim_scale())),
            _ => plan_err!("{} of {types:?}", self.name),
        }
    }

    /// `abs` and minus, in the argument's own type.
    fn signed(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let abs = self.name == "abs";
        macro_rules! integers {
            ($type:ty) => {{
                let own = values.as_primitive::<$type>();
                let results = own.iter().map(|value| match value {
                    Some(value) if abs => value
                        .checked_abs()
                        .map(Some)
                        .ok_or_else(|| out_of_range(values.data_type())),
                    Some(value) => value
                        .checked_neg()
                        .map(Some)
                        .ok_or_else(|| out_of_range(values.data_type())),
                    None => Ok(None),
                });
                Ok(Arc::new(results.collect::<Result<PrimitiveArray<$type>>>()?))
            }};
        }
        match values.data_type() {
            DataType::Int16 => integers!(Int16Type),
            DataType::Int32 => integers!(Int32Type),
            DataType::Int64 => integers!(Int64Type),
            DataType::Float32 if abs => Ok(Arc::new(
                values.as_primitive::<Float32Type>().unary::<_, Float32Type>(f32::abs),
            )),
            DataType::Float64 if abs => Ok(Arc::new(
                values.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::abs),
            )),
            own @ DataType::Decimal128(..) if abs => Ok(Arc::new(
                values
                    .as_primitive::<Decimal128Type>()
                    .unary::<_, Decimal128Type>(i128::wrapping_abs)
                    .with_data_type(own.clone()),
            )),
            DataType::LargeBinary if abs => operators::map1(std::slice::from_ref(values), |value| Ok(value.abs())),
            DataType::LargeBinary => operators::map1(std::slice::from_ref(values), |value| Ok(value.neg())),
            _ if !abs => Ok(neg(values)?),
            other => self.unknown(std::slice::from_ref(other)),
        }
    }

    fn integers<T: ArrowPrimitiveType>(&self, args: &[ArrayRef]) -> Result<ArrayRef>
    where
        T::Native: Into<i128> + TryFrom<i128>,
    {
        let own = args[0].data_type();
        let rows = args[0].as_primitive::<T>().iter().zip(args[1].as_primitive::<T>());
        let results = rows.map(|row| {
            let (Some(a), Some(b)) = row else { return Ok(None) };
            let (a, b): (i128, i128) = (a.into(), b.into());
            let result = match self.name {
                "mod" if b == 0 => return Err(failed(tenon_storage::numeric::NumericError::DivisionByZero)),
                "mod" => a % b,
                "gcd" => gcd(a, b),
                _ if a == 0 || b == 0 => 0,
                _ => (a / gcd(a, b) * b).abs(),
            };
            T::Native::try_from(result).map(Some).map_err(|_| out_of_range(own))
        });
        Ok(Arc::new(results.collect::<Result<PrimitiveArray<T>>>()?))
    }
}

fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn out_of_range(own: &DataType) -> datafusion::error::DataFusionError {
    let name = SqlType::from_data_type(own).map_or("integer", SqlType::base_name);
    float::fail(state::NUMERIC_VALUE_OUT_OF_RANGE, &format!("{name} out of range"))
}
