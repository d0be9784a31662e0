//! `generate_subscripts(array, dimension [, reverse])`: from 1, for vectors of system tables from 0.

use super::list::items;
use super::{SetFunction, SetRows, undefined};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int32Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int32Type};
use datafusion::common::Result;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct GenerateSubscripts;

impl SetFunction for GenerateSubscripts {
    fn name(&self) -> &str {
        "generate_subscripts"
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [list @ (DataType::List(_) | DataType::LargeList(_)), _] => Ok(vec![list.clone(), DataType::Int32]),
            [list @ (DataType::List(_) | DataType::LargeList(_)), _, _] => {
                Ok(vec![list.clone(), DataType::Int32, DataType::Boolean])
            }
            _ => Err(undefined(self.name(), types)),
        }
    }

    fn field(&self, _: &[FieldRef]) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), DataType::Int32, true)))
    }

    fn rows(&self, args: &[ArrayRef], row: usize) -> Result<Box<dyn SetRows>> {
        let dimension = args[1].as_primitive::<Int32Type>().value(row);
        let mut values = items(&args[0], row);
        for _ in 1..dimension.max(1) {
            let inner = matches!(values.data_type(), DataType::List(_)) && !values.is_empty() && values.is_valid(0);
            if !inner {
                return Ok(Box::new(Subscripts {
                    next: 1,
                    left: 0,
                    step: 1,
                }));
            }
            values = items(&values, 0);
        }
        let left = if dimension < 1 { 0 } else { values.len() };
        let first = i32::from(!matches!(args[0].data_type(), DataType::LargeList(_)));
        let reverse = args.get(2).is_some_and(|reverse| reverse.as_boolean().value(row));
        Ok(Box::new(match reverse {
            true => Subscripts {
                next: first + left as i32 - 1,
                left,
                step: -1,
            },
            false => Subscripts {
                next: first,
                left,
                step: 1,
            },
        }))
    }
}

struct Subscripts {
    next: i32,
    left: usize,
    step: i32,
}

impl SetRows for Subscripts {
    fn next(&mut self, most: usize) -> Result<ArrayRef> {
        let taken = most.min(self.left);
        let (first, step) = (self.next, self.step);
        let values = Int32Array::from_iter_values((0..taken as i32).map(|at| first + at * step));
        self.next = self.next.wrapping_add(taken as i32 * step);
        self.left -= taken;
        Ok(Arc::new(values))
    }
}
