//! `array_agg` and `string_agg`, with DISTINCT and ORDER BY, over accounts of memory that are true. DataFusion's keep a
//! scalar value for each row that is to be sorted, grow texts by doubling, and leave out the strings behind views.
//!
//! Signatures and result types are DataFusion's, but for `string_agg` of bytes, and so are windows whose start moves.

mod codes;
mod groups;
mod rows;
mod sort;
#[cfg(test)]
mod tests;

use crate::pg::error::{SqlError, SqlState};
use crate::pg::errors::to_datafusion;
use crate::pg::functions::array::array_of_records;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, not_impl_err, plan_err};
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::functions_aggregate::string_agg::string_agg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility};
use datafusion::physical_expr::expressions::Literal;
use groups::{Groups, One, Outcome, state_type};
pub(super) use rows::{GroupedRows, Order};
use std::sync::Arc;

const INVALID_COLUMN_REFERENCE: SqlState = SqlState("42P10");

pub(super) fn functions() -> [AggregateUDF; 2] {
    let text_or_bytes = Signature::user_defined(Volatility::Immutable);
    let any = array_agg_udaf().signature().clone();
    [(array_agg_udaf(), any), (string_agg_udaf(), text_or_bytes)]
        .map(|(base, signature)| AggregateUDF::new_from_impl(Collect { base, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Collect {
    /// DataFusion's function of the same name.
    base: Arc<AggregateUDF>,
    signature: Signature,
}

impl Collect {
    fn groups(&self, args: &AccumulatorArgs) -> Result<Groups> {
        let value = &args.expr_fields[0];
        let (outcome, ignore_nulls) = match args.exprs.get(1) {
            Some(_) => (
                Outcome::Text {
                    delimiter: delimiter(args)?,
                },
                true,
            ),
            None => (Outcome::List, args.ignore_nulls && value.is_nullable()),
        };
        let mut types = vec![value.data_type().clone()];
        let mut arguments = vec![0];
        let keys = match args.is_distinct {
            true => vec![distinct_order(args)?],
            false => {
                for (at, key) in args.order_bys.iter().enumerate() {
                    types.push(key.expr.data_type(args.schema)?);
                    arguments.push(args.exprs.len() + at);
                }
                args.order_bys.iter().map(|key| key.options).collect()
            }
        };
        let order = Order {
            keys,
            distinct: args.is_distinct,
        };
        Ok(Groups::new(types, arguments, order, outcome, ignore_nulls))
    }
}

fn delimiter(args: &AccumulatorArgs) -> Result<Vec<u8>> {
    let literal = args.exprs[1].downcast_ref::<Literal>().map(Literal::value);
    let text = literal.and_then(|value| value.try_as_str());
    match (literal, text) {
        (Some(value), _) if value.is_null() => Ok(Vec::new()),
        (Some(ScalarValue::BinaryView(Some(bytes))), _) => Ok(bytes.clone()),
        (_, Some(text)) => Ok(text.unwrap_or_default().into()),
        _ => not_impl_err!("string_agg delimiter must be a string literal"),
    }
}

/// With DISTINCT values are sorted by themselves.
fn distinct_order(args: &AccumulatorArgs) -> Result<SortOptions> {
    match args.order_bys {
        [] => Ok(SortOptions::new(false, false)),
        [key] if key.expr.eq(&args.exprs[0]) => Ok(key.options),
        _ => Err(to_datafusion(SqlError::new(
            INVALID_COLUMN_REFERENCE,
            "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list",
        ))),
    }
}

impl AggregateUDFImpl for Collect {
    fn name(&self) -> &str {
        self.base.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Of `string_agg`, whose arguments are both text or both bytes.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let text = |of: &DataType| match of {
            DataType::Null => Some(DataType::Utf8View),
            of => of.is_string().then(|| of.clone()),
        };
        let coerced = match types {
            [DataType::Binary | DataType::LargeBinary | DataType::BinaryView, _] => Some(vec![DataType::BinaryView; 2]),
            [value, delimiter] => text(value)
                .zip(text(delimiter))
                .map(|(value, delimiter)| vec![value, delimiter]),
            _ => None,
        };
        let Some(coerced) = coerced else {
            let types: Vec<String> = types.iter().map(ToString::to_string).collect();
            let call = format!("{}({})", self.name(), types.join(", "));
            return plan_err!("No function matches the given name and argument types '{call}'.");
        };
        Ok(coerced)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::BinaryView, _] => Ok(DataType::BinaryView),
            _ => self.base.return_type(types),
        }
    }

    /// An array of records says of what type these are.
    fn return_field(&self, args: &[FieldRef]) -> Result<FieldRef> {
        let types: Vec<DataType> = args.iter().map(|own| own.data_type().clone()).collect();
        let field = Field::new(self.name(), self.return_type(&types)?, self.is_nullable());
        let metadata = match field.data_type() {
            DataType::List(_) => array_of_records(&args[0]),
            _ => None,
        };
        Ok(Arc::new(field.with_metadata(metadata.unwrap_or_default())))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let mut types = vec![args.input_fields[0].data_type().clone()];
        if !args.is_distinct {
            types.extend(args.ordering_fields.iter().map(|field| field.data_type().clone()));
        }
        let name = format_state_name(args.name, "rows");
        Ok(vec![Arc::new(Field::new(name, state_type(&types), true))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One(self.groups(&args)?)))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(self.groups(&args)?))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.base.create_sliding_accumulator(args)
    }

    /// Sorted here, so that no plan need sort for it.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Beneficial
    }

    fn with_beneficial_ordering(self: Arc<Self>, _: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.base.supports_null_handling_clause()
    }
}
