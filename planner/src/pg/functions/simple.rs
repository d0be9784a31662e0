//! Functions given by a Rust function over arrays of fixed types.

use crate::pg::types::type_oid;
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

type Body = fn(&[ArrayRef], usize) -> Result<ArrayRef>;

#[derive(Debug)]
struct Simple {
    name: &'static str,
    signature: Signature,
    returns: DataType,
    body: Body,
}

impl PartialEq for Simple {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.signature == other.signature
    }
}

impl Eq for Simple {}

impl Hash for Simple {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// A function that depends on its arguments alone. `body` gets arrays of the signature's types and the number of rows.
pub(crate) fn function(name: &'static str, signature: Signature, returns: DataType, body: Body) -> ScalarUDF {
    ScalarUDF::new_from_impl(Simple {
        name,
        signature,
        returns,
        body,
    })
}

impl ScalarUDFImpl for Simple {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = self.signature.volatility == Volatility::Immutable
            && args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let arrays = args
            .args
            .iter()
            .map(|value| value.to_array(rows))
            .collect::<Result<Vec<_>>>()?;
        let result = (self.body)(&arrays, rows)?;
        if scalar && result.len() == 1 {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

/// Its argument; text in the Arrow type of jsonb as text in its own. A name that no client can write.
pub(crate) const TEXT: &str = "\u{1}text";

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Text {
    signature: Signature,
}

impl Text {
    pub(super) fn udf() -> ScalarUDF {
        ScalarUDF::new_from_impl(Self {
            signature: Signature::any(1, Volatility::Immutable),
        })
    }
}

impl ScalarUDFImpl for Text {
    fn name(&self) -> &str {
        TEXT
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match &types[0] {
            DataType::LargeUtf8 => DataType::Utf8View,
            other => other.clone(),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        args.args[0].cast_to(args.return_field.data_type(), None)
    }
}

/// Its argument, which may be NULL for all that plans know: what both sides of a recursion have. A name that no client can
/// write.
pub(crate) const NULLABLE: &str = "\u{1}nullable";

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Nullable {
    signature: Signature,
}

impl Nullable {
    pub(super) fn udf() -> ScalarUDF {
        // Volatile, so that it stays where its argument is a constant.
        ScalarUDF::new_from_impl(Self {
            signature: Signature::any(1, Volatility::Volatile),
        })
    }
}

impl ScalarUDFImpl for Nullable {
    fn name(&self) -> &str {
        NULLABLE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[0].clone())
    }
}

/// `pg_typeof`: the name of its argument's type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct TypeOf {
    signature: Signature,
    /// Types whose names are not written as they are, by their oids.
    shown: BTreeMap<u32, String>,
}

impl TypeOf {
    pub(crate) fn udf(shown: BTreeMap<u32, String>) -> ScalarUDF {
        ScalarUDF::new_from_impl(Self {
            signature: Signature::any(1, Volatility::Stable),
            shown,
        })
    }
}

impl ScalarUDFImpl for TypeOf {
    fn name(&self) -> &str {
        "pg_typeof"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(datafusion::arrow::datatypes::Field::new(
            "pg_typeof",
            DataType::Utf8View,
            false,
        )))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let field = &args.arg_fields[0];
        let of_catalog = type_oid(field).and_then(|oid| match oid {
            18 => Some("\"char\""),
            19 => Some("name"),
            26 => Some("oid"),
            2205 => Some("regclass"),
            2206 => Some("regtype"),
            2278 => Some("void"),
            4072 => Some("jsonpath"),
            _ => None,
        });
        let name = match field.data_type() {
            DataType::Null => "unknown".to_string(),
            DataType::UInt64 => "bigint".to_string(),
            DataType::UInt32 => "oid".to_string(),
            _ => match tenon_storage::SqlType::from_field(&args.arg_fields[0]).map(tenon_storage::SqlType::unlimited) {
                Some(tenon_storage::SqlType::Timestamp) => "timestamp without time zone".into(),
                Some(tenon_storage::SqlType::Time) => "time without time zone".into(),
                Some(known) => match self.shown.get(&known.oid()) {
                    Some(shown) => shown.clone(),
                    None => known.base_name().to_string(),
                },
                None => "record".to_string(),
            },
        };
        let name = of_catalog.map_or(name, str::to_string);
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8View(Some(name))))
    }
}
