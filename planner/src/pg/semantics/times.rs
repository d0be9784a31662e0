//! Dates and times from one type to another, where the session's zone decides or Arrow knows no infinities; and a
//! declared type's digits of the seconds.

use crate::pg::conventions;
use crate::pg::errors::to_datafusion;
use crate::pg::functions::datetime::{STAMP, STAMPTZ, TIME, TIMETZ, converted};
use datafusion::arrow::datatypes::{DataType, FieldRef, IntervalUnit};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::datetime::limited;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Whether a cast between these types is made here.
pub(super) fn applies(from: &DataType, to: &DataType) -> bool {
    let stamp = |of: &DataType| *of == STAMP || *of == *STAMPTZ;
    if from == to {
        return false;
    }
    match from {
        DataType::Date32 => stamp(to),
        from if *from == TIME => *to == TIMETZ || *to == INTERVAL,
        from if *from == TIMETZ => *to == TIME,
        from if *from == INTERVAL => *to == TIME,
        from if stamp(from) => stamp(to) || *to == DataType::Date32 || *to == TIME || *to == TIMETZ,
        _ => false,
    }
}

pub(super) fn convert(expr: Expr, to: &DataType) -> Expr {
    call(expr, Change::Convert(to.clone()))
}

/// Cuts to what a declared type keeps.
pub(super) fn limit(expr: Expr, to: SqlType) -> Expr {
    call(expr, Change::Limit(to))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Change {
    Convert(DataType),
    Limit(SqlType),
}

fn call(expr: Expr, change: Change) -> Expr {
    let function = Changed {
        change,
        signature: Signature::any(1, Volatility::Immutable),
    };
    Arc::new(ScalarUDF::new_from_impl(function)).call(vec![expr])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Changed {
    change: Change,
    signature: Signature,
}

impl ScalarUDFImpl for Changed {
    fn name(&self) -> &str {
        match self.change {
            Change::Convert(_) => "convert_time",
            Change::Limit(_) => "limit_time",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let argument = args[0].schema_name();
        Ok(match &self.change {
            Change::Convert(to) => format!("convert_time({argument}, {to})"),
            Change::Limit(to) => format!("limit_time({argument}, {to})"),
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match &self.change {
            Change::Convert(to) => to.clone(),
            Change::Limit(_) => types[0].clone(),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = args.arg_fields[0].is_nullable();
        let own = |of: SqlType| Arc::new(of.field(self.name(), true));
        Ok(match &self.change {
            Change::Limit(to) => own(*to),
            Change::Convert(to) => {
                let field = datafusion::arrow::datatypes::Field::new(self.name(), to.clone(), true);
                Arc::new(field.with_nullable(nullable || matches!(to, DataType::Time64(_))))
            }
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let rows = if scalar { 1 } else { args.number_rows };
        let values = args.args[0].to_array(rows)?;
        let result = match &self.change {
            Change::Convert(to) => converted(&values, to, &conventions::of(&args.config_options))?,
            Change::Limit(to) => limited(values, *to).map_err(|error| to_datafusion(error.into()))?,
        };
        Ok(match scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}
