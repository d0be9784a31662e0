//! `<`, `=` and their kin of records: column by column, NULL as the greatest value.

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, LargeBinaryArray, StructArray, make_comparator,
};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Field, Fields, IntervalMonthDayNanoType};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::cmp::Ordering;
use std::sync::Arc;
use tenon_storage::composite_type::is_record;
use tenon_storage::datetime::Span;
use tenon_storage::numeric::compare_key;
use tenon_storage::types::NUMERIC;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Compare {
    op: Operator,
    signature: Signature,
}

/// A comparison of two records of one Arrow type.
pub(crate) fn compared(left: Expr, op: Operator, right: Expr) -> Expr {
    let function = Compare {
        op,
        signature: Signature::any(2, Volatility::Immutable),
    };
    Arc::new(ScalarUDF::new_from_impl(function)).call(vec![left, right])
}

/// Whether Arrow's order of equal values is no order of PostgreSQL's: then it finds some of them to differ.
pub(crate) fn has_keys(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) if is_record(data_type) => fields.iter().any(|field| has_keys(field.data_type())),
        DataType::Interval(_) => true,
        other => *other == NUMERIC,
    }
}

/// Values whose order in Arrow is that of these.
fn keys(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        of if *of == NUMERIC => {
            let values = values.as_binary::<i64>();
            Arc::new(LargeBinaryArray::from_iter(
                values.iter().map(|value| value.map(compare_key)),
            ))
        }
        DataType::Interval(_) => {
            let values = values.as_primitive::<IntervalMonthDayNanoType>().iter();
            Arc::new(Decimal128Array::from_iter(
                values.map(|value| value.map(|value| Span::from(value).length_us())),
            ))
        }
        of @ DataType::Struct(fields) if has_keys(of) => {
            let records = values.as_struct();
            let columns = records.columns().iter().map(keys).collect::<Result<Vec<_>>>()?;
            let fields = fields.iter().zip(&columns);
            let fields: Fields = fields
                .map(|(field, column)| Field::new(field.name(), column.data_type().clone(), true))
                .collect();
            Arc::new(StructArray::try_new(fields, columns, records.nulls().cloned())?)
        }
        _ => values.clone(),
    })
}

impl ScalarUDFImpl for Compare {
    fn name(&self) -> &str {
        "\u{1}compare_records"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let (left, right) = (args.args[0].to_array(rows)?, args.args[1].to_array(rows)?);
        let (left, right) = (keys(&left)?, keys(&right)?);
        let options = SortOptions {
            descending: false,
            nulls_first: false,
        };
        let compare = make_comparator(&left, &right, options)?;
        let holds: fn(Ordering) -> bool = match self.op {
            Operator::Eq => Ordering::is_eq,
            Operator::NotEq => Ordering::is_ne,
            Operator::Lt => Ordering::is_lt,
            Operator::LtEq => Ordering::is_le,
            Operator::Gt => Ordering::is_gt,
            Operator::GtEq => Ordering::is_ge,
            other => return internal_err!("{other} compares no records"),
        };
        let known = |row: &usize| left.is_valid(*row) && right.is_valid(*row);
        let compared = (0..rows).map(|row| Some(row).filter(known).map(|row| holds(compare(row, row))));
        let compared: BooleanArray = compared.collect();
        match scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&compared, 0)?)),
            false => Ok(ColumnarValue::Array(Arc::new(compared))),
        }
    }
}
