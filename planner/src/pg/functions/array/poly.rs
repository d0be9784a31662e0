//! Functions over arrays of any type and their elements. Their arguments get one element type, as `anycompatiblearray`
//! and `anycompatible` do.

use super::leaf;
use super::lists::list_type;
use super::quantified;
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::numeric::unify::differ;
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::can_cast_types;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};
use std::hash::{Hash, Hasher};
use tenon_storage::types::NUMERIC;

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Param {
    Array,
    Element,
    Int,
    Text,
    /// An array of anything, whose items are written out.
    Texts,
}

/// What comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Returns {
    /// An array with as many dimensions as the deepest argument has.
    Array,
    Bool,
    Int,
    Text,
    Ints,
    Texts,
}

type Body = fn(&[ArrayRef], usize, &DataType) -> Result<ArrayRef>;

/// A function with its parameters, of which the first `required` must be given.
pub(super) struct Poly {
    pub name: &'static str,
    pub params: &'static [Param],
    pub required: usize,
    pub returns: Returns,
    /// Gets arrays of one length, their number of rows and the type to return.
    pub body: Body,
}

#[derive(Debug)]
struct Function {
    name: &'static str,
    params: &'static [Param],
    required: usize,
    returns: Returns,
    body: Body,
    signature: Signature,
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Poly {
    pub(super) fn udf(self) -> ScalarUDF {
        ScalarUDF::new_from_impl(Function {
            name: self.name,
            params: self.params,
            required: self.required,
            returns: self.returns,
            body: self.body,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    }
}

fn is_unknown(data_type: &DataType) -> bool {
    is_text(data_type) || data_type.is_null()
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric() || *data_type == NUMERIC
}

/// Text, which jsonb is not.
pub(super) fn is_text(data_type: &DataType) -> bool {
    data_type.is_string() && *data_type != DataType::LargeUtf8
}

/// Whether a function gives its arguments' elements one type.
pub(crate) fn unifies(function: &ScalarUDF) -> bool {
    function.inner().downcast_ref::<Function>().is_some()
}

/// The types that such a function's arguments become; None of another function, and where it takes none of these.
pub(crate) fn unified(function: &ScalarUDF, types: &[DataType]) -> Option<Vec<DataType>> {
    function.inner().downcast_ref::<Function>()?.wanted(types).ok()
}

/// The type that elements of both types get: another than text wins, since text may be a literal.
pub(super) fn common(a: &DataType, b: &DataType) -> Option<DataType> {
    Some(match (is_text(a), is_text(b)) {
        _ if a == b && !is_text(a) => a.clone(),
        (true, true) => DataType::Utf8View,
        (true, false) if b.is_null() => DataType::Utf8View,
        (false, true) if a.is_null() => DataType::Utf8View,
        (true, false) => b.clone(),
        (false, true) => a.clone(),
        // A float beside a numeric stays one.
        _ if is_number(a) && is_number(b) && (a.is_floating() || b.is_floating()) => DataType::Float64,
        _ if is_number(a) && is_number(b) && (*a == NUMERIC || *b == NUMERIC || differ(&[a.clone(), b.clone()])) => {
            NUMERIC
        }
        _ => comparison_coercion(a, b)?,
    })
}

impl Function {
    fn undefined(&self, types: &[DataType]) -> datafusion::error::DataFusionError {
        let names: Vec<String> = types.iter().map(type_name).collect();
        let message = format!("function {}({}) does not exist", self.name, names.join(", "));
        to_datafusion(SqlError::new(state::UNDEFINED_FUNCTION, message))
    }

    /// What the arguments become.
    fn wanted(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if types.len() < self.required || types.len() > self.params.len() {
            return Err(self.undefined(types));
        }
        let pairs = || self.params.iter().zip(types);
        let (mut element, mut deepest): (Option<DataType>, usize) = (None, 1);
        for (param, own) in pairs() {
            let (item, depth) = leaf(own);
            let counts = match param {
                Param::Array if depth == 0 && !is_unknown(own) => return Err(self.undefined(types)),
                Param::Array => depth > 0,
                Param::Element if depth > 0 => return Err(self.undefined(types)),
                Param::Element => !own.is_null(),
                Param::Int if !(own.is_numeric() || is_unknown(own)) => return Err(self.undefined(types)),
                _ => false,
            };
            deepest = deepest.max(depth);
            if counts {
                element = Some(match element {
                    None => item.clone(),
                    Some(before) => common(&before, item).ok_or_else(|| self.undefined(types))?,
                });
            }
        }
        let element = match element {
            Some(string) if is_text(&string) => DataType::Utf8View,
            Some(DataType::Null) | None => DataType::Utf8View,
            Some(other) => other,
        };
        let wanted = pairs().map(|(param, own)| match param {
            Param::Array => list_type(&element, leaf(own).1.max(1)),
            Param::Element => element.clone(),
            Param::Int => DataType::Int32,
            Param::Text => DataType::Utf8View,
            Param::Texts if leaf(own).1 > 0 => own.clone(),
            Param::Texts => list_type(&DataType::Utf8View, 1),
        });
        Ok(wanted.collect())
    }
}

/// A type as PostgreSQL names it in errors.
pub(crate) fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Null => "unknown".into(),
        other => {
            tenon_storage::SqlType::from_data_type(other).map_or("record".into(), |known| known.base_name().into())
        }
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        // What Arrow has no cast for keeps its type here: see `semantics::array_numbers`.
        let wanted = self.wanted(types)?.into_iter().zip(types);
        Ok(wanted
            .map(|(wanted, own)| {
                if can_cast_types(own, &wanted) {
                    wanted
                } else {
                    own.clone()
                }
            })
            .collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match self.returns {
            Returns::Array => {
                let wanted = self.wanted(types)?;
                let deepest = self
                    .params
                    .iter()
                    .zip(wanted)
                    .filter(|(param, _)| **param == Param::Array)
                    .max_by_key(|(_, own)| leaf(own).1);
                match deepest {
                    Some((_, own)) => own,
                    None => return Err(self.undefined(types)),
                }
            }
            Returns::Bool => DataType::Boolean,
            Returns::Int => DataType::Int32,
            Returns::Text => DataType::Utf8View,
            Returns::Ints => list_type(&DataType::Int32, 1),
            Returns::Texts => list_type(&DataType::Utf8View, 1),
        })
    }

    fn simplify(&self, mut args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let listed = match args.as_slice() {
            [_, Expr::Literal(array, _)] => quantified::listed(self.name, array),
            _ => None,
        };
        let Some((items, negated)) = listed else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        if items.is_empty() {
            return Ok(ExprSimplifyResult::Simplified(lit(negated)));
        }
        if info.get_data_type(&args[0])? != *items.data_type() {
            return Ok(ExprSimplifyResult::Original(args));
        }
        let items = (0..items.len()).map(|at| Ok(Expr::Literal(ScalarValue::try_from_array(&items, at)?, None)));
        let items = items.collect::<Result<Vec<_>>>()?;
        Ok(ExprSimplifyResult::Simplified(
            args.swap_remove(0).in_list(items, negated),
        ))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let arrays = args
            .args
            .iter()
            .map(|value| value.to_array(rows))
            .collect::<Result<Vec<_>>>()?;
        let result = (self.body)(&arrays, rows, args.return_field.data_type())?;
        match scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?)),
            false => Ok(ColumnarValue::Array(result)),
        }
    }
}
