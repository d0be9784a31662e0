//! `range_agg` and `range_intersect_agg`.

use super::super::enums::undefined;
use super::values::{spans, to_bytes, values};
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::range;

pub(in crate::pg::functions) fn functions() -> Vec<AggregateUDF> {
    let one = |intersects| {
        AggregateUDF::new_from_impl(RangeAggregate {
            intersects,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    };
    vec![one(false), one(true)]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct RangeAggregate {
    intersects: bool,
    signature: Signature,
}

impl RangeAggregate {
    fn gives(&self, types: &[DataType]) -> Result<SqlType> {
        match types {
            [own] => match SqlType::range_of(own) {
                Some(SqlType::Range(of)) if !self.intersects => Some(SqlType::Multirange(of)),
                of => of,
            },
            _ => None,
        }
        .ok_or_else(|| undefined(self.name(), types))
    }
}

impl AggregateUDFImpl for RangeAggregate {
    fn name(&self) -> &str {
        if self.intersects {
            "range_intersect_agg"
        } else {
            "range_agg"
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.gives(types).map(|_| types.to_vec())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(self.gives(types)?.data_type())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let types: Vec<DataType> = args.expr_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Box::new(Ranges {
            intersects: self.intersects,
            of: self.gives(&types)?,
            value: None,
            waiting: Vec::new(),
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let own = args.return_type().clone();
        Ok(vec![Arc::new(Field::new(
            format_state_name(args.name, "value"),
            own,
            true,
        ))])
    }
}

/// Most ranges that wait until they are put in order.
const WAITING_MAX: usize = 4096;

#[derive(Debug)]
struct Ranges {
    intersects: bool,
    of: SqlType,
    /// The bytes of the result so far.
    value: Option<Vec<u8>>,
    /// Bytes of multiranges that belong to the union.
    waiting: Vec<Vec<u8>>,
}

impl Ranges {
    fn add(&mut self, array: &ArrayRef) -> Result<()> {
        let given = SqlType::range_of(array.data_type()).unwrap_or(self.of);
        for bytes in values(array)?.iter().flatten() {
            if self.intersects {
                self.value = Some(match &self.value {
                    None => bytes.to_vec(),
                    Some(own) => {
                        let both = range::intersection(&spans(self.of, own), &spans(given, bytes));
                        to_bytes(self.of, &both)
                    }
                });
                continue;
            }
            self.waiting.push(to_bytes(self.of, &spans(given, bytes)));
            if self.waiting.len() >= WAITING_MAX {
                self.unite();
            }
        }
        Ok(())
    }

    fn unite(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut self.waiting);
        let all = self.value.iter().chain(&waiting);
        let all: Vec<_> = all.flat_map(|bytes| spans(self.of, bytes)).collect();
        self.value = Some(to_bytes(self.of, &range::of_ranges(all)));
    }
}

impl Accumulator for Ranges {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.add(&arrays[0])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.add(&states[0])
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.unite();
        ScalarValue::try_from_array(&range::array(self.of, [self.value.as_deref()]), 0)
    }

    fn size(&self) -> usize {
        let waiting = self.waiting.iter().map(|bytes| bytes.capacity() + size_of::<Vec<u8>>());
        size_of_val(self) + self.value.as_ref().map_or(0, Vec::capacity) + waiting.sum::<usize>()
    }
}
