//! `raise(sqlstate, message, schema, type, constraint, value)`: fails for any row. Conditions that the planner adds to expressions
//! end in it; what it would return has the type of its last argument. The names are those of a domain, and of its
//! condition (empty: NOT NULL).

use crate::pg::error::{SqlError, SqlState};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::new_null_array;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use tenon_storage::Subject;

/// No name that a client could write without quotes.
pub(crate) const RAISE: &str = "\u{1}raise";

/// The states that it is called with.
const STATES: [&str; 3] = ["23502", "23514", "44000"];

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Raise {
    signature: Signature,
}

impl Raise {
    pub(crate) fn new() -> Self {
        Self {
            signature: Signature::any(6, Volatility::Volatile),
        }
    }
}

fn text(value: &ColumnarValue) -> String {
    match value {
        ColumnarValue::Scalar(value) => value.try_as_str().flatten().unwrap_or_default().to_string(),
        ColumnarValue::Array(values) => ScalarValue::try_from_array(values, 0)
            .ok()
            .and_then(|value| value.try_as_str().flatten().map(str::to_string))
            .unwrap_or_default(),
    }
}

impl ScalarUDFImpl for Raise {
    fn name(&self) -> &str {
        RAISE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[5].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if args.number_rows == 0 {
            let of = args.args[5].data_type();
            return Ok(ColumnarValue::Array(new_null_array(&of, 0)));
        }
        let given = text(&args.args[0]);
        let state = STATES.iter().find(|state| **state == given).copied().unwrap_or("XX000");
        let subject = Subject {
            constraint: Some(text(&args.args[4])).filter(|name| !name.is_empty()),
            ..Subject::data_type(text(&args.args[2]), text(&args.args[3]))
        };
        Err(to_datafusion(
            SqlError::new(SqlState(state), text(&args.args[1])).about(subject),
        ))
    }
}
