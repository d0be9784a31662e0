//! COALESCE, GREATEST, LEAST and NULLIF while names are bound: a literal among their arguments has the type of the others, which
//! DataFusion's own would not take together. `semantics::resolve` puts those in again.

use super::datetime::{TIME, TIMETZ};
use super::network::is_network;
use super::one_type::result_of;
use crate::pg::semantics::resolve;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::error::DataFusionError;
use datafusion::functions::core;
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::network::INET;
use tenon_storage::range::is_range;
use tenon_storage::types::NUMERIC;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Common {
    original: Arc<ScalarUDF>,
    signature: Signature,
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    let originals = [core::coalesce(), core::greatest(), core::least(), core::nullif()];
    let wrapped = originals.map(|original| {
        ScalarUDF::new_from_impl(Common {
            original,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    });
    wrapped.to_vec()
}

/// DataFusion's function behind one of these.
pub(crate) fn original(function: &ScalarUDF) -> Option<Arc<ScalarUDF>> {
    let any: &dyn std::any::Any = function.inner().as_ref();
    any.downcast_ref::<Common>().map(|own| own.original.clone())
}

/// A literal that takes the type of the others.
pub(super) fn is_unknown(of: &DataType) -> bool {
    matches!(of, DataType::Utf8 | DataType::Null)
}

fn is_time(of: &DataType) -> bool {
    *of == TIME || *of == TIMETZ
}

fn is_number(of: &DataType) -> bool {
    of.is_numeric() || *of == NUMERIC
}

/// The widest of the floats among numbers.
fn float_of(types: &[DataType]) -> DataType {
    match types.contains(&DataType::Float64) {
        true => DataType::Float64,
        false => DataType::Float32,
    }
}

impl Common {
    /// 42804 for the first of the types that has none in common with those before it.
    fn apart(&self, types: &[DataType]) -> Option<DataFusionError> {
        let mut known = types.iter().map(SqlType::from_data_type);
        let mut found = known.next()??;
        for own in known {
            let own = own?;
            found = match resolve::common_type(found, own) {
                Some(of) => of,
                None if self.name() == "nullif" => return Some(resolve::undefined("=", Some(found), Some(own))),
                None => return Some(resolve::unmatched(&self.name().to_uppercase(), found, own)),
            };
        }
        None
    }
}

impl ScalarUDFImpl for Common {
    fn name(&self) -> &str {
        self.original.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if result_of(self.name(), types).is_some() {
            return Ok(types.to_vec());
        }
        let of_their_own: Vec<DataType> = types.iter().filter(|of| !is_unknown(of)).cloned().collect();
        let common = match of_their_own.as_slice() {
            [] => Some(DataType::Utf8View),
            [first, rest @ ..] if rest.iter().all(|of| of == first) => Some(first.clone()),
            // They are made one type where literals are.
            all if all.iter().all(is_network) || all.iter().all(is_time) => return Ok(types.to_vec()),
            // Beside a float, numbers are floats.
            all if all.iter().all(is_number) && all.iter().any(DataType::is_floating) => Some(float_of(all)),
            all => type_union_resolution(all),
        };
        match common {
            // DataFusion has no cast of a literal to these.
            Some(own) if is_range(&own) || matches!(own, DataType::FixedSizeBinary(_)) => Ok(types.to_vec()),
            Some(common) if !types.is_empty() => Ok(vec![common; types.len()]),
            _ => {
                if let Some(apart) = self.apart(&of_their_own) {
                    return Err(apart);
                }
                let types: Vec<String> = types.iter().map(ToString::to_string).collect();
                let call = format!("{}({})", self.name(), types.join(", "));
                plan_err!("No function matches the given name and argument types '{call}'.")
            }
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let wide = |of: &DataType| *of == INET || *of == TIMETZ;
        let wide = types.iter().find(|of| wide(of) && self.name() != "nullif");
        match wide.or(types.iter().find(|of| !is_unknown(of))).or(types.first()) {
            Some(own) => Ok(own.clone()),
            None => plan_err!("{} takes an argument", self.name()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = self.name() == "nullif" || args.arg_fields.iter().all(|field| field.is_nullable());
        let result = match result_of(self.name(), &types) {
            Some(result) => result,
            None => self.return_type(&types)?,
        };
        let field = Arc::new(Field::new(self.name(), result, nullable));
        let string = match self.name() {
            "nullif" => args
                .arg_fields
                .first()
                .and_then(|first| resolve::of_fields(std::slice::from_ref(first))),
            _ => resolve::of_fields(args.arg_fields),
        };
        Ok(match string {
            Some(of) => resolve::with_type(field, of),
            None => field,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.original.invoke_with_args(args)
    }
}
