//! `coalesce`, `greatest`, `least` and `nullif`, which give their arguments one type: of exact numbers the one that
//! `numeric::unify` gives them.

use crate::numeric::Class;
use crate::numeric::unify::differ;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::functions::core;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;
use tenon_storage::types::NUMERIC;

pub(super) fn functions() -> Vec<ScalarUDF> {
    [core::coalesce(), core::greatest(), core::least(), core::nullif()]
        .map(|inner| {
            ScalarUDF::new_from_impl(OneType {
                inner,
                signature: Signature::user_defined(Volatility::Immutable),
            })
        })
        .into()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OneType {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl OneType {
    /// The result's type where numerics of any precision are among the arguments, or would be.
    fn result_of(&self, types: &[DataType]) -> Option<DataType> {
        let numeric = types.contains(&NUMERIC);
        let float = types.iter().any(DataType::is_floating);
        let known = |own: &DataType| {
            matches!(Class::of(own), Class::Null | Class::Text | Class::Float) || Class::of(own).is_exact()
        };
        if !differ(types) && !(numeric && types.iter().all(known)) {
            return None;
        }
        Some(match self.name() {
            "nullif" => types[0].clone(),
            _ if float => DataType::Float64,
            _ => NUMERIC,
        })
    }
}

impl ScalarUDFImpl for OneType {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        match self.result_of(&types) {
            Some(result) => Ok(Arc::new(Field::new(self.name(), result, true))),
            None => self.inner.return_field_from_args(args),
        }
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        // DataFusion casts no number to a numeric: `numeric::unify` has done so when this decides.
        if self.result_of(types).is_some() {
            return Ok(types.to_vec());
        }
        let field = |own: &DataType| Arc::new(Field::new("", own.clone(), true)) as FieldRef;
        let fields: Vec<FieldRef> = types.iter().map(field).collect();
        let coerced = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(coerced.iter().map(|field| field.data_type().clone()).collect())
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(args)
    }
}
