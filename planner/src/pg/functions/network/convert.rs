//! Casts between the types of addresses.

use super::super::bits::of_columns;
use super::is_network;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result as DataFusionResult;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::network::{self, Address, CIDR, INET, MACADDR, MACADDR8};

/// Whether `cast` is what a cast between these types is.
pub(crate) fn converts(from: &DataType, to: &DataType) -> bool {
    from != to
        && (is_network(from) && is_network(to)
            || [MACADDR, MACADDR8].contains(from) && [MACADDR, MACADDR8].contains(to))
}

/// An address as one of the other type of its kind.
pub(crate) fn converted(expr: Expr, from: &DataType) -> Expr {
    let to = match from {
        of if *of == INET => SqlType::Cidr,
        of if *of == CIDR => SqlType::Inet,
        of if *of == MACADDR => SqlType::MacAddr8,
        _ => SqlType::MacAddr,
    };
    let function = Convert {
        to,
        signature: Signature::any(1, Volatility::Immutable),
    };
    Arc::new(ScalarUDF::new_from_impl(function)).call(vec![expr])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Convert {
    to: SqlType,
    signature: Signature,
}

impl Convert {
    fn value(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        match self.to {
            SqlType::Inet | SqlType::Cidr => Ok(Address::from_bytes(bytes).to_bytes(self.to == SqlType::Cidr)),
            SqlType::MacAddr8 => Ok(network::widened(bytes)),
            _ => match bytes {
                [a, b, c, 0xff, 0xfe, d, e, f] => Ok(vec![*a, *b, *c, *d, *e, *f]),
                _ => Err(SqlError::new(
                    state::NUMERIC_VALUE_OUT_OF_RANGE,
                    "macaddr8 data out of range to convert to macaddr",
                )
                .hint(
                    "Only addresses that have FF and FE as values in the 4th and 5th bytes from the left, for example xx:xx:xx:ff:fe:xx:xx:xx, \
                     are eligible to be converted from macaddr8 to macaddr.",
                )),
            },
        }
    }

    fn values(&self, array: &ArrayRef) -> DataFusionResult<ArrayRef> {
        let values = array.as_fixed_size_binary().iter();
        let values = values.map(|bytes| bytes.map(|bytes| self.value(bytes)).transpose());
        let values: Vec<_> = values.collect::<Result<_>>().map_err(to_datafusion)?;
        network::array(self.to, values).map_err(|error| to_datafusion(error.into()))
    }
}

impl ScalarUDFImpl for Convert {
    fn name(&self) -> &str {
        "\u{1}address"
    }

    fn schema_name(&self, args: &[Expr]) -> DataFusionResult<String> {
        Ok(format!("{}({})", self.to, args[0].schema_name()))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(self.to.data_type())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> DataFusionResult<FieldRef> {
        Ok(Arc::new(self.to.field(self.name(), args.arg_fields[0].is_nullable())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        of_columns(&args, |array| self.values(array))
    }
}
