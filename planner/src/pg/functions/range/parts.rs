//! What functions tell of one range or multirange, `range_merge`, and a range as a multirange.

use super::super::array::in_arrays;
use super::super::enums::undefined;
use super::super::text::case;
use super::values::{is_unknown, ranges, spans, to_bytes, values};
use crate::pg::conventions;
use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::string;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::range::{self, Bound, Span};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    Lower,
    Upper,
    IsEmpty,
    LowerInc,
    UpperInc,
    LowerInf,
    UpperInf,
    Merge,
    Multirange,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Part {
    what: What,
    signature: Signature,
}

fn function(what: What) -> ScalarUDF {
    ScalarUDF::new_from_impl(Part {
        what,
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    use What::*;
    [
        Lower, Upper, IsEmpty, LowerInc, UpperInc, LowerInf, UpperInf, Merge, Multirange,
    ]
    .map(function)
    .into()
}

/// Whether a cast makes a multirange of a range.
pub(crate) fn converts(from: &DataType, to: &DataType) -> bool {
    match (SqlType::range_of(from), SqlType::range_of(to)) {
        (Some(SqlType::Range(from)), Some(SqlType::Multirange(to))) => from == to,
        _ => false,
    }
}

/// A range as a multirange.
pub(crate) fn converted(expr: Expr) -> Expr {
    Arc::new(function(What::Multirange)).call(vec![expr])
}

impl Part {
    /// DataFusion's function of texts of the same name.
    fn of_texts(&self) -> Option<Arc<ScalarUDF>> {
        match self.what {
            What::Lower => Some(string::lower()),
            What::Upper => Some(string::upper()),
            _ => None,
        }
    }

    /// What ranges the arguments are; None: they are texts.
    fn ranges(&self, types: &[DataType]) -> Result<Option<SqlType>> {
        let none = || undefined(self.name(), types);
        if types.len()
            != if self.what == What::Merge {
                types.len().clamp(1, 2)
            } else {
                1
            }
        {
            return Err(none());
        }
        let Some(of) = types.iter().find_map(SqlType::range_of) else {
            let texts = types.iter().all(|own| own.is_string() || own.is_null());
            return if texts && self.of_texts().is_some() {
                Ok(None)
            } else {
                Err(none())
            };
        };
        let alike = types.iter().all(|own| *own == of.data_type() || is_unknown(own));
        let fits = match (self.what, of) {
            (What::Multirange, SqlType::Multirange(_)) => false,
            (What::Merge, SqlType::Multirange(_)) => types.len() == 1,
            (What::Merge, _) => types.len() == 2,
            _ => true,
        };
        if alike && fits { Ok(Some(of)) } else { Err(none()) }
    }

    fn gives(&self, of: SqlType) -> SqlType {
        let Some(ranges) = of.ranges() else {
            return SqlType::Text;
        };
        match self.what {
            What::Lower | What::Upper => ranges.subtype(),
            What::Merge => SqlType::Range(ranges),
            What::Multirange => SqlType::Multirange(ranges),
            _ => SqlType::Bool,
        }
    }

    fn tells(&self, spans: &[Span]) -> bool {
        let (lower, upper) = (spans.first().map(|own| &own.lower), spans.last().map(|own| &own.upper));
        let infinite = |bound: Option<&Bound>| bound.is_some_and(|bound| bound.value.is_none());
        let inclusive = |bound: Option<&Bound>| bound.is_some_and(|bound| bound.inclusive);
        match self.what {
            What::IsEmpty => spans.is_empty(),
            What::LowerInc => inclusive(lower),
            What::UpperInc => inclusive(upper),
            What::LowerInf => infinite(lower),
            _ => infinite(upper),
        }
    }

    fn made(&self, of: SqlType, arrays: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let arguments = arrays.iter().map(|array| values(array)).collect::<Result<Vec<_>>>()?;
        let row = |row: usize| -> Option<Vec<Vec<Span>>> {
            arguments.iter().map(|own| Some(spans(of, own.get(row)?))).collect()
        };
        let Some(ranges) = of.ranges() else {
            return Err(undefined(self.name(), &[]));
        };
        Ok(match self.what {
            What::Lower | What::Upper => {
                let bound = |at: usize| {
                    let own = row(at)?;
                    let spans = own.first()?;
                    let bound = match self.what {
                        What::Lower => &spans.first()?.lower,
                        _ => &spans.last()?.upper,
                    };
                    bound.value.as_ref().map(|key| key.to_vec())
                };
                let keys: Vec<_> = (0..rows).map(bound).collect();
                range::bound_array(ranges, keys.iter().map(Option::as_deref))
            }
            What::Merge | What::Multirange => {
                let gives = self.gives(of);
                let merged = |at: usize| {
                    let mut all: Vec<Span> = row(at)?.into_iter().flatten().collect();
                    if self.what == What::Merge && all.len() > 1 {
                        let first = all.remove(0);
                        all = vec![all.iter().fold(first, |merged, own| merged.merged(own))];
                    }
                    Some(to_bytes(gives, &all))
                };
                range::array(gives, (0..rows).map(merged))
            }
            _ => {
                let told = |at: usize| Some(self.tells(row(at)?.first()?));
                Arc::new((0..rows).map(told).collect::<BooleanArray>())
            }
        })
    }
}

impl ScalarUDFImpl for Part {
    fn name(&self) -> &str {
        match self.what {
            What::Lower => "lower",
            What::Upper => "upper",
            What::IsEmpty => "isempty",
            What::LowerInc => "lower_inc",
            What::UpperInc => "upper_inc",
            What::LowerInf => "lower_inf",
            What::UpperInf => "upper_inf",
            What::Merge => "range_merge",
            What::Multirange => "multirange",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match self.ranges(types)? {
            Some(_) => Ok(types.to_vec()),
            None => Ok(vec![DataType::Utf8View]),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match (self.ranges(types)?, self.of_texts()) {
            (Some(of), _) => Ok(self.gives(of).data_type()),
            (None, Some(texts)) => texts.return_type(types),
            (None, None) => Ok(DataType::Utf8View),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        match (self.ranges(&types)?, self.of_texts()) {
            (None, Some(texts)) => texts.return_field_from_args(args),
            (of, _) => Ok(Arc::new(
                self.gives(of.unwrap_or(SqlType::Text)).field(self.name(), true),
            )),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        match (self.ranges(&types)?, self.of_texts()) {
            (Some(of), _) => {
                let by = conventions::of(&args.config_options);
                in_arrays(&args.args, args.number_rows, |arrays, rows| {
                    let arrays = arrays
                        .iter()
                        .map(|array| ranges(of, array, &by))
                        .collect::<Result<Vec<_>>>()?;
                    self.made(of, &arrays, rows)
                })
            }
            (None, Some(texts)) => {
                let one = args.args.first().and_then(|argument| match argument {
                    ColumnarValue::Array(own) => Some(own.clone()),
                    ColumnarValue::Scalar(_) => argument.to_array(1).ok(),
                });
                let own = one.and_then(|own| case::converted(&own, self.what == What::Upper));
                match (own, args.args.first()) {
                    (Some(own), Some(ColumnarValue::Scalar(_))) => {
                        Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&own, 0)?))
                    }
                    (Some(own), _) => Ok(ColumnarValue::Array(own)),
                    (None, _) => texts.invoke_with_args(args),
                }
            }
            (None, None) => Err(undefined(self.name(), &types)),
        }
    }
}
