//! `bit_and`, `bit_or` and `bit_xor`: of bit strings here, of integers by DataFusion's.

use crate::pg::errors::to_datafusion;
use crate::pg::functions::bits::joined;
use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::functions_aggregate::bit_and_or_xor::{bit_and_udaf, bit_or_udaf, bit_xor_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use std::collections::BTreeSet;
use std::sync::Arc;
use tenon_storage::bits::BITS;

pub(super) fn functions() -> Vec<AggregateUDF> {
    let one = |name| {
        AggregateUDF::new_from_impl(BitAggregate {
            name,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    };
    vec![one("bit_and"), one("bit_or"), one("bit_xor")]
}

/// The aggregate of integers of a name.
pub(super) fn of_integers(name: &str) -> Option<Arc<AggregateUDF>> {
    Some(match name {
        "bit_and" => bit_and_udaf(),
        "bit_or" => bit_or_udaf(),
        "bit_xor" => bit_xor_udaf(),
        _ => return None,
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct BitAggregate {
    name: &'static str,
    signature: Signature,
}

impl AggregateUDFImpl for BitAggregate {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [own @ (DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Binary)] => Ok(vec![own.clone()]),
            [DataType::Null | DataType::UInt64 | DataType::UInt32] => Ok(vec![DataType::Int64]),
            other => plan_err!("{} does not take {other:?}", self.name),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if *args.expr_fields[0].data_type() != BITS
            && let Some(function) = of_integers(self.name)
        {
            return function.accumulator(args);
        }
        Ok(Box::new(Strings {
            name: self.name,
            value: None,
            seen: (args.is_distinct && self.name == "bit_xor").then(BTreeSet::new),
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let own = args.return_type().clone();
        let own = match args.is_distinct && self.name == "bit_xor" {
            true => DataType::new_list(own, true),
            false => own,
        };
        Ok(vec![Arc::new(Field::new(
            format_state_name(args.name, self.name),
            own,
            true,
        ))])
    }
}

/// All so far as one.
#[derive(Debug)]
struct Strings {
    name: &'static str,
    value: Option<Vec<u8>>,
    /// With DISTINCT, which only the exclusive or tells from all.
    seen: Option<BTreeSet<Vec<u8>>>,
}

impl Strings {
    fn is_new(&mut self, bits: &[u8]) -> bool {
        match &mut self.seen {
            Some(seen) => seen.insert(bits.to_vec()),
            None => true,
        }
    }

    fn add(&mut self, bits: &[u8]) -> Result<()> {
        let Some(value) = &self.value else {
            self.value = Some(bits.to_vec());
            return Ok(());
        };
        let joined = match self.name {
            "bit_and" => joined(value, bits, "AND", |a, b| a & b),
            "bit_or" => joined(value, bits, "OR", |a, b| a | b),
            _ => joined(value, bits, "XOR", |a, b| a ^ b),
        };
        self.value = Some(joined.map_err(to_datafusion)?);
        Ok(())
    }
}

impl Accumulator for Strings {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for bits in values[0].as_binary::<i32>().iter().flatten() {
            if self.is_new(bits) {
                self.add(bits)?;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Binary(self.value.clone()))
    }

    fn size(&self) -> usize {
        let held = |bits: &Vec<u8>| size_of::<Vec<u8>>() + bits.capacity();
        let seen = self.seen.iter().flatten().map(held).sum::<usize>();
        size_of_val(self) + self.value.as_ref().map_or(0, held) + seen
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![match &self.seen {
            Some(seen) => {
                let values: Vec<_> = seen
                    .iter()
                    .map(|bits| ScalarValue::Binary(Some(bits.clone())))
                    .collect();
                ScalarValue::List(ScalarValue::new_list(&values, &BITS, true))
            }
            None => ScalarValue::Binary(self.value.clone()),
        }])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        match states[0].as_list_opt::<i32>() {
            Some(lists) => lists.iter().flatten().try_for_each(|seen| self.update_batch(&[seen])),
            None => self.update_batch(states),
        }
    }
}
